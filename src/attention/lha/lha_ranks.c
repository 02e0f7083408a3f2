/* Rows travel by place: a rank's places in the order of buckets are, cut at the buckets of each owner, what
   it sends to them. SPDX-License-Identifier: Apache-2.0 */
#include "attention/lha/lha_ranks.h"

#include <string.h>

#include "attention/lha/lha_loss.h"
#include "parts/groups/group_attention_rows.h"
#include "parts/rows/plain_norm.h"

/* Places of a side of the whole sequence. */
static size_t all_places(const struct grouped *grouped, const struct problem_shape *shape)
{
    return grouped_places(grouped, shape->total_rows);
}

struct lha_ranks_saved lha_ranks_saved_on(const struct grouped *grouped, const struct problem_shape *shape,
                                          void *block)
{
    struct lha_ranks_saved saved;
    struct arena arena = arena_on(block);
    size_t lists = grouped_lists(grouped), places = all_places(grouped, shape);
    saved.queries = members_take(&arena, lists, places);
    saved.keys = grouped->joint ? saved.queries : members_take(&arena, lists, places);
    saved.rows = softmax_rows_take(&arena, shape->num_queries);
    saved.bytes = arena.used;
    return saved;
}

size_t lha_ranks_saved_size(const void *options, const struct problem_shape *shape)
{
    struct grouped grouped = in_groups(options, shape);
    return lha_ranks_saved_on(&grouped, shape, NULL).bytes;
}

/* ---- memory -------------------------------------------------------------------------------------------- */

/* One side of the trade. */
struct side {
    struct members own;     /* places of this rank's rows, by their number here, in all lists */
    struct members owned;   /* this rank's lists, with the numbers of the sequence */
    uint32_t *rows;         /* (owned places) where the row of a place arrives */
    size_t *sent, *arrived; /* (ranks + 1): the own places by owner; what arrives, by rank */
    float *here, *there;    /* (own places, wide), (owned places, wide): rows, sent and arrived */
    size_t wide;
};

struct trade {
    struct side queries, keys;
    struct row_piece *out, *in;  /* (ranks) */
    struct softmax_rows rows;    /* backward: of the queries that arrived */
    float *delta;                /* backward: (num_queries) */
    float *dquery, *dkey;        /* backward, if rows are normed: (n, d) */
    void *norm;                  /* (workers, plain_norm_size) */
    void *owned_work, *own_work; /* of group_attention: for the places of owned lists; for rows */
    size_t bytes;
};

static struct side side_on(struct arena *arena, const struct grouped *grouped,
                           const struct problem_shape *shape, size_t wide)
{
    struct side side = {.wide = wide};
    size_t lists = grouped_lists(grouped), places = all_places(grouped, shape),
           ranks = size_sum(shape->ranks, 1);
    side.own = members_take(arena, lists, places);
    side.owned = members_take(arena, lists, 0);
    side.rows = arena_take(arena, places, sizeof *side.rows);
    side.sent = arena_take(arena, ranks, sizeof *side.sent);
    side.arrived = arena_take(arena, ranks, sizeof *side.arrived);
    side.here = arena_take(arena, places, size_product(wide, sizeof(float)));
    side.there = arena_take(arena, places, size_product(wide, sizeof(float)));
    return side;
}

/* Sizes for `rows` queries and keys, of which there are so many places. */
static struct group_sizes sizes_of(const struct grouped *grouped, const struct problem_shape *shape,
                                   size_t query_rows, size_t key_rows, size_t query_places, size_t key_places)
{
    size_t total = shape->total_rows;
    size_t longest = grouped->by_token ? total : lha_lists_capacity(grouped, total);
    return (struct group_sizes){.num_queries = query_rows,
                                .num_keys = key_rows,
                                .dim = grouped->dim,
                                .value_dim = grouped->value_dim,
                                .query_places = query_places,
                                .key_places = key_places,
                                .longest_query = longest,
                                .longest_key = longest,
                                .precision = grouped->precision,
                                .norm = grouped->norm,
                                .workers = grouped->workers};
}

/* Memory of rows only: no group is computed. */
static struct group_sizes sizes_of_rows(const struct grouped *grouped, const struct problem_shape *shape,
                                        size_t query_places, size_t key_places)
{
    struct group_sizes sizes =
        sizes_of(grouped, shape, shape->num_queries, shape->num_keys, query_places, key_places);
    sizes.longest_query = sizes.longest_key = 0;
    return sizes;
}

