/* The files beside vocab.txt, or beside vocab.json and merges.txt: the ids are those of transformers 5.24 for
   the same directories, and roles of special tokens survive tokenizer.json. What is not supported is refused
   by its name.

   Planted and caught: added_tokens.json not read; the next id for a token whose file says another; added
   tokens found before normalization; older files read beside added_tokens_decoder; a special token of
   special_tokens_map.json without its flags; a default that the vocabulary lacks added; a role lost in
   tokenizer.json; the class of config.json ignored; "e</w>" accepted, or a
   result of merges refused.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/files/tokenizer_settings.h"

#include <stdio.h>
#include <string.h>

#include "support/folder.h"
#include "text/files/tokenizer_json.h"

#define WORDS  "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncovid\nis\nnaive\n<\ne1\n>\n##e1\n" /* 13 tokens */
#define CONFIG "tokenizer_config.json"
#define MAP    "special_tokens_map.json"
#define ADDED  "added_tokens.json"

/* Files of a directory besides its vocabulary, and the ids of a text, with special tokens, ended by -1. */
struct row {
    const char *files[4][2];
    const char *text;
    int ids[16];
};

static void check_ids(struct folder *folder, const char *text, bool special_tokens, const int *want)
{
    struct tokenizer *tokenizer;
    struct encoder *encoder;
    struct encoding got;
    const struct encode_options options = {.special_tokens = special_tokens};
    check_status(&folder->host, tokenizer_load(&folder->host, folder->path, &tokenizer), HASHATTN_OK, NULL);
    assert_int_equal(encoder_new(&folder->host, tokenizer, &encoder), HASHATTN_OK);
    assert_int_equal(encoder_encode(encoder, (struct piece){text, strlen(text)}, &options, &got),
                     HASHATTN_OK);
    for (size_t i = 0; i < got.count; i++)
        if (want[i] != (int)got.ids[i])
            fail_msg("'%s': token %zu is %u, want %d", text, i, got.ids[i], want[i]);
    assert_int_equal(want[got.count], -1);
    encoder_free(encoder);
    tokenizer_free(&folder->host, tokenizer);
}

static void put_files(struct folder *folder, const struct row *row)
{
    for (size_t f = 0; f < 4 && row->files[f][0] != NULL; f++)
        folder_put_text(folder, row->files[f][0], row->files[f][1]);
}

static void check_row(struct folder *folder, const struct row *row)
{
    put_files(folder, row);
    check_ids(folder, row->text, true, row->ids);
    for (size_t f = 0; f < 4 && row->files[f][0] != NULL; f++)
        folder_remove(folder, row->files[f][0]);
}

static void tokens_are_those_of_the_library(void **state)
{
    struct folder *folder = *state;
    static const struct row rows[] = {
        {{{NULL}}, "the Covid <e1> [MASK]", {2, 5, 6, 9, 10, 11, 4, 3, -1}},
        {{{ADDED, "{\"<e1>\": 13}"}}, "the Covid <e1> <E1>", {2, 5, 6, 13, 13, 3, -1}},
        {{{ADDED, "{\"<e2>\": 14, \"<e1>\": 17}"}}, "<e1><e2>", {2, 17, 14, 3, -1}},
        {{{ADDED, "{\"<e1>\": 13}"}, {MAP, "{\"additional_special_tokens\": [\"<e1>\"]}"}},
         "<e1> <E1>",
         {2, 13, 9, 10, 11, 3, -1}},
        {{{MAP, "{\"additional_special_tokens\": [{\"content\": \"<e1>\", \"rstrip\": true}, \"Is\"]}"}},
         "<e1> IsIs is",
         {2, 13, 14, 14, 7, 3, -1}},
        {{{CONFIG, "{\"extra_special_tokens\": {\"e_token\": \"<e1>\"}, \"image_token\": \"<i>\"}"}},
         "<e1> <i>",
         {2, 14, 13, 3, -1}},
        {{{CONFIG,
           "{\"added_tokens_decoder\": {\"13\": {\"content\": \"<E1>\", \"normalized\": true, \"lstrip\": "
           "true}, \"6\": {\"content\": \"covid\", \"single_word\": true}}}"}},
         "covid <e1>covid the",
         {2, 6, 13, 6, 5, 3, -1}},
        {{{CONFIG, "{\"added_tokens_decoder\": {\"13\": {\"content\": \"<e1>\"}}}"},
          {ADDED, "{\"<\": 40}"},
          {MAP, "{\"mask_token\": \"is\"}"}},
         "<e1> < is [MASK]",
         {2, 13, 9, 7, 4, 3, -1}},
        {{{CONFIG, "{\"mask_token\": \"naive\", \"model_max_length\": 1000000000000000019884624838656}"}},
         "naive [MASK]",
         {2, 8, 1, 1, 1, 3, -1}},
        {{{MAP, "{\"mask_token\": {\"content\": \"<m>\", \"lstrip\": true}}"}}, "the <m>", {2, 5, 13, 3, -1}},
        {{{CONFIG,
           "{\"cls_token\": \"<\", \"sep_token\": \"<x>\", \"tokenizer_class\": \"ElectraTokenizerFast\"}"}},
         "is",
         {9, 7, 13, -1}},
        {{{CONFIG, "{\"unk_token\": \"naive\"}"}}, "zzz", {2, 8, 3, -1}},
        {{{CONFIG, "{\"cls_token\": null, \"tokenizer_class\": null, \"word_tokenizer_type\": \"basic\"}"}},
         "is",
         {2, 7, 3, -1}},
    };
    folder_put_text(folder, "vocab.txt", WORDS);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_row(folder, &rows[i]);
}

