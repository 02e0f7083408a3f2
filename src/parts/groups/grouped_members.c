/* Tiles of scores on the pool, then lists group by group.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/grouped_members.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "parts/groups/balance.h"
#include "parts/groups/partition.h"
#include "parts/groups/topk.h"

/* ---- memory -------------------------------------------------------------------------------------------- */

size_t grouped_places(const struct grouped *b, size_t n)
{
    return b->by_token || b->partition ? size_product(n, b->rounds)
                                       : size_product(grouped_lists(b), capacity_of(&b->capacity, n));
}

struct grouped_saved grouped_saved_on(const struct problem_shape *shape, const struct grouped *b, void *block)
{
    struct grouped_saved saved;
    struct arena arena = arena_on(block);
    saved.queries = members_take(&arena, grouped_lists(b), grouped_places(b, shape->num_queries));
    saved.keys = saved.queries;
    if (!b->joint)
        saved.keys = members_take(&arena, grouped_lists(b), grouped_places(b, shape->num_keys));
    saved.rows = softmax_rows_take(&arena, shape->num_queries);
    saved.bytes = arena.used;
    return saved;
}

static bool balances(const struct grouped *b)
{
    return !b->by_token && b->balance > 0;
}

static size_t tiles_of(size_t n)
{
    return (n + SCORE_ROWS - 1) / SCORE_ROWS;
}

struct score_memory {
    float *scores;                     /* (lists, n) of one side, members_score_distance(n) apart */
    uint32_t *choice;                  /* (n, rounds): by_token, partition */
    void *partition;                   /* memory of partition.h */
    double *spread;                    /* (rounds, tiles): sums of squares of the centred scores */
    void *balance;                     /* memory of balance.h */
    float *z, *largest, *sum, *factor; /* of one thread: (SCORE_ROWS, lists), (SCORE_ROWS, rounds) each */
    float *before;                     /* (SCORE_ROWS, lists) of one thread: z before its softmax */
    size_t bytes;
};

static struct score_memory score_memory(const struct grouped *b, size_t workers, void *block, size_t n,
                                        size_t worker)
{
    struct score_memory memory = {0};
    struct arena arena = arena_on(block);
    size_t lists = grouped_lists(b), each = size_product(SCORE_ROWS, b->rounds);
    if (b->by_token || b->partition)
        memory.choice = arena_take(&arena, size_product(n, b->rounds), sizeof *memory.choice);
    if (b->partition)
        memory.partition = arena_take(&arena, partition_size(b->capacity.num_groups, n), 1);
    if (!b->by_token)
        memory.scores = arena_take(&arena, size_product(lists, members_score_distance(n)), sizeof(float));
    if (balances(b)) {
        memory.spread = arena_take(&arena, size_product(b->rounds, tiles_of(n)), sizeof *memory.spread);
        memory.balance = arena_take(&arena, balance_size(b->capacity.num_groups, n), 1);
    }
    float *z = arena_take(&arena, size_product(workers, SCORE_ROWS), size_product(lists, sizeof(float)));
    float *rows = arena_take(&arena, size_product(workers, 3), size_product(each, sizeof(float)));
    float *before = arena_take(&arena, b->by_token || balances(b) ? 0 : size_product(workers, SCORE_ROWS),
                               size_product(lists, sizeof(float)));
    if (block != NULL) {
        memory.before = b->by_token || balances(b) ? NULL : before + worker * SCORE_ROWS * lists;
        memory.z = z + worker * SCORE_ROWS * lists;
        memory.largest = rows + worker * 3 * each;
        memory.sum = memory.largest + each;
        memory.factor = memory.sum + each;
    }
    memory.bytes = arena.used;
    return memory;
}

size_t grouped_members_size(const struct problem_shape *shape, const struct grouped *b)
{
    size_t longer = size_max(shape->num_queries, shape->num_keys);
    return score_memory(b, shape->workers, NULL, longer, 0).bytes;
}

/* ---- scores and lists ---------------------------------------------------------------------------------- */

