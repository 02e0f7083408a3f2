/* Layout of the parameter block, its initial values, and failures of memory or sizes. Bugs planted and
   caught: offsets not rounded up; the second growth of the rows losing the first; initial values keyed by
   offset (a row added in front changed nothing it should not); scale not applied; padding between rows left
   unchanged; a tensor not packed anew whose end, or start alone, has changed; all tensors packed anew;
   weights for backward not packed anew.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/params.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/dense.h"
#include "support/check.h"
#include "support/layers.h"

static void rows_are_laid_one_after_another(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct params params = {0};
    size_t offset, count = 0, end = 0;
    for (size_t i = 0; i < 100; i++) {
        size_t shape[] = {i % 7 + 1, i % 5 + 1};
        check_status(&host, params_add(&host, &params, START_ZEROS, 0, &offset, 2, shape, "row.%zu", i),
                     HASHATTN_OK, NULL);
        assert_int_equal(offset % 16, 0);
        assert_true(offset >= end && offset < end + 16);
        end = offset + shape[0] * shape[1];
        count += shape[0] * shape[1];
    }
    assert_int_equal(params.num_rows, 100);
    assert_int_equal(params_count(&params), count);
    assert_true(params.total >= end && params.total < end + 16);
    for (size_t i = 0; i < 100; i++) {
        char name[32];
        snprintf(name, sizeof name, "row.%zu", i);
        const struct param *row = &params.rows[i];
        assert_string_equal(row->name, name);
        assert_int_equal(row->rank, 2);
        assert_int_equal(row->shape[0], i % 7 + 1);
        assert_int_equal(row->count, (i % 7 + 1) * (i % 5 + 1));
    }
    params_free(&host, &params);
    assert_null(params.rows);
}

static void starts_have_their_moments(void **state)
{
    (void)state;
    enum { N = 40000 };
    struct layer_test test;
    layer_test_open(&test, 1);
    size_t zeros, ones, normal, uniform, constant, shape[] = {N + 3};
    struct host *host = &test.host;
    check_status(host, params_add(host, &test.params, START_ZEROS, 9, &zeros, 1, shape, "z"), HASHATTN_OK,
                 "");
    check_status(host, params_add(host, &test.params, START_ONES, 9, &ones, 1, shape, "o"), HASHATTN_OK, "");
    check_status(host, params_add(host, &test.params, START_NORMAL, 0.02f, &normal, 1, shape, "n"),
                 HASHATTN_OK, "");
    check_status(host, params_add(host, &test.params, START_UNIFORM, 0.5f, &uniform, 1, shape, "u"),
                 HASHATTN_OK, "");
    check_status(host, params_add(host, &test.params, START_CONSTANT, -2, &constant, 1, shape, "c"),
                 HASHATTN_OK, "");
    size_t bytes = test.params.total * sizeof(float);
    float *values = malloc(bytes), *again = malloc(bytes);
    memset(values, 0xff, bytes);
    memset(again, 0x11, bytes);
    params_start(&test.params, 5, values);
    params_start(&test.params, 5, again);
    check_same_bits(values, again, bytes, "start values, between rows too");

    double square[2] = {0}, mean[2] = {0}, most = 0;
    for (size_t i = 0; i < N; i++) {
        assert_true(values[zeros + i] == 0 && values[ones + i] == 1 && values[constant + i] == -2);
        double n = (double)values[normal + i] / 0.02, u = (double)values[uniform + i] / 0.5;
        mean[0] += n / N, mean[1] += u / N;
        square[0] += n * n / N, square[1] += u * u / N;
        most = fmax(most, fabs(u));
    }
    check_near(mean[0], 0, 5 / sqrt(N), "mean of normals");
    check_near(square[0], 1, 5 * sqrt(2.0 / N), "variance of normals");
    check_near(mean[1], 0, 5 * sqrt(1 / 3.0 / N), "mean of uniforms");
    check_near(square[1], 1 / 3.0, 5 * sqrt(4 / 45.0 / N), "variance of uniforms");
    assert_true(most <= 1 && most > 0.999);

    params_start(&test.params, 6, again);
    assert_true(memcmp(values + normal, again + normal, N * sizeof(float)) != 0);
    free(values);
    free(again);
    layer_test_close(&test);
}

static void a_row_starts_from_its_number_alone(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    float start[2][32];
    for (size_t wide = 0; wide < 2; wide++) {
        struct params params = {0};
        size_t first, second, shape[] = {wide == 0 ? 1 : 40}, eight[] = {8};
        check_status(&host, params_add(&host, &params, START_NORMAL, 1, &first, 1, shape, "a"), HASHATTN_OK,
                     "");
        check_status(&host, params_add(&host, &params, START_NORMAL, 1, &second, 1, eight, "b"), HASHATTN_OK,
                     "");
        float values[64];
        params_start(&params, 3, values);
        memcpy(start[wide], values + second, 8 * sizeof(float));
        params_free(&host, &params);
    }
    check_same_bits(start[0], start[1], 8 * sizeof(float), "start of the second row");
}

static void too_much_is_refused(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct params params = {0};
    size_t offset, huge[] = {(size_t)1 << 40, (size_t)1 << 40};
    check_status(&host, params_add(&host, &params, START_ZEROS, 0, &offset, 2, huge, "huge.weight"),
                 HASHATTN_INVALID, "huge.weight");
    char name[200];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    check_status(&host, params_add(&host, &params, START_ZEROS, 0, &offset, 1, huge, "%s", name),
                 HASHATTN_INVALID, "199 characters, allowed are 95");
    assert_int_equal(params.num_rows, 0);
    params_free(&host, &params);
}

/* Two dense layers: weights packed in place are those packed from elsewhere, and only changed tensors are
   packed anew. */
