/* SMYRF: softmax attention inside clusters of equal size, found by sorting (Daras, Kitaev, Odena and Dimakis
   2020, "SMYRF: Efficient attention using asymmetric clustering"). Queries and keys get two more columns,
     F(q) = [q; 0; sqrt(M^2 - |q|^2)], G(k) = [k; sqrt(M^2 - |k|^2); 0], M^2 = max |q|^2 + max |k|^2,
   so all F and G have length M and |F(q) - G(k)|^2 = 2 M^2 - 2 q k: near rows are pairs with large scores. In
   each round, one random direction projects both sides. Queries and keys are sorted by their projections and
   cut into equal clusters, and queries of cluster t meet the keys of cluster t. One softmax runs over all
   pairs (round, key) that a query attends to (parts/groups/group_attention.h), which equals merging the
   rounds by their log-sum-exps; a key found in two rounds counts twice. With one cluster the result is exact
   attention. The number of clusters is n_k / cluster_size, rounded up; sizes differ by at most 1, so n need
   not be a multiple. As in the released code, the projection is sorted as it is: the paper's offset and
   division
   by a bucket width would not change the order. Scores are divided by sqrt(d), which the released code leaves
   to its caller. Clusters depend on all tokens, so there is no causal form. Clusters have no gradient.
   Random: a direction per round and head. Saved: the clusters, rounds (n_q + n_k) numbers, and two floats per
   query. Cost: per round 2 d (n_q + n_k) operations, a radix sort of both sides, and cluster_size n_q pairs
   of 2 (d + d_v) operations, 2.5 times that backward.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "attention/mechanism.h"
#include "base/memory.h"
#include "base/random.h"
#include "parts/groups/group_attention.h"
#include "parts/groups/score_order.h"
#include "parts/rows/bounded.h"

struct smyrf_options {
    int64_t cluster_size, rounds;
};

enum side { QUERIES, KEYS, SIDES };

static size_t rounds_of(const void *options)
{
    return (size_t)((const struct smyrf_options *)options)->rounds;
}

/* Clusters per round. */
static size_t clusters_of(const void *options, const struct problem_shape *shape)
{
    size_t size = (size_t)((const struct smyrf_options *)options)->cluster_size;
    return size_max((shape->num_keys + size - 1) / size, 1);
}

static struct group_sizes sizes_of(const void *options, const struct problem_shape *shape)
{
    size_t rounds = rounds_of(options), size = (size_t)((const struct smyrf_options *)options)->cluster_size;
    return (struct group_sizes){
        .query_places = size_product(rounds, shape->num_queries),
        .key_places = size_product(rounds, shape->num_keys),
        .longest_key = size_min(size, shape->num_keys),
    };
}

/* ---- memory -------------------------------------------------------------------------------------------- */

struct saved {
    struct members members[SIDES]; /* group round * clusters + t: cluster t of a round */
    struct softmax_rows rows;
    size_t bytes;
};

static struct saved saved_on(const void *options, const struct problem_shape *shape, void *block)
{
    struct saved saved;
    struct arena arena = arena_on(block);
    struct group_sizes sizes = sizes_of(options, shape);
    size_t groups = size_product(rounds_of(options), clusters_of(options, shape));
    saved.members[QUERIES] = members_take(&arena, groups, sizes.query_places);
    saved.members[KEYS] = members_take(&arena, groups, sizes.key_places);
    saved.rows = softmax_rows_take(&arena, shape->num_queries);
    saved.bytes = arena.used;
    return saved;
}

/* Memory of the sorts; group_attention then uses the same block. */
struct scratch {
    double *squares[SIDES]; /* (n): of the rows' lengths */
    float *direction;       /* (rounds, d + 2) */
    /* of one thread */
    struct ordered *entries, *other; /* (the longer side) each */
    uint32_t *counts;                /* (ORDER_COUNTS) */
    size_t bytes;
};

static struct scratch scratch_on(const void *options, const struct problem_shape *shape, void *block,
                                 size_t worker)
{
    struct scratch scratch;
    struct arena arena = arena_on(block), own;
    size_t longer = size_max(shape->num_queries, shape->num_keys), bytes = 0;
    scratch.squares[QUERIES] = arena_take(&arena, shape->num_queries, sizeof(double));
    scratch.squares[KEYS] = arena_take(&arena, shape->num_keys, sizeof(double));
    scratch.direction =
        arena_take(&arena, size_product(rounds_of(options), size_sum(shape->head_dim, 2)), sizeof(float));
    for (int pass = 0; pass < 2; pass++) { /* the first pass measures */
        unsigned char *workers = pass == 0 ? NULL : arena_take(&arena, shape->workers, bytes);
        own = arena_on(workers == NULL ? NULL : workers + worker * bytes);
        scratch.entries = arena_take(&own, longer, sizeof(struct ordered));
        scratch.other = arena_take(&own, longer, sizeof(struct ordered));
        scratch.counts = arena_take(&own, ORDER_COUNTS, sizeof(uint32_t));
        bytes = own.used;
    }
    scratch.bytes = arena.used;
    return scratch;
}

static size_t saved_size(const void *options, const struct problem_shape *shape)
{
    return saved_on(options, shape, NULL).bytes;
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    struct group_sizes sizes = sizes_of(options, shape);
    size_t attention = size_max(group_forward_size(shape, &sizes), group_backward_size(shape, &sizes));
    return size_max(attention, scratch_on(options, shape, NULL, 0).bytes);
}

static const char *refuse(const void *options, const struct problem_shape *shape)
{
    if (size_product(rounds_of(options), size_max(shape->num_queries, shape->num_keys)) > UINT32_MAX)
        return "`rounds` is {rounds}; `rounds` times the length must be below 2^32";
    return NULL;
}

