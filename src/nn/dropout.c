/* The key of a sequence at a site comes from its sample id; block b of a row holds the draws of its columns
   8 b .. 8 b + 7. SPDX-License-Identifier: Apache-2.0 */
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

static void drop(const struct dropout *dropout, uint64_t key, const struct rows *rows, float *y,
                 const float *residual, const float *x, size_t first, size_t n, size_t dim)
{
    uint64_t blocks = (dim + DRAWS - 1) / DRAWS;
    size_t done = 0;
    for (struct span s = rows_span(rows, first, n); s.count > 0; s = rows_next(rows, s)) {
        uint64_t sample = random_key(key, RANDOM_SAMPLE, rows->sample_ids[s.sequence]);
        /* Rows of whole blocks follow one another in draws as in memory. */
        size_t together = dim % DRAWS == 0 ? s.count : 1;
        for (size_t i = 0; i < s.count; i += together, done += together)
            rows->kernels->dropout(y + done * dim, residual == NULL ? NULL : residual + done * dim,
                                   x + done * dim, together * dim, sample, (s.position + i) * blocks,
                                   dropout->threshold, dropout->scale);
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
