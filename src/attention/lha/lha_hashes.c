/* Mixes the kernels that queries and keys share, then computes tiles of scores.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/lha/lha_hashes.h"

#include <string.h>

enum lha_hash lha_hash_kind(const struct lha_options *options)
{
    if (options->hash != HASH_BY_MODE)
        return (enum lha_hash)options->hash;
    return options->grouping.mode == MODE_RELEASED ? HASH_SHARED : HASH_LINEAR;
}

size_t lha_width(const struct lha_options *options)
{
    return lha_hash_kind(options) == HASH_MLP ? (size_t)options->hash_width : 0;
}

struct memory {
    struct lha_scorer *scorer;
    float *mixed;                     /* (2, d, B): kernels of queries and keys, with hash shared */
    float *hidden;                    /* (workers, SCORE_ROWS, width) */
    size_t mixed_count, hidden_count; /* per side, per worker */
    size_t bytes;
};

static struct memory memory_on(const struct lha_options *options, const struct problem_shape *shape,
                               void *block)
{
    struct memory memory;
    struct arena arena = arena_on(block);
    memory.mixed_count =
        lha_hash_kind(options) == HASH_SHARED ? size_product(shape->head_dim, lha_groups(options)) : 0;
    memory.hidden_count = size_product(SCORE_ROWS, lha_width(options));
    memory.scorer = arena_take(&arena, 1, sizeof *memory.scorer);
    memory.mixed = arena_take(&arena, size_product(2, memory.mixed_count), sizeof(float));
    memory.hidden = arena_take(&arena, size_product(shape->workers, memory.hidden_count), sizeof(float));
    memory.bytes = arena.used;
    return memory;
}

size_t lha_scorer_size(const void *options, const struct problem_shape *shape)
{
    return memory_on(options, shape, NULL).bytes;
}

/* mixed = (1 - c) shared + c own, for one side. */
static void mix_kernels(const struct problem *problem, float *mixed, const float *shared, const float *own,
                        size_t count)
{
    const struct lha_options *options = problem->options;
    memset(mixed, 0, count * sizeof *mixed);
    problem->kernels->rows.axpy(mixed, (float)(1 - options->private_share), shared, count);
    problem->kernels->rows.axpy(mixed, (float)options->private_share, own, count);
}

const void *lha_scorer_open(const struct problem *problem, void *block)
{
    const struct lha_options *options = problem->options;
    struct memory memory = memory_on(options, &problem->shape, block);
    struct lha_scorer *scorer = memory.scorer;
    size_t dim = problem->shape.head_dim, width = lha_width(options), groups = lha_groups(options);
    size_t first = hash_first_count(dim, width, groups), second = hash_second_count(width, groups);
    struct hash_function hash = {problem->kernels, dim, width, groups, NULL, NULL};
    *scorer = (struct lha_scorer){.problem = problem,
                                  .query_hash = hash,
                                  .key_hash = hash,
                                  .joint = grouping_of(&options->grouping, &problem->shape).joint,
                                  .query = problem->query,
                                  .key = problem->key,
                                  .hidden = memory.hidden,
                                  .hidden_count = memory.hidden_count};
    if (lha_hash_kind(options) == HASH_SHARED) {
        mix_kernels(problem, memory.mixed, problem->params, problem->params + first, first);
        mix_kernels(problem, memory.mixed + first, problem->params, problem->params + 2 * first, first);
        scorer->query_hash.first = memory.mixed;
        scorer->key_hash.first = memory.mixed + first;
    } else {
        scorer->query_hash.first = problem->params;
        scorer->query_hash.second = scorer->query_hash.first + first;
        scorer->key_hash.first = scorer->query_hash.second + second;
        scorer->key_hash.second = scorer->key_hash.first + first;
    }
    return scorer;
}

void lha_score(const void *argument, enum group_side side, size_t first, size_t count, float *z, int worker)
{
    const struct lha_scorer *scorer = argument;
    const struct lha_options *options = scorer->problem->options;
    float *hidden = scorer->hidden + (size_t)worker * scorer->hidden_count;
    struct view query = scorer->query, key = scorer->key;
    if (side == SIDE_QUERIES)
        hash_scores(&scorer->query_hash, view_row(query, first), query.stride, count, z, hidden, false);
    if (side == SIDE_KEYS || scorer->joint)
        hash_scores(&scorer->key_hash, view_row(key, first), key.stride, count, z, hidden, scorer->joint);
    if (scorer->joint && options->grouping.mode == MODE_RELEASED)
        for (size_t i = 0; i < count * lha_groups(options); i++)
            z[i] *= 0.5f;
}

const struct score_source lha_scores = {lha_scorer_size, lha_scorer_open, lha_score};
