/* The border of the operator: the caller's floating-point environment, blocks that no forward wrote, arrays
   that share memory, and sizes that are known without drawing learned tensors. Planted and caught: the
   environment not set for the pool's threads; not given back; a fingerprint without the
   options, without the lengths, without the mask; a tag that stays when forward fails; no tag checked for the
   loss; an output compared with the inputs only; bounding ranges in place of bytes; tensors drawn before the
   refusal. Covers: saved_tag.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/api_context.h"

enum { HEADS = 2, ROWS = 64, DIM = 32, FLOATS = HEADS * ROWS * DIM };
enum { QUERY, KEY, VALUE, OUT, DOUT, DQUERY, DKEY, DVALUE, ARRAYS };

struct call {
    hashattn_context *context;
    hashattn_attention *attention;
    hashattn_problem problem;
    hashattn_array arrays[ARRAYS];
    float numbers[ARRAYS][FLOATS];
    void *saved;
    size_t saved_bytes;
    double loss;
};

static void open_call(struct call *call, const char *mechanism, struct failing_host *failing)
{
    call->context = context_with(2, failing);
    check_ok(call->context, hashattn_attention_new(call->context, mechanism, &call->attention));
    hashattn_problem_default(&call->problem);
    call->problem.num_heads = HEADS;
    call->problem.num_queries = call->problem.num_keys = call->problem.max_len = ROWS;
    call->problem.head_dim = call->problem.value_dim = DIM;
    for (size_t i = 0; i < ARRAYS; i++) {
        hashattn_fill_normal(1, i, call->numbers[i], FLOATS);
        call->arrays[i] = hashattn_array_of_heads(call->numbers[i], HEADS, ROWS, DIM);
    }
    size_t scratch_bytes;
    check_ok(call->context,
             hashattn_attention_sizes(call->attention, &call->problem, &call->saved_bytes, &scratch_bytes));
    call->saved = aligned_alloc(64, call->saved_bytes / 64 * 64 + 128);
    assert_non_null(call->saved);
    memset(call->saved, 0xa5, call->saved_bytes);
}

static void close_call(struct call *call)
{
    free(call->saved);
    hashattn_attention_free(call->attention);
    hashattn_context_free(call->context);
}

static hashattn_status forward(struct call *call)
{
    const hashattn_array *a = call->arrays;
    return hashattn_attention_forward(call->attention, &call->problem, &a[QUERY], &a[KEY], &a[VALUE], &a[OUT],
                                      call->saved, NULL);
}

static hashattn_status backward(struct call *call)
{
    const hashattn_array *a = call->arrays;
    return hashattn_attention_backward(call->attention, &call->problem, &a[QUERY], &a[KEY], &a[VALUE],
                                       &a[OUT], &a[DOUT], &a[DQUERY], &a[DKEY], &a[DVALUE], call->saved,
                                       NULL);
}

static hashattn_status own_loss(struct call *call)
{
    const hashattn_array *a = call->arrays;
    return hashattn_attention_own_loss(call->attention, &call->problem, &a[QUERY], &a[KEY], &a[VALUE],
                                       &call->loss, NULL, call->saved, NULL);
}

static bool has_backward(const char *mechanism)
{
    return strcmp(mechanism, "lss") != 0 && strcmp(mechanism, "hbe") != 0;
}

/* ---- the floating-point environment ---------------------------------------------------------------------
 */

static void run_all(struct call *call, const char *mechanism)
{
    open_call(call, mechanism, NULL);
    check_ok(call->context, forward(call));
    if (has_backward(mechanism))
        check_ok(call->context, backward(call));
    check_ok(call->context, own_loss(call));
}

static void compare_with(int rounding, int traps)
{
    static struct call plain, odd;
    hashattn_mechanism_info info = {.struct_size = sizeof info};
    for (size_t m = 0; hashattn_mechanism_get(m, &info) == 1; m++) {
        run_all(&plain, info.name);
        fesetround(rounding);
        feenableexcept(traps);
        run_all(&odd, info.name);
        assert_int_equal(fegetround(), rounding);
        assert_int_equal(fegetexcept() & traps, traps);
        fesetenv(FE_DFL_ENV);
        check_same_bits(plain.numbers, odd.numbers, sizeof plain.numbers, info.name);
        assert_true(plain.loss == odd.loss);
        close_call(&plain);
        close_call(&odd);
    }
}

static void traps_of_the_caller_do_not_end_a_call(void **state)
{
    (void)state;
    const int traps = FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW;
    bool can = feenableexcept(traps) != -1 && (fegetexcept() & traps) == traps;
    fesetenv(FE_DFL_ENV);
    if (!can) {
        print_message("SKIPPED: this processor has no traps\n");
        skip();
    }
    compare_with(FE_TONEAREST, traps);
}

