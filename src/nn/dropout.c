/* The key of a sequence at a site is derived from its sample id. Block b of a row holds the draws of its
   columns 8 b .. 8 b + 7.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/dropout.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/random.h"

enum { DRAWS = 8 }; /* 16-bit draws in a Philox block */

struct dropout dropout_of(double rate)
{
    assert(rate >= 0 && rate < 1);
    unsigned threshold = (unsigned)lround(rate * 65536);
    if (threshold > 65535)
        threshold = 65535;
    return (struct dropout){threshold, 65536.0f / (float)(65536 - threshold)};
}

/* Elements that are contiguous in memory and in draws: `count` of them from element `at` of the rows on;
   their draws begin at block `first` of the key. */
struct stretch {
    size_t at, count;
    uint64_t key, first;
};

/* Calls `each` with all elements of rows [first, first + n). Returns their number, without those after the
   last token. */
static size_t each_stretch(uint64_t key, const struct rows *rows, size_t first, size_t n, size_t dim,
                           void (*each)(const void *argument, struct stretch stretch), const void *argument)
{
    uint64_t blocks = (dim + DRAWS - 1) / DRAWS;
    size_t done = 0;
    for (struct span s = rows_span(rows, first, n); s.count > 0; s = rows_next(rows, s)) {
        uint64_t sample = random_key(key, RANDOM_SAMPLE, rows->sample_ids[s.sequence]);
        size_t together = dim % DRAWS == 0 ? s.count : 1;
        for (size_t i = 0; i < s.count; i += together, done += together)
            each(argument, (struct stretch){done * dim, together * dim, sample, (s.position + i) * blocks});
    }
    return done * dim;
}

struct drop {
    const struct kernels *kernels;
    const struct dropout *dropout;
    float *y;
    const float *residual, *x;
};

static void drop_stretch(const void *argument, struct stretch s)
{
    const struct drop *d = argument;
    d->kernels->layers.dropout(d->y + s.at, d->residual == NULL ? NULL : d->residual + s.at, d->x + s.at,
                               s.count, s.key, s.first, d->dropout->threshold, d->dropout->scale);
}

static void drop(const struct dropout *dropout, uint64_t key, const struct rows *rows, float *y,
                 const float *residual, const float *x, size_t first, size_t n, size_t dim)
{
    struct drop d = {rows->kernels, dropout, y, residual, x};
    size_t done = each_stretch(key, rows, first, n, dim, drop_stretch, &d);
    memset(y + done, 0, (n * dim - done) * sizeof *y);
}

void dropout_rows(const struct dropout *dropout, uint64_t key, const struct rows *rows, float *y,
                  const float *x, size_t first, size_t n, size_t dim)
{
    if (dropout->threshold > 0)
        drop(dropout, key, rows, y, NULL, x, first, n, dim);
    else if (y != x)
        memcpy(y, x, n * dim * sizeof *y);
}

void dropout_add_rows(const struct dropout *dropout, uint64_t key, const struct rows *rows, float *y,
                      const float *residual, const float *x, size_t first, size_t n, size_t dim)
{
    if (dropout->threshold > 0) {
        drop(dropout, key, rows, y, residual, x, first, n, dim);
        return;
    }
    if (y != residual)
        memcpy(y, residual, n * dim * sizeof *y);
    rows->kernels->rows.axpy(y, 1.0f, x, n * dim);
}

struct gelu_again {
    const struct kernels *kernels;
    const struct dropout *dropout;
    float *y, *slope;
    const float *x;
};

static void gelu_stretch(const void *argument, struct stretch s)
{
    const struct gelu_again *g = argument;
    g->kernels->layers.gelu_again(g->y + s.at, g->slope + s.at, g->x + s.at, s.count, s.key, s.first,
                                  g->dropout->threshold, g->dropout->scale);
}

void dropout_gelu_again(const struct dropout *dropout, uint64_t key, const struct rows *rows, float *y,
                        float *slope, const float *x, size_t first, size_t n, size_t dim)
{
    if (dropout->threshold == 0) {
        rows->kernels->layers.gelu_again(y, slope, x, n * dim, 0, 0, 0, 1);
        return;
    }
    struct gelu_again g = {rows->kernels, dropout, y, slope, x};
    size_t done = each_stretch(key, rows, first, n, dim, gelu_stretch, &g);
    memset(y + done, 0, (n * dim - done) * sizeof *y);
    memset(slope + done, 0, (n * dim - done) * sizeof *slope);
}
