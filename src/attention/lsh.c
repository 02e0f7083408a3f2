/* Attention inside groups of a random linear hash: the control of lha. H(x) = x [R; -R] / sqrt(d), R (d,
   B/2) standard normal (for odd B one direction lacks its opposite), the same for queries and keys (Kitaev
   et al. 2020, Reformer; Sun et al. 2022, eq. 9). A token belongs where H is largest, as in Reformer, and
   groups are balanced as in lha: softmax over the groups, then each group takes its best tokens, or, in
   causal problems, each token its best group (parts/groups/grouped.h).
   With several rounds, each has an R of its own, and a query attends to the keys of its groups in all of
   them. Random: R, once per head and call. Saved: index lists and two floats per query. Cost of a round: n d
   B operations for the scores, then 2 (d + d_v) per pair in a group, about 2 / B of all pairs.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/in_groups.h"
#include "base/memory.h"
#include "parts/groups/lsh_hash.h"

struct scratch {
    float *directions;
    void *grouped;
    size_t bytes;
};

static struct scratch scratch_on(const void *options, const struct problem_shape *shape, void *block)
{
    struct scratch scratch;
    struct arena arena = arena_on(block);
    struct grouped grouped = in_groups(options, shape);
    size_t count = lsh_count(shape->head_dim, grouped.capacity.num_groups, grouped.rounds);
    scratch.directions = arena_take(&arena, count, sizeof(float));
    scratch.grouped = arena_take(&arena, grouped_scratch_size(&grouped), 1);
    scratch.bytes = arena.used;
    return scratch;
}

static const char *refuse(const void *options, const struct problem_shape *shape)
{
    return in_groups_refuse(options, shape);
}

static size_t saved_size(const void *options, const struct problem_shape *shape)
{
    struct grouped grouped = in_groups(options, shape);
    return grouped_saved_size(&grouped);
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    return scratch_on(options, shape, NULL).bytes;
}

struct scorer {
    const struct problem *problem;
    struct lsh_hash hash;
    bool joint;
};

static void add_scores(const struct lsh_hash *hash, struct view rows, size_t first, size_t count, float *z,
                       bool add)
{
    lsh_scores(hash, view_row(rows, first), rows.stride, count, z, add);
}

/* Joint: H(q) + H(k), computed as one sum. */
static void score(const void *argument, enum grouped_side side, size_t first, size_t count, float *z,
                  int worker)
{
    (void)worker;
    const struct scorer *scorer = argument;
    const struct problem *problem = scorer->problem;
    add_scores(&scorer->hash, side == SIDE_QUERIES ? problem->query : problem->key, first, count, z, false);
    if (scorer->joint)
        add_scores(&scorer->hash, problem->key, first, count, z, true);
}

/* With the score function; its arrays are in the scratch. */
static struct grouped open_grouped(const struct problem *problem, struct scorer *scorer)
{
    struct scratch scratch = scratch_on(problem->options, &problem->shape, problem->scratch);
    struct grouped grouped = in_groups_open(problem->options, problem);
    const struct lsh_hash hash = {problem->kernels, problem->shape.head_dim, grouped.capacity.num_groups,
                                  grouped.rounds, scratch.directions};
    lsh_draw(problem->random_key, hash.dim, hash.num_groups, hash.rounds, scratch.directions);
    *scorer = (struct scorer){problem, hash, grouped.joint};
    grouped.score = score;
    grouped.argument = scorer;
    grouped.scratch = scratch.grouped;
    return grouped;
}

static void forward(const struct problem *problem, struct view out)
{
    struct scorer scorer;
    struct grouped grouped = open_grouped(problem, &scorer);
    grouped_forward(&grouped, out);
}

static size_t inspect_size(const void *options, const struct problem_shape *shape)
{
    struct grouped grouped = in_groups(options, shape);
    return in_groups_inspect_size(&grouped, scratch_size(options, shape));
}

static void inspect(const struct problem *problem, struct inspection *inspection)
{
    struct scorer scorer;
    struct grouped grouped = open_grouped(problem, &scorer);
    in_groups_inspect(&grouped, problem, scratch_size(problem->options, &problem->shape), inspection);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct grouped grouped = in_groups_open(problem->options, problem);
    grouped.scratch = scratch_on(problem->options, &problem->shape, problem->scratch).grouped;
    in_groups_backward(&grouped, out, dout, gradients);
}

static const struct option_row options[] = {GROUPING_ROWS, {.name = NULL}};

static const char *const departures[] = {
    "Directions are drawn anew at every training step, for each head and sequence; evaluation uses "
    "one draw per layer and head.",
    NULL,
};

const struct mechanism mechanism_lsh = {
    .name = "lsh",
    .summary = "softmax attention inside balanced buckets of a random linear hash: a control for lha",
    .departures = departures,
    .options = options,
    .options_size = sizeof(struct grouping_options),
    .exact = false,
    .mixes = true,
    .drops_weights = true,
    .competes = true,
    .host = {refuse, saved_size, scratch_size, forward, backward},
    .inspection = &(const struct inspection_facet){in_groups_count, inspect_size, inspect},
};
