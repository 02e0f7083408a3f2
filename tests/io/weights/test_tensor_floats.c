/* F16 and BF16 against their definition, for every bit pattern of 16 bits; F64 is rounded. Bugs planted and
   caught: subnormal halves as 0; the exponent's bias of float; infinity as 65536; the sign of -0 lost;
   bfloat16 read as half; doubles beyond float as its largest number; every second double.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/weights/tensor_floats.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "support/check.h"

static float read_one(enum tensor_type type, uint16_t bits)
{
    unsigned char data[3] = {0, (unsigned char)(bits & 255), (unsigned char)(bits >> 8)};
    const struct tensor tensor = {.type = type, .rank = 1, .shape = {1}, .data = data + 1, .bytes = 2};
    float value = 7;
    assert_true(tensor_has_floats(&tensor) && tensor_floats(&tensor) == NULL);
    tensor_copy_floats(&tensor, &value);
    return value;
}

/* (-1)^sign 2^(exponent - bias) (1 + fraction / 2^width), or a subnormal number. */
static double value_of(unsigned bits, int width, int bias)
{
    int exponent = (int)(bits >> width) & ((1 << (15 - width)) - 1), most = (1 << (15 - width)) - 1;
    double fraction = (double)(bits & ((1u << width) - 1)) / ldexp(1, width), sign = bits >> 15 ? -1 : 1;
    if (exponent == most)
        return fraction == 0 ? sign * INFINITY : NAN;
    return sign * (exponent == 0 ? ldexp(fraction, 1 - bias) : ldexp(1 + fraction, exponent - bias));
}

static void every_pattern_is_exact(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 65536; bits++) {
        float half = read_one(TENSOR_F16, (uint16_t)bits), brain = read_one(TENSOR_BF16, (uint16_t)bits);
        double wanted = value_of(bits, 10, 15), wanted_brain = value_of(bits, 7, 127);
        assert_true(isnan(wanted) ? isnan(half)
                                  : (double)half == wanted && !signbit(half) == !signbit(wanted));
        assert_true(isnan(wanted_brain)
                        ? isnan(brain)
                        : (double)brain == wanted_brain && !signbit(brain) == !signbit(wanted_brain));
    }
}

static void doubles_are_rounded(void **state)
{
    (void)state;
    const double values[] = {0.1, -0.0, 1e-50, 16777217, -3.4028235e38, 0x1.ffffffp127, 1e39, -1e300, NAN};
    enum { COUNT = sizeof values / sizeof *values };
    char data[sizeof values + 1];
    float out[COUNT];
    memcpy(data + 1, values, sizeof values);
    const struct tensor tensor = {
        .type = TENSOR_F64, .rank = 1, .shape = {COUNT}, .data = data + 1, .bytes = sizeof values};
    assert_true(tensor_has_floats(&tensor) && tensor_floats(&tensor) == NULL);
    tensor_copy_floats(&tensor, out);
    const float wanted[] = {0.1F, -0.0F, 0, 16777216, -FLT_MAX, INFINITY, INFINITY, -INFINITY};
    check_same_bits(out, wanted, sizeof wanted, "doubles");
    assert_true(isnan(out[COUNT - 1]));
}

static void floats_are_used_in_place(void **state)
{
    (void)state;
    float values[3] = {1, -2, 3}, out[2];
    struct tensor tensor = {.type = TENSOR_F32, .rank = 1, .shape = {2}, .data = values, .bytes = 8};
    assert_ptr_equal(tensor_floats(&tensor), values);
    tensor.data = (char *)values + 1;
    assert_null(tensor_floats(&tensor));
    tensor.data = values + 1;
    tensor_copy_floats(&tensor, out);
    check_same_bits(out, values + 1, sizeof out, "floats");
    tensor.type = TENSOR_I32;
    assert_false(tensor_has_floats(&tensor));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_pattern_is_exact),
                                       cmocka_unit_test(doubles_are_rounded),
                                       cmocka_unit_test(floats_are_used_in_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
