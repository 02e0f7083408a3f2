/* LHA: attention inside learned buckets (Sun, Yang and Yoo 2022, Sparse attention with learning to hash), for
   one head. Hash functions H_Q, H_K: R^d -> R^B score queries and keys for B buckets; a softmax over the
   buckets; each bucket takes the queries and the keys that score best in it, sqrt(2) times an equal share of
   them; softmax attention inside the buckets, merged into one softmax over all that a query meets
   (parts/bucketed.h, parts/bucket_attention.h). A key met in two buckets counts twice; a query in no bucket
   gives 0. Joint, and in causal problems, both have one score, the mean of H_Q and H_K (released) or their
   sum (paper), so a query meets its own key. Hashes: linear, W_Q and W_K; shared, W = (1 - c) S + c W' with S
   for both and c = private_share; mlp, two layers. Membership passes no gradient to q and k, nor is the
   task's loss one of the hashes: they learn from a loss of their own. Modes: where the paper and the code
   released with it differ (docs/LHA.md has the table), whom to follow. Random: nothing. Saved: index lists
   and log-sum-exps. Cost: 2 (n_q + n_k) d B operations to hash, then 2 (d
   + d_v) a pair in a bucket, about 2 / B of all pairs, which with B near sqrt(n) is n^1.5; backward 2.5 times
   the latter. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "attention/in_buckets.h"
#include "base/memory.h"
#include "parts/hash_function.h"

enum hash_kind { HASH_BY_MODE, HASH_LINEAR, HASH_SHARED, HASH_MLP };

struct lha_options {
    struct bucketing_options bucketing;
    int hash;
    int64_t hash_width;
    double private_share;
};

static enum hash_kind hash_of(const struct lha_options *options)
{
    if (options->hash != HASH_BY_MODE)
        return (enum hash_kind)options->hash;
    return options->bucketing.mode == MODE_RELEASED ? HASH_SHARED : HASH_LINEAR;
}

static size_t width_of(const struct lha_options *options)
{
    return hash_of(options) == HASH_MLP ? (size_t)options->hash_width : 0;
}

static size_t buckets_of(const struct lha_options *options)
{
    return (size_t)options->bucketing.num_buckets;
}

/* ---- memory ---------------------------------------------------------------------------------------------
 */

struct scratch {
    float *effective; /* (2, d, B): the kernels of queries and of keys, where they share */
    float *hidden;    /* (workers, SCORE_ROWS, width) */
    size_t effective_count, hidden_count; /* of one side, of one worker */
    void *bucketed;
    size_t bytes;
};

static struct scratch scratch_on(const struct lha_options *options, const struct problem_shape *shape,
                                 void *block)
{
    struct scratch scratch;
    struct arena arena = arena_on(block);
    struct bucketed bucketed = in_buckets(&options->bucketing, shape);
    scratch.effective_count =
        hash_of(options) == HASH_SHARED ? size_product(shape->head_dim, buckets_of(options)) : 0;
    scratch.hidden_count = size_product(SCORE_ROWS, width_of(options));
    scratch.effective = arena_take(&arena, size_product(2, scratch.effective_count), sizeof(float));
    scratch.hidden = arena_take(&arena, size_product(shape->workers, scratch.hidden_count), sizeof(float));
    scratch.bucketed = arena_take(&arena, bucketed_scratch_size(&bucketed), 1);
    scratch.bytes = arena.used;
    return scratch;
}

static const char *refuse(const void *options, const struct problem_shape *shape)
{
    return in_buckets_refuse(options, shape);
}

static size_t saved_size(const void *options, const struct problem_shape *shape)
{
    struct bucketed bucketed = in_buckets(options, shape);
    return bucketed_saved_size(&bucketed);
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    return scratch_on(options, shape, NULL).bytes;
}

/* ---- the hash functions ----------------------------------------------------------------------------------
 */

struct hashes {
    struct hash_function query, key;
};

/* effective = (1 - c) shared + c own, of one side. */
static void mix_kernels(const struct problem *problem, float *effective, const float *shared,
                        const float *own, size_t count)
{
    const struct lha_options *options = problem->options;
    memset(effective, 0, count * sizeof *effective);
    problem->kernels->axpy(effective, (float)(1 - options->private_share), shared, count);
    problem->kernels->axpy(effective, (float)options->private_share, own, count);
}

