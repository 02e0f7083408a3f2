/* The files of tokenizers: what is read, what is refused with which words, and that a written file is read as
   the same tokenizer. Covers: tokenizer_write.c tokenizer_files.c decoder.c.

   Planted and caught: a merge that is not in the vocabulary accepted; an id of a special token that is not
   checked; a template without its second text; settings that are not supported ignored; the content of an
   added token written after normalization; the last line of vocab.txt lost; "##" kept by decoding; the
   merges of encoder.json read from merges.txt; special tokens that normalization changes skipped by decoding;
   the segment of a separated pair from its first token on; token types named for one segment.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/files/tokenizer_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "io/json.h"
#include "support/folder.h"

#define MODEL                                                                                                \
    "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"<s>\": 3, \"</s>\": 4}, "   \
    "\"merges\": [\"a b\"]}"
#define PIECE                                                                                                \
    "\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"u\", \"continuing_subword_prefix\": \"##\", "     \
    "\"max_input_chars_per_word\": 100, \"vocab\": {\"u\": 0, \"a\": 1, \"##b\": 2, \"[CLS]\": 3, "          \
    "\"[SEP]\": 4}}"
#define BYTES "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}"
#define WORDS "\"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}"

static void bad_files_are_refused(void **state)
{
    struct folder *folder = *state;
    static const struct {
        const char *json, *message;
    } rows[] = {
        {"[]", "'the top level' is an array, an object is needed"},
        {"{}", "'model' is missing, an object is needed"},
        {"{\"model\": {\"type\": \"Unigram\"}}",
         "model 'Unigram' is not supported; supported: BPE and WordPiece"},
        {"{\"model\": {\"type\": \"BPE\"}}", "'model.vocab' is missing, an object is needed"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": \"x\"}}}", "model.vocab: token 'a'"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 1048576}}}", "allowed are 0 to 1048575"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": -1}}}", "allowed are 0 to 1048575"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 1, \"b\": 1}}}",
         "tokens 'a' and 'b' both have id 1"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 1, \"a\": 2}}}", "duplicate object key"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"\\ud800\": 1}}}", "invalid Unicode"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 1}}}",
         "'model.merges' is missing, an array is needed"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 1}, \"merges\": [\"a b\"]}}",
         "merge 0: 'b' is not in the vocabulary"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 1}, \"merges\": [\"a a\"]}}",
         "merge 0: 'aa' is not in the vocabulary"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 1, \"\": 2}, \"merges\": [\" a\"]}}",
         "merge 0 has an empty part"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 1}, \"merges\": [3]}}",
         "merge 0 is neither \"left right\" nor a pair of texts"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 1}, \"merges\": [], \"unk_token\": \"x\"}}",
         "'model.unk_token' 'x' is not in the vocabulary"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {}, \"merges\": [], \"dropout\": 0.1}}",
         "'model.dropout' is not null"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {}, \"merges\": [], \"byte_fallback\": true}}",
         "'model.byte_fallback' is true, which is not supported"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {}, \"merges\": [], \"end_of_word_suffix\": \"</w>\"}}",
         "'model.end_of_word_suffix' is '</w>', which is not supported"},
        {"{" MODEL "}", "pre_tokenizer 'null' is not supported; supported: ByteLevel for BPE"},
        {"{" MODEL ", \"pre_tokenizer\": {\"type\": \"Metaspace\"}}",
         "pre_tokenizer 'Metaspace' is not supported"},
        {"{" MODEL ", \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"use_regex\": false}}",
         "use_regex' is false"},
        {"{" MODEL ", \"pre_tokenizer\": {}}", "'pre_tokenizer.type' is missing"},
        {"{" MODEL "," BYTES ", \"normalizer\": {\"type\": \"NFKC\"}}", "normalizer 'NFKC' is not supported"},
        {"{" MODEL "," BYTES ", \"normalizer\": {\"type\": \"BertNormalizer\"}}",
         "a normalizer before ByteLevel"},
        {"{" MODEL "," BYTES ", \"decoder\": {\"type\": \"CTC\"}}", "decoder 'CTC' is not supported"},
        {"{" MODEL "," BYTES ", \"post_processor\": {\"type\": \"X\"}}",
         "post_processor 'X' is not supported"},
        {"{" MODEL "," BYTES
         ", \"post_processor\": {\"type\": \"BertProcessing\", \"cls\": [\"<s>\", 3], \"sep\": [\"x\", 4]}}",
         "'post_processor.sep': special token 'x' is not in the vocabulary"},
        {"{" MODEL "," BYTES ", \"post_processor\": {\"type\": \"BertProcessing\", \"cls\": [\"<s>\", 4], "
         "\"sep\": [\"</s>\", 4]}}",
         "'post_processor.cls': special token '<s>' has id 4, but 3 in the vocabulary"},
        {"{" MODEL "," BYTES ", \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": []}}",
         "'post_processor.single' has text A 0 times and B 0 times, 1 and 0 are needed"},
        {"{" MODEL "," BYTES
         ", \"post_processor\": {\"type\": \"TemplateProcessing\", \"special_tokens\": {}, "
         "\"single\": [{\"SpecialToken\": {\"id\": \"q\", \"type_id\": 0}}]}}",
         "special token 'q' is missing in 'post_processor.special_tokens'"},
        {"{" MODEL "," BYTES
         ", \"post_processor\": {\"type\": \"TemplateProcessing\", \"special_tokens\": {\"q\": "
         "{\"ids\": [77]}}, \"single\": [{\"SpecialToken\": {\"id\": \"q\", \"type_id\": 0}}]}}",
         "special token 'q' of 'post_processor' has id 77, which is not in the vocabulary"},
        {"{" MODEL "," BYTES ", \"added_tokens\": [{\"content\": \"ab\", \"id\": 9}]}",
         "added token 'ab' has id 9, but 2 in the vocabulary"},
        {"{" MODEL "," BYTES ", \"added_tokens\": [{\"content\": \"\", \"id\": 9}]}",
         "added token with id 9 is empty"},
        {"{" MODEL "," BYTES ", \"added_tokens\": [{\"content\": \"z\", \"id\": 2}]}",
         "tokens 'ab' and 'z' both have id 2"},
        {"{" MODEL "," BYTES ", \"added_tokens\": [{\"content\": \"z\"}]}", "'added_tokens.0.id' is missing"},
        {"{\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"u\", \"continuing_subword_prefix\": \"##\", "
         "\"max_input_chars_per_word\": 100, \"vocab\": {}}}",
         "'model.unk_token' 'u' is not in the vocabulary"},
        {"{" PIECE "," BYTES "}",
         "pre_tokenizer 'ByteLevel' is not supported; supported: BertPreTokenizer for WordPiece"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tokenizer *tokenizer;
        folder_put_text(folder, "tokenizer.json", rows[i].json);
        hashattn_status status = tokenizer_load(&folder->host, folder->path, &tokenizer);
        if (status != HASHATTN_BAD_FILE)
            fail_msg("%s: status %d", rows[i].json, status);
        check_status(&folder->host, status, HASHATTN_BAD_FILE, rows[i].message);
        check_status(&folder->host, status, HASHATTN_BAD_FILE, "/tokenizer.json: ");
        assert_null(tokenizer);
    }
    /* Nesting is limited by io/json.h. */
    char deep[200] = "";
    for (int i = 0; i < 60; i++)
        strcat(deep, "[");
    struct tokenizer *tokenizer;
    folder_put_text(folder, "tokenizer.json", deep);
    check_status(&folder->host, tokenizer_load(&folder->host, folder->path, &tokenizer), HASHATTN_BAD_FILE,
                 "32");
}

