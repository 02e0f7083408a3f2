/* Starting from a stored model through the public functions: options of the architecture, mechanisms, the
   order of calls, words that are scaled, frozen names, and a setup that is used twice. Bugs planted and
   caught: the same value of a fixed option refused; the message with the value exchanged; a mechanism of the
   task's preset after the stored one; a size refused without its name; the tokenizer gone for the second
   training; the stored model leaked by a second call, or if its mechanism cannot be made; a size of the
   vocabulary ignored if it was set before the stored model, or after it.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/weights/safetensors.h"
#include "support/tiny_run.h"

static void check_value(hashattn_context *context, hashattn_setup *setup, const char *name, const char *want)
{
    char text[64];
    check_ok(context, hashattn_setup_get(setup, name, text, sizeof text));
    assert_string_equal(text, want);
}

static void the_stored_model_determines_the_architecture(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    char here[4000];
    tiny_data(context, "data");
    hashattn_setup *setup = tiny_setup(context, "yoso", 2), *next;
    check_ok(context, hashattn_setup_set(setup, "hash_bits", "5"));
    check_ok(context, hashattn_train(setup, "data", "run", NULL, NULL));
    hashattn_setup_free(setup);
    assert_non_null(getcwd(here, sizeof here));
    check_ok(context, hashattn_setup_new(context, "needle", &next));
    check_value(context, next, "dim", "64");
    check_ok(context, hashattn_setup_from(next, "run"));
    check_ok(context, hashattn_setup_from(next, "run")); /* the last call counts */
    check_value(context, next, "dim", "8");
    check_value(context, next, "layers", "1");
    check_ok(context, hashattn_setup_set(next, "dim", "8"));
    check_ok(context, hashattn_setup_set(next, "norm_epsilon", "0.00001"));
    check_call(context, hashattn_setup_set(next, "dim", "16"), HASHATTN_INVALID, "model: dim is 8 in /");
    check_call(context, hashattn_setup_set(next, "dim", "16"), HASHATTN_INVALID,
               "/run, where training starts; it cannot be 16");
    check_call(context, hashattn_setup_size(next, "tiny"), HASHATTN_INVALID,
               "size is tiny, which sets layers to 2; it is 1 in /");
    check_call(context, hashattn_setup_set(next, "norm", "post"), HASHATTN_INVALID, "norm is pre in ");
    check_call(context, hashattn_setup_set(next, "classifier", "gelu"), HASHATTN_INVALID, "is relu in ");
    check_call(context, hashattn_setup_set(next, "dim", "many"), HASHATTN_INVALID, "many");
    check_ok(context, hashattn_setup_set(next, "dropout", "0.3"));
    check_ok(context, hashattn_setup_set(next, "pooling", "first"));

    check_value(context, next, "num_hashes", "32");
    check_ok(context, hashattn_setup_mechanism(next, "yoso-e"));
    check_value(context, next, "hash_bits", "5"); /* not the 8 of the task */
    check_ok(context, hashattn_setup_set(next, "seq_len", "12"));
    check_ok(context, hashattn_setup_set(next, "epochs", "0.2"));
    check_ok(context, hashattn_train(next, "data", "tuned", NULL, NULL));
    check_ok(context, hashattn_train(next, "data", "again", NULL, NULL));
    hashattn_model *model;
    check_ok(context, hashattn_model_load(context, "tuned", &model));
    hashattn_model_free(model);
    check_ok(context, hashattn_setup_freeze(next, "encode"));
    check_call(context, hashattn_train(next, "data", "frozen", NULL, NULL), HASHATTN_INVALID,
               "no parameter is called 'encode'");
    hashattn_setup_free(next);
    hashattn_context_free(context);
}

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_setup *setup;
    char names[2000];
    memset(names, 'a', sizeof names);
    names[sizeof names - 1] = '\0';
    check_ok(context, hashattn_setup_new(context, "text", &setup));
    assert_int_equal(hashattn_setup_from(NULL, "run"), HASHATTN_INVALID);
    assert_int_equal(hashattn_setup_freeze(NULL, "trunk"), HASHATTN_INVALID);
    check_call(context, hashattn_setup_from(setup, NULL), HASHATTN_INVALID, "directory is NULL");
    check_call(context, hashattn_setup_from(setup, "nowhere"), HASHATTN_BAD_FILE, "cannot open nowhere");
    check_call(context, hashattn_setup_freeze(setup, NULL), HASHATTN_INVALID, "names of parameters are NULL");
    check_call(context, hashattn_setup_freeze(setup, names), HASHATTN_INVALID,
               "the names are 1999 bytes long, at most 1023 fit");
    check_ok(context, hashattn_setup_set(setup, "layers", "7")); /* nothing is fixed */
    hashattn_setup_free(setup);
    hashattn_context_free(context);
}

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* A language model multiplies words by sqrt(dim) = 2, a classifier does not: its table has the factor. */
static void a_language_model_becomes_a_classifier(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_setup *lm, *text, *sized;
    struct host host;
    struct safetensors words, table;
    host_init(&host);
    assert_int_equal(mkdir("texts", 0777), 0);
    put("texts/train.txt", "one two three four five six seven eight nine ten eleven twelve\n");
    put("texts/train.tsv",
        "a\tone two\nb\ttwo one\na\tone three\nb\tsix one\na\tone\nb\ttwo\na\tone\nb\ttwo\n"
        "a\tone two\nb\ttwo one\na\tone three\nb\tsix one\na\tone\nb\ttwo\na\tone\nb\ttwo\n");
    check_ok(context, hashattn_setup_new(context, "lm", &lm));
    static const char *const options[][2] = {{"layers", "1"}, {"dim", "4"},   {"heads", "1"},
                                             {"ffn", "4"},    {"steps", "1"}, {"seq_len", "5"}};
    for (size_t i = 0; i < 6; i++)
        check_ok(context, hashattn_setup_set(lm, options[i][0], options[i][1]));
    check_ok(context, hashattn_setup_mechanism(lm, "softmax"));
    check_ok(context, hashattn_train(lm, "texts", "lm", NULL, NULL));
    check_ok(context, hashattn_setup_new(context, "text", &text));
    check_ok(context, hashattn_setup_preset(text, "lra"));
    check_ok(context, hashattn_setup_from(text, "lm"));
    check_call(context, hashattn_setup_preset(text, "lra"), HASHATTN_INVALID,
               "preset lra sets the options of the model, which start with those of /");
    check_value(context, text, "causal", "true");
    check_ok(context, hashattn_setup_set(text, "causal", "false"));
    check_ok(context, hashattn_setup_set(text, "steps", "1"));
    check_ok(context, hashattn_setup_set(text, "max_len", "9"));
    check_ok(context, hashattn_setup_freeze(text, "trunk"));
    check_ok(context, hashattn_train(text, "texts", "text", NULL, NULL));
    check_ok(context, hashattn_setup_new(context, "text", &sized));
    check_ok(context, hashattn_setup_set(sized, "vocab_size", "16000"));
    check_ok(context, hashattn_setup_from(sized, "lm"));
    check_call(context, hashattn_train(sized, "texts", "none", NULL, NULL), HASHATTN_INVALID,
               "vocab_size is 16000, but nothing is learned: the ids are those of the model in /");
    hashattn_setup_free(sized);
    check_ok(context, hashattn_setup_new(context, "text", &sized));
    check_ok(context, hashattn_setup_from(sized, "lm"));
    check_ok(context, hashattn_setup_set(sized, "vocab_size", "500"));
    check_call(context, hashattn_train(sized, "texts", "none", NULL, NULL), HASHATTN_INVALID,
               "vocab_size is 500, but nothing is learned: the ids are those of the model in /");
    hashattn_setup_free(sized);
    check_call(context, hashattn_setup_from(lm, "text"), HASHATTN_OK, NULL);
    check_ok(context, hashattn_setup_set(lm, "vocabulary", "words"));
    check_call(context, hashattn_train(lm, "texts", "none", NULL, NULL), HASHATTN_INVALID,
               "the sequences of lm are words, those of the model in /");
    check_status(&host, safetensors_read(&host, "lm/model.safetensors", 1 << 20, &words), HASHATTN_OK, NULL);
    check_status(&host, safetensors_read(&host, "text/model.safetensors", 1 << 20, &table), HASHATTN_OK,
                 NULL);
    const char name[] = "embeddings.word_embeddings.weight";
    const struct tensor *from = safetensors_find(&words, name), *to = safetensors_find(&table, name);
    assert_true(from->bytes == 257 * 4 * sizeof(float) && to->bytes == from->bytes);
    for (size_t i = 0; i < 257 * 4; i++) {
        float a, b;
        memcpy(&a, (const char *)from->data + i * sizeof a, sizeof a);
        memcpy(&b, (const char *)to->data + i * sizeof b, sizeof b);
        assert_true(b == 2 * a);
    }
    safetensors_free(&host, &words);
    safetensors_free(&host, &table);
    hashattn_setup_free(lm);
    hashattn_setup_free(text);
    hashattn_context_free(context);
}

static hashattn_status start_from_run(hashattn_context *context, void *user)
{
    (void)user;
    hashattn_setup *setup;
    hashattn_status status = hashattn_setup_new(context, "needle", &setup);
    if (status == HASHATTN_OK)
        status = hashattn_setup_from(setup, "run");
    if (status == HASHATTN_OK)
        status = hashattn_setup_mechanism(setup, "yoso-e");
    hashattn_setup_free(setup);
    return status;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    tiny_data(context, "data");
    hashattn_setup *setup = tiny_setup(context, "yoso", 1);
    check_ok(context, hashattn_train(setup, "data", "run", NULL, NULL));
    hashattn_setup_free(setup);
    hashattn_context_free(context);
    check_every_failing_allocation(start_from_run, NULL);
}

static int enter(void **state)
{
    (void)state;
    tiny_enter();
    return 0;
}

static int leave(void **state)
{
    (void)state;
    tiny_leave();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_stored_model_determines_the_architecture, enter, leave),
        cmocka_unit_test_setup_teardown(wrong_calls_are_refused, enter, leave),
        cmocka_unit_test_setup_teardown(a_language_model_becomes_a_classifier, enter, leave),
        cmocka_unit_test_setup_teardown(every_failing_allocation_is_survived, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
