/* Elements of 16, 32 and 64 bits as floats.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/weights/tensor_floats.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

bool tensor_has_floats(const struct tensor *tensor)
{
    return tensor->type == TENSOR_F32 || tensor->type == TENSOR_F64 || tensor->type == TENSOR_F16 ||
           tensor->type == TENSOR_BF16;
}

const float *tensor_floats(const struct tensor *tensor)
{
    bool whole = tensor->type == TENSOR_F32 && (uintptr_t)tensor->data % _Alignof(float) == 0;
    return whole ? tensor->data : NULL;
}

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE binary16: 5 bits of exponent, 10 of fraction. Subnormal numbers are multiples of 2^-24. */
static float float_of_half(uint32_t half)
{
    uint32_t sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 0) {
        float value = (float)fraction * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    return float_of_bits(sign | (exponent == 31 ? 255u << 23 : (exponent + 112) << 23) | fraction << 13);
}

/* C does not define the conversion of a double beyond FLT_MAX. Those nearer to it than to 2^128 become it. */
static float float_of_double(double value)
{
    if (!(fabs(value) > (double)FLT_MAX))
        return (float)value;
    return copysignf(fabs(value) < 0x1.ffffffp127 ? FLT_MAX : INFINITY, value < 0 ? -1.0F : 1.0F);
}

void tensor_copy_floats(const struct tensor *tensor, float *out)
{
    const char *data = tensor->data;
    assert(tensor_has_floats(tensor));
    if (tensor->type == TENSOR_F32) {
        if (tensor->bytes > 0)
            memcpy(out, data, tensor->bytes);
        return;
    }
    if (tensor->type == TENSOR_F64) {
        for (size_t i = 0; i < tensor->bytes / 8; i++) {
            double value;
            memcpy(&value, data + 8 * i, sizeof value);
            out[i] = float_of_double(value);
        }
        return;
    }
    for (size_t i = 0; i < tensor->bytes / 2; i++) {
        uint16_t bits;
        memcpy(&bits, data + 2 * i, sizeof bits);
        out[i] = tensor->type == TENSOR_BF16 ? float_of_bits((uint32_t)bits << 16) : float_of_half(bits);
    }
}
