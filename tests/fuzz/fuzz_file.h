/* For targets that read files by name: a directory of this process whose files are links to memory, so that
   inputs are not written to disk. Made on first use, removed at exit.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FUZZ_FUZZ_FILE_H
#define TESTS_FUZZ_FUZZ_FILE_H

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/fuzz.h"

enum { FUZZ_PATH = 200, FUZZ_NAMES = 4 };

/* Each target has its own. */
static char fuzz_directory[64];
static struct {
    char path[FUZZ_PATH];
    int memory;
} fuzz_files[FUZZ_NAMES];

static void fuzz_clean(void)
{
    for (int i = 0; i < FUZZ_NAMES; i++)
        unlink(fuzz_files[i].path);
    rmdir(fuzz_directory);
}

static inline void fuzz_remove(const char *path)
{
    FUZZ_CHECK(unlink(path) == 0);
}

/* Writes the bytes to the file `name`, one of at most four, and returns its path. */
static const char *fuzz_file(const char *name, const void *bytes, size_t size)
{
    char path[FUZZ_PATH], target[64];
    if (fuzz_directory[0] == '\0') {
        strcpy(fuzz_directory, "/tmp/hashattn_fuzz.XXXXXX");
        FUZZ_CHECK(mkdtemp(fuzz_directory) != NULL && atexit(fuzz_clean) == 0);
    }
    snprintf(path, sizeof path, "%s/%s", fuzz_directory, name);
    int i = 0;
    while (i < FUZZ_NAMES && fuzz_files[i].path[0] != '\0' && strcmp(fuzz_files[i].path, path) != 0)
        i++;
    FUZZ_CHECK(i < FUZZ_NAMES);
    if (fuzz_files[i].path[0] == '\0') {
        strcpy(fuzz_files[i].path, path);
        fuzz_files[i].memory = memfd_create(name, 0);
    }
    int memory = fuzz_files[i].memory;
    FUZZ_CHECK(memory >= 0 && ftruncate(memory, 0) == 0 && pwrite(memory, bytes, size, 0) == (ssize_t)size);
    snprintf(target, sizeof target, "/proc/self/fd/%d", memory);
    if (access(path, F_OK) != 0)
        FUZZ_CHECK(symlink(target, path) == 0);
    return fuzz_files[i].path;
}

#endif
