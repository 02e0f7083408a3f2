/* LHA: attention inside learned buckets (Sun, Yang and Yoo 2022, Sparse attention with learning to hash), for
   one head. Hash functions H_Q, H_K: R^d -> R^B score queries and keys for B buckets; a softmax over the
   buckets; each bucket takes the queries and the keys that score best in it, sqrt(2) times an equal share of
   them; softmax attention inside the buckets, merged into one softmax over all that a query meets
   (parts/bucketed.h, parts/bucket_attention.h). A key met in two buckets counts twice; a query in no bucket
   gives 0. Joint, and in causal problems, both have one score, the mean of H_Q and H_K (released) or their
   sum (paper), so a query meets its own key. Hashes: linear, W_Q and W_K; shared, W = (1 - c) S + c W' with S
   for both and c = private_share; mlp, two layers.
   Membership passes no gradient to q and k, nor is the task's loss one of the hashes: they learn from a loss
   of their own, whose gradient goes to their parameters alone, mean_i KL(psi_Q(i) || softmax z_i) + mean_j
   KL(psi_K(j) || softmax z_j), psi the shares of a token's full attention that lie in each bucket: of a
   sample of S queries, anew at every call, of all, or estimated by features (parts/utility.h). Modes: where
   the paper and the code released with it differ (docs/LHA.md has the table), whom to follow. Random: the
   sample, once per head; the features, once per call. Saved: index lists and log-sum-exps. Cost: 2 (n_q +
   n_k) d B operations to hash, then 2 (d + d_v) a pair in a bucket, about 2 / B of all pairs, which with B
   near sqrt(n) is n^1.5; backward 2.5 times the latter; the loss 2 S n_k (4 d + 3 B), or 2 (n_q + n_k)
   R (B + 2 d) for R features. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "attention/in_buckets.h"
#include "base/memory.h"
#include "base/random.h"
#include "parts/hash_function.h"
#include "parts/plain_norm.h"
#include "parts/row_sample.h"
#include "parts/utility.h"

enum hash_kind { HASH_BY_MODE, HASH_LINEAR, HASH_SHARED, HASH_MLP };

struct lha_options {
    struct bucketing_options bucketing;
    int hash;
    int64_t hash_width;
    double private_share, hash_loss; /* c, lambda */
    int targets;
    int64_t samples_per_bucket, num_features; /* S / B, R */
};

enum targets { TARGETS_SAMPLED, TARGETS_FEATURES, TARGETS_EXACT };

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
    void *rest;                           /* of bucketed, or of the loss */
    size_t bytes;
};

static struct scratch scratch_on(const struct lha_options *options, const struct problem_shape *shape,
                                 size_t rest, void *block)
{
    struct scratch scratch;
    struct arena arena = arena_on(block);
    scratch.effective_count =
        hash_of(options) == HASH_SHARED ? size_product(shape->head_dim, buckets_of(options)) : 0;
    scratch.hidden_count = size_product(SCORE_ROWS, width_of(options));
    scratch.effective = arena_take(&arena, size_product(2, scratch.effective_count), sizeof(float));
    scratch.hidden = arena_take(&arena, size_product(shape->workers, scratch.hidden_count), sizeof(float));
    scratch.rest = arena_take(&arena, rest, 1);
    scratch.bytes = arena.used;
    return scratch;
}

/* What the loss works in, beside the kernels and the hidden numbers of `scratch`. */
struct loss_scratch {
    float *query, *key, *statistics; /* (n, d) each, (n, 2) of either: normed rows, with mode released */
    void *norm;                      /* (workers, plain_norm_size) */
    struct homes query_homes, key_homes;
    uint32_t *sample;                   /* (S): the queries that have targets, and of them */
    float *attending, *hashed, *paired; /* (S, d) each: normed or not; for H_Q; for H_K, where both count */
    struct homes sample_homes;
    struct members lists; /* of a side, and */
    uint32_t *choice;     /* (n): who counts for which bucket, where attention has other lists */
    float *dhash;         /* of effective kernels, with hash shared */
    void *work;           /* of the scores that say who counts where, then of the targets */
    unsigned char *slots; /* (workers, slot_bytes) */
    size_t slot_bytes, bytes;
};