void grouped_softmax(const struct kernels *kernels, float *z, size_t num_groups, size_t count, float *largest,
                     float *sum, float *factor)
{
    for (size_t i = 0; i < count; i++) {
        largest[i] = -INFINITY;
        sum[i] = 0;
    }
    kernels->softmax.step(z, num_groups, count, num_groups, 1, largest, sum, factor);
    for (size_t i = 0; i < count; i++)
        factor[i] = 1 / sum[i];
    kernels->rows.scale(z, num_groups, factor, count, num_groups);
}

size_t grouped_best(const float *z, size_t num_groups)
{
    size_t best = 0;
    for (size_t b = 1; b < num_groups; b++)
        if (z[b] > z[best] || (isnan(z[best]) && !isnan(z[b])))
            best = b;
    return best;
}

struct scoring {
    const struct problem *problem;
    const struct grouped *grouped;
    enum group_side side;
    size_t n;
    void *block;
};

/* z (count, lists) of a tile, and prefetches the next: a product reads only six rows at a time, too few to
   hide latency. Rows are prefetched a slice at a time, because a core waits for a limited number of cache
   lines. A slice is two blocks of the product; a tile's rows at once take 1.12 of the time. */
static void score_rows(const struct scoring *scoring, size_t first, size_t count, float *z, int worker)
{
    enum { SLICE = 12 };
    const struct grouped *b = scoring->grouped;
    const struct view query = scoring->problem->query, key = scoring->problem->key;
    bool queries = scoring->side == SIDE_QUERIES, keys = scoring->side == SIDE_KEYS || b->joint;
    for (size_t at = first; at < first + count; at += SLICE) {
        size_t rows = size_min(SLICE, first + count - at), next = at + SCORE_ROWS;
        for (size_t i = next; i < size_min(next + rows, scoring->n); i++) {
            if (queries)
                view_prefetch(query, i);
            if (keys)
                view_prefetch(key, i);
        }
        b->score(b->scorer, scoring->side, at, rows, z + (at - first) * grouped_lists(b), worker);
    }
}

/* choice (count, rounds): the best list of each round. */
static void choose_own(const struct grouped *b, const float *z, size_t count, uint32_t *choice)
{
    size_t groups = b->capacity.num_groups;
    for (size_t c = 0; c < count * b->rounds; c++)
        choice[c] = (uint32_t)(c % b->rounds * groups + grouped_best(z + c * groups, groups));
}

/* z (tokens, num_groups): shares of the groups, by which groups choose tokens. A share that underflows
   becomes its logarithm, a negative number, so that it still counts which of two such tokens is better. */
static void softmax_or_log(const struct kernels *kernels, const struct grouped *b,
                           const struct score_memory *memory, size_t count)
{
    size_t groups = b->capacity.num_groups, tokens = count * b->rounds;
    memcpy(memory->before, memory->z, tokens * groups * sizeof *memory->z);
    grouped_softmax(kernels, memory->z, groups, tokens, memory->largest, memory->sum, memory->factor);
    for (size_t i = 0; i < tokens * groups; i++)
        if (memory->z[i] < FLT_MIN)
            memory->z[i] = memory->before[i] - memory->largest[i / groups] - logf(memory->sum[i / groups]);
}

static void score_tile(void *argument, size_t tile, int worker)
{
    const struct scoring *scoring = argument;
    const struct grouped *b = scoring->grouped;
    const struct kernels *kernels = scoring->problem->kernels;
    struct score_memory memory =
        score_memory(b, scoring->problem->shape.workers, scoring->block, scoring->n, (size_t)worker);
    size_t groups = b->capacity.num_groups, lists = grouped_lists(b), first = tile * SCORE_ROWS,
           count = size_min(SCORE_ROWS, scoring->n - first), ld = members_score_distance(scoring->n);
    score_rows(scoring, first, count, memory.z, worker);
    if (b->by_token) {
        choose_own(b, memory.z, count, memory.choice + first * b->rounds);
        return;
    }
    /* The scores of a token for one round are a row of z (count * rounds, groups). */
    if (!balances(b))
        softmax_or_log(kernels, b, &memory, count);
    kernels->tiles.transpose(memory.scores + first, ld, memory.z, lists, count, lists);
    for (size_t round = 0; round < b->rounds && balances(b); round++) {
        double sum = 0;
        kernels->softmax.below_largest(memory.scores + round * groups * ld + first, ld, memory.sum, groups,
                                       count);
        for (size_t i = 0; i < count; i++)
            sum += (double)memory.sum[i];
        memory.spread[round * tiles_of(scoring->n) + tile] = sum;
    }
}

