/* The public operator: layouts, written gradients, memory, and every error with its numbers. tests/attention
   tests the results of mechanisms; here softmax stands for all, compared with plain loops in double. Planted
   and caught: sequence_stride used for packed rows; gradients added to old contents; NaN searched in masked
   keys, only in the first head, or in rows as if they were adjacent; NaN reported in the wrong sequence;
   check_apart without the sort; scratch measured without its offsets; blocks not freed after a refusal;
   struct_size not checked in backward; a large dout not noticed.
   SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/api_context.h"

enum { HEADS = 3, QUERIES = 5, KEYS = 7, DIM = 4, VALUE_DIM = 6, SEQUENCES = 2 };

/* Arrays (SEQUENCES, HEADS, rows, width) and their problem. */
struct fixture {
    hashattn_context *context;
    hashattn_attention *attention;
    hashattn_problem problem;
    float query[SEQUENCES * HEADS * QUERIES * DIM], key[SEQUENCES * HEADS * KEYS * DIM],
        value[SEQUENCES * HEADS * KEYS * VALUE_DIM], out[SEQUENCES * HEADS * QUERIES * VALUE_DIM],
        dout[SEQUENCES * HEADS * QUERIES * VALUE_DIM];
    float dquery[SEQUENCES * HEADS * QUERIES * DIM], dkey[SEQUENCES * HEADS * KEYS * DIM],
        dvalue[SEQUENCES * HEADS * KEYS * VALUE_DIM];
    hashattn_array q, k, v, o, g, dq, dk, dv;
};

static void fill_nan(float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = NAN;
}

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void set_up(struct fixture *f, const char *mechanism, int threads, struct failing_host *failing)
{
    f->context = context_with(threads, failing);
    check_ok(f->context, hashattn_attention_new(f->context, mechanism, &f->attention));
    hashattn_problem_default(&f->problem);
    f->problem.num_sequences = SEQUENCES;
    f->problem.num_heads = HEADS;
    f->problem.num_queries = QUERIES;
    f->problem.num_keys = KEYS;
    f->problem.head_dim = DIM;
    f->problem.value_dim = VALUE_DIM;
    f->problem.seed = 5;
    hashattn_fill_normal(1, 0, f->query, COUNT(f->query));
    hashattn_fill_normal(1, 1, f->key, COUNT(f->key));
    hashattn_fill_normal(1, 2, f->value, COUNT(f->value));
    hashattn_fill_normal(1, 3, f->dout, COUNT(f->dout));
    fill_nan(f->out, COUNT(f->out));
    fill_nan(f->dquery, COUNT(f->dquery));
    fill_nan(f->dkey, COUNT(f->dkey));
    fill_nan(f->dvalue, COUNT(f->dvalue));
    f->q = hashattn_array_of_heads(f->query, HEADS, QUERIES, DIM);
    f->k = hashattn_array_of_heads(f->key, HEADS, KEYS, DIM);
    f->v = hashattn_array_of_heads(f->value, HEADS, KEYS, VALUE_DIM);
    f->o = hashattn_array_of_heads(f->out, HEADS, QUERIES, VALUE_DIM);
    f->g = hashattn_array_of_heads(f->dout, HEADS, QUERIES, VALUE_DIM);
    f->dq = hashattn_array_of_heads(f->dquery, HEADS, QUERIES, DIM);
    f->dk = hashattn_array_of_heads(f->dkey, HEADS, KEYS, DIM);
    f->dv = hashattn_array_of_heads(f->dvalue, HEADS, KEYS, VALUE_DIM);
}

static void tear_down(struct fixture *f)
{
    hashattn_attention_free(f->attention);
    hashattn_context_free(f->context);
}

static hashattn_status forward(struct fixture *f, void *saved, void *scratch)
{
    return hashattn_attention_forward(f->attention, &f->problem, &f->q, &f->k, &f->v, &f->o, saved, scratch);
}

static hashattn_status backward(struct fixture *f, void *saved, void *scratch)
{
    return hashattn_attention_backward(f->attention, &f->problem, &f->q, &f->k, &f->v, &f->o, &f->g, &f->dq,
                                       &f->dk, &f->dv, saved, scratch);
}

static void *new_block(size_t bytes)
{
    return aligned_alloc(64, bytes / 64 * 64 + 64);
}

/* Forward and backward with blocks of the reported sizes. */
static void run_both(struct fixture *f)
{
    size_t saved_bytes, scratch_bytes;
    check_ok(f->context, hashattn_attention_sizes(f->attention, &f->problem, &saved_bytes, &scratch_bytes));
    void *saved = new_block(saved_bytes), *scratch = new_block(scratch_bytes);
    check_ok(f->context, forward(f, saved, scratch));
    memset(scratch, 0xff, scratch_bytes); /* backward must not read forward's scratch */
    check_ok(f->context, backward(f, saved, scratch));
    free(saved);
    free(scratch);
}

/* ---- bfloat16 ---- */

