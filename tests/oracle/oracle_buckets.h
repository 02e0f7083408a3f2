/* Attention inside buckets of tokens in double precision, from scores z for the buckets to out and gradients:
   who is where by counting who scores more, how often each pair meets, softmax attention with that
   multiplicity (oracle_softmax.h) of rows that are normed or not, and the way back through the norm. Bounds
   as there. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ORACLE_ORACLE_BUCKETS_H
#define TESTS_ORACLE_ORACLE_BUCKETS_H

#include <stdbool.h>

#include "oracle/oracle_softmax.h"

struct oracle_buckets {
    size_t n_q, n_k, d, d_v, buckets;
    double *z_query, *z_key; /* (n, buckets); joint: z_query of both */
    bool joint, causal, by_token, norm, whole;
    double enlargement;
    size_t balance;      /* rounds */
    double *query, *key; /* (n, d): as they are given; values and dout are those of `softmax` */
    struct oracle_softmax softmax;
};

struct oracle_buckets oracle_buckets_new(size_t n_q, size_t n_k, size_t d, size_t d_v, size_t buckets);
void oracle_buckets_free(struct oracle_buckets *oracle);

/* How many of n tokens a bucket takes. */
size_t oracle_capacity(const struct oracle_buckets *oracle, size_t n);
/* What scores z (n, buckets) become before buckets take their best: softmax, balanced or not; (n, buckets),
   for free(). */
double *oracle_shares(const struct oracle_buckets *oracle, const double *z, size_t n);
/* Whether token i is among the best of bucket b by `shares`, or b is its own best (by_token). */
bool oracle_is_taken(const struct oracle_buckets *oracle, const double *shares, size_t n, size_t i, size_t b);
bool oracle_is_best(const struct oracle_buckets *oracle, const double *shares, size_t i, size_t b);
/* Who is where: in (n, buckets), for free(). */
bool *oracle_members(const struct oracle_buckets *oracle, const double *z, size_t n);

/* Fills softmax.times, .out, .dquery, .dkey, .dvalue and their bounds; gives sum <dout, out>. */
double oracle_buckets_run(struct oracle_buckets *oracle);

#endif
