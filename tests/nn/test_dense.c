/* The dense layer against double precision, gradients against central differences of the double form. A sum
   of k products of factors up to a and b is off by at most (k + 1) EPSILON k a b. With precision bf16 the
   same holds for the operands rounded to bfloat16. Bugs planted and caught: W used untransposed (in = out);
   bias gradient skipped; dx overwritten instead of added; gradient of W overwriting instead of adding; in and
   out swapped in the shape; dx written over x before the gradient of W; initial_std ignored; biases that are
   not 0 with it; biases decayed; a bias read, or its gradient written, by a layer without one; shared
   columns that begin at 0 in each part.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/dense.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/oracle_layers.h"
#include "support/check.h"
#include "support/layers.h"

struct dense_case {
    struct layer_test test;
    struct dense dense;
    size_t n;
    double *x, *y;
    float *g;
};

static double weighed(void *user)
{
    struct dense_case *c = user;
    const double *exact = c->test.exact;
    oracle_dense(c->y, c->x, exact + c->dense.weight, exact + c->dense.bias, c->n, c->dense.in, c->dense.out);
    return inner(c->g, c->y, c->n * c->dense.out);
}

static double sum_bound(size_t k, double a, double b)
{
    return ((double)k + 2) * EPSILON * ((double)k * a * b + 1);
}

static void initial_values_are_those_of_bert_or_pytorch(void **state)
{
    (void)state;
    for (int given = 0; given < 2; given++) {
        struct layer_test test;
        struct dense dense;
        double sum = 0, most = 0;
        layer_test_open(&test, 1);
        test.params.initial_std = given ? 0.02f : 0;
        check_status(&test.host, dense_describe(&test.host, &test.params, "layer", 100, 64, &dense),
                     HASHATTN_OK, NULL);
        float *values = new_zeros(test.params.total);
        params_start(&test.params, 7, values);
        for (size_t i = 0; i < 6400; i++) {
            double value = (double)values[dense.weight + i];
            sum += value * value;
            most = fmax(most, fabs(value));
        }
        /* The standard deviation of 6,400 draws is within 5 % (5 standard errors) of 0.02 or 0.1 /
           sqrt(3). */
        check_near(sqrt(sum / 6400) / (given ? 0.02 : 0.1 / sqrt(3)), 1, 0.05, "standard deviation");
        assert_true(given ? most > 0.06 : most <= 0.1);
        sum = 0;
        for (size_t i = 0; i < 64; i++)
            sum += fabs((double)values[dense.bias + i]);
        assert_true(given ? sum == 0 : sum > 1);
        assert_true(param_named(&test.params, "layer.weight")->decayed);
        assert_false(param_named(&test.params, "layer.bias")->decayed);
        free(values);
        layer_test_close(&test);
    }
}

/* Without a bias: the bits of a layer whose bias is 0, and nothing else in the block. */
static void check_plain(enum precision precision, size_t in, size_t out)
{
    enum { N = 12 };
    struct layer_test plain, biased;
    struct dense a, b;
    layer_test_open(&plain, 1);
    layer_test_open(&biased, 1);
    plain.params.precision = biased.params.precision = precision;
    check_status(&plain.host, dense_describe_plain(&plain.host, &plain.params, "layer", in, out, &a),
                 HASHATTN_OK, NULL);
    check_status(&biased.host, dense_describe(&biased.host, &biased.params, "layer", in, out, &b),
                 HASHATTN_OK, NULL);
    assert_int_equal(plain.params.num_rows, 1);
    layer_test_start(&plain, 3);
    layer_test_start(&biased, 3);
    memcpy(biased.values + b.weight, plain.values + a.weight, in * out * sizeof(float));
    memset(biased.values + b.bias, 0, out * sizeof(float));
    float *x = new_normals(1, N * in, 1), *dy = new_normals(2, N * out, 1);
    float *y = guard_floats(N * out), *want = guard_floats(N * out), *dx = guard_floats(N * in),
          *want_dx = guard_floats(N * in);
    const float *values = layer_test_pack(&plain, true), *biased_values = layer_test_pack(&biased, true);
    dense_forward(&a, plain.kernels, values, y, x, N);
    dense_forward(&b, biased.kernels, biased_values, want, x, N);
    check_same_bits(y, want, N * out * sizeof *y, "y");
    dense_backward(&a, plain.kernels, values, whole_gradient(&plain), dx, false, dy, x, N);
    dense_backward(&b, biased.kernels, biased_values, whole_gradient(&biased), want_dx, false, dy, x, N);
    check_same_bits(dx, want_dx, N * in * sizeof *dx, "dx");
    check_same_bits(plain.gradients + a.weight, biased.gradients + b.weight, in * out * sizeof *dx,
                    "dweight");
    guard_free(want_dx, N * in);
    guard_free(dx, N * in);
    guard_free(want, N * out);
    guard_free(y, N * out);
    free(dy), free(x);
    layer_test_close(&biased);
    layer_test_close(&plain);
}

