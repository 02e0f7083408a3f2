/* One pass over the table per round: the weights of a tile's tokens and, from them, the tile's part of the
   groups' next sums.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/balance.h"

#include <float.h>
#include <math.h>
#include <string.h>

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

/* The weights of a tile's tokens, and its sums unless they are not needed. */
static void weigh_tile(const struct pass *pass, size_t tile, float *sums, float of_zero)
{
    const struct balance *b = pass->balance;
    b->kernels->rows.balance(pass->memory.token + tile * TOKENS, sums, pass->p + tile * TOKENS, b->ld,
                             pass->memory.group, b->num_groups, tokens_in(pass, tile), of_zero);
}

static void balance_tile(void *argument, size_t tile, int worker)
{
    (void)worker;
    const struct pass *pass = argument;
    weigh_tile(pass, tile, pass->memory.sums + tile * pass->balance->num_groups, 0);
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
    weigh_tile(pass, tile, NULL, NAN);
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
    memset(group, 0, groups * sizeof *group);
    for (size_t tile = 0; tile < tiles_of(balance->n); tile++)
        balance->kernels->rows.axpy(group, 1, pass->memory.sums + tile * groups, groups);
    if (balance->sum != NULL)
        balance->sum(balance->argument, group, groups);
    for (size_t b = 0; b < groups; b++) {
        float demand = group[b] / share;
        group[b] = demand > FLT_MIN ? 1 / demand : 0;
    }
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