static void rounding_of_the_caller_does_not_change_a_bit(void **state)
{
    (void)state;
    compare_with(FE_UPWARD, 0);
}

/* ---- what forward saved ---------------------------------------------------------------------------------
 */

static void other_blocks_are_refused(void **state)
{
    (void)state;
    static struct call call;
    hashattn_mechanism_info info = {.struct_size = sizeof info};
    size_t tagged = 0;
    for (size_t m = 0; hashattn_mechanism_get(m, &info) == 1; m++) {
        open_call(&call, info.name, NULL);
        if (has_backward(info.name) && call.saved_bytes > 0) {
            check_call(call.context, backward(&call), HASHATTN_INVALID,
                       "saved was not written by a forward that returned OK");
            check_call(call.context, own_loss(&call), HASHATTN_INVALID, "saved was not written");
            check_ok(call.context, forward(&call));
            check_ok(call.context, backward(&call));
            tagged++;
        } else if (has_backward(info.name)) { /* nothing to check, and no block is needed */
            free(call.saved);
            call.saved = NULL;
            check_ok(call.context, forward(&call));
            check_ok(call.context, backward(&call));
        }
        close_call(&call);
    }
    assert_true(tagged > 15);
}

static void another_problem_is_refused(void **state)
{
    (void)state;
    static struct call call;
    static uint8_t mask[ROWS];
    const char *other =
        "saved was written by a forward with another mechanism, other options or another problem";
    open_call(&call, "yoso", NULL);
    check_ok(call.context, forward(&call));
    call.problem.num_queries = call.problem.num_keys = ROWS - 1;
    check_call(call.context, backward(&call), HASHATTN_INVALID, other);
    call.problem.num_queries = call.problem.num_keys = ROWS;
    call.problem.seed = 1;
    check_call(call.context, backward(&call), HASHATTN_INVALID, other);
    call.problem.seed = 0;
    call.problem.key_mask = mask;
    memset(mask, 1, sizeof mask);
    check_call(call.context, backward(&call), HASHATTN_INVALID, other);
    check_ok(call.context, forward(&call));
    check_ok(call.context, backward(&call));
    mask[ROWS - 1] = 0;
    check_call(call.context, backward(&call), HASHATTN_INVALID, other);
    call.problem.key_mask = NULL;
    check_ok(call.context, forward(&call));
    check_ok(call.context, hashattn_attention_set(call.attention, "num_hashes", "31"));
    check_call(call.context, backward(&call), HASHATTN_INVALID, other);
    check_call(call.context, own_loss(&call), HASHATTN_INVALID, other);
    check_ok(call.context, hashattn_attention_set(call.attention, "num_hashes", "32"));
    check_ok(call.context, backward(&call));
    call.numbers[VALUE][3] = INFINITY;
    check_call(call.context, forward(&call), HASHATTN_INVALID, "value is inf");
    check_call(call.context, backward(&call), HASHATTN_INVALID, "saved was not written");
    close_call(&call);
}

/* ---- arrays that share memory ----------------------------------------------------------------------------
 */

static void outputs_share_no_memory(void **state)
{
    (void)state;
    static struct call call;
    static const char *const names[] = {"query", "key", "value", "out", "dout", "dquery", "dkey", "dvalue"};
    char message[100];
    open_call(&call, "softmax", NULL);
    for (size_t i = QUERY; i < OUT; i++) {
        hashattn_array out = call.arrays[OUT];
        call.arrays[OUT].data = (float *)call.arrays[i].data + FLOATS - 1;
        snprintf(message, sizeof message, "out overlaps %s: an output must not", names[i]);
        check_call(call.context, forward(&call), HASHATTN_INVALID, message);
        call.arrays[OUT] = out;
    }
    uint8_t *mask = (uint8_t *)call.numbers[OUT] + sizeof call.numbers[OUT] - ROWS;
    call.problem.key_mask = mask;
    check_call(call.context, forward(&call), HASHATTN_INVALID, "out overlaps key_mask");
    call.problem.key_mask = NULL;
    check_ok(call.context, forward(&call));
    for (size_t i = DQUERY; i < ARRAYS; i++)
        for (size_t j = 0; j < ARRAYS; j++) {
            hashattn_array written = call.arrays[i];
            if (i == j)
                continue;
            call.arrays[i].data = call.arrays[j].data;
            bool first = j < DQUERY || i < j;
            snprintf(message, sizeof message, "%s overlaps %s", names[first ? i : j], names[first ? j : i]);
            check_call(call.context, backward(&call), HASHATTN_INVALID, message);
            call.arrays[i] = written;
        }
    check_ok(call.context, backward(&call));
    close_call(&call);
}

