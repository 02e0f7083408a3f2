/* One block on its own against its definition in double: rows out, gradient of rows and parameters, several
   tiles, several sequences, a convolution; and the same bits for any number of threads.
   Bugs tried and caught: parts of the parameters added at another place; the second tile at the first's rows;
   the pass before attention left out on the way back; inference with dropout; half the operations.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/layer.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "oracle/oracle_encoder.h"
#include "support/check.h"
#include "support/layers.h"

enum { DIM = 6, HEADS = 2, WIDE = 7, SEQUENCES = 2, ROWS = 250 };
static const size_t offsets[] = {0, 205, ROWS};
static const uint64_t samples[] = {4, 9};

struct layer_case {
    struct layer_test base; /* host and pool; its params stay empty */
    struct layer layer;
    struct layer_pass pass;
    size_t floats; /* of padded rows */
    float *values, *gradients, *x, *y, *stream;
    void *workspace;
};

static void open_case(struct layer_case *c, int threads, size_t taps, double dropout, bool training)
{
    memset(c, 0, sizeof *c);
    layer_test_open(&c->base, threads);
    const struct encoder_config config = {.dim = DIM,
                                          .heads = HEADS,
                                          .ffn = WIDE,
                                          .conv_window = (int64_t)taps,
                                          .dropout = dropout,
                                          .plan = head_plan_of(attention_find("softmax"), NULL)};
    check_status(&c->base.host, layer_new(&c->base.host, &config, &c->layer), HASHATTN_OK, NULL);
    c->pass = (struct layer_pass){.layer = &c->layer,
                                  .rows = rows_of(c->base.kernels, c->base.pool, SEQUENCES, offsets, samples),
                                  .random_key = 3,
                                  .training = training};
    c->floats = c->pass.rows.padded * DIM;
    c->values = new_normals(2, c->layer.params.total, 0.5);
    c->gradients = new_zeros(c->layer.params.total);
    float *x = new_normals(1, ROWS * DIM, 1);
    c->x = new_zeros(c->floats), c->y = new_zeros(c->floats), c->stream = new_zeros(c->floats);
    memcpy(c->x, x, ROWS * DIM * sizeof *x);
    free(x);
    check_status(&c->base.host,
                 memory_new(&c->base.host, layer_workspace_size(&c->pass), 1, "workspace", &c->workspace),
                 HASHATTN_OK, NULL);
    c->pass.values = c->values;
    c->pass.workspace = c->workspace;
}

static void close_case(struct layer_case *c)
{
    memory_free(&c->base.host, c->workspace);
    free(c->values), free(c->gradients), free(c->x), free(c->y), free(c->stream);
    layer_free(&c->base.host, &c->layer);
    layer_test_close(&c->base);
}

struct weighed {
    struct oracle_block oracle;
    const float *g;
    double *x, *y;
};

static double weighed(void *user)
{
    struct weighed *w = user;
    oracle_block(&w->oracle, w->y, w->x, SEQUENCES, offsets);
    return inner(w->g, w->y, ROWS * DIM);
}

static void layer_agrees_with_double(void **state)
{
    (void)state;
    for (size_t taps = 0; taps <= 3; taps += 3) {
        struct layer_case c;
        open_case(&c, 2, taps, 0, true);
        float *g = new_normals(5, ROWS * DIM, 1);
        memcpy(c.stream, g, ROWS * DIM * sizeof *g);
        layer_forward(&c.pass, c.y, c.x);
        layer_backward(&c.pass, c.stream, c.gradients, c.x);
        double *values = new_doubles(c.values, c.layer.params.total);
        struct weighed w = {.oracle = {.dim = DIM,
                                       .heads = HEADS,
                                       .wide = WIDE,
                                       .taps = taps,
                                       .softmax = 1,
                                       .params = &c.layer.params,
                                       .values = values,
                                       .name = "encoder.layer.0"},
                            .g = g,
                            .x = new_doubles(c.x, ROWS * DIM),
                            .y = calloc(ROWS * DIM, sizeof(double))};
        weighed(&w);
        /* Some ten sums of up to ROWS terms of the size of the largest, as in test_block.c. */
        double bound = 10 * (WIDE + ROWS) * EPSILON;
        check_near_all(c.y, w.y, ROWS * DIM, bound * largest(c.y, ROWS * DIM), "y");
        /* Every derivative costs two forwards in double: those of the rows about the border of tiles. */
        size_t some = (ROW_TILE - 1) * DIM;
        check_derivatives(c.stream + some, w.x + some, 2 * DIM, weighed, &w,
                          bound * (1 + largest(c.stream, ROWS * DIM)), "dx");
        for (size_t i = 0; i < c.layer.params.num_rows; i++) {
            const struct param *row = &c.layer.params.rows[i];
            check_derivatives(c.gradients + row->offset, values + row->offset,
                              row->count < 6 ? row->count : 6, weighed, &w,
                              bound * (1 + largest(c.gradients, c.layer.params.total)), row->name);
        }
        free(g), free(values), free(w.x), free(w.y);
        close_case(&c);
    }
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    struct layer_case one, three;
    open_case(&one, 1, 3, 0.25, true);
    open_case(&three, 3, 3, 0.25, true);
    struct layer_case *const both[] = {&one, &three};
    for (int i = 0; i < 2; i++) {
        struct layer_case *c = both[i];
        float *g = new_normals(5, ROWS * DIM, 1);
        memcpy(c->stream, g, ROWS * DIM * sizeof *g);
        layer_forward(&c->pass, c->y, c->x);
        layer_backward(&c->pass, c->stream, c->gradients, c->x);
        free(g);
    }
    check_same_bits(one.y, three.y, one.floats * sizeof *one.y, "y");
    check_same_bits(one.stream, three.stream, ROWS * DIM * sizeof *one.y, "dx");
    check_same_bits(one.gradients, three.gradients, one.layer.params.total * sizeof *one.y, "gradients");
    close_case(&one), close_case(&three);
}

static void inference_is_training_without_dropout(void **state)
{
    (void)state;
    struct layer_case still, moving;
    open_case(&still, 2, 3, 0.5, false);
    open_case(&moving, 2, 3, 0, true);
    assert_true(layer_workspace_size(&still.pass) < layer_workspace_size(&moving.pass));
    layer_forward(&still.pass, still.y, still.x);
    layer_forward(&moving.pass, moving.y, moving.x);
    check_same_bits(still.y, moving.y, ROWS * DIM * sizeof *still.y, "y");
    check_near(layer_operations(&still.layer), 2.0 * (4 * DIM * DIM + 2 * DIM * WIDE), 0,
               "operations of a row");
    assert_true(layer_saved_size(&still.pass) > 0);
    close_case(&still), close_case(&moving);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_agrees_with_double),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(inference_is_training_without_dropout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
