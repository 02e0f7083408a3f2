/* Rows of numbers from .npy and CSV: values, blocks, names of columns, and every refusal with its place.

   Planted and caught: the first record lost if it has numbers; a header of NaN skipped; a block that ends
   with the file returned twice; a number beyond float32 taken as infinity; a wider row accepted; empty lines
   refused; rows of an array counted from 1 in a message.
   SPDX-License-Identifier: Apache-2.0 */
#include "density/number_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/folder.h"

static struct folder *enter(void **state, const char *name, const char *text, char path[100])
{
    struct folder *folder = *state;
    snprintf(path, 100, "%s/%s", folder->path, name);
    if (text != NULL)
        folder_put_text(folder, name, text);
    return folder;
}

static void check_rows(struct host *host, const char *path, size_t dim, const float *want, size_t n)
{
    struct number_rows rows;
    const float *block;
    size_t count, at = 0;
    check_status(host, number_rows_open(host, path, &rows), HASHATTN_OK, NULL);
    assert_int_equal(rows.dim, dim);
    do {
        check_status(host, number_rows_next(host, &rows, &block, &count), HASHATTN_OK, NULL);
        assert_true(at + count <= n);
        check_same_bits(block, want + at * dim, count * dim * sizeof *want, path);
        at += count;
    } while (count > 0);
    assert_int_equal(at, n);
    number_rows_close(host, &rows);
}

static void check_refused(struct host *host, const char *path, const char *part)
{
    struct number_rows rows;
    const float *block;
    size_t count;
    hashattn_status status = number_rows_open(host, path, &rows);
    if (status == HASHATTN_OK) {
        status = number_rows_next(host, &rows, &block, &count);
        number_rows_close(host, &rows);
    }
    check_status(host, status, HASHATTN_BAD_FILE, part);
    assert_non_null(strstr(host->message, path));
}

static void csv_is_read(void **state)
{
    char path[100];
    static const float want[] = {1, -2.5f, 3e4f, 4};
    static const char *const texts[] = {"1,-2.5\n3e4,4\n", "1, -2.5 \r\n\"3e4\",4",
                                        "\xef\xbb\xbflength,\"width, in m\"\n1,-2.5\n3e4,4\n\n\n",
                                        "\n1,-2.5\n\n3e4,4\n", "index,inflow\n1,-2.5\n3e4,4"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_rows(&enter(state, "a.csv", texts[i], path)->host, path, 2, want, 2);
    check_rows(&enter(state, "a.csv", "x\n1\n", path)->host, path, 1, want, 1);
}

static void bad_csv_is_refused(void **state)
{
    char path[100];
    static const struct {
        const char *text, *part;
    } cases[] = {{"", "there are no rows of numbers"},
                 {"a,b\n", "there are no rows of numbers"},
                 {"1,2\n3,abc\n", "line 2, column 2: 'abc' is not a finite number"},
                 {"a,b\n1,2\nc,d\n", "line 3, column 1: 'c' is not a finite number"},
                 {"nan,NaN\n1,2\n", "line 1, column 1: 'nan' is not a finite number"},
                 {"inf,Infinity\n1,2\n", "line 1, column 1: 'inf' is not a finite number"},
                 {"NA,null\n1,2\n", "line 1, column 1: 'NA' is not a finite number"},
                 {"a,1\n1,2\n", "line 1, column 1: 'a' is not a finite number"},
                 {"1,2\n3,nan\n", "line 2, column 2: 'nan' is not a finite number"},
                 {"1,2\n3,\n", "line 2, column 2: '' is not a finite number"},
                 {"1,2\n3,1e39\n", "line 2, column 2: '1e39' is beyond float32"},
                 {"1,2\n3,4,5\n", "line 2 has 3 columns, the rows before 2"},
                 {"a,b,c\n1,2\n", "line 2 has 2 columns, the rows before 3"},
                 {"1,2\n3;4\n", "line 2 has 1 columns, the rows before 2"},
                 {"1,\"2\n", "quote"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_refused(&enter(state, "a.csv", cases[i].text, path)->host, path, cases[i].part);
    check_refused(&enter(state, "none.csv", NULL, path)->host, path, "cannot open");
}

static void put_array(struct host *host, const char *path, enum npy_type type, size_t rows, size_t cols,
                      const void *data)
{
    struct npy array = {.type = type, .rank = 2, .shape = {rows, cols}, .data = (void *)data};
    check_status(host, npy_write(host, path, &array), HASHATTN_OK, NULL);
}

static void arrays_are_read_in_blocks(void **state)
{
    char path[100];
    struct host *host = &enter(state, "a.npy", NULL, path)->host;
    size_t n = 2 * number_rows_block(3);
    float *want = malloc((n + 1) * 3 * sizeof *want);
    double *wide = malloc((n + 1) * 3 * sizeof *wide);
    for (size_t i = 0; i < (n + 1) * 3; i++) {
        wide[i] = (double)i / 7 - 100;
        want[i] = (float)wide[i];
    }
    for (size_t rows = n - 1; rows <= n + 1; rows++) {
        put_array(host, path, NPY_FLOAT32, rows, 3, want);
        check_rows(host, path, 3, want, rows);
        put_array(host, path, NPY_FLOAT64, rows, 3, wide);
        check_rows(host, path, 3, want, rows);
    }
    wide[n * 3 - 2] = 1e39;
    put_array(host, path, NPY_FLOAT64, n, 3, wide);
    struct number_rows rows;
    const float *block;
    size_t count;
    check_status(host, number_rows_open(host, path, &rows), HASHATTN_OK, NULL);
    check_status(host, number_rows_next(host, &rows, &block, &count), HASHATTN_OK, NULL);
    assert_int_equal(count, n / 2);
    check_status(host, number_rows_next(host, &rows, &block, &count), HASHATTN_BAD_FILE,
                 "row 8191, column 1 is 1e+39, a finite float32 is needed");
    number_rows_close(host, &rows);
    assert_int_equal(number_rows_block(1 << 20), 4);
    assert_int_equal(number_rows_block((size_t)1 << 40), 1);
    free(want);
    free(wide);
}

static void bad_arrays_are_refused(void **state)
{
    char path[100];
    struct host *host = &enter(state, "a.npy", NULL, path)->host;
    const float nan[] = {1, 2, 3, 0.0f / 0.0f};
    put_array(host, path, NPY_FLOAT32, 2, 2, nan);
    check_refused(host, path, "row 1, column 1 is");
    put_array(host, path, NPY_INT32, 2, 2, nan);
    check_refused(host, path, "holds (2, 2) int32, (rows, columns) of float32 or float64 is needed");
    put_array(host, path, NPY_FLOAT32, 0, 2, nan);
    check_refused(host, path, "there are no rows of numbers");
    struct npy line = {.type = NPY_FLOAT32, .rank = 1, .shape = {4}, .data = (void *)nan};
    check_status(host, npy_write(host, path, &line), HASHATTN_OK, NULL);
    check_refused(host, path, "holds (4,) float32");
    enter(state, "a.npy", "1,2\n", path);
    check_refused(host, path, "not an .npy file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(csv_is_read, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(bad_csv_is_refused, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(arrays_are_read_in_blocks, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(bad_arrays_are_refused, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
