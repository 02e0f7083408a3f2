/* Steps 1 and 2, each on the pool. SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/bucketed.h"

#include <float.h>
#include <math.h>
#include <string.h>

const char *const lha_mode_names[] = {"released", "paper", NULL};
const char *const membership_names[] = {"strict", "whole", NULL};

/* ---- memory -------------------------------------------------------------------------------------------- */

static bool balances(const struct bucketed *b)
{
    return !b->by_token && b->balance > 0;
}

static size_t tiles_of(size_t n)
{
    return (n + SCORE_ROWS - 1) / SCORE_ROWS;
}

struct score_memory {
    float *scores;                     /* (num_buckets, n) of one side, score_distance(n) apart */
    uint32_t *choice;                  /* (n): by_token */
    double *spread;                    /* (tiles): of their scores, and */
    void *balance;                     /* where scores are balanced */
    float *z, *largest, *sum, *factor; /* of one thread: (SCORE_ROWS, num_buckets), (SCORE_ROWS) each */
    size_t bytes;
};

/* An odd number of lines: where n is a power of two, the lines that a tile turns to would else share few sets
   of the cache. At n 4096 turning takes 0.43 of the time so. */
static size_t score_distance(size_t n)
{
    return size_product(size_sum(n, 15) / 16 | 1, 16);
}

static struct score_memory score_memory(const struct bucketed *b, void *block, size_t n, size_t worker)
{
    struct score_memory memory = {NULL};
    struct arena arena = arena_on(block);
    size_t buckets = b->capacity.num_buckets, workers = b->workers;
    if (b->by_token)
        memory.choice = arena_take(&arena, n, sizeof *memory.choice);
    else
        memory.scores = arena_take(&arena, size_product(buckets, score_distance(n)), sizeof(float));
    if (balances(b)) {
        memory.spread = arena_take(&arena, tiles_of(n), sizeof *memory.spread);
        memory.balance = arena_take(&arena, balance_size(buckets, n), 1);
    }
    float *z = arena_take(&arena, size_product(workers, SCORE_ROWS), size_product(buckets, sizeof(float)));
    float *rows = arena_take(&arena, size_product(workers, 3 * SCORE_ROWS), sizeof(float));
    if (block != NULL) {
        memory.z = z + worker * SCORE_ROWS * buckets;
        memory.largest = rows + worker * 3 * SCORE_ROWS;
        memory.sum = memory.largest + SCORE_ROWS;
        memory.factor = memory.sum + SCORE_ROWS;
    }
    memory.bytes = arena.used;
    return memory;
}

size_t bucketed_members_size(const struct bucketed *b)
{
    return score_memory(b, NULL, size_max(b->num_queries, b->num_keys), 0).bytes;
}

/* ---- scores and lists ---------------------------------------------------------------------------------- */

void bucketed_softmax(const struct kernels *kernels, float *z, size_t num_buckets, size_t count,
                      float *largest, float *sum, float *factor)
{
    for (size_t i = 0; i < count; i++) {
        largest[i] = -INFINITY;
        sum[i] = 0;
    }
    kernels->softmax.step(z, num_buckets, count, num_buckets, 1, largest, sum, factor);
    for (size_t i = 0; i < count; i++)
        factor[i] = 1 / sum[i];
    kernels->rows.scale(z, num_buckets, factor, count, num_buckets);
}

size_t bucketed_best(const float *z, size_t num_buckets)
{
    size_t best = 0;
    for (size_t b = 1; b < num_buckets; b++)
        if (z[b] > z[best] || (isnan(z[best]) && !isnan(z[b])))
            best = b;
    return best;
}

struct scoring {
    const struct bucketed *bucketed;
    enum bucketed_side side;
    size_t n;
    void *block;
};

/* Asks for the rows of the next tile while this one is worked on: a product reads six rows at a time, which
   is too few to wait for. */
static void ask_tile(const struct bucketed *b, enum bucketed_side side, size_t first, size_t n)
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
    const struct bucketed *b = scoring->bucketed;
    struct score_memory memory = score_memory(b, scoring->block, scoring->n, (size_t)worker);
    size_t buckets = b->capacity.num_buckets, first = tile * SCORE_ROWS,
           count = size_min(SCORE_ROWS, scoring->n - first);
    ask_tile(b, scoring->side, first + count, scoring->n);
    b->score(b->argument, scoring->side, first, count, memory.z, worker);
    if (b->by_token) {
        for (size_t i = 0; i < count; i++)
            memory.choice[first + i] = (uint32_t)bucketed_best(memory.z + i * buckets, buckets);
        return;
    }
    if (!balances(b))
        bucketed_softmax(b->kernels, memory.z, buckets, count, memory.largest, memory.sum, memory.factor);
    b->kernels->tiles.transpose(memory.scores + first, score_distance(scoring->n), memory.z, buckets, count,
                                buckets);
    if (balances(b)) {
        double sum = 0;
        b->kernels->softmax.below_largest(memory.scores + first, score_distance(scoring->n), memory.sum,
                                          buckets, count);
        for (size_t i = 0; i < count; i++)
            sum += (double)memory.sum[i];
        memory.spread[tile] = sum;
    }
}

