/* .npy files through the public header; the format itself is tested in tests/io/test_npy.c. Planted and
   caught: int64 read as bytes; the shape written without its last axis; an array not emptied by free; a
   product of the shape that wraps; a length written that no reader takes; the end of a part in a message
   wraps.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/api_context.h"

static const char path[] = "test_arrays.npy";

/* Writes a version 1.0 file with this dictionary and data. */
static void write_file(const char *dictionary, const void *data, size_t size)
{
    unsigned char head[128];
    memset(head, ' ', sizeof head);
    memcpy(head, "\x93NUMPY\x01\x00", 8);
    head[8] = sizeof head - 10;
    head[9] = 0;
    memcpy(head + 10, dictionary, strlen(dictionary));
    head[sizeof head - 1] = '\n';
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(head, 1, sizeof head, file), sizeof head);
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    float data[24];
    hashattn_fill_normal(1, 0, data, 24);
    static const size_t shapes[5][4] = {{0}, {24}, {4, 6}, {2, 3, 4}, {1, 2, 3, 4}};
    for (int rank = 0; rank <= 4; rank++) {
        check_ok(context, hashattn_npy_write(context, path, data, rank, shapes[rank]));
        hashattn_npy array;
        check_ok(context, hashattn_npy_read(context, path, &array));
        assert_int_equal(array.element, HASHATTN_FLOAT32);
        assert_int_equal(array.rank, rank);
        for (int i = 0; i < rank; i++)
            assert_int_equal(array.shape[i], shapes[rank][i]);
        check_same_bits(array.data, data, (rank == 0 ? 1 : 24) * sizeof(float), "data");
        hashattn_npy_free(context, &array);
        assert_null(array.data);
        hashattn_npy_free(context, &array);
    }
    const size_t empty[] = {3, 0};
    check_ok(context, hashattn_npy_write(context, path, NULL, 2, empty));
    hashattn_npy array;
    check_ok(context, hashattn_npy_read(context, path, &array));
    assert_int_equal(array.shape[0], 3);
    assert_int_equal(array.shape[1], 0);
    hashattn_npy_free(context, &array);
    hashattn_npy_free(NULL, &array);
    unlink(path);
    hashattn_context_free(context);
}

static void bytes_and_bools_are_bytes(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    static const char *const types[] = {"|b1", "|u1"};
    for (size_t i = 0; i < 2; i++) {
        char dictionary[100];
        snprintf(dictionary, sizeof dictionary, "{'descr': '%s', 'fortran_order': False, 'shape': (3,), }",
                 types[i]);
        write_file(dictionary, "\1\0\1", 3);
        hashattn_npy array;
        check_ok(context, hashattn_npy_read(context, path, &array));
        assert_int_equal(array.element, HASHATTN_BYTE);
        assert_memory_equal(array.data, "\1\0\1", 3);
        hashattn_npy_free(context, &array);
    }
    unlink(path);
    hashattn_context_free(context);
}

