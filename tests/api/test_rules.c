/* The rules of attention.h for the whole library: a NULL argument is explained, a failed call leaves no
   object, lists, sizes and texts do not depend on the caller's floating-point environment, a child of fork()
   computes the same bits, and a stack of 256 KiB suffices. Planted and caught: FLOATING_DEFAULT left out of
   the sizes, the text of a value and the three lists of options; NULL results without a message; objects
   left as they were; workers awaited in a forked child; 300 KB of a unit of work, the products of the
   peak, or 288 KiB of rows rounded for a product in bfloat16, on the stack.
   SPDX-License-Identifier: Apache-2.0 */
#include <fenv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/api_context.h"
#include "support/folder.h"
#include "support/tiny_run.h"

enum { HEADS = 4, ROWS = 70, DIM = 33, FLOATS = HEADS * ROWS * DIM };

static void a_missing_result_is_explained(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_attention *attention;
    hashattn_stream_options options;
    hashattn_stream *stream;
    check_ok(context, hashattn_attention_new(context, "yoso", &attention));
    hashattn_stream_options_default(&options);
    options.head_dim = options.value_dim = 4;
    check_ok(context, hashattn_stream_new(attention, &options, &stream));
    check_call(context, hashattn_attention_new(context, "yoso", NULL), HASHATTN_INVALID, "attention is NULL");
    check_call(context, hashattn_setup_new(context, "text", NULL), HASHATTN_INVALID, "setup is NULL");
    check_call(context, hashattn_model_load(context, "run", NULL), HASHATTN_INVALID, "model is NULL");
    check_call(context, hashattn_pretrained_load(context, "run", NULL, NULL), HASHATTN_INVALID,
               "pretrained is NULL");
    check_call(context, hashattn_device_allocate(context, 1, NULL), HASHATTN_INVALID, "block is NULL");
    check_call(context, hashattn_stream_merge(stream, NULL), HASHATTN_INVALID, "from is NULL");
    hashattn_stream_free(stream);
    hashattn_attention_free(attention);
    hashattn_context_free(context);
}

/* Passes NULL for the first arguments, so that each function fails as early as it can. */
static void a_failed_call_leaves_no_object(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL), *none = context;
    hashattn_npy array;
    size_t dim;
#define CHECK_NULL(type, ...)                                                                                \
    do {                                                                                                     \
        type *object = (type *)(void *)&dim;                                                                 \
        assert_int_equal(__VA_ARGS__, HASHATTN_INVALID);                                                     \
        assert_null(object);                                                                                 \
    } while (0)
    for (int i = 0; i < 2; i++, none = NULL) {
        CHECK_NULL(hashattn_attention, hashattn_attention_new(none, NULL, &object));
        CHECK_NULL(hashattn_cache, hashattn_cache_new(none, NULL, &object));
        CHECK_NULL(hashattn_cache, hashattn_cache_load(none, NULL, &object));
        CHECK_NULL(hashattn_density, hashattn_density_new(none, 0, NULL, &object));
        CHECK_NULL(hashattn_density, hashattn_density_load(none, NULL, &object));
        CHECK_NULL(hashattn_setup, hashattn_setup_new(none, NULL, &object));
        CHECK_NULL(hashattn_model, hashattn_model_load(none, NULL, &object));
        CHECK_NULL(hashattn_pretrained, hashattn_pretrained_load(none, NULL, NULL, &object));
        CHECK_NULL(hashattn_tokenizer, hashattn_tokenizer_load(none, NULL, &object));
        CHECK_NULL(hashattn_tokenizer, hashattn_tokenizer_learn(none, NULL, 0, NULL, &object));
        CHECK_NULL(hashattn_records, hashattn_records_open(none, NULL, 0, &object));
        CHECK_NULL(hashattn_rows, hashattn_rows_open(none, NULL, &object, &dim));
        CHECK_NULL(hashattn_npy_reader, hashattn_npy_open(none, NULL, &array, &object));
        CHECK_NULL(hashattn_npy_writer, hashattn_npy_begin(none, NULL, 0, NULL, &object));
        CHECK_NULL(hashattn_file, hashattn_file_begin(none, NULL, &object));
        CHECK_NULL(void, hashattn_device_allocate(none, 0, &object));
    }
    CHECK_NULL(hashattn_density, hashattn_density_new_like(NULL, &object));
    CHECK_NULL(hashattn_stream, hashattn_stream_new(NULL, NULL, &object));
    hashattn_context_free(context);
}

/* ---- the floating-point environment ----------------------------------------------------------------------
 */