static void changed_tensors_are_packed_anew(void **state)
{
    (void)state;
    enum { IN = 5, OUT = 9 };
    struct layer_test t;
    struct dense one, two;
    layer_test_open(&t, 1);
    t.params.precision = PRECISION_BF16; /* packs for backward too */
    check_status(&t.host, dense_describe(&t.host, &t.params, "one", IN, OUT, &one), HASHATTN_OK, NULL);
    check_status(&t.host, dense_describe(&t.host, &t.params, "two", IN, OUT, &two), HASHATTN_OK, NULL);
    layer_test_start(&t, 1);
    size_t packed = t.params.packed_weights, count = packed + t.params.total, weight = (size_t)IN * OUT;
    float *block = new_zeros(count), *values = block + packed, *before = malloc(count * sizeof *before);
    memcpy(values, t.values, t.params.total * sizeof *values);
    assert_ptr_equal(params_pack(&t.params, t.kernels, t.pool, values, true, block), values);
    layer_test_pack(&t, true);
    assert_memory_equal(block, t.packed, packed * sizeof *block);

    const size_t changed[] = {two.weight, two.weight + weight - 1, one.weight + 3};
    for (size_t i = 0; i < 3; i++) {
        const struct dense *same = i == 2 ? &two : &one, *other = i == 2 ? &one : &two;
        const struct param_range range = {changed[i], 1};
        values[changed[i]] = t.values[changed[i]] += 1;
        values[same->weight + 1] += 1; /* not said, so it stays as it was packed */
        memcpy(before, block, count * sizeof *before);
        params_repack(&t.params, t.kernels, t.pool, &range, 1, values);
        layer_test_pack(&t, true);
        assert_memory_equal(block, t.packed, packed * sizeof *block);
        size_t floats = weights_size(PRECISION_BF16, IN, OUT) * sizeof *block;
        assert_memory_not_equal(values - other->packed, before + packed - other->packed, floats);
        assert_memory_not_equal(values - other->packed_backward, before + packed - other->packed_backward,
                                weights_size(PRECISION_BF16, OUT, IN) * sizeof *block);
        values[same->weight + 1] = t.values[same->weight + 1];
    }
    memset(block, 0xff, packed * sizeof *block);
    params_repack(&t.params, t.kernels, t.pool, NULL, 0, values);
    assert_memory_equal(block, t.packed, packed * sizeof *block);
    free(block), free(before);
    layer_test_close(&t);
}

static void failing_allocations_are_survived(void **state)
{
    (void)state;
    for (long fail = 0; fail < 3; fail++) {
        struct failing_host failing;
        failing_host_init(&failing, fail);
        struct params params = {0};
        hashattn_status status = HASHATTN_OK;
        size_t offset, shape[] = {3};
        for (int i = 0; i < 100 && status == HASHATTN_OK; i++)
            status = params_add(&failing.host, &params, START_ZEROS, 0, &offset, 1, shape, "row");
        check_status(&failing.host, status, HASHATTN_NO_MEMORY, "description of parameters");
        params_free(&failing.host, &params);
        assert_int_equal(failing.outstanding, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_laid_one_after_another),
        cmocka_unit_test(starts_have_their_moments),
        cmocka_unit_test(a_row_starts_from_its_number_alone),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(changed_tensors_are_packed_anew),
        cmocka_unit_test(failing_allocations_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
