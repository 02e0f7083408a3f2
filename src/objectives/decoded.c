/* Decoded: floats for each of the last rows of a decoder's sequence, one dense layer (Informer's projection),
   with the loss of squares.h. An example has num_outputs floats, row by row. Cost: 2
   dim num_outputs operations per example and as many for the rows before, three times that backward, on the
   calling thread.
   SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "nn/dense.h"
#include "objectives/squares.h"

struct decoded {
    struct squares squares;
    size_t dim, rows;   /* rows that are predicted */
    struct dense dense; /* "decoded.dense" */
};

static const char *refuse(const struct objective_facts *facts)
{
    if (facts->decoded_rows == 0)
        return "it reads the rows of a decoder, and the model has none";
    if (facts->num_outputs % facts->decoded_rows != 0)
        return "its outputs are not a multiple of the rows that are predicted";
    return squares_refuse(facts);
}

static hashattn_status describe(struct host *host, struct params *params, const struct objective_facts *facts,
                                void *self)
{
    struct decoded *d = self;
    *d = (struct decoded){.squares = squares_of(facts), .dim = facts->dim, .rows = facts->decoded_rows};
    return dense_describe(host, params, "decoded.dense", facts->dim, squares_width(&d->squares) / d->rows,
                          &d->dense);
}

/* Arrays of all rows of the batch, because products are made tile by tile. */
struct space {
    float *y;         /* (examples, outputs) */
    float *all;       /* (padded rows, width) */
    float *dy, *dall; /* the same; only in training */
    size_t bytes;
};

static struct space lay(const struct decoded *d, const struct rows *rows, bool training, void *memory)
{
    struct arena arena = arena_on(memory);
    size_t examples = size_product(rows->num_sequences, squares_width(&d->squares)),
           all = size_product(rows->padded, d->dense.out);
    struct space s = {.y = NULL};
    s.y = arena_take(&arena, examples, sizeof(float));
    s.all = arena_take(&arena, all, sizeof(float));
    if (training) {
        s.dy = arena_take(&arena, examples, sizeof(float));
        s.dall = arena_take(&arena, all, sizeof(float));
    }
    s.bytes = arena.used;
    return s;
}

static size_t memory_size(const void *self, const struct rows *rows, bool training)
{
    return lay(self, rows, training, NULL).bytes;
}

/* The first of the predicted rows of a sequence. */
static size_t first_row(const struct objective_pass *pass, size_t sequence)
{
    const struct decoded *d = pass->self;
    size_t end = pass->rows->offsets[sequence + 1];
    assert(end - pass->rows->offsets[sequence] >= d->rows);
    return end - d->rows;
}

static double forward(const struct objective_pass *pass)
{
    const struct decoded *d = pass->self;
    const struct rows *rows = pass->rows;
    const struct space s = lay(d, rows, pass->training, pass->memory);
    size_t width = d->dense.out, outputs = squares_width(&d->squares);
    for (size_t row = 0; row < rows->padded; row += rows->tile_rows)
        dense_forward(&d->dense, rows->kernels, pass->values, s.all + row * width, pass->x + row * d->dim,
                      rows_of_tile(rows, row));
    for (size_t i = 0; i < rows->num_sequences; i++)
        memcpy(s.y + i * outputs, s.all + first_row(pass, i) * width, outputs * sizeof *s.y);
    return squares_loss(pass);
}

static void backward(const struct objective_pass *pass, struct slice gradients, float *dx, bool add)
{
    const struct decoded *d = pass->self;
    const struct rows *rows = pass->rows;
    const struct space s = lay(d, rows, pass->training, pass->memory);
    size_t width = d->dense.out, outputs = squares_width(&d->squares);
    squares_gradient(pass, s.dy);
    memset(s.dall, 0, rows->padded * width * sizeof *s.dall);
    for (size_t i = 0; i < rows->num_sequences; i++)
        memcpy(s.dall + first_row(pass, i) * width, s.dy + i * outputs, outputs * sizeof *s.dy);
    for (size_t row = 0; row < rows->padded; row += rows->tile_rows)
        dense_backward(&d->dense, rows->kernels, pass->values, gradients, dx + row * d->dim, add,
                       s.dall + row * width, pass->x + row * d->dim, rows_of_tile(rows, row));
}

const struct objective objective_decoded = {
    .name = "decoded",
    .last_layer = "decoded.dense.",
    .summary = "the values of the last rows of a decoder",
    SQUARES_OF_EXAMPLES,
    .whole = true,
    .refuse = refuse,
    .size = sizeof(struct decoded),
    .describe = describe,
    .memory_size = memory_size,
    .forward = forward,
    .backward = backward,
};
