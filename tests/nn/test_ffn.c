/* The feed-forward part against double precision and central differences, with and without dropout; the mask,
   tested by itself elsewhere, is taken as data. Bugs planted and caught: GELU's gradient at the rows after
   it; dropout missing in backward; dropout's key changed between forward and backward; the second layer's
   input read before dropout; the slope left out, or with ReLU the dropout or the gate of the gradient; with
   bfloat16, rows rounded before dropout read by the second layer.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/ffn.h"

#include <math.h>
#include <stdlib.h>

#include "oracle/oracle_layers.h"
#include "support/check.h"
#include "support/layers.h"

enum { ROWS = 6, DIM = 5, WIDE = 11 };

struct ffn_case {
    struct layer_test test;
    struct ffn ffn;
    float mask[ROWS * WIDE];
    double *x, y[ROWS * DIM];
    float *g;
};

static double weighed(void *user)
{
    struct ffn_case *c = user;
    const double *exact = c->test.exact;
    double wide[ROWS * WIDE];
    oracle_dense(wide, c->x, exact + c->ffn.first.weight, exact + c->ffn.first.bias, ROWS, DIM, WIDE);
    for (int i = 0; i < ROWS * WIDE; i++)
        wide[i] =
            (c->ffn.activation == FFN_RELU ? fmax(wide[i], 0) : oracle_gelu(wide[i])) * (double)c->mask[i];
    oracle_dense(c->y, wide, exact + c->ffn.second.weight, exact + c->ffn.second.bias, ROWS, WIDE, DIM);
    return inner(c->g, c->y, ROWS * DIM);
}

static void check_rate(double rate, enum ffn_activation activation)
{
    struct ffn_case c;
    struct layer_test *test = &c.test;
    layer_test_open(test, 1);
    layer_test_shift(test);
    check_status(&test->host, ffn_describe(&test->host, &test->params, "l", DIM, WIDE, activation, &c.ffn),
                 HASHATTN_OK, NULL);
    assert_int_equal(param_named(&test->params, "l.intermediate.dense.weight")->shape[0], WIDE);
    assert_int_equal(param_named(&test->params, "l.output.dense.weight")->shape[0], DIM);
    layer_test_start(test, 1);
    const size_t offsets[] = {0, 2, ROWS};
    const uint64_t samples[] = {5, 6};
    struct rows rows = rows_of(test->kernels, test->pool, 2, offsets, samples);
    struct dropout dropout = dropout_of(rate);
    for (int i = 0; i < ROWS * WIDE; i++)
        c.mask[i] = 1;
    dropout_rows(&dropout, 9, &rows, c.mask, c.mask, 0, ROWS, WIDE);

    float *x = new_normals(1, ROWS * DIM, 1), y[ROWS * DIM], before[ROWS * WIDE], after[ROWS * WIDE];
    float dx[ROWS * DIM], wide[ROWS * WIDE], slope[ROWS * WIDE];
    c.g = new_normals(2, ROWS * DIM, 1);
    c.x = new_doubles(x, ROWS * DIM);
    ffn_forward(&c.ffn, &rows, test->values, &dropout, 9, y, before, after, x, 0, ROWS, NULL, NULL);
    weighed(&c);
    /* Two successive products: about (DIM + WIDE + some) roundings of sums of WIDE terms up to 4. */
    double bound = (DIM + WIDE + ROWS + 8) * EPSILON * WIDE * 4;
    check_near_all(y, c.y, ROWS * DIM, bound, "y");
    ffn_backward(&c.ffn, &rows, test->values, whole_gradient(test), &dropout, 9, dx, wide, slope, c.g, before,
                 x, 0, ROWS, NULL);
    check_derivatives(dx, c.x, ROWS * DIM, weighed, &c, bound, "dx");
    check_derivatives(test->gradients, test->exact, test->params.total, weighed, &c, 2 * bound, "parameters");

    float z[ROWS * DIM];
    ffn_forward(&c.ffn, &rows, test->values, &dropout, 9, z, before, before, x, 0, ROWS, NULL, NULL);
    check_same_bits(y, z, sizeof y, "with one wide array");
    free(x), free(c.g), free(c.x);
    layer_test_close(test);
}

