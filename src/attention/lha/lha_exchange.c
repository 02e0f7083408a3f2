/* The places of each owner, the pieces that are sent, and the copies of rows at either end.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/lha/lha_exchange.h"

#include <string.h>

#include "base/memory.h"
#include "comm/row_ranks.h"

struct lha_side lha_side_take(struct arena *arena, size_t lists, size_t places, size_t ranks, size_t wide)
{
    struct lha_side side;
    side.own = members_take(arena, lists, places);
    side.owned = members_take(arena, lists, 0);
    side.rows = arena_take(arena, places, sizeof *side.rows);
    side.sent = arena_take(arena, size_sum(ranks, 1), sizeof *side.sent);
    side.arrived = arena_take(arena, size_sum(ranks, 1), sizeof *side.arrived);
    side.here = arena_take(arena, places, size_product(wide, sizeof(float)));
    side.there = arena_take(arena, places, size_product(wide, sizeof(float)));
    return side;
}

struct lha_pieces lha_pieces_take(struct arena *arena, size_t ranks)
{
    struct lha_pieces pieces;
    pieces.out = arena_take(arena, ranks, sizeof *pieces.out);
    pieces.in = arena_take(arena, ranks, sizeof *pieces.in);
    return pieces;
}

/* ---- who has what -------------------------------------------------------------------------------------- */

/* Cuts the lists of the whole sequence. */
static void cut_lists(const struct problem *problem, const struct members *all, struct lha_side *side)
{
    const struct comm *comm = problem->ranks->comm;
    size_t ranks = problem->shape.ranks, total = problem->shape.total_rows, first, end, own = 0;
    comm_span(comm, total, &first, &end);
    for (size_t list = 0; list < all->num_groups; list++) {
        side->own.start[list] = (uint32_t)own;
        for (size_t p = all->start[list]; p < all->start[list + 1]; p++)
            if (all->list[p] >= first && all->list[p] < end)
                side->own.list[own++] = all->list[p] - (uint32_t)first;
    }
    side->own.start[all->num_groups] = (uint32_t)own;
    for (size_t rank = 0; rank < ranks; rank++) {
        comm_span_of((int)rank, (int)ranks, all->num_groups, &first, &end);
        side->sent[rank] = side->own.start[first];
    }
    side->sent[ranks] = own;
    comm_span(comm, all->num_groups, &first, &end);
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
        comm_span_of((int)rank, (int)problem->shape.ranks, problem->shape.total_rows, &first, &end);
        if (token < end)
            return rank;
    }
}

/* Where the rows of the places of the own lists arrive: rank by rank, each in the order of places. */
static void find_arrivals(const struct problem *problem, struct lha_side *side)
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

void lha_side_open(const struct problem *problem, const struct members *all, struct lha_side *side)
{
    cut_lists(problem, all, side);
    find_arrivals(problem, side);
}

/* ---- sending ------------------------------------------------------------------------------------------- */

void lha_send(const struct problem *problem, const struct lha_pieces *pieces, const struct lha_side *side,
              size_t width, bool back)
{
    size_t row = width * sizeof(float);
    for (size_t rank = 0; rank < problem->shape.ranks; rank++) {
        const struct row_piece here = {side->here + side->sent[rank] * width,
                                       (side->sent[rank + 1] - side->sent[rank]) * row},
                               there = {side->there + side->arrived[rank] * width,
                                        (side->arrived[rank + 1] - side->arrived[rank]) * row};
        pieces->out[rank] = back ? there : here;
        pieces->in[rank] = back ? here : there;
    }
    row_ranks_exchange(problem->ranks, pieces->out, pieces->in);
}

/* ---- copies, on the pool ------------------------------------------------------------------------------- */

enum { COPY_ROWS = 256 }; /* of a unit of work */

/* The arguments of lha_copy. */
struct copying {
    const uint32_t *index;
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

void lha_copy(struct pool *pool, struct view to, struct view from, const uint32_t *index, size_t count,
              bool scatter)
{
    struct copying copying = {index, from, to, count, scatter};
    pool_run(pool, copy_unit, &copying, (count + COPY_ROWS - 1) / COPY_ROWS);
}