enum { ARRAYS = 8, INPUTS = 3, OUT = 3, DOUT = 4, LARGEST = SEQUENCES * HEADS * KEYS * VALUE_DIM };

struct halves {
    uint16_t data[ARRAYS][LARGEST];
};

static void arrays_of(struct fixture *f, float *floats[ARRAYS], size_t count[ARRAYS],
                      hashattn_array *array[ARRAYS])
{
    float *const all[] = {f->query, f->key, f->value, f->out, f->dout, f->dquery, f->dkey, f->dvalue};
    const size_t counts[] = {COUNT(f->query), COUNT(f->key),    COUNT(f->value), COUNT(f->out),
                             COUNT(f->dout),  COUNT(f->dquery), COUNT(f->dkey),  COUNT(f->dvalue)};
    hashattn_array *const arrays[] = {&f->q, &f->k, &f->v, &f->o, &f->g, &f->dq, &f->dk, &f->dv};
    memcpy(floats, all, sizeof all);
    memcpy(count, counts, sizeof counts);
    memcpy(array, arrays, sizeof arrays);
}

/* With bfloat16 arrays a mechanism computes as with the same numbers in float32 and rounds the results once.
   Compared bit for bit, for exact and sampled mechanisms, with and without masks, for one unit spread over
   threads and for many. (Backward gets the rounded output.) */
static void check_bf16(const char *mechanism, int masked, size_t heads, int threads)
{
    static const uint8_t mask[SEQUENCES * KEYS] = {1, 0, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0};
    struct fixture f;
    static struct halves halves;
    float *floats[ARRAYS], want[ARRAYS][LARGEST];
    size_t count[ARRAYS];
    hashattn_array *array[ARRAYS];
    set_up(&f, mechanism, threads, NULL);
    f.problem.num_heads = heads;
    f.problem.num_sequences = heads == 1 ? 1 : SEQUENCES;
    f.problem.key_mask = masked ? mask : NULL;
    arrays_of(&f, floats, count, array);
    for (size_t a = 0; a < ARRAYS; a++)
        if (a < INPUTS || a == DOUT) {
            hashattn_bf16_round(f.context, floats[a], halves.data[a], count[a]);
            hashattn_bf16_widen(f.context, halves.data[a], floats[a], count[a]);
        }
    size_t saved_bytes, scratch_bytes;
    check_ok(f.context, hashattn_attention_sizes(f.attention, &f.problem, &saved_bytes, &scratch_bytes));
    void *saved = new_block(saved_bytes), *scratch = new_block(scratch_bytes);
    check_ok(f.context, forward(&f, saved, scratch));
    hashattn_bf16_round(f.context, f.out, halves.data[OUT], COUNT(f.out));
    hashattn_bf16_widen(f.context, halves.data[OUT], f.out, COUNT(f.out));
    check_ok(f.context, backward(&f, saved, scratch));
    free(saved), free(scratch);
    for (size_t a = OUT; a < ARRAYS; a++) {
        memcpy(want[a], floats[a], count[a] * sizeof(float));
        if (a != DOUT)
            memset(halves.data[a], 0xff, sizeof halves.data[a]);
        array[a]->data = halves.data[a];
    }
    for (size_t a = 0; a < INPUTS; a++)
        array[a]->data = halves.data[a];
    f.problem.element = HASHATTN_BF16;
    run_both(&f);
    const size_t written[] = {OUT, 5, 6, 7};
    for (size_t w = 0; w < 4; w++) {
        size_t a = written[w], rows = w == 0 || a == 5 ? QUERIES : f.problem.num_keys;
        size_t elements = f.problem.num_sequences * heads * rows * (a == OUT || a == 7 ? VALUE_DIM : DIM);
        uint16_t rounded[LARGEST];
        hashattn_bf16_round(f.context, want[a], rounded, elements);
        check_same_bits(halves.data[a], rounded, elements * sizeof *rounded, mechanism);
    }
    tear_down(&f);
}

static void bf16_arrays_are_rounded_once(void **state)
{
    (void)state;
    static const char *const mechanisms[] = {"softmax", "yoso", "yoso-e"};
    for (size_t m = 0; m < 3; m++)
        for (int masked = 0; masked < 2; masked++) {
            check_bf16(mechanisms[m], masked, HEADS, 2);
            check_bf16(mechanisms[m], masked, 1, 3);
        }
}

