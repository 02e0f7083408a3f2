/* A sample of n rows whose sums estimate the sums over all rows: the rows are cut into `count` stretches of
   equal length, up to one row, and one row is drawn from each and represents it. No row comes twice, and the
   rows rise. Cost: count draws.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_ROW_SAMPLE_H
#define PARTS_ROW_SAMPLE_H

#include "parts/groups/members.h"
#include "parts/rows/view.h"

/* rows (count), 1 <= count <= n < 2^32; if count = n, all rows in order. weights (count): the length of a
   row's stretch over n / count, so that sum weights[s] x[rows[s]] / count has the mean of x over all rows as
   its expectation. All weights are 1 if count divides n. */
void row_sample_draw(uint64_t key, size_t n, size_t count, uint32_t *rows, float *weights);

/* to (count, dim), adjacent, = the rows of the sample. from: begins with row `first`. */
void row_sample_copy(float *to, struct view from, size_t first, size_t dim, const uint32_t *rows,
                     size_t count);

/* The groups of the rows of the sample, indexed within the sample; `to` must have room for them. */
void row_sample_groups(const struct token_groups *to, const struct token_groups *from, const uint32_t *rows,
                       size_t count);

#endif
