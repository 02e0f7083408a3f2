/* Initial values of learned parameters, in the layers of a model and the tensors of mechanisms.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_START_H
#define BASE_START_H

#include <stddef.h>
#include <stdint.h>

enum param_start {
    START_ZEROS,
    START_ONES,
    START_NORMAL,   /* N(0, scale^2) */
    START_UNIFORM,  /* U(-scale, scale) */
    START_CONSTANT, /* scale */
};

/* Writes values (count). (key, i) determines a random values[i]. */
void start_fill(enum param_start start, float scale, uint64_t key, float *values, size_t count);

#endif