static void bf16_mistakes_are_named(void **state)
{
    (void)state;
    struct fixture f;
    static struct halves halves;
    float *floats[ARRAYS];
    size_t count[ARRAYS];
    hashattn_array *array[ARRAYS];
    set_up(&f, "softmax", 2, NULL);
    arrays_of(&f, floats, count, array);
    f.problem.element = HASHATTN_BYTE;
    check_call(f.context, forward(&f, NULL, NULL), HASHATTN_INVALID, "element is 1");
    f.problem.element = HASHATTN_BF16;
    for (size_t a = 0; a < ARRAYS; a++) {
        hashattn_bf16_round(f.context, floats[a], halves.data[a], count[a]);
        array[a]->data = halves.data[a];
    }
    check_ok(f.context, forward(&f, NULL, NULL));
    /* A quiet NaN, a signalling NaN, one with all bits set, and infinity. */
    static const uint16_t bad[] = {0x7fc0, 0x7f81, 0xffff, 0x7f80};
    size_t at = ((1 * HEADS + 2) * KEYS + 3) * DIM + 1;
    for (size_t b = 0; b < 4; b++) {
        uint16_t kept = halves.data[1][at];
        halves.data[1][at] = bad[b];
        check_call(f.context, forward(&f, NULL, NULL), HASHATTN_INVALID,
                   "at sequence 1, head 2, row 3, column 1");
        halves.data[1][at] = kept;
    }
    const float large[] = {3.4e38f, -3.4e38f};
    hashattn_bf16_round(f.context, large, halves.data[0], 2);
    assert_true(halves.data[0][0] == 0x7f80 && halves.data[0][1] == 0xff80);
    tear_down(&f);
}

/* A context of precision bf16 multiplies rounded numbers inside softmax. The error of a score is then little
   more than delta, 2^-7 times the sum of its products' absolute values. A probability is off by a factor of
   up to e^(2 delta), and rounding it and the value adds 2^-8 each. test_softmax.c bounds gradients. */
static void softmax_in_bf16_keeps_its_bound(void **state)
{
    (void)state;
    struct fixture f, exact;
    set_up(&exact, "softmax", 1, NULL);
    run_both(&exact);
    set_up(&f, "softmax", 2, NULL);
    tear_down(&f);
    hashattn_context_options options;
    hashattn_context_options_default(&options);
    options.threads = 2;
    options.precision = "bf16";
    assert_int_equal(hashattn_context_new(&options, NULL, 0, &f.context), HASHATTN_OK);
    check_ok(f.context, hashattn_attention_new(f.context, "softmax", &f.attention));
    run_both(&f);
    double delta = 0, value = 0, far = 0, dfar = 0;
    for (size_t h = 0; h < SEQUENCES * HEADS; h++)
        for (size_t i = 0; i < QUERIES; i++)
            for (size_t j = 0; j < KEYS; j++) {
                double sum = 0;
                for (size_t c = 0; c < DIM; c++)
                    sum += fabs((double)f.query[(h * QUERIES + i) * DIM + c] *
                                (double)f.key[(h * KEYS + j) * DIM + c]);
                delta = fmax(delta, 1.01 * ldexp(sum, -7) / sqrt(DIM));
            }
    for (size_t i = 0; i < COUNT(f.value); i++)
        value = fmax(value, fabs((double)f.value[i]));
    for (size_t i = 0; i < COUNT(f.out); i++)
        far = fmax(far, fabs((double)f.out[i] - (double)exact.out[i]));
    assert_true(far > ldexp(value, -14) && far < value * (exp(2 * delta) - 1 + 1.1 * ldexp(1, -7)));
    for (size_t i = 0; i < COUNT(f.dquery); i++)
        dfar = fmax(dfar, fabs((double)f.dquery[i] - (double)exact.dquery[i]));
    assert_true(dfar > 0);
    tear_down(&f);
    tear_down(&exact);
}

/* ---- numbers and layouts ------------------------------------------------------------------------------- */

/* Softmax of one head with plain loops. */
static void softmax_in_double(const float *query, const float *key, const float *value, double *out)
{
    for (size_t i = 0; i < QUERIES; i++) {
        double weights[KEYS], sum = 0;
        for (size_t j = 0; j < KEYS; j++) {
            double dot = 0;
            for (size_t c = 0; c < DIM; c++)
                dot += (double)query[i * DIM + c] * key[j * DIM + c];
            sum += weights[j] = exp(dot / sqrt(DIM));
        }
        for (size_t c = 0; c < VALUE_DIM; c++) {
            out[i * VALUE_DIM + c] = 0;
            for (size_t j = 0; j < KEYS; j++)
                out[i * VALUE_DIM + c] += weights[j] / sum * value[j * VALUE_DIM + c];
        }
    }
}

static void forward_is_attention(void **state)
{
    (void)state;
    static struct fixture f;
    set_up(&f, "softmax", 1, NULL);
    check_ok(f.context, forward(&f, NULL, NULL));
    for (size_t i = 0; i < SEQUENCES * HEADS; i++) {
        double want[QUERIES * VALUE_DIM];
        softmax_in_double(f.query + i * QUERIES * DIM, f.key + i * KEYS * DIM, f.value + i * KEYS * VALUE_DIM,
                          want);
        /* 20 float operations on numbers below 5 */
        check_near_all(f.out + i * QUERIES * VALUE_DIM, want, QUERIES * VALUE_DIM, 20 * 5 * 6e-8, "out");
    }
    tear_down(&f);
}

