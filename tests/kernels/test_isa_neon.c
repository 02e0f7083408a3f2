/* The table of AArch64: it needs nothing, so it is the one that runs; between v_flush and v_flush_end numbers
   under 2^-126 are 0, and only there. Bugs planted and caught: a table that needs a feature; the bit of FPCR
   beside that of flushing; FPCR left as it was set; lanes in place of the number in v_load_part and
   v_store_part.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/vec_neon.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cpu.h"
#include "kernels/isa.h"
#include "support/check.h"

extern const struct isa isa_neon;

static void every_processor_runs_it(void **state)
{
    (void)state;
    const char *old = getenv("HASHATTN_ISA"), *why;
    char *kept = old == NULL ? NULL : strdup(old);
    unsetenv("HASHATTN_ISA");
    assert_true(isa_neon.needs == 0);
    assert_true(cpu_features() == 0);
    assert_ptr_equal(kernels_named(NULL, &why), &isa_neon.kernels);
    if (kept != NULL)
        setenv("HASHATTN_ISA", kept, 1);
    free(kept);
}

/* The bits of the product, because a comparison of floats flushes too. */
static __attribute__((noinline)) uint32_t product(float a, float b)
{
    return vgetq_lane_u32(u_from(v_mul(v_set(a), v_set(b))).hi, 3);
}

/* volatile: the compiler would multiply before the flag is set. */
static void denormals_are_flushed_in_between(void **state)
{
    (void)state;
    enum { DENORMAL = 1 << 9, LEAST_NORMAL = 1 << 23 }; /* the bits of 2^-140 and of 2^-126 */
    volatile float tiny = 0x1p-140f, small = 0x1p-70f, one = 1, least = 0x1p-126f;
    assert_int_equal(product(tiny, one), DENORMAL);
    assert_int_equal(product(small, small), DENORMAL);
    unsigned before = v_flush();
    volatile uint32_t operand = product(tiny, 0x1p100f), result = product(small, small),
                      normal = product(one, least);
    v_flush_end(before);
    assert_int_equal(operand, 0);
    assert_int_equal(result, 0);
    assert_int_equal(normal, LEAST_NORMAL);
    assert_int_equal(product(tiny, one), DENORMAL);
    assert_int_equal(product(small, small), DENORMAL);
}

/* Buffers end at an unmapped page, and lanes that do not exist keep their values. */
static void parts_touch_what_exists(void **state)
{
    (void)state;
    float rest[VLEN], lanes[VLEN];
    for (size_t l = 0; l < VLEN; l++)
        rest[l] = -1.0f - (float)l;
    for (size_t n = 0; n <= VLEN; n++) {
        float *from = guard_floats(n), *to = guard_floats(n);
        for (size_t l = 0; l < n; l++)
            from[l] = (float)l;
        v_store(lanes, v_load_part(from, n, v_load(rest)));
        for (size_t l = 0; l < VLEN; l++)
            assert_true(lanes[l] == (l < n ? (float)l : rest[l]));
        v_store_part(to, v_load(rest), n);
        check_same_bits(to, rest, n * sizeof *to, "a part stored");
        v_store(lanes, v_keep(v_load(rest), n));
        for (size_t l = 0; l < VLEN; l++)
            assert_true(lanes[l] == (l < n ? rest[l] : 0.0f));
        guard_free(from, n), guard_free(to, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_processor_runs_it),
        cmocka_unit_test(denormals_are_flushed_in_between),
        cmocka_unit_test(parts_touch_what_exists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
