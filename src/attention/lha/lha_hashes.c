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

struct lha_scratch lha_scratch_on(const struct lha_options *options, const struct problem_shape *shape,
                                  size_t rest, void *block)
{
    struct lha_scratch scratch;
    struct arena arena = arena_on(block);
    scratch.effective_count =
        lha_hash_kind(options) == HASH_SHARED ? size_product(shape->head_dim, lha_groups(options)) : 0;
    scratch.hidden_count = size_product(SCORE_ROWS, lha_width(options));
    scratch.effective = arena_take(&arena, size_product(2, scratch.effective_count), sizeof(float));
    scratch.hidden = arena_take(&arena, size_product(shape->workers, scratch.hidden_count), sizeof(float));
    scratch.rest = arena_take(&arena, rest, 1);
    scratch.bytes = arena.used;
    return scratch;
}

/* effective = (1 - c) shared + c own, for one side. */
static void mix_kernels(const struct problem *problem, float *effective, const float *shared,
                        const float *own, size_t count)
{
    const struct lha_options *options = problem->options;
    memset(effective, 0, count * sizeof *effective);
    problem->kernels->rows.axpy(effective, (float)(1 - options->private_share), shared, count);
    problem->kernels->rows.axpy(effective, (float)options->private_share, own, count);
}

struct lha_hashes lha_open_hashes(const struct problem *problem, const struct lha_scratch *scratch)
{
    const struct lha_options *options = problem->options;
    size_t dim = problem->shape.head_dim, width = lha_width(options), groups = lha_groups(options);
    size_t first = hash_first_count(dim, width, groups), second = hash_second_count(width, groups);
    struct hash_function hash = {problem->kernels, dim, width, groups, NULL, NULL};
    struct lha_hashes hashes = {hash, hash};
    if (lha_hash_kind(options) == HASH_SHARED) {
        mix_kernels(problem, scratch->effective, problem->params, problem->params + first, first);
        mix_kernels(problem, scratch->effective + first, problem->params, problem->params + 2 * first, first);
        hashes.query.first = scratch->effective;
        hashes.key.first = scratch->effective + first;
        return hashes;
    }
    hashes.query.first = problem->params;
    hashes.query.second = hashes.query.first + first;
    hashes.key.first = hashes.query.second + second;
    hashes.key.second = hashes.key.first + first;
    return hashes;
}

void lha_score(const void *argument, enum grouped_side side, size_t first, size_t count, float *z, int worker)
{
    const struct lha_scorer *scorer = argument;
    const struct problem *problem = scorer->problem;
    const struct lha_options *options = problem->options;
    float *hidden = scorer->scratch->hidden + (size_t)worker * scorer->scratch->hidden_count;
    struct view query = scorer->query, key = scorer->key;
    if (side == SIDE_QUERIES)
        hash_scores(&scorer->hashes.query, lha_row(query, first), query.stride, count, z, hidden, false);
    if (side == SIDE_KEYS || scorer->joint)
        hash_scores(&scorer->hashes.key, lha_row(key, first), key.stride, count, z, hidden, scorer->joint);
    if (scorer->joint && options->grouping.mode == MODE_RELEASED)
        for (size_t i = 0; i < count * lha_groups(options); i++)
            z[i] *= 0.5f;
}