/* (sequences, heads, rows, width) -> (rows of all sequences, heads, width) */
static void to_rows(float *to, const float *from, size_t rows, size_t width)
{
    for (size_t s = 0; s < SEQUENCES; s++)
        for (size_t h = 0; h < HEADS; h++)
            for (size_t r = 0; r < rows; r++)
                memcpy(to + ((s * rows + r) * HEADS + h) * width, from + ((s * HEADS + h) * rows + r) * width,
                       width * sizeof *to);
}

static void check_rows(const float *rows_of_heads, const float *heads, size_t rows, size_t width,
                       const char *what)
{
    size_t count = SEQUENCES * HEADS * rows * width;
    float *want = malloc(count * sizeof *want);
    to_rows(want, heads, rows, width);
    check_same_bits(rows_of_heads, want, count * sizeof *want, what);
    free(want);
}

static void all_layouts_give_the_same_bits(void **state)
{
    (void)state;
    static const char *const mechanisms[] = {"softmax", "yoso"};
    for (size_t m = 0; m < 2; m++) {
        static struct fixture heads, rows;
        set_up(&heads, mechanisms[m], 1, NULL);
        run_both(&heads);
        for (int packed = 0; packed < 2; packed++) {
            set_up(&rows, mechanisms[m], 2, NULL);
            to_rows(rows.query, heads.query, QUERIES, DIM);
            to_rows(rows.key, heads.key, KEYS, DIM);
            to_rows(rows.value, heads.value, KEYS, VALUE_DIM);
            to_rows(rows.dout, heads.dout, QUERIES, VALUE_DIM);
            rows.q = hashattn_array_of_rows(rows.query, HEADS, QUERIES, DIM);
            rows.k = hashattn_array_of_rows(rows.key, HEADS, KEYS, DIM);
            rows.v = hashattn_array_of_rows(rows.value, HEADS, KEYS, VALUE_DIM);
            rows.o = hashattn_array_of_rows(rows.out, HEADS, QUERIES, VALUE_DIM);
            rows.g = hashattn_array_of_rows(rows.dout, HEADS, QUERIES, VALUE_DIM);
            rows.dq = hashattn_array_of_rows(rows.dquery, HEADS, QUERIES, DIM);
            rows.dk = hashattn_array_of_rows(rows.dkey, HEADS, KEYS, DIM);
            rows.dv = hashattn_array_of_rows(rows.dvalue, HEADS, KEYS, VALUE_DIM);
            const size_t query_offsets[] = {0, QUERIES, 2 * QUERIES}, key_offsets[] = {0, KEYS, 2 * KEYS};
            if (packed) { /* sequence_stride must be ignored then */
                rows.problem.query_offsets = query_offsets;
                rows.problem.key_offsets = key_offsets;
                rows.problem.num_queries = rows.problem.num_keys = 12345;
                rows.q.sequence_stride = rows.k.sequence_stride = rows.dv.sequence_stride = 1;
            }
            run_both(&rows);
            check_rows(rows.out, heads.out, QUERIES, VALUE_DIM, "out");
            check_rows(rows.dquery, heads.dquery, QUERIES, DIM, "dquery");
            check_rows(rows.dkey, heads.dkey, KEYS, DIM, "dkey");
            check_rows(rows.dvalue, heads.dvalue, KEYS, VALUE_DIM, "dvalue");
            tear_down(&rows);
        }
        tear_down(&heads);
    }
}

static void an_input_may_show_one_head_to_all(void **state)
{
    (void)state;
    static struct fixture f, copied;
    set_up(&f, "softmax", 1, NULL);
    set_up(&copied, "softmax", 1, NULL);
    f.k.head_stride = f.v.head_stride = 0;
    for (size_t s = 0; s < SEQUENCES; s++)
        for (size_t h = 1; h < HEADS; h++) {
            memcpy(copied.key + (s * HEADS + h) * KEYS * DIM, copied.key + s * HEADS * KEYS * DIM,
                   KEYS * DIM * sizeof(float));
            memcpy(copied.value + (s * HEADS + h) * KEYS * VALUE_DIM,
                   copied.value + s * HEADS * KEYS * VALUE_DIM, KEYS * VALUE_DIM * sizeof(float));
        }
    run_both(&f);
    run_both(&copied);
    check_same_bits(f.out, copied.out, sizeof f.out, "out");
    check_same_bits(f.dkey, copied.dkey, sizeof f.dkey, "dkey");
    tear_down(&f);
    tear_down(&copied);
}

