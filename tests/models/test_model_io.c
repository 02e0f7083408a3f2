/* Saving and loading blocks of parameters: the same bits come back, and a file of another model is refused
   with the name and the numbers in the message. Bugs planted and caught: second block written from the first;
   prefix forgotten in reading; a tensor too many accepted; NaN accepted; padding between rows not cleared;
   the path missing in the message; a check of the first block only.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/model_io.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/check.h"
#include "support/layers.h"

static const char *scratch_path(void)
{
    static char path[200];
    const char *directory = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/hashattn-model-io-%ld.safetensors",
             directory == NULL ? "/tmp" : directory, (long)getpid());
    return path;
}

/* Rows "a.weight" (3, 5), "b" (cols). */
static void describe(struct layer_test *test, size_t cols)
{
    size_t offset, shape[] = {3, 5};
    layer_test_open(test, 1);
    check_status(&test->host,
                 params_add(&test->host, &test->params, START_NORMAL, 1, &offset, 2, shape, "a.weight"),
                 HASHATTN_OK, NULL);
    check_status(&test->host, params_add(&test->host, &test->params, START_NORMAL, 1, &offset, 1, &cols, "b"),
                 HASHATTN_OK, NULL);
    layer_test_start(test, cols);
    /* The padding between rows is zeros in an initialised block. */
    params_start(&test->params, cols, test->values);
}

static void what_is_saved_comes_back(void **state)
{
    (void)state;
    struct layer_test test;
    describe(&test, 7);
    size_t bytes = test.params.total * sizeof(float);
    float *second = new_zeros(test.params.total), *got[2] = {malloc(bytes), malloc(bytes)};
    for (size_t i = 0; i < test.params.total; i++)
        second[i] = -2 * test.values[i] + 0.0f;
    struct model_block out[2] = {{"m.", test.values, NULL}, {"v.", second, NULL}},
                       in[2] = {{"m.", got[0], NULL}, {"v.", got[1], NULL}};
    struct tensor_word word = {"step", "17"};
    check_status(&test.host, model_save(&test.host, scratch_path(), &test.params, out, 2, &word, 1),
                 HASHATTN_OK, NULL);
    memset(got[0], 0xff, bytes);
    memset(got[1], 0xff, bytes);
    check_status(&test.host, model_load(&test.host, scratch_path(), &test.params, in, 2), HASHATTN_OK, NULL);
    check_same_bits(got[0], test.values, bytes, "first block");
    check_same_bits(got[1], second, bytes, "second block");

    struct safetensors file;
    check_status(&test.host, safetensors_read(&test.host, scratch_path(), 1 << 20, &file), HASHATTN_OK, NULL);
    assert_string_equal(safetensors_word(&file, "step"), "17");
    const struct tensor *tensor = safetensors_find(&file, "v.a.weight");
    assert_true(tensor != NULL && tensor->rank == 2 && tensor->shape[0] == 3 && tensor->shape[1] == 5);
    safetensors_free(&test.host, &file);

    const struct model_block names[2] = {{"m.", NULL, NULL}, {"v.", NULL, NULL}},
                             wrong[2] = {{"m.", NULL, NULL}, {"w.", NULL, NULL}};
    check_status(&test.host, model_check_file(&test.host, scratch_path(), &test.params, names, 2),
                 HASHATTN_OK, NULL);
    check_status(&test.host, model_check_file(&test.host, scratch_path(), &test.params, names, 1),
                 HASHATTN_BAD_FILE,
                 "'v.a.weight' does not belong to this model: the file has 4 tensors, the model 2");
    check_status(&test.host, model_check_file(&test.host, scratch_path(), &test.params, wrong, 2),
                 HASHATTN_BAD_FILE, "'w.a.weight' is missing");
    assert_non_null(strstr(test.host.message, "hashattn-model-io"));

    /* One block of the two: the tensors of the other are too many. */
    check_status(&test.host, model_load(&test.host, scratch_path(), &test.params, in, 1), HASHATTN_BAD_FILE,
                 "'v.a.weight' does not belong to this model: the file has 4 tensors, the model 2");
    assert_non_null(strstr(test.host.message, "hashattn-model-io"));
    in[0].prefix = "";
    check_status(&test.host, model_load(&test.host, scratch_path(), &test.params, in, 1), HASHATTN_BAD_FILE,
                 "'a.weight' is missing");
    unlink(scratch_path());
    free(second), free(got[0]), free(got[1]);
    layer_test_close(&test);
}

