/* The loss of the hashes: targets of all keys, and of all queries or a sample, against the scores.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/lha/lha_loss.h"

#include <string.h>

#include "base/random.h"
#include "parts/groups/row_sample.h"
#include "parts/groups/utility.h"
#include "parts/rows/plain_norm.h"

/* Scratch of the loss, in addition to the kernels and the hidden units of lha_scratch. */
struct loss_scratch {
    float *query, *key; /* (n, d) each: normed rows, with mode released */
    void *norm;         /* (workers, plain_norm_size) */
    struct homes query_homes, key_homes;
    uint32_t *sample; /* (S): the queries that have targets; of these: */
    float *weights;   /* (S): weight of each; NULL: 1 */
    float *attending, *hashed,
        *paired; /* (S, d) each: rows that attend; rows for H_Q; rows for H_K, if joint */
    struct homes sample_homes;
    struct members lists; /* of one side: see find_homes */
    uint32_t *choice;     /* (n, rounds) of one side: see find_homes */
    float *dhash;         /* gradient of effective kernels, with hash shared */
    void *work;           /* for the scores of find_homes, then for the targets */
    unsigned char *slots; /* (workers, slot_bytes) */
    size_t slot_bytes, bytes;
};

/* Per worker. */
struct loss_slot {
    float *z, *dz, *kl; /* (SCORE_ROWS, groups) twice, (SCORE_ROWS, rounds) */
    float *dhidden;     /* (SCORE_ROWS + groups, width) */
    float *dhash;       /* as in loss_scratch: of rows not yet added */
    double *total;      /* loss of these rows */
    size_t bytes;
};

/* Parameters of both hashes: first and second matrix of queries, then those of keys. */
static size_t hashes_count(const struct lha_options *options, size_t dim)
{
    size_t width = lha_width(options), groups = lha_groups(options);
    return size_product(2, size_sum(hash_first_count(dim, width, groups), hash_second_count(width, groups)));
}

static struct loss_slot loss_slot_on(const struct lha_options *options, size_t dim, void *block)
{
    struct loss_slot slot;
    struct arena arena = arena_on(block);
    size_t tile = size_product(SCORE_ROWS, lha_groups(options));
    slot.z = arena_take(&arena, tile, sizeof(float));
    slot.dz = arena_take(&arena, tile, sizeof(float));
    slot.kl = arena_take(&arena, size_product(SCORE_ROWS, lha_rounds(options)), sizeof(float));
    slot.dhidden = arena_take(
        &arena, size_product(size_sum(SCORE_ROWS, lha_groups(options)), lha_width(options)), sizeof(float));
    slot.dhash = arena_take(&arena, hashes_count(options, dim), sizeof(float));
    slot.total = arena_take(&arena, 1, sizeof(double));
    slot.bytes = arena.used;
    return slot;
}

bool lha_by_features(const struct lha_options *options)
{
    return options->targets == TARGETS_FEATURES;
}

size_t lha_directions(const struct lha_options *options)
{
    return features_directions((size_t)options->num_features, options->both_signs != 0);
}

static bool is_sampled(const struct lha_options *options)
{
    return options->targets == TARGETS_SAMPLED;
}

/* S, the number of queries that have targets. */
static size_t targets_of_queries(const struct lha_options *options, size_t n)
{
    size_t most = size_product((size_t)options->samples_per_group, (size_t)options->grouping.num_groups);
    return is_sampled(options) && most < n ? most : n;
}

/* The fields that its size depends on. */
static struct utility utility_of(const struct lha_options *options, const struct problem_shape *shape)
{
    bool released = options->grouping.mode == MODE_RELEASED;
    return (struct utility){.num_queries = targets_of_queries(options, shape->num_queries),
                            .num_keys = shape->num_keys,
                            .dim = shape->head_dim,
                            .num_groups = lha_groups(options),
                            .num_features = lha_by_features(options) ? (size_t)options->num_features : 0,
                            .both_signs = options->both_signs != 0,
                            .workers = shape->workers,
                            .swapped = released,
                            .twice_scaled = released};
}

/* Most homes of n tokens: by lists, or one group per token and round. */
static size_t most_homes(const struct grouped *grouped, size_t n)
{
    return size_max(grouped_whole_places(grouped, n), size_product(n, grouped->rounds));
}