static void nothing_is_touched_past_the_arrays(void **state)
{
    (void)state;
    static struct fixture f;
    set_up(&f, "yoso", 1, NULL);
    struct {
        hashattn_array *array;
        float *from, *guarded;
        size_t count;
    } all[] = {{&f.q, f.query, NULL, COUNT(f.query)}, {&f.k, f.key, NULL, COUNT(f.key)},
               {&f.v, f.value, NULL, COUNT(f.value)}, {&f.o, f.out, NULL, COUNT(f.out)},
               {&f.g, f.dout, NULL, COUNT(f.dout)},   {&f.dq, f.dquery, NULL, COUNT(f.dquery)},
               {&f.dk, f.dkey, NULL, COUNT(f.dkey)},  {&f.dv, f.dvalue, NULL, COUNT(f.dvalue)}};
    for (size_t i = 0; i < COUNT(all); i++) {
        all[i].guarded = guard_floats(all[i].count);
        memcpy(all[i].guarded, all[i].from, all[i].count * sizeof(float));
        all[i].array->data = all[i].guarded;
    }
    run_both(&f);
    for (size_t i = 3; i < COUNT(all); i++)
        for (size_t j = 0; j < all[i].count; j++)
            assert_true(isfinite(all[i].guarded[j])); /* every element was written */
    for (size_t i = 0; i < COUNT(all); i++)
        guard_free(all[i].guarded, all[i].count);
    tear_down(&f);
}

static void masked_keys_are_absent(void **state)
{
    (void)state;
    static struct fixture masked, shorter;
    set_up(&masked, "yoso", 1, NULL);
    set_up(&shorter, "yoso", 1, NULL);
    uint8_t mask[SEQUENCES * KEYS];
    for (size_t j = 0; j < SEQUENCES * KEYS; j++)
        mask[j] = j % KEYS < KEYS - 2;
    for (size_t i = 0; i < SEQUENCES * HEADS; i++) /* padding may hold anything */
        for (size_t j = KEYS - 2; j < KEYS; j++) {
            fill_nan(masked.key + (i * KEYS + j) * DIM, DIM);
            fill_nan(masked.value + (i * KEYS + j) * VALUE_DIM, VALUE_DIM);
        }
    masked.problem.key_mask = mask;
    shorter.problem.num_keys = KEYS - 2;
    run_both(&masked);
    run_both(&shorter);
    check_same_bits(masked.out, shorter.out, sizeof masked.out, "out");
    check_same_bits(masked.dquery, shorter.dquery, sizeof masked.dquery, "dquery");
    for (size_t i = 0; i < SEQUENCES * HEADS; i++)
        for (size_t j = 0; j < KEYS * DIM; j++) {
            float got = masked.dkey[i * KEYS * DIM + j];
            if (j < (KEYS - 2) * DIM)
                assert_true(got == shorter.dkey[i * KEYS * DIM + j]);
            else
                assert_true(got == 0);
        }
    tear_down(&masked);
    tear_down(&shorter);
}

static void seeds_change_results_and_threads_do_not(void **state)
{
    (void)state;
    static struct fixture one, three, other;
    set_up(&one, "yoso", 1, NULL);
    set_up(&three, "yoso", 3, NULL);
    set_up(&other, "yoso", 3, NULL);
    other.problem.seed = 6;
    run_both(&one);
    run_both(&three);
    run_both(&other);
    check_same_bits(one.out, three.out, sizeof one.out, "out");
    check_same_bits(one.dquery, three.dquery, sizeof one.dquery, "dquery");
    assert_true(memcmp(one.out, other.out, sizeof one.out) != 0);
    /* The same as in the batch, unless sample_ids are set. */
    one.problem.num_sequences = 1;
    one.q.data = one.query + HEADS * QUERIES * DIM;
    one.k.data = one.key + HEADS * KEYS * DIM;
    one.v.data = one.value + HEADS * KEYS * VALUE_DIM;
    check_ok(one.context, forward(&one, NULL, NULL));
    check_same_bits(one.out, three.out + HEADS * QUERIES * VALUE_DIM, sizeof one.out / 2, "alone");
    const uint64_t ids[] = {77};
    one.problem.sample_ids = ids;
    check_ok(one.context, forward(&one, NULL, NULL));
    assert_true(memcmp(one.out, three.out + HEADS * QUERIES * VALUE_DIM, sizeof one.out / 2) != 0);
    tear_down(&one);
    tear_down(&three);
    tear_down(&other);
}

static void empty_problems_are_no_errors(void **state)
{
    (void)state;
    static struct fixture f;
    set_up(&f, "yoso", 1, NULL);
    f.problem.num_keys = 0;
    f.k.data = f.v.data = f.dk.data = f.dv.data = NULL;
    run_both(&f);
    for (size_t i = 0; i < COUNT(f.out); i++)
        assert_true(f.out[i] == 0);
    for (size_t i = 0; i < COUNT(f.dquery); i++)
        assert_true(f.dquery[i] == 0);
    f.problem.num_queries = 0;
    f.q.data = f.o.data = f.g.data = f.dq.data = NULL;
    run_both(&f);
    f.problem.num_sequences = 0;
    run_both(&f);
    tear_down(&f);
}

/* ---- errors -------------------------------------------------------------------------------------------- */

