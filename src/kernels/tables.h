/* The tables that are built in, for kernels.c alone: one file each. SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_TABLES_H
#define KERNELS_TABLES_H

#include "kernels/kernels.h"

extern const struct kernels kernels_ref;
extern const struct kernels kernels_avx2;
extern const struct kernels kernels_avx512;
extern const struct kernels kernels_avx512bf16;

#endif
