/* Counting, gathering and putting back the rows of the keys that take part. Once per unit of work, and not
   at all where every key is kept or the kept keys come first. SPDX-License-Identifier: Apache-2.0 */
#include "attention/kept.h"

#include <assert.h>
#include <string.h>

struct kept kept_count(const uint8_t *mask, size_t n)
{
    struct kept kept = {.count = n, .prefix = true};
    if (mask == NULL)
        return kept;
    size_t first_masked = n;
    kept.count = 0;
    for (size_t i = n; i-- > 0;) {
        kept.count += mask[i] != 0;
        if (mask[i] == 0)
            first_masked = i;
    }
    kept.prefix = first_masked == kept.count || kept.count == n;
    return kept;
}

struct view kept_gather(struct view rows, const uint8_t *mask, struct kept kept, float *block)
{
    assert(rows.dtype == DTYPE_FLOAT32);
    const float *from = rows.data;
    float *to = block;
    for (size_t i = 0; i < rows.rows; i++) {
        if (mask[i] == 0)
            continue;
        memcpy(to, from + i * rows.stride, rows.cols * sizeof *to);
        to += rows.cols;
    }
    return (struct view){
        .data = block, .dtype = DTYPE_FLOAT32, .rows = kept.count, .cols = rows.cols, .stride = rows.cols};
}

void kept_put_back(struct view gathered, const uint8_t *mask, struct view rows)
{
    const float *from = gathered.data;
    float *to = rows.data;
    for (size_t i = 0; i < rows.rows; i++) {
        if (mask[i] == 0)
            continue;
        memcpy(to + i * rows.stride, from, rows.cols * sizeof *to);
        from += gathered.stride;
    }
}

void kept_visible(const uint8_t *mask, size_t n, size_t *visible)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        count += mask == NULL || mask[i] != 0;
        visible[i] = count;
    }
}
