/* One product and its negative.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/lsh_hash.h"

#include <math.h>

#include "base/memory.h"
#include "base/random.h"

struct scorer {
    const struct kernels *kernels;
    struct view query, key;
    size_t num_groups, rounds; /* num_groups: of a round */
    float *directions;         /* (rounds, d, (B + 1) / 2), divided by sqrt(d) */
    bool joint;
};

struct memory {
    struct scorer *scorer;
    float *directions;
    size_t count, bytes; /* count: of directions' numbers */
};

static size_t directions_of(size_t num_groups)
{
    return (num_groups + 1) / 2;
}

static struct memory memory_on(size_t dim, const struct grouped *grouped, void *block)
{
    struct memory memory;
    struct arena arena = arena_on(block);
    memory.count =
        size_product(grouped->rounds, size_product(directions_of(grouped->capacity.num_groups), dim));
    memory.scorer = arena_take(&arena, 1, sizeof *memory.scorer);
    memory.directions = arena_take(&arena, memory.count, sizeof *memory.directions);
    memory.bytes = arena.used;
    return memory;
}

size_t lsh_size(size_t dim, const struct grouped *grouped)
{
    return memory_on(dim, grouped, NULL).bytes;
}

const void *lsh_open(const struct problem *problem, const struct grouped *grouped, uint64_t key, void *memory)
{
    struct memory own = memory_on(problem->shape.head_dim, grouped, memory);
    float scale = (float)(1 / sqrt((double)problem->shape.head_dim));
    *own.scorer = (struct scorer){.kernels = problem->kernels,
                                  .query = problem->query,
                                  .key = problem->key,
                                  .num_groups = grouped->capacity.num_groups,
                                  .rounds = grouped->rounds,
                                  .directions = own.directions,
                                  .joint = grouped->joint};
    random_normals(random_key(key, RANDOM_GROUPS, 0), 0, own.directions, own.count);
    for (size_t i = 0; i < own.count; i++)
        own.directions[i] *= scale;
    return own.scorer;
}

/* z (count, rounds, B), adjacent, from count rows; add: z +=, where z must also come from this hash. */
static void add_scores(const struct scorer *scorer, struct view rows, size_t first, size_t count, float *z,
                       bool add)
{
    size_t groups = scorer->num_groups, half = directions_of(groups), ld = scorer->rounds * groups;
    for (size_t round = 0; round < scorer->rounds; round++, z += groups) {
        scorer->kernels->tiles.product(z, ld, view_row(rows, first), rows.stride, 1,
                                       scorer->directions + round * half * rows.cols, half, count, half,
                                       rows.cols, add);
        for (size_t i = 0; i < count; i++)
            for (size_t b = half; b < groups; b++)
                z[i * ld + b] = -z[i * ld + b - half];
    }
}

void lsh_score(const void *argument, enum group_side side, size_t first, size_t count, float *z, int worker)
{
    (void)worker;
    const struct scorer *scorer = argument;
    add_scores(scorer, side == SIDE_QUERIES ? scorer->query : scorer->key, first, count, z, false);
    if (scorer->joint)
        add_scores(scorer, scorer->key, first, count, z, true);
}