static void numbers_out_of_range_are_reported(void **state)
{
    (void)state;
    static struct fixture f;
    set_up(&f, "softmax", 1, NULL);
    const hashattn_problem good = f.problem;
    const size_t rising[] = {0, 2, 5}, falling[] = {0, 5, 2}, late[] = {1, 2, 5},
                 far[] = {0, 2, SIZE_MAX / 2};
    const uint8_t mask[SEQUENCES * KEYS] = {1, 1, 3};
    struct {
        hashattn_problem problem;
        const char *part;
    } cases[16];
    for (size_t i = 0; i < COUNT(cases); i++)
        cases[i].problem = good;
    size_t n = 0;
    cases[n].problem.num_heads = 0, cases[n++].part = "num_heads is 0, at least 1 is needed";
    cases[n].problem.head_dim = 0, cases[n++].part = "head_dim is 0, at least 1 is needed";
    cases[n].problem.value_dim = 0, cases[n++].part = "value_dim is 0, at least 1 is needed";
    cases[n].problem.struct_size = 8, cases[n++].part = "problem: struct_size is 8";
    cases[n].problem.num_sequences = SIZE_MAX, cases[n++].part = "num_sequences is 18446744073709551615";
    cases[n].problem.num_queries = SIZE_MAX / 2,
    cases[n++].part = "2 sequences of 9223372036854775807 queries";
    cases[n].problem.num_keys = SIZE_MAX / 3,
    cases[n++].part = "2 sequences of 6148914691236517205 keys are too many rows";
    cases[n].problem.query_offsets = rising, cases[n++].part = "query_offsets and key_offsets";
    cases[n].problem.query_offsets = falling, cases[n].problem.key_offsets = rising,
    cases[n++].part = "query_offsets[2] is 2, below query_offsets[1] which is 5";
    cases[n].problem.query_offsets = rising, cases[n].problem.key_offsets = late,
    cases[n++].part = "key_offsets[0] is 1, it must be 0";
    cases[n].problem.query_offsets = rising, cases[n].problem.key_offsets = far,
    cases[n++].part = "key_offsets end at 9223372036854775807, too many rows";
    cases[n].problem.query_offsets = far, cases[n].problem.key_offsets = rising,
    cases[n++].part = "query_offsets end at 9223372036854775807, too many rows";
    cases[n].problem.key_mask = mask, cases[n++].part = "key_mask[2] is 3, allowed are 0 and 1";
    for (size_t i = 0; i < n; i++) {
        f.problem = cases[i].problem;
        check_call(f.context, forward(&f, NULL, NULL), HASHATTN_INVALID, cases[i].part);
        size_t saved, scratch;
        if (cases[i].problem.key_mask == NULL)
            check_call(f.context, hashattn_attention_sizes(f.attention, &f.problem, &saved, &scratch),
                       HASHATTN_INVALID, cases[i].part);
        check_call(f.context, backward(&f, NULL, NULL), HASHATTN_INVALID,
                   cases[i].problem.key_mask == NULL ? cases[i].part : "saved is NULL");
    }
    f.problem = good;
    f.problem.causal = 1;
    check_call(f.context, forward(&f, NULL, NULL), HASHATTN_INVALID, "5 queries and 7 keys");
    f.problem = good;
    f.problem.num_sequences = 1;
    f.problem.num_queries = SIZE_MAX / 128;
    f.problem.num_heads = 1000;
    check_call(f.context, forward(&f, NULL, NULL), HASHATTN_NO_MEMORY, "more bytes than can be counted");
    tear_down(&f);
}

static void bad_strides_are_reported(void **state)
{
    (void)state;
    static struct fixture f;
    set_up(&f, "softmax", 1, NULL);
    f.q.row_stride = DIM - 1;
    check_call(f.context, forward(&f, NULL, NULL), HASHATTN_INVALID,
               "query: row_stride is 3, at least 4 is needed");
    f.q.row_stride = SIZE_MAX / 64;
    check_call(f.context, forward(&f, NULL, NULL), HASHATTN_INVALID,
               "query: row_stride is 288230376151711743");
    f.q = hashattn_array_of_heads(f.query, HEADS, QUERIES, DIM);
    f.o.head_stride = VALUE_DIM;
    check_call(f.context, forward(&f, NULL, NULL), HASHATTN_INVALID, "out: head_stride is 6, at least 30");
    f.o = hashattn_array_of_heads(f.out, HEADS, QUERIES, VALUE_DIM);
    f.o.sequence_stride--;
    check_call(f.context, forward(&f, NULL, NULL), HASHATTN_INVALID,
               "out: sequence_stride is 89, at least 90 is needed, or elements would overlap");
    f.o.sequence_stride++;
    f.v.data = NULL;
    check_call(f.context, forward(&f, NULL, NULL), HASHATTN_INVALID, "value.data is NULL");
    check_call(f.context,
               hashattn_attention_forward(f.attention, &f.problem, &f.q, NULL, &f.v, &f.o, NULL, NULL),
               HASHATTN_INVALID, "key is NULL");
    check_call(f.context, hashattn_attention_forward(f.attention, NULL, &f.q, &f.k, &f.v, &f.o, NULL, NULL),
               HASHATTN_INVALID, "problem is NULL");
    check_call(f.context, hashattn_attention_sizes(f.attention, &f.problem, NULL, NULL), HASHATTN_INVALID,
               "saved_bytes is NULL");
    assert_int_equal(hashattn_attention_forward(NULL, &f.problem, &f.q, &f.k, &f.v, &f.o, NULL, NULL),
                     HASHATTN_INVALID);
    assert_int_equal(hashattn_attention_sizes(NULL, &f.problem, NULL, NULL), HASHATTN_INVALID);
    for (size_t i = 0; i < COUNT(f.out); i++)
        assert_true(isnan(f.out[i])); /* nothing was written */
    tear_down(&f);
}