static struct trade trade_on(const struct grouped *grouped, const struct problem_shape *shape, bool backward,
                             void *block)
{
    struct trade trade = {0};
    struct arena arena = arena_on(block);
    size_t d = shape->head_dim, d_v = shape->value_dim, places = all_places(grouped, shape);
    struct group_sizes owned = sizes_of(grouped, shape, places, places, places, places),
                       own = sizes_of_rows(grouped, shape, places, places);
    /* Queries bring dout and three numbers in backward; in forward, d_v + 2 floats return for each. */
    size_t wide = backward ? size_sum(size_sum(d, d_v), 3) : size_max(d, size_sum(d_v, 2));
    trade.queries = side_on(&arena, grouped, shape, wide);
    trade.keys = side_on(&arena, grouped, shape, size_sum(d, d_v));
    trade.out = arena_take(&arena, shape->ranks, sizeof *trade.out);
    trade.in = arena_take(&arena, shape->ranks, sizeof *trade.in);
    if (backward) {
        trade.rows = softmax_rows_take(&arena, places);
        trade.delta = arena_take(&arena, shape->num_queries, sizeof(float));
    }
    if (backward && grouped->norm) {
        trade.dquery = arena_take(&arena, size_product(shape->num_queries, d), sizeof(float));
        trade.dkey = arena_take(&arena, size_product(shape->num_keys, d), sizeof(float));
        trade.norm = arena_take(&arena, shape->workers, plain_norm_size(d));
    }
    trade.owned_work =
        arena_take(&arena, backward ? group_backward_size(&owned) : group_forward_size(&owned), 1);
    trade.own_work = arena_take(&arena, backward ? group_backward_size(&own) : group_forward_size(&own), 1);
    trade.bytes = arena.used;
    return trade;
}

size_t lha_ranks_scratch_size(const void *options, const struct problem_shape *shape)
{
    struct grouped grouped = in_groups(options, shape);
    size_t lists = lha_lists_on(&grouped, shape, 0, NULL).bytes,
           forward = trade_on(&grouped, shape, false, NULL).bytes,
           backward = trade_on(&grouped, shape, true, NULL).bytes, loss = lha_loss_size(options, shape);
    return lha_scratch_on(options, shape, size_max(size_max(lists, forward), size_max(backward, loss)), NULL)
        .bytes;
}

const char *lha_ranks_refuse(const void *options, const struct problem_shape *shape)
{
    const struct lha_options *lha = options;
    struct problem_shape whole = *shape;
    whole.num_queries = whole.num_keys = shape->total_rows;
    if (lha->grouping.partition)
        return "partition sorts the scores of all rows for all {num_buckets} buckets, which ranks that share "
               "a "
               "sequence would all need";
    if (lha->targets == TARGETS_EXACT && lha->hash_loss > 0)
        return "targets exact needs all queries at once on every rank that shares a sequence: use sampled, "
               "with "
               "samples_per_bucket {samples_per_bucket}, or features";
    return in_groups_refuse(&lha->grouping, &whole);
}

/* ---- who has what -------------------------------------------------------------------------------------- */

/* Cuts the lists of the whole sequence. */
static void cut_lists(const struct problem *problem, const struct members *all, struct side *side)
{
    const struct comm *comm = problem->ranks->comm;
    size_t ranks = problem->shape.ranks, total = problem->shape.total_rows, first, end, own = 0;
    comm_share(comm, total, &first, &end);
    for (size_t list = 0; list < all->num_groups; list++) {
        side->own.start[list] = (uint32_t)own;
        for (size_t p = all->start[list]; p < all->start[list + 1]; p++)
            if (all->list[p] >= first && all->list[p] < end)
                side->own.list[own++] = all->list[p] - (uint32_t)first;
    }
    side->own.start[all->num_groups] = (uint32_t)own;
    for (size_t rank = 0; rank < ranks; rank++) {
        comm_share_of((int)rank, (int)ranks, all->num_groups, &first, &end);
        side->sent[rank] = side->own.start[first];
    }
    side->sent[ranks] = own;
    comm_share(comm, all->num_groups, &first, &end);
    side->owned.num_groups = end - first;
    side->owned.list = all->list + all->start[first];
    for (size_t list = first; list <= end; list++)
        side->owned.start[list - first] = all->start[list] - all->start[first];
}

/* The rank of a token, from that of a lower one on. */
static size_t rank_of(const struct problem *problem, size_t token, size_t rank)
{
    size_t first, end;
    for (;; rank++) {
        comm_share_of((int)rank, (int)problem->shape.ranks, problem->shape.total_rows, &first, &end);
        if (token < end)
            return rank;
    }
}

