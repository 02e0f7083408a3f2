/* Attention in the own lists, of rows that arrive, and the merging of the own rows; rows travel by
   lha_exchange.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/lha/lha_ranks.h"

#include <string.h>

#include "attention/lha/lha_exchange.h"
#include "attention/lha/lha_loss.h"
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

struct exchange {
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
    return (struct group_sizes){query_places, key_places, longest, grouped->norm};
}

/* Memory of rows only: no group is computed. */
static struct group_sizes sizes_of_rows(size_t query_places, size_t key_places, bool norm)
{
    return (struct group_sizes){query_places, key_places, 0, norm};
}

static struct exchange exchange_on(const struct grouped *grouped, const struct problem_shape *shape,
                                   bool backward, void *block)
{
    struct exchange exchange = {0};
    struct arena arena = arena_on(block);
    size_t d = shape->head_dim, d_v = shape->value_dim, places = all_places(grouped, shape),
           lists = grouped_lists(grouped);
    struct problem_shape of_places = shape_of_rows(shape, places, places);
    struct group_sizes owned = sizes_of(grouped, shape, places, places),
                       own = sizes_of_rows(places, places, grouped->norm);
    /* Queries bring dout and three numbers in backward; in forward, d_v + 2 floats return for each. */
    size_t wide = backward ? size_sum(size_sum(d, d_v), 3) : size_max(d, size_sum(d_v, 2));
    exchange.queries = lha_side_take(&arena, lists, places, shape->ranks, wide);
    exchange.keys = lha_side_take(&arena, lists, places, shape->ranks, size_sum(d, d_v));
    exchange.pieces = lha_pieces_take(&arena, shape->ranks);
    if (backward) {
        exchange.rows = softmax_rows_take(&arena, places);
        exchange.delta = arena_take(&arena, shape->num_queries, sizeof(float));
    }
    if (backward && grouped->norm) {
        exchange.dquery = arena_take(&arena, size_product(shape->num_queries, d), sizeof(float));
        exchange.dkey = arena_take(&arena, size_product(shape->num_keys, d), sizeof(float));
        exchange.norm = arena_take(&arena, shape->workers, plain_norm_size(d));
    }
    exchange.owned_work = arena_take(
        &arena, backward ? group_backward_size(&of_places, &owned) : group_forward_size(&of_places, &owned),
        1);
    exchange.own_work =
        arena_take(&arena, backward ? group_backward_size(shape, &own) : group_forward_size(shape, &own), 1);
    exchange.bytes = arena.used;
    return exchange;
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
           forward = exchange_on(&grouped, shape, false, NULL).bytes,
           backward = exchange_on(&grouped, shape, true, NULL).bytes;
    return size_max(size_max(lists, forward), size_max(backward, loss));
}

const char *lha_ranks_refuse(const void *options, const struct problem_shape *shape)
{
    const struct lha_options *lha = options;
    struct problem_shape whole = *shape;
    whole.num_queries = whole.num_keys = shape->total_rows;
    if (lha->grouping.partition)
        return "`partition` sorts the scores of all rows for all {num_buckets} buckets, which ranks that "
               "share a sequence would all need";
    if (lha->targets == TARGETS_EXACT && lha->hash_loss > 0)
        return "`targets` exact needs all queries at once on every rank that shares a sequence: use "
               "sampled, with `samples_per_bucket` {samples_per_bucket}, or features";
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

/* The exchange, with the places of both sides. */
static struct exchange open(const struct problem *problem, const struct grouped *grouped,
                            const struct lha_lists_saved *saved, bool backward)
{
    struct exchange exchange = exchange_on(grouped, &problem->shape, backward, problem->scratch);
    lha_side_open(problem, &saved->queries, &exchange.queries);
    lha_side_open(problem, &saved->keys, &exchange.keys);
    return exchange;
}

/* The problem of the own lists, from the rows that arrive: queries, which come first in rows of `width`, keys
   and values. */
static struct problem arrived(const struct problem *problem, const struct exchange *exchange, size_t width)
{
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim,
           n_q = lha_owned_places(&exchange->queries), n_k = lha_owned_places(&exchange->keys);
    struct view query = lha_columns(exchange->queries.there, width, 0, d),
                key = lha_columns(exchange->keys.there, d + d_v, 0, d),
                value = lha_columns(exchange->keys.there, d + d_v, d, d_v);
    query.rows = n_q;
    key.rows = value.rows = n_k;
    return problem_of_rows(problem, query, key, value);
}

/* The lists of that problem. */
static struct group_lists in_owned(const struct problem *problem, const struct grouped *grouped,
                                   const struct exchange *exchange)
{
    const struct lha_side *queries = &exchange->queries, *keys = &exchange->keys;
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
        .rows = exchange->rows,
    };
}

