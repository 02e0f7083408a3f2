/* The layer that halves rows against plain loops in double and central differences of them, for sequences of
   one row, of even and of odd length, and over the borders of tiles; ties; the same bits with any number of
   threads, and alone or packed. Bounds: roundings of a convolution of 3 dim terms, a norm and an exponential.
   Bugs planted and caught: rows outside a sequence in the maximum; the convolution not in a circle, or around
   the batch instead of the sequence; columns of the row before and after exchanged, forward or backward; the
   maximum from rows 2j, 2j + 1, 2j + 2; its gradient to every row with the maximum; the second maximum that
   has a row left out backward; the slope of ELU 1; elu + 1; an odd last row left out; rows after the last
   token not cleared.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/distil.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "support/check.h"
#include "support/layers.h"

enum { DIM = 5, MOST = 8 };

struct distil_case {
    struct layer_test test;
    struct distil distil;
    struct distil_pass pass;
    size_t sequences, rows, halved_rows, offsets[MOST + 1], halved[MOST + 1];
    float *x, *y, *dx, *dy;
    double *exact_x, *want;
};

/* ---- by definition ------------------------------------------------------------------------------------- */

static double oracle_entry(const struct distil_case *c, const double *x, size_t n, size_t row, size_t column)
{
    const double *weight = c->test.exact + c->distil.convolution.weight,
                 *bias = c->test.exact + c->distil.convolution.bias;
    double sum = bias[column];
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < DIM; i++)
            sum += weight[column * 3 * DIM + k * DIM + i] * x[(row + n + k - 1) % n * DIM + i];
    return sum;
}

static void oracle_norm_row(const struct distil_case *c, double *z)
{
    double mean = 0, squares = 0;
    for (size_t i = 0; i < DIM; i++)
        mean += z[i] / DIM;
    for (size_t i = 0; i < DIM; i++)
        squares += (z[i] - mean) * (z[i] - mean) / DIM;
    for (size_t i = 0; i < DIM; i++)
        z[i] = (z[i] - mean) / sqrt(squares + (double)c->distil.norm.epsilon) *
                   c->test.exact[c->distil.norm.gain + i] +
               c->test.exact[c->distil.norm.bias + i];
}

static double weighed(void *user)
{
    struct distil_case *c = user;
    double sum = 0;
    for (size_t s = 0; s < c->sequences; s++) {
        const double *x = c->exact_x + c->offsets[s] * DIM;
        size_t n = c->offsets[s + 1] - c->offsets[s];
        double *z = calloc(n * DIM, sizeof *z), *y = c->want + c->halved[s] * DIM;
        for (size_t r = 0; r < n; r++) {
            for (size_t i = 0; i < DIM; i++)
                z[r * DIM + i] = oracle_entry(c, x, n, r, i);
            oracle_norm_row(c, z + r * DIM);
        }
        for (size_t r = 0; r < n; r++)
            for (size_t i = 0; i < DIM; i++)
                z[r * DIM + i] = z[r * DIM + i] > 0 ? z[r * DIM + i] : expm1(z[r * DIM + i]);
        for (size_t j = 0; 2 * j < n; j++)
            for (size_t i = 0; i < DIM; i++) {
                double best = z[2 * j * DIM + i];
                best = j > 0 ? fmax(best, z[(2 * j - 1) * DIM + i]) : best;
                y[j * DIM + i] = 2 * j + 1 < n ? fmax(best, z[(2 * j + 1) * DIM + i]) : best;
            }
        free(z);
    }
    for (size_t i = 0; i < c->halved_rows * DIM; i++)
        sum += (double)c->dy[i] * c->want[i];
    return sum;
}

/* ---- a case -------------------------------------------------------------------------------------------- */

