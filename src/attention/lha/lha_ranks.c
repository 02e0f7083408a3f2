/* Attention in the own lists, of rows that arrive, and the merging of the own rows; rows travel by
   lha_trade.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/lha/lha_ranks.h"

#include <string.h>

#include "attention/lha/lha_loss.h"
#include "attention/lha/lha_trade.h"
#include "parts/groups/group_attention.h"
#include "parts/groups/group_attention_rows.h"
#include "parts/rows/plain_norm.h"

/* Places of a side of the whole sequence. */
static size_t all_places(const struct grouped *grouped, const struct problem_shape *shape)
{
    return grouped_places(grouped, shape->total_rows);
}

size_t lha_ranks_saved_size(const void *options, const struct problem_shape *shape)
{
    struct grouped grouped = grouping_of(options, shape);
    return lha_lists_saved_on(&grouped, shape, NULL).bytes;
}

/* ---- memory -------------------------------------------------------------------------------------------- */

struct trade {
    struct lha_side queries, keys;
    struct lha_pieces pieces;
    struct softmax_rows rows;    /* backward: of the queries that arrived */
    float *delta;                /* backward: (num_queries) */
    float *dquery, *dkey;        /* backward, if rows are normed: (n, d) */
    void *norm;                  /* (workers, plain_norm_size) */
    void *owned_work, *own_work; /* of group_attention: for the places of owned lists; for rows */
    size_t bytes;
};

/* Sizes of groups with so many places. */
static struct group_sizes sizes_of(const struct grouped *grouped, const struct problem_shape *shape,
                                   size_t query_places, size_t key_places)
{
    size_t total = shape->total_rows;
    size_t longest = grouped->by_token ? total : lha_lists_capacity(grouped, total);
    return (struct group_sizes){query_places, key_places, longest, longest, grouped->norm};
}

/* Memory of rows only: no group is computed. */
static struct group_sizes sizes_of_rows(size_t query_places, size_t key_places, bool norm)
{
    return (struct group_sizes){query_places, key_places, 0, 0, norm};
}

static struct trade trade_on(const struct grouped *grouped, const struct problem_shape *shape, bool backward,
                             void *block)
{
    struct trade trade = {0};
    struct arena arena = arena_on(block);
    size_t d = shape->head_dim, d_v = shape->value_dim, places = all_places(grouped, shape),
           lists = grouped_lists(grouped);
    struct problem_shape of_places = shape_of_rows(shape, places, places);
    struct group_sizes owned = sizes_of(grouped, shape, places, places),
                       own = sizes_of_rows(places, places, grouped->norm);
    /* Queries bring dout and three numbers in backward; in forward, d_v + 2 floats return for each. */
    size_t wide = backward ? size_sum(size_sum(d, d_v), 3) : size_max(d, size_sum(d_v, 2));
    trade.queries = lha_side_take(&arena, lists, places, shape->ranks, wide);
    trade.keys = lha_side_take(&arena, lists, places, shape->ranks, size_sum(d, d_v));
    trade.pieces = lha_pieces_take(&arena, shape->ranks);
    if (backward) {
        trade.rows = softmax_rows_take(&arena, places);
        trade.delta = arena_take(&arena, shape->num_queries, sizeof(float));
    }
    if (backward && grouped->norm) {
        trade.dquery = arena_take(&arena, size_product(shape->num_queries, d), sizeof(float));
        trade.dkey = arena_take(&arena, size_product(shape->num_keys, d), sizeof(float));
        trade.norm = arena_take(&arena, shape->workers, plain_norm_size(d));
    }
    trade.owned_work = arena_take(
        &arena, backward ? group_backward_size(&of_places, &owned) : group_forward_size(&of_places, &owned),
        1);
    trade.own_work =
        arena_take(&arena, backward ? group_backward_size(shape, &own) : group_forward_size(shape, &own), 1);
    trade.bytes = arena.used;
    return trade;
}

/* Memory that makes the lists. */
struct agreement {
    void *scorer;
    struct lha_lists lists;
    size_t bytes;
};

