/* Name maps: rules with and without a number, and a file of another program that is written and read through
   one. Bugs planted and caught: a rule that matches the beginning of a longer name; one digit of the number;
   a name that is cut; tensors ignored that no pattern names; files read and written without the map.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/name_map.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/model_io.h"
#include "support/check.h"
#include "support/layers.h"

static const struct name_rule rules[] = {{"encoder.layer.*.norm.weight", "layers.*.ln_1.g"},
                                         {"embeddings.weight", "wte"},
                                         {"encoder.layer.*.norm.weight", "never"},
                                         {NULL, NULL}};
static const char *const ignored[] = {"layers.*.mask", "position_ids", NULL};
static const struct name_map map = {rules, ignored};

static void check_name(const struct name_map *names, const char *ours, const char *theirs)
{
    char got[40];
    assert_true(name_map_theirs(names, ours, got, sizeof got));
    assert_string_equal(got, theirs);
}

static void the_first_rule_that_matches_counts(void **state)
{
    (void)state;
    check_name(&map, "encoder.layer.0.norm.weight", "layers.0.ln_1.g");
    check_name(&map, "encoder.layer.127.norm.weight", "layers.127.ln_1.g");
    check_name(&map, "embeddings.weight", "wte");
    check_name(&map, "embeddings.weight.more", "embeddings.weight.more");
    check_name(&map, "embeddings", "embeddings");
    check_name(&map, "encoder.layer..norm.weight", "encoder.layer..norm.weight");
    check_name(&map, "encoder.layer.x.norm.weight", "encoder.layer.x.norm.weight");
    check_name(NULL, "embeddings.weight", "embeddings.weight");
    check_name(&(const struct name_map){rules, NULL}, "embeddings.weight", "wte");
    char text[16];
    assert_true(name_map_theirs(&map, "encoder.layer.0.norm.weight", text, 16));
    assert_false(name_map_theirs(&map, "encoder.layer.10.norm.weight", text, 16));
    assert_false(name_map_theirs(NULL, "sixteen.letters.", text, 16));
}

static void only_listed_tensors_are_ignored(void **state)
{
    (void)state;
    assert_true(name_map_ignores(&map, "layers.3.mask") && name_map_ignores(&map, "position_ids"));
    assert_false(name_map_ignores(&map, "layers.mask") || name_map_ignores(&map, "wte"));
    assert_false(name_map_ignores(NULL, "position_ids"));
    assert_false(name_map_ignores(&(const struct name_map){rules, NULL}, "position_ids"));
}

/* What another program wrote, with a tensor that we have no use for, is read; what we write has its names. */
static void files_of_others_are_read_and_written(void **state)
{
    (void)state;
    struct layer_test test;
    size_t offset, shape[] = {4, 3}, width = 3;
    char path[] = "/tmp/test_name_map.XXXXXX";
    layer_test_open(&test, 1);
    check_status(
        &test.host,
        params_add(&test.host, &test.params, START_NORMAL, 1, &offset, 2, shape, "embeddings.weight"),
        HASHATTN_OK, NULL);
    check_status(&test.host,
                 params_add(&test.host, &test.params, START_NORMAL, 1, &offset, 1, &width,
                            "encoder.layer.%d.norm.weight", 12),
                 HASHATTN_OK, NULL);
    layer_test_start(&test, 1);
    params_start(&test.params, 1, test.values);
    const float *table = test.values + test.params.rows[0].offset,
                *gain = test.values + test.params.rows[1].offset;
    const int64_t ids[2] = {0, 1};
    const struct tensor theirs[] = {
        {.name = "wte", .type = TENSOR_F32, .rank = 2, .shape = {4, 3}, .data = table},
        {.name = "layers.12.ln_1.g", .type = TENSOR_F32, .rank = 1, .shape = {3}, .data = gain},
        {.name = "position_ids", .type = TENSOR_I64, .rank = 1, .shape = {2}, .data = ids},
        {.name = "lm_head", .type = TENSOR_F32, .rank = 1, .shape = {3}, .data = gain}};
    close(mkstemp(path));
    float *got = new_zeros(test.params.total);
    const struct model_block own = {"", got, NULL}, foreign = {"", got, &map};
    check_status(&test.host, safetensors_write(&test.host, path, theirs, 3, NULL, 0), HASHATTN_OK, NULL);
    check_status(&test.host, model_check_file(&test.host, path, &test.params, &foreign, 1), HASHATTN_OK,
                 NULL);
    check_status(&test.host, model_load(&test.host, path, &test.params, &foreign, 1), HASHATTN_OK, NULL);
    check_same_bits(got, test.values, test.params.total * sizeof(float), "what another program wrote");
    check_status(&test.host, model_load(&test.host, path, &test.params, &own, 1), HASHATTN_BAD_FILE,
                 "tensor 'embeddings.weight' is missing");
    check_status(&test.host, safetensors_write(&test.host, path, theirs, 4, NULL, 0), HASHATTN_OK, NULL);
    check_status(&test.host, model_load(&test.host, path, &test.params, &foreign, 1), HASHATTN_BAD_FILE,
                 "tensor 'lm_head' does not belong to this model");

    const struct model_block out = {"", test.values, &map};
    struct safetensors file;
    check_status(&test.host, model_save(&test.host, path, &test.params, &out, 1, NULL, 0), HASHATTN_OK, NULL);
    check_status(&test.host, safetensors_read(&test.host, path, 4096, &file), HASHATTN_OK, NULL);
    assert_int_equal(file.count, 2);
    assert_non_null(safetensors_find(&file, "wte"));
    assert_non_null(safetensors_find(&file, "layers.12.ln_1.g"));
    safetensors_free(&test.host, &file);
    unlink(path);
    free(got);
    layer_test_close(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_rule_that_matches_counts),
        cmocka_unit_test(only_listed_tensors_are_ignored),
        cmocka_unit_test(files_of_others_are_read_and_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