static void ffn_agrees_with_double(void **state)
{
    (void)state;
    check_rate(0, FFN_GELU);
    check_rate(0, FFN_RELU);
}

static void ffn_with_dropout_agrees_with_double(void **state)
{
    (void)state;
    check_rate(0.4, FFN_GELU);
    check_rate(0.4, FFN_RELU);
}

/* More columns than go through GELU at a time. */
static void many_columns_are_computed_in_ranges(void **state)
{
    (void)state;
    enum { MANY = 385 };
    struct layer_test test;
    struct ffn ffn;
    layer_test_open(&test, 1);
    layer_test_shift(&test);
    check_status(&test.host, ffn_describe(&test.host, &test.params, "l", DIM, MANY, FFN_GELU, &ffn),
                 HASHATTN_OK, NULL);
    layer_test_start(&test, 1);
    const size_t offsets[] = {0, ROWS};
    struct rows rows = rows_of(test.kernels, test.pool, 1, offsets, NULL);
    struct dropout dropout = dropout_of(0);
    float *x = new_normals(1, ROWS * DIM, 1), y[ROWS * DIM], before[ROWS * MANY], after[ROWS * MANY];
    double *in = new_doubles(x, ROWS * DIM), wide[ROWS * MANY], want[ROWS * DIM];
    ffn_forward(&ffn, &rows, layer_test_pack(&test, false), &dropout, 0, y, before, after, x, 0, ROWS, NULL,
                NULL);
    oracle_dense(wide, in, test.exact + ffn.first.weight, test.exact + ffn.first.bias, ROWS, DIM, MANY);
    for (int i = 0; i < ROWS * MANY; i++)
        wide[i] = oracle_gelu(wide[i]);
    oracle_dense(want, wide, test.exact + ffn.second.weight, test.exact + ffn.second.bias, ROWS, MANY, DIM);
    check_near_all(y, want, ROWS * DIM, (DIM + MANY + 8) * EPSILON * 4, "y");
    free(x), free(in);
    layer_test_close(&test);
}

/* With bfloat16 products, y is the second layer of what dropout left. */
static void rounded_products_see_dropout(void **state)
{
    (void)state;
    enum { EVEN = 12 };
    for (int rate = 0; rate < 2; rate++) {
        struct layer_test test;
        struct ffn ffn;
        layer_test_open(&test, 1);
        test.params.precision = PRECISION_BF16;
        check_status(&test.host, ffn_describe(&test.host, &test.params, "l", DIM, EVEN, FFN_GELU, &ffn),
                     HASHATTN_OK, NULL);
        layer_test_start(&test, 1);
        const size_t offsets[] = {0, ROWS};
        const uint64_t sample = 3;
        struct rows rows = rows_of(test.kernels, test.pool, 1, offsets, &sample);
        struct dropout dropout = dropout_of(0.5 * rate);
        float *x = new_normals(1, ROWS * DIM, 1), y[ROWS * DIM], before[ROWS * EVEN], after[ROWS * EVEN];
        double want[ROWS * DIM];
        bf16 halves[ROWS * (DIM + 1 + EVEN + 1)];
        ffn_forward(&ffn, &rows, layer_test_pack(&test, false), &dropout, 9, y, before, after, x, 0, ROWS,
                    halves, NULL);
        double *left = new_doubles(after, ROWS * EVEN);
        size_t zeros = 0;
        for (int i = 0; i < ROWS * EVEN; i++)
            zeros += after[i] == 0;
        assert_true(rate == 0 ? zeros == 0 : zeros > ROWS);
        oracle_dense(want, left, test.exact + ffn.second.weight, test.exact + ffn.second.bias, ROWS, EVEN,
                     DIM);
        check_near_all(y, want, ROWS * DIM, EVEN * 3 * largest(after, ROWS * EVEN) * 0x1p-8, "y");
        free(x), free(left);
        layer_test_close(&test);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ffn_agrees_with_double),
        cmocka_unit_test(ffn_with_dropout_agrees_with_double),
        cmocka_unit_test(many_columns_are_computed_in_ranges),
        cmocka_unit_test(rounded_products_see_dropout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
