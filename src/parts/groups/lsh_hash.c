/* One product and its negative. SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/lsh_hash.h"

#include <math.h>

#include "base/memory.h"
#include "base/random.h"

static size_t directions_of(size_t num_buckets)
{
    return (num_buckets + 1) / 2;
}

size_t lsh_count(size_t dim, size_t num_buckets)
{
    return size_product(directions_of(num_buckets), dim);
}

void lsh_draw(uint64_t key, size_t dim, size_t num_buckets, float *directions)
{
    size_t count = lsh_count(dim, num_buckets);
    float scale = (float)(1 / sqrt((double)dim));
    random_normals(random_key(key, RANDOM_BUCKETS, 0), 0, directions, count);
    for (size_t i = 0; i < count; i++)
        directions[i] *= scale;
}

void lsh_scores(const struct lsh_hash *hash, const float *x, size_t ld_x, size_t count, float *z, bool add)
{
    size_t buckets = hash->num_buckets, half = directions_of(buckets);
    hash->kernels->tiles.product(z, buckets, x, ld_x, 1, hash->directions, half, count, half, hash->dim, add);
    for (size_t i = 0; i < count; i++)
        for (size_t b = half; b < buckets; b++)
            z[i * buckets + b] = -z[i * buckets + b - half];
}