static void other_files_are_refused(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_npy array;
    write_file("{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }", "12345678", 8);
    check_call(context, hashattn_npy_read(context, path, &array), HASHATTN_BAD_FILE, "holds int64, float32");
    assert_null(array.data);
    write_file("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "12345678", 8);
    check_call(context, hashattn_npy_read(context, path, &array), HASHATTN_BAD_FILE, path);
    unlink(path);
    check_call(context, hashattn_npy_read(context, path, &array), HASHATTN_BAD_FILE, "No such file");
    hashattn_context_free(context);
}

static void arguments_are_checked(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_npy array;
    const float data[4] = {0};
    const size_t shape[] = {2, 2}, huge[] = {SIZE_MAX / 2, 16};
    check_call(context, hashattn_npy_read(context, NULL, &array), HASHATTN_INVALID, "path is NULL");
    check_call(context, hashattn_npy_read(context, path, NULL), HASHATTN_INVALID, "array is NULL");
    check_call(context, hashattn_npy_write(context, NULL, data, 2, shape), HASHATTN_INVALID, "path");
    check_call(context, hashattn_npy_write(context, path, data, 2, NULL), HASHATTN_INVALID, "shape");
    check_call(context, hashattn_npy_write(context, path, NULL, 2, shape), HASHATTN_INVALID, "data is NULL");
    check_call(context, hashattn_npy_write(context, path, data, 5, shape), HASHATTN_INVALID, "rank is 5");
    check_call(context, hashattn_npy_write(context, path, data, -1, shape), HASHATTN_INVALID, "rank is -1");
    check_call(context, hashattn_npy_write(context, path, data, 2, huge), HASHATTN_INVALID, "too large");
    check_call(context, hashattn_npy_write(context, "/nowhere/at/all.npy", data, 2, shape), HASHATTN_NO_DISK,
               "/nowhere/at/all.npy");
    /* The largest array of floats that can be counted, and no numbers of it and of a larger shape. */
    const size_t most[] = {PTRDIFF_MAX / sizeof(float)}, more[] = {PTRDIFF_MAX / sizeof(float) + 1},
                 none[] = {PTRDIFF_MAX / sizeof(float), 0}, unread[] = {0, PTRDIFF_MAX / sizeof(float) + 1};
    check_call(context, hashattn_npy_write(context, path, NULL, 1, most), HASHATTN_INVALID, "data is NULL");
    check_call(context, hashattn_npy_write(context, path, NULL, 1, more), HASHATTN_INVALID, "too large");
    check_call(context, hashattn_npy_write(context, path, NULL, 2, unread), HASHATTN_INVALID, "too large");
    check_ok(context, hashattn_npy_write(context, path, NULL, 2, none));
    check_ok(context, hashattn_npy_read(context, path, &array));
    assert_true(array.shape[0] == none[0] && array.shape[1] == 0);
    hashattn_npy_free(context, &array);
    check_ok(context, hashattn_npy_write(context, path, data, 0, NULL));
    const size_t ones[] = {1, 1, 1, 1};
    check_ok(context, hashattn_npy_write(context, path, data, 4, ones));
    unlink(path);
    assert_int_equal(hashattn_npy_read(NULL, path, &array), HASHATTN_INVALID);
    assert_int_equal(hashattn_npy_write(NULL, path, data, 2, shape), HASHATTN_INVALID);
    assert_int_equal(access(path, F_OK), -1);
    hashattn_context_free(context);
}

static void arguments_of_parts_are_checked(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    const size_t shape[] = {2};
    const float data[2] = {1, 2};
    float part[2];
    hashattn_npy array;
    hashattn_npy_reader *reader = (hashattn_npy_reader *)(void *)part;
    hashattn_npy_writer *writer = (hashattn_npy_writer *)(void *)part;
    assert_int_equal(hashattn_npy_begin(NULL, path, 1, shape, &writer), HASHATTN_INVALID);
    check_call(context, hashattn_npy_begin(context, NULL, 1, shape, &writer), HASHATTN_INVALID,
               "path is NULL");
    check_call(context, hashattn_npy_begin(context, path, 1, shape, NULL), HASHATTN_INVALID,
               "writer is NULL");
    check_call(context, hashattn_npy_begin(context, path, 1, NULL, &writer), HASHATTN_INVALID,
               "shape is NULL");
    check_call(context, hashattn_npy_begin(context, path, 5, shape, &writer), HASHATTN_INVALID, "rank is 5");
    assert_null(writer);
    check_call(context, hashattn_npy_begin(context, "/nowhere/x.npy", 1, shape, &writer), HASHATTN_NO_DISK,
               "/nowhere");
    assert_null(writer);
    assert_int_equal(hashattn_npy_commit(NULL), HASHATTN_INVALID);
    check_ok(context, hashattn_npy_begin(context, path, 0, NULL, &writer)); /* a single number */
    hashattn_npy_write_part(writer, data, 1);
    check_ok(context, hashattn_npy_commit(writer));
    check_ok(context, hashattn_npy_begin(context, path, 1, shape, &writer));
    hashattn_npy_write_part(writer, data, 2);
    check_ok(context, hashattn_npy_commit(writer));

    assert_int_equal(hashattn_npy_open(NULL, path, &array, &reader), HASHATTN_INVALID);
    check_call(context, hashattn_npy_open(context, NULL, &array, &reader), HASHATTN_INVALID, "path is NULL");
    check_call(context, hashattn_npy_open(context, path, NULL, &reader), HASHATTN_INVALID, "array is NULL");
    check_call(context, hashattn_npy_open(context, path, &array, NULL), HASHATTN_INVALID, "reader is NULL");
    check_call(context, hashattn_npy_open(context, "/nowhere/x.npy", &array, &reader), HASHATTN_BAD_FILE,
               "/nowhere");
    assert_null(reader);
    memset(&array, 0xff, sizeof array);
    check_ok(context, hashattn_npy_open(context, path, &array, &reader));
    assert_true(array.rank == 1 && array.shape[0] == 2 && array.shape[1] == 0 && array.data == NULL);
    assert_int_equal(hashattn_npy_read_part(NULL, 0, 1, part), HASHATTN_INVALID);
    check_call(context, hashattn_npy_read_part(reader, 0, 1, NULL), HASHATTN_INVALID, "to is NULL");
    check_call(context, hashattn_npy_read_part(reader, 3, 0, part), HASHATTN_INVALID, "0 elements from 3 on");
    check_ok(context, hashattn_npy_read_part(reader, 2, 0, NULL));
    check_ok(context, hashattn_npy_read_part(reader, 1, 1, part));
    assert_true(part[0] == 2);
    hashattn_npy_close(reader);
    unlink(path);
    hashattn_context_free(context);
}

static hashattn_status read_one(hashattn_context *context, void *user)
{
    (void)user;
    hashattn_npy array;
    hashattn_status status = hashattn_npy_read(context, path, &array);
    hashattn_npy_free(context, &array);
    return status;
}

static hashattn_status copy_in_parts(hashattn_context *context, void *user)
{
    (void)user;
    hashattn_npy array;
    hashattn_npy_reader *reader;
    hashattn_npy_writer *writer;
    float part[4];
    hashattn_status status = hashattn_npy_open(context, path, &array, &reader);
    if (status == HASHATTN_OK)
        status = hashattn_npy_read_part(reader, 0, 4, part);
    if (status == HASHATTN_OK)
        status = hashattn_npy_begin(context, "copy.npy", 2, array.shape, &writer);
    if (status == HASHATTN_OK) {
        hashattn_npy_write_part(writer, part, 4);
        status = hashattn_npy_commit(writer);
    }
    hashattn_npy_close(reader);
    return status;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    const float data[4] = {0};
    const size_t shape[] = {2, 2};
    check_ok(context, hashattn_npy_write(context, path, data, 2, shape));
    hashattn_context_free(context);
    check_every_failing_allocation(read_one, NULL);
    check_every_failing_allocation(copy_in_parts, NULL);
    unlink("copy.npy");
    unlink(path);
}

static void parts_make_a_whole(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    float data[24], part[24];
    hashattn_fill_normal(1, 0, data, 24);
    const size_t shape[] = {4, 6};
    hashattn_npy_writer *writer;
    check_ok(context, hashattn_npy_begin(context, path, 2, shape, &writer));
    for (size_t i = 0; i < 24; i += 8)
        hashattn_npy_write_part(writer, data + i, 8);
    assert_int_not_equal(access(path, F_OK), 0);
    check_ok(context, hashattn_npy_commit(writer));
    hashattn_npy array;
    hashattn_npy_reader *reader;
    check_ok(context, hashattn_npy_open(context, path, &array, &reader));
    assert_true(array.element == HASHATTN_FLOAT32 && array.rank == 2 && array.shape[0] == 4 &&
                array.shape[1] == 6 && array.data == NULL);
    check_ok(context, hashattn_npy_read_part(reader, 5, 19, part));
    check_same_bits(part, data + 5, 19 * sizeof(float), "a part");
    check_call(context, hashattn_npy_read_part(reader, 5, 20, part), HASHATTN_INVALID,
               "20 elements from 5 on are outside the array of 24");
    check_call(context, hashattn_npy_read_part(reader, 1, SIZE_MAX, part), HASHATTN_INVALID,
               "18446744073709551615 elements from 1 on are outside the array of 24");
    hashattn_npy_close(reader);
    hashattn_npy_close(NULL);

    /* Incomplete data, and a dropped file: the old file stays. */
    check_ok(context, hashattn_npy_begin(context, path, 2, shape, &writer));
    hashattn_npy_write_part(writer, data, 23);
    check_call(context, hashattn_npy_commit(writer), HASHATTN_INVALID,
               "23 numbers were written, the shape has 24");
    check_ok(context, hashattn_npy_begin(context, path, 2, shape, &writer));
    hashattn_npy_drop(writer);
    hashattn_npy_drop(NULL);
    check_ok(context, hashattn_npy_read(context, path, &array));
    check_same_bits(array.data, data, sizeof data, "the old file");
    hashattn_npy_free(context, &array);
    write_file("{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }", data, 8);
    check_call(context, hashattn_npy_open(context, path, &array, &reader), HASHATTN_BAD_FILE,
               "holds int64, float32 (or uint8 or bool) is needed");
    assert_null(reader);
    unlink(path);
    hashattn_context_free(context);
}

int main(void)
{
    char directory[] = "/tmp/hashattn-arrays-XXXXXX";
    if (mkdtemp(directory) == NULL || chdir(directory) != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(bytes_and_bools_are_bytes),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(parts_make_a_whole),
        cmocka_unit_test(arguments_of_parts_are_checked),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (chdir("/") != 0 || rmdir(directory) != 0)
        return 1;
    return failed;
}
