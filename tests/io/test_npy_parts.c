/* Arrays in parts: each part equals that part of the whole; refused files, and a file that becomes shorter
   while it is open. Bugs tried and caught: a part read from the start of the file; a short read counted as
   complete; a directory taken for a file; the descriptor leaked when the header is bad; waiting for a pipe.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/npy_parts.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "support/folder.h"

enum { ROWS = 7, COLS = 5 };

static void put_array(struct folder *folder, const char *path)
{
    float data[ROWS * COLS];
    for (size_t i = 0; i < ROWS * COLS; i++)
        data[i] = (float)i;
    struct npy array = {.type = NPY_FLOAT32, .rank = 2, .shape = {ROWS, COLS}, .data = data};
    check_status(&folder->host, npy_write(&folder->host, path, &array), HASHATTN_OK, NULL);
}

static void path_in(const struct folder *folder, const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", folder->path, name);
}

static void parts_are_parts_of_the_whole(void **state)
{
    struct folder *folder = *state;
    char path[200];
    path_in(folder, "a.npy", path, sizeof path);
    put_array(folder, path);
    struct npy_reader reader;
    check_status(&folder->host, npy_open(&folder->host, path, &reader), HASHATTN_OK, NULL);
    assert_true(reader.array.type == NPY_FLOAT32 && reader.array.rank == 2 && reader.array.data == NULL);
    assert_int_equal(reader.array.shape[0], ROWS);
    assert_int_equal(reader.array.count, ROWS * COLS);
    for (size_t first = 0; first <= ROWS * COLS; first += 3)
        for (size_t count = 0; first + count <= ROWS * COLS; count += 4) {
            float part[ROWS * COLS];
            check_status(&folder->host, npy_read_part(&folder->host, &reader, first, count, part),
                         HASHATTN_OK, NULL);
            for (size_t i = 0; i < count; i++)
                assert_true(part[i] == (float)(first + i));
        }
    npy_close(&reader);
    npy_close(&reader);
}

static void a_file_that_becomes_shorter_is_reported(void **state)
{
    struct folder *folder = *state;
    char path[200];
    float part[ROWS * COLS];
    path_in(folder, "a.npy", path, sizeof path);
    put_array(folder, path);
    struct npy_reader reader;
    check_status(&folder->host, npy_open(&folder->host, path, &reader), HASHATTN_OK, NULL);
    assert_int_equal(truncate(path, (off_t)(reader.data + 21 * sizeof(float) + 1)), 0);
    check_status(&folder->host, npy_read_part(&folder->host, &reader, 0, 21, part), HASHATTN_OK, NULL);
    check_status(&folder->host, npy_read_part(&folder->host, &reader, 10, 20, part), HASHATTN_BAD_FILE,
                 "a.npy: ends at element 21, it had 35 when it was opened");
    npy_close(&reader);
}

/* The number of the next descriptor, which shows how many are open. */
static int next_descriptor(void)
{
    int descriptor = open("/dev/null", O_RDONLY);
    close(descriptor);
    return descriptor;
}

static void files_without_an_array_are_refused(void **state)
{
    struct folder *folder = *state;
    char path[200];
    struct npy_reader reader;
    int before = next_descriptor();
    path_in(folder, "none.npy", path, sizeof path);
    check_status(&folder->host, npy_open(&folder->host, path, &reader), HASHATTN_BAD_FILE, "none.npy: ");
    check_status(&folder->host, npy_open(&folder->host, folder->path, &reader), HASHATTN_BAD_FILE,
                 "is a directory, a regular file is needed");
    check_status(&folder->host, npy_open(&folder->host, "/dev/null", &reader), HASHATTN_BAD_FILE,
                 "is a device, a regular file is needed");
    path_in(folder, "pipe.npy", path, sizeof path);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(20); /* opening the pipe would wait for a writer forever */
    check_status(&folder->host, npy_open(&folder->host, path, &reader), HASHATTN_BAD_FILE, "is a pipe");
    alarm(0);
    path_in(folder, "b.npy", path, sizeof path);
    folder_put_text(folder, "b.npy", "no array");
    check_status(&folder->host, npy_open(&folder->host, path, &reader), HASHATTN_BAD_FILE,
                 "b.npy: not an .npy file");
    folder_put_text(folder, "b.npy", "");
    check_status(&folder->host, npy_open(&folder->host, path, &reader), HASHATTN_BAD_FILE, "its 0 bytes");
    put_array(folder, path);
    assert_int_equal(truncate(path, 200), 0);
    check_status(&folder->host, npy_open(&folder->host, path, &reader), HASHATTN_BAD_FILE,
                 "cut short: (7, 5) float32 has 140 bytes of data");
    assert_int_equal(reader.descriptor, -1);
    assert_int_equal(next_descriptor(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parts_are_parts_of_the_whole, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(a_file_that_becomes_shorter_is_reported, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(files_without_an_array_are_refused, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