static void bad_vocabulary_files_are_refused(void **state)
{
    struct folder *folder = *state;
    struct tokenizer *tokenizer;
    struct host *host = &folder->host;
    check_status(host, tokenizer_load(host, folder->path, &tokenizer), HASHATTN_BAD_FILE,
                 "no tokenizer.json, vocab.json with merges.txt, encoder.json with vocab.bpe, or vocab.txt");
    static const struct {
        const char *text, *message;
    } lists[] = {
        {"[CLS]\n[SEP]\n", "vocab.txt: special token '[UNK]' is missing"},
        {"[UNK]\n[CLS]\n", "vocab.txt: special token '[SEP]' is missing"},
        {"[UNK]\na\na\n", "vocab.txt: line 3: token 'a' has two ids, 1 and 2"},
        {"[UNK]\n\xff\n", "vocab.txt: line 2: not UTF-8 at byte 0"},
    };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        folder_put_text(folder, "vocab.txt", lists[i].text);
        check_status(host, tokenizer_load(host, folder->path, &tokenizer), HASHATTN_BAD_FILE,
                     lists[i].message);
    }
    folder_put_text(folder, "vocab.json", "{\"a\": 0, \"b\": 1, \"ab\": 2}");
    check_status(host, tokenizer_load(host, folder->path, &tokenizer), HASHATTN_BAD_FILE,
                 "merges.txt: cannot open");
    static const struct {
        const char *text, *message;
    } merges[] = {
        {"#version: 0.2\na b\nab\n", "merges.txt: line 3: a merge is two tokens separated by one space"},
        {"a b c\n", "merges.txt: line 1: a merge is two tokens separated by one space"},
        {"a b\nab a\n", "merges.txt: line 2: merge 1: 'aba' is not in the vocabulary"},
        {"a \n", "merges.txt: line 1: merge 0 has an empty part"},
    };
    for (size_t i = 0; i < sizeof merges / sizeof merges[0]; i++) {
        folder_put_text(folder, "merges.txt", merges[i].text);
        check_status(host, tokenizer_load(host, folder->path, &tokenizer), HASHATTN_BAD_FILE,
                     merges[i].message);
    }
    folder_put_text(folder, "merges.txt", "#version: 0.2\na b\n\n");
    check_status(host, tokenizer_load(host, folder->path, &tokenizer), HASHATTN_OK, NULL);
    tokenizer_free(host, tokenizer);
}