static void open_case(struct distil_case *c, int threads, size_t sequences, const size_t *lengths)
{
    memset(c, 0, sizeof *c);
    struct layer_test *test = &c->test;
    layer_test_open(test, threads);
    layer_test_shift(test);
    check_status(&test->host, distil_describe(&test->host, &test->params, "halve", DIM, 1e-5, &c->distil),
                 HASHATTN_OK, NULL);
    layer_test_start(test, 9);
    c->sequences = sequences;
    for (size_t s = 0; s < sequences; s++)
        c->offsets[s + 1] = c->offsets[s] + lengths[s];
    distil_offsets(sequences, c->offsets, c->halved);
    c->rows = c->offsets[sequences];
    c->halved_rows = c->halved[sequences];
    c->pass = (struct distil_pass){
        .rows = rows_of(test->kernels, test->pool, sequences, c->offsets, NULL),
        .halved = rows_of(test->kernels, test->pool, sequences, c->halved, NULL),
        .values = layer_test_pack(test, true),
        .training = true,
    };
    size_t padded = c->pass.rows.padded * DIM, half = c->pass.halved.padded * DIM;
    float *normals = new_normals(1, c->rows * DIM, 1), *weights = new_normals(2, c->halved_rows * DIM, 1);
    c->x = new_zeros(padded);
    c->dy = new_zeros(half);
    c->dx = new_zeros(padded);
    c->y = new_zeros(half);
    memcpy(c->x, normals, c->rows * DIM * sizeof *normals);
    memcpy(c->dy, weights, c->halved_rows * DIM * sizeof *weights);
    free(normals), free(weights);
    memset(c->y, 0xff, half * sizeof *c->y);
    memset(c->dx, 0xff, padded * sizeof *c->dx);
    c->exact_x = new_doubles(c->x, padded);
    c->want = calloc(half, sizeof *c->want);
}

/* Memory of exactly the requested size, full of NaNs. */
static void run_case(struct distil_case *c, bool training)
{
    c->pass.training = training;
    size_t bytes = distil_memory_size(&c->distil, &c->pass);
    free(c->pass.memory);
    c->pass.memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
    memset(c->pass.memory, 0xff, bytes);
    distil_forward(&c->distil, &c->pass, c->y, c->x);
    if (training)
        distil_backward(&c->distil, &c->pass, c->test.gradients, c->dx, c->dy, c->x, c->y);
}

static void close_case(struct distil_case *c)
{
    free(c->pass.memory), free(c->x), free(c->y), free(c->dx), free(c->dy), free(c->exact_x), free(c->want);
    layer_test_close(&c->test);
}

static void check_zeros(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_true(x[i] == 0);
}

/* ---- against double precision -------------------------------------------------------------------------- */

static const size_t mixed[] = {3, 1, 6, 2, 9}, many[] = {200, 1, 259, 90, 383};

static double bound_of(const struct distil_case *c, const float *gradient, size_t n)
{
    return (3 * DIM + 20 + (double)c->rows) * EPSILON * (largest(gradient, n) + 0.1);
}

static void values_and_gradients_are_right(void **state)
{
    (void)state;
    struct distil_case c;
    open_case(&c, 2, 5, mixed);
    assert_int_equal(c.halved_rows, 2 + 1 + 3 + 1 + 5);
    run_case(&c, true);
    weighed(&c);
    check_near_all(c.y, c.want, c.halved_rows * DIM, 200 * EPSILON, "y");
    check_zeros(c.y + c.halved_rows * DIM, (c.pass.halved.padded - c.halved_rows) * DIM);
    check_zeros(c.dx + c.rows * DIM, (c.pass.rows.padded - c.rows) * DIM);
    check_derivatives(c.dx, c.exact_x, c.rows * DIM, weighed, &c, bound_of(&c, c.dx, c.rows * DIM), "dx");
    for (size_t i = 1; i < c.test.params.num_rows; i++) { /* 0: the shift */
        const struct param *row = &c.test.params.rows[i];
        float *gradient = c.test.gradients + row->offset;
        check_derivatives(gradient, c.test.exact + row->offset, row->count, weighed, &c,
                          bound_of(&c, gradient, row->count), row->name);
    }
    float *training = malloc(c.halved_rows * DIM * sizeof *training);
    memcpy(training, c.y, c.halved_rows * DIM * sizeof *training);
    run_case(&c, false);
    check_same_bits(c.y, training, c.halved_rows * DIM * sizeof *training, "in evaluation");
    free(training);
    close_case(&c);
}

