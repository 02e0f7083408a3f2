/* The depth-wise convolution against plain loops in double, its gradients against central differences, for
   filters shorter and longer than the sequences. A sum of k products of numbers up to a and b is off by at
   most (k + 1) EPSILON k a b. Bugs planted and caught: filter reversed in forward; not reversed in backward;
   neighbours read across the border of two sequences; one filter for all heads; gradient of the filter for
   the first block of 64 rows only; taps shifted by one.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/convolution.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "oracle/oracle_layers.h"
#include "support/check.h"
#include "support/layers.h"

enum { SEQUENCES = 3, ROWS = 84, HEADS = 2, WIDTH = 3, DIM = HEADS * WIDTH };
static const size_t offsets[] = {0, 3, 4, ROWS};

struct convolution_case {
    struct layer_test test;
    struct convolution convolution;
    double *x, *base, y[ROWS * DIM];
    float *g;
};

static double weighed(void *user)
{
    struct convolution_case *c = user;
    memcpy(c->y, c->base, sizeof c->y);
    for (size_t s = 0; s < SEQUENCES; s++)
        oracle_convolve(c->y + offsets[s] * DIM, c->x + offsets[s] * DIM,
                        c->test.exact + c->convolution.filters, c->convolution.taps,
                        offsets[s + 1] - offsets[s], HEADS, WIDTH);
    return inner(c->g, c->y, ROWS * DIM);
}

static void check_taps(size_t taps)
{
    struct convolution_case c;
    float *kept = NULL;
    for (int threads = 1; threads <= 3; threads += 2) {
        struct layer_test *test = &c.test;
        layer_test_open(test, threads);
        layer_test_shift(test);
        check_status(
            &test->host,
            convolution_describe(&test->host, &test->params, "conv", HEADS, WIDTH, taps, &c.convolution),
            HASHATTN_OK, NULL);
        const struct param *row = param_named(&test->params, "conv.weight");
        assert_true(row->rank == 4 && row->shape[0] == HEADS && row->shape[2] == taps);
        assert_int_equal(row->count, HEADS * taps);
        layer_test_start(test, taps);
        struct rows rows = rows_of(test->kernels, test->pool, SEQUENCES, offsets, NULL);
        float *x = new_normals(1, ROWS * DIM, 1), *base = new_normals(2, ROWS * DIM, 1);
        float y[ROWS * DIM], dx[ROWS * DIM] = {0};
        c.g = new_normals(3, ROWS * DIM, 1);
        c.x = new_doubles(x, ROWS * DIM);
        c.base = new_doubles(base, ROWS * DIM);
        double k = (double)taps, w = largest(test->values, test->params.total);

        void *scratch;
        size_t bytes = convolution_scratch_size(&c.convolution, &rows);
        check_status(&test->host, memory_new(&test->host, bytes, 1, "scratch", &scratch), HASHATTN_OK, NULL);
        memset(scratch, 0xff, bytes);
        convolution_forward(&c.convolution, &rows, test->values, y, base, x, scratch);
        weighed(&c);
        check_near_all(y, c.y, ROWS * DIM, (k + 2) * EPSILON * (k * w * 4 + 4), "y");
        convolution_forward(&c.convolution, &rows, test->values, base, base, x, scratch);
        check_same_bits(base, y, sizeof y, "in place");

        memset(scratch, 0xff, bytes);
        convolution_backward(&c.convolution, &rows, test->values, whole_gradient(test), dx, c.g, x, scratch);
        check_derivatives(dx, c.x, ROWS * DIM, weighed, &c, (k + 2) * EPSILON * (k * w * 4), "dx");
        check_derivatives(test->gradients, test->exact, HEADS * taps, weighed, &c,
                          (WIDTH + 2) * EPSILON * ROWS * WIDTH * 9, "dfilter");
        if (kept != NULL)
            check_same_bits(kept, test->gradients, test->params.total * sizeof *kept, "1 and 3 threads");
        free(kept);
        kept = test->gradients;
        test->gradients = NULL;
        memory_free(&test->host, scratch);
        free(x), free(base), free(c.g), free(c.x), free(c.base);
        layer_test_close(test);
    }
    free(kept);
}

static void convolution_agrees_with_double(void **state)
{
    (void)state;
    check_taps(1);
    check_taps(3);
    check_taps(33);
    check_taps(101);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(convolution_agrees_with_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
