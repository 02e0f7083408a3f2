/* mkdtemp, a path in it, and removal.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/place.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_writer.h"
#include "base/memory.h"
#include "support/folder.h"

int place_enter(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    host_init(&place->host);
    strcpy(place->directory, "/tmp/test_file.XXXXXX");
    if (mkdtemp(place->directory) == NULL)
        return -1;
    snprintf(place->path, sizeof place->path, "%s/file", place->directory);
    *state = place;
    return 0;
}

int place_leave(void **state)
{
    struct place *place = *state;
    chmod(place->directory, 0700);
    DIR *directory = opendir(place->directory);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", place->directory, entry->d_name);
        remove(path);
    }
    closedir(directory);
    int failed = rmdir(place->directory);
    free(place);
    return failed;
}

void place_put(struct place *place, const char *text)
{
    struct file_writer writer;
    check_status(&place->host, file_open_writer(&place->host, place->path, &writer), HASHATTN_OK, NULL);
    file_write(&writer, text, strlen(text));
    check_status(&place->host, file_commit(&place->host, &writer), HASHATTN_OK, NULL);
}

void place_check(struct place *place, const char *text)
{
    char *bytes;
    size_t size;
    check_status(&place->host, file_read(&place->host, place->path, 1 << 20, &bytes, &size), HASHATTN_OK,
                 NULL);
    assert_int_equal(size, strlen(text));
    assert_string_equal(bytes, text); /* so a NUL follows the end */
    memory_free(&place->host, bytes);
    assert_int_equal(folder_temporaries(place->directory), 0);
}