static struct agreement agreement_on(const void *options, const struct problem_shape *shape, void *block)
{
    struct agreement agreement;
    struct arena arena = arena_on(block);
    struct grouped grouped = grouping_of(options, shape);
    size_t lists = lha_lists_on(&grouped, shape, 0, NULL).bytes;
    agreement.scorer = arena_take(&arena, lha_scorer_size(options, shape), 1);
    agreement.lists = lha_lists_on(&grouped, shape, 0, arena_take(&arena, lists, 1));
    agreement.bytes = arena.used;
    return agreement;
}

size_t lha_ranks_scratch_size(const void *options, const struct problem_shape *shape)
{
    struct grouped grouped = grouping_of(options, shape);
    size_t lists = agreement_on(options, shape, NULL).bytes, loss = lha_loss_size(options, shape),
           forward = trade_on(&grouped, shape, false, NULL).bytes,
           backward = trade_on(&grouped, shape, true, NULL).bytes;
    return size_max(size_max(lists, forward), size_max(backward, loss));
}

const char *lha_ranks_refuse(const void *options, const struct problem_shape *shape)
{
    const struct lha_options *lha = options;
    struct problem_shape whole = *shape;
    whole.num_queries = whole.num_keys = shape->total_rows;
    if (lha->grouping.partition)
        return "partition sorts the scores of all rows for all {num_buckets} buckets, which ranks that "
               "share a sequence would all need";
    if (lha->targets == TARGETS_EXACT && lha->hash_loss > 0)
        return "targets exact needs all queries at once on every rank that shares a sequence: use "
               "sampled, with samples_per_bucket {samples_per_bucket}, or features";
    return grouping_refuse(&lha->grouping, &whole);
}

/* ---- forward and backward ------------------------------------------------------------------------------ */

/* Makes the lists; `false` after a failure of the ranks. */
static bool agree(const struct problem *problem, const struct lha_lists_saved *saved)
{
    const struct lha_options *options = problem->options;
    struct grouped grouped = grouping_of(&options->grouping, &problem->shape);
    struct agreement agreement = agreement_on(options, &problem->shape, problem->scratch);
    lha_lists_open(&agreement.lists, problem);
    grouped.score = lha_score;
    grouped.scorer = lha_scorer_open(problem, agreement.scorer);
    grouped.across = &agreement.lists.across;
    return lha_lists_agree(&agreement.lists, &grouped, SIDE_QUERIES, false, &saved->queries) &&
           (grouped.joint || lha_lists_agree(&agreement.lists, &grouped, SIDE_KEYS, false, &saved->keys));
}

/* The trade, with the places of both sides. */
static struct trade open(const struct problem *problem, const struct grouped *grouped,
                         const struct lha_lists_saved *saved, bool backward)
{
    struct trade trade = trade_on(grouped, &problem->shape, backward, problem->scratch);
    lha_side_open(problem, &saved->queries, &trade.queries);
    lha_side_open(problem, &saved->keys, &trade.keys);
    return trade;
}

/* The problem of the own lists, from the rows that arrive: queries, which come first in rows of `width`, keys
   and values. */
static struct problem arrived(const struct problem *problem, const struct trade *trade, size_t width)
{
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim,
           n_q = lha_owned_places(&trade->queries), n_k = lha_owned_places(&trade->keys);
    struct view query = lha_columns(trade->queries.there, width, 0, d),
                key = lha_columns(trade->keys.there, d + d_v, 0, d),
                value = lha_columns(trade->keys.there, d + d_v, d, d_v);
    query.rows = n_q;
    key.rows = value.rows = n_k;
    return problem_of_rows(problem, query, key, value);
}

/* The lists of that problem. */
static struct group_lists in_owned(const struct problem *problem, const struct grouped *grouped,
                                   const struct trade *trade)
{
    const struct lha_side *queries = &trade->queries, *keys = &trade->keys;
    size_t first, end;
    comm_span(problem->ranks->comm, grouped_lists(grouped), &first, &end);
    return (struct group_lists){
        .sizes = sizes_of(grouped, &problem->shape, lha_owned_places(queries), lha_owned_places(keys)),
        .sight = grouped_sight(&problem->shape, grouped),
        .window = grouped->capacity,
        .first_list = first,
        .queries = queries->owned,
        .keys = keys->owned,
        .query_rows = queries->rows,
        .key_rows = keys->rows,
        .rows = trade->rows,
    };
}

