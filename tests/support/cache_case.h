/* A key-value cache and a copy of the rows that it was given, from which every query's attention is computed
   in double precision by its definition.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_CACHE_CASE_H
#define TESTS_SUPPORT_CACHE_CASE_H

#include "decoding/kv_cache.h"
#include "support/check.h"

enum { CACHE_SEQUENCES = 4, CACHE_ROWS = 36864 };

struct cache_case {
    struct failing_host host;
    struct pool *pool;
    struct kv_cache cache;
    float *key[CACHE_SEQUENCES], *value[CACHE_SEQUENCES]; /* (CACHE_ROWS, kv_heads, d), as stored */
    size_t length[CACHE_SEQUENCES];
    uint64_t drawn; /* numbers drawn so far */
};

/* 1 sequence, 4 heads of 2 key-value heads, d 64, float32, scale 1 / 8. */
struct kv_options cache_case_options(void);
void cache_case_new(struct cache_case *c, const char *isa, int threads, const char *mechanism,
                    const struct kv_options *options);
void cache_case_free(struct cache_case *c);

/* Appends `rows` normal rows to every sequence; mask as in kv_cache_append. Numbers of a bfloat16 cache are
   rounded before. */
void cache_case_append(struct cache_case *c, size_t rows, const uint8_t *mask);
void cache_case_truncate(struct cache_case *c, size_t sequence, size_t length);
void cache_case_reorder(struct cache_case *c, const size_t *from, size_t count);

/* `rows` query rows (num_sequences, num_heads, rows, d); free() them. */
float *cache_case_query(struct cache_case *c, size_t rows);
/* Attention of the last `rows` rows, in the layout of the queries; free() it. */
float *cache_case_attend(struct cache_case *c, size_t rows, const float *query);
/* The same in double precision; *bound: an error that float32, or bfloat16, may have in any of its numbers.
 */
double *cache_case_exact(struct cache_case *c, size_t rows, const float *query, double *bound);

#endif
