/* Softmax attention of one head in double precision by its definition, with its gradients in closed form, and
   beside every number a bound on what float32 may differ by. The bounds are sums of sizes of terms times the
   roundings that each passes: they hold for any order of the sums. Operands that are rounded more widely are
   counted where they are made inside, probabilities and dS: what is given is to be exact in both.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ORACLE_ORACLE_SOFTMAX_H
#define TESTS_ORACLE_ORACLE_SOFTMAX_H

#include <stddef.h>

struct oracle_softmax {
    size_t n_q, n_k, d, d_v;
    double *query, *key, *value, *dout; /* (n_q, d), (n_k, d), (n_k, d_v), (n_q, d_v); fill these */
    size_t *visible; /* (n_q) causal: query i sees the first so many keys; NULL: all. malloc; freed with it */
    double rounding; /* relative, of an operand of a product; 0: float32 */
    /* (n_q, n_k) how many times query i meets key j: each time counts; 0: not at all. NULL: once. malloc;
       freed with it. A query that meets nothing gives 0 and has no gradient. */
    double *times;
    double input_error; /* absolute, of each number of query and key; 0: they are exact */
    /* (n_q, n_k) added to the dot products, by how much they may be off, and their gradients with bounds;
       NULL: nothing is added. All four are the caller's. */
    double *extra, *extra_error, *dextra, *dextra_bound;
    double *out, *dquery, *dkey, *dvalue;
    double *out_bound, *dquery_bound, *dkey_bound, *dvalue_bound;
};

/* n_q, n_k >= 1. Inputs are zeros. */
struct oracle_softmax oracle_softmax_new(size_t n_q, size_t n_k, size_t d, size_t d_v);
void oracle_softmax_free(struct oracle_softmax *oracle);
/* Outputs, gradients and bounds from the inputs. Gives sum <dout, out>. */
double oracle_softmax_run(struct oracle_softmax *oracle);

#endif
