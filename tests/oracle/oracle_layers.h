/* The layers in double precision, one plain function for each formula: the reference for the float code and,
   through central differences, for its gradients.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ORACLE_LAYERS_H
#define TESTS_ORACLE_LAYERS_H

#include <stddef.h>
#include <stdint.h>

/* y (n, out) = x W^T + b, W (out, in). */
void oracle_dense(double *y, const double *x, const double *weight, const double *bias, size_t n, size_t in,
                  size_t out);
void oracle_norm(double *y, const double *x, const double *gain, const double *bias, size_t n, size_t dim,
                 double epsilon);
double oracle_gelu(double x);
/* y += the convolution of one sequence: x, y (n, heads * width), filters (heads, taps). */
void oracle_convolve(double *y, const double *x, const double *filters, size_t taps, size_t n, size_t heads,
                     size_t width);
/* out (n, heads * width): softmax(q k^T / sqrt(width)) v per head, one sequence; causal: row i sees only the
   first i + 1 rows. */
void oracle_attention(double *out, const double *query, const double *key, const double *value, size_t n,
                      size_t heads, size_t width, int causal);
double oracle_cross_entropy(const double *logits, const int32_t *labels, size_t n, size_t classes);

#endif