/* Scales the scores of a token in a round to standard deviation 1, over all tokens, times GROUPED_SHARPNESS;
   equal scores are not scaled. */
static void balance_scores(const struct problem *problem, const struct grouped *b,
                           const struct score_memory *memory, size_t n, size_t round)
{
    double sum = 0, total = (double)(b->across == NULL ? n : b->across->total);
    for (size_t tile = 0; tile < tiles_of(n); tile++)
        sum += memory->spread[round * tiles_of(n) + tile];
    if (b->across != NULL) {
        float squares = (float)sum;
        b->across->sum(b->across->argument, &squares, 1);
        sum = (double)squares;
    }
    float deviation = (float)sqrt(sum / total / (double)b->capacity.num_groups);
    balance(
        &(struct balance){
            .kernels = problem->kernels,
            .pool = problem->pool,
            .num_groups = b->capacity.num_groups,
            .n = n,
            .ld = members_score_distance(n),
            .rounds = b->balance,
            .scale = deviation > FLT_MIN ? GROUPED_SHARPNESS / deviation : 1,
            .scratch = memory->balance,
            .sum = b->across == NULL ? NULL : b->across->sum,
            .argument = b->across == NULL ? NULL : b->across->argument,
            .total = b->across == NULL ? 0 : b->across->total,
        },
        memory->scores + round * b->capacity.num_groups * members_score_distance(n));
}

/* Computes the scores or, with by_token, the choices of all tokens of a side. */
static struct score_memory score_side(const struct problem *problem, const struct grouped *b,
                                      enum group_side side, size_t n, void *block)
{
    struct scoring scoring = {problem, b, side, n, block};
    struct score_memory memory = score_memory(b, problem->shape.workers, block, n, 0);
    pool_run(problem->pool, score_tile, &scoring, tiles_of(n));
    for (size_t round = 0; round < b->rounds && balances(b); round++)
        balance_scores(problem, b, &memory, n, round);
    return memory;
}

static size_t length_of(const struct problem *problem, enum group_side side)
{
    return side == SIDE_QUERIES ? problem->shape.num_queries : problem->shape.num_keys;
}

/* The lists of a side, from its scores or choices. */
static void fill_lists(const struct problem *problem, const struct grouped *b,
                       const struct score_memory *memory, size_t n, const struct members *members)
{
    size_t ld = members_score_distance(n), groups = b->capacity.num_groups;
    for (size_t round = 0; round < b->rounds && b->partition; round++)
        partition(memory->scores + round * groups * ld, ld, groups, n, (uint32_t)(round * groups),
                  memory->choice + round, b->rounds, memory->partition);
    if (b->by_token || b->partition)
        members_by_token(members, memory->choice, n, b->rounds);
    else
        members_by_group(members, problem->kernels, problem->pool, memory->scores, ld, n,
                         capacity_of(&b->capacity, n));
}

void grouped_members(const struct problem *problem, const struct grouped *b, void *scratch)
{
    struct grouped_saved saved = grouped_saved_on(&problem->shape, b, problem->saved);
    for (int side = SIDE_QUERIES; side <= (b->joint ? SIDE_QUERIES : SIDE_KEYS); side++) {
        size_t n = length_of(problem, (enum group_side)side);
        struct score_memory memory = score_side(problem, b, (enum group_side)side, n, scratch);
        fill_lists(problem, b, &memory, n, side == SIDE_QUERIES ? &saved.queries : &saved.keys);
    }
}