static void plain_layers_have_no_bias(void **state)
{
    (void)state;
    check_plain(PRECISION_FLOAT32, 5, 7);
    check_plain(PRECISION_FLOAT32, 300, 20); /* packed */
    check_plain(PRECISION_BF16, 32, 48);
}

static void check_case(size_t n, size_t in, size_t out)
{
    struct dense_case c = {.n = n};
    struct layer_test *test = &c.test;
    layer_test_open(test, 1);
    layer_test_shift(test);
    check_status(&test->host, dense_describe(&test->host, &test->params, "layer", in, out, &c.dense),
                 HASHATTN_OK, NULL);
    layer_test_start(test, n + in);
    assert_int_equal(param_named(&test->params, "layer.weight")->shape[0], out);
    assert_int_equal(param_named(&test->params, "layer.weight")->shape[1], in);
    assert_int_equal(param_named(&test->params, "layer.bias")->count, out);
    float *x = new_normals(1, n * in, 1), *y = guard_floats(n * out), *dx = guard_floats(n * in);
    float *dy = new_normals(2, n * out, 1), *dx0 = new_normals(3, n * in, 1);
    c.g = dy;
    c.x = new_doubles(x, n * in);
    c.y = new_doubles(dy, n * out);
    double w = largest(test->values, test->params.total), ax = largest(x, n * in), ag = largest(dy, n * out);

    dense_forward(&c.dense, test->kernels, test->values, y, x, n);
    weighed(&c);
    check_near_all(y, c.y, n * out, sum_bound(in, ax, w), "y");

    dense_backward(&c.dense, test->kernels, test->values, whole_gradient(test), dx, false, dy, x, n);
    check_derivatives(dx, c.x, n * in, weighed, &c, sum_bound(out, ag, w), "dx");
    check_derivatives(test->gradients + c.dense.weight, test->exact + c.dense.weight, in * out, weighed, &c,
                      sum_bound(n, ag, ax), "dweight");
    check_derivatives(test->gradients + c.dense.bias, test->exact + c.dense.bias, out, weighed, &c,
                      sum_bound(n, ag, 1), "dbias");

    float *place = new_zeros(n * in + 1), *unused = new_zeros(test->params.total);
    memcpy(place, x, n * in * sizeof *x);
    dense_backward(&c.dense, test->kernels, test->values, (struct slice){unused, 0}, place, false, dy, place,
                   n);
    check_same_bits(place, dx, n * in * sizeof *dx, "dx in place of x");
    check_same_bits(unused, test->gradients, test->params.total * sizeof *dx, "gradients, dx in place of x");
    free(place), free(unused);

    /* Everything is added a second time: gradients double, and dx is added to its old value. */
    double *twice = new_doubles(test->gradients, test->params.total), *sum = new_doubles(dx, n * in);
    for (size_t i = 0; i < test->params.total; i++)
        twice[i] *= 2;
    for (size_t i = 0; i < n * in; i++) {
        sum[i] += (double)dx0[i];
        dx[i] = dx0[i];
    }
    dense_backward(&c.dense, test->kernels, test->values, whole_gradient(test), dx, true, dy, x, n);
    check_near_all(dx, sum, n * in, 2 * sum_bound(out, ag, w) + 4 * EPSILON * largest(dx, n * in),
                   "added dx");
    check_near_all(test->gradients, twice, test->params.total,
                   2 * sum_bound(n, ag, ax) + 4 * EPSILON * largest(test->gradients, test->params.total),
                   "added gradients");
    float *again = new_zeros(test->params.total);
    dense_backward(&c.dense, test->kernels, test->values, (struct slice){again, 0}, NULL, false, dy, x, n);
    for (size_t i = 0; i < test->params.total; i++)
        twice[i] /= 2;
    check_near_all(again, twice, test->params.total, sum_bound(n, ag, ax), "gradients without dx");

    guard_free(y, n * out);
    guard_free(dx, n * in);
    free(x), free(dy), free(dx0), free(c.x), free(c.y), free(twice), free(sum), free(again);
    layer_test_close(test);
}

