/* Softmax attention of one head in double precision by its definition, with gradients in closed form and, for
   every number, a bound on the error of float32. A bound is the sum of the terms' absolute values times the
   rounding errors of each, so it holds for any order of summation. A coarser `rounding` of operands is
   counted for those computed inside, probabilities and dS; the inputs must be exact in it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ORACLE_ORACLE_SOFTMAX_H
#define TESTS_ORACLE_ORACLE_SOFTMAX_H

#include <stddef.h>

struct oracle_softmax {
    size_t n_q, n_k, d, d_v;
    double *query, *key, *value, *dout; /* (n_q, d), (n_k, d), (n_k, d_v), (n_q, d_v); fill these */
    size_t *visible; /* (n_q) causal: query i sees the first visible[i] keys; NULL: all. From malloc; freed
                        with the oracle */
    double rounding; /* relative error of a product's operand; 0: float32 */
    /* (n_q, n_k) multiplicity of key j for query i; 0: not seen. NULL: 1 for all. From malloc; freed with the
       oracle. A query that sees no key gives 0 and has no gradient. */
    double *times;
    double input_error; /* absolute error of each number of query and key; 0: exact */
    /* (n_q, n_k) terms added to the dot products, their errors, and their gradients with bounds; NULL: no
       terms. The caller owns all four. */
    double *extra, *extra_error, *dextra, *dextra_bound;
    double *out, *dquery, *dkey, *dvalue;
    double *out_bound, *dquery_bound, *dkey_bound, *dvalue_bound;
};

/* n_q, n_k >= 1. Inputs are zeros. */
struct oracle_softmax oracle_softmax_new(size_t n_q, size_t n_k, size_t d, size_t d_v);
void oracle_softmax_free(struct oracle_softmax *oracle);
/* Computes outputs, gradients and bounds; returns sum <dout, out>. */
double oracle_softmax_run(struct oracle_softmax *oracle);

#endif
