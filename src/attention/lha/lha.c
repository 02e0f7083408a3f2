/* LHA: attention inside learned groups (Sun, Yang and Yoo 2022, Sparse attention with learning to hash), for
   one head. Hash functions H_Q, H_K: R^d -> R^B score queries and keys for B groups, followed by a softmax
   over the groups. Each group takes the queries and the keys that score best in it, sqrt(2) times an equal
   share of them. Softmax attention runs inside the groups and is merged into one softmax over all keys that
   a query attends to (parts/groups/grouped.h, parts/groups/group_attention.h). With several rounds, each
   hashes into B groups of its own, and all are merged in that softmax. A key found in two groups counts
   twice; a query in no group gives 0. With joint, and in causal problems, a token has one score, the mean of
   H_Q and H_K (released) or their sum (paper), so a query attends to its own key. Hashes: linear, W_Q and
   W_K; shared, W = (1 - c) S + c W' with S for both and c = private_share; mlp, two layers. Membership passes
   no gradient to q and k, and the hashes get none from the task's loss. They learn from their own loss, whose
   gradient goes only to their parameters: mean_i KL(psi_Q(i) || softmax z_i) + mean_j KL(psi_K(j) || softmax
   z_j), with psi the shares of a token's full attention that fall in each group: for a sample of S queries,
   drawn anew at every call, for all queries, or estimated by features (parts/targets/utility.h). mode decides
   whether to follow the paper or its released code where they differ (table in docs/LHA.md). Random: the
   sample, once per head; the features, once per call. Saved: index lists and two floats per query. Cost: 2
   (n_q + n_k) d B operations to hash, then 2 (d + d_v) per pair in a group, about 2 / B of all pairs, which
   is n^1.5 for B near sqrt(n); backward 2.5 times the latter; the loss 2 S n_k (d + 2), or 2 (n_q + n_k) R (B
   + 2 d) for R features. Rows that ranks share: lha_ranks.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/lha/lha_hashes.h"
#include "attention/lha/lha_loss.h"
#include "attention/lha/lha_ranks.h"
#include "base/memory.h"
#include "base/random.h"
#include "parts/features/random_features.h"
#include "parts/inspect/inspection.h"

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    return size_max(grouping_scratch_size(options, shape, &lha_scores), lha_loss_size(options, shape));
}

static void forward(const struct problem *problem, struct view out)
{
    grouping_forward(problem, &lha_scores, out);
}

static size_t inspect_size(const void *options, const struct problem_shape *shape)
{
    return size_max(inspection_scratch_size(options, shape, &lha_scores), lha_loss_size(options, shape));
}

static void inspect(const struct problem *problem, struct inspection *inspection)
{
    inspection_inspect(problem, &lha_scores, inspection);
}

/* ---- the loss and its features ------------------------------------------------------------------------- */

static double loss_share(const void *options)
{
    return ((const struct lha_options *)options)->hash_loss;
}

static size_t shared_size(const void *options, size_t head_dim)
{
    const struct lha_options *lha = options;
    if (!lha_by_features(lha))
        return 0;
    return size_product(features_count(lha_directions(lha), head_dim), sizeof(float));
}

static size_t prepare_scratch_size(const void *options, size_t head_dim, size_t workers)
{
    const struct lha_options *lha = options;
    return lha_by_features(lha) ? features_work_size(lha_directions(lha), head_dim, workers) : 0;
}

static void prepare(const struct preparation *preparation)
{
    const struct lha_options *lha = preparation->options;
    if (lha_by_features(lha))
        features_draw(preparation->kernels, preparation->pool, lha_directions(lha), preparation->head_dim,
                      random_key(preparation->call_key, RANDOM_FEATURES, 0), preparation->shared,
                      preparation->scratch);
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

/* Shape of a tensor that only some hashes have. */
static void shape_if(bool there, size_t height, size_t width, size_t *rows, size_t *cols)
{
    *rows = there ? height : 0;
    *cols = there ? width : 0;
}

static void shared_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows, size_t *cols)
{
    shape_if(lha_hash_kind(options) == HASH_SHARED, sizes->head_dim, lha_groups(options), rows, cols);
}

static void linear_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows, size_t *cols)
{
    shape_if(lha_hash_kind(options) != HASH_MLP, sizes->head_dim, lha_groups(options), rows, cols);
}

static void hidden_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows, size_t *cols)
{
    shape_if(lha_hash_kind(options) == HASH_MLP, size_sum(sizes->head_dim, 1), lha_width(options), rows,
             cols);
}

