/* The rows of a document to one vector, as the pooling of the sentence-transformers library computes it: the
   mean of the tokens, the first token, or the largest value of each column; then, if asked for, unit length.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_SENTENCE_VECTOR_H
#define MODELS_SENTENCE_VECTOR_H

#include <stdbool.h>
#include <stddef.h>

enum sentence_pooling { SENTENCE_MEAN, SENTENCE_FIRST, SENTENCE_MAX };

/* rows (count, dim) with count >= 1; vector and sums (dim). */
void sentence_vector(enum sentence_pooling pooling, const float *rows, size_t count, size_t dim, double *sums,
                     float *vector);
/* Divides by the norm, or by 1e-12 if it is smaller. */
void sentence_normalize(float *vector, size_t dim);

#endif
