/* Steps 1 and 2 of grouped.h, on the pool. SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/grouped.h"

#include <float.h>
#include <math.h>
#include <string.h>

const char *const lha_mode_names[] = {"released", "paper", NULL};
const char *const membership_names[] = {"strict", "whole", NULL};

/* ---- memory -------------------------------------------------------------------------------------------- */

static bool balances(const struct grouped *b)
{
    return !b->by_token && b->balance > 0;
}

static size_t tiles_of(size_t n)
{
    return (n + SCORE_ROWS - 1) / SCORE_ROWS;
}

struct score_memory {
    float *scores;                     /* (num_groups, n) of one side, members_score_distance(n) apart */
    uint32_t *choice;                  /* (n): by_token */
    double *spread;                    /* (tiles): sums of squares of the centred scores */
    void *balance;                     /* memory of balance.h */
    float *z, *largest, *sum, *factor; /* of one thread: (SCORE_ROWS, num_groups), (SCORE_ROWS) each */
    size_t bytes;
};

static struct score_memory score_memory(const struct grouped *b, void *block, size_t n, size_t worker)
{
    struct score_memory memory = {0};
    struct arena arena = arena_on(block);
    size_t groups = b->capacity.num_groups, workers = b->workers;
    if (b->by_token)
        memory.choice = arena_take(&arena, n, sizeof *memory.choice);
    else
        memory.scores = arena_take(&arena, size_product(groups, members_score_distance(n)), sizeof(float));
    if (balances(b)) {
        memory.spread = arena_take(&arena, tiles_of(n), sizeof *memory.spread);
        memory.balance = arena_take(&arena, balance_size(groups, n), 1);
    }
    float *z = arena_take(&arena, size_product(workers, SCORE_ROWS), size_product(groups, sizeof(float)));
    float *rows = arena_take(&arena, size_product(workers, 3 * SCORE_ROWS), sizeof(float));
    if (block != NULL) {
        memory.z = z + worker * SCORE_ROWS * groups;
        memory.largest = rows + worker * 3 * SCORE_ROWS;
        memory.sum = memory.largest + SCORE_ROWS;
        memory.factor = memory.sum + SCORE_ROWS;
    }
    memory.bytes = arena.used;
    return memory;
}

size_t grouped_members_size(const struct grouped *b)
{
    return score_memory(b, NULL, size_max(b->num_queries, b->num_keys), 0).bytes;
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
    const struct grouped *grouped;
    enum grouped_side side;
    size_t n;
    void *block;
};

/* Prefetches the rows of the next tile: a product reads only six rows at a time, too few to hide latency. */
static void ask_tile(const struct grouped *b, enum grouped_side side, size_t first, size_t n)
{
    for (size_t i = first; i < size_min(first + SCORE_ROWS, n); i++) {
        if (side == SIDE_QUERIES)
            view_prefetch(b->query, i);
        if (side == SIDE_KEYS || b->joint)
            view_prefetch(b->key, i);
    }
}

static void score_tile(void *argument, size_t tile, int worker)
{
    const struct scoring *scoring = argument;
    const struct grouped *b = scoring->grouped;
    struct score_memory memory = score_memory(b, scoring->block, scoring->n, (size_t)worker);
    size_t groups = b->capacity.num_groups, first = tile * SCORE_ROWS,
           count = size_min(SCORE_ROWS, scoring->n - first);
    ask_tile(b, scoring->side, first + count, scoring->n);
    b->score(b->argument, scoring->side, first, count, memory.z, worker);
    if (b->by_token) {
        for (size_t i = 0; i < count; i++)
            memory.choice[first + i] = (uint32_t)grouped_best(memory.z + i * groups, groups);
        return;
    }
    if (!balances(b))
        grouped_softmax(b->kernels, memory.z, groups, count, memory.largest, memory.sum, memory.factor);
    b->kernels->tiles.transpose(memory.scores + first, members_score_distance(scoring->n), memory.z, groups,
                                count, groups);
    if (balances(b)) {
        double sum = 0;
        b->kernels->softmax.below_largest(memory.scores + first, members_score_distance(scoring->n),
                                          memory.sum, groups, count);
        for (size_t i = 0; i < count; i++)
            sum += (double)memory.sum[i];
        memory.spread[tile] = sum;
    }
}

