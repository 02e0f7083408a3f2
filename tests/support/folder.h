/* A separate directory for every test that reads and writes files.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_FOLDER_H
#define TESTS_SUPPORT_FOLDER_H

#include "support/check.h"

/* cmocka's set-up and tear-down: *state is a struct folder; tear-down removes its files. */
struct folder {
    struct host host;
    char path[64];
};
int folder_enter(void **state);
int folder_leave(void **state);

/* Writes the file `name`. */
void folder_put(const struct folder *folder, const char *name, const void *bytes, size_t size);
void folder_put_text(const struct folder *folder, const char *name, const char *text);
/* Reads the file `name` and appends a NUL; free with free(). */
char *folder_get(const struct folder *folder, const char *name, size_t *size);
void folder_remove(const struct folder *folder, const char *name);
/* The number of temporary files of file_writer.h in a directory. */
int folder_temporaries(const char *directory);

#endif
