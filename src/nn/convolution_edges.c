/* Exchanges the rows at the borders of spans, and adds every pair of rows that a tap joins across a border.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/convolution_edges.h"

#include <string.h>

struct convolution_edges convolution_edges_take(struct arena *arena, const struct rows *rows, size_t taps,
                                                size_t dim)
{
    struct convolution_edges edges = {.half = taps / 2, .dim = dim};
    float **const arrays[] = {&edges.first, &edges.last, &edges.before, &edges.after};
    size_t floats = rows->cut == NULL ? 0 : size_product(rows->num_sequences, size_product(edges.half, dim));
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        *arrays[i] = arena_take(arena, floats, sizeof(float));
    return edges;
}

void convolution_edges_get(const struct convolution_edges *edges, const struct rows *rows, const float *x)
{
    size_t floats = edges->half * edges->dim, all = rows->num_sequences * floats;
    if (rows->cut == NULL || floats == 0)
        return;
    for (size_t s = 0; s < rows->num_sequences; s++) {
        const float *end = x + rows->offsets[s + 1] * edges->dim;
        memcpy(edges->first + s * floats, x + rows->offsets[s] * edges->dim, floats * sizeof *x);
        memcpy(edges->last + s * floats, end - floats, floats * sizeof *x);
    }
    row_ranks_shift(rows->cut->ranks, edges->last, edges->before, all * sizeof *x, false);
    row_ranks_shift(rows->cut->ranks, edges->first, edges->after, all * sizeof *x, true);
}

/* A row i of this rank, and row j of a neighbour, both counted from the first row here, which are joined by
   tap j - i + half. */
struct edge_pair {
    size_t row;         /* packed row i */
    const float *other; /* row j */
    size_t tap;
};

/* The pair of our row `own` and the neighbour's row `other`, counted from their border; own + other < half.
 */
static struct edge_pair edge_pair_of(const struct convolution_edges *edges, const struct rows *rows,
                                     size_t sequence, size_t own, size_t other, bool after)
{
    size_t half = edges->half, edge = half * edges->dim * sequence;
    if (after) /* i = n - 1 - own, j = n + other */
        return (struct edge_pair){.row = rows->offsets[sequence + 1] - 1 - own,
                                  .other = edges->after + edge + other * edges->dim,
                                  .tap = half + 1 + own + other};
    return (struct edge_pair){.row = rows->offsets[sequence] + own, /* i = own, j = -1 - other */
                              .other = edges->before + edge + (half - 1 - other) * edges->dim,
                              .tap = half - 1 - own - other};
}

void convolution_edges_add(const struct convolution_edges *edges, const struct rows *rows,
                           const struct edge_columns *columns, float *y, const float *filter)
{
    size_t column = columns->column;
    for (size_t own = 0; rows->cut != NULL && own < edges->half; own++)
        for (size_t other = 0; own + other < edges->half; other++)
            for (int after = 0; after < 2; after++) {
                struct edge_pair m = edge_pair_of(edges, rows, columns->sequence, own, other, after == 1);
                rows->kernels->rows.axpy(y + m.row * edges->dim + column, filter[m.tap], m.other + column,
                                         columns->width);
            }
}

void convolution_edges_dots(const struct convolution_edges *edges, const struct rows *rows,
                            const struct edge_columns *columns, const float *dy, double *sums)
{
    size_t column = columns->column, dim = edges->dim;
    for (size_t own = 0; rows->cut != NULL && own < edges->half; own++)
        for (size_t other = 0; own + other < edges->half; other++)
            for (int after = 0; after < 2; after++) {
                struct edge_pair m = edge_pair_of(edges, rows, columns->sequence, own, other, after == 1);
                float dot;
                rows->kernels->rows.dots(&dot, dy + m.row * dim + column, dim, m.other + column, dim, 1,
                                         columns->width);
                sums[m.tap] += (double)dot;
            }
}
