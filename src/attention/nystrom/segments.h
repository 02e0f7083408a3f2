/* Landmarks: the means of m consecutive segments of n rows, whose lengths differ by at most one. Segment s
   has the rows s n / m .. (s + 1) n / m - 1.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_SEGMENTS_H
#define ATTENTION_SEGMENTS_H

#include <stddef.h>

#include "parts/rows/view.h"

/* means (m, cols), adjacent; 1 <= m <= rows. A finite row has a finite mean: rows are divided before they are
   added. */
void segment_means(const struct kernels *kernels, struct view rows, size_t m, float *means);

/* drows (rows, cols) += the gradient of the rows, from dmeans (m, cols). */
void segment_means_backward(const struct kernels *kernels, struct view drows, size_t m, const float *dmeans);

#endif
