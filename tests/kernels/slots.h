/* Shared by the tests of the slots: sizes and inputs at the edges of loops and of arithmetic, and buffers
   that end at an unmapped page.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_KERNELS_SLOTS_H
#define TESTS_KERNELS_SLOTS_H

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "kernels/kernels.h"
#include "support/check.h"

/* Half the distance from 1 to the next float: the largest relative error of one rounding. */
#define ROUNDING (0.5 * (double)FLT_EPSILON)

/* Widths around vectors of 8 and 16, around blocks of 2, 4 and 6 of them, and the usual widths. */
static const size_t widths[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 48, 63, 64, 65, 100, 129, 136};
enum { NUM_WIDTHS = sizeof widths / sizeof widths[0], WIDEST = 136 };

#define FOR_EACH_TABLE(kernels)                                                                              \
    for (const struct kernels *const *table_ = kernels_all(), *kernels = *table_; kernels != NULL;           \
         kernels = *++table_)

/* `count` normals that end at an unmapped page. The caller frees them with guard_free. */
static inline float *normals(uint64_t seed, size_t count)
{
    float *x = guard_floats(count);
    random_normals(random_key(seed, RANDOM_BENCH, 0), 0, x, count);
    return x;
}

/* The same, mixed with zeros of both signs, denormals, and huge and tiny values. */
static inline float *oddities(uint64_t seed, size_t count)
{
    static const float odd[] = {0.0f, -0.0f, 1e-40f, -3e-45f, 1e18f, -1e18f, 1e-20f, 1.0f, -1.0f};
    float *x = normals(seed, count);
    for (size_t i = 0; i < count; i++)
        if (i % 3 == 1)
            x[i] = odd[i / 3 % (sizeof odd / sizeof odd[0])];
    return x;
}

static inline float *copy_of(const float *x, size_t count)
{
    float *copy = guard_floats(count);
    memcpy(copy, x, count * sizeof *x);
    return copy;
}

/* A label for messages: the slot, the table and two sizes. */
static inline const char *of(char text[128], const char *slot, const struct kernels *kernels, size_t a,
                             size_t b)
{
    snprintf(text, 128, "%s of %s at %zu, %zu", slot, kernels->name, a, b);
    return text;
}

#endif
