/* The kernels by name, for those who find them: the driver file, and the fake driver of the tests. Both
   compilers read it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNEL_NAMES_H
#define GPU_KERNEL_NAMES_H

/* X(ENUM, name). Each kernel of the first list exists for three widths: "yoso_take_64". */
#define GPU_KERNELS_OF_WIDTH(X)                                                                              \
    X(TAKE, take)                                                                                            \
    X(GIVE, give)                                                                                            \
    X(GIVE_OUTPUT, give_output)                                                                              \
    X(TAKE_GRADIENT, take_gradient)                                                                          \
    X(GIVE_UNIT_GRADIENT, give_unit_gradient)                                                                \
    X(PACK_PLANES, pack_planes)                                                                              \
    X(HASH, hash)                                                                                            \
    X(LARGEST, largest)                                                                                      \
    X(BUILD_32_3, build_32_3)                                                                                \
    X(BUILD_32_1, build_32_1)                                                                                \
    X(BUILD_16_1, build_16_1)                                                                                \
    X(BUILD_8_1, build_8_1)                                                                                  \
    X(BUILD_4_1, build_4_1)                                                                                  \
    X(READ, read)                                                                                            \
    X(WALK, walk)                                                                                            \
    X(PAIRS_TF32, pairs_tf32)                                                                                \
    X(PAIRS_F32, pairs_f32)                                                                                  \
    X(DENSE, dense)                                                                                          \
    X(WEIGH, weigh)
#define GPU_KERNELS_OF_ANY_WIDTH(X)                                                                          \
    X(CLEAR_KEYS, clear_keys)                                                                                \
    X(CHECK_SAVED, check_saved)                                                                              \
    X(COUNT, count)                                                                                          \
    X(SORT, sort)

enum gpu_kernel {
#define GPU_KERNEL_ENUM(constant, name) KERNEL_##constant,
    GPU_KERNELS_OF_WIDTH(GPU_KERNEL_ENUM) GPU_KERNELS_OF_ANY_WIDTH(GPU_KERNEL_ENUM) KERNEL_COUNT_OF_ALL
#undef GPU_KERNEL_ENUM
};

enum { GPU_WIDTHS = 3 }; /* 32, 64, 128 */

#endif