static struct loss_scratch loss_scratch_on(const struct lha_options *options,
                                           const struct problem_shape *shape, void *block)
{
    struct loss_scratch scratch = {0};
    struct arena arena = arena_on(block);
    struct utility utility = utility_of(options, shape);
    struct grouped grouped = in_groups(&options->grouping, shape);
    size_t n_q = shape->num_queries, n_k = shape->num_keys, most = n_q > n_k ? n_q : n_k, d = shape->head_dim;
    if (options->grouping.mode == MODE_RELEASED) {
        scratch.query = arena_take(&arena, size_product(n_q, d), sizeof(float));
        scratch.key = arena_take(&arena, size_product(n_k, d), sizeof(float));
        scratch.norm = arena_take(&arena, shape->workers, plain_norm_size(d));
    }
    scratch.query_homes = homes_take(&arena, n_q, most_homes(&grouped, n_q));
    scratch.key_homes = homes_take(&arena, n_k, most_homes(&grouped, n_k));
    if (is_sampled(options)) {
        size_t samples = utility.num_queries;
        scratch.sample = arena_take(&arena, samples, sizeof *scratch.sample);
        scratch.weights = arena_take(&arena, samples, sizeof *scratch.weights);
        scratch.attending = arena_take(&arena, size_product(samples, d), sizeof(float));
        scratch.hashed = arena_take(&arena, size_product(samples, d), sizeof(float));
        scratch.paired = arena_take(&arena, grouped.joint ? size_product(samples, d) : 0, sizeof(float));
        size_t all = size_product(samples, lha_groups(options));
        scratch.sample_homes = homes_take(&arena, samples, size_min(all, most_homes(&grouped, n_q)));
    }
    scratch.lists = members_take(&arena, lha_groups(options), grouped_whole_places(&grouped, most));
    scratch.choice = arena_take(&arena, size_product(most, grouped.rounds), sizeof *scratch.choice);
    scratch.dhash = arena_take(&arena, lha_hash_kind(options) == HASH_SHARED ? hashes_count(options, d) : 0,
                               sizeof(float));
    scratch.slot_bytes = loss_slot_on(options, d, NULL).bytes;
    scratch.slots = arena_take(&arena, shape->workers, scratch.slot_bytes);
    size_t whole = grouped_whole_size(&grouped), targets = utility_size(&utility);
    scratch.work = arena_take(&arena, whole > targets ? whole : targets, 1);
    scratch.bytes = arena.used;
    return scratch;
}

size_t lha_loss_size(const struct lha_options *options, const struct problem_shape *shape)
{
    return loss_scratch_on(options, shape, NULL).bytes;
}

struct loss {
    const struct lha_scorer *scorer, *sample; /* of all tokens, and of the queries that have targets */
    const struct loss_scratch *scratch;
    float *dhash; /* sum of the gradients of the matrices; NULL: value only */
    double total;
};

static struct loss_slot slot_of(const struct loss *loss, size_t slot)
{
    const struct problem *problem = loss->scorer->problem;
    return loss_slot_on(problem->options, problem->shape.head_dim,
                        loss->scratch->slots + slot * loss->scratch->slot_bytes);
}

/* Gradients of one hash from dz of rows first .., added to `to`. */
static void hash_gradient(const struct hash_function *hash, const struct loss_slot *own, float *hidden,
                          struct view rows, size_t first, size_t count, float *to)
{
    size_t matrix = hash_first_count(hash->dim, hash->width, hash->num_groups);
    if (hash->width > 0)
        hash_hidden(hash, lha_row(rows, first), rows.stride, count, hidden);
    hash_backward(hash, lha_row(rows, first), rows.stride, count, own->dz, hidden, own->dhidden, to,
                  to + matrix);
}

/* Adds the loss of some rows, given their targets psi, and its gradient. A round has a loss of its own, and
   the mean of the rounds counts: psi and z are (count * rounds, groups of a round). */
