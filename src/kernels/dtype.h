/* Number types.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_DTYPE_H
#define KERNELS_DTYPE_H

#include <stdint.h>

/* A bfloat16 number: the upper 16 bits of a float. */
typedef uint16_t bf16;

/* Element types of the caller's arrays. */
enum dtype { DTYPE_FLOAT32, DTYPE_BFLOAT16 };

#endif
