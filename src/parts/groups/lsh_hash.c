/* One product and its negative.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/lsh_hash.h"

#include <math.h>

#include "base/memory.h"
#include "base/random.h"

static size_t directions_of(size_t num_groups)
{
    return (num_groups + 1) / 2;
}

size_t lsh_count(size_t dim, size_t num_groups, size_t rounds)
{
    return size_product(rounds, size_product(directions_of(num_groups), dim));
}

void lsh_draw(uint64_t key, size_t dim, size_t num_groups, size_t rounds, float *directions)
{
    size_t count = lsh_count(dim, num_groups, rounds);
    float scale = (float)(1 / sqrt((double)dim));
    random_normals(random_key(key, RANDOM_GROUPS, 0), 0, directions, count);
    for (size_t i = 0; i < count; i++)
        directions[i] *= scale;
}

void lsh_scores(const struct lsh_hash *hash, const float *x, size_t ld_x, size_t count, float *z, bool add)
{
    size_t groups = hash->num_groups, half = directions_of(groups), ld = hash->rounds * groups;
    for (size_t round = 0; round < hash->rounds; round++, z += groups) {
        hash->kernels->tiles.product(z, ld, x, ld_x, 1, hash->directions + round * half * hash->dim, half,
                                     count, half, hash->dim, add);
        for (size_t i = 0; i < count; i++)
            for (size_t b = half; b < groups; b++)
                z[i * ld + b] = -z[i * ld + b - half];
    }
}