/* GPT-2 was released with other names of the same files. If both are there, vocab.json is read. */
static void first_names_of_gpt2_are_read(void **state)
{
    struct folder *folder = *state;
    struct tokenizer *tokenizer;
    struct host *host = &folder->host;
    uint32_t id;
    bool is;
    folder_put_text(folder, "encoder.json", "{\"a\": 0, \"b\": 1, \"ab\": 2, \"<|endoftext|>\": 3}");
    check_status(host, tokenizer_load(host, folder->path, &tokenizer), HASHATTN_BAD_FILE,
                 "vocab.bpe: cannot open");
    folder_put_text(folder, "vocab.bpe", "#version: 0.2\na b\n");
    check_status(host, tokenizer_load(host, folder->path, &tokenizer), HASHATTN_OK, NULL);
    check_status(host, tokenizer_is_in(host, folder->path, &is), HASHATTN_OK, NULL);
    assert_true(is && tokenizer_num_ids(tokenizer) == 4);
    assert_true(tokenizer_find(tokenizer, (struct piece){"<|endoftext|>", 13}, &id) && id == 3);
    tokenizer_free(host, tokenizer);
    folder_put_text(folder, "vocab.json", "{\"a\": 0, \"b\": 1}");
    folder_put_text(folder, "merges.txt", "");
    check_status(host, tokenizer_load(host, folder->path, &tokenizer), HASHATTN_OK, NULL);
    assert_int_equal(tokenizer_num_ids(tokenizer), 2);
    tokenizer_free(host, tokenizer);
}

