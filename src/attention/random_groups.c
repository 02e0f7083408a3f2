/* Attention inside random groups: the control of lha that ignores content (row (a) of table 1 in Sun et al.
   2022). A token's scores for the groups are standard normals that depend only on its position, separate for
   queries and keys, or one score for both in joint and causal problems; the rest is as in lha
   (parts/groups/grouped.h). Random: the scores, once per head and call. Saved: index lists and two floats
   per query. Cost: (n_q + n_k) B normals, then 2 (d + d_v) operations per pair in a group, about 2 / B of
   all pairs.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/mechanism.h"
#include "base/random.h"
#include "parts/inspect/group_slots.h"

static size_t scorer_size(const void *options, const struct problem_shape *shape)
{
    (void)options;
    (void)shape;
    return 0;
}

static const void *open_scorer(const struct problem *problem, void *memory)
{
    (void)memory;
    return problem;
}

static void score(const void *argument, enum group_side side, size_t first, size_t count, float *z,
                  int worker)
{
    (void)worker;
    const struct problem *problem = argument;
    size_t groups = grouping_count(problem->options);
    random_normals(random_key(problem->random_key, RANDOM_GROUPS, side), first * groups, z, count * groups);
}

static const struct score_source source = {scorer_size, open_scorer, score};

GROUP_SLOTS(source)

static const struct option_row options[] = {GROUPING_ROWS, {.name = NULL}};

static const char *const departures[] = {
    "Scores are drawn anew at every training step, for each head and sequence; evaluation uses one "
    "draw per layer and head.",
    NULL,
};

const struct mechanism mechanism_random = {
    .name = "random",
    .summary = "softmax attention inside balanced random buckets: a control for lha",
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
