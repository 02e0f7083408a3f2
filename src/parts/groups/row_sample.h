/* Some of n rows, drawn so that sums over them stand for sums over all: the rows are cut into `count`
   stretches as equal as can be, and one is drawn of each, which counts for its stretch. No row comes twice,
   and they rise. Cost: count draws. SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_ROW_SAMPLE_H
#define PARTS_ROW_SAMPLE_H

#include "parts/groups/group_attention.h"
#include "parts/groups/utility.h"
#include "parts/rows/view.h"

/* rows (count), 1 <= count <= n < 2^32; with count = n all of them, in order. weights (count): the length of
   a row's stretch over n / count, so that sum weights[s] x[rows[s]] / count has the mean of all x as its mean
   over draws. All are 1 where count divides n. */
void row_sample_draw(uint64_t key, size_t n, size_t count, uint32_t *rows, float *weights);

/* to (count, dim), adjacent. */
void row_sample_copy(float *to, struct view from, size_t dim, const uint32_t *rows, size_t count);

/* Where the rows of the sample are, counted in the sample; `to` has room for what `from` has of them. */
void row_sample_homes(const struct homes *to, const struct homes *from, const uint32_t *rows, size_t count);

#endif
