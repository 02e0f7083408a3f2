/* The median of times.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MEASURE_MEDIAN_H
#define MEASURE_MEDIAN_H

#include <stddef.h>

/* Sorts the values; count >= 1. */
double median(double *values, size_t count);

#endif
