/* Horner's form: U = 7 I - M, V = 15 I - M U, P = 13 I - M V, Z' = Z P / 4.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/nystrom/pseudo_inverse.h"

#include <string.h>

#include "kernels/product.h"

struct pseudo_inverse pseudo_inverse_take(struct arena *arena, size_t m)
{
    struct pseudo_inverse inverse;
    size_t floats = size_product(m, m);
    for (size_t t = 0; t < PSEUDO_INVERSE_STEPS; t++) {
        struct inverse_step *step = &inverse.steps[t];
        step->z = arena_take(arena, floats, sizeof(float));
        step->m = arena_take(arena, floats, sizeof(float));
        step->v = arena_take(arena, floats, sizeof(float));
        step->p = arena_take(arena, floats, sizeof(float));
    }
    inverse.result = arena_take(arena, floats, sizeof(float));
    for (size_t i = 0; i < 4; i++)
        inverse.spare[i] = arena_take(arena, floats, sizeof(float));
    return inverse;
}

/* c (m, m) = [add: c +] op(a) op(b). */
static void multiply(const struct kernels *kernels, float *c, const float *a, bool transpose_a,
                     const float *b, bool transpose_b, size_t m, bool add)
{
    product(kernels, c, m, a, m, transpose_a, b, m, transpose_b, m, m, m, add);
}

/* to = diagonal I - from; in place too. */
static void below(float *to, const float *from, float diagonal, size_t m)
{
    for (size_t i = 0; i < m * m; i++)
        to[i] = -from[i];
    for (size_t i = 0; i < m; i++)
        to[i * m + i] += diagonal;
}

static void scale(float *x, float factor, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] *= factor;
}

/* The largest sum of a column, and the first column that has it. */
static float largest_sum(const float *a, size_t m, size_t *column)
{
    float largest = 0;
    *column = 0;
    for (size_t j = 0; j < m; j++) {
        float sum = 0;
        for (size_t i = 0; i < m; i++)
            sum += a[i * m + j];
        if (sum > largest) {
            largest = sum;
            *column = j;
        }
    }
    return largest;
}

void pseudo_inverse_forward(const struct kernels *kernels, const struct pseudo_inverse *inverse,
                            const float *a, size_t m)
{
    size_t column;
    float *u = inverse->spare[0];
    kernels->tiles.transpose(inverse->steps[0].z, m, a, m, m, m);
    scale(inverse->steps[0].z, 1 / largest_sum(a, m, &column), m * m);
    for (size_t t = 0; t < PSEUDO_INVERSE_STEPS; t++) {
        const struct inverse_step *step = &inverse->steps[t];
        float *next = t + 1 < PSEUDO_INVERSE_STEPS ? inverse->steps[t + 1].z : inverse->result;
        multiply(kernels, step->m, a, false, step->z, false, m, false);
        below(u, step->m, 7, m);
        multiply(kernels, step->v, step->m, false, u, false, m, false);
        below(step->v, step->v, 15, m);
        multiply(kernels, step->p, step->m, false, step->v, false, m, false);
        below(step->p, step->p, 13, m);
        multiply(kernels, next, step->z, false, step->p, false, m, false);
        scale(next, 0.25f, m * m);
    }
}

/* dz holds the gradient of Z' before and of Z after. */
static void step_backward(const struct kernels *kernels, const struct pseudo_inverse *inverse,
                          const struct inverse_step *step, const float *a, size_t m, float *dz, float *da)
{
    float *dp = inverse->spare[0], *dm = inverse->spare[1], *u = inverse->spare[2],
          *minus = inverse->spare[3];
    scale(dz, 0.25f, m * m);
    multiply(kernels, dp, step->z, true, dz, false, m, false);
    multiply(kernels, u, dz, false, step->p, true, m, false);
    memcpy(dz, u, m * m * sizeof *dz);
    multiply(kernels, dm, dp, false, step->v, true, m, false);
    scale(dm, -1, m * m);
    multiply(kernels, minus, step->m, true, dp, false, m, false); /* -dV = M^T dP */
    below(u, step->m, 7, m);
    multiply(kernels, dm, minus, false, u, true, m, true);
    multiply(kernels, dp, step->m, true, minus, false, m, false); /* dU = -M^T dV, and dM -= dU */
    kernels->rows.axpy(dm, -1, dp, m * m);
    multiply(kernels, da, dm, false, step->z, true, m, true);
    multiply(kernels, dz, a, true, dm, false, m, true);
}

void pseudo_inverse_backward(const struct kernels *kernels, const struct pseudo_inverse *inverse,
                             const float *a, size_t m, float *dresult, float *da)
{
    for (size_t t = PSEUDO_INVERSE_STEPS; t-- > 0;)
        step_backward(kernels, inverse, &inverse->steps[t], a, m, dresult, da);
    const float *start = inverse->steps[0].z;
    size_t column;
    float sum = largest_sum(a, m, &column), dsum = 0;
    for (size_t i = 0; i < m * m; i++)
        dsum -= dresult[i] * start[i];
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < m; j++)
            da[i * m + j] += dresult[j * m + i] / sum;
        da[i * m + column] += dsum / sum;
    }
}
