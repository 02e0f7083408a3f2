/* NaN and infinity in operands, found by the mechanism while it reads or by the pass before it
   (test_operator.c tests layouts). Planted and caught: values checked only if they are copied; queries not
   reported; the pass left out for sequences that no mechanism gets; an infinite row reported as too long;
   masked keys measured.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/api_context.h"

enum { INPUTS = 3, ARRAYS = 4, OUT = 3, HEADS = 3, SEQUENCES = 2, WIDTH = 6, MOST = 4000 };
static const char *const names[INPUTS] = {"query", "key", "value"};
static const size_t rows[ARRAYS] = {5, 7, 7, 5}, width[ARRAYS] = {4, 4, 6, 6};

/* Query, key, value and out of every sequence and head, with one element type. */
struct fixture {
    hashattn_context *context;
    hashattn_attention *attention;
    hashattn_problem problem;
    float floats[ARRAYS][MOST];
    uint16_t halves[ARRAYS][MOST];
    hashattn_array array[ARRAYS];
};

static void set_up(struct fixture *f, const char *mechanism, size_t heads, int threads, bool apart, bool half)
{
    f->context = context_with(threads, NULL);
    check_ok(f->context, hashattn_attention_new(f->context, mechanism, &f->attention));
    hashattn_problem_default(&f->problem);
    f->problem.num_sequences = SEQUENCES;
    f->problem.num_heads = heads;
    f->problem.num_queries = rows[0];
    f->problem.num_keys = rows[1];
    f->problem.head_dim = width[0];
    f->problem.value_dim = width[2];
    f->problem.element = half ? HASHATTN_BF16 : HASHATTN_FLOAT32;
    for (size_t a = 0; a < ARRAYS; a++) {
        hashattn_fill_normal(1, a, f->floats[a], MOST);
        hashattn_bf16_round(f->context, f->floats[a], f->halves[a], MOST);
        size_t row_stride = apart ? 3 * heads * width[a] : width[a];
        f->array[a] = (hashattn_array){.data = half ? (void *)f->halves[a] : f->floats[a],
                                       .sequence_stride = 7 * 3 * HEADS * WIDTH,
                                       .row_stride = row_stride,
                                       .head_stride = apart ? width[a] : rows[a] * width[a]};
    }
}

static void tear_down(struct fixture *f)
{
    hashattn_attention_free(f->attention);
    hashattn_context_free(f->context);
}

static hashattn_status forward(struct fixture *f)
{
    return hashattn_attention_forward(f->attention, &f->problem, &f->array[0], &f->array[1], &f->array[2],
                                      &f->array[OUT], NULL, NULL);
}

static size_t place_of(const struct fixture *f, size_t a, size_t s, size_t h, size_t r, size_t c)
{
    const hashattn_array *array = &f->array[a];
    size_t place = s * array->sequence_stride + r * array->row_stride + h * array->head_stride + c;
    assert_true(place < MOST);
    return place;
}

/* Makes the number infinite in both element types, or restores it. */
static void spoil(struct fixture *f, size_t a, size_t place, bool bad)
{
    hashattn_fill_normal(1, a, f->floats[a], MOST);
    if (bad)
        f->floats[a][place] = INFINITY;
    hashattn_bf16_round(f->context, f->floats[a], f->halves[a], MOST);
}

static void check_mechanism(const char *mechanism, size_t heads, int threads, bool apart, bool half)
{
    static struct fixture f;
    set_up(&f, mechanism, heads, threads, apart, half);
    check_ok(f.context, forward(&f));
    for (size_t a = 0; a < INPUTS; a++)
        for (size_t last = 0; last < 2; last++) {
            size_t s = last, h = last * (heads - 1), r = last * (rows[a] - 1), c = last * (width[a] - 1);
            char part[100];
            spoil(&f, a, place_of(&f, a, s, h, r, c), true);
            snprintf(part, sizeof part, "%s is inf at sequence %zu, head %zu, row %zu, column %zu", names[a],
                     s, h, r, c);
            check_call(f.context, forward(&f), HASHATTN_INVALID, part);
            spoil(&f, a, 0, false);
        }
    check_ok(f.context, forward(&f));
    tear_down(&f);
}