/* ---- clusters ------------------------------------------------------------------------------------------ */

enum { TILE = 64 }; /* rows projected at a time */

struct clustering {
    const struct problem *problem;
    struct saved saved;
    struct view rows[SIDES];
    double length; /* M^2 */
};

/* squares (rows) of the rows' lengths; returns the largest. */
static double measure(const struct kernels *kernels, struct view rows, double *squares)
{
    double most = 0;
    for (size_t i = 0; i < rows.rows; i++) {
        squares[i] = kernels->rows.sum_squares(view_row(rows, i), rows.cols);
        most = squares[i] > most ? squares[i] : most;
    }
    return most;
}

/* entries = the tokens of a side with their projections on `direction`; those of F and G have a 0 in
   different columns. */
static void project(const struct clustering *c, enum side side, const float *direction, const double *squares,
                    struct ordered *entries)
{
    struct view rows = c->rows[side];
    float last = direction[rows.cols + (side == QUERIES)], projection[TILE];
    for (size_t first = 0; first < rows.rows; first += TILE) {
        size_t count = size_min(TILE, rows.rows - first);
        c->problem->kernels->rows.dots(projection, view_row(rows, first), rows.stride, direction, 0, count,
                                       rows.cols);
        for (size_t i = 0; i < count; i++) {
            float column = double_bounded(sqrt(c->length - squares[first + i]));
            entries[first + i] =
                (struct ordered){score_order(projection[i] + last * column), (uint32_t)(first + i)};
        }
    }
}

/* list (n) = the tokens in the order of their projections; equal ones by token. */
static void sort_tokens(uint32_t *list, const struct scratch *scratch, size_t n)
{
    const struct ordered *sorted = order_sort(scratch->entries, scratch->other, scratch->counts, n);
    for (size_t i = 0; i < n; i++)
        list[i] = sorted[i].index;
}

/* The clusters of one side in one round. */
static void cluster(void *argument, size_t index, int worker)
{
    const struct clustering *c = argument;
    const struct problem *problem = c->problem;
    struct scratch scratch = scratch_on(problem->options, &problem->shape, problem->scratch, (size_t)worker);
    enum side side = index % SIDES == 0 ? QUERIES : KEYS;
    const struct members *members = &c->saved.members[side];
    size_t round = index / SIDES, n = c->rows[side].rows,
           clusters = members->num_groups / rounds_of(problem->options);
    const float *direction = scratch.direction + round * (problem->shape.head_dim + 2);
    project(c, side, direction, scratch.squares[side], scratch.entries);
    sort_tokens(members->list + round * n, &scratch, n);
    for (size_t t = 0; t < clusters; t++)
        members->start[round * clusters + t] = (uint32_t)(round * n + t * n / clusters);
}

static void find_clusters(const struct problem *problem, const struct saved *saved)
{
    struct scratch scratch = scratch_on(problem->options, &problem->shape, problem->scratch, 0);
    struct clustering c = {
        .problem = problem, .saved = *saved, .rows = {[QUERIES] = problem->query, [KEYS] = problem->key}};
    size_t rounds = rounds_of(problem->options);
    for (int side = QUERIES; side < SIDES; side++) {
        c.length += measure(problem->kernels, c.rows[side], scratch.squares[side]);
        saved->members[side].start[saved->members[side].num_groups] = (uint32_t)(rounds * c.rows[side].rows);
    }
    random_normals(random_key(problem->random_key, RANDOM_GROUPS, 0), 0, scratch.direction,
                   rounds * (problem->shape.head_dim + 2));
    pool_run(problem->pool, cluster, &c, SIDES * rounds);
}

/* ---- the mechanism ------------------------------------------------------------------------------------- */

static struct group_lists lists_of(const struct problem *problem, const struct saved *saved)
{
    return (struct group_lists){
        .sizes = sizes_of(problem->options, &problem->shape),
        .sight = SIGHT_ALL,
        .queries = saved->members[QUERIES],
        .keys = saved->members[KEYS],
        .rows = saved->rows,
    };
}

static void forward(const struct problem *problem, struct view out)
{
    struct saved saved = saved_on(problem->options, &problem->shape, problem->saved);
    struct group_lists lists = lists_of(problem, &saved);
    find_clusters(problem, &saved);
    group_forward(problem, &lists, out, problem->scratch);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct saved saved = saved_on(problem->options, &problem->shape, problem->saved);
    struct group_lists lists = lists_of(problem, &saved);
    group_backward(problem, &lists, out, dout, gradients, problem->scratch);
}

static const struct option_row options[] = {
    OPTION_ROW("cluster_size", OPTION_INT, offsetof(struct smyrf_options, cluster_size), 64, 1, 1 << 20, NULL,
               "keys per cluster, at most; a token attends in one cluster per round"),
    OPTION_ROW("rounds", OPTION_INT, offsetof(struct smyrf_options, rounds), 2, 1, 1024, NULL,
               "clusterings, each by a new random direction; a token attends to the keys of all of them"),
    {.name = NULL},
};

static const char *const departures[] = {
    "Clusters differ in length by at most one, so n need not be a multiple.",
    "A masked token is in no cluster, neither as a key nor, with as many queries as keys, as a query.",
    NULL,
};

const struct mechanism mechanism_smyrf = {
    .name = "smyrf",
    .summary = "softmax attention inside equal clusters of tokens sorted by a hash (Daras et al. 2020)",
    .departures = departures,
    .options = options,
    .options_size = sizeof(struct smyrf_options),
    .exact = false,
    .mixes = true,
    .drops_weights = true,
    .competes = true,
    .no_causal = "it has no causal form: sorting places a token among later ones",
    .host = {refuse, saved_size, scratch_size, forward, backward},
};
