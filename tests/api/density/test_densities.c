/* Sketches of densities through the public header: rows from files, options, copies, files, every refusal,
   and every failing allocation. Covers: row_files.c.

   Planted and caught: the map of `like` not copied; a struct_size of 8 accepted; densities of
   NULL not refused; a loaded sketch leaked when the handle cannot be allocated.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/api_context.h"
#include "support/folder.h"

enum { ROWS = 300, DIM = 6 };

static hashattn_density *filled(hashattn_context *context, const char *map, const float *x, size_t n)
{
    hashattn_density_options options;
    hashattn_density *density;
    hashattn_density_options_default(&options);
    options.map = map;
    options.seed = 3;
    check_ok(context, hashattn_density_new(context, DIM, &options, &density));
    check_ok(context, hashattn_density_add(density, x, n));
    return density;
}

static void a_sketch_is_filled_saved_and_loaded(void **state)
{
    struct folder *folder = *state;
    hashattn_context *context = context_with(2, NULL);
    float x[ROWS * DIM], want[ROWS], got[ROWS], errors[ROWS];
    char path[100];
    snprintf(path, sizeof path, "%s/sketch", folder->path);
    hashattn_fill_normal(1, 0, x, ROWS * DIM);
    for (int map = 0; map < 2; map++) {
        const char *name = map == 0 ? "none" : "euclidean";
        hashattn_density *all = filled(context, name, x, ROWS), *part, *loaded;
        check_ok(context, hashattn_density_score(all, x, ROWS, want, errors));
        for (size_t i = 0; i < ROWS; i++)
            assert_true(want[i] > 1.0f / ROWS - 1e-6f && want[i] < 1 && errors[i] >= 0);
        check_ok(context, hashattn_density_new_like(all, &part));
        check_ok(context, hashattn_density_add(part, x, 100));
        check_ok(context, hashattn_density_remove(all, x, 100));
        check_ok(context, hashattn_density_save(all, path));
        check_ok(context, hashattn_density_load(context, path, &loaded));
        check_ok(context, hashattn_density_merge(part, loaded));
        check_ok(context, hashattn_density_score(part, x, ROWS, got, NULL));
        check_same_bits(got, want, sizeof want, "scores of a part and a loaded sketch");
        hashattn_density_info info = {.struct_size = sizeof info};
        hashattn_density_describe(loaded, &info);
        assert_true(info.dim == DIM && info.num_hashes == 32 && info.hash_bits == 9 && info.seed == 3 &&
                    info.rows == ROWS - 100 && strcmp(info.map, name) == 0);
        hashattn_density_free(part);
        hashattn_density_free(all);
        hashattn_density_free(loaded);
    }
    hashattn_context_free(context);
}

static void files_are_read_in_blocks(void **state)
{
    struct folder *folder = *state;
    hashattn_context *context = context_with(1, NULL);
    char path[100];
    hashattn_rows *rows;
    const float *block;
    size_t dim, count;
    snprintf(path, sizeof path, "%s/rows.csv", folder->path);
    folder_put_text(folder, "rows.csv", "a,b\n1,2\n3,4\n");
    check_ok(context, hashattn_rows_open(context, path, &rows, &dim));
    check_ok(context, hashattn_rows_next(rows, &block, &count));
    assert_true(dim == 2 && count == 2 && block[0] == 1 && block[3] == 4);
    check_ok(context, hashattn_rows_next(rows, &block, &count));
    assert_true(count == 0);
    check_call(context, hashattn_rows_next(rows, NULL, &count), HASHATTN_INVALID, "block is NULL");
    hashattn_rows_close(rows);
    hashattn_rows_close(NULL);
    check_call(context, hashattn_rows_open(context, path, NULL, &dim), HASHATTN_INVALID, "rows is NULL");
    check_call(context, hashattn_rows_open(context, NULL, &rows, &dim), HASHATTN_INVALID, "path is NULL");
    assert_int_equal(hashattn_rows_open(NULL, path, &rows, &dim), HASHATTN_INVALID);
    assert_int_equal(hashattn_rows_next(NULL, &block, &count), HASHATTN_INVALID);
    folder_put_text(folder, "rows.csv", "1,x\n");
    check_call(context, hashattn_rows_open(context, path, &rows, &dim), HASHATTN_OK, NULL);
    check_call(context, hashattn_rows_next(rows, &block, &count), HASHATTN_BAD_FILE, "line 1, column 2: 'x'");
    hashattn_rows_close(rows);
    hashattn_context_free(context);
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_density_options options;
    hashattn_density *density, *none;
    float x[DIM] = {1}, score;
    static const struct {
        size_t num_hashes, hash_bits;
        const char *map, *part;
    } bad[] = {{0, 9, "none", "num_hashes is 0, allowed are 1 to 4096"},
               {4097, 9, "none", "num_hashes is 4097"},
               {32, 0, "none", "hash_bits is 0, allowed are 1 to 24"},
               {32, 25, "none", "hash_bits is 25"},
               {32, 9, "log", "no map 'log', there are: none, euclidean"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hashattn_density_options_default(&options);
        options.num_hashes = bad[i].num_hashes;
        options.hash_bits = bad[i].hash_bits;
        options.map = bad[i].map;
        check_call(context, hashattn_density_new(context, DIM, &options, &none), HASHATTN_INVALID,
                   bad[i].part);
    }
    options.struct_size = 8;
    check_call(context, hashattn_density_new(context, DIM, &options, &none), HASHATTN_INVALID,
               "struct_size is 8");
    check_call(context, hashattn_density_new(context, 0, NULL, &none), HASHATTN_INVALID, "dim is 0");
    check_call(context, hashattn_density_new(context, 2000000, NULL, &none), HASHATTN_INVALID,
               "dim is 2000000");
    check_call(context, hashattn_density_new(context, DIM, NULL, NULL), HASHATTN_INVALID, "density is NULL");
    check_call(context, hashattn_density_load(context, "/none", &none), HASHATTN_BAD_FILE, "/none");
    check_call(context, hashattn_density_load(context, NULL, &none), HASHATTN_INVALID, "path is NULL");
    assert_int_equal(hashattn_density_new(NULL, DIM, NULL, &none), HASHATTN_INVALID);
    assert_int_equal(hashattn_density_new_like(NULL, &none), HASHATTN_INVALID);
    assert_int_equal(hashattn_density_add(NULL, x, 1), HASHATTN_INVALID);
    assert_int_equal(hashattn_density_save(NULL, "x"), HASHATTN_INVALID);
    hashattn_density_free(NULL);

    check_ok(context, hashattn_density_new(context, DIM, NULL, &density));
    check_call(context, hashattn_density_add(density, NULL, 1), HASHATTN_INVALID, "rows is NULL");
    check_call(context, hashattn_density_add(density, x, SIZE_MAX / 8), HASHATTN_INVALID, "do not fit");
    check_call(context, hashattn_density_score(density, x, 1, NULL, NULL), HASHATTN_INVALID,
               "densities is NULL");
    check_call(context, hashattn_density_score(density, x, 1, &score, NULL), HASHATTN_INVALID,
               "the sketch has no rows");
    check_call(context, hashattn_density_merge(density, NULL), HASHATTN_INVALID, "from is NULL");
    check_call(context, hashattn_density_save(density, NULL), HASHATTN_INVALID, "path is NULL");
    check_call(context, hashattn_density_new_like(density, NULL), HASHATTN_INVALID, "density is NULL");
    x[2] = NAN;
    check_call(context, hashattn_density_add(density, x, 1), HASHATTN_INVALID, "row 0, column 2 is nan");
    check_ok(context, hashattn_density_add(density, NULL, 0));
    hashattn_density_free(density);
    hashattn_context_free(context);
}

static hashattn_status use(hashattn_context *context, void *user)
{
    const struct folder *folder = user;
    static float x[ROWS * DIM], scores[ROWS * DIM];
    hashattn_density *density = NULL, *loaded = NULL, *like = NULL;
    hashattn_rows *rows = NULL;
    hashattn_density_options options;
    size_t dim, count = 0;
    const float *block;
    char path[100], table[100];
    snprintf(path, sizeof path, "%s/sketch", folder->path);
    snprintf(table, sizeof table, "%s/rows.csv", folder->path);
    hashattn_fill_normal(2, 0, x, ROWS * DIM);
    hashattn_density_options_default(&options);
    options.map = "euclidean";
    hashattn_status status = hashattn_rows_open(context, table, &rows, &dim);
    if (status == HASHATTN_OK)
        status = hashattn_rows_next(rows, &block, &count);
    if (status == HASHATTN_OK)
        status = hashattn_density_new(context, DIM, &options, &density);
    if (status == HASHATTN_OK)
        status = hashattn_density_add(density, x, ROWS);
    if (status == HASHATTN_OK)
        status = hashattn_density_save(density, path);
    if (status == HASHATTN_OK)
        status = hashattn_density_load(context, path, &loaded);
    if (status == HASHATTN_OK)
        status = hashattn_density_new_like(loaded, &like);
    if (status == HASHATTN_OK)
        status = hashattn_density_merge(like, loaded);
    if (status == HASHATTN_OK)
        status = hashattn_density_score(like, x, ROWS, scores, NULL);
    if (status == HASHATTN_OK)
        status = hashattn_density_gradient(like, x, 9, x, ROWS, NULL, 1, scores, scores + 9, NULL);
    if (status == HASHATTN_OK)
        status = hashattn_density_shift(like, x, 9, x + 60, 100, 1);
    size_t labels[100], num_modes;
    if (status == HASHATTN_OK)
        status = hashattn_density_modes(like, x, 100, 1, scores, labels, &num_modes);
    hashattn_rows_close(rows);
    hashattn_density_free(density);
    hashattn_density_free(loaded);
    hashattn_density_free(like);
    return status;
}

static void every_failing_allocation_is_reported(void **state)
{
    struct folder *folder = *state;
    folder_put_text(folder, "rows.csv", "1,2\n3,4\n");
    check_every_failing_allocation(use, folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_sketch_is_filled_saved_and_loaded, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(files_are_read_in_blocks, folder_enter, folder_leave),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test_setup_teardown(every_failing_allocation_is_reported, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