/* The lists of the own rows. */
static struct group_lists in_own(const struct problem *problem, const struct grouped *grouped,
                                 const struct exchange *exchange, const struct lha_lists_saved *saved)
{
    return (struct group_lists){
        .sizes =
            sizes_of_rows(lha_own_places(&exchange->queries), lha_own_places(&exchange->keys), grouped->norm),
        .sight = grouped_sight(&problem->shape, grouped),
        .queries = exchange->queries.own,
        .keys = exchange->keys.own,
        .rows = saved->rows,
    };
}

/* Sends keys and values. */
static void send_keys(const struct problem *problem, const struct exchange *exchange)
{
    const struct lha_side *keys = &exchange->keys;
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim, n = lha_own_places(keys);
    lha_copy(problem->pool, lha_columns(keys->here, d + d_v, 0, d), problem->key, keys->own.list, n, false);
    lha_copy(problem->pool, lha_columns(keys->here, d + d_v, d, d_v), problem->value, keys->own.list, n,
             false);
    lha_send(problem, &exchange->pieces, keys, d + d_v, false);
}

/* The parts of the places of the own lists, back to the ranks of their queries. */
static void return_parts(const struct problem *problem, const struct exchange *exchange,
                         const struct group_parts *from, const struct group_parts *to)
{
    const struct lha_side *queries = &exchange->queries;
    size_t d_v = problem->shape.value_dim, width = d_v + 2;
    const size_t cols[] = {d_v, 1, 1}, at[] = {0, d_v, d_v + 1};
    float *const sources[] = {from->result, from->max, from->sum}, *const into[] = {to->result, to->max,
                                                                                    to->sum};
    for (size_t i = 0; i < 3; i++)
        lha_copy(problem->pool, lha_columns(queries->there, width, at[i], cols[i]),
                 view_of(sources[i], 0, cols[i]), queries->rows, lha_owned_places(queries), true);
    lha_send(problem, &exchange->pieces, queries, width, true);
    for (size_t i = 0; i < 3; i++)
        lha_copy(problem->pool, view_of(into[i], 0, cols[i]),
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
    struct exchange exchange = open(problem, &grouped, &saved, false);
    size_t d = problem->shape.head_dim;
    lha_copy(problem->pool, lha_columns(exchange.queries.here, d, 0, d), problem->query,
             exchange.queries.own.list, lha_own_places(&exchange.queries), false);
    lha_send(problem, &exchange.pieces, &exchange.queries, d, false);
    send_keys(problem, &exchange);
    const struct problem there = arrived(problem, &exchange, d);
    const struct group_lists owned = in_owned(problem, &grouped, &exchange),
                             own = in_own(problem, &grouped, &exchange, &saved);
    group_places_forward(&there, &owned, exchange.owned_work);
    const struct group_parts from = group_parts(&there.shape, &owned.sizes, exchange.owned_work),
                             to = group_parts(&problem->shape, &own.sizes, exchange.own_work);
    return_parts(problem, &exchange, &from, &to);
    group_rows_forward(problem, &own, out, exchange.own_work);
}

/* Queries with dout, their maximum and sum of forward, and delta. */
static void send_queries_backward(const struct problem *problem, const struct exchange *exchange,
                                  const struct group_lists *own, struct view out, struct view dout,
                                  float *delta)
{
    const struct lha_side *queries = &exchange->queries;
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim, width = d + d_v + 3;
    group_deltas(problem, out, dout, exchange->delta);
    const struct view from[] = {problem->query, dout, view_of(own->rows.max, 0, 1),
                                view_of(own->rows.log_sum, 0, 1), view_of(exchange->delta, 0, 1)};
    float *const to[] = {NULL, NULL, exchange->rows.max, exchange->rows.log_sum, delta};
    const size_t at[] = {0, d, d + d_v, d + d_v + 1, d + d_v + 2};
    for (size_t i = 0; i < 5; i++)
        lha_copy(problem->pool, lha_columns(queries->here, width, at[i], from[i].cols), from[i],
                 queries->own.list, lha_own_places(queries), false);
    lha_send(problem, &exchange->pieces, queries, width, false);
    for (size_t i = 2; i < 5; i++)
        lha_copy(problem->pool, view_of(to[i], 0, 1), lha_columns(queries->there, width, at[i], 1), NULL,
                 lha_owned_places(queries), false);
}

/* The gradients of the places of the own lists, back to the ranks of their rows. */
static void return_slopes(const struct problem *problem, const struct exchange *exchange,
                          const struct group_slopes *from, const struct group_slopes *to)
{
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim;
    const struct lha_side *const sides[] = {&exchange->queries, &exchange->keys, &exchange->keys};
    const size_t width[] = {d, d + d_v, d + d_v}, at[] = {0, 0, d}, cols[] = {d, d, d_v};
    float *const sources[] = {from->query, from->key, from->value}, *const into[] = {to->query, to->key,
                                                                                     to->value};
    for (size_t i = 0; i < 3; i++)
        lha_copy(problem->pool, lha_columns(sides[i]->there, width[i], at[i], cols[i]),
                 view_of(sources[i], 0, cols[i]), sides[i]->rows, lha_owned_places(sides[i]), true);
    lha_send(problem, &exchange->pieces, &exchange->queries, d, true);
    lha_send(problem, &exchange->pieces, &exchange->keys, d + d_v, true);
    for (size_t i = 0; i < 3; i++)
        lha_copy(problem->pool, view_of(into[i], 0, cols[i]),
                 lha_columns(sides[i]->here, width[i], at[i], cols[i]), NULL, lha_own_places(sides[i]),
                 false);
}

/* Adds the gradients of normed rows, which are zeros at first, to those of the rows. */
static void add_normed(const struct problem *problem, const struct exchange *exchange, struct view rows,
                       const float *dnormed, struct view gradients)
{
    struct plain_norm norm = {
        .kernels = problem->kernels, .pool = problem->pool, .x = rows, .scratch = exchange->norm};
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
    struct exchange exchange = open(problem, &grouped, &saved, true);
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim, width = d + d_v + 3;
    const struct problem there = arrived(problem, &exchange, width);
    const struct group_lists owned = in_owned(problem, &grouped, &exchange),
                             own = in_own(problem, &grouped, &exchange, &saved);
    const struct group_slopes from = group_slopes(&there.shape, &owned.sizes, exchange.owned_work),
                              to = group_slopes(&problem->shape, &own.sizes, exchange.own_work);
    send_queries_backward(problem, &exchange, &own, out, dout, from.delta);
    send_keys(problem, &exchange);
    group_places_backward(&there, &owned, lha_columns(exchange.queries.there, width, d, d_v),
                          exchange.owned_work);
    return_slopes(problem, &exchange, &from, &to);
    struct problem_gradients down = *gradients;
    if (grouped.norm) {
        down.query = view_of(exchange.dquery, problem->shape.num_queries, d);
        down.key = view_of(exchange.dkey, problem->shape.num_keys, d);
        write_zeros(down.query);
        write_zeros(down.key);
    }
    group_rows_backward(problem, &own, &down, exchange.own_work);
    if (grouped.norm) {
        add_normed(problem, &exchange, problem->query, exchange.dquery, gradients->query);
        add_normed(problem, &exchange, problem->key, exchange.dkey, gradients->key);
    }
}
