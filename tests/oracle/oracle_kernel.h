/* Attention by a kernel of one head in double precision by its definition, out_i = sum_j k(q_i, k_j) v_j /
   max(sum_j k(q_i, k_j) + epsilon, floor), with gradients in closed form. It knows the kernel, not its
   features.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ORACLE_ORACLE_KERNEL_H
#define TESTS_ORACLE_ORACLE_KERNEL_H

#include <stddef.h>

struct oracle_kernel {
    size_t n_q, n_k, d, d_v;
    double *query, *key, *value, *dout; /* (n_q, d), (n_k, d), (n_k, d_v), (n_q, d_v); fill these */
    size_t *visible; /* (n_q) query i sees the first visible[i] keys; NULL: all. The caller's. */
    double epsilon, floor;
    /* The kernel of two rows, and its gradients (d) each. */
    double (*kernel)(const void *self, const double *query, const double *key, size_t d, double *dquery,
                     double *dkey);
    const void *self;
    double *out, *dquery, *dkey, *dvalue;
};

/* Inputs are zeros. */
struct oracle_kernel oracle_kernel_new(size_t n_q, size_t n_k, size_t d, size_t d_v);
void oracle_kernel_free(struct oracle_kernel *oracle);
/* Computes outputs and gradients; returns sum <dout, out>. */
double oracle_kernel_run(struct oracle_kernel *oracle);

#endif
