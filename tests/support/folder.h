/* A directory of its own for every test that reads and writes files. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_FOLDER_H
#define TESTS_SUPPORT_FOLDER_H

#include "support/check.h"

/* cmocka's set-up and tear-down: *state is a struct folder; leaving removes the files in it. */
struct folder {
    struct host host;
    char path[64];
};
int folder_enter(void **state);
int folder_leave(void **state);

/* The file `name` with these bytes. */
void folder_put(const struct folder *folder, const char *name, const void *bytes, size_t size);
void folder_put_text(const struct folder *folder, const char *name, const char *text);
/* The bytes of the file `name` with a NUL behind them, for free(). */
char *folder_get(const struct folder *folder, const char *name, size_t *size);
void folder_remove(const struct folder *folder, const char *name);
/* How many temporary files of file_writer.h a directory has. */
int folder_temporaries(const char *directory);

#endif