static struct hashes open_hashes(const struct problem *problem, const struct scratch *scratch)
{
    const struct lha_options *options = problem->options;
    size_t dim = problem->shape.head_dim, width = width_of(options), buckets = buckets_of(options);
    size_t first = hash_first_count(dim, width, buckets), second = hash_second_count(width, buckets);
    struct hash_function hash = {problem->kernels, dim, width, buckets, NULL, NULL};
    struct hashes hashes = {hash, hash};
    if (hash_of(options) == HASH_SHARED) {
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

struct scorer {
    const struct problem *problem;
    const struct scratch *scratch;
    struct hashes hashes;
    bool joint;
};

static const float *row_at(struct view rows, size_t i)
{
    return (const float *)rows.data + i * rows.stride;
}

static void score(const void *argument, enum bucketed_side side, size_t first, size_t count, float *z,
                  int worker)
{
    const struct scorer *scorer = argument;
    const struct problem *problem = scorer->problem;
    const struct lha_options *options = problem->options;
    float *hidden = scorer->scratch->hidden + (size_t)worker * scorer->scratch->hidden_count;
    struct view query = problem->query, key = problem->key;
    if (side == SIDE_QUERIES)
        hash_scores(&scorer->hashes.query, row_at(query, first), query.stride, count, z, hidden, false);
    if (side == SIDE_KEYS || scorer->joint)
        hash_scores(&scorer->hashes.key, row_at(key, first), key.stride, count, z, hidden, scorer->joint);
    if (scorer->joint && options->bucketing.mode == MODE_RELEASED)
        for (size_t i = 0; i < count * buckets_of(options); i++)
            z[i] *= 0.5f;
}

/* ---- forward and backward --------------------------------------------------------------------------------
 */

static void forward(const struct problem *problem, struct view out)
{
    struct scratch scratch = scratch_on(problem->options, &problem->shape, problem->scratch);
    struct bucketed bucketed = in_buckets_open(problem->options, problem);
    struct scorer scorer = {problem, &scratch, open_hashes(problem, &scratch), bucketed.joint};
    bucketed.score = score;
    bucketed.argument = &scorer;
    bucketed.scratch = scratch.bucketed;
    bucketed_forward(&bucketed, out.data, out.stride);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct bucketed bucketed = in_buckets_open(problem->options, problem);
    bucketed.scratch = scratch_on(problem->options, &problem->shape, problem->scratch).bucketed;
    in_buckets_backward(&bucketed, out, dout, gradients);
}

/* ---- rows ------------------------------------------------------------------------------------------------
 */

/* A tensor that is there only with this hash. */
static void shape_if(bool there, size_t height, size_t width, size_t *rows, size_t *cols)
{
    *rows = there ? height : 0;
    *cols = there ? width : 0;
}

static void shared_shape(const void *options, size_t head_dim, size_t value_dim, size_t *rows, size_t *cols)
{
    (void)value_dim;
    shape_if(hash_of(options) == HASH_SHARED, head_dim, buckets_of(options), rows, cols);
}

static void linear_shape(const void *options, size_t head_dim, size_t value_dim, size_t *rows, size_t *cols)
{
    (void)value_dim;
    shape_if(hash_of(options) != HASH_MLP, head_dim, buckets_of(options), rows, cols);
}

static void hidden_shape(const void *options, size_t head_dim, size_t value_dim, size_t *rows, size_t *cols)
{
    (void)value_dim;
    shape_if(hash_of(options) == HASH_MLP, size_sum(head_dim, 1), width_of(options), rows, cols);
}

static void out_shape(const void *options, size_t head_dim, size_t value_dim, size_t *rows, size_t *cols)
{
    (void)head_dim;
    (void)value_dim;
    shape_if(hash_of(options) == HASH_MLP, size_sum(width_of(options), 1), buckets_of(options), rows, cols);
}

static const struct parameter_row params[] = {
    {.name = "shared", .shape = shared_shape, .init = 0.1f},
    {.name = "query", .shape = linear_shape, .init = 0.1f},
    {.name = "key", .shape = linear_shape, .init = 0.1f},
    {.name = "query_hidden", .shape = hidden_shape, .init = 0.1f},
    {.name = "query_out", .shape = out_shape, .init = 0.1f},
    {.name = "key_hidden", .shape = hidden_shape, .init = 0.1f},
    {.name = "key_out", .shape = out_shape, .init = 0.1f},
    {.name = NULL},
};

static const char *const hash_names[] = {"auto", "linear", "shared", "mlp", NULL};

#define FIELD(name) #name, .offset = offsetof(struct lha_options, name)

static const struct option_row options[] = {
    BUCKETING_ROWS,
    {.name = FIELD(hash),
     .type = OPTION_CHOICE,
     .preset = HASH_BY_MODE,
     .choices = hash_names,
     .help =
         "what scores tokens for buckets: linear, apart for queries and keys; shared, mostly the same for "
         "both; mlp, two layers; auto is shared with mode released and linear with mode paper"},
    {.name = FIELD(hash_width),
     .type = OPTION_INT,
     .preset = 64,
     .minimum = 1,
     .maximum = 4096,
     .help = "hidden units of hash mlp"},
    {.name = FIELD(private_share),
     .type = OPTION_REAL,
     .preset = 0.1,
     .minimum = 0,
     .maximum = 1,
     .help = "of hash shared: the weight of what queries and keys have for themselves"},
    {.name = NULL},
};

const struct mechanism mechanism_lha = {
    .name = "lha",
    .summary = "softmax attention inside learned, balanced buckets of tokens",
    .options = options,
    .options_size = sizeof(struct lha_options),
    .exact = false,
    .mixes = true,
    .competes = true,
    .refuse = refuse,
    .saved_size = saved_size,
    .scratch_size = scratch_size,
    .forward = forward,
    .backward = backward,
    .params = params,
};