/* Loads, writes and loads again; both write the same. */
static void written_files_are_read_back(void **state)
{
    struct folder *folder = *state;
    static const char *const files[] = {
        "{" MODEL "," BYTES "}",
        "{" MODEL ", \"pre_tokenizer\": {\"type\": \"ByteLevel\"}, \"decoder\": {\"type\": \"ByteLevel\"}, "
        "\"post_processor\": "
        "{\"type\": \"RobertaProcessing\", \"cls\": [\"<s>\", 3], \"sep\": [\"</s>\", 4], \"trim_offsets\": "
        "true, "
        "\"add_prefix_space\": false}, \"added_tokens\": [{\"id\": 3, \"content\": \"<s>\", \"special\": "
        "true}, "
        "{\"id\": 9, \"content\": \"New\", \"lstrip\": true, \"single_word\": true, \"normalized\": false}]}",
        "{" PIECE "," WORDS
        ", \"normalizer\": {\"type\": \"BertNormalizer\", \"clean_text\": false, \"strip_accents\": null, "
        "\"lowercase\": true}, \"decoder\": {\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": "
        "false}, "
        "\"added_tokens\": [{\"id\": 5, \"content\": \"NEW\", \"rstrip\": true}], \"post_processor\": "
        "{\"type\": \"Sequence\", "
        "\"processors\": [{\"type\": \"ByteLevel\", \"trim_offsets\": true}, {\"type\": "
        "\"TemplateProcessing\", "
        "\"single\": [{\"SpecialToken\": {\"id\": \"q\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", "
        "\"type_id\": 1}}], "
        "\"pair\": [{\"Sequence\": {\"id\": \"B\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", "
        "\"type_id\": 1}}], "
        "\"special_tokens\": {\"q\": {\"id\": \"q\", \"ids\": [3, 4], \"tokens\": [\"[CLS]\", "
        "\"[SEP]\"]}}}]}}",
        "{" PIECE "," WORDS ", \"post_processor\": {\"type\": \"BertProcessing\", \"cls\": [\"[CLS]\", 3], "
        "\"sep\": [\"[SEP]\", 4]}}",
    };
    struct host *host = &folder->host;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct tokenizer *tokenizer;
        char path[100], *text[2];
        size_t size;
        folder_put_text(folder, "tokenizer.json", files[i]);
        snprintf(path, sizeof path, "%s/tokenizer.json", folder->path);
        for (int round = 0; round < 2; round++) {
            check_status(host, tokenizer_load(host, folder->path, &tokenizer), HASHATTN_OK, NULL);
            struct encoder *encoder;
            struct encoding got;
            const struct encode_options options = {.special_tokens = true};
            check_status(host, encoder_new(host, tokenizer, &encoder), HASHATTN_OK, NULL);
            check_status(host,
                         encoder_encode_pair(encoder, (struct piece){"ab New", 6}, (struct piece){"NEW a", 5},
                                             &options, &got),
                         HASHATTN_OK, NULL);
            static const uint32_t ids[][8] = {
                {2, 0}, {3, 2, 9, 4, 4, 0, 4}, {5, 1, 1, 2, 5}, {3, 1, 2, 0, 4, 0, 1, 4}};
            static const size_t counts[] = {2, 7, 5, 8};
            assert_int_equal(got.count, counts[i]);
            check_same_bits(got.ids, ids[i], got.count * sizeof *got.ids, files[i]);
            encoder_free(encoder);
            check_status(host, tokenizer_write_json(host, path, tokenizer), HASHATTN_OK, NULL);
            text[round] = folder_get(folder, "tokenizer.json", &size);
            tokenizer_free(host, tokenizer);
        }
        assert_string_equal(text[0], text[1]);
        free(text[0]);
        free(text[1]);
    }
}

#define TEXT_OF(text, segment) "{\"Sequence\": {\"id\": \"" text "\", \"type_id\": " segment "}}"
#define SEPARATOR              "{\"SpecialToken\": {\"id\": \"[SEP]\", \"type_id\": 0}}"

/* The second text of a pair gets a segment of its own, which the written file has too; where there is one it
   stays. The config names what the library's tokenizer returns. */
