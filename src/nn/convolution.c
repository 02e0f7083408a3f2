/* A unit of work is a head of a sequence. Backward for x is the forward slot with the filter reversed. The
   gradient of each tap is a sum of dot products of rows `t - taps / 2` apart, in double, per unit; the units
   of a head are added in the order of the sequences.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/convolution.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "nn/convolution_edges.h"

hashattn_status convolution_describe(struct host *host, struct params *params, const char *name, size_t heads,
                                     size_t head_dim, size_t taps, struct convolution *convolution)
{
    assert(taps % 2 == 1);
    *convolution = (struct convolution){.heads = heads, .head_dim = head_dim, .taps = taps};
    return params_add(host, params, START_UNIFORM, (float)(1 / sqrt((double)taps)), &convolution->filters, 4,
                      (size_t[]){heads, 1, taps, 1}, "%s.weight", name);
}

struct sweep {
    const struct convolution *convolution;
    const struct rows *rows;
    const float *filters, *base, *x, *dy;
    float *y;
    double *sums;                           /* (num_sequences, heads, taps) */
    struct convolution_edges edges, dedges; /* of x and dy */
};

static struct edge_columns columns_of(const struct convolution *conv, size_t sequence, size_t head)
{
    return (struct edge_columns){sequence, head * conv->head_dim, conv->head_dim};
}

static void forward_unit(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct sweep *s = argument;
    const struct convolution *conv = s->convolution;
    size_t sequence = index / conv->heads, head = index % conv->heads, dim = conv->heads * conv->head_dim;
    size_t first = s->rows->offsets[sequence], n = s->rows->offsets[sequence + 1] - first;
    size_t at = first * dim + head * conv->head_dim;
    if (s->y != s->base)
        for (size_t i = 0; i < n; i++)
            memcpy(s->y + at + i * dim, s->base + at + i * dim, conv->head_dim * sizeof *s->y);
    s->rows->kernels->layers.convolve(s->y + at, dim, s->x + at, dim, s->filters + head * conv->taps,
                                      conv->taps, n, conv->head_dim);
    const struct edge_columns columns = columns_of(conv, sequence, head);
    convolution_edges_add(&s->edges, s->rows, &columns, s->y, s->filters + head * conv->taps);
}

/* The scratch of both passes. */
struct space {
    struct convolution_edges edges, dedges;
    float *reversed; /* (heads, taps) */
    double *sums;    /* (num_sequences, heads, taps) */
    size_t bytes;
};

static struct space space_on(const struct convolution *conv, const struct rows *rows, void *block)
{
    struct arena arena = arena_on(block);
    size_t filters = size_product(conv->heads, conv->taps), dim = conv->heads * conv->head_dim;
    struct space space = {.edges = convolution_edges_take(&arena, rows, conv->taps, dim)};
    space.dedges = convolution_edges_take(&arena, rows, conv->taps, dim);
    space.reversed = arena_take(&arena, filters, sizeof *space.reversed);
    space.sums = arena_take(&arena, size_product(rows->num_sequences, filters), sizeof *space.sums);
    space.bytes = arena.used;
    return space;
}

size_t convolution_scratch_size(const struct convolution *convolution, const struct rows *rows)
{
    return space_on(convolution, rows, NULL).bytes;
}

void convolution_forward(const struct convolution *convolution, const struct rows *rows, const float *values,
                         float *y, const float *base, const float *x, void *scratch)
{
    const struct space space = space_on(convolution, rows, scratch);
    struct sweep sweep = {
        .convolution = convolution,
        .rows = rows,
        .filters = values + convolution->filters,
        .base = base,
        .x = x,
        .y = y,
        .edges = space.edges,
    };
    convolution_edges_get(&space.edges, rows, x);
    pool_run(rows->pool, forward_unit, &sweep, rows->num_sequences * convolution->heads);
}

/* sums[t] = sum over i of <dy_i, x_(i + t - taps/2)>, in blocks of rows that stay in cache for all taps. */
static void filter_gradient(const struct sweep *s, double *sums, size_t at, size_t n)
{
    const struct convolution *conv = s->convolution;
    size_t dim = conv->heads * conv->head_dim, taps = conv->taps, half = taps / 2;
    float dots[KERNELS_TILE];
    memset(sums, 0, taps * sizeof *sums);
    for (size_t block = 0; block < n; block += KERNELS_TILE) {
        size_t end = block + KERNELS_TILE < n ? block + KERNELS_TILE : n;
        for (size_t t = 0; t < taps; t++) {
            /* Rows i of the block with 0 <= i + t - half < n. */
            size_t from = block + t < half ? half - t : block;
            size_t stop = n + half > t ? n + half - t : 0, to = stop < end ? stop : end;
            if (from >= to)
                continue;
            s->rows->kernels->rows.dots(dots, s->dy + at + from * dim, dim,
                                        s->x + at + (from + t - half) * dim, dim, to - from, conv->head_dim);
            for (size_t i = 0; i < to - from; i++)
                sums[t] += (double)dots[i];
        }
    }
}

static void backward_unit(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct sweep *s = argument;
    const struct convolution *conv = s->convolution;
    size_t sequence = index / conv->heads, head = index % conv->heads, dim = conv->heads * conv->head_dim;
    size_t first = s->rows->offsets[sequence], n = s->rows->offsets[sequence + 1] - first;
    size_t at = first * dim + head * conv->head_dim;
    s->rows->kernels->layers.convolve(s->y + at, dim, s->dy + at, dim, s->filters + head * conv->taps,
                                      conv->taps, n, conv->head_dim);
    filter_gradient(s, s->sums + index * conv->taps, at, n);
    const struct edge_columns columns = columns_of(conv, sequence, head);
    convolution_edges_add(&s->dedges, s->rows, &columns, s->y, s->filters + head * conv->taps);
    convolution_edges_dots(&s->edges, s->rows, &columns, s->dy, s->sums + index * conv->taps);
}

void convolution_backward(const struct convolution *convolution, const struct rows *rows, const float *values,
                          struct slice gradients, float *dx, const float *dy, const float *x, void *scratch)
{
    size_t taps = convolution->taps, filters = convolution->heads * taps;
    const struct space space = space_on(convolution, rows, scratch);
    for (size_t i = 0; i < filters; i++)
        space.reversed[i] = values[convolution->filters + i / taps * taps + (taps - 1 - i % taps)];
    struct sweep sweep = {
        .convolution = convolution,
        .rows = rows,
        .filters = space.reversed,
        .x = x,
        .dy = dy,
        .y = dx,
        .sums = space.sums,
        .edges = space.edges,
        .dedges = space.dedges,
    };
    convolution_edges_get(&space.edges, rows, x);
    convolution_edges_get(&space.dedges, rows, dy);
    pool_run(rows->pool, backward_unit, &sweep, rows->num_sequences * convolution->heads);
    float *dfilters = slice_at(gradients, convolution->filters);
    for (size_t i = 0; i < filters; i++) {
        double sum = 0;
        for (size_t sequence = 0; sequence < rows->num_sequences; sequence++)
            sum += space.sums[sequence * filters + i];
        dfilters[i] += (float)sum;
    }
}
