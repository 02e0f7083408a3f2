/* One pass over the table a round: the weights of a tile's tokens, and with them its part of the next sums of
   the buckets. SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/balance.h"

#include <float.h>
#include <math.h>

/* Tokens at a time: a tile of 64 buckets is 16 KiB. */
enum { TOKENS = 64 };

struct memory {
    float *sums;   /* (tiles, num_buckets) */
    float *bucket; /* (num_buckets): c */
    float *zeros;  /* (num_buckets) */
    float *token;  /* (n): r */
    size_t bytes;
};

static size_t tiles_of(size_t n)
{
    return (n + TOKENS - 1) / TOKENS;
}

static struct memory memory_on(size_t num_buckets, size_t n, void *block)
{
    struct memory memory;
    struct arena arena = arena_on(block);
    memory.sums = arena_take(&arena, size_product(tiles_of(n), num_buckets), sizeof(float));
    memory.bucket = arena_take(&arena, num_buckets, sizeof(float));
    memory.zeros = arena_take(&arena, num_buckets, sizeof(float));
    memory.token = arena_take(&arena, n, sizeof(float));
    memory.bytes = arena.used;
    return memory;
}

size_t balance_size(size_t num_buckets, size_t n)
{
    return memory_on(num_buckets, n, NULL).bytes;
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

/* Sums too small for their inverse are those of nobody. */
static float inverse(float sum, float of_nobody)
{
    return sum > FLT_MIN ? 1 / sum : of_nobody;
}

static void weigh_tokens(const struct pass *pass, size_t tile, float of_nobody)
{
    const struct balance *b = pass->balance;
    float *token = pass->memory.token + tile * TOKENS;
    size_t tokens = tokens_in(pass, tile);
    b->kernels->tiles.product(token, tokens, pass->memory.bucket, b->num_buckets, 1, pass->p + tile * TOKENS,
                              b->ld, 1, tokens, b->num_buckets, false);
    for (size_t i = 0; i < tokens; i++)
        token[i] = inverse(token[i], of_nobody);
}

static void balance_tile(void *argument, size_t tile, int worker)
{
    (void)worker;
    const struct pass *pass = argument;
    const struct balance *b = pass->balance;
    weigh_tokens(pass, tile, 0);
    b->kernels->rows.dots(pass->memory.sums + tile * b->num_buckets, pass->p + tile * TOKENS, b->ld,
                          pass->memory.token + tile * TOKENS, 0, b->num_buckets, tokens_in(pass, tile));
}

static void begin_tile(void *argument, size_t tile, int worker)
{
    const struct pass *pass = argument;
    const struct balance *b = pass->balance;
    b->kernels->softmax.again(pass->p + tile * TOKENS, b->ld, b->num_buckets, tokens_in(pass, tile), b->scale,
                              pass->memory.zeros, pass->memory.zeros);
    balance_tile(argument, tile, worker);
}

static void finish_tile(void *argument, size_t tile, int worker)
{
    (void)worker;
    const struct pass *pass = argument;
    const struct balance *b = pass->balance;
    weigh_tokens(pass, tile, NAN);
    /* One weight after the other: their product may overflow. */
    b->kernels->rows.scale_both(pass->p + tile * TOKENS, b->ld, pass->memory.bucket,
                                pass->memory.token + tile * TOKENS, b->num_buckets, tokens_in(pass, tile));
}

static void weigh_buckets(const struct pass *pass)
{
    size_t buckets = pass->balance->num_buckets;
    float share = (float)pass->balance->n / (float)buckets;
    for (size_t b = 0; b < buckets; b++) {
        float sum = 0;
        for (size_t tile = 0; tile < tiles_of(pass->balance->n); tile++)
            sum += pass->memory.sums[tile * buckets + b];
        pass->memory.bucket[b] = inverse(sum / share, 0);
    }
}

void balance(const struct balance *b, float *z)
{
    struct pass pass = {b, memory_on(b->num_buckets, b->n, b->scratch), z};
    for (size_t c = 0; c < b->num_buckets; c++) {
        pass.memory.bucket[c] = 1;
        pass.memory.zeros[c] = 0;
    }
    pool_run(b->pool, begin_tile, &pass, tiles_of(b->n));
    for (size_t round = 1; round <= b->rounds; round++) {
        weigh_buckets(&pass);
        pool_run(b->pool, round < b->rounds ? balance_tile : finish_tile, &pass, tiles_of(b->n));
    }
}
