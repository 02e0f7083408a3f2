/* What a trunk says of itself; its passes are tested by the model's tests. Planted and caught: a head too
   many with an own loss; layers left out of the operations.
   Covers: trunk_description.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/trunk.h"

#include "support/check.h"
#include "support/linear_mechanism.h"

enum { DIM = 8, HEADS = 2, WIDE = 12 };

/* One head of the second layer has softmax, the others the linear mechanism, which has a loss of its own. */
static void heads_and_operations_are_counted(void **state)
{
    (void)state;
    unsigned char options[4096];
    struct host host;
    struct params params = {0};
    struct trunk trunk;
    const struct mechanism *softmax = attention_find("softmax");
    assert_true(linear_mechanism.options_size <= sizeof options);
    options_preset(linear_mechanism.options, options);
    struct model_config config = {.vocab_size = 9,
                                  .max_len = 5,
                                  .layers = 2,
                                  .dim = DIM,
                                  .heads = HEADS,
                                  .ffn = WIDE,
                                  .attention_biases = 1,
                                  .decoder_layers = 1,
                                  .div_value = 4,
                                  .plan = head_plan_of(&linear_mechanism, options)};
    config.plan.used[1].mechanism = softmax;
    config.plan.num_used = 2;
    config.plan.num_lists = 2;
    config.plan.lists[1].num_groups = 2;
    config.plan.lists[1].groups[0].used = 1;
    config.plan.lists[1].groups[1].used = 0;
    host_init(&host);
    check_status(&host, trunk_describe(&host, &params, &config, false, &trunk), HASHATTN_OK, NULL);
    assert_int_equal(trunk_own_heads(&trunk, &linear_mechanism), HEADS + 1);
    assert_int_equal(trunk_own_heads(&trunk, softmax), 0);
    check_near(trunk_operations(&trunk), 2 * 2 * (4 * DIM * DIM + 2 * DIM * WIDE), 0, "operations");
    trunk_free(&host, &trunk);
    assert_null(trunk.blocks);
    params_free(&host, &params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(heads_and_operations_are_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
