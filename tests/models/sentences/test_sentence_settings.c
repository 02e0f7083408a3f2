/* Directories of the sentence-transformers library, as its versions write them: modules, poolings, lengths,
   prompts, and what is named because it is not computed. Planted and caught: the class of a module compared
   with its path; the last of several poolings taken; a pooling folder that must exist; an unknown pooling
   taken for the mean, also in a list.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/sentences/sentence_settings.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "support/folder.h"

#define MODULE(type, path) "{\"idx\": 0, \"name\": \"0\", \"path\": \"" path "\", \"type\": \"" type "\"}"
#define OLD(kind, path)    MODULE("sentence_transformers.models." kind, path)
#define ENCODER            OLD("Transformer", "")
#define POOLING            OLD("Pooling", "1_Pooling")

static hashattn_status read_with(struct folder *folder, const char *modules, const char *pooling,
                                 struct sentence_settings *settings)
{
    char path[100];
    snprintf(path, sizeof path, "%s/1_Pooling", folder->path);
    mkdir(path, 0700);
    folder_put_text(folder, "modules.json", modules);
    folder_put_text(folder, "1_Pooling/config.json", pooling);
    return sentence_settings_read(&folder->host, folder->path, settings);
}

static void old_and_new_files_say_the_same(void **state)
{
    struct folder *folder = *state;
    struct sentence_settings settings;
    static const struct {
        const char *modules, *pooling;
        enum sentence_pooling want;
        bool normalize;
    } cases[] = {
        {"[" ENCODER "," POOLING "," OLD("Normalize", "2_Normalize") "]",
         "{\"word_embedding_dimension\": 8, \"pooling_mode_cls_token\": false, \"pooling_mode_mean_tokens\": "
         "true}",
         SENTENCE_MEAN, true},
        {"[" ENCODER "," POOLING "]",
         "{\"pooling_mode_cls_token\": true, \"pooling_mode_mean_tokens\": false}", SENTENCE_FIRST, false},
        {"[" ENCODER "," POOLING "]", "{\"pooling_mode_max_tokens\": true}", SENTENCE_MAX, false},
        {"[" ENCODER "," POOLING "]", "{\"word_embedding_dimension\": 8}", SENTENCE_MEAN, false},
        {"[" MODULE("sentence_transformers.base.modules.transformer.Transformer", "") "," MODULE(
             "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
             "1_Pooling") "," MODULE("sentence_transformers.base.modules.normalize.Normalize",
                                     "2_Normalize") "]",
         "{\"embedding_dimension\": 8, \"pooling_mode\": \"cls\", \"include_prompt\": true}", SENTENCE_FIRST,
         true},
        {"[" ENCODER "," POOLING "]", "{\"pooling_mode\": [\"max\"]}", SENTENCE_MAX, false},
        {"[" ENCODER "," OLD("Pooling", "9_Nowhere") "]", "{\"pooling_mode_cls_token\": true}", SENTENCE_MEAN,
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_status(&folder->host, read_with(folder, cases[i].modules, cases[i].pooling, &settings),
                     HASHATTN_OK, NULL);
        assert_string_equal(settings.refusal, "");
        assert_string_equal(settings.encoder, folder->path);
        assert_true(settings.pooling == cases[i].want && settings.normalize == cases[i].normalize &&
                    settings.pools_prompt && settings.max_len == 0 && !settings.lower);
        sentence_settings_free(&settings);
    }
    folder_remove(folder, "modules.json");
    check_status(&folder->host, sentence_settings_read(&folder->host, folder->path, &settings), HASHATTN_OK,
                 NULL);
    assert_true(settings.pooling == SENTENCE_MEAN && !settings.normalize && settings.config == NULL);
}

static void what_is_not_computed_is_named(void **state)
{
    struct folder *folder = *state;
    struct sentence_settings settings;
    static const struct {
        const char *modules, *pooling, *part;
    } cases[] = {
        {"[" ENCODER "," POOLING "," OLD("Dense", "2_Dense") "]", "{}", "module 2 of modules.json is Dense"},
        {"[" ENCODER "," POOLING "," MODULE("mine.Normalize", "") "]", "{}",
         "module 2 of modules.json is mine.Normalize"},
        {"[" OLD("StaticEmbedding", "") "]", "{}", "module 0 of modules.json is StaticEmbedding"},
        {"[" ENCODER "]", "{}", "modules.json has no Pooling"},
        {"[" ENCODER "," POOLING "]", "{\"pooling_mode_mean_sqrt_len_tokens\": true}",
         "the pooling is mean_sqrt_len_tokens"},
        {"[" ENCODER "," POOLING "]", "{\"pooling_mode\": \"lasttoken\"}", "the pooling is lasttoken"},
        {"[" ENCODER "," POOLING "]", "{\"pooling_mode\": \"weightedmean\"}", "the pooling is weightedmean"},
        {"[" ENCODER "," POOLING "]", "{\"pooling_mode\": \"median\"}", "the pooling is median"},
        {"[" ENCODER "," POOLING "]",
         "{\"pooling_mode_mean_tokens\": true, \"pooling_mode_max_tokens\": true}",
         "the pooling is max+mean"},
        {"[" ENCODER "," POOLING "]", "{\"pooling_mode\": [\"cls\", \"mean\"]}", "the pooling is cls+mean"},
        {"[" ENCODER "," POOLING "]", "{\"pooling_mode\": [\"mean\", \"median\"]}",
         "the pooling is mean+median; one"},
        {"[" ENCODER "," POOLING "]", "{\"pooling_mode\": [\"median\"]}", "the pooling is median; one"},
        {"[" ENCODER "," POOLING "]", "{\"pooling_mode\": [\"mean\", 1]}", "the pooling is mean+?; one"},
        {"[" ENCODER "," POOLING "]", "{\"pooling_mode\": []}", "the pooling is []; one"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_status(&folder->host, read_with(folder, cases[i].modules, cases[i].pooling, &settings),
                     HASHATTN_OK, NULL);
        assert_true(strncmp(settings.refusal, cases[i].part, strlen(cases[i].part)) == 0);
        sentence_settings_free(&settings);
    }
    static const struct {
        const char *modules, *pooling, *part;
    } broken[] = {
        {"{}", "{}", "is an object"},
        {"[{\"path\": \"\"}]", "{}", "'type' is missing"},
        {"[" OLD("Transformer", "../x") "]", "{}", "a path inside the directory is needed"},
        {"[" ENCODER "," POOLING "]", "[]", "1_Pooling: "},
        {"[" ENCODER "," POOLING "]", "{\"pooling_mode_max_tokens\": 3}", "pooling_mode_max_tokens"},
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        check_status(&folder->host, read_with(folder, broken[i].modules, broken[i].pooling, &settings),
                     HASHATTN_BAD_FILE, broken[i].part);
        assert_null(settings.config);
    }
}

static void lengths_come_from_two_files(void **state)
{
    struct folder *folder = *state;
    struct sentence_settings settings;
    static const struct {
        const char *name, *text, *tokenizer;
        size_t want;
    } cases[] = {
        {"sentence_bert_config.json", "{\"max_seq_length\": 256, \"do_lower_case\": false}",
         "{\"model_max_length\": 128}", 256},
        {"sentence_bert_config.json", "{\"max_seq_length\": null}", "{\"model_max_length\": 128}", 128},
        {"sentence_xlm-roberta_config.json", "{\"max_seq_length\": 64}", "{}", 64},
        {"sentence_bert_config.json", "{}", "{\"model_max_length\": 1000000000000000019884624838656}", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        folder_put_text(folder, cases[i].name, cases[i].text);
        folder_put_text(folder, "tokenizer_config.json", cases[i].tokenizer);
        check_status(&folder->host, read_with(folder, "[" ENCODER "," POOLING "]", "{}", &settings),
                     HASHATTN_OK, NULL);
        assert_int_equal(settings.max_len, cases[i].want);
        sentence_settings_free(&settings);
        folder_remove(folder, cases[i].name);
    }
    folder_put_text(folder, "sentence_bert_config.json", "{\"do_lower_case\": true}");
    check_status(&folder->host, read_with(folder, "[" ENCODER "," POOLING "]", "{}", &settings), HASHATTN_OK,
                 NULL);
    assert_true(settings.lower);
    sentence_settings_free(&settings);
    folder_put_text(folder, "sentence_bert_config.json", "{\"max_seq_length\": 0}");
    check_status(&folder->host, read_with(folder, "[" ENCODER "," POOLING "]", "{}", &settings),
                 HASHATTN_BAD_FILE, "max_seq_length is 0, 1 or more is needed");
}

static void prompts_have_names(void **state)
{
    struct folder *folder = *state;
    struct sentence_settings settings;
    const char *prompt;
    folder_put_text(
        folder, "config_sentence_transformers.json",
        "{\"prompts\": {\"query\": \"query: \", \"passage\": \"\"}, \"default_prompt_name\": \"query\"}");
    check_status(&folder->host,
                 read_with(folder, "[" ENCODER "," POOLING "]", "{\"include_prompt\": false}", &settings),
                 HASHATTN_OK, NULL);
    assert_false(settings.pools_prompt);
    check_status(&folder->host, sentence_prompt(&folder->host, &settings, NULL, &prompt), HASHATTN_OK, NULL);
    assert_string_equal(prompt, "query: ");
    check_status(&folder->host, sentence_prompt(&folder->host, &settings, "passage", &prompt), HASHATTN_OK,
                 NULL);
    assert_string_equal(prompt, "");
    check_status(&folder->host, sentence_prompt(&folder->host, &settings, "title", &prompt), HASHATTN_INVALID,
                 "no prompt 'title'; the prompts of the files are: query, passage");
    sentence_settings_free(&settings);
    check_status(&folder->host, sentence_prompt(&folder->host, &settings, NULL, &prompt), HASHATTN_OK, NULL);
    assert_string_equal(prompt, "");
    check_status(&folder->host, sentence_prompt(&folder->host, &settings, "query", &prompt), HASHATTN_INVALID,
                 "the prompts of the files are: none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(old_and_new_files_say_the_same, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(what_is_not_computed_is_named, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(lengths_come_from_two_files, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(prompts_have_names, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
