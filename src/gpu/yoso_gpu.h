/* YOSO on a GPU.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_YOSO_GPU_H
#define GPU_YOSO_GPU_H

#include "parts/problem/device_call.h"

extern const struct device_implementation yoso_gpu;

#endif
