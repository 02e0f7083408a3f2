/* The classifier head against double precision and central differences.
   Bugs planted and caught: ReLU's mask missing in backward; mask from the gradient's sign; layers swapped;
   second tile left out; tiles that share their gradient of the hidden rows; the
   slope of tanh from the gradient; rows kept wide apart for GELU.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/outputs/head.h"

#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "oracle/oracle_layers.h"
#include "support/check.h"
#include "support/layers.h"

enum { ROWS = HEAD_TILE + 5, TILE = 2 * HEAD_TILE, DIM = 6, WIDE = 12, CLASSES = 3 };

struct head_case {
    struct layer_test test;
    struct head head;
    double *x, y[ROWS * CLASSES];
    float *g;
};

static double weighed(void *user)
{
    struct head_case *c = user;
    const double *exact = c->test.exact;
    double wide[ROWS * WIDE];
    oracle_dense(wide, c->x, exact + c->head.first.weight, exact + c->head.first.bias, ROWS, DIM, WIDE);
    for (int i = 0; i < ROWS * WIDE; i++)
        wide[i] = c->head.kind == HEAD_RELU   ? fmax(wide[i], 0)
                  : c->head.kind == HEAD_TANH ? tanh(wide[i])
                                              : wide[i] * 0.5 * erfc(-wide[i] * sqrt(0.5));
    oracle_dense(c->y, wide, exact + c->head.second.weight, exact + c->head.second.bias, ROWS, WIDE, CLASSES);
    return inner(c->g, c->y, ROWS * CLASSES);
}

static void check_kind(enum head_kind kind)
{
    struct head_case c;
    struct layer_test *test = &c.test;
    layer_test_open(test, 1);
    layer_test_shift(test);
    check_status(&test->host, head_describe(&test->host, &test->params, kind, DIM, WIDE, CLASSES, &c.head),
                 HASHATTN_OK, NULL);
    assert_int_equal(param_named(&test->params, "classifier.dense.weight")->shape[0], WIDE);
    assert_int_equal(param_named(&test->params, "classifier.out_proj.weight")->shape[0], CLASSES);
    layer_test_start(test, 4);
    float x[TILE * DIM] = {0}, y[TILE * CLASSES], hidden[2 * TILE * WIDE], dx[TILE * DIM];
    float dhidden[TILE * WIDE], dy[TILE * CLASSES] = {0};
    random_normals(1, 0, x, ROWS * DIM);
    random_normals(2, 0, dy, ROWS * CLASSES);
    c.g = dy;
    c.x = new_doubles(x, ROWS * DIM);
    head_forward(&c.head, test->kernels, test->values, y, hidden, x, ROWS);
    weighed(&c);
    int off = 0; /* both sides of the ReLU occur */
    for (int i = 0; i < ROWS * WIDE; i++)
        off += hidden[i] == 0;
    assert_true(kind != HEAD_RELU || (off > 10 && off < ROWS * WIDE - 10));
    assert_int_equal(head_kept(&c.head), kind == HEAD_GELU ? 2 * WIDE : WIDE);
    assert_int_equal(head_rows(ROWS), TILE);
    assert_true(head_rows(0) == 0 && head_rows(HEAD_TILE) == HEAD_TILE);
    /* Two successive products: about (DIM + WIDE + some) roundings of sums of WIDE terms up to 4. */
    double bound = (DIM + WIDE + ROWS + 8) * EPSILON * WIDE * 4;
    check_near_all(y, c.y, ROWS * CLASSES, bound, "logits");
    for (int i = 0; i < TILE * WIDE; i++)
        dhidden[i] = NAN;
    head_backward(&c.head, test->kernels, test->values, whole_gradient(test), dx, dhidden, c.g, hidden, x,
                  ROWS);
    for (int i = 0; i < TILE * WIDE; i++) /* of every tile, because tiles may run at the same time */
        assert_true(kind != HEAD_RELU || hidden[i] > 0 ? isfinite(dhidden[i]) : dhidden[i] == 0);
    check_derivatives(dx, c.x, ROWS * DIM, weighed, &c, bound, "dx");
    check_derivatives(test->gradients, test->exact, test->params.total, weighed, &c, 2 * bound, "parameters");
    free(c.x);
    layer_test_close(test);
}

static void head_agrees_with_double(void **state)
{
    (void)state;
    check_kind(HEAD_RELU);
    check_kind(HEAD_TANH);
    check_kind(HEAD_GELU);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(head_agrees_with_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
