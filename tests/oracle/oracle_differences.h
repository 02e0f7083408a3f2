/* A mechanism against a forward pass in double precision: its output against that of the pass, its gradients
   against differences of the pass. So the oracle of a mechanism is its formula only.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ORACLE_ORACLE_DIFFERENCES_H
#define TESTS_ORACLE_ORACLE_DIFFERENCES_H

#include "support/attention_case.h"

/* The inputs of one head in double, with the lengths and widths of the case. */
struct oracle_inputs {
    size_t n_q, n_k, d, d_v, max_len;
    const double *query, *key, *value, *params;
    const void *options; /* of the case */
};

/* Writes out (n_q, d_v). */
typedef void oracle_pass(const struct oracle_inputs *inputs, double *out);

/* Runs the case (filled; one sequence, one head, no mask) on every instruction set. Checks every number of
   out, and `samples` numbers, or all, of each gradient: differences of sum <dout, out> by five points. The
   tolerance of an array is what a relative change of the inputs by up to 2^-20, eight times the rounding of
   float32, does to its largest change, plus 2^-19 of its largest
   number (at least 1, the size of the inputs): it follows the condition of the
   formula. */
void oracle_differences_check(struct attention_case *problem, oracle_pass *pass, size_t samples,
                              const char *what);

#endif
