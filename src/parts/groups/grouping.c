/* The meaning of the options, and the place of the scorer.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/grouping.h"

const char *const lha_mode_names[] = {"released", "paper", NULL};
const char *const membership_names[] = {"strict", "whole", NULL};

struct grouped grouping_of(const struct grouping_options *options, const struct problem_shape *shape)
{
    bool released = options->mode == MODE_RELEASED;
    return (struct grouped){
        .capacity = {(size_t)options->num_groups, options->enlargement, released},
        .rounds = (size_t)options->rounds,
        .balance = (size_t)options->balance,
        .joint = options->joint || shape->causal,
        .by_token = shape->causal && options->membership == MEMBERSHIP_STRICT,
        .partition = options->partition != 0,
        .norm = released,
    };
}

size_t grouping_count(const void *options)
{
    const struct grouping_options *grouping = options;
    return size_product((size_t)grouping->rounds, (size_t)grouping->num_groups);
}

/* ---- memory -------------------------------------------------------------------------------------------- */

struct scratch {
    void *scorer; /* behind the memory of grouped.h */
    size_t bytes;
};

static struct scratch scratch_on(const void *options, const struct problem_shape *shape,
                                 const struct score_source *source, void *block)
{
    struct scratch scratch;
    struct arena arena = arena_on(block);
    struct grouped grouped = grouping_of(options, shape);
    arena_take(&arena, grouped_scratch_size(shape, &grouped), 1);
    scratch.scorer = arena_take(&arena, source->size(options, shape), 1);
    scratch.bytes = arena.used;
    return scratch;
}

struct grouped grouping_open(const struct problem *problem, const struct score_source *source)
{
    struct grouped grouped = grouping_of(problem->options, &problem->shape);
    grouped.score = source->score;
    grouped.scorer =
        source->open(problem, scratch_on(problem->options, &problem->shape, source, problem->scratch).scorer);
    return grouped;
}

/* ---- slots --------------------------------------------------------------------------------------------- */

const char *grouping_refuse(const void *options, const struct problem_shape *shape)
{
    const struct grouping_options *grouping = options;
    struct grouped grouped = grouping_of(grouping, shape);
    size_t longest = size_max(shape->num_queries, shape->num_keys);
    if (grouping->joint && shape->num_queries != shape->num_keys)
        return "`joint` needs as many queries as keys, which are the same tokens";
    if (grouped.partition && grouped.by_token)
        return "`partition` places a token among later ones: causal attention needs `membership` whole with "
               "it";
    if (grouped_places(&grouped, longest) > UINT32_MAX ||
        (grouped.partition && size_product(longest, grouped.capacity.num_groups) > UINT32_MAX))
        return "`rounds` is {rounds}, `num_buckets` is {num_buckets}; places of tokens in buckets must be "
               "below "
               "2^32";
    return NULL;
}

size_t grouping_saved_size(const void *options, const struct problem_shape *shape)
{
    struct grouped grouped = grouping_of(options, shape);
    return grouped_saved_on(shape, &grouped, NULL).bytes;
}

size_t grouping_scratch_size(const void *options, const struct problem_shape *shape,
                             const struct score_source *source)
{
    return scratch_on(options, shape, source, NULL).bytes;
}

void grouping_forward(const struct problem *problem, const struct score_source *source, struct view out)
{
    struct grouped grouped = grouping_open(problem, source);
    grouped_forward(problem, &grouped, out);
}

void grouping_backward(const struct problem *problem, struct view out, struct view dout,
                       const struct problem_gradients *gradients)
{
    struct grouped grouped = grouping_of(problem->options, &problem->shape);
    grouped_backward(problem, &grouped, out, dout, gradients);
}