static void out_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows, size_t *cols)
{
    (void)sizes;
    shape_if(lha_hash_kind(options) == HASH_MLP, size_sum(lha_width(options), 1), lha_groups(options), rows,
             cols);
}

static const struct parameter_row params[] = {
    {.name = "shared", .shape = shared_shape, .start = START_NORMAL, .scale = 0.1f, .decays = true},
    {.name = "query", .shape = linear_shape, .start = START_NORMAL, .scale = 0.1f, .decays = true},
    {.name = "key", .shape = linear_shape, .start = START_NORMAL, .scale = 0.1f, .decays = true},
    {.name = "query_hidden", .shape = hidden_shape, .start = START_NORMAL, .scale = 0.1f, .decays = true},
    {.name = "query_out", .shape = out_shape, .start = START_NORMAL, .scale = 0.1f, .decays = true},
    {.name = "key_hidden", .shape = hidden_shape, .start = START_NORMAL, .scale = 0.1f, .decays = true},
    {.name = "key_out", .shape = out_shape, .start = START_NORMAL, .scale = 0.1f, .decays = true},
    {.name = NULL},
};

static const char *const targets_names[] = {"sampled", "features", "exact", NULL};
static const char *const hash_names[] = {"auto", "linear", "shared", "mlp", NULL};

#define FIELD(name) #name, .offset = offsetof(struct lha_options, name)

static const struct option_row options[] = {
    GROUPING_ROWS,
    {.name = FIELD(hash),
     .type = OPTION_CHOICE,
     .preset = HASH_BY_MODE,
     .choices = hash_names,
     .help =
         "function that scores tokens for buckets: linear (separate for queries and keys), shared (mostly "
         "the same for both), mlp (two layers); auto is shared in mode released and linear in mode paper"},
    {.name = FIELD(hash_width),
     .type = OPTION_INT,
     .preset = 64,
     .minimum = 1,
     .maximum = 4096,
     .help = "with hash mlp: hidden units"},
    {.name = FIELD(private_share),
     .type = OPTION_REAL,
     .preset = 0.1,
     .minimum = 0,
     .maximum = 1,
     .help =
         "with hash shared: weight of the separate parts of queries and keys; the shared part has the rest"},
    {.name = FIELD(hash_loss),
     .type = OPTION_REAL,
     .preset = 0.05,
     .minimum = 0,
     .maximum = 1,
     .help = "weight of the loss of the hash functions; the task's loss has the rest; 0 does not train them"},
    {.name = FIELD(targets),
     .type = OPTION_CHOICE,
     .preset = TARGETS_SAMPLED,
     .choices = targets_names,
     .help = "how to compute the targets of the hash loss, the attention that falls in each bucket: sampled "
             "(exact, for a sample of queries), features (estimated with random features, as in the papers), "
             "exact (for all queries, quadratic)"},
    OPTION_ROW("samples_per_bucket", OPTION_INT, offsetof(struct lha_options, samples_per_group), 4, 1, 65536,
               NULL, "with targets sampled: queries per head and bucket, drawn anew at every step"),
    {.name = FIELD(num_features),
     .type = OPTION_INT,
     .preset = 256,
     .minimum = 1,
     .maximum = 65536,
     .help = "with targets features: number of random features"},
    {.name = FIELD(both_signs),
     .type = OPTION_FLAG,
     .help = "with targets features: each random direction gives two features, one for each sign"},
    {.name = NULL},
};

static const char *const departures[] = {
    "A masked token is absent, from the targets and the mean of the hashes' loss too.",
    "Hashes start as normal numbers with deviation 0.1.",
    NULL,
};

const struct mechanism mechanism_lha = {
    .name = "lha",
    .summary = "softmax attention inside learned, balanced buckets of tokens (Sun et al. 2022)",
    .departures = departures,
    .options = options,
    .options_size = sizeof(struct lha_options),
    .exact = false,
    .mixes = true,
    .drops_weights = true,
    .competes = true,
    .host = {grouping_refuse, grouping_saved_size, scratch_size, forward, grouping_backward},
    .params = params,
    .preparation = &(const struct preparation_facet){shared_size, prepare_scratch_size, prepare},
    .own_loss = &(const struct own_loss_facet){lha_loss, loss_share},
    .inspection = &(const struct inspection_facet){grouping_count, inspect_size, inspect},
    .ranks = &(const struct implementation){lha_ranks_refuse, lha_ranks_saved_size, lha_ranks_scratch_size,
                                            lha_ranks_forward, lha_ranks_backward},
};