/* The lists of the own rows. */
static struct group_lists in_own(const struct problem *problem, const struct grouped *grouped,
                                 const struct trade *trade, const struct lha_lists_saved *saved)
{
    return (struct group_lists){
        .sizes = sizes_of_rows(lha_own_places(&trade->queries), lha_own_places(&trade->keys), grouped->norm),
        .sight = grouped_sight(&problem->shape, grouped),
        .queries = trade->queries.own,
        .keys = trade->keys.own,
        .rows = saved->rows,
    };
}

/* Sends keys and values. */
static void carry_keys(const struct problem *problem, const struct trade *trade)
{
    const struct lha_side *keys = &trade->keys;
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim, n = lha_own_places(keys);
    lha_copy(problem->pool, lha_columns(keys->here, d + d_v, 0, d), problem->key, keys->own.list, n, false);
    lha_copy(problem->pool, lha_columns(keys->here, d + d_v, d, d_v), problem->value, keys->own.list, n,
             false);
    lha_carry(problem, &trade->pieces, keys, d + d_v, false);
}

/* The parts of the places of the own lists, back to the ranks of their queries. */
static void carry_parts(const struct problem *problem, const struct trade *trade,
                        const struct group_parts *from, const struct group_parts *to)
{
    const struct lha_side *queries = &trade->queries;
    size_t d_v = problem->shape.value_dim, width = d_v + 2;
    const size_t cols[] = {d_v, 1, 1}, at[] = {0, d_v, d_v + 1};
    float *const sources[] = {from->result, from->max, from->sum}, *const goals[] = {to->result, to->max,
                                                                                     to->sum};
    for (size_t i = 0; i < 3; i++)
        lha_copy(problem->pool, lha_columns(queries->there, width, at[i], cols[i]),
                 view_of(sources[i], 0, cols[i]), queries->rows, lha_owned_places(queries), true);
    lha_carry(problem, &trade->pieces, queries, width, true);
    for (size_t i = 0; i < 3; i++)
        lha_copy(problem->pool, view_of(goals[i], 0, cols[i]),
                 lha_columns(queries->here, width, at[i], cols[i]), NULL, lha_own_places(queries), false);
}

static void write_zeros(struct view out)
{
    for (size_t i = 0; i < out.rows; i++)
        memset(view_row(out, i), 0, out.cols * sizeof(float));
}

void lha_ranks_forward(const struct problem *problem, struct view out)
{
    const struct lha_options *options = problem->options;
    struct grouped grouped = grouping_of(&options->grouping, &problem->shape);
    struct lha_lists_saved saved = lha_lists_saved_on(&grouped, &problem->shape, problem->saved);
    if (!agree(problem, &saved)) {
        write_zeros(out);
        return;
    }
    struct trade trade = open(problem, &grouped, &saved, false);
    size_t d = problem->shape.head_dim;
    lha_copy(problem->pool, lha_columns(trade.queries.here, d, 0, d), problem->query, trade.queries.own.list,
             lha_own_places(&trade.queries), false);
    lha_carry(problem, &trade.pieces, &trade.queries, d, false);
    carry_keys(problem, &trade);
    const struct problem there = arrived(problem, &trade, d);
    const struct group_lists owned = in_owned(problem, &grouped, &trade),
                             own = in_own(problem, &grouped, &trade, &saved);
    group_places_forward(&there, &owned, trade.owned_work);
    const struct group_parts from = group_parts(&there.shape, &owned.sizes, trade.owned_work),
                             to = group_parts(&problem->shape, &own.sizes, trade.own_work);
    carry_parts(problem, &trade, &from, &to);
    group_rows_forward(problem, &own, out, trade.own_work);
}

