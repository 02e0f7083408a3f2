/* The options of lha and its two hash functions (parts/groups/hash_function.h; Sun et al. 2022, eqs. 9 and
   10), opened on a problem. Shared kernels, W = (1 - c) S + c W' as published, are mixed once per head: 4 d
   B operations, little compared with 2 d B per token scored.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_LHA_HASHES_H
#define ATTENTION_LHA_HASHES_H

#include "attention/mechanism.h"
#include "parts/groups/grouping.h"
#include "parts/groups/hash_function.h"

enum lha_hash { HASH_BY_MODE, HASH_LINEAR, HASH_SHARED, HASH_MLP };

struct lha_options {
    struct grouping_options grouping;
    int hash;
    int64_t hash_width;
    double private_share, hash_loss; /* c, lambda */
    int targets;
    int64_t samples_per_group, num_features; /* S / B, R */
    int both_signs;
};

enum lha_targets { TARGETS_SAMPLED, TARGETS_FEATURES, TARGETS_EXACT };

/* The hash, with auto resolved; and its hidden units, 0 unless it is an mlp. */
enum lha_hash lha_hash_kind(const struct lha_options *options);
size_t lha_width(const struct lha_options *options);

/* Groups of all rounds: the columns of the scores. */
static inline size_t lha_groups(const struct lha_options *options)
{
    return grouping_count(&options->grouping);
}

static inline size_t lha_rounds(const struct lha_options *options)
{
    return (size_t)options->grouping.rounds;
}

/* The hashes of a problem, and the rows that they score. */
struct lha_scorer {
    const struct problem *problem;
    struct hash_function query_hash, key_hash;
    bool joint;
    struct view query, key; /* those of the problem, or a sample */
    float *hidden;          /* (workers, SCORE_ROWS, width) */
    size_t hidden_count;    /* per worker */
};

/* Where the scores of lha come from. */
extern const struct score_source lha_scores;

/* Its functions. Shared kernels are mixed in the memory. */
size_t lha_scorer_size(const void *options, const struct problem_shape *shape);
const void *lha_scorer_open(const struct problem *problem, void *memory);
void lha_score(const void *scorer, enum group_side side, size_t first, size_t count, float *z, int worker);

#endif
