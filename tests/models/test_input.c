/* Rows of floats as input: a dense layer for the rows of the batch, exact zeros after them, and nothing for
   an input that has the width of the trunk. Embeddings are in tests/nn/test_embed.c.
   Planted and caught: a layer that is not described; rows after the last one not cleared; no gradient.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/input.h"

#include <stdlib.h>

#include "oracle/oracle_layers.h"
#include "support/check.h"
#include "support/layers.h"

enum { ROWS = 7, WIDTH = 3, DIM = 8 };

static void rows_go_through_a_dense_layer(void **state)
{
    (void)state;
    struct layer_test test;
    struct input input;
    const struct embed_shape shape = {.max_len = ROWS, .dim = DIM, .positions = POSITIONS_NONE};
    layer_test_open(&test, 1);
    layer_test_shift(&test);
    check_status(&test.host, input_describe(&test.host, &test.params, INPUT_FLOATS, &shape, WIDTH, &input),
                 HASHATTN_OK, NULL);
    check_status(&test.host, input_fit(&test.host, &input, ROWS), HASHATTN_OK, NULL);
    const struct param *weight = param_named(&test.params, "embeddings.projection.weight");
    assert_true(weight->shape[0] == DIM && weight->shape[1] == WIDTH);
    assert_true(input.first == weight->offset && input.end == test.params.total);
    layer_test_start(&test, 1);
    const size_t offsets[] = {0, ROWS};
    struct rows rows = rows_of(test.kernels, test.pool, 1, offsets, NULL);
    float *x = new_normals(2, ROW_TILE * WIDTH, 1), *y = new_normals(3, ROW_TILE * DIM, 1);
    double *exact = new_doubles(x, ROW_TILE * WIDTH), want[ROWS * DIM];
    const struct input_rows given = {.floats = x};
    input_forward(&input, &rows, layer_test_pack(&test, false), y, &given, 0, ROW_TILE);
    oracle_dense(want, exact, test.exact + weight->offset,
                 test.exact + param_named(&test.params, "embeddings.projection.bias")->offset, ROWS, WIDTH,
                 DIM);
    check_near_all(y, want, ROWS * DIM, (WIDTH + 2) * EPSILON * 10, "rows");
    for (size_t i = ROWS * DIM; i < ROW_TILE * DIM; i++)
        assert_true(y[i] == 0);
    float *dy = new_normals(4, ROW_TILE * DIM, 1);
    for (size_t i = ROWS * DIM; i < ROW_TILE * DIM; i++)
        dy[i] = 0; /* rows after the last one have no gradient */
    const size_t bias = param_named(&test.params, "embeddings.projection.bias")->offset;
    input_backward_tile(&input, &rows, layer_test_pack(&test, true), whole_gradient(&test), dy, &given, 0,
                        ROW_TILE);
    for (size_t o = 0; o < DIM; o++) {
        double sum = 0, products[WIDTH] = {0};
        for (size_t r = 0; r < ROWS; r++) {
            sum += (double)dy[r * DIM + o];
            for (size_t i = 0; i < WIDTH; i++)
                products[i] += (double)dy[r * DIM + o] * (double)x[r * WIDTH + i];
        }
        check_near((double)test.gradients[bias + o], sum, 100 * EPSILON, "gradient of the bias");
        check_near_all(test.gradients + weight->offset + o * WIDTH, products, WIDTH, 100 * EPSILON,
                       "gradient of a weight");
    }
    free(dy);
    input_free(&test.host, &input);
    size_t total = test.params.total;
    check_status(&test.host, input_describe(&test.host, &test.params, INPUT_GIVEN, NULL, 0, &input),
                 HASHATTN_OK, NULL);
    assert_true(input.kind == INPUT_GIVEN && input.first == total && input.end == total);
    check_status(&test.host, input_fit(&test.host, &input, 1 << 20), HASHATTN_OK, NULL);
    input_free(&test.host, &input);
    free(x), free(y), free(exact);
    layer_test_close(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_go_through_a_dense_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