static void outputs_of_backward_may_not_meet(void **state)
{
    (void)state;
    static struct fixture f;
    set_up(&f, "softmax", 1, NULL);
    size_t saved_bytes, scratch_bytes;
    check_ok(f.context, hashattn_attention_sizes(f.attention, &f.problem, &saved_bytes, &scratch_bytes));
    void *saved = new_block(saved_bytes);
    check_ok(f.context, forward(&f, saved, NULL));
    f.dk.head_stride = 0;
    check_call(f.context, backward(&f, saved, NULL), HASHATTN_INVALID, "dkey: head_stride is 0");
    f.dk = hashattn_array_of_heads(f.dkey, HEADS, KEYS, DIM);
    f.dout[HEADS * QUERIES * VALUE_DIM + 2 * QUERIES * VALUE_DIM + VALUE_DIM + 3] = INFINITY;
    check_call(f.context, backward(&f, saved, NULL), HASHATTN_INVALID,
               "dout is inf at sequence 1, head 2, row 1, column 3");
    for (size_t i = 0; i < COUNT(f.dkey); i++)
        assert_true(isnan(f.dkey[i]));
    f.problem.struct_size = 1;
    check_call(f.context, backward(&f, saved, NULL), HASHATTN_INVALID, "struct_size is 1");
    free(saved);
    tear_down(&f);
}

static void nan_is_reported_with_its_position(void **state)
{
    (void)state;
    static struct fixture f;
    set_up(&f, "yoso", 2, NULL);
    for (size_t s = 0; s < SEQUENCES; s++)
        for (size_t h = 0; h < HEADS; h++) {
            char part[100];
            float *place = &f.value[((s * HEADS + h) * KEYS + 6) * VALUE_DIM + 5];
            float before = *place;
            *place = -INFINITY;
            snprintf(part, sizeof part, "value is -inf at sequence %zu, head %zu, row 6, column 5", s, h);
            check_call(f.context, forward(&f, NULL, NULL), HASHATTN_INVALID, part);
            *place = before;
            place = &f.query[((s * HEADS + h) * QUERIES) * DIM];
            before = *place;
            *place = NAN;
            snprintf(part, sizeof part, "nan at sequence %zu, head %zu, row 0, column 0", s, h);
            check_call(f.context, forward(&f, NULL, NULL), HASHATTN_INVALID, part);
            *place = before;
        }
    /* The same memory as (rows, heads, width): NaN in the last row of the last head of the last sequence. */
    f.q = hashattn_array_of_rows(f.query, HEADS, QUERIES, DIM);
    f.query[COUNT(f.query) - 1] = INFINITY;
    check_call(f.context, forward(&f, NULL, NULL), HASHATTN_INVALID,
               "query is inf at sequence 1, head 2, row 4, column 3");
    f.query[COUNT(f.query) - 1] = 0;
    f.key[3] = 3e38f; /* large but finite */
    check_ok(f.context, forward(&f, NULL, NULL));
    tear_down(&f);
}

/* ---- memory -------------------------------------------------------------------------------------------- */

/* In some arrays every number is +-FLT_MAX. */
static void finite_inputs_give_finite_results(void **state)
{
    (void)state;
    static const char *const mechanisms[] = {"softmax", "local", "lha", "lsh", "random"};
    for (size_t m = 0; m < sizeof mechanisms / sizeof *mechanisms; m++)
        for (unsigned which = 1; which < 16; which++) {
            struct fixture f;
            set_up(&f, mechanisms[m], 2, NULL);
            float *inputs[] = {f.query, f.key, f.value, f.dout};
            size_t counts[] = {COUNT(f.query), COUNT(f.key), COUNT(f.value), COUNT(f.dout)};
            for (size_t a = 0; a < 4; a++)
                for (size_t i = 0; i < counts[a] && which >> a & 1; i++)
                    inputs[a][i] = copysignf(FLT_MAX, inputs[a][i]);
            run_both(&f);
            const float *outputs[] = {f.out, f.dquery, f.dkey, f.dvalue};
            size_t sizes[] = {COUNT(f.out), COUNT(f.dquery), COUNT(f.dkey), COUNT(f.dvalue)};
            for (size_t a = 0; a < 4; a++)
                for (size_t i = 0; i < sizes[a]; i++)
                    if (!isfinite(outputs[a][i]))
                        fail_msg("%s, inputs %u: array %zu holds %g", mechanisms[m], which, a,
                                 (double)outputs[a][i]);
            tear_down(&f);
        }
}

