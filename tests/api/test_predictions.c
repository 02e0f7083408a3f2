/* Predictions of several files, with the names of documents, bad lines, and numbers in the units of the
   training; and of texts in memory. Planted and caught: the id of the document before; names of the next
   part; standard scores; a skipped line counted as a document; the documents of the last part before a bad
   line left out; the last text in memory left out.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/tiny_run.h"

enum { MANY = 600 }; /* more than two parts */

struct heard {
    size_t count, skipped;
    char file[20], ids[MANY + 10][12];
    bool number;
    float first;
};

static int hear(void *user, const hashattn_prediction *prediction)
{
    struct heard *heard = user;
    assert_int_equal(prediction->document, heard->count);
    if (heard->count == 0)
        heard->first = prediction->probabilities[0];
    snprintf(heard->file, sizeof heard->file, "%s", prediction->file == NULL ? "" : prediction->file);
    snprintf(heard->ids[heard->count], sizeof heard->ids[0], "%s",
             prediction->id == NULL ? "-" : prediction->id);
    heard->number = prediction->id_is_number;
    heard->count++;
    return 0;
}

static int hear_bad(void *user, const char *message)
{
    struct heard *heard = user;
    assert_non_null(strstr(message, "bad.jsonl: line 2: "));
    heard->skipped++;
    return 0;
}

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void train(hashattn_context *context, const char *data, const char *type, const char *run)
{
    static const char *const options[][2] = {
        {"steps", "40"},  {"batch", "8"},      {"layers", "1"},
        {"dim", "16"},    {"heads", "2"},      {"ffn", "16"},
        {"max_len", "8"}, {"tokens", "bytes"}, {"learning_rate", "0.02"}};
    hashattn_setup *setup;
    check_ok(context, hashattn_setup_new(context, "text", &setup));
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        check_ok(context, hashattn_setup_set(setup, options[i][0], options[i][1]));
    check_ok(context, hashattn_setup_set(setup, "label_type", type));
    check_ok(context, hashattn_train(setup, data, run, NULL, NULL));
    hashattn_setup_free(setup);
}

static void documents_keep_their_names(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_model *model;
    struct heard heard = {0};
    hashattn_predicted counts = {.struct_size = sizeof counts};
    FILE *file = fopen("mail.tsv", "wb"), *many = fopen("many.jsonl", "wb");
    assert_true(file != NULL && many != NULL);
    for (int i = 0; i < 40; i++)
        fprintf(file, "%d\t%s\n", i % 2 == 0 ? 1000 : 3000, i % 2 == 0 ? "aaaa" : "zzzz");
    for (int i = 0; i < MANY; i++)
        fprintf(many, "{\"text\": \"a\", \"id\": %d}\n", i);
    fclose(file);
    fclose(many);
    train(context, "mail.tsv", "class", "classes");
    train(context, "mail.tsv", "number", "numbers");
    put("bad.jsonl", "{\"text\": \"zzzz\", \"id\": \"z\"}\nbroken\n{\"text\": \"aaaa\"}\n");
    put("plain.txt", "aaaa\nzzzz\n");
    check_ok(context, hashattn_model_load(context, "classes", &model));
    const char *const paths[] = {"many.jsonl", "bad.jsonl", "plain.txt"};
    check_call(context, hashattn_model_predict(model, paths, 2, NULL, hear, &heard, NULL), HASHATTN_BAD_FILE,
               "bad.jsonl: line 2: ");
    assert_int_equal(heard.count, MANY + 1);
    assert_string_equal(heard.ids[MANY], "z");
    hashattn_predict_options options;
    hashattn_predict_options_default(&options);
    options.skip = hear_bad;
    options.lines = 1;
    heard = (struct heard){0};
    check_ok(context, hashattn_model_predict(model, paths, 3, &options, hear, &heard, &counts));
    assert_true(counts.num_documents == MANY + 4 && heard.count == MANY + 4);
    assert_true(counts.num_skipped == 1 && heard.skipped == 1 && counts.num_cut == 0);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(atoi(heard.ids[i]), i);
    assert_string_equal(heard.ids[MANY], "z");
    assert_string_equal(heard.ids[MANY + 1], "-");
    assert_string_equal(heard.file, "plain.txt");
    options.lines = 0;
    heard = (struct heard){0};
    check_ok(context, hashattn_model_predict(model, paths + 2, 1, &options, hear, &heard, &counts));
    assert_true(counts.num_documents == 1 && counts.num_cut == 1);
    hashattn_model_free(model);
    check_ok(context, hashattn_model_load(context, "numbers", &model));
    heard = (struct heard){0};
    check_ok(context, hashattn_model_predict(model, paths + 1, 1, &options, hear, &heard, &counts));
    assert_true(heard.first > 2000 && heard.first < 4000);
    float of_file = heard.first;
    static const char *const texts[MANY] = {"zzzz"};
    const char *few[] = {"zzzz", "aaaaaaaaaaaa", "\xff"};
    heard = (struct heard){0};
    check_ok(context, hashattn_model_predict_texts(model, few, NULL, 2, &options, hear, &heard, &counts));
    assert_true(counts.num_documents == 2 && counts.num_cut == 1 && heard.count == 2);
    check_same_bits(&heard.first, &of_file, sizeof of_file, "the prediction of a text");
    assert_true(heard.file[0] == '\0' && strcmp(heard.ids[1], "-") == 0);
    heard = (struct heard){0};
    check_ok(context, hashattn_model_predict_texts(model, few, NULL, 0, NULL, hear, &heard, &counts));
    assert_int_equal(counts.num_documents, 0);
    check_call(context, hashattn_model_predict_texts(model, few, NULL, 3, NULL, hear, &heard, NULL),
               HASHATTN_INVALID, "texts[2]: ");
    check_call(context, hashattn_model_predict_texts(model, texts, NULL, MANY, NULL, hear, &heard, NULL),
               HASHATTN_INVALID, "texts[1]: the text is NULL");
    check_call(context, hashattn_model_predict_texts(model, few, few, 2, NULL, hear, &heard, NULL),
               HASHATTN_INVALID, "reads single texts, and pairs were given");
    check_call(context, hashattn_model_predict_texts(model, NULL, NULL, 2, NULL, hear, &heard, NULL),
               HASHATTN_INVALID, "texts is NULL");
    check_call(context, hashattn_model_predict_texts(model, few, NULL, 2, NULL, NULL, NULL, NULL),
               HASHATTN_INVALID, "callback is NULL");
    assert_int_equal(heard.count, 0);
    hashattn_model_free(model);
    hashattn_context_free(context);
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
        cmocka_unit_test_setup_teardown(documents_keep_their_names, enter, leave)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