static void separated_pairs_are_written(void **state)
{
    struct folder *folder = *state;
    struct host *host = &folder->host;
    static const char *const processors[] = {
        "{\"type\": \"RobertaProcessing\", \"sep\": [\"[SEP]\", 4], \"cls\": [\"[CLS]\", 3]}",
        "{\"type\": \"BertProcessing\", \"cls\": [\"[CLS]\", 3], \"sep\": [\"[SEP]\", 4]}",
        "{\"type\": \"TemplateProcessing\", \"single\": [" TEXT_OF("A", "0") "], \"pair\": [" TEXT_OF(
            "A", "0") "," SEPARATOR "," SEPARATOR
                      "," TEXT_OF("B", "1") "], \"special_tokens\": {\"[SEP]\": "
                                            "{\"id\": \"[SEP]\", \"ids\": [4], \"tokens\": [\"[SEP]\"]}}}"};
    static const uint8_t want[][6] = {{0, 0, 0, 1, 1, 1}, {0, 0, 0, 1, 1, 0}, {0, 0, 0, 1, 0, 0}};
    static const size_t counts[] = {6, 5, 4};
    char path[100], file[1200];
    snprintf(path, sizeof path, "%s/tokenizer.json", folder->path);
    for (size_t i = 0; i < sizeof processors / sizeof *processors; i++) {
        const struct encode_options options = {.special_tokens = true};
        struct tokenizer *tokenizer;
        struct encoder *encoder;
        struct encoding got;
        snprintf(file, sizeof file, "{" PIECE "," WORDS ", \"post_processor\": %s}", processors[i]);
        folder_put_text(folder, "tokenizer.json", file);
        for (int round = 0; round < 2; round++) {
            check_status(host, tokenizer_load(host, folder->path, &tokenizer), HASHATTN_OK, NULL);
            if (round == 0)
                tokenizer_separate_pair(tokenizer);
            check_status(host, encoder_new(host, tokenizer, &encoder), HASHATTN_OK, NULL);
            check_status(
                host,
                encoder_encode_pair(encoder, (struct piece){"a", 1}, (struct piece){"a", 1}, &options, &got),
                HASHATTN_OK, NULL);
            assert_int_equal(got.count, counts[i]);
            check_same_bits(got.segments, want[i], counts[i], processors[i]);
            encoder_free(encoder);
            check_status(host, tokenizer_write_json(host, path, tokenizer), HASHATTN_OK, NULL);
            tokenizer_free(host, tokenizer);
        }
        check_status(host, tokenizer_load(host, folder->path, &tokenizer), HASHATTN_OK, NULL);
        snprintf(file, sizeof file, "%s/tokenizer_config.json", folder->path);
        check_status(host, tokenizer_write_config(host, file, tokenizer, 9, i == 0), HASHATTN_OK, NULL);
        size_t size;
        char *text = folder_get(folder, "tokenizer_config.json", &size);
        assert_true((strstr(text, "token_type_ids") != NULL) == (i == 0) &&
                    strstr(text, "input_ids") != NULL);
        free(text);
        folder_remove(folder, "tokenizer_config.json");
        tokenizer_free(host, tokenizer);
    }
}

static void check_decoded(struct folder *folder, const char *json, const uint32_t *ids, size_t count,
                          bool skip, const char *want)
{
    struct tokenizer *tokenizer;
    char *text;
    size_t size;
    folder_put_text(folder, "tokenizer.json", json);
    check_status(&folder->host, tokenizer_load(&folder->host, folder->path, &tokenizer), HASHATTN_OK, NULL);
    check_status(&folder->host, tokenizer_decode(&folder->host, tokenizer, ids, count, skip, &text, &size),
                 HASHATTN_OK, NULL);
    assert_string_equal(text, want);
    assert_int_equal(size, strlen(want));
    memory_free(&folder->host, text);
    tokenizer_free(&folder->host, tokenizer);
}