/* Queries with dout, their maximum and sum of forward, and delta. */
static void carry_queries_backward(const struct problem *problem, const struct trade *trade,
                                   const struct group_lists *own, struct view out, struct view dout,
                                   float *delta)
{
    const struct lha_side *queries = &trade->queries;
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim, width = d + d_v + 3;
    group_deltas(problem, out, dout, trade->delta);
    const struct view from[] = {problem->query, dout, view_of(own->rows.max, 0, 1),
                                view_of(own->rows.log_sum, 0, 1), view_of(trade->delta, 0, 1)};
    float *const to[] = {NULL, NULL, trade->rows.max, trade->rows.log_sum, delta};
    const size_t at[] = {0, d, d + d_v, d + d_v + 1, d + d_v + 2};
    for (size_t i = 0; i < 5; i++)
        lha_copy(problem->pool, lha_columns(queries->here, width, at[i], from[i].cols), from[i],
                 queries->own.list, lha_own_places(queries), false);
    lha_carry(problem, &trade->pieces, queries, width, false);
    for (size_t i = 2; i < 5; i++)
        lha_copy(problem->pool, view_of(to[i], 0, 1), lha_columns(queries->there, width, at[i], 1), NULL,
                 lha_owned_places(queries), false);
}

/* The gradients of the places of the own lists, back to the ranks of their rows. */
static void carry_slopes(const struct problem *problem, const struct trade *trade,
                         const struct group_slopes *from, const struct group_slopes *to)
{
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim;
    const struct lha_side *const sides[] = {&trade->queries, &trade->keys, &trade->keys};
    const size_t width[] = {d, d + d_v, d + d_v}, at[] = {0, 0, d}, cols[] = {d, d, d_v};
    float *const sources[] = {from->query, from->key, from->value}, *const goals[] = {to->query, to->key,
                                                                                      to->value};
    for (size_t i = 0; i < 3; i++)
        lha_copy(problem->pool, lha_columns(sides[i]->there, width[i], at[i], cols[i]),
                 view_of(sources[i], 0, cols[i]), sides[i]->rows, lha_owned_places(sides[i]), true);
    lha_carry(problem, &trade->pieces, &trade->queries, d, true);
    lha_carry(problem, &trade->pieces, &trade->keys, d + d_v, true);
    for (size_t i = 0; i < 3; i++)
        lha_copy(problem->pool, view_of(goals[i], 0, cols[i]),
                 lha_columns(sides[i]->here, width[i], at[i], cols[i]), NULL, lha_own_places(sides[i]),
                 false);
}

/* Adds the gradients of normed rows, which are zeros at first, to those of the rows. */
static void add_normed(const struct problem *problem, const struct trade *trade, struct view rows,
                       const float *dnormed, struct view gradients)
{
    struct plain_norm norm = {
        .kernels = problem->kernels, .pool = problem->pool, .x = rows, .scratch = trade->norm};
    plain_norm_backward(&norm, dnormed, gradients);
}

void lha_ranks_backward(const struct problem *problem, struct view out, struct view dout,
                        const struct problem_gradients *gradients)
{
    const struct lha_options *options = problem->options;
    if (problem->ranks->status != HASHATTN_OK) /* there may be no lists */
        return;
    struct grouped grouped = grouping_of(&options->grouping, &problem->shape);
    struct lha_lists_saved saved = lha_lists_saved_on(&grouped, &problem->shape, problem->saved);
    struct trade trade = open(problem, &grouped, &saved, true);
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim, width = d + d_v + 3;
    const struct problem there = arrived(problem, &trade, width);
    const struct group_lists owned = in_owned(problem, &grouped, &trade),
                             own = in_own(problem, &grouped, &trade, &saved);
    const struct group_slopes from = group_slopes(&there.shape, &owned.sizes, trade.owned_work),
                              to = group_slopes(&problem->shape, &own.sizes, trade.own_work);
    carry_queries_backward(problem, &trade, &own, out, dout, from.delta);
    carry_keys(problem, &trade);
    group_places_backward(&there, &owned, lha_columns(trade.queries.there, width, d, d_v), trade.owned_work);
    carry_slopes(problem, &trade, &from, &to);
    struct problem_gradients down = *gradients;
    if (grouped.norm) {
        down.query = view_of(trade.dquery, problem->shape.num_queries, d);
        down.key = view_of(trade.dkey, problem->shape.num_keys, d);
        write_zeros(down.query);
        write_zeros(down.key);
    }
    group_rows_backward(problem, &own, &down, trade.own_work);
    if (grouped.norm) {
        add_normed(problem, &trade, problem->query, trade.dquery, gradients->query);
        add_normed(problem, &trade, problem->key, trade.dkey, gradients->key);
    }
}