/* Heads one by one, or few for many threads; rows adjacent or apart; both element types. */
static void nan_is_reported_by_mechanism_or_pass(void **state)
{
    (void)state;
    static const char *const mechanisms[] = {"softmax", "yoso", "yoso-e"};
    for (size_t m = 0; m < 3; m++)
        for (int form = 0; form < 8; form++)
            check_mechanism(mechanisms[m], form & 1 ? 1 : HEADS, form & 1 ? 3 : 2, form & 2, form & 4);
}

/* Rows that no mechanism gets are checked too, except those of masked keys. */
static void nan_is_reported_in_sequences_without_pairs(void **state)
{
    (void)state;
    static struct fixture f;
    static const uint8_t mask[SEQUENCES * 7] = {1, 1, 1, 1, 1, 1, 1}; /* none of sequence 1 */
    set_up(&f, "yoso", HEADS, 2, false, false);
    size_t key = place_of(&f, 1, 1, 0, 2, 0), query = place_of(&f, 0, 1, 2, 3, 1);
    f.problem.key_mask = mask;
    f.floats[1][key] = NAN;
    check_ok(f.context, forward(&f));
    f.floats[0][query] = NAN;
    check_call(f.context, forward(&f), HASHATTN_INVALID, "at sequence 1, head 2, row 3, column 1");
    f.floats[0][query] = 0;
    f.problem.key_mask = NULL;
    f.problem.num_queries = 0;
    check_call(f.context, forward(&f), HASHATTN_INVALID, "at sequence 1, head 0, row 2, column 0");
    tear_down(&f);
}

/* An infinite row is not reported as longer than max_norm. */
static void infinite_is_not_long(void **state)
{
    (void)state;
    static struct fixture f;
    set_up(&f, "yoso", HEADS, 2, false, false);
    check_ok(f.context, hashattn_attention_set(f.attention, "map", "neyshabur"));
    f.floats[1][5] = -INFINITY;
    for (int given = 0; given < 2; given++) {
        check_ok(f.context, hashattn_attention_set(f.attention, "max_norm", given ? "100" : "0"));
        check_call(f.context, forward(&f), HASHATTN_INVALID, "key is -inf at sequence 0, head 0, row 1");
    }
    f.floats[1][5] = 0;
    check_ok(f.context, forward(&f));
    tear_down(&f);
}

/* max_norm applies to every row that is read, tested on the first and last row of each sequence and head;
   masked keys are exempt. */
static void longer_than_max_norm_is_reported(void **state)
{
    (void)state;
    static struct fixture f;
    static const uint8_t mask[SEQUENCES * 7] = {1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1};
    for (size_t a = 0; a < 2; a++)
        for (size_t last = 0; last < 2; last++) {
            set_up(&f, "yoso", HEADS, 2, false, false);
            check_ok(f.context, hashattn_attention_set(f.attention, "map", "neyshabur"));
            check_ok(f.context, hashattn_attention_set(f.attention, "max_norm", "50"));
            size_t s = last, h = last * (HEADS - 1), r = last * (rows[a] - 1);
            size_t place = place_of(&f, a, s, h, r, 0);
            for (size_t c = 1; c < width[a]; c++)
                f.floats[a][place + c] = 0;
            f.floats[a][place] = -50;
            check_ok(f.context, forward(&f));
            f.floats[a][place] = -50.00003f; /* over the limit by rounding only */
            check_ok(f.context, forward(&f));
            f.floats[a][place] = -50.0002f;
            check_call(f.context, forward(&f), HASHATTN_INVALID, "has length 50.0002");
            f.floats[a][place] = -51;
            char part[100];
            snprintf(part, sizeof part, "%s has length 51 at sequence %zu, head %zu, row %zu; max_norm is 50",
                     names[a], s, h, r);
            check_call(f.context, forward(&f), HASHATTN_INVALID, part);
            if (a == 1) { /* a masked key is absent */
                f.floats[a][place] = 0;
                f.problem.key_mask = mask;
                f.floats[a][place_of(&f, 1, 0, 1, 6, 2)] = 1000;
                f.floats[a][place_of(&f, 1, 1, 1, 0, 2)] = 1000;
                check_ok(f.context, forward(&f));
                f.floats[a][place_of(&f, 1, 1, 1, 1, 2)] = 1000;
                check_call(f.context, forward(&f), HASHATTN_INVALID, "key has length 1000");
            }
            tear_down(&f);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nan_is_reported_by_mechanism_or_pass),
        cmocka_unit_test(nan_is_reported_in_sequences_without_pairs),
        cmocka_unit_test(infinite_is_not_long),
        cmocka_unit_test(longer_than_max_norm_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