/* Where the rows of the places of the own lists arrive: rank by rank, each in the order of places. */
static void find_arrivals(const struct problem *problem, struct side *side)
{
    const struct members *owned = &side->owned;
    size_t ranks = problem->shape.ranks;
    memset(side->arrived, 0, (ranks + 1) * sizeof *side->arrived);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t list = 0; list < owned->num_groups; list++)
            for (size_t p = owned->start[list], rank = 0; p < owned->start[list + 1]; p++) {
                rank = rank_of(problem, owned->list[p], rank);
                if (pass == 0)
                    side->arrived[rank + 1]++;
                else
                    side->rows[p] = (uint32_t)side->arrived[rank]++;
            }
        for (size_t rank = 0; rank < ranks && pass == 0; rank++)
            side->arrived[rank + 1] += side->arrived[rank];
    }
    for (size_t rank = ranks; rank > 0; rank--) /* each was moved to the start of the next */
        side->arrived[rank] = side->arrived[rank - 1];
    side->arrived[0] = 0;
}

static size_t owned_places(const struct side *side)
{
    return side->owned.start[side->owned.num_groups];
}

static size_t own_places(const struct side *side)
{
    return side->own.start[side->own.num_groups];
}

/* Rows of `width` floats: side->here to the owners of lists, or side->there back. */
static void carry(const struct problem *problem, const struct trade *trade, const struct side *side,
                  size_t width, bool back)
{
    size_t row = width * sizeof(float);
    for (size_t rank = 0; rank < problem->shape.ranks; rank++) {
        const struct row_piece here = {side->here + side->sent[rank] * width,
                                       (side->sent[rank + 1] - side->sent[rank]) * row},
                               there = {side->there + side->arrived[rank] * width,
                                        (side->arrived[rank + 1] - side->arrived[rank]) * row};
        trade->out[rank] = back ? there : here;
        trade->in[rank] = back ? here : there;
    }
    row_ranks_trade(problem->ranks, trade->out, trade->in);
}

/* ---- copies, on the pool ------------------------------------------------------------------------------- */

enum { COPY_ROWS = 256 }; /* of a unit of work */

/* to_i = from_j, j = index[i], or with `scatter` to_j = from_i. */
struct copying {
    const uint32_t *index; /* NULL: j = i */
    struct view from, to;
    size_t count;
    bool scatter;
};

static void copy_unit(void *argument, size_t unit, int worker)
{
    (void)worker;
    const struct copying *c = argument;
    for (size_t i = unit * COPY_ROWS; i < size_min((unit + 1) * COPY_ROWS, c->count); i++) {
        size_t j = c->index == NULL ? i : c->index[i];
        memcpy(view_row(c->to, c->scatter ? j : i), view_row(c->from, c->scatter ? i : j),
               c->from.cols * sizeof(float));
    }
}

static void copy(struct pool *pool, struct view to, struct view from, const uint32_t *index, size_t count,
                 bool scatter)
{
    struct copying copying = {index, from, to, count, scatter};
    pool_run(pool, copy_unit, &copying, (count + COPY_ROWS - 1) / COPY_ROWS);
}

/* Columns [first, first + cols) of rows of `width` floats. */
static struct view columns(float *rows, size_t width, size_t first, size_t cols)
{
    return (struct view){.data = rows + first, .cols = cols, .stride = width};
}

/* ---- forward and backward ------------------------------------------------------------------------------ */

/* Makes the lists; `false` after a failure of the ranks. */
static bool agree(const struct problem *problem, const struct lha_ranks_saved *saved)
{
    const struct lha_options *options = problem->options;
    struct lha_scratch scratch = lha_scratch_on(options, &problem->shape, 0, problem->scratch);
    struct grouped grouped = in_groups_open(&options->grouping, problem);
    const struct lha_scorer scorer = {.problem = problem,
                                      .scratch = &scratch,
                                      .hashes = lha_open_hashes(problem, &scratch),
                                      .joint = grouped.joint,
                                      .query = problem->query,
                                      .key = problem->key};
    struct lha_lists lists = lha_lists_on(&grouped, &problem->shape, 0, scratch.rest);
    lha_lists_open(&lists, problem);
    grouped.score = lha_score;
    grouped.argument = &scorer;
    grouped.across = &lists.across;
    return lha_lists_agree(&lists, &grouped, SIDE_QUERIES, false, &saved->queries) &&
           (grouped.joint || lha_lists_agree(&lists, &grouped, SIDE_KEYS, false, &saved->keys));
}

