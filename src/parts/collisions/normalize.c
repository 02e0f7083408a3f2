/* Three kinds of normalisation, a few operations per element.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/normalize.h"

#include <math.h>
#include <string.h>

#include "parts/rows/elements.h"

#define SHORTEST  1e-12f
#define LEAST_SUM 1e-30f /* below it a sum of weights counts as 0: 1 / S would soon be infinite */

enum {
    BLOCK = 64,  /* rows that stay in L1 while they are processed */
    PIECE = 512, /* rows per unit of work */
};

static float length_of(float square, const float *row, size_t dim)
{
    if (square > 1e-30f && square < 1e30f)
        return sqrtf(square);
    /* The sum of squares may exceed the range of float although the length does not. */
    double sum = 0;
    for (size_t c = 0; c < dim; c++)
        sum += (double)row[c] * (double)row[c];
    return (float)sqrt(sum);
}

static float inverse_or_zero(float x, float least)
{
    return x >= least ? 1 / x : 0;
}

/* For at most BLOCK rows: the factors of x, and `row_norms`. */
static void take_factors(const struct kernels *kernels, int kind, float *factor, const float *x, size_t ld_x,
                         float scale, float *row_norms, size_t n, size_t dim)
{
    if (kind == YOSO_NORMALIZE_L2)
        kernels->rows.dots(row_norms, x, ld_x, x, ld_x, n, dim);
    for (size_t i = 0; i < n; i++)
        switch (kind) {
        case YOSO_NORMALIZE_L2:
            row_norms[i] = scale * length_of(row_norms[i], x + i * ld_x, dim);
            factor[i] = scale / fmaxf(row_norms[i], SHORTEST);
            break;
        case YOSO_NORMALIZE_SUM:
            factor[i] = scale * inverse_or_zero(row_norms[i], LEAST_SUM);
            break;
        default:
            factor[i] = scale;
        }
}

/* The normalisation of a head's rows, for a pool. */
struct work {
    const struct kernels *kernels;
    int kind;
    void *out;
    enum dtype dtype; /* of out */
    float *x, *row_norms;
    size_t ld_out, ld_x, n, dim;
    float scale;
};

static void normalize_piece(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct work *work = argument;
    float factor[BLOCK];
    size_t end = work->n - index * PIECE < PIECE ? work->n : (index + 1) * PIECE;
    for (size_t first = index * PIECE; first < end; first += BLOCK) {
        size_t rows = end - first < BLOCK ? end - first : BLOCK, ld_x = work->ld_x;
        float *block = work->x + first * ld_x;
        take_factors(work->kernels, work->kind, factor, block, ld_x, work->scale,
                     work->kind == YOSO_NORMALIZE_NONE ? NULL : work->row_norms + first, rows, work->dim);
        work->kernels->rows.scale(block, ld_x, factor, rows, work->dim);
        if (work->out != work->x)
            elements_store(work->kernels,
                           (char *)work->out + first * work->ld_out * element_bytes(work->dtype),
                           work->ld_out, work->dtype, block, ld_x, rows, work->dim);
    }
}

void normalize_rows(const struct kernels *kernels, struct pool *pool, int kind, void *out, size_t ld_out,
                    enum dtype dtype, float *x, size_t ld_x, float scale, float *row_norms, size_t n,
                    size_t dim)
{
    struct work work = {.kernels = kernels,
                        .kind = kind,
                        .out = out,
                        .dtype = dtype,
                        .x = x,
                        .row_norms = row_norms,
                        .ld_out = ld_out,
                        .ld_x = ld_x,
                        .n = n,
                        .dim = dim,
                        .scale = scale};
    pool_run(pool, normalize_piece, &work, (n + PIECE - 1) / PIECE);
}

void normalize_rows_backward(const struct kernels *kernels, int kind, float *dx, size_t ld_dx, float *bias,
                             const float *out, size_t ld_out, const float *dout, size_t ld_dout,
                             const float *row_norms, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++) {
        float *row = dx + i * ld_dx, dot = 0, factor = 1;
        const float *y = out + i * ld_out, *g = dout + i * ld_dout;
        memcpy(row, g, dim * sizeof *row);
        if (kind == YOSO_NORMALIZE_NONE)
            continue;
        kernels->rows.dots(&dot, y, ld_out, g, ld_dout, 1, dim);
        factor = inverse_or_zero(row_norms[i], kind == YOSO_NORMALIZE_L2 ? SHORTEST : LEAST_SUM);
        if (kind == YOSO_NORMALIZE_L2)
            kernels->rows.axpy(row, -dot, y, dim);
        else
            bias[i] = -dot * factor;
        kernels->rows.scale(row, ld_dx, &factor, 1, dim);
    }
}