static void add(char **at, const char *text, size_t number)
{
    *at += sprintf(*at, "%s %zu ", text, number);
}

/* Everything that functions without a status tell of options and sizes. */
static void numbers_of(const hashattn_setup *setup, hashattn_attention *const *attentions,
                       const hashattn_value *record, char *at)
{
    hashattn_option option = {.struct_size = sizeof option};
    hashattn_mechanism_info info = {.struct_size = sizeof info};
    hashattn_tensor tensor = {.struct_size = sizeof tensor};
    hashattn_problem problem;
    char number[HASHATTN_NUMBER_TEXT];
    size_t saved, scratch;
    hashattn_problem_default(&problem);
    problem.num_queries = problem.num_keys = problem.max_len = ROWS;
    problem.head_dim = problem.value_dim = DIM;
    for (size_t m = 0; hashattn_mechanism_get(m, &info) == 1; m++) {
        for (size_t i = 0; hashattn_mechanism_option(m, i, &option) == 1; i++)
            add(&at, option.preset, i);
        for (size_t i = 0; hashattn_attention_tensor(attentions[m], DIM, DIM, ROWS, i, &tensor) == 1; i++)
            add(&at, tensor.name, tensor.rows * 1000 + tensor.cols);
        assert_int_equal(hashattn_attention_sizes(attentions[m], &problem, &saved, &scratch), HASHATTN_OK);
        add(&at, info.name, saved);
        add(&at, info.name, scratch);
    }
    for (size_t t = 0; t < hashattn_task_count(); t++)
        for (size_t i = 0; hashattn_task_option(t, i, &option) == 1; i++)
            add(&at, option.preset, i);
    for (size_t i = 0; hashattn_setup_option(setup, i, &option) == 1; i++)
        add(&at, option.preset, i);
    add(&at, hashattn_value_text(hashattn_value_find(record, "rate"), number), 0);
}