/* What of it the rows that are worked on at once have for themselves. */
struct loss_slot {
    float *z, *dz, *kl; /* (SCORE_ROWS, B) twice, (SCORE_ROWS) */
    float *dhidden;     /* (SCORE_ROWS, width) */
    float *dhash;       /* as in loss_scratch: of rows that are not added up yet */
    double *total;      /* of these */
    size_t bytes;
};

/* Numbers of both hashes: the first matrix and the second of queries, then those of keys. */
static size_t hashes_count(const struct lha_options *options, size_t dim)
{
    size_t width = width_of(options), buckets = buckets_of(options);
    return size_product(2,
                        size_sum(hash_first_count(dim, width, buckets), hash_second_count(width, buckets)));
}

static struct loss_slot loss_slot_on(const struct lha_options *options, size_t dim, void *block)
{
    struct loss_slot slot;
    struct arena arena = arena_on(block);
    size_t tile = size_product(SCORE_ROWS, buckets_of(options));
    slot.z = arena_take(&arena, tile, sizeof(float));
    slot.dz = arena_take(&arena, tile, sizeof(float));
    slot.kl = arena_take(&arena, SCORE_ROWS, sizeof(float));
    slot.dhidden = arena_take(&arena, size_product(SCORE_ROWS, width_of(options)), sizeof(float));
    slot.dhash = arena_take(&arena, hashes_count(options, dim), sizeof(float));
    slot.total = arena_take(&arena, 1, sizeof(double));
    slot.bytes = arena.used;
    return slot;
}

static bool by_features(const struct lha_options *options)
{
    return options->targets == TARGETS_FEATURES;
}

static bool is_sampled(const struct lha_options *options)
{
    return options->targets == TARGETS_SAMPLED;
}

/* S: how many queries have targets. */
static size_t targets_of_queries(const struct lha_options *options, size_t n)
{
    size_t most = size_product((size_t)options->samples_per_bucket, buckets_of(options));
    return is_sampled(options) && most < n ? most : n;
}

/* All that its size depends on. */
static struct utility utility_of(const struct lha_options *options, const struct problem_shape *shape)
{
    bool released = options->bucketing.mode == MODE_RELEASED;
    return (struct utility){.num_queries = targets_of_queries(options, shape->num_queries),
                            .num_keys = shape->num_keys,
                            .dim = shape->head_dim,
                            .num_buckets = buckets_of(options),
                            .num_features = by_features(options) ? (size_t)options->num_features : 0,
                            .workers = shape->workers,
                            .swapped = released,
                            .twice_scaled = released};
}

/* For lists, or for one bucket each. */
static struct homes take_homes(struct arena *arena, const struct bucketed *bucketed, size_t n)
{
    size_t places = bucketed_whole_places(bucketed, n);
    return homes_take(arena, n, places > n ? places : n);
}

