/* Text through the public interface: what the callback gets, stops, defaults, and what is refused; failing
   allocations.
   Planted and caught: tokens of the prompt counted as those of a text; a callback that cannot stop; stop
   texts ignored; learned positions that end in the middle; another seed with the same text; a text that is
   not ended by a NUL; the first call left out; a default number of tokens that nobody asked for in a message.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "support/tiny_run.h"

static hashattn_status train_letters(hashattn_context *context, const char *run, const char *positions)
{
    const char *const options[][2] = {{"seq_len", "16"},       {"steps", "30"},     {"eval_every", "30"},
                                      {"warmup", "3"},         {"layers", "1"},     {"dim", "16"},
                                      {"heads", "2"},          {"ffn", "16"},       {"batch", "8"},
                                      {"hash_bits", "3"},      {"num_hashes", "4"}, {"learning_rate", "0.03"},
                                      {"positions", positions}};
    hashattn_setup *setup;
    hashattn_status status = hashattn_setup_new(context, "lm", &setup);
    if (status == HASHATTN_OK)
        status = hashattn_setup_mechanism(setup, "yoso*1,softmax*1");
    for (size_t i = 0; i < sizeof options / sizeof *options && status == HASHATTN_OK; i++)
        status = hashattn_setup_set(setup, options[i][0], options[i][1]);
    if (status == HASHATTN_OK)
        status = hashattn_train(setup, "letters", run, NULL, NULL);
    hashattn_setup_free(setup);
    return status;
}

static void put_letters(const char *path)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < 4000; i++)
        fputc("abcdefg"[i % 7], file);
    fclose(file);
}

struct seen {
    char texts[3][400];
    size_t calls, tokens[3], done, stopped, stop_after, prompt;
    double rate;
};

static int see(void *user, const hashattn_generated *generated)
{
    struct seen *seen = user;
    assert_true(generated->struct_size == sizeof *generated && generated->text < 3);
    assert_int_equal(strlen(generated->added), generated->size);
    if (seen->calls++ == 0) {
        assert_true(generated->tokens == 0 && generated->size == 0 && generated->prompt_seconds > 0);
        assert_true(generated->prompt_unknown == 0 && generated->recomputes == NULL);
        seen->prompt = generated->prompt_tokens;
        return 0;
    }
    assert_int_equal(generated->tokens, ++seen->tokens[generated->text]);
    strcat(seen->texts[generated->text], generated->added);
    seen->done += generated->done != 0;
    seen->stopped += generated->stopped != 0;
    seen->rate = generated->tokens_per_second;
    return seen->calls == seen->stop_after;
}

static hashattn_generate_options options_of(size_t max_tokens, double temperature)
{
    hashattn_generate_options options;
    hashattn_generate_options_default(&options);
    assert_true(options.temperature == 1 && options.top_p == 1 && options.num_texts == 1 &&
                options.top_k == 0);
    options.max_tokens = max_tokens;
    options.temperature = temperature;
    return options;
}

static void texts_follow_a_prompt(void **state)
{
    (void)state;
    hashattn_context *context = context_with(2, NULL);
    hashattn_model *model;
    check_ok(context, train_letters(context, "run", "sinusoidal"));
    check_ok(context, hashattn_model_load(context, "run", &model));
    struct seen seen = {.calls = 0};
    hashattn_generate_options options = options_of(40, 0);
    options.num_texts = 2;
    check_ok(context, hashattn_model_generate(model, "abcdexx", 5, &options, see, &seen));
    assert_string_equal(seen.texts[0], "fgabcdefgabcdefgabcdefgabcdefgabcdefgabc");
    assert_string_equal(seen.texts[1], seen.texts[0]);
    assert_true(seen.calls == 81 && seen.done == 2 && seen.stopped == 0 && seen.prompt == 5 && seen.rate > 0);

    const char *const stops[] = {"zz", "ef"};
    struct seen stopped = {.calls = 0};
    options = options_of(0, 0);
    options.stops = stops;
    options.num_stops = 2;
    check_ok(context, hashattn_model_generate(model, "fg", 2, &options, see, &stopped));
    assert_string_equal(stopped.texts[0], "abcd");
    assert_true(stopped.tokens[0] == 6 && stopped.done == 1 && stopped.stopped == 1);

    struct seen seeds[3] = {{.calls = 0}};
    for (size_t i = 0; i < 3; i++) {
        options = options_of(60, 5);
        options.seed = i == 2;
        check_ok(context, hashattn_model_generate(model, NULL, 0, &options, see, &seeds[i]));
        assert_int_equal(seeds[i].prompt, 1);
    }
    assert_string_equal(seeds[0].texts[0], seeds[1].texts[0]);
    assert_string_not_equal(seeds[0].texts[0], seeds[2].texts[0]);

    struct seen interrupted = {.stop_after = 4};
    options = options_of(40, 0);
    check_call(context, hashattn_model_generate(model, "a", 1, &options, see, &interrupted),
               HASHATTN_INTERRUPTED, "stopped after 3 tokens of text 1");
    assert_int_equal(interrupted.calls, 4);
    hashattn_model_free(model);
    hashattn_context_free(context);
}

static void learned_positions_end(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_model *model;
    check_ok(context, train_letters(context, "learned", "learned"));
    check_ok(context, hashattn_model_load(context, "learned", &model));
    struct seen seen = {.calls = 0}, full = {.calls = 0};
    hashattn_generate_options options = options_of(0, 0);
    check_ok(context, hashattn_model_generate(model, "abcde", 5, &options, see, &seen));
    assert_string_equal(seen.texts[0], "fgabcdefgabc"); /* 16 positions: 5, and all tokens but the last */
    check_ok(context, hashattn_model_generate(model, "abcdefgabcdefgab", 16, &options, see, &full));
    assert_string_equal(full.texts[0], "c");
    options.max_tokens = 13;
    check_call(context, hashattn_model_generate(model, "abcde", 5, &options, see, &seen), HASHATTN_INVALID,
               "a prompt of 5 tokens and 13 more need 17 positions, the model has learned 16");
    options.max_tokens = 0;
    check_call(context, hashattn_model_generate(model, "abcdefgabcdefgabc", 17, &options, see, &seen),
               HASHATTN_INVALID,
               "a prompt of 17 tokens and 1 more need 17 positions, the model has learned 16");
    hashattn_model_free(model);
    hashattn_context_free(context);
}

