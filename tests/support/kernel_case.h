/* A mechanism that is a kernel of its rows, or estimates one: one head against oracle/oracle_kernel.h on
   every instruction set, and the mean of estimates over seeds.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_KERNEL_CASE_H
#define TESTS_SUPPORT_KERNEL_CASE_H

#include "oracle/oracle_kernel.h"
#include "support/attention_case.h"

/* One sequence and head, filled; gradients start at 0.25. The caller frees it. */
struct attention_case kernel_case_new(const char *mechanism, const void *options, size_t n_q, size_t n_k,
                                      size_t d, size_t d_v, bool causal);

struct case_kernel {
    double (*kernel)(const void *self, const double *query, const double *key, size_t d, double *dquery,
                     double *dkey);
    const void *self;
    double epsilon;
    double room; /* allowed difference, as a share of the largest number of an array */
};
/* Outputs and gradients of all instruction sets. */
void kernel_case_check(struct attention_case *data, const struct case_kernel *kernel);
/* The gradients of the kernel of two random rows of width d by central differences, within room (1 +
   size). */
void kernel_case_check_derivative(const struct case_kernel *kernel, size_t d);

/* The mean output of one query over call keys 0 .. seeds - 1 is within 5 standard errors of want (d_v), and
   these are below 0.02. */
void kernel_case_check_mean(struct attention_case *data, const double *want, size_t seeds);

#endif
