/* Attention inside buckets in double, for inputs that could overflow float32: the lists of bucket_attention.h
   as double_attention.h reads them. SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_BUCKET_ATTENTION_DOUBLE_H
#define PARTS_BUCKET_ATTENTION_DOUBLE_H

#include "parts/groups/bucket_attention.h"

/* Bytes of the scratch of either direction. */
size_t bucket_in_double_size(const struct bucket_sizes *sizes);

/* What bucket_forward and bucket_backward do, where they could overflow; else false, and nothing is written
   but the mark of softmax_rows.h. */
bool bucket_forward_in_double(const struct bucket_attention *attention, struct view out, void *scratch);
bool bucket_backward_in_double(const struct bucket_attention *attention, struct view dout,
                               const struct attention_gradients *gradients, void *scratch);

#endif