static void dense_agrees_with_double(void **state)
{
    (void)state;
    check_case(5, 8, 8);
    check_case(1, 1, 1);
    check_case(3, 17, 5);
    check_case(33, 7, 19);
    check_case(0, 3, 4);
}

/* x rounded to bfloat16. */
static float *new_rounded(const struct kernels *kernels, const float *x, size_t n)
{
    float *rounded = new_zeros(n);
    bf16 *half = malloc((n + 1) * sizeof *half);
    kernels->bf16.round(half, n, x, n, 1, n);
    kernels->bf16.widen(rounded, n, half, n, 1, n);
    free(half);
    return rounded;
}

/* sum over k of a(i, k) b(k, j) in double, by strides. */
static double *new_product(const float *a, size_t a_row, size_t a_col, const float *b, size_t b_row,
                           size_t b_col, size_t m, size_t n, size_t depth)
{
    double *c = calloc(m * n + 1, sizeof *c);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            for (size_t k = 0; k < depth; k++)
                c[i * n + j] += (double)a[i * a_row + k * a_col] * (double)b[k * b_row + j * b_col];
    return c;
}

/* Packed weights, in both precisions: the products of the rounded operands; nothing else is rounded. */
static void check_laid(enum precision precision, size_t n, size_t in, size_t out)
{
    struct layer_test t;
    struct dense dense;
    layer_test_open(&t, 1);
    t.params.precision = precision;
    check_status(&t.host, dense_describe(&t.host, &t.params, "layer", in, out, &dense), HASHATTN_OK, NULL);
    assert_true(params_packed_floats(&t.params) >= in * out + t.params.total);
    layer_test_start(&t, n + in);
    const float *values = layer_test_pack(&t, true);
    const float *weight = t.values + dense.weight;
    float *x = new_normals(1, n * in, 1), *dy = new_normals(2, n * out, 1), *y = guard_floats(n * out);
    float *dx = guard_floats(n * in), *all[] = {new_normals(1, n * in, 1), new_normals(2, n * out, 1), NULL};
    all[2] = new_zeros(in * out);
    for (size_t i = 0; i < in * out; i++)
        all[2][i] = weight[i];
    if (precision == PRECISION_BF16) {
        const float *from[] = {x, dy, weight};
        const size_t count[] = {n * in, n * out, in * out};
        for (size_t i = 0; i < 3; i++) {
            free(all[i]);
            all[i] = new_rounded(t.kernels, from[i], count[i]);
        }
    }
    const float *rx = all[0], *rdy = all[1], *rw = all[2];
    double ax = largest(rx, n * in), ag = largest(rdy, n * out), aw = largest(rw, in * out);

    bf16 *halves = malloc((n * (in + 1) + 1) * sizeof *halves);
    memset(halves, 0xff, n * (in + 1) * sizeof *halves); /* NaN: unwritten elements show */
    double *want = new_product(rx, in, 1, rw, 1, in, n, out, in);
    for (size_t i = 0; i < n * out; i++)
        want[i] += (double)t.values[dense.bias + i % out];
    dense_forward(&dense, t.kernels, values, y, x, n);
    check_near_all(y, want, n * out, sum_bound(in, ax, aw), "y");
    const void *left = dense_left(&dense, t.kernels, halves, x, n);
    memset(y, 0xff, n * out * sizeof *y);
    for (size_t c = 0; c < out; c += WEIGHTS_PANEL)
        dense_forward_left(&dense, t.kernels, c == 0 ? t.pool : NULL, values, y, left, n, c,
                           out - c < WEIGHTS_PANEL ? out - c : WEIGHTS_PANEL);
    check_near_all(y, want, n * out, sum_bound(in, ax, aw), "y of stretches");
    free(halves), free(want);

    dense_backward(&dense, t.kernels, values, whole_gradient(&t), dx, false, dy, x, n);
    want = new_product(rdy, out, 1, rw, in, 1, n, in, out);
    check_near_all(dx, want, n * in, sum_bound(out, ag, aw), "dx");
    free(want);
    want = new_product(rdy, 1, out, rx, in, 1, out, in, n);
    check_near_all(t.gradients + dense.weight, want, in * out, sum_bound(n, ag, ax), "dweight");
    free(want);
    for (size_t c = 0; c < out; c++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += (double)dy[i * out + c];
        check_near((double)t.gradients[dense.bias + c], sum, sum_bound(n, ag, 1), "dbias");
    }
    guard_free(y, n * out);
    guard_free(dx, n * in);
    free(x), free(dy), free(all[0]), free(all[1]), free(all[2]);
    layer_test_close(&t);
}

