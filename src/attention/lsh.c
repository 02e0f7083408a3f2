/* Attention inside groups of a random linear hash: the control of lha. H(x) = x [R; -R] / sqrt(d), R (d,
   B/2) standard normal (for odd B one direction lacks its opposite), the same for queries and keys (Kitaev
   et al. 2020, Reformer; Sun et al. 2022, eq. 9). A token belongs where H is largest, as in Reformer, and
   groups are balanced as in lha: softmax over the groups, then each group takes its best tokens, or, in
   causal problems, each token its best group (parts/groups/grouped.h).
   With several rounds, each has an R of its own, and a query attends to the keys of its groups in all of
   them. Random: R, once per head and call. Saved: index lists and two floats per query. Cost of a round: n d
   B operations for the scores, then 2 (d + d_v) per pair in a group, about 2 / B of all pairs.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/mechanism.h"
#include "parts/groups/lsh_hash.h"
#include "parts/inspect/group_slots.h"

static size_t scorer_size(const void *options, const struct problem_shape *shape)
{
    struct grouped grouped = grouping_of(options, shape);
    return lsh_size(shape->head_dim, &grouped);
}

static const void *open_scorer(const struct problem *problem, void *memory)
{
    struct grouped grouped = grouping_of(problem->options, &problem->shape);
    return lsh_open(problem, &grouped, problem->random_key, memory);
}

static const struct score_source source = {scorer_size, open_scorer, lsh_score};

GROUP_SLOTS(source)

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
    .host = {grouping_refuse, grouping_saved_size, scratch_size, forward, grouping_backward},
    .inspection = &(const struct inspection_facet){grouping_count, inspect_size, inspect},
};
