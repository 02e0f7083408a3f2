/* Plain loops over sums in eight lanes: their bits must not depend on the instruction set, or the codes
   would. Cost: 4 n d operations.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/hashing/unit_map.h"

#include <float.h>
#include <math.h>

#include "parts/rows/bounded.h"

enum { LANES = 8 };

static double square_of(const float *row, size_t dim)
{
    double sum[LANES] = {0};
    for (size_t c = 0; c < dim; c++)
        sum[c % LANES] += (double)row[c] * (double)row[c];
    for (size_t step = LANES / 2; step > 0; step /= 2)
        for (size_t l = 0; l < step; l++)
            sum[l] += sum[l + step];
    return sum[0];
}

double unit_map_limit(const void *of)
{
    const struct yoso_options *options = of;
    return unit_map_is_l2(options) ? 0 : options->max_norm;
}

double unit_map_longest(const float *x, size_t ld_x, size_t n, size_t dim)
{
    double longest = 0;
    for (size_t i = 0; i < n; i++) {
        double square = square_of(x + i * ld_x, dim);
        longest = square > longest ? square : longest;
    }
    return sqrt(longest);
}

void unit_map_take(float *unit, size_t ld, float *norm, const float *x, size_t ld_x, size_t n, size_t dim,
                   double max_norm, bool of_keys)
{
    for (size_t i = 0; i < n; i++) {
        const float *from = x + i * ld_x;
        float *to = unit + i * ld;
        double square = square_of(from, dim), length = sqrt(square);
        double divisor = length > max_norm ? length : max_norm > 0 ? max_norm : 1;
        double rest = 1 - square / (divisor * divisor);
        for (size_t c = 0; c < dim; c++)
            to[c] = (float)((double)from[c] / divisor);
        for (size_t c = dim; c < ld; c++)
            to[c] = 0;
        to[dim + of_keys] = rest > 0 ? (float)sqrt(rest) : 0;
        norm[i] = (float)fmin(divisor, (double)FLT_MAX);
    }
}

void unit_map_backward(const struct kernels *kernels, float *dx, size_t ld_dx, const float *du, size_t ld,
                       const float *norm, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++) {
        kernels->rows.axpy(dx + i * ld_dx, fminf(1 / norm[i], FLT_MAX), du + i * ld, dim);
        if (norm[i] < 1)
            bounded_row(dx + i * ld_dx, dim);
    }
}
