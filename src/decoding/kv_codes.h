/* Codes of keys: a key's difference from the mean of its block of 64 rows, under orthogonal planes, each
   coordinate rounded to a digit of 1, 2 or 4 bits (Gao and Long 2024, RaBitQ; Gao et al. 2024 for longer
   digits), and the scale that makes the estimate of <query, key> right for a query in the key's direction:
   with x = key - mean, planes R, and c(R x) the odd whole numbers that the digits stand for, <q, key> is
   estimated by <q, mean> + |x|^2 / <R x, c(R x)> <R q, c(R x)>. The query is not coded. Its products with the
   digits in 4 bits are a table of 16 entries of 6 bits (slot decode.scores).
   A block has a code once it is full; the mean is its own, so codes depend on the block's rows alone.
   Means and scales are rounded to bfloat16, before keys are coded about the means.
   Memory: bits / 8 + 2 bytes a row, and 2 head_dim bytes a block. Cost of a block: 64 d planes multiply-adds;
   of scores: 2 bits / 8 lookups a row.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef DECODING_KV_CODES_H
#define DECODING_KV_CODES_H

#include "decoding/kv_cache.h"

enum { KV_BLOCK = DECODE_BLOCK, KV_PAGE_BLOCKS = KV_PAGE_ROWS / KV_BLOCK };

/* Set cache->code_form, of the least error or of 1-bit digits, and draw cache->planes, (planes / 16,
   head_dim, 16). */
hashattn_status kv_codes_prepare(struct kv_cache *cache);
hashattn_status kv_codes_prepare_signs(struct kv_cache *cache);

/* The codes of the blocks of a page. */
struct kv_codes {
    uint8_t *codes; /* (blocks, bits / 8, KV_BLOCK), as slot decode.scores reads them */
    bf16 *scale;    /* (rows) */
    bf16 *mean;     /* (blocks, head_dim) */
};

/* Codes a block of rows of head_dim floats. centred: about their mean; otherwise the mean is 0 and every
   scale is 1, so that scores of signs count equal ones. */
void kv_codes_write(const struct kv_cache *cache, const struct kv_codes *codes, size_t block, bool centred,
                    const float *(*row)(const void *rows, size_t r, float *room), const void *rows);

/* What queries need for scores. `signs`: of Hamming codes, tables count equal signs. */
struct kv_code_queries {
    size_t count;
    const float *query;         /* (count, head_dim) */
    float *turned;              /* (count, planes): products with the planes */
    uint8_t *tables;            /* (count, bits / 4, DECODE_TABLE) */
    struct decode_query *known; /* (count) */
};
void kv_codes_query(const struct kv_cache *cache, const struct kv_code_queries *queries, bool signs);
/* base (count, KV_PAGE_BLOCKS) = <q, mean> for the blocks of a page. */
void kv_codes_bases(const struct kv_cache *cache, const struct kv_code_queries *queries,
                    const struct kv_codes *codes, float *base);
/* scores (count, ld): of the rows of a block of the page. */
void kv_codes_scores(const struct kv_cache *cache, const struct kv_code_queries *queries,
                     const struct kv_codes *codes, const float *base, size_t block, float *scores, size_t ld);

#endif
