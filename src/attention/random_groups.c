/* Attention inside random groups: the control of lha that ignores content (row (a) of table 1 in Sun et al.
   2022). A token's scores for the groups are standard normals that depend only on its position, separate for
   queries and keys, or one score for both in joint and causal problems; the rest is as in lha
   (parts/groups/grouped.h). Random: the scores, once per head and call. Saved: index lists and two floats
   per query. Cost: (n_q + n_k) B normals, then 2 (d + d_v) operations per pair in a group, about 2 / B of
   all pairs.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/in_groups.h"
#include "base/random.h"

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
    struct grouped grouped = in_groups(options, shape);
    return grouped_scratch_size(&grouped);
}

static void score(const void *argument, enum grouped_side side, size_t first, size_t count, float *z,
                  int worker)
{
    (void)worker;
    const struct problem *problem = argument;
    size_t groups = in_groups_count(problem->options);
    random_normals(random_key(problem->random_key, RANDOM_GROUPS, side), first * groups, z, count * groups);
}

static struct grouped open_grouped(const struct problem *problem)
{
    struct grouped grouped = in_groups_open(problem->options, problem);
    grouped.score = score;
    grouped.argument = problem;
    grouped.scratch = problem->scratch;
    return grouped;
}

static void forward(const struct problem *problem, struct view out)
{
    struct grouped grouped = open_grouped(problem);
    grouped_forward(&grouped, out);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct grouped grouped = in_groups_open(problem->options, problem);
    grouped.scratch = problem->scratch;
    in_groups_backward(&grouped, out, dout, gradients);
}

static size_t inspect_size(const void *options, const struct problem_shape *shape)
{
    struct grouped grouped = in_groups(options, shape);
    return in_groups_inspect_size(&grouped, scratch_size(options, shape));
}

static void inspect(const struct problem *problem, struct inspection *inspection)
{
    struct grouped grouped = open_grouped(problem);
    in_groups_inspect(&grouped, problem, scratch_size(problem->options, &problem->shape), inspection);
}

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
    .host = {refuse, saved_size, scratch_size, forward, backward},
    .inspection = &(const struct inspection_facet){in_groups_count, inspect_size, inspect},
};
