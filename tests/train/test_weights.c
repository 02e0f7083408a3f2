/* Parameters to a file and back: the same bits, and nothing taken from a file that is not exactly of this
   model.
   Bugs planted and caught: both blocks written from the first; a row read at the start of the block; the
   number of tensors not compared; the step not kept; the padding overwritten.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/random.h"
#include "io/safetensors.h"
#include "support/check.h"

struct fixture {
    struct host host;
    struct params params;
    float *blocks[4]; /* two to write, two to read into */
    char directory[64], path[128];
};

static void describe(struct host *host, struct params *params, size_t width)
{
    static const char *const names[] = {"embed.weight", "dense.weight", "dense.bias"};
    const size_t shapes[3][3] = {{5, 3, 0}, {width, 3, 2}, {7, 0, 0}};
    const int ranks[3] = {2, 3, 1};
    memset(params, 0, sizeof *params);
    for (int i = 0; i < 3; i++) {
        size_t offset;
        check_status(host,
                     params_add(host, params, START_ZEROS, 0, &offset, ranks[i], shapes[i], "%s", names[i]),
                     HASHATTN_OK, NULL);
    }
}

static void fixture_init(struct fixture *fixture)
{
    host_init(&fixture->host);
    describe(&fixture->host, &fixture->params, 4);
    for (uint64_t i = 0; i < 4; i++) {
        fixture->blocks[i] = calloc(fixture->params.total, sizeof(float));
        assert_non_null(fixture->blocks[i]);
        random_normals(i, 0, fixture->blocks[i], fixture->params.total);
    }
    strcpy(fixture->directory, "/tmp/hashattn_weights_XXXXXX");
    assert_non_null(mkdtemp(fixture->directory));
    snprintf(fixture->path, sizeof fixture->path, "%s/w.safetensors", fixture->directory);
}

static void fixture_free(struct fixture *fixture)
{
    for (int i = 0; i < 4; i++)
        free(fixture->blocks[i]);
    params_free(&fixture->host, &fixture->params);
    unlink(fixture->path);
    assert_int_equal(rmdir(fixture->directory), 0);
}

static void save_two(struct fixture *fixture, int64_t step)
{
    const struct weight_block out[] = {{"m.", fixture->blocks[0]}, {"v.", fixture->blocks[1]}};
    check_status(&fixture->host, weights_save(&fixture->host, fixture->path, &fixture->params, out, 2, step),
                 HASHATTN_OK, NULL);
}

static hashattn_status load_two(struct fixture *fixture, const struct params *params, int64_t *step)
{
    const struct weight_block in[] = {{"m.", fixture->blocks[2]}, {"v.", fixture->blocks[3]}};
    return weights_load(&fixture->host, fixture->path, params, in, 2, step);
}

static void every_bit_comes_back_and_the_padding_stays(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    fixture.blocks[0][2] = -0.0f;
    memcpy(&fixture.blocks[0][3], &(uint32_t){0x7fc12345u}, 4); /* a NaN with a message */
    save_two(&fixture, 123456789012);
    float *before = calloc(fixture.params.total, sizeof *before);
    assert_non_null(before);
    memcpy(before, fixture.blocks[2], fixture.params.total * sizeof *before);
    int64_t step = 0;
    check_status(&fixture.host, load_two(&fixture, &fixture.params, &step), HASHATTN_OK, NULL);
    assert_int_equal(step, 123456789012);
    check_status(&fixture.host, weights_step(&fixture.host, fixture.path, &step), HASHATTN_OK, NULL);
    assert_int_equal(step, 123456789012);
    size_t at = 0;
    for (size_t i = 0; i < fixture.params.num_rows; i++) {
        const struct param *row = &fixture.params.rows[i];
        check_same_bits(fixture.blocks[2] + at, before + at, (row->offset - at) * sizeof(float), "padding");
        at = row->offset;
        check_same_bits(fixture.blocks[0] + at, fixture.blocks[2] + at, row->count * sizeof(float), "first");
        check_same_bits(fixture.blocks[1] + at, fixture.blocks[3] + at, row->count * sizeof(float), "second");
        at += row->count;
    }
    check_same_bits(fixture.blocks[2] + at, before + at, (fixture.params.total - at) * sizeof(float), "tail");
    free(before);
    fixture_free(&fixture);
}

static void another_model_is_refused(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    save_two(&fixture, 1);
    int64_t step;
    struct params wider, longer;
    describe(&fixture.host, &wider, 3);
    check_status(&fixture.host, load_two(&fixture, &wider, &step), HASHATTN_BAD_FILE, "dense.weight");
    params_free(&fixture.host, &wider);
    describe(&fixture.host, &longer, 4);
    longer.num_rows = 2;
    check_status(&fixture.host, load_two(&fixture, &longer, &step), HASHATTN_BAD_FILE,
                 "6 tensors, this model has 4");
    longer.num_rows = 3;
    strcpy(longer.rows[2].name, "other.bias");
    check_status(&fixture.host, load_two(&fixture, &longer, &step), HASHATTN_BAD_FILE, "other.bias");
    params_free(&fixture.host, &longer);
    fixture_free(&fixture);
}

static void a_file_without_a_step_is_a_model_but_no_state(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    static const char *const steps[] = {NULL, "-1", "x", "99999999999999999999"};
    for (size_t k = 0; k < 4; k++) {
        struct tensor tensors[3];
        for (size_t i = 0; i < 3; i++) {
            const struct param *row = &fixture.params.rows[i];
            tensors[i] = (struct tensor){.name = row->name,
                                         .type = TENSOR_F32,
                                         .rank = row->rank,
                                         .data = fixture.blocks[0] + row->offset};
            memcpy(tensors[i].shape, row->shape, sizeof row->shape);
        }
        const struct tensor_word word = {"step", steps[k]};
        check_status(&fixture.host, safetensors_write(&fixture.host, fixture.path, tensors, 3, &word, k > 0),
                     HASHATTN_OK, NULL);
        const struct weight_block in = {"", fixture.blocks[2]};
        int64_t step;
        check_status(&fixture.host, weights_load(&fixture.host, fixture.path, &fixture.params, &in, 1, NULL),
                     HASHATTN_OK, NULL);
        check_status(&fixture.host, weights_load(&fixture.host, fixture.path, &fixture.params, &in, 1, &step),
                     HASHATTN_BAD_FILE, "step");
        check_status(&fixture.host, weights_step(&fixture.host, fixture.path, &step), HASHATTN_BAD_FILE,
                     "step");
    }
    fixture_free(&fixture);
}

static void every_cut_of_a_file_is_refused(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    save_two(&fixture, 1);
    char *bytes;
    size_t size;
    check_status(&fixture.host, file_read(&fixture.host, fixture.path, 1 << 20, &bytes, &size), HASHATTN_OK,
                 NULL);
    for (size_t cut = 0; cut < size; cut += cut < 64 ? 1 : 61) {
        int64_t step;
        assert_int_equal(truncate(fixture.path, 0), 0);
        FILE *file = fopen(fixture.path, "w");
        assert_non_null(file);
        assert_int_equal(fwrite(bytes, 1, cut, file), cut);
        fclose(file);
        check_status(&fixture.host, load_two(&fixture, &fixture.params, &step), HASHATTN_BAD_FILE,
                     "w.safetensors");
    }
    memory_free(&fixture.host, bytes);
    fixture_free(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bit_comes_back_and_the_padding_stays),
        cmocka_unit_test(another_model_is_refused),
        cmocka_unit_test(a_file_without_a_step_is_a_model_but_no_state),
        cmocka_unit_test(every_cut_of_a_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