/* The trade, with the places of both sides. */
static struct trade open(const struct problem *problem, const struct grouped *grouped,
                         const struct lha_ranks_saved *saved, bool backward)
{
    struct lha_scratch scratch = lha_scratch_on(problem->options, &problem->shape, 0, problem->scratch);
    struct trade trade = trade_on(grouped, &problem->shape, backward, scratch.rest);
    cut_lists(problem, &saved->queries, &trade.queries);
    cut_lists(problem, &saved->keys, &trade.keys);
    find_arrivals(problem, &trade.queries);
    find_arrivals(problem, &trade.keys);
    return trade;
}

/* Attention in the own lists, of the rows that arrive: queries first in rows of `width`, keys and values. */
static struct group_attention in_owned(const struct problem *problem, const struct grouped *grouped,
                                       const struct trade *trade, size_t width)
{
    const struct side *queries = &trade->queries, *keys = &trade->keys;
    size_t n_q = owned_places(queries), n_k = owned_places(keys), d = grouped->dim, d_v = grouped->value_dim,
           first, end;
    comm_share(problem->ranks->comm, grouped_lists(grouped), &first, &end);
    return (struct group_attention){
        .kernels = problem->kernels,
        .pool = problem->pool,
        .sizes = sizes_of(grouped, &problem->shape, n_q, n_k, n_q, n_k),
        .sight = grouped_sight(grouped),
        .window = grouped->capacity,
        .dropout = problem->dropout,
        .first_list = first,
        .query = columns(queries->there, width, 0, d),
        .key = columns(keys->there, d + d_v, 0, d),
        .value = columns(keys->there, d + d_v, d, d_v),
        .queries = queries->owned,
        .keys = keys->owned,
        .query_rows = queries->rows,
        .key_rows = keys->rows,
        .rows = trade->rows,
    };
}

/* The same for what happens to the own rows. */
static struct group_attention in_own(const struct problem *problem, const struct grouped *grouped,
                                     const struct trade *trade, const struct lha_ranks_saved *saved)
{
    return (struct group_attention){
        .kernels = problem->kernels,
        .pool = problem->pool,
        .sizes =
            sizes_of_rows(grouped, &problem->shape, own_places(&trade->queries), own_places(&trade->keys)),
        .sight = grouped_sight(grouped),
        .query = problem->query,
        .key = problem->key,
        .value = problem->value,
        .queries = trade->queries.own,
        .keys = trade->keys.own,
        .rows = saved->rows,
    };
}

/* Sends keys and values. */
static void carry_keys(const struct problem *problem, const struct trade *trade)
{
    const struct side *keys = &trade->keys;
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim, n = own_places(keys);
    copy(problem->pool, columns(keys->here, d + d_v, 0, d), problem->key, keys->own.list, n, false);
    copy(problem->pool, columns(keys->here, d + d_v, d, d_v), problem->value, keys->own.list, n, false);
    carry(problem, trade, keys, d + d_v, false);
}

/* The parts of the places of the own lists, back to the ranks of their queries. */
static void carry_parts(const struct problem *problem, const struct trade *trade,
                        const struct group_parts *from, const struct group_parts *to)
{
    const struct side *queries = &trade->queries;
    size_t d_v = problem->shape.value_dim, width = d_v + 2;
    const size_t cols[] = {d_v, 1, 1}, at[] = {0, d_v, d_v + 1};
    float *const sources[] = {from->result, from->max, from->sum}, *const goals[] = {to->result, to->max,
                                                                                     to->sum};
    for (size_t i = 0; i < 3; i++)
        copy(problem->pool, columns(queries->there, width, at[i], cols[i]), view_of(sources[i], 0, cols[i]),
             queries->rows, owned_places(queries), true);
    carry(problem, trade, queries, width, true);
    for (size_t i = 0; i < 3; i++)
        copy(problem->pool, view_of(goals[i], 0, cols[i]), columns(queries->here, width, at[i], cols[i]),
             NULL, own_places(queries), false);
}

static void write_zeros(struct view out)
{
    for (size_t i = 0; i < out.rows; i++)
        memset(view_row(out, i), 0, out.cols * sizeof(float));
}