static void what_is_refused(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_model *model;
    struct seen seen = {.calls = 0};
    check_ok(context, train_letters(context, "asked", "none"));
    check_ok(context, hashattn_model_load(context, "asked", &model));
    static const struct {
        double temperature, top_p;
        size_t num_texts;
        const char *part;
    } cases[] = {
        {-1, 1, 1, "temperature is -1, allowed are 0 and finite positive numbers"},
        {NAN, 1, 1, "temperature is nan"},
        {INFINITY, 1, 1, "temperature is inf"},
        {1, 0, 1, "top_p is 0, allowed are numbers above 0 up to 1"},
        {1, 1.5, 1, "top_p is 1.5"},
        {1, NAN, 1, "top_p is nan"},
        {1, 1, 0, "the number of texts is 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hashattn_generate_options options = options_of(4, cases[i].temperature);
        options.top_p = cases[i].top_p;
        options.num_texts = cases[i].num_texts;
        check_call(context, hashattn_model_generate(model, "a", 1, &options, see, &seen), HASHATTN_INVALID,
                   cases[i].part);
    }
    hashattn_generate_options options = options_of(4, 0);
    const char *const empty[] = {"x", ""}, *const null[] = {NULL};
    options.stops = empty;
    options.num_stops = 2;
    check_call(context, hashattn_model_generate(model, "a", 1, &options, see, &seen), HASHATTN_INVALID,
               "stop text 2 is empty");
    options.stops = null;
    options.num_stops = 1;
    check_call(context, hashattn_model_generate(model, "a", 1, &options, see, &seen), HASHATTN_INVALID,
               "stop text 1 is NULL");
    options.stops = NULL;
    check_call(context, hashattn_model_generate(model, "a", 1, &options, see, &seen), HASHATTN_INVALID,
               "options.stops is NULL for 1 stop texts");
    options.num_stops = 0;
    options.max_tokens = (size_t)1 << 40;
    check_call(context, hashattn_model_generate(model, "a", 1, &options, see, &seen), HASHATTN_INVALID,
               "is too long");
    options.max_tokens = 1;
    check_call(context, hashattn_model_generate(model, NULL, 3, &options, see, &seen), HASHATTN_INVALID,
               "prompt is NULL");
    check_call(context, hashattn_model_generate(model, "a", 1, &options, NULL, NULL), HASHATTN_INVALID,
               "callback is NULL");
    check_call(context, hashattn_model_generate(model, "a", 1, NULL, see, &seen), HASHATTN_INVALID,
               "options is NULL");
    options.struct_size = 8;
    check_call(context, hashattn_model_generate(model, "a", 1, &options, see, &seen), HASHATTN_INVALID,
               "struct_size is 8");
    assert_int_equal(hashattn_model_generate(NULL, "a", 1, &options, see, &seen), HASHATTN_INVALID);
    assert_int_equal(seen.calls, 0);
    hashattn_model_free(model);
    tiny_data(context, "needles");
    hashattn_setup *setup = tiny_setup(context, "softmax", 2);
    check_ok(context, hashattn_train(setup, "needles", "finder", NULL, NULL));
    hashattn_setup_free(setup);
    check_ok(context, hashattn_model_load(context, "finder", &model));
    options = options_of(4, 0);
    check_call(context, hashattn_model_generate(model, "a", 1, &options, see, &seen), HASHATTN_REFUSED,
               "a run of needle does not generate text: only lm predicts the next token");
    hashattn_model_free(model);
    hashattn_context_free(context);
}

static hashattn_status generate_some(hashattn_context *context, void *user)
{
    (void)user;
    hashattn_model *model = NULL;
    struct seen seen = {.calls = 0};
    hashattn_generate_options options = options_of(20, 1);
    const char *const stops[] = {"none"};
    options.stops = stops;
    options.num_stops = 1;
    hashattn_status status = hashattn_model_load(context, "kept", &model);
    if (status == HASHATTN_OK)
        status = hashattn_model_generate(model, "abc", 3, &options, see, &seen);
    hashattn_model_free(model);
    return status;
}

static void memory_may_run_out(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    check_ok(context, train_letters(context, "kept", "sinusoidal"));
    hashattn_context_free(context);
    check_every_failing_allocation(generate_some, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_follow_a_prompt),
        cmocka_unit_test(learned_positions_end),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(memory_may_run_out),
    };
    tiny_enter();
    assert_int_equal(mkdir("letters", 0700), 0);
    put_letters("letters/train.txt");
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    tiny_leave();
    return failures;
}
