/* BERT's transform against double precision and central differences. Bugs planted and caught: the norm of the
   rows before GELU; the slope left out of the gradient; the statistics of the norm not recomputed;
   dx added to.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/outputs/transform.h"

#include <math.h>
#include <stdlib.h>

#include "oracle/oracle_layers.h"
#include "support/check.h"
#include "support/layers.h"

enum { ROWS = 11, DIM = 9 };

struct transform_case {
    struct layer_test test;
    struct transform transform;
    double *x, y[ROWS * DIM];
    float *g;
};

static double weighed(void *user)
{
    struct transform_case *c = user;
    const double *exact = c->test.exact;
    double rows[ROWS * DIM];
    oracle_dense(rows, c->x, exact + c->transform.dense.weight, exact + c->transform.dense.bias, ROWS, DIM,
                 DIM);
    for (int i = 0; i < ROWS * DIM; i++)
        rows[i] *= 0.5 * erfc(-rows[i] * sqrt(0.5));
    oracle_norm(c->y, rows, exact + c->transform.norm.gain, exact + c->transform.norm.bias, ROWS, DIM,
                (double)c->transform.norm.epsilon);
    return inner(c->g, c->y, ROWS * DIM);
}

static void transform_agrees_with_double(void **state)
{
    (void)state;
    struct transform_case c;
    struct layer_test *test = &c.test;
    layer_test_open(test, 1);
    layer_test_shift(test);
    size_t before_it = test->params.total;
    check_status(&test->host,
                 transform_describe(&test->host, &test->params, "lm_head", DIM, 1e-3, &c.transform),
                 HASHATTN_OK, NULL);
    assert_int_equal(param_named(&test->params, "lm_head.dense.weight")->offset, c.transform.first);
    assert_int_equal(param_named(&test->params, "lm_head.layer_norm.bias")->offset, c.transform.norm.bias);
    assert_true(c.transform.first == before_it && c.transform.end == test->params.total);
    layer_test_start(test, 4);
    float *x = new_normals(1, ROWS * DIM, 1), *dy = new_normals(2, ROWS * DIM, 1);
    size_t floats = transform_scratch(&c.transform) * ROWS;
    float *scratch = guard_floats(floats), y[ROWS * DIM], before[ROWS * DIM], dx[ROWS * DIM];
    c.g = dy;
    c.x = new_doubles(x, ROWS * DIM);
    transform_forward(&c.transform, test->kernels, test->values, y, before, scratch, x, ROWS);
    weighed(&c);
    /* The deviation of a row after GELU is above 0.05, so the norm multiplies errors by at most 20. */
    double bound = (DIM + 8) * EPSILON * 4 * 20;
    check_near_all(y, c.y, ROWS * DIM, bound, "y");
    for (size_t i = 0; i < floats; i++)
        scratch[i] = NAN;
    for (int i = 0; i < ROWS * DIM; i++)
        dx[i] = NAN;
    transform_backward(&c.transform, test->kernels, test->values, whole_gradient(test), dx, scratch, dy,
                       before, x, ROWS);
    check_derivatives(dx, c.x, ROWS * DIM, weighed, &c, 20 * bound, "dx");
    check_derivatives(test->gradients, test->exact, test->params.total, weighed, &c, 20 * bound,
                      "parameters");
    free(x), free(dy), free(c.x);
    guard_free(scratch, floats);
    layer_test_close(test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(transform_agrees_with_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