void lha_ranks_forward(const struct problem *problem, struct view out)
{
    const struct lha_options *options = problem->options;
    struct grouped grouped = in_groups(&options->grouping, &problem->shape);
    struct lha_ranks_saved saved = lha_ranks_saved_on(&grouped, &problem->shape, problem->saved);
    if (!agree(problem, &saved)) {
        write_zeros(out);
        return;
    }
    struct trade trade = open(problem, &grouped, &saved, false);
    size_t d = problem->shape.head_dim;
    copy(problem->pool, columns(trade.queries.here, d, 0, d), problem->query, trade.queries.own.list,
         own_places(&trade.queries), false);
    carry(problem, &trade, &trade.queries, d, false);
    carry_keys(problem, &trade);
    const struct group_attention owned = in_owned(problem, &grouped, &trade, d),
                                 own = in_own(problem, &grouped, &trade, &saved);
    group_places_forward(&owned, trade.owned_work);
    const struct group_parts from = group_parts(&owned.sizes, trade.owned_work),
                             to = group_parts(&own.sizes, trade.own_work);
    carry_parts(problem, &trade, &from, &to);
    group_rows_forward(&own, out, trade.own_work);
}

/* Queries with dout, their maximum and sum of forward, and delta. */
static void carry_queries_backward(const struct problem *problem, const struct trade *trade,
                                   const struct group_attention *own, struct view out, struct view dout,
                                   float *delta)
{
    const struct side *queries = &trade->queries;
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim, width = d + d_v + 3;
    group_deltas(own, out, dout, trade->delta);
    const struct view from[] = {problem->query, dout, view_of(own->rows.max, 0, 1),
                                view_of(own->rows.log_sum, 0, 1), view_of(trade->delta, 0, 1)};
    float *const to[] = {NULL, NULL, trade->rows.max, trade->rows.log_sum, delta};
    const size_t at[] = {0, d, d + d_v, d + d_v + 1, d + d_v + 2};
    for (size_t i = 0; i < 5; i++)
        copy(problem->pool, columns(queries->here, width, at[i], from[i].cols), from[i], queries->own.list,
             own_places(queries), false);
    carry(problem, trade, queries, width, false);
    for (size_t i = 2; i < 5; i++)
        copy(problem->pool, view_of(to[i], 0, 1), columns(queries->there, width, at[i], 1), NULL,
             owned_places(queries), false);
}

/* The gradients of the places of the own lists, back to the ranks of their rows. */
static void carry_slopes(const struct problem *problem, const struct trade *trade,
                         const struct group_slopes *from, const struct group_slopes *to)
{
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim;
    const struct side *const sides[] = {&trade->queries, &trade->keys, &trade->keys};
    const size_t width[] = {d, d + d_v, d + d_v}, at[] = {0, 0, d}, cols[] = {d, d, d_v};
    float *const sources[] = {from->query, from->key, from->value}, *const goals[] = {to->query, to->key,
                                                                                      to->value};
    for (size_t i = 0; i < 3; i++)
        copy(problem->pool, columns(sides[i]->there, width[i], at[i], cols[i]),
             view_of(sources[i], 0, cols[i]), sides[i]->rows, owned_places(sides[i]), true);
    carry(problem, trade, &trade->queries, d, true);
    carry(problem, trade, &trade->keys, d + d_v, true);
    for (size_t i = 0; i < 3; i++)
        copy(problem->pool, view_of(goals[i], 0, cols[i]), columns(sides[i]->here, width[i], at[i], cols[i]),
             NULL, own_places(sides[i]), false);
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
    struct grouped grouped = in_groups(&options->grouping, &problem->shape);
    struct lha_ranks_saved saved = lha_ranks_saved_on(&grouped, &problem->shape, problem->saved);
    struct trade trade = open(problem, &grouped, &saved, true);
    size_t d = problem->shape.head_dim, d_v = problem->shape.value_dim, width = d + d_v + 3;
    const struct group_attention owned = in_owned(problem, &grouped, &trade, width),
                                 own = in_own(problem, &grouped, &trade, &saved);
    const struct group_slopes from = group_slopes(&owned.sizes, trade.owned_work),
                              to = group_slopes(&own.sizes, trade.own_work);
    carry_queries_backward(problem, &trade, &own, out, dout, from.delta);
    carry_keys(problem, &trade);
    group_places_backward(&owned, columns(trade.queries.there, width, d, d_v), trade.owned_work);
    carry_slopes(problem, &trade, &from, &to);
    struct attention_gradients down = {
        .query = gradients->query, .key = gradients->key, .value = gradients->value};
    if (grouped.norm) {
        down.query = view_of(trade.dquery, problem->shape.num_queries, d);
        down.key = view_of(trade.dkey, problem->shape.num_keys, d);
        write_zeros(down.query);
        write_zeros(down.key);
    }
    group_rows_backward(&own, &down, trade.own_work);
    if (grouped.norm) {
        add_normed(problem, &trade, problem->query, trade.dquery, gradients->query);
        add_normed(problem, &trade, problem->key, trade.dkey, gradients->key);
    }
}