/* One random direction per tensor, and one of x. */
static void many_tiles_are_right(void **state)
{
    (void)state;
    struct distil_case c;
    open_case(&c, 2, 5, many);
    run_case(&c, true);
    weighed(&c);
    check_near_all(c.y, c.want, c.halved_rows * DIM, 200 * EPSILON, "y");
    for (size_t i = 0; i < c.test.params.num_rows; i++) { /* 0: x in the place of the shift */
        const struct param *row = &c.test.params.rows[i];
        size_t count = i == 0 ? c.rows * DIM : row->count;
        double *values = i == 0 ? c.exact_x : c.test.exact + row->offset, side[2], got = 0;
        const float *gradient = i == 0 ? c.dx : c.test.gradients + row->offset;
        float *direction = new_normals(900 + i, count, 1 / sqrt((double)count));
        const double step = 1e-6; /* few maxima change hands */
        for (int up = 0; up < 2; up++) {
            for (size_t k = 0; k < count; k++)
                values[k] += (up ? 2 : -1) * step * (double)direction[k];
            side[up] = weighed(&c);
        }
        for (size_t k = 0; k < count; k++) {
            values[k] -= step * (double)direction[k];
            got += (double)direction[k] * (double)gradient[k];
        }
        check_near(got, (side[1] - side[0]) / (2 * step), bound_of(&c, gradient, count) + 1e-6, row->name);
        free(direction);
    }
    close_case(&c);
}

/* ---- ties ---------------------------------------------------------------------------------------------- */

/* Rows that are equal have equal maxima: one of them takes the whole gradient, and no other. */
static void a_tie_counts_once(void **state)
{
    (void)state;
    struct distil_case c;
    open_case(&c, 1, 1, (size_t[]){6});
    for (size_t i = DIM; i < c.rows * DIM; i++)
        c.x[i] = c.x[i % DIM];
    run_case(&c, true);
    const float *gradient = c.test.gradients + c.distil.norm.bias;
    for (size_t i = 0; i < DIM; i++) {
        double slope = c.y[i] < 0 ? (double)c.y[i] + 1 : 1,
               sum = (double)c.dy[i] + (double)c.dy[DIM + i] + (double)c.dy[2 * DIM + i];
        check_near((double)gradient[i], slope * sum, 20 * EPSILON * (fabs(sum) + 3), "gradient of the bias");
    }
    close_case(&c);
}

/* ---- bits ---------------------------------------------------------------------------------------------- */

static void threads_and_packing_change_no_bit(void **state)
{
    (void)state;
    struct distil_case one, more, alone;
    open_case(&one, 1, 5, many);
    run_case(&one, true);
    open_case(&more, 3, 5, many);
    run_case(&more, true);
    check_same_bits(more.y, one.y, one.halved_rows * DIM * sizeof(float), "y");
    check_same_bits(more.dx, one.dx, one.rows * DIM * sizeof(float), "dx");
    check_same_bits(more.test.gradients, one.test.gradients, one.test.params.total * sizeof(float),
                    "gradients");
    for (size_t s = 0; s < 5; s++) {
        open_case(&alone, 2, 1, many + s);
        memcpy(alone.x, one.x + one.offsets[s] * DIM, many[s] * DIM * sizeof(float));
        memcpy(alone.dy, one.dy + one.halved[s] * DIM, alone.halved_rows * DIM * sizeof(float));
        run_case(&alone, true);
        check_same_bits(alone.y, one.y + one.halved[s] * DIM, alone.halved_rows * DIM * sizeof(float),
                        "y alone");
        check_same_bits(alone.dx, one.dx + one.offsets[s] * DIM, many[s] * DIM * sizeof(float), "dx alone");
        close_case(&alone);
    }
    close_case(&one), close_case(&more);
}

static void no_rows_are_nothing(void **state)
{
    (void)state;
    struct distil_case c;
    open_case(&c, 2, 0, NULL);
    run_case(&c, true);
    check_zeros(c.test.gradients, c.test.params.total);
    close_case(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_gradients_are_right),
        cmocka_unit_test(many_tiles_are_right),
        cmocka_unit_test(a_tie_counts_once),
        cmocka_unit_test(threads_and_packing_change_no_bit),
        cmocka_unit_test(no_rows_are_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