/* 0: a space, then letters; " a" and "ab" are merged. */
#define BYTES                                                                                                \
    "{\"\\u0120\": 0, \"a\": 1, \"b\": 2, \"\\u0120a\": 3, \"ab\": 4, \"<s>\": 5, \"</s>\": 6, \"<\": 7, "   \
    "\"m\": 8, "                                                                                             \
    "\">\": 9, \"<|endoftext|>\": 10}"

static void byte_level_settings_are_obeyed(void **state)
{
    struct folder *folder = *state;
    static const struct row rows[] = {
        {{{NULL}}, "ab a", {5, 4, 3, 6, -1}},
        {{{CONFIG, "{\"add_prefix_space\": true}"}}, "ab a", {5, 3, 2, 3, 6, -1}},
        {{{CONFIG, "{\"mask_token\": \"<m>\"}"}}, "a <m>", {5, 1, 11, 6, -1}},
        {{{MAP, "{\"additional_special_tokens\": [{\"content\": \"<m>\", \"rstrip\": true}]}"}},
         "<m> a",
         {5, 11, 1, 6, -1}},
        {{{CONFIG, "{\"cls_token\": \"a\", \"sep_token\": \"b\"}"}}, "m", {1, 8, 2, -1}},
        {{{CONFIG, "{\"tokenizer_class\": \"GPT2Tokenizer\"}"}}, "<s>", {7, 9, -1}},
        {{{CONFIG, "{\"tokenizer_class\": \"GPT2TokenizerFast\", \"add_bos_token\": true}"}},
         "ab",
         {10, 4, -1}},
        {{{CONFIG,
           "{\"tokenizer_class\": \"GPT2Tokenizer\", \"add_eos_token\": true, \"eos_token\": \"</s>\"}"}},
         "ab",
         {4, 6, -1}},
        {{{CONFIG, "{\"tokenizer_class\": \"BartTokenizer\"}"}, {ADDED, "{\"<m>\": 11}"}},
         "a <m>",
         {5, 1, 0, 11, 6, -1}},
        {{{"config.json", "{\"tokenizer_class\": \"GPT2Tokenizer\"}"}}, "ab", {4, -1}},
    };
    folder_put_text(folder, "vocab.json", BYTES);
    folder_put_text(folder, "merges.txt", "#version: 0.2\n\xc4\xa0 a\na b\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_row(folder, &rows[i]);
    /* Two texts with GPT-2's tokens. */
    struct tokenizer *tokenizer;
    struct encoder *encoder;
    struct encoding got;
    const struct encode_options options = {.special_tokens = true};
    folder_put_text(
        folder, CONFIG,
        "{\"tokenizer_class\": \"GPT2Tokenizer\", \"add_bos_token\": true, \"add_eos_token\": true}");
    check_status(&folder->host, tokenizer_load(&folder->host, folder->path, &tokenizer), HASHATTN_OK, NULL);
    assert_int_equal(encoder_new(&folder->host, tokenizer, &encoder), HASHATTN_OK);
    assert_int_equal(
        encoder_encode_pair(encoder, (struct piece){"a", 1}, (struct piece){"b", 1}, &options, &got),
        HASHATTN_OK);
    static const uint32_t ids[] = {10, 1, 10, 10, 2, 10};
    assert_int_equal(got.count, 6);
    for (size_t i = 0; i < 6; i++)
        assert_true(got.ids[i] == ids[i] && got.segments[i] == i / 3);
    encoder_free(encoder);
    tokenizer_free(&folder->host, tokenizer);
}

static void what_is_not_computed_is_refused(void **state)
{
    struct folder *folder = *state;
    static const struct {
        const char *file, *text, *message;
    } rows[] = {
        {CONFIG, "{\"tokenizer_class\": \"BertJapaneseTokenizer\"}",
         "vocab.txt: tokenizer_class 'BertJapaneseTokenizer' is not supported for vocab.txt"},
        {"config.json", "{\"tokenizer_class\": \"BertJapaneseTokenizer\"}",
         "tokenizer_class 'BertJapaneseTokenizer'"},
        {CONFIG, "{\"tokenizer_class\": \"RobertaTokenizer\"}", "tokenizer_class 'RobertaTokenizer'"},
        {CONFIG, "{\"tokenizer_class\": \"BertTokenizers\"}", "tokenizer_class 'BertTokenizers'"},
        {CONFIG, "{\"tokenizer_class\": 7}", "'tokenizer_class' is a whole number"},
        {CONFIG, "{\"word_tokenizer_type\": \"mecab\"}",
         "word_tokenizer_type 'mecab' is not supported; supported: basic"},
        {CONFIG, "{\"subword_tokenizer_type\": \"character\"}", "subword_tokenizer_type 'character'"},
        {CONFIG, "{\"split_special_tokens\": true}", "split_special_tokens is true"},
        {CONFIG, "{\"unk_token\": \"<unk>\"}", "special token '<unk>' is missing"},
        {CONFIG, "{\"mask_token\": 7}", "mask_token: 'content' is missing"},
        {CONFIG, "{\"added_tokens_decoder\": {\"x\": {\"content\": \"a\"}}}",
         "added_tokens_decoder: 'x' is no id"},
        {CONFIG, "{\"added_tokens_decoder\": {\"9999999\": {\"content\": \"a\"}}}",
         "has id 9999999, allowed are"},
        {CONFIG, "{\"added_tokens_decoder\": {\"13\": {\"content\": \"the\"}}}",
         "added token 'the' has id 13, but 5 in the vocabulary"},
        {CONFIG, "{\"added_tokens_decoder\": {\"13\": 7}}", "13: 'content' is missing"},
        {ADDED, "{\"<e1>\": 7}", "tokens 'is' and '<e1>' both have id 7"},
        {ADDED, "{\"<e1>\": \"13\"}", "<e1>: 'the top level' is a string"},
        {ADDED, "[]", "added_tokens.json: 'the top level' is an array"},
        {MAP, "{", "special_tokens_map.json: byte 1"},
    };
    struct tokenizer *tokenizer;
    folder_put_text(folder, "vocab.txt", WORDS);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        folder_put_text(folder, rows[i].file, rows[i].text);
        check_status(&folder->host, tokenizer_load(&folder->host, folder->path, &tokenizer),
                     HASHATTN_BAD_FILE, rows[i].message);
        assert_null(tokenizer);
        folder_remove(folder, rows[i].file);
    }
    folder_remove(folder, "vocab.txt");
    folder_put_text(folder, "vocab.json", "{\"a\": 0, \"b</w>\": 1, \"ab</w>\": 2}");
    folder_put_text(folder, "merges.txt", "a b</w>\n");
    check_status(&folder->host, tokenizer_load(&folder->host, folder->path, &tokenizer), HASHATTN_BAD_FILE,
                 "merges.txt: token 'b</w>' ends a word with </w>, as in GPT and CLIP");
    /* The bytes of "</w>" may be merged like others. */
    folder_put_text(folder, "vocab.json", "{\"b\": 0, \"</w>\": 1, \"b</w>\": 2}");
    folder_put_text(folder, "merges.txt", "b </w>\n");
    check_status(&folder->host, tokenizer_load(&folder->host, folder->path, &tokenizer), HASHATTN_OK, NULL);
    tokenizer_free(&folder->host, tokenizer);
    folder_put_text(folder, CONFIG, "{\"tokenizer_class\": \"CLIPTokenizer\"}");
    check_status(&folder->host, tokenizer_load(&folder->host, folder->path, &tokenizer), HASHATTN_BAD_FILE,
                 "tokenizer_class 'CLIPTokenizer' is not supported for a vocabulary with merges");
}