static void take_targets(void *argument, enum utility_side side, size_t first, size_t count, const float *psi,
                         size_t slot)
{
    const struct loss *loss = argument;
    struct loss_slot own = slot_of(loss, slot);
    bool queries = side == UTILITY_QUERIES, joint = loss->scorer->joint;
    const struct lha_scorer *scorer = queries ? loss->sample : loss->scorer;
    const struct problem *problem = scorer->problem;
    const struct lha_options *options = problem->options;
    size_t rounds = lha_rounds(options);
    double n = (double)rounds * (double)(queries ? scorer->query : scorer->key).rows, sum = 0;
    double half = joint && options->grouping.mode == MODE_RELEASED ? 0.5 : 1;
    lha_score(scorer, queries || joint ? SIDE_QUERIES : SIDE_KEYS, first, count, own.z, (int)slot);
    problem->kernels->softmax.divergence(own.kl, own.dz, psi, own.z, count * rounds,
                                         (size_t)options->grouping.num_groups, (float)(half / n));
    const float *weights = queries ? loss->scratch->weights : NULL;
    for (size_t i = 0; i < count * rounds; i++)
        sum += (double)own.kl[i] * (weights == NULL ? 1 : (double)weights[first + i / rounds]);
    if (weights != NULL)
        problem->kernels->rows.scale(own.dz, lha_groups(options), weights + first, count,
                                     lha_groups(options));
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

/* Adds a slot's sums to the totals and clears it. */
static void close_slot(void *argument, size_t slot)
{
    struct loss *loss = argument;
    const struct problem *problem = loss->scorer->problem;
    struct loss_slot own = slot_of(loss, slot);
    loss->total += *own.total;
    if (loss->dhash != NULL)
        problem->kernels->rows.axpy(loss->dhash, 1, own.dhash,
                                    hashes_count(problem->options, problem->shape.head_dim));
    open_slot(loss, slot);
}

/* Groups of each token in the targets: the groups that took it (released), or the group where it scores best
   (paper). Causal problems also use groups chosen over the whole sequence: if each token counted for the
   group that it chose itself, putting all tokens into one group would be a fixed point. Only the targets of
   the hashes look ahead here. */
static void find_homes(const struct grouped *grouped, const struct loss_scratch *scratch,
                       enum grouped_side side, const struct members *taken, const struct homes *homes,
                       size_t n, bool released)
{
    if (released && !grouped->by_token) {
        homes_by_lists(homes, taken, n);
        return;
    }
    grouped_whole(grouped, side, released ? &scratch->lists : NULL, released ? NULL : scratch->choice,
                  scratch->work);
    if (released)
        homes_by_lists(homes, &scratch->lists, n);
    else
        homes_by_choice(homes, scratch->choice, n, grouped->rounds);
}

static struct view attending(const struct problem *problem, const struct loss_scratch *scratch,
                             struct view rows, float *normed)
{
    struct plain_norm norm = {
        .kernels = problem->kernels, .pool = problem->pool, .x = rows, .scratch = scratch->norm};
    if (normed == NULL)
        return rows;
    plain_norm_forward(&norm, normed);
    return view_of(normed, rows.rows, rows.cols);
}

/* Gradients of the mixed kernels to those of S and of each side's own. */
static void share_gradients(const struct problem *problem, const struct loss_scratch *scratch, float *dparams)
{
    const struct lha_options *options = problem->options;
    size_t count = problem->shape.head_dim * lha_groups(options);
    float own = (float)options->private_share, shared = (float)(1 - options->private_share);
    const float *dquery_hash = scratch->dhash, *dkey_hash = scratch->dhash + count;
    problem->kernels->rows.axpy(dparams, shared, dquery_hash, count);
    problem->kernels->rows.axpy(dparams, shared, dkey_hash, count);
    problem->kernels->rows.axpy(dparams + count, own, dquery_hash, count);
    problem->kernels->rows.axpy(dparams + 2 * count, own, dkey_hash, count);
}

/* Replaces the queries by the sample that has targets: their rows for attention and for the hashes, and
   their groups. */
static void take_sample(const struct problem *problem, const struct loss_scratch *own,
                        struct utility *utility, struct lha_scorer *sample)
{
    size_t d = problem->shape.head_dim, count = utility->num_queries;
    row_sample_draw(random_key(problem->random_key, RANDOM_TARGETS, 0), problem->shape.num_queries, count,
                    own->sample, own->weights);
    row_sample_copy(own->attending, utility->query, d, own->sample, count);
    row_sample_copy(own->hashed, problem->query, d, own->sample, count);
    row_sample_homes(&own->sample_homes, &utility->query_homes, own->sample, count);
    utility->query = view_of(own->attending, count, d);
    utility->query_homes = own->sample_homes;
    utility->query_weights = own->weights;
    sample->query = view_of(own->hashed, count, d);
    if (!sample->joint)
        return;
    row_sample_copy(own->paired, problem->key, d, own->sample, count);
    sample->key = (struct view){own->paired, count, d, d, DTYPE_FLOAT32};
}

double lha_loss(const struct problem *problem, const struct problem_gradients *gradients)
{
    const struct lha_options *options = problem->options;
    const struct problem_shape *shape = &problem->shape;
    struct lha_scratch scratch = lha_scratch_on(options, shape, 0, problem->scratch);
    struct loss_scratch own = loss_scratch_on(options, shape, scratch.rest);
    struct grouped grouped = in_groups_open(&options->grouping, problem);
    struct grouped_saved saved = grouped_saved(&grouped);
    struct lha_scorer scorer = {.problem = problem,
                                .scratch = &scratch,
                                .hashes = lha_open_hashes(problem, &scratch),
                                .joint = grouped.joint,
                                .query = problem->query,
                                .key = problem->key};
    struct lha_scorer sample = scorer;
    struct utility utility = utility_of(options, shape);
    struct loss loss = {.scorer = &scorer, .sample = &sample, .scratch = &own};
    bool released = options->grouping.mode == MODE_RELEASED;
    grouped.score = lha_score;
    grouped.argument = &scorer;
    find_homes(&grouped, &own, SIDE_QUERIES, &saved.queries, &own.query_homes, shape->num_queries, released);
    if (grouped.joint)
        own.key_homes = own.query_homes;
    else
        find_homes(&grouped, &own, SIDE_KEYS, &saved.keys, &own.key_homes, shape->num_keys, released);
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
    if (loss.dhash != NULL && lha_hash_kind(options) == HASH_SHARED) {
        loss.dhash = own.dhash;
        memset(own.dhash, 0, hashes_count(options, shape->head_dim) * sizeof(float));
    }
    utility_targets(&utility, own.work);
    if (gradients->params != NULL && lha_hash_kind(options) == HASH_SHARED)
        share_gradients(problem, &own, gradients->params);
    return loss.total;
}
