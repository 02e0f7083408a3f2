/* The draws of a tile, in blocks of eight.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/problem/weight_dropout.h"

#include <string.h>

#include "base/random.h"

enum {
    TILE = WEIGHT_DROPOUT_TILE,
    DRAWS = 8 /* in a block of random words */
};

struct weight_dropout weight_dropout_of_list(const struct weight_dropout *dropout, size_t list)
{
    struct weight_dropout own = *dropout;
    if (drops_weights(dropout))
        own.key = random_key(dropout->key, RANDOM_GROUPS, list);
    return own;
}

/* The block of draws of a pair: below 2^32 queries and keys. */
static uint64_t block_of(size_t query, size_t key)
{
    return ((uint64_t)(key / TILE) << 36) + (uint64_t)query * (TILE / DRAWS) + key % TILE / DRAWS;
}

/* Some keys of one query; they may begin in the midst of a block. */
static void drop_some(const struct weight_dropout *dropout, const struct kernels *kernels, float *weights,
                      size_t count, size_t query, size_t key)
{
    float room[TILE];
    size_t skipped = key % DRAWS;
    memset(room, 0, skipped * sizeof *room);
    memcpy(room + skipped, weights, count * sizeof *room);
    kernels->layers.dropout(room, NULL, room, skipped + count, dropout->key, block_of(query, key),
                            dropout->threshold, dropout->scale);
    memcpy(weights, room + skipped, count * sizeof *room);
}

void weight_dropout_tile(const struct weight_dropout *dropout, const struct kernels *kernels, float *tile,
                         size_t rows, size_t cols, size_t query, size_t key)
{
    if (!drops_weights(dropout) || rows == 0 || cols == 0)
        return;
    query += dropout->first_query;
    key += dropout->first_key;
    if (key % DRAWS == 0 && key % TILE + cols <= TILE) { /* false only if ranks share rows */
        kernels->layers.dropout(tile, NULL, tile, (rows - 1) * TILE + cols, dropout->key,
                                block_of(query, key), dropout->threshold, dropout->scale);
        return;
    }
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0, count; c < cols; c += count) {
            size_t left = TILE - (key + c) % TILE;
            count = cols - c < left ? cols - c : left;
            drop_some(dropout, kernels, tile + i * TILE + c, count, query + i, key + c);
        }
}
