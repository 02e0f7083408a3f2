/* The draw of a row from each stretch, and the copies and groups of the rows drawn.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/targets/row_sample.h"

#include <string.h>

#include "base/random.h"

/* First row of stretch s; the first n % count stretches are one row longer. */
static size_t stretch(size_t n, size_t count, size_t s)
{
    size_t longer = n % count;
    return s * (n / count) + (s < longer ? s : longer);
}

void row_sample_draw(uint64_t key, size_t n, size_t count, uint32_t *rows, float *weights)
{
    for (size_t s = 0; s < count; s++) {
        size_t first = stretch(n, count, s), length = stretch(n, count, s + 1) - first;
        uint32_t words[4];
        random_words(key, s, words);
        rows[s] = (uint32_t)(first + ((uint64_t)words[0] * length >> 32));
        weights[s] = (float)((double)length * (double)count / (double)n);
    }
}

void row_sample_copy(float *to, struct view from, size_t first, size_t dim, const uint32_t *rows,
                     size_t count)
{
    for (size_t s = 0; s < count; s++)
        memcpy(to + s * dim, view_row(from, rows[s] - first), dim * sizeof *to);
}

void row_sample_groups(const struct token_groups *to, const struct token_groups *from, const uint32_t *rows,
                       size_t count)
{
    to->start[0] = 0;
    for (size_t s = 0; s < count; s++) {
        uint32_t first = from->start[rows[s]], groups = from->start[rows[s] + 1] - first;
        memcpy(to->group + to->start[s], from->group + first, groups * sizeof *to->group);
        to->start[s + 1] = to->start[s] + groups;
    }
}
