/* The options of lha and its two hash functions (parts/groups/hash_function.h; Sun et al. 2022, eqs. 9 and
   10), opened on a problem. Shared kernels, W = (1 - c) S + c W' as published, are mixed once per head: 4 d
   B operations, little compared with 2 d B per token scored.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_LHA_HASHES_H
#define ATTENTION_LHA_HASHES_H

#include "attention/in_groups.h"
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
    return in_groups_count(&options->grouping);
}

static inline size_t lha_rounds(const struct lha_options *options)
{
    return (size_t)options->grouping.rounds;
}

struct lha_scratch {
    float *effective;                     /* (2, d, B): mixed kernels of queries and keys, with hash shared */
    float *hidden;                        /* (workers, SCORE_ROWS, width) */
    size_t effective_count, hidden_count; /* per side, per worker */
    void *rest;                           /* memory of grouped, or of the loss */
    size_t bytes;
};

/* Scratch with `rest` bytes for grouped or the loss. */
struct lha_scratch lha_scratch_on(const struct lha_options *options, const struct problem_shape *shape,
                                  size_t rest, void *block);

struct lha_hashes {
    struct hash_function query, key;
};

/* With the parameters of the problem; shared kernels are mixed in the scratch. */
struct lha_hashes lha_open_hashes(const struct problem *problem, const struct lha_scratch *scratch);

struct lha_scorer {
    const struct problem *problem;
    const struct lha_scratch *scratch;
    struct lha_hashes hashes;
    bool joint;
    struct view query, key; /* the rows it scores: those of the problem, or a sample */
};

static inline const float *lha_row(struct view rows, size_t i)
{
    return view_row(rows, i);
}

/* The function for grouped.score; its argument is a scorer. */
void lha_score(const void *argument, enum grouped_side side, size_t first, size_t count, float *z,
               int worker);

#endif