/* The standard deviation of the scores of a token, over all tokens, is 1 before BUCKETED_SHARPNESS; equal
   scores stay so. */
static void balance_scores(const struct bucketed *b, const struct score_memory *memory, size_t n)
{
    double sum = 0;
    for (size_t tile = 0; tile < tiles_of(n); tile++)
        sum += memory->spread[tile];
    float deviation = (float)sqrt(sum / (double)n / (double)b->capacity.num_buckets);
    balance(
        &(struct balance){
            .kernels = b->kernels,
            .pool = b->pool,
            .num_buckets = b->capacity.num_buckets,
            .n = n,
            .ld = score_distance(n),
            .rounds = b->balance,
            .scale = deviation > FLT_MIN ? BUCKETED_SHARPNESS / deviation : 1,
            .scratch = memory->balance,
        },
        memory->scores);
}

/* Scores, or with by_token choices, of all tokens of a side. */
static struct score_memory score_side(const struct bucketed *b, enum bucketed_side side, size_t n,
                                      void *block)
{
    struct scoring scoring = {b, side, n, block};
    struct score_memory memory = score_memory(b, block, n, 0);
    pool_run(b->pool, score_tile, &scoring, tiles_of(n));
    if (balances(b))
        balance_scores(b, &memory, n);
    return memory;
}

static size_t length_of(const struct bucketed *b, enum bucketed_side side)
{
    return side == SIDE_QUERIES ? b->num_queries : b->num_keys;
}

static void fill_members(const struct bucketed *b, enum bucketed_side side, const struct members *members)
{
    size_t n = length_of(b, side);
    struct score_memory memory = score_side(b, side, n, b->scratch);
    if (b->by_token)
        members_by_token(members, memory.choice, n);
    else
        members_by_bucket(members, b->kernels, b->pool, memory.scores, score_distance(n), n,
                          capacity_of(&b->capacity, n));
}

void bucketed_members(const struct bucketed *b)
{
    struct bucketed_saved saved = bucketed_saved(b);
    fill_members(b, SIDE_QUERIES, &saved.queries);
    if (!b->joint)
        fill_members(b, SIDE_KEYS, &saved.keys);
}

static struct bucketed whole_of(const struct bucketed *b)
{
    struct bucketed whole = *b;
    whole.by_token = false;
    return whole;
}

size_t bucketed_whole_places(const struct bucketed *b, size_t n)
{
    struct bucketed whole = whole_of(b);
    return bucketed_places(&whole, n);
}

size_t bucketed_whole_size(const struct bucketed *b)
{
    struct bucketed whole = whole_of(b);
    return bucketed_members_size(&whole);
}

/* choice[i] = the bucket of the largest scores[b * ld + i]. */
static void choose(uint32_t *choice, const float *scores, size_t ld, size_t buckets, size_t n)
{
    for (size_t i = 0; i < n; i++)
        choice[i] = 0;
    for (size_t b = 1; b < buckets; b++)
        for (size_t i = 0; i < n; i++)
            if (scores[b * ld + i] > scores[choice[i] * ld + i])
                choice[i] = (uint32_t)b;
}

void bucketed_whole(const struct bucketed *b, enum bucketed_side side, const struct members *lists,
                    uint32_t *choice, void *scratch)
{
    struct bucketed whole = whole_of(b);
    size_t n = length_of(b, side);
    const float *scores = score_side(&whole, b->joint ? SIDE_QUERIES : side, n, scratch).scores;
    if (lists != NULL)
        members_by_bucket(lists, b->kernels, b->pool, scores, score_distance(n), n,
                          capacity_of(&b->capacity, n));
    if (choice != NULL)
        choose(choice, scores, score_distance(n), b->capacity.num_buckets, n);
}

void bucketed_count_best(const struct bucketed *b, enum bucketed_side side, uint32_t *counts)
{
    size_t n = length_of(b, side), buckets = b->capacity.num_buckets;
    float *z = score_memory(b, b->scratch, n, 0).z;
    memset(counts, 0, buckets * sizeof *counts);
    for (size_t first = 0; first < n; first += SCORE_ROWS) {
        size_t count = size_min(SCORE_ROWS, n - first);
        b->score(b->argument, b->joint ? SIDE_QUERIES : side, first, count, z, 0);
        for (size_t i = 0; i < count; i++)
            counts[bucketed_best(z + i * buckets, buckets)]++;
    }
}
