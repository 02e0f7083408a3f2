/* Candidates of the ranks, and the choice among them.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/lha/lha_lists.h"

#include <string.h>

#include "parts/groups/topk.h"

size_t lha_lists_capacity(const struct grouped *grouped, size_t total)
{
    return capacity_of(&grouped->capacity, total);
}

/* The lists that a rank chooses. */
static size_t owned_lists(const struct grouped *grouped, size_t ranks, size_t rank, size_t *first)
{
    size_t end;
    comm_span_of((int)rank, (int)ranks, grouped_lists(grouped), first, &end);
    return end - *first;
}

/* Candidates that a rank has for a list. */
static size_t candidates_of(const struct grouped *grouped, size_t ranks, size_t rank, size_t total)
{
    size_t first, end;
    comm_span_of((int)rank, (int)ranks, total, &first, &end);
    return size_min(end - first, lha_lists_capacity(grouped, total));
}

static size_t all_candidates(const struct grouped *grouped, size_t ranks, size_t total)
{
    size_t sum = 0;
    for (size_t rank = 0; rank < ranks; rank++)
        sum = size_sum(sum, candidates_of(grouped, ranks, rank, total));
    return sum;
}

struct lha_lists lha_lists_on(const struct grouped *grouped, const struct problem_shape *shape,
                              size_t most_summed, void *block)
{
    struct lha_lists lists = {.workers = shape->workers};
    struct arena arena = arena_on(block);
    size_t total = shape->total_rows, ranks = shape->ranks, all = all_candidates(grouped, ranks, total),
           capacity = lha_lists_capacity(grouped, total), num_lists = grouped_lists(grouped),
           most = size_min(row_ranks_most(ranks, total), capacity);
    lists.most_summed = size_max(most_summed, grouped->capacity.num_groups);
    lists.sum_scratch = arena_take(&arena, row_ranks_sum_scratch(ranks, lists.most_summed), 1);
    lists.choice = arena_take(&arena, size_product(total, grouped->rounds), sizeof *lists.choice);
    lists.tokens = arena_take(&arena, size_product(num_lists, most), sizeof *lists.tokens);
    lists.scores = arena_take(&arena, size_product(num_lists, most), sizeof *lists.scores);
    size_t owned = num_lists / ranks + (num_lists % ranks > 0);
    lists.come_tokens = arena_take(&arena, size_product(owned, all), sizeof *lists.come_tokens);
    lists.come_scores = arena_take(&arena, size_product(owned, all), sizeof *lists.come_scores);
    lists.list_tokens = arena_take(&arena, size_product(lists.workers, all), sizeof *lists.list_tokens);
    lists.list_scores = arena_take(&arena, size_product(lists.workers, all), sizeof *lists.list_scores);
    lists.picks = arena_take(&arena, size_product(lists.workers, capacity), sizeof *lists.picks);
    lists.out = arena_take(&arena, ranks, sizeof *lists.out);
    lists.in = arena_take(&arena, ranks, sizeof *lists.in);
    lists.work = arena_take(&arena, grouped_whole_size(shape, grouped), 1);
    lists.bytes = arena.used;
    return lists;
}

static void sum_over_ranks(void *argument, float *x, size_t n)
{
    const struct lha_lists *lists = argument;
    row_ranks_sum(lists->problem->ranks, lists->problem->pool, x, n, lists->sum_scratch);
}

void lha_lists_open(struct lha_lists *lists, const struct problem *problem)
{
    lists->problem = problem;
    lists->across = (struct grouped_across){problem->shape.total_rows, sum_over_ranks, lists};
}

static size_t first_token(const struct lha_lists *lists)
{
    size_t first, end;
    comm_span(lists->problem->ranks->comm, lists->across.total, &first, &end);
    return first;
}

/* The choices of this rank's rows, among those of all. */
static void choose(const struct lha_lists *lists, const struct grouped *grouped, enum group_side side,
                   bool whole)
{
    size_t rounds = grouped->rounds;
    const struct grouped_found found = {.choice = lists->choice + first_token(lists) * rounds};
    grouped_find(lists->problem, grouped, side, whole, &found, lists->work);
    row_ranks_gather(lists->problem->ranks, lists->choice,
                     lists->across.total * rounds * sizeof *lists->choice, rounds * sizeof *lists->choice);
}

bool lha_lists_choose(const struct lha_lists *lists, const struct grouped *grouped, enum group_side side)
{
    choose(lists, grouped, side, true);
    return lists->problem->ranks->status == HASHATTN_OK;
}

/* Sends the best tokens of this rank to the owners of the lists; once for tokens, once for scores, which are
   numbers of 4 bytes both. */
