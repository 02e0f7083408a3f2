/* Rows are read in order, also for the sums of columns.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/patterns/sinkhorn_balance.h"

#include <math.h>
#include <string.h>

static float *rows_after(const struct sinkhorn_balance *b, size_t round)
{
    return b->potentials + 2 * round * b->n;
}

static float *columns_after(const struct sinkhorn_balance *b, size_t round)
{
    return rows_after(b, round) + b->n;
}

/* to (n) = exp(scores of row i - u - v). v NULL: 0. */
static void row_of(const struct sinkhorn_balance *b, size_t i, float u, const float *v, float *to)
{
    const float *scores = b->scores + i * b->n;
    for (size_t j = 0; j < b->n; j++)
        to[j] = scores[j] - (v == NULL ? 0 : v[j]);
    b->kernels->softmax.exp(to, b->n, to, b->n, 1, b->n, 1, &u, 0);
}

static float sum_of(const float *x, size_t n)
{
    double sum = 0;
    for (size_t j = 0; j < n; j++)
        sum += (double)x[j];
    return (float)sum;
}

/* u_i = log sum_j exp(score_ij - v_j) */
static void sum_rows(const struct sinkhorn_balance *b, const float *v, float *u, float *scratch)
{
    for (size_t i = 0; i < b->n; i++) {
        const float *scores = b->scores + i * b->n;
        float most = -INFINITY;
        for (size_t j = 0; j < b->n; j++)
            most = fmaxf(most, scores[j] - (v == NULL ? 0 : v[j]));
        row_of(b, i, most, v, scratch);
        u[i] = most + logf(sum_of(scratch, b->n));
    }
}

/* v_j = log sum_i exp(score_ij - u_i) */
static void sum_columns(const struct sinkhorn_balance *b, const float *u, float *v, float *scratch)
{
    size_t n = b->n;
    float *most = scratch + n, *sums = scratch + 2 * n;
    for (size_t j = 0; j < n; j++) {
        most[j] = -INFINITY;
        sums[j] = 0;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            most[j] = fmaxf(most[j], b->scores[i * n + j] - u[i]);
    for (size_t i = 0; i < n; i++) {
        row_of(b, i, u[i], most, scratch);
        b->kernels->rows.axpy(sums, 1, scratch, n);
    }
    for (size_t j = 0; j < n; j++)
        v[j] = most[j] + logf(sums[j]);
}

void sinkhorn_balance_forward(const struct sinkhorn_balance *b, float *balanced, float *scratch)
{
    for (size_t round = 0; round < b->rounds; round++) {
        sum_rows(b, round == 0 ? NULL : columns_after(b, round - 1), rows_after(b, round), scratch);
        sum_columns(b, rows_after(b, round), columns_after(b, round), scratch);
    }
    sinkhorn_balance_again(b, balanced);
}

void sinkhorn_balance_again(const struct sinkhorn_balance *b, float *balanced)
{
    const float *u = rows_after(b, b->rounds - 1), *v = columns_after(b, b->rounds - 1);
    for (size_t i = 0; i < b->n; i++)
        row_of(b, i, u[i], v, balanced + i * b->n);
}

/* With y = r - log sum exp(r) along a row or column: dr = dy - exp(y) sum dy. */
void sinkhorn_balance_backward(const struct sinkhorn_balance *b, float *gradient, float *scratch)
{
    size_t n = b->n;
    float *sums = scratch + n;
    for (size_t i = 0; i < n; i++) { /* from R to log R */
        row_of(b, i, rows_after(b, b->rounds - 1)[i], columns_after(b, b->rounds - 1), scratch);
        b->kernels->rows.multiply(gradient + i * n, scratch, n);
    }
    for (size_t round = b->rounds; round-- > 0;) {
        memset(sums, 0, n * sizeof *sums);
        for (size_t i = 0; i < n; i++)
            b->kernels->rows.axpy(sums, 1, gradient + i * n, n);
        for (size_t i = 0; i < n; i++) {
            row_of(b, i, rows_after(b, round)[i], columns_after(b, round), scratch);
            b->kernels->rows.multiply(scratch, sums, n);
            b->kernels->rows.axpy(gradient + i * n, -1, scratch, n);
        }
        for (size_t i = 0; i < n; i++) {
            float sum = sum_of(gradient + i * n, n);
            row_of(b, i, rows_after(b, round)[i], round == 0 ? NULL : columns_after(b, round - 1), scratch);
            b->kernels->rows.axpy(gradient + i * n, -sum, scratch, n);
        }
    }
}
