/* A mechanism is one file and one row: the test mechanisms, added to the table by mechanism_seam_mechanisms.c
   and by nothing else, work through the public interface. Learned tensors sized by the longest length are
   trained, saved, resumed bit for bit and evaluated; a batch that a mechanism refuses is a named error in
   training and in evaluation; limits are reported. Bugs planted and caught: no check before a training batch,
   or before an evaluated one; only the first sequence of a batch checked, or only the first group of heads;
   max_len not passed to the blocks, or one less; a 17th tensor accepted; a list of names that fills the
   message; the range of the first mechanism used for all; a mechanism without a backward pass trained, or
   only the first of a plan checked, its gradients computed by the operator, its layer measured as in
   training.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/tiny_run.h"

static char *bytes_of(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("%s does not exist", path);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static void check_same_files(const char *a, const char *b)
{
    size_t size_a, size_b;
    char *bytes_a = bytes_of(a, &size_a), *bytes_b = bytes_of(b, &size_b);
    assert_int_equal(size_a, size_b);
    check_same_bits(bytes_a, bytes_b, size_a, a);
    free(bytes_a);
    free(bytes_b);
}

static int stop_at_three(void *user, const hashattn_progress *progress)
{
    (void)user;
    return progress->step >= 3;
}

static void tensors_by_length_are_trained_and_resumed(void **state)
{
    (void)state;
    static const char *const plans[] = {"placed", "placed*1,linear*1", "full"};
    hashattn_context *context = context_with(2, NULL);
    tiny_data(context, "data");
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        char whole[40], part[40], a[80], b[80];
        snprintf(whole, sizeof whole, "whole-%zu", i);
        snprintf(part, sizeof part, "part-%zu", i);
        hashattn_setup *setup = tiny_setup(context, plans[i], 6);
        check_ok(context, hashattn_train(setup, "data", whole, NULL, NULL));
        check_call(context, hashattn_train(setup, "data", part, stop_at_three, NULL), HASHATTN_INTERRUPTED,
                   NULL);
        check_ok(context, hashattn_train_resume(context, part, NULL, NULL));
        snprintf(a, sizeof a, "%s/last.safetensors", whole);
        snprintf(b, sizeof b, "%s/last.safetensors", part);
        check_same_files(a, b);
        size_t size;
        char *header = bytes_of(a, &size);
        const char *name = i == 1 ? "attention.own.placed.place\"" : "attention.own.place\"";
        const char *at = memmem(header, size, name, strlen(name));
        assert_non_null(at);
        /* (heads with this mechanism, longest length, 1) */
        const char *shape = i == 1 ? "[1, 8, 1]" : "[2, 8, 1]";
        if (memmem(at, 120, shape, strlen(shape)) == NULL)
            fail_msg("%s does not have the shape %s: %.120s", name, shape, at);
        free(header);
        hashattn_model *model;
        check_ok(context, hashattn_model_load(context, whole, &model));
        hashattn_evaluation found = {.struct_size = sizeof found};
        check_ok(context, hashattn_model_evaluate(model, NULL, "test", 3, &found));
        assert_int_equal(found.examples, 10);
        hashattn_model_free(model);
        hashattn_setup_free(setup);
    }
    hashattn_context_free(context);
}

/* Writes needles of 3, 4, ... tokens, the question included. */
static void write_lengths(const char *path, const char *lengths)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (; *lengths != '\0'; lengths++)
        fprintf(file, "b\t?B%.*s\n", *lengths - '2', "acdefgh");
    fclose(file);
}

static hashattn_status train_on(hashattn_context *context, const char *plan, const char *option,
                                const char *train, const char *valid, const char *run)
{
    hashattn_setup *setup = tiny_setup(context, plan, 4);
    check_ok(context, hashattn_setup_set(setup, option, "5"));
    write_lengths("lengths/train.tsv", train);
    write_lengths("lengths/valid.tsv", valid);
    hashattn_status status = hashattn_train(setup, "lengths", run, NULL, NULL);
    hashattn_setup_free(setup);
    return status;
}

static void a_batch_that_is_refused_is_a_named_error(void **state)
{
    (void)state;
    hashattn_context *context = context_with(2, NULL);
    tiny_data(context, "lengths");
    write_lengths("lengths/test.tsv", "888844444444");
    check_ok(context, train_on(context, "placed", "refused_len", "3468", "3468", "good"));
    check_call(context, train_on(context, "placed", "refused_len", "6658", "8", "bad"), HASHATTN_REFUSED,
               "placed: refused_len is the number of keys (sequence ");
    if (strstr(hashattn_context_message(context), ": 5 queries, 5 keys, head_dim 4, max_len 8)") == NULL)
        fail_msg("%s", hashattn_context_message(context));
    /* All three in one batch. */
    check_call(context, train_on(context, "placed", "refused_len", "333383888853", "8", "later"),
               HASHATTN_REFUSED, "placed: refused_len is the number of keys (sequence ");
    check_call(context, train_on(context, "linear*1,placed*1", "refused_len", "6658", "8", "second"),
               HASHATTN_REFUSED, "placed: refused_len is the number of keys (sequence ");
    check_call(context, train_on(context, "placed", "refused_len", "6688", "8758", "unseen"),
               HASHATTN_REFUSED, "placed: refused_len is the number of keys (sequence 2: 5 queries");
    /* Evaluates a trained model on data that it cannot handle. */
    hashattn_model *model;
    hashattn_evaluation found = {.struct_size = sizeof found};
    check_ok(context, hashattn_model_load(context, "good", &model));
    check_ok(context, hashattn_model_evaluate(model, "lengths", "test", 4, &found));
    write_lengths("lengths/test.tsv", "33335");
    check_call(context, hashattn_model_evaluate(model, "lengths", "test", 4, &found), HASHATTN_REFUSED,
               "placed: refused_len is the number of keys (sequence 0: 5 queries");
    hashattn_model_free(model);
    hashattn_context_free(context);
}

