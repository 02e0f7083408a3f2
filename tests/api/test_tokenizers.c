/* Tokenizers through the public header: learning, saving, loading, encoding and decoding, and every refusal.

   Planted and caught: offsets returned although they were not asked for; an existing tokenizer.json
   overwritten; a second text taken for none; vocab_size not checked.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "support/api_context.h"
#include "support/folder.h"

static const char text[] = "the cat sat on the mat, the dog on the log; don't the cats?\n"
                           "the cat and the dog and the mat and the log\n";

static hashattn_tokenizer *learn(hashattn_context *context, const struct folder *folder)
{
    char path[100];
    const char *files[] = {path};
    hashattn_tokenizer *tokenizer;
    hashattn_learn_options options;
    folder_put_text(folder, "text", text);
    snprintf(path, sizeof path, "%s/text", folder->path);
    hashattn_learn_options_default(&options);
    options.vocab_size = 278;
    check_ok(context, hashattn_tokenizer_learn(context, files, 1, &options, &tokenizer));
    return tokenizer;
}

static void a_learned_tokenizer_is_saved_and_loaded(void **state)
{
    struct folder *folder = *state;
    struct failing_host counting;
    failing_host_init(&counting, -1);
    hashattn_context *context = context_with(1, &counting);
    hashattn_tokenizer *tokenizer = learn(context, folder);
    assert_int_equal(hashattn_tokenizer_num_ids(tokenizer), 278);
    assert_int_equal(hashattn_tokenizer_find(tokenizer, "</s>"), 2);
    assert_int_equal(hashattn_tokenizer_find(tokenizer, "</t>"), -1);
    check_ok(context, hashattn_tokenizer_save(tokenizer, folder->path));
    check_call(context, hashattn_tokenizer_save(tokenizer, folder->path), HASHATTN_INVALID,
               "tokenizer.json exists and is not overwritten");
    hashattn_tokenizer *loaded;
    check_ok(context, hashattn_tokenizer_load(context, folder->path, &loaded));
    hashattn_encoding a = {.struct_size = sizeof a}, b = {.struct_size = sizeof b};
    check_ok(context, hashattn_tokenizer_encode(tokenizer, text, strlen(text), NULL, 0, NULL, &a));
    check_ok(context, hashattn_tokenizer_encode(loaded, text, strlen(text), NULL, 0, NULL, &b));
    assert_int_equal(a.count, b.count);
    check_same_bits(a.ids, b.ids, a.count * sizeof *a.ids, "ids");
    assert_null(a.begins);
    assert_null(a.ends);
    const char *decoded;
    size_t size;
    check_ok(context, hashattn_tokenizer_decode(loaded, a.ids, a.count, 1, &decoded, &size));
    assert_string_equal(decoded, text);
    assert_int_equal(size, strlen(text));
    hashattn_tokenizer_free(tokenizer);
    hashattn_tokenizer_free(loaded);
    hashattn_tokenizer_free(NULL);
    hashattn_context_free(context);
    assert_int_equal(counting.outstanding, 0);
}

static void options_of_encoding_are_honoured(void **state)
{
    struct folder *folder = *state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_tokenizer *tokenizer = learn(context, folder);
    hashattn_encode_options options;
    hashattn_encoding got = {.struct_size = sizeof got};
    hashattn_encode_options_default(&options);
    options.special_tokens = options.offsets = 1;
    options.max_tokens = 4;
    check_ok(context, hashattn_tokenizer_encode(tokenizer, "the cat the", 11, NULL, 0, &options, &got));
    assert_true(got.count == 4 && got.truncated && got.ids[0] == 0 && got.ids[3] == 2);
    assert_true(got.begins[1] == 0 && got.ends[1] == 3 && got.begins[2] == 4 && got.ends[3] == 0);
    options.max_tokens = 0;
    check_ok(context, hashattn_tokenizer_encode(tokenizer, "the", 3, " the", 4, &options, &got));
    assert_true(got.count == 6 && got.ids[2] == 2 && got.ids[3] == 2 && got.ids[5] == 2 && !got.truncated);
    check_ok(context, hashattn_tokenizer_encode(tokenizer, NULL, 0, NULL, 0, &options, &got));
    assert_int_equal(got.count, 2);
    hashattn_tokenizer_free(tokenizer);
    hashattn_context_free(context);
}

static void bad_arguments_are_refused(void **state)
{
    struct folder *folder = *state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_tokenizer *tokenizer = learn(context, folder), *none;
    hashattn_encoding got = {.struct_size = sizeof got};
    hashattn_encode_options options;
    hashattn_learn_options learning;
    const char *decoded, *files[] = {"/none", NULL};
    size_t size;
    const uint32_t ids[] = {5, 5000};
    assert_int_equal(hashattn_tokenizer_load(NULL, "x", &none), HASHATTN_INVALID);
    check_call(context, hashattn_tokenizer_load(context, NULL, &none), HASHATTN_INVALID, "directory is NULL");
    check_call(context, hashattn_tokenizer_load(context, folder->path, NULL), HASHATTN_INVALID,
               "tokenizer is NULL");
    check_call(context, hashattn_tokenizer_load(context, folder->path, &none), HASHATTN_BAD_FILE,
               "no tokenizer.json, vocab.json with merges.txt, encoder.json with vocab.bpe, or vocab.txt");
    assert_int_equal(hashattn_tokenizer_encode(NULL, "x", 1, NULL, 0, NULL, &got), HASHATTN_INVALID);
    check_call(context, hashattn_tokenizer_encode(tokenizer, NULL, 1, NULL, 0, NULL, &got), HASHATTN_INVALID,
               "text is NULL");
    check_call(context, hashattn_tokenizer_encode(tokenizer, "x", 1, NULL, 0, NULL, NULL), HASHATTN_INVALID,
               "encoding is NULL");
    hashattn_encode_options_default(&options);
    options.special_tokens = 1;
    options.max_tokens = 1;
    check_call(context, hashattn_tokenizer_encode(tokenizer, "x", 1, NULL, 0, &options, &got),
               HASHATTN_INVALID, "at most 1 tokens are allowed, but the special tokens alone are 2");
    options.struct_size = 4;
    check_call(context, hashattn_tokenizer_encode(tokenizer, "x", 1, NULL, 0, &options, &got),
               HASHATTN_INVALID, "struct_size is 4");
    assert_int_equal(hashattn_tokenizer_decode(NULL, ids, 1, 0, &decoded, &size), HASHATTN_INVALID);
    check_call(context, hashattn_tokenizer_decode(tokenizer, NULL, 1, 0, &decoded, &size), HASHATTN_INVALID,
               "ids is NULL");
    check_call(context, hashattn_tokenizer_decode(tokenizer, ids, 2, 0, &decoded, &size), HASHATTN_INVALID,
               "id 5000 at position 1 has no token, ids are 0 to 277");
    hashattn_learn_options_default(&learning);
    assert_int_equal(learning.vocab_size, 30000);
    assert_int_equal(hashattn_tokenizer_learn(NULL, files, 1, NULL, &none), HASHATTN_INVALID);
    check_call(context, hashattn_tokenizer_learn(context, NULL, 1, NULL, &none), HASHATTN_INVALID,
               "files is NULL");
    check_call(context, hashattn_tokenizer_learn(context, files, 2, NULL, &none), HASHATTN_INVALID,
               "file 1 is NULL");
    check_call(context, hashattn_tokenizer_learn(context, files, 1, NULL, &none), HASHATTN_BAD_FILE,
               "/none: cannot open");
    check_call(context, hashattn_tokenizer_learn(context, files, 0, NULL, &none), HASHATTN_INVALID,
               "no text in 0 files");
    learning.vocab_size = 260;
    check_call(context, hashattn_tokenizer_learn(context, files, 1, &learning, &none), HASHATTN_INVALID,
               "vocab_size is 260, allowed are 261 (5 special tokens and 256 bytes) to 1048576");
    learning.vocab_size = 300;
    learning.min_frequency = 0;
    check_call(context, hashattn_tokenizer_learn(context, files, 1, &learning, &none), HASHATTN_INVALID,
               "min_frequency is 0");
    assert_int_equal(hashattn_tokenizer_save(NULL, "x"), HASHATTN_INVALID);
    check_call(context, hashattn_tokenizer_save(tokenizer, NULL), HASHATTN_INVALID, "directory is NULL");
    assert_int_equal(hashattn_tokenizer_num_ids(NULL), 0);
    assert_int_equal(hashattn_tokenizer_find(NULL, "a"), -1);
    hashattn_tokenizer_free(tokenizer);
    hashattn_context_free(context);
}

static hashattn_status load_and_encode(hashattn_context *context, void *user)
{
    const struct folder *folder = user;
    hashattn_tokenizer *tokenizer = NULL;
    hashattn_encoding got = {.struct_size = sizeof got};
    const char *decoded;
    size_t size;
    hashattn_status status = hashattn_tokenizer_load(context, folder->path, &tokenizer);
    if (status == HASHATTN_OK)
        status = hashattn_tokenizer_encode(tokenizer, "the cat", 7, NULL, 0, NULL, &got);
    if (status == HASHATTN_OK)
        status = hashattn_tokenizer_decode(tokenizer, got.ids, got.count, 0, &decoded, &size);
    hashattn_tokenizer_free(tokenizer);
    return status;
}

static void failing_allocations_leave_nothing(void **state)
{
    struct folder *folder = *state;
    folder_put_text(folder, "vocab.json",
                    "{\"t\": 0, \"h\": 1, \"e\": 2, \"th\": 3, \"the\": 4, \"<s>\": 5, \"</s>\": 6}");
    folder_put_text(folder, "merges.txt", "t h\nth e\n");
    check_every_failing_allocation(load_and_encode, folder);
}

#define FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_enter, folder_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER(a_learned_tokenizer_is_saved_and_loaded),
        FOLDER(options_of_encoding_are_honoured),
        FOLDER(bad_arguments_are_refused),
        FOLDER(failing_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
