/* One pass over the table per round: the weights of a tile's tokens and, from them, the tile's part of the
   groups' next sums.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/balance.h"

#include <float.h>
#include <math.h>

/* Tokens at a time: a tile of 64 groups is 16 KiB. */
enum { TOKENS = 64 };

struct memory {
    float *sums;  /* (tiles, num_groups) */
    float *group; /* (num_groups): c */
    float *zeros; /* (num_groups) */
    float *token; /* (n): r */
    size_t bytes;
};

static size_t tiles_of(size_t n)
{
    return (n + TOKENS - 1) / TOKENS;
}

static struct memory memory_on(size_t num_groups, size_t n, void *block)
{
    struct memory memory;
    struct arena arena = arena_on(block);
    memory.sums = arena_take(&arena, size_product(tiles_of(n), num_groups), sizeof(float));
    memory.group = arena_take(&arena, num_groups, sizeof(float));
    memory.zeros = arena_take(&arena, num_groups, sizeof(float));
    memory.token = arena_take(&arena, n, sizeof(float));
    memory.bytes = arena.used;
    return memory;
}

size_t balance_size(size_t num_groups, size_t n)
{
    return memory_on(num_groups, n, NULL).bytes;
}

struct pass {
    const struct balance *balance;
    struct memory memory;
    float *p;
};

static size_t tokens_in(const struct pass *pass, size_t tile)
{
    size_t left = pass->balance->n - tile * TOKENS;
    return left < TOKENS ? left : TOKENS;
}

/* 1 / sum; of_zero if the sum is 0 or too small to invert. */
static float inverse(float sum, float of_zero)
{
    return sum > FLT_MIN ? 1 / sum : of_zero;
}

static void weigh_tokens(const struct pass *pass, size_t tile, float of_zero)
{
    const struct balance *b = pass->balance;
    float *token = pass->memory.token + tile * TOKENS;
    size_t tokens = tokens_in(pass, tile);
    b->kernels->tiles.product(token, tokens, pass->memory.group, b->num_groups, 1, pass->p + tile * TOKENS,
                              b->ld, 1, tokens, b->num_groups, false);
    for (size_t i = 0; i < tokens; i++)
        token[i] = inverse(token[i], of_zero);
}

static void balance_tile(void *argument, size_t tile, int worker)
{
    (void)worker;
    const struct pass *pass = argument;
    const struct balance *b = pass->balance;
    weigh_tokens(pass, tile, 0);
    b->kernels->rows.dots(pass->memory.sums + tile * b->num_groups, pass->p + tile * TOKENS, b->ld,
                          pass->memory.token + tile * TOKENS, 0, b->num_groups, tokens_in(pass, tile));
}

static void begin_tile(void *argument, size_t tile, int worker)
{
    const struct pass *pass = argument;
    const struct balance *b = pass->balance;
    b->kernels->softmax.again(pass->p + tile * TOKENS, b->ld, b->num_groups, tokens_in(pass, tile), b->scale,
                              pass->memory.zeros, pass->memory.zeros);
    balance_tile(argument, tile, worker);
}

static void finish_tile(void *argument, size_t tile, int worker)
{
    (void)worker;
    const struct pass *pass = argument;
    const struct balance *b = pass->balance;
    weigh_tokens(pass, tile, NAN);
    /* Apply one weight after the other: their product may overflow. */
    b->kernels->rows.scale_both(pass->p + tile * TOKENS, b->ld, pass->memory.group,
                                pass->memory.token + tile * TOKENS, b->num_groups, tokens_in(pass, tile));
}

static void weigh_groups(const struct pass *pass)
{
    const struct balance *balance = pass->balance;
    size_t groups = balance->num_groups;
    float share = (float)(balance->sum == NULL ? balance->n : balance->total) / (float)groups;
    float *group = pass->memory.group;
    for (size_t b = 0; b < groups; b++) {
        group[b] = 0;
        for (size_t tile = 0; tile < tiles_of(balance->n); tile++)
            group[b] += pass->memory.sums[tile * groups + b];
    }
    if (balance->sum != NULL)
        balance->sum(balance->argument, group, groups);
    for (size_t b = 0; b < groups; b++)
        group[b] = inverse(group[b] / share, 0);
}

void balance(const struct balance *b, float *z)
{
    struct pass pass = {b, memory_on(b->num_groups, b->n, b->scratch), z};
    for (size_t c = 0; c < b->num_groups; c++) {
        pass.memory.group[c] = 1;
        pass.memory.zeros[c] = 0;
    }
    pool_run(b->pool, begin_tile, &pass, tiles_of(b->n));
    for (size_t round = 1; round <= b->rounds; round++) {
        weigh_groups(&pass);
        pool_run(b->pool, round < b->rounds ? balance_tile : finish_tile, &pass, tiles_of(b->n));
    }
}
