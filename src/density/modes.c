/* One pass over the points, then the modes are sorted.
   SPDX-License-Identifier: Apache-2.0 */
#include "density/modes.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

static double dot(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t c = 0; c < n; c++)
        sum += (double)a[c] * (double)b[c];
    return sum;
}

static void swap(size_t *numbers, size_t a)
{
    size_t kept = numbers[a];
    numbers[a] = numbers[a - 1];
    numbers[a - 1] = kept;
}

size_t modes_group(const float *z, size_t n, size_t width, size_t hash_bits, size_t *labels, size_t *first,
                   size_t *sizes, size_t *ranks)
{
    double least = cos(pi / (2 * (double)hash_bits));
    size_t count = 0, mode;
    for (size_t i = 0; i < n; i++) {
        for (mode = 0; mode < count; mode++)
            if (dot(z + first[mode] * width, z + i * width, width) > least)
                break;
        if (mode == count) {
            first[count] = i;
            sizes[count++] = 0;
        }
        sizes[mode]++;
        labels[i] = mode;
    }
    for (size_t k = 1; k < count; k++) /* insertion: nearly all of many modes have one point */
        for (size_t at = k; at > 0 && sizes[at - 1] < sizes[at]; at--) {
            swap(sizes, at);
            swap(first, at);
        }
    for (size_t k = 0; k < count; k++)
        ranks[labels[first[k]]] = k;
    for (size_t i = 0; i < n; i++)
        labels[i] = ranks[labels[i]];
    return count;
}
