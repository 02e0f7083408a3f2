/* Attention within groups of tokens in double precision, from group scores z to out and gradients:
   membership by counting better scores, the number of common groups of each pair, softmax attention with
   that multiplicity (oracle_softmax.h) of rows that are normed or not, and the backward pass through the
   norm. Bounds as there.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ORACLE_ORACLE_GROUPS_H
#define TESTS_ORACLE_ORACLE_GROUPS_H

#include <stdbool.h>

#include "oracle/oracle_softmax.h"

struct oracle_groups {
    size_t n_q, n_k, d, d_v, groups, rounds;
    double *z_query, *z_key; /* (n, rounds, groups); joint: z_query serves both */
    bool joint, causal, by_token, partition, norm, whole;
    double enlargement;
    size_t balance;      /* rounds */
    double *query, *key; /* (n, d): the inputs; values and dout are in `softmax` */
    struct oracle_softmax softmax;
};

struct oracle_groups oracle_groups_new(size_t n_q, size_t n_k, size_t d, size_t d_v, size_t groups,
                                       size_t rounds);
void oracle_groups_free(struct oracle_groups *oracle);

/* The scores of one round, (n, groups), as the functions below take them; free with free(). */
double *oracle_round(const struct oracle_groups *oracle, const double *z, size_t n, size_t round);
/* How many of n tokens a group holds. */
size_t oracle_capacity(const struct oracle_groups *oracle, size_t n);
/* Scores z (n, groups) after softmax and, if set, balancing, as groups compare them: (n, groups); free
   with free(). */
double *oracle_shares(const struct oracle_groups *oracle, const double *z, size_t n);
/* True if token i is among the best of group b by `shares`; by_token: if b is the best group of i. */
bool oracle_is_taken(const struct oracle_groups *oracle, const double *shares, size_t n, size_t i, size_t b);
bool oracle_is_best(const struct oracle_groups *oracle, const double *shares, size_t i, size_t b);
/* Membership, (n, groups); free with free(). */
bool *oracle_members(const struct oracle_groups *oracle, const double *z, size_t n);

/* Fills softmax.times, .out, .dquery, .dkey, .dvalue and their bounds; returns sum <dout, out>. */
double oracle_groups_run(struct oracle_groups *oracle);
/* The same with softmax.times as it is. */
double oracle_groups_attend(struct oracle_groups *oracle);

#endif
