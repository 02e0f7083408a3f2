/* The key of a sequence at a site comes from its sample id; block b of a row holds the draws of its columns
   8 b .. 8 b + 7. SPDX-License-Identifier: Apache-2.0 */
#include "nn/dropout.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
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

/* factor[i] = 0 or scale, for the draws of one block. */
static inline void draw(const struct dropout *dropout, uint64_t key, uint64_t block, float factor[DRAWS])
{
    uint32_t words[4];
    random_words(key, block, words);
    for (int i = 0; i < 4; i++) {
        factor[2 * i] = (words[i] & 0xffff) >= dropout->threshold ? dropout->scale : 0.0f;
        factor[2 * i + 1] = words[i] >> 16 >= dropout->threshold ? dropout->scale : 0.0f;
    }
}

/* One row; residual may be NULL. */
static void drop_row(const struct dropout *dropout, uint64_t key, uint64_t block, float *y,
                     const float *residual, const float *x, size_t dim)
{
    float factor[DRAWS];
    size_t c = 0;
    for (; c + DRAWS <= dim; c += DRAWS) {
        draw(dropout, key, block++, factor);
        if (residual != NULL)
            for (size_t i = 0; i < DRAWS; i++)
                y[c + i] = residual[c + i] + factor[i] * x[c + i];
        else
            for (size_t i = 0; i < DRAWS; i++)
                y[c + i] = factor[i] * x[c + i];
    }
    if (c < dim) {
        draw(dropout, key, block, factor);
        for (size_t i = 0; c < dim; i++, c++)
            y[c] = (residual != NULL ? residual[c] : 0.0f) + factor[i] * x[c];
    }
}

static void drop(const struct dropout *dropout, uint64_t key, const struct rows *rows, float *y,
                 const float *residual, const float *x, size_t first, size_t n, size_t dim)
{
    uint64_t blocks = (dim + DRAWS - 1) / DRAWS;
    size_t done = 0;
    for (struct span s = rows_span(rows, first, n); s.count > 0; s = rows_next(rows, s)) {
        uint64_t sample = random_key(key, RANDOM_SAMPLE, rows->sample_ids[s.sequence]);
        for (size_t i = 0; i < s.count; i++, done++)
            drop_row(dropout, sample, (s.position + i) * blocks, y + done * dim,
                     residual == NULL ? NULL : residual + done * dim, x + done * dim, dim);
    }
    memset(y + done * dim, 0, (n - done) * dim * sizeof *y);
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
    rows->kernels->axpy(y, 1.0f, x, n * dim);
}
