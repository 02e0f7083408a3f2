/* A directory under /tmp, with only the C library, so that the code under test does not check itself.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/folder.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int folder_enter(void **state)
{
    struct folder *folder = calloc(1, sizeof *folder);
    *state = folder;
    if (folder == NULL)
        return -1;
    host_init(&folder->host);
    strcpy(folder->path, "/tmp/hashattn_test.XXXXXX");
    return mkdtemp(folder->path) == NULL ? -1 : 0;
}

static int remove_one(const char *path, const struct stat *facts, int kind, struct FTW *place)
{
    (void)facts;
    (void)kind;
    (void)place;
    return remove(path);
}

int folder_leave(void **state)
{
    struct folder *folder = *state;
    int failed = nftw(folder->path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(folder);
    return failed;
}

static FILE *open_in(const struct folder *folder, const char *name, const char *mode)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    FILE *file = fopen(path, mode);
    if (file == NULL)
        fail_msg("cannot open %s", path);
    return file;
}

void folder_put(const struct folder *folder, const char *name, const void *bytes, size_t size)
{
    FILE *file = open_in(folder, name, "wb");
    if (fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
        fail_msg("cannot write %zu bytes of %s", size, name);
}

void folder_put_text(const struct folder *folder, const char *name, const char *text)
{
    folder_put(folder, name, text, strlen(text));
}

char *folder_get(const struct folder *folder, const char *name, size_t *size)
{
    FILE *file = open_in(folder, name, "rb");
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*size + 1);
    if (bytes == NULL || fread(bytes, 1, *size, file) != *size)
        fail_msg("cannot read %zu bytes of %s", *size, name);
    fclose(file);
    bytes[*size] = '\0';
    return bytes;
}

void folder_remove(const struct folder *folder, const char *name)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    remove(path);
}

int folder_temporaries(const char *path)
{
    int count = 0;
    DIR *directory = opendir(path);
    if (directory == NULL)
        fail_msg("cannot list %s", path);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += strstr(entry->d_name, ".tmp") != NULL;
    closedir(directory);
    return count;
}
