/* Counts, gathers and writes back the rows of the keys that take part. Once per unit of work; not needed if
   every key is kept or the kept keys come first.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/driver/kept.h"

#include "parts/rows/elements.h"

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

/* Length of the run of kept rows that starts at `first`. */
static size_t run_length(const uint8_t *mask, size_t first, size_t n)
{
    size_t end = mask == NULL ? n : first;
    while (end < n && mask[end] != 0)
        end++;
    return end - first;
}

static void *row_at(struct view rows, size_t row)
{
    return (unsigned char *)rows.data + row * rows.stride * element_bytes(rows.dtype);
}

struct view kept_gather(const struct kernels *kernels, struct view rows, const uint8_t *mask,
                        struct kept kept, float *block)
{
    float *to = block;
    for (size_t i = 0, run; i < rows.rows; i += run + 1, to += run * rows.cols) {
        run = run_length(mask, i, rows.rows);
        elements_load(kernels, to, rows.cols, row_at(rows, i), rows.stride, rows.dtype, run, rows.cols);
    }
    return view_of(block, kept.count, rows.cols);
}

void kept_put_back(const struct kernels *kernels, struct view gathered, const uint8_t *mask, struct view rows)
{
    const float *from = gathered.data;
    for (size_t i = 0, run; i < rows.rows; i += run + 1, from += run * gathered.stride) {
        run = run_length(mask, i, rows.rows);
        elements_store(kernels, row_at(rows, i), rows.stride, rows.dtype, from, gathered.stride, run,
                       rows.cols);
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