static void the_callers_environment_changes_no_text_and_no_size(void **state)
{
    enum { MOST = 100 };
    const struct folder *folder = *state;
    static char plain[1 << 18], other[1 << 18];
    char path[100];
    hashattn_context *context = context_with(1, NULL);
    hashattn_attention *attentions[MOST] = {NULL};
    hashattn_mechanism_info info = {.struct_size = sizeof info};
    hashattn_setup *setup;
    hashattn_records *records;
    const hashattn_value *record;
    snprintf(path, sizeof path, "%s/record.json", folder->path);
    folder_put_text(folder, "record.json", "{\"rate\": 0.30000000000000004}\n");
    check_ok(context, hashattn_records_open(context, path, 1, &records));
    check_ok(context, hashattn_records_next(records, &record));
    check_ok(context, hashattn_setup_new(context, "text", &setup));
    assert_true(hashattn_mechanism_count() <= MOST);
    for (size_t m = 0; hashattn_mechanism_get(m, &info) == 1; m++)
        check_ok(context, hashattn_attention_new(context, info.name, &attentions[m]));
    numbers_of(setup, attentions, record, plain);
    static const int rounding[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    for (size_t i = 0; i < 3; i++) {
        for (size_t m = 0; m < MOST; m++) { /* no plan is kept */
            hashattn_attention_free(attentions[m]);
            attentions[m] = NULL;
        }
        for (size_t m = 0; hashattn_mechanism_get(m, &info) == 1; m++)
            check_ok(context, hashattn_attention_new(context, info.name, &attentions[m]));
        fesetround(rounding[i]);
        feenableexcept(FE_ALL_EXCEPT); /* -1 on a processor without traps */
        numbers_of(setup, attentions, record, other);
        assert_int_equal(fegetround(), rounding[i]);
        fesetenv(FE_DFL_ENV);
        assert_string_equal(plain, other);
    }
    for (size_t m = 0; m < MOST; m++)
        hashattn_attention_free(attentions[m]);
    hashattn_setup_free(setup);
    hashattn_records_close(records);
    hashattn_context_free(context);
}

/* ---- processes and threads -------------------------------------------------------------------------------
 */

/* Attention of two threads, and the next token of a cache: 0, or the number of the call that failed. */
static int compute(hashattn_context *context, const float *numbers, float *out)
{
    const hashattn_array input = hashattn_array_of_heads((float *)numbers, HEADS, ROWS, DIM),
                         output = hashattn_array_of_heads(out, HEADS, ROWS, DIM),
                         rows = hashattn_array_of_rows((float *)numbers, 1, HEADS * ROWS, DIM),
                         last = hashattn_array_of_rows(out + FLOATS, 1, 1, DIM);
    hashattn_attention *attention;
    hashattn_problem problem;
    hashattn_cache_options options;
    hashattn_cache *cache;
    hashattn_problem_default(&problem);
    problem.num_heads = HEADS;
    problem.num_queries = problem.num_keys = problem.max_len = ROWS;
    problem.head_dim = problem.value_dim = DIM;
    static const char *const mechanisms[] = {"softmax", "sinkhorn", "yoso"}, *const choices[] = {"hashed",
                                                                                                 "lsh"};
    for (int m = 0; m < 3; m++) {
        if (hashattn_attention_new(context, mechanisms[m], &attention) != HASHATTN_OK)
            return 1;
        hashattn_status status =
            hashattn_attention_forward(attention, &problem, &input, &input, &input, &output, NULL, NULL);
        hashattn_attention_free(attention);
        if (status != HASHATTN_OK)
            return 2;
    }
    for (int m = 0; m < 2; m++) {
        hashattn_cache_options_default(&options);
        options.mechanism = choices[m];
        options.head_dim = DIM;
        if (hashattn_cache_new(context, &options, &cache) != HASHATTN_OK)
            return 3;
        hashattn_status status =
            hashattn_cache_append(cache, HEADS * ROWS, HASHATTN_FLOAT32, &rows, &rows, NULL);
        if (status == HASHATTN_OK)
            status = hashattn_cache_attend(cache, 1, HASHATTN_FLOAT32, &rows, &last);
        hashattn_cache_free(cache);
        if (status != HASHATTN_OK)
            return 4;
    }
    return 0;
}

static void a_child_of_fork_computes_the_same_bits(void **state)
{
    (void)state;
    static float numbers[FLOATS], parents[FLOATS + DIM], childs[FLOATS + DIM];
    hashattn_context *context = context_with(3, NULL);
    hashattn_fill_normal(1, 0, numbers, FLOATS);
    assert_int_equal(compute(context, numbers, parents), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60); /* instead of waiting for threads that a child has not */
        int failed = compute(context, numbers, childs);
        if (failed == 0)
            failed = memcmp(parents, childs, sizeof parents) == 0 ? 0 : 5;
        hashattn_context_free(context);
        _exit(failed);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(compute(context, numbers, parents), 0);
    hashattn_context_free(context);
}

static void *compute_here(void *result)
{
    static float numbers[FLOATS], out[FLOATS + DIM];
    hashattn_context *context;
    hashattn_context_options options;
    hashattn_peak peak = {.struct_size = sizeof peak};
    hashattn_context_options_default(&options);
    options.threads = 1; /* everything on this stack */
    hashattn_fill_normal(1, 0, numbers, FLOATS);
    *(int *)result = -1;
    if (hashattn_context_new(&options, NULL, 0, &context) != HASHATTN_OK)
        return NULL;
    *(int *)result = compute(context, numbers, out);
    if (*(int *)result == 0 && hashattn_measure_peak(context, 0.01, &peak) != HASHATTN_OK)
        *(int *)result = 5;
    hashattn_context_free(context);
    return NULL;
}

static void *train_here(void *result)
{
    hashattn_context_options options;
    hashattn_context *context;
    hashattn_context_options_default(&options);
    options.threads = 1;
    options.precision = "bf16";
    *(int *)result = -1;
    if (hashattn_context_new(&options, NULL, 0, &context) != HASHATTN_OK)
        return NULL;
    tiny_data(context, "data");
    hashattn_setup *setup = tiny_setup(context, "yoso", 2);
    *(int *)result = hashattn_train(setup, "data", "run", NULL, NULL);
    hashattn_setup_free(setup);
    hashattn_context_free(context);
    return NULL;
}

static void run_on_256_kib(void *(*run)(void *))
{
    pthread_attr_t small;
    pthread_t thread;
    int result = -2;
    pthread_attr_init(&small);
    assert_int_equal(pthread_attr_setstacksize(&small, (size_t)256 << 10), 0);
    assert_int_equal(pthread_create(&thread, &small, run, &result), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&small);
    assert_int_equal(result, 0);
}

static void a_stack_of_256_kib_suffices(void **state)
{
    (void)state;
    run_on_256_kib(compute_here);
    tiny_enter();
    run_on_256_kib(train_here);
    tiny_leave();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_result_is_explained),
        cmocka_unit_test(a_failed_call_leaves_no_object),
        cmocka_unit_test_setup_teardown(the_callers_environment_changes_no_text_and_no_size, folder_enter,
                                        folder_leave),
        cmocka_unit_test(a_child_of_fork_computes_the_same_bits),
        cmocka_unit_test(a_stack_of_256_kib_suffices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
