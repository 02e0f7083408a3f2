/* Layer normalisation against double precision, gradients against central differences of the double form.
   With rows of size 1 the inverse deviation r and normalised values z have errors of a few EPSILON r and
   EPSILON (|z| + r |x|). A gradient is r times sums over dim terms of g and g z, so its error is at most
   about (dim + 8) EPSILON r (1 + r) (1 + z^2) |g|. Bugs planted and caught: gain and bias swapped; gradients
   of gain and bias swapped; dx overwritten instead of added; epsilon 1e-12 or 1e-5 whatever was
   asked for (the nearly constant rows).
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/norm.h"

#include <stdlib.h>

#include "oracle/oracle_layers.h"
#include "support/check.h"
#include "support/layers.h"

struct norm_case {
    struct layer_test test;
    struct norm norm;
    size_t n;
    double *x, *y;
    float *g;
};

static double weighed(void *user)
{
    struct norm_case *c = user;
    oracle_norm(c->y, c->x, c->test.exact + c->norm.gain, c->test.exact + c->norm.bias, c->n, c->norm.dim,
                (double)c->norm.epsilon);
    return inner(c->g, c->y, c->n * c->norm.dim);
}

static void check_case(size_t n, size_t dim, double scale, double level, double rstd, double epsilon)
{
    struct norm_case c = {.n = n};
    struct layer_test *test = &c.test;
    layer_test_open(test, 1);
    layer_test_shift(test);
    check_status(&test->host, norm_describe(&test->host, &test->params, "norm", dim, epsilon, &c.norm),
                 HASHATTN_OK, NULL);
    assert_true(test->params.rows[1].start == START_ONES && test->params.rows[2].start == START_ZEROS);
    layer_test_start(test, dim);
    float *x = new_normals(1, n * dim, scale), *y = guard_floats(n * dim), *statistics = guard_floats(2 * n);
    float *dy = new_normals(2, n * dim, 1), *dx = new_normals(3, n * dim, 1);
    for (size_t i = 0; i < n * dim; i++)
        x[i] += (float)level;
    double *dx0 = new_doubles(dx, n * dim);
    c.g = dy;
    c.x = new_doubles(x, n * dim);
    c.y = new_doubles(x, n * dim);
    double z = 4, k = (double)(dim + n) + 8, g = largest(dy, n * dim);
    double bound = k * EPSILON * (1 + rstd * (scale + level)) * (1 + z);

    norm_forward(&c.norm, test->kernels, test->values, y, statistics, x, n);
    weighed(&c);
    check_near_all(y, c.y, n * dim, bound, "y");

    norm_backward(&c.norm, test->kernels, test->values, whole_gradient(test), dx, dy, x, statistics, n);
    for (size_t i = 0; i < n * dim; i++)
        dx[i] = (float)((double)dx[i] - dx0[i]);
    check_derivatives(dx, c.x, n * dim, weighed, &c, (1 + rstd) * g * (1 + z) * bound + 8 * EPSILON, "dx");
    check_derivatives(test->gradients + c.norm.gain, test->exact + c.norm.gain, dim, weighed, &c,
                      (double)n * g * bound, "dgain");
    check_derivatives(test->gradients + c.norm.bias, test->exact + c.norm.bias, dim, weighed, &c,
                      (double)n * g * bound, "dbias");
    guard_free(y, n * dim);
    guard_free(statistics, 2 * n);
    free(x), free(dy), free(dx), free(dx0), free(c.x), free(c.y);
    layer_test_close(test);
}

static void norm_agrees_with_double(void **state)
{
    (void)state;
    check_case(5, 8, 1, 0, 2, 1e-5);
    check_case(3, 33, 2, 1, 1, 1e-5);
    check_case(2, 1, 1, 0, 320, 1e-5); /* with one column the output is the bias */
    check_case(4, 16, 1e-3, 0, 220, 1e-5);
    check_case(4, 16, 1e-3, 0, 1000, 1e-12); /* as in BERT's files */
    check_case(4, 16, 1e-3, 0, 30, 1e-3);
    check_case(9, 64, 1, 0, 2, 1e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(norm_agrees_with_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
