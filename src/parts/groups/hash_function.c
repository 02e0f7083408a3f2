/* Products of tiles and a relu.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/hash_function.h"

#include "base/memory.h"

size_t hash_first_count(size_t dim, size_t width, size_t num_groups)
{
    return width == 0 ? size_product(dim, num_groups) : size_product(size_sum(dim, 1), width);
}

size_t hash_second_count(size_t width, size_t num_groups)
{
    return width == 0 ? 0 : size_product(size_sum(width, 1), num_groups);
}

void hash_hidden(const struct hash_function *hash, const float *x, size_t ld_x, size_t count, float *hidden)
{
    size_t width = hash->width;
    hash->kernels->tiles.product(hidden, width, x, ld_x, 1, hash->first, width, count, width, hash->dim,
                                 false);
    hash->kernels->layers.add_bias(hidden, width, hash->first + hash->dim * width, count, width);
    hash->kernels->rows.gate(hidden, hidden, hidden, count * width);
}

void hash_scores(const struct hash_function *hash, const float *x, size_t ld_x, size_t count, float *z,
                 float *hidden, bool add)
{
    const struct kernels *kernels = hash->kernels;
    size_t groups = hash->num_groups, width = hash->width;
    if (width == 0) {
        kernels->tiles.product(z, groups, x, ld_x, 1, hash->first, groups, count, groups, hash->dim, add);
        return;
    }
    hash_hidden(hash, x, ld_x, count, hidden);
    kernels->tiles.product(z, groups, hidden, width, 1, hash->second, groups, count, groups, width, add);
    kernels->layers.add_bias(z, groups, hash->second + width * groups, count, groups);
}

void hash_backward(const struct hash_function *hash, const float *x, size_t ld_x, size_t count,
                   const float *dz, const float *hidden, float *dhidden, float *dfirst, float *dsecond)
{
    const struct kernels *kernels = hash->kernels;
    size_t groups = hash->num_groups, width = hash->width, dim = hash->dim;
    if (width == 0) {
        kernels->tiles.product(dfirst, groups, x, 1, ld_x, dz, groups, dim, groups, count, true);
        return;
    }
    kernels->tiles.product(dsecond, groups, hidden, 1, width, dz, groups, width, groups, count, true);
    kernels->layers.add_bias_backward(dsecond + width * groups, dz, count, groups);
    float *transposed = dhidden + count * width; /* second (width, B) as (B, width) */
    kernels->tiles.transpose(transposed, width, hash->second, groups, width, groups);
    kernels->tiles.product(dhidden, width, dz, groups, 1, transposed, width, count, width, groups, false);
    kernels->rows.gate(dhidden, dhidden, hidden, count * width);
    kernels->tiles.product(dfirst, width, x, 1, ld_x, dhidden, width, dim, width, count, true);
    kernels->layers.add_bias_backward(dfirst + dim * width, dhidden, count, width);
}
