/* YOSO in double precision, from the formulas of docs/MATH.md over all pairs: the expectation with both of
   its gradients, and the sampled form for given codes. Shares no code with the library. Everything is
   quadratic and slow.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ORACLE_YOSO_H
#define TESTS_ORACLE_YOSO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum oracle_normalize { ORACLE_L2, ORACLE_SUM, ORACLE_NONE };
enum oracle_gradient { ORACLE_LOWER, ORACLE_TRUE, ORACLE_RELEASED };

struct oracle_yoso {
    size_t n_q, n_k, d, d_v;
    unsigned hash_bits;
    enum oracle_normalize normalize;
    const double *q, *k, *v; /* raw, (n_q, d), (n_k, d), (n_k, d_v) */
    /* The sampled form if num_hashes > 0: codes (n, num_hashes). */
    size_t num_hashes;
    const uint32_t *query_codes, *key_codes;
    size_t chosen_hashes; /* for the expectation of `released` */
    double max_norm; /* 0: unit length. Otherwise M of the maps that keep dot products; no row is longer */
    const size_t *visible; /* (n_q) causal: query i sees the first visible[i] keys; NULL: all */
};

/* 1 - angle / pi of two raw vectors; zero vectors: 1 if both are zero, otherwise 1/2. */
double oracle_collision(const double *q, const double *k, size_t d);

/* The same for the pair (i, j) with the maps of `yoso`. */
double oracle_pair_collision(const struct oracle_yoso *yoso, size_t i, size_t j);

/* The weight of pair (i, j): p^tau, or the share of hashes that collide; 0 if i does not see j. */
double oracle_weight(const struct oracle_yoso *yoso, size_t i, size_t j);

/* x (n_q, d_v) before normalisation and y after; either may be NULL. */
void oracle_yoso_forward(const struct oracle_yoso *yoso, double *x, double *y);

/* Gradients of sum <dy, y> with respect to raw q, k, v, written. lower: weights tau / 2; true: the derivative
   of the expectation, or its sampled estimate; released: the indicator of pairs that collide in any hash, or
   its expectation over chosen_hashes independent hashes, times the derivative at 0.99 of the cosine. */
void oracle_yoso_backward(const struct oracle_yoso *yoso, enum oracle_gradient gradient, const double *dy,
                          double *dq, double *dk, double *dv);

/* dX and the gradient of each row's sum of weights, for given dy. */
void oracle_yoso_dx(const struct oracle_yoso *yoso, const double *dy, double *dx, double *dsum);

/* The function with the derivative `lower`: sum over pairs of (<dx_i, v_j> + dsum_i) L(x_ij), with L' = (tau
   / 2) p^tau and L(0) = 0, integrated numerically. dx and dsum are held fixed. */
double oracle_yoso_lower_partner(const struct oracle_yoso *yoso, const double *dx, const double *dsum);

#endif
