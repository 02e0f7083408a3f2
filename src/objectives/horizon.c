/* Horizon: floats for an example from all rows of its sequence, one dense layer on the rows one after
   another (nn/outputs/flat_rows.h), with the loss of squares.h. It is the head of PatchTST (Nie et
   al. 2023, "A time series is worth 64 words"). Cost: 2 max_len dim outputs operations per example forward
   and twice that backward, on the calling thread.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "nn/outputs/flat_rows.h"
#include "objectives/squares.h"

struct horizon {
    struct squares squares;
    size_t dim, max_len;
    struct dense dense; /* "horizon.dense" */
};

static hashattn_status describe(struct host *host, struct params *params, const struct objective_facts *facts,
                                void *self)
{
    struct horizon *h = self;
    size_t width = size_product(facts->max_len, facts->dim);
    *h = (struct horizon){.squares = squares_of(facts), .dim = facts->dim, .max_len = facts->max_len};
    return dense_describe(host, params, "horizon.dense", width, squares_width(&h->squares), &h->dense);
}

/* Arrays of head_rows of sequences, so that products have full tiles (nn/outputs/head.h). */
struct space {
    float *y, *flat, *dflat, *dy; /* the gradients only in training */
    size_t bytes;
};

static struct space lay(const struct horizon *h, const struct rows *rows, bool training, void *memory)
{
    struct arena arena = arena_on(memory);
    size_t count = head_rows(rows->num_sequences), wide = size_product(count, h->dense.in),
           out = size_product(count, h->dense.out);
    struct space s = {.y = NULL};
    s.y = arena_take(&arena, out, sizeof(float));
    s.flat = arena_take(&arena, wide, sizeof(float));
    if (training) {
        s.dflat = arena_take(&arena, wide, sizeof(float));
        s.dy = arena_take(&arena, out, sizeof(float));
    }
    s.bytes = arena.used;
    return s;
}

static size_t memory_size(const void *self, const struct rows *rows, bool training)
{
    return lay(self, rows, training, NULL).bytes;
}

static struct space space_of(const struct objective_pass *pass)
{
    return lay(pass->self, pass->rows, pass->training, pass->memory);
}

static double forward(const struct objective_pass *pass)
{
    const struct horizon *h = pass->self;
    const struct dense *dense = &h->dense;
    const struct space s = space_of(pass);
    size_t n = pass->rows->num_sequences, count = head_rows(n);
    flat_rows_forward(pass->rows, h->max_len, s.flat, pass->x, h->dim);
    memset(s.flat + n * dense->in, 0, (count - n) * dense->in * sizeof *s.flat);
    for (size_t row = 0; row < count; row += HEAD_TILE)
        dense_forward(dense, pass->rows->kernels, pass->values, s.y + row * dense->out,
                      s.flat + row * dense->in, HEAD_TILE);
    return squares_loss(pass);
}

static void backward(const struct objective_pass *pass, struct slice gradients, float *dx, bool add)
{
    const struct horizon *h = pass->self;
    const struct dense *dense = &h->dense;
    const struct space s = space_of(pass);
    size_t n = pass->rows->num_sequences, count = head_rows(n);
    squares_gradient(pass, s.dy);
    memset(s.dy + n * dense->out, 0, (count - n) * dense->out * sizeof *s.dy);
    for (size_t row = 0; row < count; row += HEAD_TILE)
        dense_backward(dense, pass->rows->kernels, pass->values, gradients, s.dflat + row * dense->in, false,
                       s.dy + row * dense->out, s.flat + row * dense->in, HEAD_TILE);
    flat_rows_backward(pass->rows, h->max_len, dx, add, s.dflat, h->dim);
}

const struct objective objective_horizon = {
    .name = "horizon",
    .last_layer = "horizon.dense.",
    .summary = "the values after a window, from all rows of the window",
    SQUARES_OF_EXAMPLES,
    .whole = true,
    .refuse = squares_refuse,
    .size = sizeof(struct horizon),
    .describe = describe,
    .memory_size = memory_size,
    .forward = forward,
    .backward = backward,
};