/* Scales the scores of a token to standard deviation 1, over all tokens, times GROUPED_SHARPNESS; equal
   scores are not scaled. */
static void balance_scores(const struct grouped *b, const struct score_memory *memory, size_t n)
{
    double sum = 0;
    for (size_t tile = 0; tile < tiles_of(n); tile++)
        sum += memory->spread[tile];
    float deviation = (float)sqrt(sum / (double)n / (double)b->capacity.num_groups);
    balance(
        &(struct balance){
            .kernels = b->kernels,
            .pool = b->pool,
            .num_groups = b->capacity.num_groups,
            .n = n,
            .ld = members_score_distance(n),
            .rounds = b->balance,
            .scale = deviation > FLT_MIN ? GROUPED_SHARPNESS / deviation : 1,
            .scratch = memory->balance,
        },
        memory->scores);
}

/* Computes the scores or, with by_token, the choices of all tokens of a side. */
static struct score_memory score_side(const struct grouped *b, enum grouped_side side, size_t n, void *block)
{
    struct scoring scoring = {b, side, n, block};
    struct score_memory memory = score_memory(b, block, n, 0);
    pool_run(b->pool, score_tile, &scoring, tiles_of(n));
    if (balances(b))
        balance_scores(b, &memory, n);
    return memory;
}

static size_t length_of(const struct grouped *b, enum grouped_side side)
{
    return side == SIDE_QUERIES ? b->num_queries : b->num_keys;
}

static void fill_members(const struct grouped *b, enum grouped_side side, const struct members *members)
{
    size_t n = length_of(b, side);
    struct score_memory memory = score_side(b, side, n, b->scratch);
    if (b->by_token)
        members_by_token(members, memory.choice, n);
    else
        members_by_group(members, b->kernels, b->pool, memory.scores, members_score_distance(n), n,
                         capacity_of(&b->capacity, n));
}

void grouped_members(const struct grouped *b)
{
    struct grouped_saved saved = grouped_saved(b);
    fill_members(b, SIDE_QUERIES, &saved.queries);
    if (!b->joint)
        fill_members(b, SIDE_KEYS, &saved.keys);
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

size_t grouped_whole_size(const struct grouped *b)
{
    struct grouped whole = whole_of(b);
    return grouped_members_size(&whole);
}

/* choice[i] = the group of the largest scores[b * ld + i]. */
static void choose(uint32_t *choice, const float *scores, size_t ld, size_t groups, size_t n)
{
    for (size_t i = 0; i < n; i++)
        choice[i] = 0;
    for (size_t b = 1; b < groups; b++)
        for (size_t i = 0; i < n; i++)
            if (scores[b * ld + i] > scores[choice[i] * ld + i])
                choice[i] = (uint32_t)b;
}

void grouped_whole(const struct grouped *b, enum grouped_side side, const struct members *lists,
                   uint32_t *choice, void *scratch)
{
    struct grouped whole = whole_of(b);
    size_t n = length_of(b, side);
    const float *scores = score_side(&whole, b->joint ? SIDE_QUERIES : side, n, scratch).scores;
    if (lists != NULL)
        members_by_group(lists, b->kernels, b->pool, scores, members_score_distance(n), n,
                         capacity_of(&b->capacity, n));
    if (choice != NULL)
        choose(choice, scores, members_score_distance(n), b->capacity.num_groups, n);
}

void grouped_count_best(const struct grouped *b, enum grouped_side side, uint32_t *counts)
{
    size_t n = length_of(b, side), groups = b->capacity.num_groups;
    float *z = score_memory(b, b->scratch, n, 0).z;
    memset(counts, 0, groups * sizeof *counts);
    for (size_t first = 0; first < n; first += SCORE_ROWS) {
        size_t count = size_min(SCORE_ROWS, n - first);
        b->score(b->argument, b->joint ? SIDE_QUERIES : side, first, count, z, 0);
        for (size_t i = 0; i < count; i++)
            counts[grouped_best(z + i * groups, groups)]++;
    }
}
