/* Codes of keys: the signs of a key's difference from the mean of its block of 64 rows, under orthogonal
   planes, and the scale that makes the estimate of <query, key> right for a query in the key's direction (Gao
   and Long 2024, RaBitQ): with x = key - mean and planes R, <q, key> is estimated by <q, mean> + |x|^2 / |R
   x|_1 <R q, sign(R x)>. The query is not coded. Its products with the signs of 4 bits are a table of 16
   entries of 6 bits (slot decode.scores).
   A block has a code once it is full; the mean is its own, so codes depend on the block's rows alone.
   Memory: bits / 8 + 4 bytes a row, and head_dim floats a block. Cost of a block: 64 d bits multiply-adds;
   of scores: 2 bits / 8 lookups a row.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef DECODING_KV_CODES_H
#define DECODING_KV_CODES_H

#include "decoding/kv_cache.h"

enum {
    KV_BLOCK = DECODE_BLOCK,
    KV_MOST_BITS = 8 * DECODE_MOST_BYTES,
    KV_PAGE_BLOCKS = KV_PAGE_ROWS / KV_BLOCK
};

/* Bits that suit keys of this width: as many as columns, at least 128 and at most 256, a multiple of 16. */
size_t kv_codes_bits(size_t head_dim);
/* t of importance, exp(t score), that suits the error of scores. The best linear guess at a score from its
   estimate is 1 / (1 + e) of it, where e is the variance of the error as a share of that of the score. For
   vectors in random directions e is pi / 2 d / bits - 1 if there are at most d bits, and (pi / 2 - 1) d /
   bits for more. With t 0.8 for 256 columns and 128 bits, where this is 0.32, outputs of Gemma 3 err 1.8
   times as much. */
double kv_codes_sharpness(size_t bits, size_t head_dim);

/* Draws cache->planes, (bits / 16, head_dim, 16), and sets planes_bytes. */
hashattn_status kv_codes_prepare(struct kv_cache *cache);

/* The codes of the blocks of a page. */
struct kv_codes {
    uint8_t *codes; /* (blocks, bits / 8, KV_BLOCK), as slot decode.scores reads them */
    float *scale;   /* (rows) */
    float *mean;    /* (blocks, head_dim) */
};

/* Codes a block of rows of head_dim floats. centred: about their mean; otherwise the mean is 0 and every
   scale is 1, so that scores count equal signs. */
void kv_codes_write(const struct kv_cache *cache, const struct kv_codes *codes, size_t block, bool centred,
                    const float *(*row)(const void *rows, size_t r, float *room), const void *rows);

/* What queries need for scores. `signs`: of Hamming codes, tables count equal signs. */
struct kv_code_queries {
    size_t count;
    const float *query;         /* (count, head_dim) */
    float *turned;              /* (count, bits): products with the planes */
    uint8_t *tables;            /* (count, bits / 4, DECODE_TABLE) */
    struct decode_query *known; /* (count) */
};
void kv_codes_query(const struct kv_cache *cache, const struct kv_code_queries *queries, bool signs);
/* scores (count, ld): of the rows of a block. */
void kv_codes_scores(const struct kv_cache *cache, const struct kv_code_queries *queries,
                     const struct kv_codes *codes, size_t block, float *scores, size_t ld);

#endif