static void exchange(const struct lha_lists *lists, const struct grouped *grouped, void *from, void *to)
{
    size_t ranks = row_ranks_count(lists->problem->ranks),
           rank = (size_t)comm_rank(lists->problem->ranks->comm), first, total = lists->across.total,
           own = candidates_of(grouped, ranks, rank, total),
           owned = owned_lists(grouped, ranks, rank, &first);
    char *at = to;
    for (size_t r = 0; r < ranks; r++) {
        size_t theirs = owned_lists(grouped, ranks, r, &first),
               size = owned * candidates_of(grouped, ranks, r, total) * sizeof(uint32_t);
        lists->out[r] = (struct row_piece){(char *)from + first * own * sizeof(uint32_t),
                                           theirs * own * sizeof(uint32_t)};
        lists->in[r] = (struct row_piece){at, size};
        at += size;
    }
    row_ranks_exchange(lists->problem->ranks, lists->out, lists->in);
}

struct picking {
    const struct lha_lists *lists;
    const struct grouped *grouped;
    const struct members *members;
    size_t first, owned; /* lists of this rank */
};

/* The best of all candidates of a list. They rise from rank to rank, so equal scores go to the lower token.
 */
static void pick_list(void *argument, size_t index, int worker)
{
    const struct picking *picking = argument;
    const struct lha_lists *lists = picking->lists;
    const struct grouped *grouped = picking->grouped;
    size_t ranks = row_ranks_count(lists->problem->ranks), total = lists->across.total,
           all = all_candidates(grouped, ranks, total), capacity = lha_lists_capacity(grouped, total);
    uint32_t *tokens = lists->list_tokens + (size_t)worker * all,
             *picks = lists->picks + (size_t)worker * capacity;
    float *scores = lists->list_scores + (size_t)worker * all;
    for (size_t r = 0, at = 0, block = 0; r < ranks; r++) {
        size_t count = candidates_of(grouped, ranks, r, total);
        memcpy(tokens + at, lists->come_tokens + block + index * count, count * sizeof *tokens);
        memcpy(scores + at, lists->come_scores + block + index * count, count * sizeof *scores);
        at += count;
        block += picking->owned * count;
    }
    topk_select(lists->problem->kernels, scores, all, capacity, picks);
    uint32_t *list = picking->members->list + (picking->first + index) * capacity;
    for (size_t i = 0; i < capacity; i++)
        list[i] = tokens[picks[i]];
}

static void pick(const struct lha_lists *lists, const struct grouped *grouped, enum group_side side,
                 bool whole, const struct members *members)
{
    size_t ranks = row_ranks_count(lists->problem->ranks),
           rank = (size_t)comm_rank(lists->problem->ranks->comm), total = lists->across.total,
           capacity = lha_lists_capacity(grouped, total), num_lists = grouped_lists(grouped);
    const struct grouped_found found = {.tokens = lists->tokens,
                                        .scores = lists->scores,
                                        .count = candidates_of(grouped, ranks, rank, total)};
    grouped_find(lists->problem, grouped, side, whole, &found, lists->work);
    for (size_t i = 0; i < num_lists * found.count; i++)
        lists->tokens[i] += (uint32_t)first_token(lists);
    exchange(lists, grouped, lists->tokens, lists->come_tokens);
    exchange(lists, grouped, lists->scores, lists->come_scores);
    struct picking picking = {lists, grouped, members, 0, 0};
    picking.owned = owned_lists(grouped, ranks, rank, &picking.first);
    pool_run(lists->problem->pool, pick_list, &picking, picking.owned);
    row_ranks_gather(lists->problem->ranks, members->list, num_lists * capacity * sizeof *members->list,
                     capacity * sizeof *members->list);
    for (size_t l = 0; l <= num_lists; l++)
        members->start[l] = (uint32_t)(l * capacity);
}

bool lha_lists_agree(const struct lha_lists *lists, const struct grouped *grouped, enum group_side side,
                     bool whole, const struct members *members)
{
    if (grouped->by_token && !whole) {
        choose(lists, grouped, side, false);
        if (lists->problem->ranks->status == HASHATTN_OK)
            members_by_token(members, lists->choice, lists->across.total, grouped->rounds);
    } else {
        pick(lists, grouped, side, whole, members);
    }
    return lists->problem->ranks->status == HASHATTN_OK;
}

struct lha_lists_saved lha_lists_saved_on(const struct grouped *grouped, const struct problem_shape *shape,
                                          void *block)
{
    struct lha_lists_saved saved;
    struct arena arena = arena_on(block);
    size_t lists = grouped_lists(grouped), places = grouped_places(grouped, shape->total_rows);
    saved.queries = members_take(&arena, lists, places);
    saved.keys = grouped->joint ? saved.queries : members_take(&arena, lists, places);
    saved.rows = softmax_rows_take(&arena, shape->num_queries);
    saved.bytes = arena.used;
    return saved;
}