static struct loss_scratch loss_scratch_on(const struct lha_options *options,
                                           const struct problem_shape *shape, void *block)
{
    struct loss_scratch scratch = {NULL};
    struct arena arena = arena_on(block);
    struct utility utility = utility_of(options, shape);
    struct bucketed bucketed = in_buckets(&options->bucketing, shape);
    size_t n_q = shape->num_queries, n_k = shape->num_keys, most = n_q > n_k ? n_q : n_k, d = shape->head_dim;
    if (options->bucketing.mode == MODE_RELEASED) {
        scratch.query = arena_take(&arena, size_product(n_q, d), sizeof(float));
        scratch.key = arena_take(&arena, size_product(n_k, d), sizeof(float));
        scratch.statistics = arena_take(&arena, size_product(most, 2), sizeof(float));
        scratch.norm = arena_take(&arena, shape->workers, plain_norm_size(d));
    }
    scratch.query_homes = take_homes(&arena, &bucketed, n_q);
    scratch.key_homes = take_homes(&arena, &bucketed, n_k);
    if (is_sampled(options)) {
        size_t samples = utility.num_queries;
        scratch.sample = arena_take(&arena, samples, sizeof *scratch.sample);
        scratch.attending = arena_take(&arena, size_product(samples, d), sizeof(float));
        scratch.hashed = arena_take(&arena, size_product(samples, d), sizeof(float));
        scratch.paired = arena_take(&arena, bucketed.joint ? size_product(samples, d) : 0, sizeof(float));
        size_t places = bucketed_whole_places(&bucketed, n_q),
               most_homes = size_product(samples, buckets_of(options));
        places = places > n_q ? places : n_q;
        scratch.sample_homes = homes_take(&arena, samples, most_homes < places ? most_homes : places);
    }
    scratch.lists = members_take(&arena, buckets_of(options), bucketed_whole_places(&bucketed, most));
    scratch.choice = arena_take(&arena, most, sizeof *scratch.choice);
    scratch.dhash =
        arena_take(&arena, hash_of(options) == HASH_SHARED ? hashes_count(options, d) : 0, sizeof(float));
    scratch.slot_bytes = loss_slot_on(options, d, NULL).bytes;
    scratch.slots = arena_take(&arena, shape->workers, scratch.slot_bytes);
    size_t whole = bucketed_whole_size(&bucketed), targets = utility_size(&utility);
    scratch.work = arena_take(&arena, whole > targets ? whole : targets, 1);
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
    struct bucketed bucketed = in_buckets(options, shape);
    size_t attention = bucketed_scratch_size(&bucketed), loss = loss_scratch_on(options, shape, NULL).bytes;
    return scratch_on(options, shape, attention > loss ? attention : loss, NULL).bytes;
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
    struct view query, key; /* what it scores: those of the problem, or a sample of them */
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
    struct view query = scorer->query, key = scorer->key;
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

/* With scores, in the scratch. */
static struct bucketed open_bucketed(const struct problem *problem, struct scratch *scratch,
                                     struct scorer *scorer)
{
    struct bucketed bucketed = in_buckets_open(problem->options, problem);
    *scratch = scratch_on(problem->options, &problem->shape, 0, problem->scratch);
    *scorer = (struct scorer){problem,        scratch,        open_hashes(problem, scratch),
                              bucketed.joint, problem->query, problem->key};
    bucketed.score = score;
    bucketed.argument = scorer;
    bucketed.scratch = scratch->rest;
    return bucketed;
}

static void forward(const struct problem *problem, struct view out)
{
    struct scratch scratch;
    struct scorer scorer;
    struct bucketed bucketed = open_bucketed(problem, &scratch, &scorer);
    bucketed_forward(&bucketed, out.data, out.stride);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct bucketed bucketed = in_buckets_open(problem->options, problem);
    bucketed.scratch = scratch_on(problem->options, &problem->shape, 0, problem->scratch).rest;
    in_buckets_backward(&bucketed, out, dout, gradients);
}

/* ---- the loss --------------------------------------------------------------------------------------------
 */

struct loss {
    const struct scorer *scorer, *sample; /* of all, and of the queries that have targets */
    size_t num_targets[2];                /* of queries, of keys */
    const struct loss_scratch *scratch;
    float *dhash; /* where gradients of the matrices are added up; NULL: the value alone */
    double total;
};

static struct loss_slot slot_of(const struct loss *loss, size_t slot)
{
    const struct problem *problem = loss->scorer->problem;
    return loss_slot_on(problem->options, problem->shape.head_dim,
                        loss->scratch->slots + slot * loss->scratch->slot_bytes);
}

/* One hash of rows first .. : its gradients from dz, added to `to`. */
static void hash_gradient(const struct hash_function *hash, const struct loss_slot *own, float *hidden,
                          struct view rows, size_t first, size_t count, float *to)
{
    size_t matrix = hash_first_count(hash->dim, hash->width, hash->num_buckets);
    if (hash->width > 0)
        hash_hidden(hash, row_at(rows, first), rows.stride, count, hidden);
    hash_backward(hash, row_at(rows, first), rows.stride, count, own->dz, hidden, own->dhidden, to,
                  to + matrix);
}

/* The targets of some rows meet their scores. */
static void take_targets(void *argument, enum utility_side side, size_t first, size_t count, const float *psi,
                         size_t slot)
{
    const struct loss *loss = argument;
    struct loss_slot own = slot_of(loss, slot);
    bool queries = side == UTILITY_QUERIES, joint = loss->scorer->joint;
    const struct scorer *scorer = queries ? loss->sample : loss->scorer;
    const struct problem *problem = scorer->problem;
    const struct lha_options *options = problem->options;
    double n = (double)loss->num_targets[side], sum = 0;
    double half = joint && options->bucketing.mode == MODE_RELEASED ? 0.5 : 1;
    score(scorer, queries || joint ? SIDE_QUERIES : SIDE_KEYS, first, count, own.z, (int)slot);
    problem->kernels->divergence(own.kl, own.dz, psi, own.z, count, buckets_of(options), (float)(half / n));
    for (size_t i = 0; i < count; i++)
        sum += (double)own.kl[i];
    *own.total += sum / n;
    if (loss->dhash == NULL)
        return;
    float *hidden = scorer->scratch->hidden + slot * scorer->scratch->hidden_count,
          *dkey_hash = own.dhash + hashes_count(options, problem->shape.head_dim) / 2;
    if (queries || joint)
        hash_gradient(&scorer->hashes.query, &own, hidden, scorer->query, first, count, own.dhash);
    if (!queries || joint)
        hash_gradient(&scorer->hashes.key, &own, hidden, scorer->key, first, count, dkey_hash);
}

static void open_slot(const struct loss *loss, size_t slot)
{
    const struct problem *problem = loss->scorer->problem;
    struct loss_slot own = slot_of(loss, slot);
    *own.total = 0;
    memset(own.dhash, 0, hashes_count(problem->options, problem->shape.head_dim) * sizeof(float));
}

/* What a slot holds is added up, and the slot is empty again. */
static void close_slot(void *argument, size_t slot)
{
    struct loss *loss = argument;
    const struct problem *problem = loss->scorer->problem;
    struct loss_slot own = slot_of(loss, slot);
    loss->total += *own.total;
    if (loss->dhash != NULL)
        problem->kernels->axpy(loss->dhash, 1, own.dhash,
                               hashes_count(problem->options, problem->shape.head_dim));
    open_slot(loss, slot);
}

/* Who counts for which bucket in the targets: those whom it took (released), or those who score best in it
   (paper). Of the whole sequence always: where each token of a causal problem chooses for itself, and each
   counted for what it chose, all in one bucket would be right for ever. What looks ahead here are targets of
   the hashes alone. */
static void find_homes(const struct bucketed *bucketed, const struct loss_scratch *scratch,
                       enum bucketed_side side, const struct members *taken, const struct homes *homes,
                       size_t n, bool released)
{
    if (released && !bucketed->by_token) {
        homes_by_lists(homes, taken, n);
        return;
    }
    bucketed_whole(bucketed, side, released ? &scratch->lists : NULL, released ? NULL : scratch->choice,
                   scratch->work);
    if (released)
        homes_by_lists(homes, &scratch->lists, n);
    else
        homes_by_choice(homes, scratch->choice, n);
}

static struct head_rows attending(const struct problem *problem, const struct loss_scratch *scratch,
                                  struct view rows, float *normed)
{
    struct plain_norm norm = {.kernels = problem->kernels,
                              .pool = problem->pool,
                              .x = rows.data,
                              .ld = rows.stride,
                              .n = rows.rows,
                              .dim = rows.cols,
                              .statistics = scratch->statistics,
                              .scratch = scratch->norm};
    if (normed == NULL)
        return in_buckets_rows(rows);
    plain_norm_forward(&norm, normed);
    return (struct head_rows){normed, rows.cols};
}

/* Gradients of shared kernels become those of S and of either's own. */
static void share_gradients(const struct problem *problem, const struct loss_scratch *scratch, float *dparams)
{
    const struct lha_options *options = problem->options;
    size_t count = problem->shape.head_dim * buckets_of(options);
    float own = (float)options->private_share, shared = (float)(1 - options->private_share);
    const float *dquery_hash = scratch->dhash, *dkey_hash = scratch->dhash + count;
    problem->kernels->axpy(dparams, shared, dquery_hash, count);
    problem->kernels->axpy(dparams, shared, dkey_hash, count);
    problem->kernels->axpy(dparams + count, own, dquery_hash, count);
    problem->kernels->axpy(dparams + 2 * count, own, dkey_hash, count);
}

/* The queries that have targets, in the place of all: their rows for attention and for the hashes, and their
   buckets. */
static void take_sample(const struct problem *problem, const struct loss_scratch *own,
                        struct utility *utility, struct scorer *sample)
{
    size_t d = problem->shape.head_dim, count = utility->num_queries;
    row_sample_draw(random_key(problem->random_key, RANDOM_TARGETS, 0), problem->shape.num_queries, count,
                    own->sample);
    row_sample_copy(own->attending, utility->query, d, own->sample, count);
    row_sample_copy(own->hashed, in_buckets_rows(problem->query), d, own->sample, count);
    row_sample_homes(&own->sample_homes, &utility->query_homes, own->sample, count);
    utility->query = (struct head_rows){own->attending, d};
    utility->query_homes = own->sample_homes;
    sample->query = (struct view){own->hashed, count, d, d, DTYPE_FLOAT32};
    if (!sample->joint)
        return;
    row_sample_copy(own->paired, in_buckets_rows(problem->key), d, own->sample, count);
    sample->key = (struct view){own->paired, count, d, d, DTYPE_FLOAT32};
}

static double auxiliary(const struct problem *problem, const struct problem_gradients *gradients)
{
    const struct lha_options *options = problem->options;
    const struct problem_shape *shape = &problem->shape;
    struct scratch scratch = scratch_on(options, shape, 0, problem->scratch);
    struct loss_scratch own = loss_scratch_on(options, shape, scratch.rest);
    struct bucketed bucketed = in_buckets_open(&options->bucketing, problem);
    struct bucketed_saved saved = bucketed_saved(&bucketed);
    struct scorer scorer = {problem,        &scratch,       open_hashes(problem, &scratch),
                            bucketed.joint, problem->query, problem->key};
    struct scorer sample = scorer;
    struct utility utility = utility_of(options, shape);
    struct loss loss = {.scorer = &scorer,
                        .sample = &sample,
                        .num_targets = {utility.num_queries, shape->num_keys},
                        .scratch = &own};
    bool released = options->bucketing.mode == MODE_RELEASED;
    bucketed.score = score;
    bucketed.argument = &scorer;
    find_homes(&bucketed, &own, SIDE_QUERIES, &saved.queries, &own.query_homes, shape->num_queries, released);
    if (bucketed.joint)
        own.key_homes = own.query_homes;
    else
        find_homes(&bucketed, &own, SIDE_KEYS, &saved.keys, &own.key_homes, shape->num_keys, released);
    utility.kernels = problem->kernels;
    utility.pool = problem->pool;
    utility.query = attending(problem, &own, problem->query, own.query);
    utility.key = attending(problem, &own, problem->key, own.key);
    utility.query_homes = own.query_homes;
    utility.key_homes = own.key_homes;
    if (is_sampled(options))
        take_sample(problem, &own, &utility, &sample);
    utility.directions = problem->shared;
    utility.take = take_targets;
    utility.close = close_slot;
    utility.argument = &loss;
    for (size_t slot = 0; slot < shape->workers; slot++)
        open_slot(&loss, slot);
    loss.dhash = gradients->params;
    if (loss.dhash != NULL && hash_of(options) == HASH_SHARED) {
        loss.dhash = own.dhash;
        memset(own.dhash, 0, hashes_count(options, shape->head_dim) * sizeof(float));
    }
    utility_targets(&utility, own.work);
    if (gradients->params != NULL && hash_of(options) == HASH_SHARED)
        share_gradients(problem, &own, gradients->params);
    return loss.total;
}

static double auxiliary_share(const void *options)
{
    return ((const struct lha_options *)options)->hash_loss;
}

static size_t shared_size(const void *options, size_t head_dim)
{
    const struct lha_options *lha = options;
    if (!by_features(lha))
        return 0;
    return size_product(features_count((size_t)lha->num_features, head_dim), sizeof(float));
}

static size_t prepare_scratch_size(const void *options, size_t head_dim, size_t workers)
{
    const struct lha_options *lha = options;
    return by_features(lha) ? features_work_size((size_t)lha->num_features, head_dim, workers) : 0;
}

static void prepare(const struct preparation *preparation)
{
    const struct lha_options *lha = preparation->options;
    if (by_features(lha))
        features_draw(preparation->kernels, preparation->pool, (size_t)lha->num_features,
                      preparation->head_dim, random_key(preparation->call_key, RANDOM_FEATURES, 0),
                      preparation->shared, preparation->scratch);
}

/* ---- inspection ------------------------------------------------------------------------------------------
 */

static size_t inspect_size(const void *options, const struct problem_shape *shape)
{
    struct bucketed bucketed = in_buckets(options, shape);
    return in_buckets_inspect_size(&bucketed, scratch_size(options, shape));
}

static void inspect(const struct problem *problem, struct inspection *inspection)
{
    struct scratch scratch;
    struct scorer scorer;
    struct bucketed bucketed = open_bucketed(problem, &scratch, &scorer);
    in_buckets_inspect(&bucketed, problem, scratch_size(problem->options, &problem->shape), inspection);
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

static const char *const targets_names[] = {"sampled", "features", "exact", NULL};
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
    {.name = FIELD(hash_loss),
     .type = OPTION_REAL,
     .preset = 0.05,
     .minimum = 0,
     .maximum = 1,
     .help =
         "share of the hashes' own loss in what is trained, the task has the rest; 0: hashes stay as they "
         "began"},
    {.name = FIELD(targets),
     .type = OPTION_CHOICE,
     .preset = TARGETS_SAMPLED,
     .choices = targets_names,
     .help = "what hashes learn from: how much of a token's attention lies in each bucket, of a sample of "
             "queries, estimated with random features as in the papers, or exact, which is quadratic"},
    {.name = FIELD(samples_per_bucket),
     .type = OPTION_INT,
     .preset = 4,
     .minimum = 1,
     .maximum = 65536,
     .help = "of targets sampled: so many queries of each head for each bucket, drawn anew at every step"},
    {.name = FIELD(num_features),
     .type = OPTION_INT,
     .preset = 256,
     .minimum = 1,
     .maximum = 65536,
     .help = "random features of the estimate"},
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
    .shared_size = shared_size,
    .prepare_scratch_size = prepare_scratch_size,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
    .params = params,
    .auxiliary = auxiliary,
    .auxiliary_share = auxiliary_share,
    .buckets = in_buckets_count,
    .inspect_size = inspect_size,
    .inspect = inspect,
};
