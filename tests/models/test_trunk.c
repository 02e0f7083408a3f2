/* What a trunk says of itself; its passes are tested by the model's tests. Planted and caught: a head too
   many with an own loss; heads of cross attention left out; the decoder's lists of heads counted from the
   first; layers left out of the operations.
   Covers: trunk_description.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/stacks/trunk.h"

#include "support/check.h"
#include "support/linear_mechanism.h"
#include "support/single_plan.h"

enum { DIM = 8, HEADS = 2, WIDE = 12 };

enum { LISTS = 6 };

/* The first heads of each list have the linear mechanism, which has a loss of its own, the others softmax. */
static struct model_config config_of(unsigned char options[4096], const size_t linear[LISTS])
{
    assert_true(linear_mechanism.options_size <= 4096);
    options_preset(linear_mechanism.options, options);
    struct model_config config = {.row_width = 3,
                                  .max_len = 5,
                                  .layers = 2,
                                  .dim = DIM,
                                  .heads = HEADS,
                                  .ffn = WIDE,
                                  .norm = BLOCK_POST_NORM,
                                  .attention_biases = 1,
                                  .decoder_layers = 2,
                                  .div_value = 4,
                                  .plan = single_plan(&linear_mechanism, options)};
    struct head_plan *plan = &config.plan;
    plan->used[1].mechanism = attention_find("softmax");
    plan->num_used = 2;
    plan->num_lists = LISTS;
    for (size_t i = 0; i < LISTS; i++) {
        const size_t heads[] = {linear[i], HEADS - linear[i]};
        plan->lists[i].num_groups = 0;
        for (size_t used = 0; used < 2; used++) {
            if (heads[used] == 0)
                continue;
            plan->lists[i].groups[plan->lists[i].num_groups].used = used;
            plan->lists[i].groups[plan->lists[i].num_groups++].heads = heads[used];
        }
    }
    return config;
}

/* Two lists of the encoder, then self-attention and cross attention of each block of the decoder. */
static void heads_and_operations_are_counted(void **state)
{
    (void)state;
    static const size_t linear[LISTS] = {2, 1, 0, 1, 2, 2};
    unsigned char options[4096];
    const struct model_config config = config_of(options, linear);
    const struct mechanism *softmax = attention_find("softmax");
    struct host host;
    struct params params = {0};
    struct trunk trunk, decoder;
    host_init(&host);
    check_status(&host, trunk_describe(&host, &params, &config, false, &trunk), HASHATTN_OK, NULL);
    check_status(&host, trunk_describe_decoder(&host, &params, &config, &decoder), HASHATTN_OK, NULL);
    assert_int_equal(trunk_own_heads(&trunk, &linear_mechanism), 3);
    assert_int_equal(trunk_own_heads(&decoder, &linear_mechanism), 5);
    assert_int_equal(trunk_own_heads(&trunk, softmax), 0);
    assert_int_equal(trunk_num_plans(&trunk), 1 + 2);
    assert_int_equal(trunk_num_plans(&decoder), 1 + 2 + 1 + 1);
    check_near(trunk_operations(&trunk), 2 * 2 * (4 * DIM * DIM + 2 * DIM * WIDE), 0, "operations");
    trunk_free(&host, &trunk);
    trunk_free(&host, &decoder);
    assert_null(trunk.blocks);
    params_free(&host, &params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(heads_and_operations_are_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