static void limits_are_reported(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    tiny_data(context, "limits");
    hashattn_setup *setup = tiny_setup(context, "crowded", 2);
    check_call(context, hashattn_train(setup, "limits", "crowded", NULL, NULL), HASHATTN_INVALID,
               "crowded has more than 16 learned tensors: 'spare_17' is one too many");
    check_call(
        context, hashattn_setup_mechanism(setup, "nobody"), HASHATTN_INVALID,
        "no mechanism 'nobody', there are: softmax, none, yoso, linear, blind, competing, narrow, placed, "
        "full, crowded, outputs, filler-with-a-long-name-a, ");
    const char *message = hashattn_context_message(context);
    assert_string_equal(message + strlen(message) - 5, ", ...");
    hashattn_setup_free(setup);
    hashattn_context_free(context);
}

/* features: 1 to 16 of linear, 1 to 8 of narrow. */
static void each_mechanism_checks_its_own_range(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    static const char *const plans[] = {"linear*1,narrow*1", "narrow*1,linear*1"};
    for (size_t i = 0; i < 2; i++) {
        hashattn_setup *setup = tiny_setup(context, plans[i], 2);
        char text[20];
        check_call(context, hashattn_setup_set(setup, "features", "12"), HASHATTN_INVALID,
                   "narrow: features is 12, allowed are 1 to 8");
        check_call(context, hashattn_setup_set(setup, "narrow.features", "9"), HASHATTN_INVALID,
                   "narrow: features is 9, allowed are 1 to 8");
        check_call(context, hashattn_setup_set(setup, "features", "17"), HASHATTN_INVALID,
                   i == 0 ? "linear: features is 17, allowed are 1 to 16"
                          : "narrow: features is 17, allowed are 1 to 8");
        check_ok(context, hashattn_setup_set(setup, "linear.features", "12"));
        check_ok(context, hashattn_setup_set(setup, "narrow.features", "8"));
        check_ok(context, hashattn_setup_get(setup, "linear.features", text, sizeof text));
        assert_string_equal(text, "12");
        check_ok(context, hashattn_setup_get(setup, "narrow.features", text, sizeof text));
        assert_string_equal(text, "8");
        hashattn_setup_free(setup);
    }
    hashattn_context_free(context);
}

/* Refused before a file is written; outputs can be computed. */
static void a_mechanism_without_backward_is_not_trained(void **state)
{
    (void)state;
    static const char why[] = "outputs has no backward pass: it computes outputs, but no gradients";
    static const char *const plans[] = {"outputs", "linear*1,outputs*1"};
    hashattn_context *context = context_with(1, NULL);
    tiny_data(context, "outputs");
    for (size_t i = 0; i < 2; i++) {
        hashattn_setup *setup = tiny_setup(context, plans[i], 2);
        hashattn_layer_cost cost = {.struct_size = sizeof cost};
        check_call(context, hashattn_train(setup, "outputs", "untrained", NULL, NULL), HASHATTN_REFUSED, why);
        FILE *file = fopen("untrained/config.json", "rb");
        assert_null(file);
        check_call(context, hashattn_measure_layer(setup, 5, 1, 1, &cost), HASHATTN_REFUSED, why);
        check_ok(context, hashattn_measure_layer(setup, 5, 0, 1, &cost));
        hashattn_setup_free(setup);
    }
    hashattn_attention *attention;
    hashattn_problem problem;
    float x[6] = {1, 2, 3, 4, 5, 6}, out[6] = {7, 7, 7, 7, 7, 7}, dx[3][6] = {{0}};
    hashattn_array rows = hashattn_array_of_rows(x, 1, 2, 3), output = hashattn_array_of_rows(out, 1, 2, 3);
    hashattn_array gradients[3];
    for (size_t i = 0; i < 3; i++)
        gradients[i] = hashattn_array_of_rows(dx[i], 1, 2, 3);
    hashattn_problem_default(&problem);
    problem.num_queries = problem.num_keys = 2;
    problem.head_dim = problem.value_dim = 3;
    check_ok(context, hashattn_attention_new(context, "outputs", &attention));
    check_ok(context,
             hashattn_attention_forward(attention, &problem, &rows, &rows, &rows, &output, NULL, NULL));
    for (size_t i = 0; i < 6; i++)
        assert_true(out[i] == 0);
    check_call(context,
               hashattn_attention_backward(attention, &problem, &rows, &rows, &rows, &output, &rows,
                                           &gradients[0], &gradients[1], &gradients[2], NULL, NULL),
               HASHATTN_REFUSED, why);
    hashattn_attention_free(attention);
    hashattn_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_by_length_are_trained_and_resumed),
        cmocka_unit_test(a_batch_that_is_refused_is_a_named_error),
        cmocka_unit_test(limits_are_reported),
        cmocka_unit_test(each_mechanism_checks_its_own_range),
        cmocka_unit_test(a_mechanism_without_backward_is_not_trained),
    };
    tiny_enter();
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    tiny_leave();
    return failures;
}