static void blocks_are_checked(void **state)
{
    (void)state;
    static struct fixture f;
    set_up(&f, "yoso", 1, NULL);
    size_t saved_bytes, scratch_bytes;
    check_ok(f.context, hashattn_attention_sizes(f.attention, &f.problem, &saved_bytes, &scratch_bytes));
    assert_true(saved_bytes > 0 && scratch_bytes > 0);
    unsigned char *saved = new_block(saved_bytes + 8), *scratch = new_block(scratch_bytes + 8);
    check_call(f.context, forward(&f, saved + 8, scratch), HASHATTN_INVALID,
               "saved is not aligned to 64 bytes");
    check_call(f.context, forward(&f, saved, scratch + 8), HASHATTN_INVALID, "scratch is not aligned");
    check_ok(f.context, forward(&f, NULL, NULL));
    check_call(f.context, backward(&f, NULL, scratch), HASHATTN_INVALID, "saved is NULL");
    free(saved);
    free(scratch);
    tear_down(&f);
}

static void the_reported_block_sizes_suffice(void **state)
{
    (void)state;
    static const char *const mechanisms[] = {"softmax", "none", "yoso", "yoso-e"};
    for (size_t m = 0; m < 4; m++) {
        static struct fixture f;
        struct failing_host failing;
        failing_host_init(&failing, -1);
        set_up(&f, mechanisms[m], 2, &failing);
        f.problem.num_queries = f.problem.num_keys = QUERIES; /* none needs equal lengths */
        size_t saved_bytes, scratch_bytes;
        check_ok(f.context, hashattn_attention_sizes(f.attention, &f.problem, &saved_bytes, &scratch_bytes));
        /* A byte past the end would crash. */
        size_t saved_floats = (saved_bytes + 63) / 64 * 16, scratch_floats = (scratch_bytes + 63) / 64 * 16;
        float *saved = guard_floats(saved_floats), *scratch = guard_floats(scratch_floats);
        failing.until_failure = failing.calls; /* no allocation from here on */
        check_ok(f.context, forward(&f, saved, scratch));
        check_ok(f.context, backward(&f, saved, scratch));
        guard_free(saved, saved_floats);
        guard_free(scratch, scratch_floats);
        tear_down(&f);
        assert_int_equal(failing.outstanding, 0);
    }
}

static hashattn_status run_without_blocks(hashattn_context *context, void *user)
{
    static struct fixture f;
    (void)user;
    hashattn_context *own = NULL;
    set_up(&f, "yoso", 1, NULL);
    own = f.context;
    hashattn_attention_free(f.attention);
    f.context = context;
    size_t saved_bytes = 0, scratch_bytes;
    void *saved = NULL;
    hashattn_status status = hashattn_attention_new(context, "yoso", &f.attention);
    if (status == HASHATTN_OK)
        status = hashattn_attention_sizes(f.attention, &f.problem, &saved_bytes, &scratch_bytes);
    if (status == HASHATTN_OK)
        status = forward(&f, NULL, NULL);
    if (status == HASHATTN_OK) {
        saved = new_block(saved_bytes);
        status = forward(&f, saved, NULL);
    }
    if (status == HASHATTN_OK)
        status = backward(&f, saved, NULL);
    free(saved);
    hashattn_attention_free(f.attention);
    hashattn_context_free(own);
    return status;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    check_every_failing_allocation(run_without_blocks, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_arrays_are_rounded_once),
        cmocka_unit_test(bf16_mistakes_are_named),
        cmocka_unit_test(softmax_in_bf16_keeps_its_bound),
        cmocka_unit_test(forward_is_attention),
        cmocka_unit_test(all_layouts_give_the_same_bits),
        cmocka_unit_test(an_input_may_show_one_head_to_all),
        cmocka_unit_test(nothing_is_touched_past_the_arrays),
        cmocka_unit_test(masked_keys_are_absent),
        cmocka_unit_test(seeds_change_results_and_threads_do_not),
        cmocka_unit_test(empty_problems_are_no_errors),
        cmocka_unit_test(numbers_out_of_range_are_reported),
        cmocka_unit_test(bad_strides_are_reported),
        cmocka_unit_test(outputs_of_backward_may_not_meet),
        cmocka_unit_test(nan_is_reported_with_its_position),
        cmocka_unit_test(finite_inputs_give_finite_results),
        cmocka_unit_test(blocks_are_checked),
        cmocka_unit_test(the_reported_block_sizes_suffice),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
