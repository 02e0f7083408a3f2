/* How important the rows of a cache are for a query row, by scores that are estimated from their codes
   (kv_codes.h). The query heads of a key-value head share it: the importance of a row is the sum over the
   heads of exp(t score), as a share of the head's sum over the rows of a pilot: every eighth page, in long
   sequences about 16 pages. Any positive importance leaves a sample by it unbiased.
   Cost for n rows, in operations on 16 lanes: codes of 128 bits take 27 for 16 rows of a head, importance 7.
   With a pilot of every eighth page of 131,072 rows, `attend` takes 1.1 times as long.
   Memory: what a page has before its rows (kv_hashed_page.h), of which the next page's is fetched while a
   page is scored; 4 bytes of importance a row, which stay in the second-level cache.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef DECODING_KV_IMPORTANCE_H
#define DECODING_KV_IMPORTANCE_H

#include "base/memory.h"
#include "decoding/kv_hashed_page.h"

/* Of one thread. */
struct kv_importance_scratch {
    float *scores;              /* (group, KV_PAGE_ROWS) */
    float *base;                /* (group, KV_PAGE_BLOCKS) */
    struct decode_query *known; /* (group) */
};

/* A query row of a key-value head. Candidates are the rows of the blocks [first_block, last_block), except
   those before `first` and from `last` on. Pages are counted from `page`, the first that has candidates. */
struct kv_importance {
    const struct kv_cache *cache;
    const struct kv_hashed_page *at;
    size_t sequence, kv_head;
    size_t first_block, last_block, first, last;
    size_t page, pages;
    bool collides;                  /* importance is 1 where a byte of the codes is equal, else 0 */
    struct kv_code_queries queries; /* of the heads that share it */
    struct pool *pool;              /* NULL: one thread computes it, scratch[0] */
    const struct kv_importance_scratch *scratch; /* (threads) */
    float *importance;                           /* (pages * KV_PAGE_ROWS); 0: no candidate */
    float *most, *sum;                           /* (pages, queries.count): scratch */
    float *shift;                                /* (queries.count): scratch */
};

struct kv_importance_scratch kv_importance_scratch_lay_out(struct arena *arena, size_t group);

/* Writes `importance`. */
void kv_importance_find(struct kv_importance *of);

#endif
