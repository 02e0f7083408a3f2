/* A new directory and the path of one file in it, for tests of code that reads and writes files.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PLACE_H
#define TESTS_SUPPORT_PLACE_H

#include "support/check.h"

/* cmocka's set-up and tear-down: *state is a struct place; tear-down removes every file of the directory. */
struct place {
    struct host host;
    char directory[64], path[96]; /* path: the file "file" in the directory */
};
int place_enter(void **state);
int place_leave(void **state);
#define PLACED(test) cmocka_unit_test_setup_teardown(test, place_enter, place_leave)

/* Writes the file with file_writer.h. */
void place_put(struct place *place, const char *text);
/* Fails unless the file holds this text and the directory has no temporary file. */
void place_check(struct place *place, const char *text);

#endif