static void gradients_of_parameters_share_no_memory(void **state)
{
    (void)state;
    static struct call call;
    open_call(&call, "lha", NULL);
    check_ok(call.context, forward(&call));
    const hashattn_array *a = call.arrays;
    float *dparams = (float *)a[KEY].data + FLOATS - 1;
    check_call(call.context,
               hashattn_attention_own_loss(call.attention, &call.problem, &a[QUERY], &a[KEY], &a[VALUE],
                                           &call.loss, dparams, call.saved, NULL),
               HASHATTN_INVALID, "dparams overlaps key");
    check_call(call.context,
               hashattn_attention_backward_params(call.attention, &call.problem, &a[QUERY], &a[KEY],
                                                  &a[VALUE], &a[OUT], &a[DOUT], &a[DQUERY], &a[DKEY],
                                                  &a[DVALUE], dparams, call.saved, NULL),
               HASHATTN_INVALID, "dparams overlaps key");
    close_call(&call);
}

/* Gradients as columns of one (rows, 3, heads, dim) matrix. */
static void outputs_may_interleave(void **state)
{
    (void)state;
    static struct call call;
    static float matrix[ROWS][3][HEADS][DIM];
    open_call(&call, "softmax", NULL);
    check_ok(call.context, forward(&call));
    check_ok(call.context, backward(&call));
    for (size_t i = 0; i < 3; i++)
        call.arrays[DQUERY + i] = (hashattn_array){
            .data = matrix[0][i], .row_stride = 3 * HEADS * DIM, .head_stride = DIM, .sequence_stride = 0};
    check_ok(call.context, backward(&call));
    for (size_t i = 0; i < 3; i++)
        for (size_t h = 0; h < HEADS; h++)
            for (size_t r = 0; r < ROWS; r++)
                check_same_bits(matrix[r][i][h], call.numbers[DQUERY + i] + (h * ROWS + r) * DIM,
                                DIM * sizeof(float), "an interleaved gradient");
    close_call(&call);
}

static void chunks_share_no_memory(void **state)
{
    (void)state;
    static struct call call;
    hashattn_stream *stream;
    open_call(&call, "yoso", NULL);
    hashattn_stream_options options;
    hashattn_stream_options_default(&options);
    options.num_heads = HEADS;
    options.head_dim = options.value_dim = DIM;
    options.chunk_rows = ROWS;
    options.causal = 1;
    check_ok(call.context, hashattn_stream_new(call.attention, &options, &stream));
    hashattn_chunk chunk = {.struct_size = sizeof chunk,
                            .rows = ROWS,
                            .query = call.arrays[QUERY],
                            .key = call.arrays[KEY],
                            .value = call.arrays[VALUE],
                            .out = call.arrays[VALUE]};
    check_call(call.context, hashattn_stream_read(stream, &chunk), HASHATTN_INVALID, "out overlaps value");
    chunk.out = call.arrays[OUT];
    check_ok(call.context, hashattn_stream_read(stream, &chunk));
    hashattn_stream_free(stream);
    close_call(&call);
}

/* ---- sizes -----------------------------------------------------------------------------------------------
 */

static void sizes_and_refusals_draw_nothing(void **state)
{
    (void)state;
    struct failing_host failing;
    size_t saved_bytes, scratch_bytes;
    const size_t longest = (size_t)1 << 24;
    static struct call call;
    failing_host_init(&failing, -1);
    open_call(&call, "linformer", &failing);
    call.problem.max_len = longest;
    check_ok(call.context,
             hashattn_attention_sizes(call.attention, &call.problem, &saved_bytes, &scratch_bytes));
    call.problem.causal = 1;
    check_call(call.context,
               hashattn_attention_sizes(call.attention, &call.problem, &saved_bytes, &scratch_bytes),
               HASHATTN_REFUSED, "linformer");
    assert_true(failing.largest < longest);
    close_call(&call);
    assert_int_equal(failing.outstanding, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traps_of_the_caller_do_not_end_a_call),
        cmocka_unit_test(rounding_of_the_caller_does_not_change_a_bit),
        cmocka_unit_test(other_blocks_are_refused),
        cmocka_unit_test(another_problem_is_refused),
        cmocka_unit_test(outputs_share_no_memory),
        cmocka_unit_test(gradients_of_parameters_share_no_memory),
        cmocka_unit_test(outputs_may_interleave),
        cmocka_unit_test(chunks_share_no_memory),
        cmocka_unit_test(sizes_and_refusals_draw_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
