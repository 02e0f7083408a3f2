/* Sums the rows of each sequence; backward distributes the gradient over them.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/outputs/pooling.h"

#include <string.h>

const char *const pooling_names[] = {"mean", "mean-padded", "first", NULL};

enum { BLOCK_ROWS = 64 };

struct pooled {
    enum pooling pooling;
    size_t max_len, dim;
    const struct rows *rows;
    float *y, *partial;
    const float *x;
};

static float weight_of(enum pooling pooling, size_t max_len, size_t len)
{
    return pooling == POOL_FIRST ? 1.0f : 1.0f / (float)(pooling == POOL_MEAN ? len : max_len);
}

static void forward_sequence(void *argument, size_t sequence, int worker)
{
    (void)worker;
    const struct pooled *p = argument;
    const struct kernels *kernels = p->rows->kernels;
    size_t dim = p->dim, row = p->rows->offsets[sequence], end = p->rows->offsets[sequence + 1];
    float weight = weight_of(p->pooling, p->max_len, rows_length(p->rows, sequence));
    float *y = p->y + sequence * dim, *partial = p->partial + sequence * dim;
    memset(y, 0, dim * sizeof *y);
    if (p->pooling == POOL_FIRST && end > row)
        end = p->rows->cut == NULL || p->rows->cut->starts[sequence] == 0 ? row + 1 : row;
    for (; row < end; row += BLOCK_ROWS) {
        memset(partial, 0, dim * sizeof *partial);
        kernels->layers.add_bias_backward(partial, p->x + row * dim,
                                          end - row < BLOCK_ROWS ? end - row : BLOCK_ROWS, dim);
        kernels->rows.axpy(y, weight, partial, dim);
    }
}

void pooling_forward(enum pooling pooling, size_t max_len, const struct rows *rows, float *y, float *partial,
                     const float *x, size_t dim)
{
    struct pooled p = {pooling, max_len, dim, rows, y, partial, x};
    pool_run(rows->pool, forward_sequence, &p, rows->num_sequences);
}

struct spread {
    enum pooling pooling;
    size_t max_len, dim;
    const struct rows *rows;
    float *dx;
    bool add;
    const float *dy;
};

static void backward_tile(void *argument, size_t tile, int worker)
{
    (void)worker;
    const struct spread *p = argument;
    const struct rows *rows = p->rows;
    size_t dim = p->dim, first = tile * rows->tile_rows, n = rows_of_tile(rows, first);
    if (!p->add)
        memset(p->dx + first * dim, 0, n * dim * sizeof *p->dx);
    for (struct span s = rows_span(rows, first, n); s.count > 0; s = rows_next(rows, s)) {
        float weight = weight_of(p->pooling, p->max_len, rows_length(rows, s.sequence));
        size_t count = p->pooling != POOL_FIRST ? s.count : s.position == 0 ? 1 : 0;
        for (size_t i = 0; i < count; i++)
            rows->kernels->rows.axpy(p->dx + (s.row + i) * dim, weight, p->dy + s.sequence * dim, dim);
    }
}

void pooling_backward(enum pooling pooling, size_t max_len, const struct rows *rows, float *dx, bool add,
                      const float *dy, size_t dim)
{
    struct spread p = {pooling, max_len, dim, rows, dx, add, dy};
    pool_run(rows->pool, backward_tile, &p, rows->tiles);
}
