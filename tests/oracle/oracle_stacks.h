/* A model of two stacks in double precision, by its definition: an encoder (oracle_encoder.h), a decoder with
   cross attention, and one dense layer on its last rows. It finds parameters by name. Exact softmax,
   sinusoids, post-LN, no dropout.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ORACLE_STACKS_H
#define TESTS_ORACLE_STACKS_H

#include <stddef.h>

#include "nn/params.h"

struct oracle_stacks {
    size_t dim, heads, wide, layers, decoder_layers, width; /* width: floats of an input row */
    int distil;                                             /* the encoder halves the rows between blocks */
    size_t decoded, outputs; /* rows that are predicted, floats of an example */
    const struct params *params;
    const double *values;
    size_t examples;
    const size_t *offsets, *decoder_offsets;
    const float *floats, *decoder_floats;
    const float *targets; /* (examples, outputs) */
};
/* The mean over examples of the mean squared error; predictions (examples, outputs) may be NULL. */
double oracle_stacks_loss(const struct oracle_stacks *stacks, double *predictions);

/* out (n, heads * width) of n queries and m keys. */
void oracle_cross_attention(double *out, const double *query, size_t n, const double *key,
                            const double *value, size_t m, size_t heads, size_t width);

#endif
