/* The tensors of a safetensors file as floats, whatever their width there. A copy costs one pass.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_TENSOR_FLOATS_H
#define IO_TENSOR_FLOATS_H

#include "io/weights/safetensors.h"

/* True for F32, F64, F16 and BF16. */
bool tensor_has_floats(const struct tensor *tensor);
/* The data themselves if they are F32 and aligned, otherwise NULL. */
const float *tensor_floats(const struct tensor *tensor);
/* Writes all elements to out. F64 is rounded, infinite beyond the range of float; the others are exact. */
void tensor_copy_floats(const struct tensor *tensor, float *out);

#endif