static void laid_weights_are_the_weights(void **state)
{
    (void)state;
    check_laid(PRECISION_FLOAT32, 7, 300, 5);
    check_laid(PRECISION_FLOAT32, 5, 70, 257);
    check_laid(PRECISION_BF16, 5, 8, 8);
    check_laid(PRECISION_BF16, 1, 1, 1);
    check_laid(PRECISION_BF16, 33, 7, 19);
    check_laid(PRECISION_BF16, 70, 130, 65);
}

/* Threads that share columns change no bit and leave none out, in a part of the columns too. */
static void threads_share_columns(void **state)
{
    (void)state;
    enum { N = 5, IN = 300, OUT = 1300, FIRST = 2 * WEIGHTS_PANEL };
    for (int precision = PRECISION_FLOAT32; precision <= PRECISION_BF16; precision++)
        for (int threads = 2; threads <= 5; threads += 3) {
            struct layer_test t;
            struct dense dense;
            layer_test_open(&t, threads);
            t.params.precision = (enum precision)precision;
            check_status(&t.host, dense_describe(&t.host, &t.params, "a", IN, OUT, &dense), HASHATTN_OK,
                         NULL);
            layer_test_start(&t, 3);
            const float *values = layer_test_pack(&t, false);
            float *x = new_normals(1, N * IN, 1), *want = new_zeros(N * OUT), *y = guard_floats(N * OUT);
            bf16 *halves = malloc(N * IN * sizeof *halves);
            const void *left = dense_left(&dense, t.kernels, halves, x, N);
            dense_forward_left(&dense, t.kernels, NULL, values, want, left, N, 0, OUT);
            dense_forward_shared(&dense, t.kernels, t.pool, values, y, x, N, halves);
            check_same_bits(y, want, N * OUT * sizeof *y, "all columns");
            memset(y, 0xff, N * OUT * sizeof *y);
            dense_forward_left(&dense, t.kernels, t.pool, values, y, left, N, 0, FIRST);
            dense_forward_left(&dense, t.kernels, t.pool, values, y, left, N, FIRST, OUT - FIRST);
            check_same_bits(y, want, N * OUT * sizeof *y, "columns in two parts");
            guard_free(y, N * OUT);
            free(x), free(want), free(halves);
            layer_test_close(&t);
        }
}

/* Small weights of float32 are not packed. */
static void small_weights_are_not_laid(void **state)
{
    (void)state;
    struct layer_test t;
    struct dense dense;
    layer_test_open(&t, 1);
    check_status(&t.host, dense_describe(&t.host, &t.params, "a", 256, 256, &dense), HASHATTN_OK, NULL);
    assert_int_equal(params_packed_floats(&t.params), 0);
    layer_test_close(&t);
}

static void starts_like_a_linear_layer(void **state)
{
    (void)state;
    struct layer_test test;
    struct dense dense;
    layer_test_open(&test, 1);
    check_status(&test.host, dense_describe(&test.host, &test.params, "a.b", 64, 128, &dense), HASHATTN_OK,
                 NULL);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(test.params.rows[i].start, START_UNIFORM);
        check_near((double)test.params.rows[i].scale, 0.125, 0, "scale");
    }
    layer_test_close(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_layers_have_no_bias),
        cmocka_unit_test(dense_agrees_with_double),
        cmocka_unit_test(laid_weights_are_the_weights),
        cmocka_unit_test(threads_share_columns),
        cmocka_unit_test(small_weights_are_not_laid),
        cmocka_unit_test(starts_like_a_linear_layer),
        cmocka_unit_test(initial_values_are_those_of_bert_or_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
