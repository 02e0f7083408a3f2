/* Problems without rows: huge numbers of sequences, heads and columns take neither time nor memory in any
   mechanism; its refusals are still reported. Planted and caught: offsets made for every sequence; a loop
   over heads in the search for NaN, in clearing gradients or in a pass; planes drawn for the width; learned
   parameters drawn for the heads; no refusal.
   SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "support/api_context.h"

static const char *const mechanisms[] = {"yoso",  "yoso-e", "softmax", "none",
                                         "local", "lha",    "lsh",     "random"};
enum { MECHANISMS = sizeof mechanisms / sizeof *mechanisms };

static const size_t shapes[][4] = {
    /* sequences, heads, head_dim, value_dim */
    {(size_t)1 << 50, 1, 4, 4},
    {1, (size_t)1 << 50, 4, 4},
    {1, 2, (size_t)1 << 20, (size_t)1 << 16},
    {(size_t)1 << 40, (size_t)1 << 40, (size_t)1 << 20, 1},
    {0, (size_t)1 << 50, (size_t)1 << 20, 4},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

struct empty {
    struct failing_host counting;
    hashattn_context *context;
    hashattn_attention *attention;
    hashattn_problem problem;
    hashattn_array none;
};

static void open_empty(struct empty *e, const char *mechanism)
{
    failing_host_init(&e->counting, -1);
    e->context = context_with(2, &e->counting);
    check_ok(e->context, hashattn_attention_new(e->context, mechanism, &e->attention));
    hashattn_problem_default(&e->problem);
    e->none = hashattn_array_of_heads(NULL, 1, 0, 4);
    alarm(60); /* a loop over the heads would not end in time */
}

static void close_empty(struct empty *e)
{
    alarm(0);
    assert_true(e->counting.largest < 1 << 20);
    hashattn_attention_free(e->attention);
    hashattn_context_free(e->context);
    assert_int_equal(e->counting.outstanding, 0);
}

static void check_all_calls(struct empty *e)
{
    const hashattn_array *none = &e->none;
    size_t saved, scratch;
    double loss = 1;
    check_ok(e->context, hashattn_attention_sizes(e->attention, &e->problem, &saved, &scratch));
    assert_true(saved == 0 && scratch <= 4096);
    check_ok(e->context,
             hashattn_attention_forward(e->attention, &e->problem, none, none, none, none, NULL, NULL));
    check_ok(e->context, hashattn_attention_backward(e->attention, &e->problem, none, none, none, none, none,
                                                     none, none, none, NULL, NULL));
    check_ok(e->context, hashattn_attention_own_loss(e->attention, &e->problem, none, none, none, &loss, NULL,
                                                     NULL, NULL));
    assert_true(loss == 0);
}

static void sizes_without_rows_cost_nothing(void **state)
{
    (void)state;
    static const uint8_t mask[1];
    for (int m = 0; m < MECHANISMS; m++)
        for (int s = 0; s < SHAPES; s++) {
            struct empty e;
            open_empty(&e, mechanisms[m]);
            e.problem.num_sequences = shapes[s][0];
            e.problem.num_heads = shapes[s][1];
            e.problem.head_dim = shapes[s][2];
            e.problem.value_dim = m == 3 ? shapes[s][2] : shapes[s][3]; /* equal for none */
            e.problem.element = s % 2 == 0 ? HASHATTN_FLOAT32 : HASHATTN_BF16;
            e.problem.key_mask = s % 2 == 0 ? NULL : mask;
            check_all_calls(&e);
            close_empty(&e);
        }
}

static void empty_sequences_by_offsets_cost_nothing(void **state)
{
    (void)state;
    enum { SEQUENCES = 1000 };
    static const size_t offsets[SEQUENCES + 1];
    for (int m = 0; m < MECHANISMS; m++) {
        struct empty e;
        open_empty(&e, mechanisms[m]);
        e.problem.num_sequences = SEQUENCES;
        e.problem.query_offsets = e.problem.key_offsets = offsets;
        e.problem.num_heads = (size_t)1 << 50;
        e.problem.head_dim = e.problem.value_dim = 4;
        check_all_calls(&e);
        close_empty(&e);
    }
}

static void refusals_are_still_reported(void **state)
{
    (void)state;
    struct empty e;
    open_empty(&e, "yoso");
    check_ok(e.context, hashattn_attention_set(e.attention, "map", "neyshabur"));
    e.problem.num_sequences = (size_t)1 << 50;
    e.problem.num_heads = e.problem.head_dim = e.problem.value_dim = 4;
    e.problem.causal = 1;
    check_call(
        e.context,
        hashattn_attention_forward(e.attention, &e.problem, &e.none, &e.none, &e.none, &e.none, NULL, NULL),
        HASHATTN_REFUSED, "map neyshabur needs max_norm");
    e.problem.causal = 0;
    check_call(
        e.context,
        hashattn_attention_forward(e.attention, &e.problem, NULL, &e.none, &e.none, &e.none, NULL, NULL),
        HASHATTN_INVALID, "query is NULL");
    close_empty(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_without_rows_cost_nothing),
        cmocka_unit_test(empty_sequences_by_offsets_cost_nothing),
        cmocka_unit_test(refusals_are_still_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
