/* Tiles of rows through the slots. SPDX-License-Identifier: Apache-2.0 */
#include "parts/plain_norm.h"

#include <string.h>

enum { ROWS = PLAIN_NORM_ROWS };

static const float epsilon = 1e-6f;

struct work {
    float *gain, *bias, *dgain, *dbias; /* (dim): 1, 0, and what nobody reads */
    float *statistics;                  /* (ROWS, 2) */
    float *rows, *drows;                /* (ROWS, dim) */
    size_t bytes;
};

static struct work work_on(size_t dim, void *block)
{
    struct work work;
    struct arena arena = arena_on(block);
    work.gain = arena_take(&arena, dim, sizeof(float));
    work.bias = arena_take(&arena, dim, sizeof(float));
    work.dgain = arena_take(&arena, dim, sizeof(float));
    work.dbias = arena_take(&arena, dim, sizeof(float));
    work.statistics = arena_take(&arena, 2 * ROWS, sizeof(float));
    work.rows = arena_take(&arena, size_product(ROWS, dim), sizeof(float));
    work.drows = arena_take(&arena, size_product(ROWS, dim), sizeof(float));
    work.bytes = arena.used;
    return work;
}

size_t plain_norm_size(size_t dim)
{
    return work_on(dim, NULL).bytes;
}

static struct work open_work(size_t dim, void *scratch)
{
    struct work work = work_on(dim, scratch);
    for (size_t c = 0; c < dim; c++) {
        work.gain[c] = 1;
        work.bias[c] = work.dgain[c] = work.dbias[c] = 0;
    }
    return work;
}

static void norm_rows(const struct kernels *kernels, const struct work *work, float *out, const float *x,
                      size_t n, size_t dim)
{
    kernels->layer_norm(out, work->statistics, x, work->gain, work->bias, n, dim, epsilon);
}

void plain_norm_rows(const struct kernels *kernels, float *out, const float *x, size_t n, size_t dim,
                     void *scratch)
{
    struct work work = open_work(dim, scratch);
    norm_rows(kernels, &work, out, x, n, dim);
}

struct pass {
    const struct plain_norm *norm;
    float *out, *dx;
    const float *dout;
    size_t ld_dx;
};

/* The tile's rows, adjacent, in `work`; how many. */
static size_t open_tile(const struct pass *pass, size_t tile, int worker, struct work *work)
{
    const struct plain_norm *norm = pass->norm;
    size_t dim = norm->dim, first = tile * ROWS, rows = norm->n - first < ROWS ? norm->n - first : ROWS;
    *work = open_work(dim, (unsigned char *)norm->scratch + (size_t)worker * plain_norm_size(dim));
    for (size_t i = 0; i < rows; i++)
        memcpy(work->rows + i * dim, norm->x + (first + i) * norm->ld, dim * sizeof(float));
    return rows;
}

static void forward_tile(void *argument, size_t tile, int worker)
{
    const struct pass *pass = argument;
    const struct plain_norm *norm = pass->norm;
    struct work work;
    size_t rows = open_tile(pass, tile, worker, &work);
    norm_rows(norm->kernels, &work, pass->out + tile * ROWS * norm->dim, work.rows, rows, norm->dim);
}

static void backward_tile(void *argument, size_t tile, int worker)
{
    const struct pass *pass = argument;
    const struct plain_norm *norm = pass->norm;
    struct work work;
    size_t rows = open_tile(pass, tile, worker, &work), first = tile * ROWS, dim = norm->dim;
    norm_rows(norm->kernels, &work, work.drows, work.rows, rows, dim); /* for the statistics */
    memset(work.drows, 0, rows * dim * sizeof(float));
    norm->kernels->layer_norm_backward(work.drows, work.dgain, work.dbias, pass->dout + first * dim,
                                       work.rows, work.statistics, work.gain, rows, dim);
    for (size_t i = 0; i < rows; i++)
        norm->kernels->axpy(pass->dx + (first + i) * pass->ld_dx, 1, work.drows + i * dim, dim);
}

void plain_norm_forward(const struct plain_norm *norm, float *out)
{
    struct pass pass = {.norm = norm, .out = out};
    pool_run(norm->pool, forward_tile, &pass, (norm->n + ROWS - 1) / ROWS);
}

void plain_norm_backward(const struct plain_norm *norm, const float *dout, float *dx, size_t ld_dx)
{
    struct pass pass = {.norm = norm, .dout = dout, .dx = dx, .ld_dx = ld_dx};
    pool_run(norm->pool, backward_tile, &pass, (norm->n + ROWS - 1) / ROWS);
}
