/* The loss of the hashes: targets of all keys, and of all queries or a sample, against the scores.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/lha/lha_loss.h"

#include <string.h>

#include "attention/lha/lha_lists.h"
#include "base/random.h"
#include "parts/features/random_features.h"
#include "parts/rows/plain_norm.h"
#include "parts/targets/row_sample.h"
#include "parts/targets/utility.h"

struct loss_scratch {
    void *scorer;
    float *query, *key; /* (n, d) each: normed rows, with mode released; no queries if sampled */
    void *norm;         /* (workers, plain_norm_size) */
    struct token_groups query_groups, key_groups;
    uint32_t *sample; /* (S): the queries that have targets; of these: */
    float *weights;   /* (S): weight of each; NULL: 1 */
    float *attending, *hashed,
        *paired; /* (S, d) each: rows that attend; rows for H_Q; rows for H_K, if joint */
    struct token_groups sample_groups;
    struct members lists;         /* of one side: see find_groups */
    uint32_t *choice;             /* (n, rounds) of one side: see find_groups */
    struct lha_lists ranks_lists; /* with ranks */
    float *largest;               /* with ranks: (ranks, S or 2) */
    struct row_piece *out, *in;   /* with ranks: (ranks) each */
    float *dhash;                 /* gradient of mixed kernels, with hash shared */
    void *work;                   /* for the scores of find_groups, then for the targets */
    unsigned char *slots;         /* (workers, slot_bytes) */
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

/* Rows of the whole sequence, of which `here` are here. */
static size_t rows_of_all(const struct problem_shape *shape, size_t here)
{
    return shape->ranks > 1 ? shape->total_rows : here;
}

/* Stands for what is set when the ranks are known. */
static const struct utility_across some_across;

/* The rows that targets are computed from. */
static struct problem_shape shape_of_targets(const struct lha_options *options,
                                             const struct problem_shape *shape)
{
    size_t queries = lha_by_features(options) ? shape->num_queries : rows_of_all(shape, shape->num_queries);
    return shape_of_rows(shape, targets_of_queries(options, queries), shape->num_keys);
}

/* The fields that its size depends on. */
static struct utility utility_of(const struct lha_options *options, const struct problem_shape *shape)
{
    bool released = options->grouping.mode == MODE_RELEASED;
    return (struct utility){.across = shape->ranks > 1 ? &some_across : NULL,
                            .num_groups = lha_groups(options),
                            .num_features = lha_by_features(options) ? (size_t)options->num_features : 0,
                            .both_signs = options->both_signs != 0,
                            .swapped = released,
                            .twice_scaled = released};
}

/* Most groups of n tokens: by lists, or one group per token and round. */
static size_t most_groups(const struct grouped *grouped, size_t n)
{
    return size_max(grouped_whole_places(grouped, n), size_product(n, grouped->rounds));
}

