/* Tiles of rows, through the slots of layer norm.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/rows/plain_norm.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "parts/rows/bounded.h"

enum { ROWS = 64 /* of a tile */ };

static const float epsilon = 1e-6f;

struct work {
    float *gain, *dgain, *dbias; /* (dim): 1, and two unused results */
    float *statistics;           /* (ROWS, 2) */
    float *rows, *drows;         /* (ROWS, dim) */
    double *wide;                /* (dim) */
    size_t bytes;
};

static struct work work_on(size_t dim, void *block)
{
    struct work work;
    struct arena arena = arena_on(block);
    work.gain = arena_take(&arena, dim, sizeof(float));
    work.dgain = arena_take(&arena, dim, sizeof(float));
    work.dbias = arena_take(&arena, dim, sizeof(float));
    work.statistics = arena_take(&arena, 2 * ROWS, sizeof(float));
    work.rows = arena_take(&arena, size_product(ROWS, dim), sizeof(float));
    work.drows = arena_take(&arena, size_product(ROWS, dim), sizeof(float));
    work.wide = arena_take(&arena, dim, sizeof(double));
    work.bytes = arena.used;
    return work;
}

size_t plain_norm_size(size_t dim)
{
    return work_on(dim, NULL).bytes;
}

double plain_norm_row(double *out, const float *x, size_t dim)
{
    double mean = 0, square = 0;
    for (size_t c = 0; c < dim; c++)
        mean += (double)x[c] / (double)dim;
    for (size_t c = 0; c < dim; c++)
        square += ((double)x[c] - mean) * ((double)x[c] - mean) / (double)dim;
    double sigma = sqrt(square + (double)epsilon);
    for (size_t c = 0; c < dim; c++)
        out[c] = ((double)x[c] - mean) / sigma;
    return sigma;
}

/* true if the squares of row i left the range of float32: 1 / sigma is then 0, NaN or inaccurate. */
static bool is_lost(const struct work *work, size_t i)
{
    return !(work->statistics[2 * i + 1] >= FLT_MIN);
}

/* At most ROWS rows. */
static void norm_tile(const struct kernels *kernels, const struct work *work, float *out, const float *x,
                      size_t ld, const uint32_t *list, size_t n, size_t dim)
{
    kernels->layers.plain_norm(out, work->statistics, x, ld, list, n, dim, epsilon);
    for (size_t i = 0; i < n; i++) {
        if (!is_lost(work, i))
            continue;
        plain_norm_row(work->wide, x + (list == NULL ? i : list[i]) * ld, dim);
        for (size_t c = 0; c < dim; c++)
            out[i * dim + c] = (float)work->wide[c];
    }
}

/* false for rows with numbers beyond +-DOUBLE_MOST, or NaN. */
static bool fit(const struct kernels *kernels, const float *x, size_t rows, size_t dim)
{
    return kernels->rows.all_finite(x, dim, rows, dim) &&
           kernels->rows.largest_size(x, dim, rows, dim) <= DOUBLE_MOST;
}

/* dx (dim) = the gradient of row x, limited to +-DOUBLE_MOST. */
static void row_backward(const struct work *work, float *dx, const float *x, const float *dout, size_t dim)
{
    double sigma = plain_norm_row(work->wide, x, dim), mean = 0, along = 0;
    for (size_t c = 0; c < dim; c++) {
        mean += (double)dout[c] / (double)dim;
        along += (double)dout[c] * work->wide[c] / (double)dim;
    }
    for (size_t c = 0; c < dim; c++)
        dx[c] = double_bounded(((double)dout[c] - mean - work->wide[c] * along) / sigma);
}

void plain_norm_rows(const struct kernels *kernels, float *out, struct view x, const uint32_t *list,
                     size_t first, size_t count, void *scratch)
{
    struct work work = work_on(x.cols, scratch);
    for (size_t at = 0; at < count; at += ROWS) {
        size_t from = first + at;
        norm_tile(kernels, &work, out + at * x.cols, list == NULL ? view_row(x, from) : x.data, x.stride,
                  list == NULL ? NULL : list + from, size_min(ROWS, count - at), x.cols);
    }
}

struct pass {
    const struct plain_norm *norm;
    float *out;
    const float *dout;
    struct view dx;
};

static void *memory_of(const struct plain_norm *norm, int worker)
{
    return (unsigned char *)norm->scratch + (size_t)worker * plain_norm_size(norm->x.cols);
}

static void forward_tile(void *argument, size_t tile, int worker)
{
    const struct pass *pass = argument;
    const struct plain_norm *norm = pass->norm;
    size_t first = tile * ROWS, rows = size_min(ROWS, norm->x.rows - first);
    plain_norm_rows(norm->kernels, pass->out + first * norm->x.cols, norm->x, NULL, first, rows,
                    memory_of(norm, worker));
}

static void backward_tile(void *argument, size_t tile, int worker)
{
    const struct pass *pass = argument;
    const struct plain_norm *norm = pass->norm;
    size_t first = tile * ROWS, rows = size_min(ROWS, norm->x.rows - first), dim = norm->x.cols;
    struct work work = work_on(dim, memory_of(norm, worker));
    for (size_t c = 0; c < dim; c++) {
        work.gain[c] = 1;
        work.dgain[c] = work.dbias[c] = 0;
    }
    for (size_t i = 0; i < rows; i++)
        memcpy(work.rows + i * dim, view_row(norm->x, first + i), dim * sizeof(float));
    norm_tile(norm->kernels, &work, work.drows, work.rows, dim, NULL, rows, dim); /* for the statistics */
    memset(work.drows, 0, rows * dim * sizeof(float));
    norm->kernels->layers.norm_backward(work.drows, work.dgain, work.dbias, pass->dout + first * dim,
                                        work.rows, work.statistics, work.gain, rows, dim);
    bool all_fit = fit(norm->kernels, work.drows, rows, dim);
    for (size_t i = 0; i < rows; i++)
        if (is_lost(&work, i) || !(all_fit || fit(norm->kernels, work.drows + i * dim, 1, dim)))
            row_backward(&work, work.drows + i * dim, work.rows + i * dim, pass->dout + (first + i) * dim,
                         dim);
    for (size_t i = 0; i < rows; i++)
        norm->kernels->rows.axpy(view_row(pass->dx, first + i), 1, work.drows + i * dim, dim);
}

void plain_norm_forward(const struct plain_norm *norm, float *out)
{
    struct pass pass = {.norm = norm, .out = out};
    pool_run(norm->pool, forward_tile, &pass, (norm->x.rows + ROWS - 1) / ROWS);
}

void plain_norm_backward(const struct plain_norm *norm, const float *dout, struct view dx)
{
    struct pass pass = {.norm = norm, .dout = dout, .dx = dx};
    pool_run(norm->pool, backward_tile, &pass, (norm->x.rows + ROWS - 1) / ROWS);
}