static void check_role(struct folder *folder, enum token_role role, int want)
{
    struct tokenizer *tokenizer;
    uint32_t id;
    check_status(&folder->host, tokenizer_load(&folder->host, folder->path, &tokenizer), HASHATTN_OK, NULL);
    bool found = tokenizer_role(tokenizer, role, &id);
    assert_int_equal(found ? (int)id : -1, want);
    tokenizer_free(&folder->host, tokenizer);
}

/* Also after the tokenizer was written as tokenizer.json, as runs keep it. */
static void roles_follow_the_files(void **state)
{
    struct folder *folder = *state;
    static const struct {
        const char *config;
        enum token_role role;
        int id;
    } rows[] = {{"{}", TOKEN_MASK, 4},
                {"{\"mask_token\": \"naive\"}", TOKEN_MASK, 8},
                {"{\"mask_token\": \"<m>\", \"pad_token\": \"<\"}", TOKEN_PAD, 9},
                {"{\"mask_token\": \"<m>\", \"pad_token\": \"<\"}", TOKEN_MASK, 13},
                {"{\"bos_token\": \"<b>\"}", TOKEN_START, 2},
                {"{\"bos_token\": \"<b>\", \"cls_token\": \"is\", \"sep_token\": \"is\"}", TOKEN_START, 7},
                {"{\"bos_token\": \"<b>\", \"cls_token\": \"is\", \"sep_token\": \"is\"}", TOKEN_END, 7},
                {"{\"unk_token\": \"is\"}", TOKEN_UNKNOWN, 7}};
    char path[96];
    snprintf(path, sizeof path, "%s/tokenizer.json", folder->path);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tokenizer *tokenizer;
        folder_put_text(folder, "vocab.txt", WORDS);
        folder_put_text(folder, CONFIG, rows[i].config);
        check_role(folder, rows[i].role, rows[i].id);
        check_status(&folder->host, tokenizer_load(&folder->host, folder->path, &tokenizer), HASHATTN_OK,
                     NULL);
        check_status(&folder->host, tokenizer_write_json(&folder->host, path, tokenizer), HASHATTN_OK, NULL);
        tokenizer_free(&folder->host, tokenizer);
        check_role(folder, rows[i].role, rows[i].id);
        folder_remove(folder, CONFIG);
        check_role(folder, rows[i].role, rows[i].id);
        folder_remove(folder, "tokenizer.json");
    }
}

