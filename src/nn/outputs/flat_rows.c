/* Copies sequence by sequence forward, and tile by tile backward.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/outputs/flat_rows.h"

#include <assert.h>
#include <string.h>

struct flattened {
    const struct rows *rows;
    size_t max_len, dim;
    float *y;
    const float *x;
};

static void forward_sequence(void *argument, size_t sequence, int worker)
{
    (void)worker;
    const struct flattened *f = argument;
    size_t first = f->rows->offsets[sequence], length = f->rows->offsets[sequence + 1] - first;
    assert(length <= f->max_len);
    float *y = f->y + sequence * f->max_len * f->dim;
    size_t before = (f->max_len - length) * f->dim;
    memset(y, 0, before * sizeof *y);
    memcpy(y + before, f->x + first * f->dim, length * f->dim * sizeof *y);
}

void flat_rows_forward(const struct rows *rows, size_t max_len, float *y, const float *x, size_t dim)
{
    struct flattened f = {rows, max_len, dim, y, x};
    pool_run(rows->pool, forward_sequence, &f, rows->num_sequences);
}

struct spread {
    const struct rows *rows;
    size_t max_len, dim;
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
        size_t length = rows->offsets[s.sequence + 1] - rows->offsets[s.sequence];
        size_t place = s.sequence * p->max_len + (p->max_len - length) + s.position;
        rows->kernels->rows.axpy(p->dx + s.row * dim, 1, p->dy + place * dim, s.count * dim);
    }
}

void flat_rows_backward(const struct rows *rows, size_t max_len, float *dx, bool add, const float *dy,
                        size_t dim)
{
    struct spread p = {rows, max_len, dim, dx, add, dy};
    pool_run(rows->pool, backward_tile, &p, rows->tiles);
}