static void files_of_other_models_are_refused(void **state)
{
    (void)state;
    struct layer_test test, other;
    describe(&test, 7);
    describe(&other, 8);
    struct model_block block = {"", test.values, NULL}, wide = {"", other.values, NULL};
    check_status(&test.host, model_save(&test.host, scratch_path(), &test.params, &block, 1, NULL, 0),
                 HASHATTN_OK, NULL);
    check_status(&other.host, model_load(&other.host, scratch_path(), &other.params, &wide, 1),
                 HASHATTN_BAD_FILE, "'b'");
    assert_non_null(strstr(other.host.message, "8"));
    assert_non_null(strstr(other.host.message, "7"));
    assert_non_null(strstr(other.host.message, "hashattn-model-io"));

    test.values[test.params.rows[1].offset + 4] = NAN;
    check_status(&test.host, model_save(&test.host, scratch_path(), &test.params, &block, 1, NULL, 0),
                 HASHATTN_OK, NULL);
    check_status(&test.host, model_load(&test.host, scratch_path(), &test.params, &block, 1),
                 HASHATTN_BAD_FILE, "'b' holds nan at element 4 of 7");

    unlink(scratch_path());
    check_status(&test.host, model_load(&test.host, scratch_path(), &test.params, &block, 1),
                 HASHATTN_BAD_FILE, "hashattn-model-io");
    layer_test_close(&test);
    layer_test_close(&other);
}

static void a_wrong_type_is_refused(void **state)
{
    (void)state;
    struct layer_test test;
    describe(&test, 7);
    double values[15] = {0};
    struct tensor tensors[2] = {
        {.name = "a.weight", .type = TENSOR_F64, .rank = 2, .shape = {3, 5}, .data = values},
        {.name = "b", .type = TENSOR_F32, .rank = 1, .shape = {7}, .data = values},
    };
    struct model_block block = {"", test.values, NULL};
    check_status(&test.host, safetensors_write(&test.host, scratch_path(), tensors, 2, NULL, 0), HASHATTN_OK,
                 NULL);
    check_status(&test.host, model_load(&test.host, scratch_path(), &test.params, &block, 1),
                 HASHATTN_BAD_FILE, "F64");
    unlink(scratch_path());
    layer_test_close(&test);
}

static void failing_allocations_are_survived(void **state)
{
    (void)state;
    struct layer_test test;
    describe(&test, 7);
    struct model_block block = {"", test.values, NULL};
    for (int loading = 0; loading < 2; loading++) {
        hashattn_status status = HASHATTN_NO_MEMORY;
        for (long fail = 0; status != HASHATTN_OK; fail++) {
            struct failing_host failing;
            failing_host_init(&failing, fail);
            status = loading ? model_load(&failing.host, scratch_path(), &test.params, &block, 1)
                             : model_save(&failing.host, scratch_path(), &test.params, &block, 1, NULL, 0);
            assert_int_equal(failing.outstanding, 0);
            assert_true(status == HASHATTN_OK || status == HASHATTN_NO_MEMORY);
            assert_true(fail < 1000);
        }
    }
    struct failing_host failing;
    for (int blocks = 1; blocks <= 2; blocks++) { /* a file that is good, and one that lacks tensors */
        const struct model_block two[2] = {{"", test.values, NULL}, {"v.", test.values, NULL}};
        failing_host_init(&failing, -1);
        check_status(&failing.host,
                     model_check_file(&failing.host, scratch_path(), &test.params, two, (size_t)blocks),
                     blocks == 1 ? HASHATTN_OK : HASHATTN_BAD_FILE, "'v.a.weight' is missing");
        assert_int_equal(failing.outstanding, 0);
    }
    unlink(scratch_path());
    layer_test_close(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_saved_comes_back),
        cmocka_unit_test(files_of_other_models_are_refused),
        cmocka_unit_test(a_wrong_type_is_refused),
        cmocka_unit_test(failing_allocations_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
