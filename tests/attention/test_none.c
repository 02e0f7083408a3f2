/* The control: output = value, gradient of value = gradient of output, masked rows 0, nothing saved. Bugs
   planted and caught: the mask ignored in backward; one stride used for another; a masked row not cleared
   to its end.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "attention/driver/attention.h"
#include "support/attention_case.h"
#include "support/check.h"

static void output_is_value_where_the_key_is_kept(void **state)
{
    (void)state;
    struct attention_case problem = {.mechanism = attention_find("none"),
                                     .layout = LAYOUT_INSIDE,
                                     .num_sequences = 2,
                                     .num_heads = 2,
                                     .head_dim = 4,
                                     .value_dim = 3,
                                     .queries = {5, 2},
                                     .keys = {5, 2},
                                     .start = 0.5f};
    for (int causal = 0; causal < 2; causal++) {
        problem.causal = causal;
        attention_case_fill(&problem, 1, true);
        problem.key_mask[1] = problem.key_mask[6] = 0;
        struct attention_result result = attention_case_run(&problem);
        for (size_t row = 0; row < 7; row++)
            for (size_t c = 0; c < 6; c++) {
                bool kept = problem.key_mask[row] != 0;
                size_t i = row * 6 + c;
                assert_true(result.out[i] == (kept ? problem.value[i] : 0));
                assert_true(result.dvalue[i] == (kept ? 0.5f + problem.dout[i] : 0.5f));
            }
        for (size_t i = 0; i < 7 * 8; i++)
            assert_true(result.dquery[i] == 0.5f && result.dkey[i] == 0.5f);
        assert_int_equal(result.saved_bytes, 0);
        attention_result_free(&result);
        attention_case_free(&problem);
    }
}

static void refuses_other_numbers_of_queries(void **state)
{
    (void)state;
    const struct mechanism *none = attention_find("none");
    struct problem_shape shape = {.num_queries = 3, .num_keys = 3, .head_dim = 1, .value_dim = 1};
    assert_null(none->host.refuse(NULL, &shape));
    shape.num_keys = 2;
    assert_non_null(none->host.refuse(NULL, &shape));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_is_value_where_the_key_is_kept),
        cmocka_unit_test(refuses_other_numbers_of_queries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