static struct loss_scratch loss_scratch_on(const struct lha_options *options,
                                           const struct problem_shape *shape, void *block)
{
    struct loss_scratch scratch = {0};
    struct arena arena = arena_on(block);
    struct utility utility = utility_of(options, shape);
    const struct problem_shape targets_shape = shape_of_targets(options, shape);
    struct grouped grouped = grouping_of(&options->grouping, shape);
    size_t n_q = shape->num_queries, n_k = shape->num_keys, d = shape->head_dim;
    size_t all_q = rows_of_all(shape, n_q), all_k = rows_of_all(shape, n_k), most = size_max(all_q, all_k);
    scratch.scorer = arena_take(&arena, lha_scorer_size(options, shape), 1);
    if (options->grouping.mode == MODE_RELEASED) {
        scratch.query = arena_take(&arena, is_sampled(options) ? 0 : size_product(n_q, d), sizeof(float));
        scratch.key = arena_take(&arena, size_product(n_k, d), sizeof(float));
        scratch.norm = arena_take(&arena, shape->workers, plain_norm_size(d));
    }
    scratch.query_groups = token_groups_take(&arena, all_q, most_groups(&grouped, all_q));
    scratch.key_groups = token_groups_take(&arena, all_k, most_groups(&grouped, all_k));
    if (is_sampled(options)) {
        size_t samples = targets_shape.num_queries;
        scratch.sample = arena_take(&arena, samples, sizeof *scratch.sample);
        scratch.weights = arena_take(&arena, samples, sizeof *scratch.weights);
        scratch.attending = arena_take(&arena, size_product(samples, d), sizeof(float));
        scratch.hashed = arena_take(&arena, size_product(samples, d), sizeof(float));
        scratch.paired = arena_take(&arena, grouped.joint ? size_product(samples, d) : 0, sizeof(float));
        size_t all = size_product(samples, lha_groups(options));
        scratch.sample_groups =
            token_groups_take(&arena, samples, size_min(all, most_groups(&grouped, all_q)));
    }
    scratch.lists = members_take(&arena, lha_groups(options), grouped_whole_places(&grouped, most));
    scratch.choice = arena_take(&arena, size_product(most, grouped.rounds), sizeof *scratch.choice);
    scratch.dhash = arena_take(&arena, lha_hash_kind(options) == HASH_SHARED ? hashes_count(options, d) : 0,
                               sizeof(float));
    scratch.slot_bytes = loss_slot_on(options, d, NULL).bytes;
    scratch.slots = arena_take(&arena, shape->workers, scratch.slot_bytes);
    if (shape->ranks > 1) {
        size_t summed = lha_by_features(options) ? utility.num_features : targets_shape.num_queries;
        scratch.ranks_lists = lha_lists_on(&grouped, shape, size_product(summed, lha_groups(options)), NULL);
        scratch.ranks_lists = lha_lists_on(&grouped, shape, size_product(summed, lha_groups(options)),
                                           arena_take(&arena, scratch.ranks_lists.bytes, 1));
        scratch.largest = arena_take(&arena, shape->ranks,
                                     size_product(size_max(targets_shape.num_queries, 2), sizeof(float)));
        scratch.out = arena_take(&arena, shape->ranks, sizeof *scratch.out);
        scratch.in = arena_take(&arena, shape->ranks, sizeof *scratch.in);
    }
    size_t whole = grouped_whole_size(shape, &grouped), targets = utility_size(&targets_shape, &utility);
    scratch.work = arena_take(&arena, size_max(whole, targets), 1);
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
    size_t num_queries, num_keys; /* whose mean counts: with ranks, of all of them */
    float *dhash;                 /* sum of the gradients of the matrices; NULL: value only */
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
        hash_hidden(hash, view_row(rows, first), rows.stride, count, hidden);
    hash_backward(hash, view_row(rows, first), rows.stride, count, own->dz, hidden, own->dhidden, to,
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
    double n = (double)rounds * (double)(queries ? loss->num_queries : loss->num_keys), sum = 0;
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
    float *hidden = scorer->hidden + slot * scorer->hidden_count,
          *dkey_hash = own.dhash + hashes_count(options, problem->shape.head_dim) / 2;
    if (queries || joint)
        hash_gradient(&scorer->query_hash, &own, hidden, scorer->query, first, count, own.dhash);
    if (!queries || joint)
        hash_gradient(&scorer->key_hash, &own, hidden, scorer->key, first, count, dkey_hash);
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
static void find_groups(const struct problem *problem, const struct grouped *grouped,
                        const struct loss_scratch *scratch, enum group_side side, const struct members *taken,
                        const struct token_groups *groups, size_t n, bool released)
{
    if (released && !grouped->by_token) {
        token_groups_find(groups, taken, n);
        return;
    }
    if (grouped->across != NULL) {
        const struct lha_lists *lists = &scratch->ranks_lists;
        if (released && lha_lists_agree(lists, grouped, side, true, &scratch->lists))
            token_groups_find(groups, &scratch->lists, n);
        else if (!released && lha_lists_choose(lists, grouped, side))
            token_groups_by_choice(groups, lists->choice, n, grouped->rounds);
        return;
    }
    grouped_whole(problem, grouped, side, released ? &scratch->lists : NULL,
                  released ? NULL : scratch->choice, scratch->work);
    if (released)
        token_groups_find(groups, &scratch->lists, n);
    else
        token_groups_by_choice(groups, scratch->choice, n, grouped->rounds);
}

/* The rows as they attend: with mode released normed, in `normed`. */
static struct view attending(const struct problem *problem, const struct loss_scratch *scratch,
                             struct view rows, float *normed)
{
    struct plain_norm norm = {
        .kernels = problem->kernels, .pool = problem->pool, .x = rows, .scratch = scratch->norm};
    if (scratch->norm == NULL)
        return rows;
    plain_norm_forward(&norm, normed);
    return view_of(normed, rows.rows, rows.cols);
}

/* Gradients of the mixed kernels to those of S and of each side's own. */
static void shared_gradients(const struct problem *problem, const struct loss_scratch *scratch,
                             float *dparams)
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

/* The sampled queries [*first, *end) that are rows of a rank. */
static void samples_of(const struct problem *problem, const uint32_t *sample, size_t count, int rank,
                       size_t *first, size_t *end)
{
    size_t row = 0, end_row = problem->shape.num_queries;
    if (problem->shape.ranks > 1)
        comm_span_of(rank, (int)problem->shape.ranks, problem->shape.total_rows, &row, &end_row);
    for (*first = 0; *first < count && sample[*first] < row;)
        ++*first;
    for (*end = *first; *end < count && sample[*end] < end_row;)
        ++*end;
}

/* Each rank's part of the sampled rows that attend, to all. */
static void gather_sample(const struct problem *problem, const struct loss_scratch *own, size_t count)
{
    size_t row = problem->shape.head_dim, ranks = problem->shape.ranks, first, end;
    samples_of(problem, own->sample, count, comm_rank(problem->ranks->comm), &first, &end);
    const struct row_piece mine = {own->attending + first * row, (end - first) * row * sizeof(float)};
    for (size_t rank = 0; rank < ranks; rank++) {
        samples_of(problem, own->sample, count, (int)rank, &first, &end);
        own->out[rank] = mine;
        own->in[rank] = (struct row_piece){own->attending + first * row, (end - first) * row * sizeof(float)};
    }
    row_ranks_exchange(problem->ranks, own->out, own->in);
}

/* Replaces the queries by the sample that has targets: their rows for attention and for the hashes, and
   their groups. With ranks: the former of all queries, the latter of those that are here. Returns the rows
   that attend. */
static struct view take_sample(const struct problem *problem, const struct loss_scratch *own, size_t count,
                               struct utility *utility, struct lha_scorer *sample,
                               struct utility_across *across)
{
    size_t d = problem->shape.head_dim, row = 0, end_row, first, end;
    size_t total = rows_of_all(&problem->shape, problem->shape.num_queries);
    row_sample_draw(random_key(problem->random_key, RANDOM_TARGETS, 0), total, count, own->sample,
                    own->weights);
    row_sample_groups(&own->sample_groups, &utility->query_groups, own->sample, count);
    samples_of(problem, own->sample, count, problem->ranks == NULL ? 0 : comm_rank(problem->ranks->comm),
               &first, &end);
    if (problem->shape.ranks > 1)
        comm_span(problem->ranks->comm, total, &row, &end_row);
    row_sample_copy(own->hashed + first * d, problem->query, row, d, own->sample + first, end - first);
    struct view here = view_of(own->hashed + first * d, end - first, d),
                attend = attending(problem, own, here, own->attending + first * d);
    if (attend.data == here.data)
        memcpy(own->attending + first * d, here.data, (end - first) * d * sizeof(float));
    if (sample->joint)
        row_sample_copy(own->paired + first * d, problem->key, row, d, own->sample + first, end - first);
    if (problem->shape.ranks > 1)
        gather_sample(problem, own, count);
    across->first = first;
    across->end = end;
    utility->query_groups = own->sample_groups;
    utility->query_weights = own->weights;
    sample->query = view_of(own->hashed, count, d);
    if (sample->joint)
        sample->key = view_of(own->paired, count, d);
    return view_of(own->attending, count, d);
}

/* What utility_across calls: sums and maxima over the ranks. */
static void sum_targets(void *argument, float *x, size_t n)
{
    const struct loss_scratch *own = argument;
    own->ranks_lists.across.sum(own->ranks_lists.across.argument, x, n);
}

static void largest_targets(void *argument, float *x, size_t n)
{
    const struct loss_scratch *own = argument;
    row_ranks_largest(own->ranks_lists.problem->ranks, x, n, own->largest);
}

/* The groups of this rank's rows. */
static struct token_groups groups_here(const struct problem *problem, struct token_groups groups)
{
    size_t first = 0, end;
    if (problem->shape.ranks > 1)
        comm_span(problem->ranks->comm, problem->shape.total_rows, &first, &end);
    groups.start += first;
    return groups;
}

/* The groups of all tokens, in own->query_groups and own->key_groups. */
static void find_all_groups(const struct problem *problem, const struct grouped *grouped,
                            struct loss_scratch *own)
{
    const struct lha_options *options = problem->options;
    const struct problem_shape *shape = &problem->shape;
    bool released = options->grouping.mode == MODE_RELEASED;
    struct members queries, keys;
    if (shape->ranks > 1) {
        struct lha_lists_saved saved = lha_lists_saved_on(grouped, shape, problem->saved);
        queries = saved.queries, keys = saved.keys;
    } else {
        struct grouped_saved saved = grouped_saved_on(shape, grouped, problem->saved);
        queries = saved.queries, keys = saved.keys;
    }
    find_groups(problem, grouped, own, SIDE_QUERIES, &queries, &own->query_groups,
                rows_of_all(shape, shape->num_queries), released);
    if (grouped->joint)
        own->key_groups = own->query_groups;
    else
        find_groups(problem, grouped, own, SIDE_KEYS, &keys, &own->key_groups,
                    rows_of_all(shape, shape->num_keys), released);
}

static bool ranks_failed(const struct problem *problem)
{
    return problem->ranks != NULL && problem->ranks->status != HASHATTN_OK;
}

double lha_loss(const struct problem *problem, const struct problem_gradients *gradients)
{
    const struct lha_options *options = problem->options;
    const struct problem_shape *shape = &problem->shape;
    struct loss_scratch own = loss_scratch_on(options, shape, problem->scratch);
    const struct lha_scorer *scorer = lha_scorer_open(problem, own.scorer);
    struct lha_scorer sample = *scorer;
    struct grouped grouped = grouping_of(&options->grouping, shape);
    struct utility utility = utility_of(options, shape);
    struct utility_across across = {.sum = sum_targets, .largest = largest_targets, .argument = &own};
    size_t samples = shape_of_targets(options, shape).num_queries;
    struct loss loss = {.scorer = scorer,
                        .sample = &sample,
                        .scratch = &own,
                        .num_queries = is_sampled(options) ? samples : rows_of_all(shape, shape->num_queries),
                        .num_keys = rows_of_all(shape, shape->num_keys)};
    grouped.score = lha_score;
    grouped.scorer = scorer;
    if (shape->ranks > 1) {
        lha_lists_open(&own.ranks_lists, problem);
        grouped.across = &own.ranks_lists.across;
        utility.across = &across;
    }
    if (ranks_failed(problem)) /* forward may have made no lists */
        return 0;
    find_all_groups(problem, &grouped, &own);
    if (ranks_failed(problem))
        return 0;
    struct view query = is_sampled(options) ? problem->query
                                            : attending(problem, &own, problem->query, own.query),
                key = attending(problem, &own, problem->key, own.key);
    utility.query_groups = is_sampled(options) ? own.query_groups : groups_here(problem, own.query_groups);
    utility.key_groups = groups_here(problem, own.key_groups);
    if (is_sampled(options))
        query = take_sample(problem, &own, samples, &utility, &sample, &across);
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
    const struct problem targets = problem_of_rows(problem, query, key, problem->value);
    utility_targets(&targets, &utility, own.work);
    if (gradients->params != NULL && lha_hash_kind(options) == HASH_SHARED)
        shared_gradients(problem, &own, gradients->params);
    return loss.total;
}
