/* A key-value cache: the keys and values of one layer for sequences that grow, and softmax attention of their
   last rows over them. Query heads share key-value heads in groups: query head h reads key-value head
   h / (num_heads / kv_heads).
   Row r of R query rows is at position p = length - R + r of its sequence and sees the rows 0 .. p, with a
   window only those from kv_first_seen(p) on. A row with a negative position (a short sequence of a padded
   batch) sees none and gets 0.
   Results have the same bits for any number of threads. Nothing here checks arguments.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef DECODING_KV_CACHE_H
#define DECODING_KV_CACHE_H

#include <stdint.h>

#include "base/pool.h"
#include "decoding/kv_code_form.h"
#include "decoding/kv_pages.h"
#include "kernels/kernels.h"

enum { KV_WIDEST = 256 }; /* largest head_dim */

enum { KV_MOST_HEADS = 1 << 20 };
/* The largest number of rows that an option other than a window may name. */
#define KV_MOST_ROWS (SIZE_MAX / 64)

/* The largest sizes of numbers: products of keys and queries, and sums of values, stay finite. */
#define KV_LARGEST_KEY   1e15f
#define KV_LARGEST_VALUE 1e30f
/* Of scores. */
#define KV_LEAST_SCALE   1e-30
#define KV_LARGEST_SCALE 1e3

struct kv_options {
    size_t num_sequences, num_heads, kv_heads, head_dim;
    enum dtype dtype; /* of the stored rows */
    float scale;      /* of the scores */
    /* The query at position p sees rows from (p / window_step + 1) * window_step - window on; window 0: from
       0 on. window_step 1: a window of that many rows that ends at p. */
    size_t window, window_step;
    /* Of mechanisms that read a choice of rows (kv_choice.h): */
    size_t bits;      /* of a key's code, a multiple of 16 from 16 to KV_MOST_BITS */
    double budget;    /* rows to read: a share of those a query sees if below 1, else their number */
    double tolerance; /* above 0: the relative error to aim at, in place of a budget */
    size_t first_rows, last_rows; /* always read */
    float sharpness;              /* t: row j is taken with a probability that grows as exp(t score) */
    uint64_t seed;
};

/* Of the last attention, the mean over query rows and heads. */
struct kv_report {
    double rows_read; /* rows whose keys and values were read exactly; a row read again counts again */
    double error;     /* the relative error of the output, as the mechanism estimates it itself */
};

/* Rows of the caller, for each sequence and head. Element (s, r, h, c) is data[s * sequence_stride + r *
   row_stride + h * head_stride + c]. */
struct kv_rows {
    void *data;
    enum dtype dtype;
    size_t sequence_stride, row_stride, head_stride;
};

struct kv_cache {
    struct host *host;
    const struct kernels *kernels;
    struct pool *pool;
    const struct kv_mechanism *mechanism;
    struct kv_options options;
    struct kv_pages pages;
    size_t head_bytes; /* of a page, for one key-value head */
    struct kv_code_form code_form;
    float *planes; /* that codes are made with; NULL: none */
    size_t planes_bytes;
    struct kv_report report;
    unsigned char *scratch; /* of attention; grows */
    size_t scratch_bytes;
};

/* NULL if no mechanism has this name. kv_mechanism_names: all names, ended by NULL. */
const struct kv_mechanism *kv_mechanism_find(const char *name);
extern const char *const kv_mechanism_names[];

/* An empty cache. kernels and pool must outlive it; pool may be NULL. */
hashattn_status kv_cache_new(struct host *host, const struct kernels *kernels, struct pool *pool,
                             const struct kv_mechanism *mechanism, const struct kv_options *options,
                             struct kv_cache *cache);
void kv_cache_free(struct kv_cache *cache);

/* Appends `rows` rows to every sequence; mask (num_sequences, rows), 1: the row is appended, 0: it does not
   exist; NULL: all are. INVALID: NaN, infinity, or numbers above the limits, with the place. NO_MEMORY. An
   error leaves the cache as it was. Allocates nothing but pages and their lists. */
hashattn_status kv_cache_append(struct kv_cache *cache, size_t rows, struct kv_rows key, struct kv_rows value,
                                const uint8_t *mask);
/* Appends rows to one sequence. Errors as of kv_cache_append. */
hashattn_status kv_cache_append_to(struct kv_cache *cache, size_t sequence, size_t rows, struct kv_rows key,
                                   struct kv_rows value);
/* out = attention of the last `rows` rows of every sequence. INVALID: as for append. NO_MEMORY. An error
   leaves `out` as it was. */
hashattn_status kv_cache_attend(struct kv_cache *cache, size_t rows, struct kv_rows query,
                                struct kv_rows out);

/* As kv_pages_truncate and kv_pages_reorder. */
void kv_cache_truncate(struct kv_cache *cache, size_t sequence, size_t length);
hashattn_status kv_cache_reorder(struct kv_cache *cache, const size_t *from, size_t count);
/* Bytes that the cache holds. */
size_t kv_cache_nbytes(const struct kv_cache *cache);

/* The first row that the query at `position` sees. */
size_t kv_first_seen(const struct kv_options *options, size_t position);

#endif