static void settings_beside_tokenizer_json_are_obeyed(void **state)
{
    struct folder *folder = *state;
    folder_put_text(folder, "tokenizer.json",
                    "{\"model\": {\"type\": \"BPE\", \"vocab\": " BYTES
                    ", \"merges\": [\"\\u0120 a\", \"a b\"]}, "
                    "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}}");
    check_ids(folder, "ab", false, (const int[]){4, -1});
    check_role(folder, TOKEN_PAD, -1);
    folder_put_text(
        folder, CONFIG,
        "{\"add_prefix_space\": true, \"pad_token\": \"m\", \"mask_token\": \"<none>\", \"tokenizer_class\": "
        "\"Other\"}");
    check_ids(folder, "ab", false, (const int[]){3, 2, -1});
    check_role(folder, TOKEN_PAD, 8);
    check_role(folder, TOKEN_MASK, -1);
    struct tokenizer *tokenizer;
    folder_put_text(folder, MAP, "[]");
    check_status(&folder->host, tokenizer_load(&folder->host, folder->path, &tokenizer), HASHATTN_BAD_FILE,
                 "special_tokens_map.json: 'the top level' is an array");
    assert_null(tokenizer);
}

/* In every call the n-th allocation fails; nothing is leaked. */
static void failing_allocations_are_reported(void **state)
{
    struct folder *folder = *state;
    folder_put_text(folder, "vocab.txt", WORDS);
    folder_put_text(folder, ADDED, "{\"<e1>\": 13, \"<e2>\": 14}");
    folder_put_text(folder, MAP,
                    "{\"additional_special_tokens\": [\"<e1>\", \"<x>\"], \"mask_token\": \"<m>\"}");
    for (long n = 0;; n++) {
        struct failing_host failing;
        struct tokenizer *tokenizer;
        failing_host_init(&failing, n);
        hashattn_status status = tokenizer_load(&failing.host, folder->path, &tokenizer);
        if (status == HASHATTN_OK)
            tokenizer_free(&failing.host, tokenizer);
        else
            assert_true(status == HASHATTN_NO_MEMORY && tokenizer == NULL);
        assert_int_equal(failing.outstanding, 0);
        if (status == HASHATTN_OK)
            break;
    }
}

#define FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_enter, folder_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER(tokens_are_those_of_the_library),           FOLDER(byte_level_settings_are_obeyed),
        FOLDER(what_is_not_computed_is_refused),           FOLDER(roles_follow_the_files),
        FOLDER(settings_beside_tokenizer_json_are_obeyed), FOLDER(failing_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
