/* One plan serves all calls with the same shapes, and no other call. Planted and caught: the plan kept when
   an option changes; when an offset changes in the caller's array; when only the last length does; without a
   look at the next mask; with and without a mask taken for the same; planned at every call; a block that is
   too small for more sequences.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "support/api_context.h"
#include "support/check.h"

extern size_t sizes_counted; /* operator_plan_mechanisms.c */

enum { HEADS = 2, SEQUENCES = 3, DIM = 4, ROWS = 12 };

struct fixture {
    struct failing_host host; /* counts allocations */
    hashattn_context *context;
    hashattn_attention *attention;
    hashattn_problem problem;
    size_t offsets[SEQUENCES + 1];
    size_t saved, scratch;
};

static void open_fixture(struct fixture *f)
{
    failing_host_init(&f->host, -1);
    f->context = context_with(1, &f->host);
    check_ok(f->context, hashattn_attention_new(f->context, "counted", &f->attention));
    hashattn_problem_default(&f->problem);
    memcpy(f->offsets, (size_t[]){0, 4, 9, ROWS}, sizeof f->offsets);
    f->problem.num_sequences = SEQUENCES;
    f->problem.num_heads = HEADS;
    f->problem.head_dim = f->problem.value_dim = DIM;
    f->problem.query_offsets = f->problem.key_offsets = f->offsets;
    sizes_counted = 0;
}

static void close_fixture(struct fixture *f)
{
    hashattn_attention_free(f->attention);
    hashattn_context_free(f->context);
    assert_int_equal(f->host.outstanding, 0);
}

/* Asks for the sizes; returns how many plans that took, 0 or 1. */
static size_t plans(struct fixture *f)
{
    size_t before = sizes_counted;
    check_ok(f->context, hashattn_attention_sizes(f->attention, &f->problem, &f->saved, &f->scratch));
    size_t asked = sizes_counted - before;
    assert_true(asked == 0 || asked == f->problem.num_sequences);
    return asked > 0;
}

static void the_same_shapes_are_planned_once(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    assert_int_equal(plans(&f), 1);
    long calls = f.host.calls;
    size_t other[SEQUENCES + 1]; /* the same numbers elsewhere */
    memcpy(other, f.offsets, sizeof other);
    f.problem.query_offsets = other;
    f.problem.seed = 5;
    assert_int_equal(plans(&f), 0);
    float *arrays = calloc(ROWS * HEADS * DIM, sizeof *arrays),
          *out = calloc(ROWS * HEADS * DIM, sizeof *out);
    void *saved = aligned_alloc(64, f.saved + 64), *scratch = aligned_alloc(64, f.scratch + 64);
    hashattn_array in = hashattn_array_of_rows(arrays, HEADS, ROWS, DIM),
                   to = hashattn_array_of_rows(out, HEADS, ROWS, DIM), grads[3];
    float *dinputs = calloc(3 * ROWS * HEADS * DIM, sizeof *dinputs);
    for (size_t i = 0; i < 3; i++)
        grads[i] = hashattn_array_of_rows(dinputs + i * ROWS * HEADS * DIM, HEADS, ROWS, DIM);
    check_ok(f.context,
             hashattn_attention_forward(f.attention, &f.problem, &in, &in, &in, &to, saved, scratch));
    check_ok(f.context, hashattn_attention_backward(f.attention, &f.problem, &in, &in, &in, &to, &in,
                                                    &grads[0], &grads[1], &grads[2], saved, scratch));
    assert_int_equal(sizes_counted, SEQUENCES); /* of the first plan */
    assert_int_equal(f.host.calls, calls);      /* and nothing is allocated */
    free(arrays), free(out), free(dinputs), free(saved), free(scratch);
    close_fixture(&f);
}

static void other_shapes_are_planned_anew(void **state)
{
    (void)state;
    struct fixture f;
    uint8_t mask[ROWS];
    open_fixture(&f);
    assert_int_equal(plans(&f), 1);
    size_t saved = f.saved;
    f.offsets[SEQUENCES] = ROWS + 1; /* in the array that the last call had */
    assert_int_equal(plans(&f), 1);
    assert_true(f.saved > saved);
    f.offsets[SEQUENCES] = ROWS;
    assert_int_equal(plans(&f), 1);
    assert_int_equal(f.saved, saved);
    check_ok(f.context, hashattn_attention_set(f.attention, "bytes", "128"));
    assert_int_equal(plans(&f), 1);
    assert_true(f.saved > saved);
    check_ok(f.context, hashattn_attention_settle(f.attention));
    assert_int_equal(plans(&f), 1);
    memset(mask, 1, sizeof mask);
    f.problem.key_mask = mask;
    saved = f.scratch;
    assert_int_equal(plans(&f), 1);
    assert_true(f.scratch > saved); /* copies of kept rows */
    assert_int_equal(plans(&f), 0);
    mask[4] = mask[5] = mask[6] = 0; /* the second sequence keeps two of five keys */
    check_call(f.context, hashattn_attention_sizes(f.attention, &f.problem, &f.saved, &f.scratch),
               HASHATTN_REFUSED, "counted: dislikes two keys (sequence 1: 5 queries, 2 keys, head_dim 4)");
    mask[4] = 1;
    assert_int_equal(plans(&f), 0);
    f.problem.causal = 1;
    assert_int_equal(plans(&f), 1);
    f.problem.element = HASHATTN_BF16;
    assert_int_equal(plans(&f), 1);
    f.problem.max_len = 99;
    assert_int_equal(plans(&f), 1);
    f.problem.num_heads = HEADS + 1;
    assert_int_equal(plans(&f), 1);
    f.problem.head_dim = DIM + 1;
    assert_int_equal(plans(&f), 1);
    f.problem.value_dim = DIM + 1;
    assert_int_equal(plans(&f), 1);
    f.problem.key_mask = NULL;
    assert_int_equal(plans(&f), 1);
    close_fixture(&f);
}

/* Equal lengths have no array to compare; more sequences than before need a larger block. */
static void equal_lengths_are_compared(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    f.problem.query_offsets = f.problem.key_offsets = NULL;
    f.problem.num_queries = f.problem.num_keys = 5;
    assert_int_equal(plans(&f), 1);
    assert_int_equal(plans(&f), 0);
    f.problem.num_keys = 6;
    assert_int_equal(plans(&f), 1);
    f.problem.num_sequences = 1000;
    assert_int_equal(plans(&f), 1);
    f.problem.num_sequences = 3;
    assert_int_equal(plans(&f), 1);
    /* The same lengths as offsets are the same shapes. */
    size_t queries[] = {0, 5, 10, 15}, keys[] = {0, 6, 12, 18};
    f.problem.query_offsets = queries;
    f.problem.key_offsets = keys;
    assert_int_equal(plans(&f), 0);
    close_fixture(&f);
}

/* A plan that fails leaves none behind. */
static void a_refused_plan_is_not_kept(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    assert_int_equal(plans(&f), 1);
    f.offsets[1] = 2;
    check_call(f.context, hashattn_attention_sizes(f.attention, &f.problem, &f.saved, &f.scratch),
               HASHATTN_REFUSED, "dislikes two keys (sequence 0");
    check_call(f.context, hashattn_attention_sizes(f.attention, &f.problem, &f.saved, &f.scratch),
               HASHATTN_REFUSED, "dislikes two keys (sequence 0");
    f.offsets[1] = 4;
    assert_int_equal(plans(&f), 1);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_shapes_are_planned_once),
        cmocka_unit_test(other_shapes_are_planned_anew),
        cmocka_unit_test(equal_lengths_are_compared),
        cmocka_unit_test(a_refused_plan_is_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