static void ids_are_decoded(void **state)
{
    struct folder *folder = *state;
    /* U+00E4 U+00B8 U+0143 are the bytes of an ideograph; U+00FF is 0xff, U+00ED U+0142 begin a surrogate. */
    const char *bytes = "{\"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": {\"a\": 0, \"\\u0120b\": "
                        "1, \"\\u00e4\": 2, "
                        "\"\\u00b8\": 3, \"\\u0143\": 4, \"\\u00ff\": 5, \"\\u00ed\": 6, \"\\u0142\": 7, \"x "
                        "y\": 8, \"<s>\": 9}}, " BYTES ", \"decoder\": {\"type\": \"ByteLevel\"}, "
                        "\"added_tokens\": [{\"id\": 9, \"content\": \"<s>\", \"special\": true}]}";
    check_decoded(folder, bytes, (const uint32_t[]){9, 0, 1, 2, 3, 4, 8}, 7, true, "a b\xe4\xb8\xadx y");
    check_decoded(folder, bytes, (const uint32_t[]){9, 0}, 2, false, "<s>a");
    check_decoded(folder, bytes, (const uint32_t[]){2, 3, 0, 5, 6, 7, 0}, 7, true,
                  "\xef\xbf\xbd"
                  "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                  "a");
    check_decoded(folder, bytes, NULL, 0, true, "");
    const char *words =
        "{\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"u\", \"continuing_subword_prefix\": \"##\", "
        "\"max_input_chars_per_word\": 100, \"vocab\": {\"u\": 0, \"a\": 1, \"##b\": 2, \".\": 3, \"'s\": "
        "4}}, " WORDS ", \"decoder\": {\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": true}}";
    check_decoded(folder, words, (const uint32_t[]){2, 1, 2, 3, 4, 0}, 6, true, "##b ab.'s u");
    check_decoded(folder,
                  "{" PIECE "," WORDS ", \"normalizer\": {\"type\": \"BertNormalizer\"}, "
                  "\"added_tokens\": [{\"id\": 5, \"content\": \"NEW\"}]}",
                  (const uint32_t[]){5, 1}, 2, true, "new a");
    /* A special token that normalization changes is skipped only if the result is special. */
    const char *special =
        "{" PIECE "," WORDS ", \"normalizer\": {\"type\": \"BertNormalizer\"}, \"added_tokens\": ["
        "{\"id\": 5, \"content\": \"NEW\", \"special\": true, \"normalized\": true}, "
        "{\"id\": 6, \"content\": \"<t>\", \"special\": true, \"normalized\": true}, "
        "{\"id\": 7, \"content\": \"<T>\", \"normalized\": true}, "
        "{\"id\": 8, \"content\": \"OLD\", \"special\": true}]}";
    check_decoded(folder, special, (const uint32_t[]){5, 6, 7, 8, 1}, 5, true, "new a");
    check_decoded(folder, special, (const uint32_t[]){5, 6, 7, 8, 1}, 5, false, "new <t> <t> OLD a");
    check_decoded(folder, "{" PIECE "," WORDS "}", (const uint32_t[]){1, 2}, 2, true, "a ##b");
    struct tokenizer *tokenizer;
    char *text;
    size_t size;
    check_status(&folder->host, tokenizer_load(&folder->host, folder->path, &tokenizer), HASHATTN_OK, NULL);
    check_status(&folder->host,
                 tokenizer_decode(&folder->host, tokenizer, (const uint32_t[]){1, 7}, 2, true, &text, &size),
                 HASHATTN_INVALID, "id 7 at position 1 has no token, ids are 0 to 4");
    assert_null(text);
    tokenizer_free(&folder->host, tokenizer);
}

static void settings_of_bert_are_read(void **state)
{
    struct folder *folder = *state;
    static const struct {
        const char *config;
        uint32_t id; /* of "A" with an accent */
    } rows[] = {
        {"{}", 3},
        {"{\"do_lower_case\": false}", 6},
        {"{\"do_lower_case\": true, \"strip_accents\": false}", 5},
        {"{\"do_lower_case\": false, \"strip_accents\": true}", 4},
    };
    folder_put_text(folder, "vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\nA\n\xc3\xa0\n\xc3\x80");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tokenizer *tokenizer;
        struct encoder *encoder;
        struct encoding got;
        const struct encode_options options = {.special_tokens = true};
        folder_put_text(folder, "tokenizer_config.json", rows[i].config);
        check_status(&folder->host, tokenizer_load(&folder->host, folder->path, &tokenizer), HASHATTN_OK,
                     NULL);
        assert_int_equal(encoder_new(&folder->host, tokenizer, &encoder), HASHATTN_OK);
        assert_int_equal(encoder_encode(encoder, (struct piece){"\xc3\x80", 2}, &options, &got), HASHATTN_OK);
        assert_true(got.count == 3 && got.ids[0] == 1 && got.ids[1] == rows[i].id && got.ids[2] == 2);
        encoder_free(encoder);
        tokenizer_free(&folder->host, tokenizer);
    }
}

#define FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_enter, folder_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER(bad_files_are_refused),        FOLDER(bad_vocabulary_files_are_refused),
        FOLDER(first_names_of_gpt2_are_read), FOLDER(written_files_are_read_back),
        FOLDER(separated_pairs_are_written),  FOLDER(ids_are_decoded),
        FOLDER(settings_of_bert_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