static struct grouped whole_of(const struct grouped *b)
{
    struct grouped whole = *b;
    whole.by_token = false;
    return whole;
}

size_t grouped_whole_places(const struct grouped *b, size_t n)
{
    struct grouped whole = whole_of(b);
    return grouped_places(&whole, n);
}

size_t grouped_whole_size(const struct problem_shape *shape, const struct grouped *b)
{
    struct grouped whole = whole_of(b);
    return grouped_members_size(shape, &whole);
}

/* choice[i * rounds + round] = the list of the largest scores[list * ld + i] in its round. */
static void choose(uint32_t *choice, const float *scores, size_t ld, size_t groups, size_t rounds, size_t n)
{
    for (size_t round = 0; round < rounds; round++, choice++) {
        for (size_t i = 0; i < n; i++)
            choice[i * rounds] = (uint32_t)(round * groups);
        for (size_t list = round * groups + 1; list < (round + 1) * groups; list++)
            for (size_t i = 0; i < n; i++)
                if (scores[list * ld + i] > scores[choice[i * rounds] * ld + i])
                    choice[i * rounds] = (uint32_t)list;
    }
}

void grouped_whole(const struct problem *problem, const struct grouped *b, enum group_side side,
                   const struct members *lists, uint32_t *choice, void *scratch)
{
    struct grouped whole = whole_of(b);
    size_t n = length_of(problem, side);
    struct score_memory memory = score_side(problem, &whole, b->joint ? SIDE_QUERIES : side, n, scratch);
    if (lists != NULL)
        fill_lists(problem, &whole, &memory, n, lists);
    if (choice != NULL)
        choose(choice, memory.scores, members_score_distance(n), b->capacity.num_groups, b->rounds, n);
}

struct finding {
    const struct kernels *kernels;
    const float *scores;
    size_t ld, n;
    const struct grouped_found *found;
};

static void find_group(void *argument, size_t group, int worker)
{
    (void)worker;
    const struct finding *finding = argument;
    const struct grouped_found *found = finding->found;
    const float *scores = finding->scores + group * finding->ld;
    uint32_t *tokens = found->tokens + group * found->count;
    topk_select(finding->kernels, scores, finding->n, found->count, tokens);
    for (size_t i = 0; i < found->count; i++)
        found->scores[group * found->count + i] = scores[tokens[i]];
}

void grouped_find(const struct problem *problem, const struct grouped *b, enum group_side side, bool whole,
                  const struct grouped_found *found, void *scratch)
{
    struct grouped used = whole ? whole_of(b) : *b;
    size_t n = length_of(problem, side), ld = members_score_distance(n), lists = grouped_lists(b);
    struct score_memory memory = score_side(problem, &used, b->joint ? SIDE_QUERIES : side, n, scratch);
    if (found->choice != NULL && used.by_token)
        memcpy(found->choice, memory.choice, n * b->rounds * sizeof *found->choice);
    else if (found->choice != NULL)
        choose(found->choice, memory.scores, ld, b->capacity.num_groups, b->rounds, n);
    if (found->tokens == NULL)
        return;
    pool_run(problem->pool, find_group,
             &(struct finding){
                 .kernels = problem->kernels, .scores = memory.scores, .ld = ld, .n = n, .found = found},
             lists);
}

void grouped_count_best(const struct problem *problem, const struct grouped *b, enum group_side side,
                        uint32_t *counts, void *scratch)
{
    size_t n = length_of(problem, side), groups = b->capacity.num_groups;
    float *z = score_memory(b, problem->shape.workers, scratch, n, 0).z;
    memset(counts, 0, grouped_lists(b) * sizeof *counts);
    for (size_t first = 0; first < n; first += SCORE_ROWS) {
        size_t count = size_min(SCORE_ROWS, n - first);
        b->score(b->scorer, b->joint ? SIDE_QUERIES : side, first, count, z, 0);
        for (size_t c = 0; c < count * b->rounds; c++)
            counts[c % b->rounds * groups + grouped_best(z + c * groups, groups)]++;
    }
}
