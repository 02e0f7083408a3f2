/* Texts as ids: each kind of token, what is learned, cuts, empty texts, and a stored model's tokenizer.
   Covers: tokens.c
   Bugs planted and caught: special tokens left out; the last token of a cut text dropped; a text of exactly
   max_len tokens counted as cut; <eos> only at the end of the text; an empty text without tokens; the given
   tokenizer replaced by a learned one, or taken when learning fails; one id too few in the vocabulary; the
   segments of the second text of a pair left out; of a model with one segment set; the last token
   lost where the middle is cut; half of a cut text its beginning; words cut at their end only.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/tokens.h"

#include <stdio.h>
#include <string.h>

#include "support/folder.h"
#include "support/task_case.h"
#include "tasks/words.h"
#include "text/learning/learn_bpe.h"

static struct piece piece_of(const char *text)
{
    return (struct piece){text, strlen(text)};
}

static hashattn_status learn(struct host *host, const struct token_choice *choice, const char *text,
                             struct task_facts *facts)
{
    struct word_counts counts = {.bytes = NULL};
    hashattn_status status = tokens_count(host, choice, piece_of(text), &counts);
    if (status == HASHATTN_OK)
        status = tokens_learn(host, choice, &counts, facts);
    word_counts_free(host, &counts);
    return status;
}

/* Checks the ids and the mark of a text of one document. */
static void check_ids(struct host *host, struct task_facts *facts, enum text_cut what, size_t max_len,
                      const char *text, const uint32_t *want, size_t count, bool cut)
{
    uint32_t ids[64];
    uint8_t segments[64];
    struct text_encoder texts;
    struct token_row tokens = {.ids = ids, .segments = segments};
    facts->max_len = max_len;
    check_status(host, text_encoder_open(host, facts, &texts), HASHATTN_OK, NULL);
    texts.cut = what;
    check_status(host, text_encoder_write(host, &texts, piece_of(text), &tokens), HASHATTN_OK, NULL);
    assert_int_equal(tokens.count, count);
    check_same_bits(ids, want, count * sizeof *ids, text);
    assert_int_equal(tokens.cut, cut);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(segments[i], 0);
    text_encoder_close(&texts);
}
#define CHECK_CUT(what, max_len, text, cut, ...)                                                             \
    check_ids(host, &facts, what, max_len, text, (const uint32_t[]){__VA_ARGS__},                            \
              sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), cut)
#define CHECK_IDS(...) CHECK_CUT(CUT_END, __VA_ARGS__)

static void bytes_are_one_more(void **state)
{
    struct host *host = &((struct folder *)*state)->host;
    struct task_facts facts = {0};
    const struct token_choice choice = {.kind = TOKENS_BYTES, .vocab_size = 300};
    assert_int_equal(tokens_usual_len(&choice), 4096);
    check_status(host, learn(host, &choice, "any", &facts), HASHATTN_OK, NULL);
    assert_true(facts.bytes && facts.vocab_size == 257 && facts.num_tokens == 0 && facts.num_words == 0);
    CHECK_IDS(3, "a\xff", false, 98, 256);
    CHECK_IDS(2, "ab", false, 98, 99);
    CHECK_IDS(1, "ab", true, 98);
    CHECK_IDS(9, "", false, 11);
    CHECK_CUT(CUT_MIDDLE, 4, "abcdefg", true, 98, 102, 103, 104);
    CHECK_CUT(CUT_MIDDLE, 6, "abcdefg", true, 98, 99, 101, 102, 103, 104);
    CHECK_CUT(CUT_MIDDLE, 2, "abcdefg", true, 98, 104);
    CHECK_CUT(CUT_MIDDLE, 7, "abcdefg", false, 98, 99, 100, 101, 102, 103, 104);
    CHECK_CUT(CUT_MIDDLE, 1, "ab", true, 98);
    CHECK_CUT(CUT_MIDDLE, 4, "", false, 11);
}

static void words_stand_between_white_space(void **state)
{
    struct host *host = &((struct folder *)*state)->host;
    struct task_facts facts = {0};
    const struct token_choice choice = {.kind = TOKENS_WORDS, .vocab_size = 4};
    assert_int_equal(tokens_usual_len(&choice), 1024);
    check_status(host, learn(host, &choice, "the cat\nthe dog the dog", &facts), HASHATTN_OK, NULL);
    assert_true(!facts.bytes && facts.num_words == 4 && facts.vocab_size == 5 && facts.tokenizer == NULL);
    enum { THE = 3, DOG = 4 };
    CHECK_IDS(9, "the  cat", false, THE, WORDS_UNKNOWN, WORDS_END);
    CHECK_IDS(9, "the\n\tdog\r\n", false, THE, WORDS_END, DOG, WORDS_END);
    CHECK_IDS(3, "the dog", false, THE, DOG, WORDS_END);
    CHECK_IDS(2, "the dog", true, THE, DOG);
    CHECK_IDS(9, "", false, WORDS_END);
    CHECK_CUT(CUT_MIDDLE, 4, "dog\nthe\nthe dog", true, DOG, THE, DOG, WORDS_END);
    CHECK_CUT(CUT_MIDDLE, 7, "dog\nthe\nthe dog", false, DOG, WORDS_END, THE, WORDS_END, THE, DOG, WORDS_END);
    CHECK_CUT(CUT_MIDDLE, 4, "", false, WORDS_END);
    task_facts_free(host, &facts);
}

/* With the 256 bytes and one merge: 'a' and 'b' join to the last id. */
static void bpe_is_learned(void **state)
{
    struct host *host = &((struct folder *)*state)->host;
    struct task_facts facts = {0};
    const struct token_choice choice = {.kind = TOKENS_BPE, .vocab_size = LEARN_LEAST + 1};
    enum { START = 0, END = 2, AB = LEARN_LEAST };
    assert_int_equal(tokens_usual_len(&choice), 1024);
    check_status(host, learn(host, &choice, "ab ab ba ab", &facts), HASHATTN_OK, NULL);
    assert_true(!facts.bytes && facts.num_words == 0 && facts.num_tokens == LEARN_LEAST + 1);
    assert_int_equal(facts.vocab_size, facts.num_tokens);
    uint32_t a, line_feed;
    assert_true(tokenizer_find(facts.tokenizer, piece_of("a"), &a));
    assert_true(tokenizer_find(facts.tokenizer, piece_of("\xc4\x8a"), &line_feed));
    CHECK_IDS(9, "aba", false, START, AB, a, END);
    CHECK_IDS(4, "aba", false, START, AB, a, END);
    CHECK_IDS(3, "aba", true, START, AB, END);
    CHECK_IDS(9, "\n", false, START, line_feed, END);
    CHECK_IDS(9, "", false, START, END);
    CHECK_CUT(CUT_MIDDLE, 4, "abaa\n", true, START, a, line_feed, END);
    CHECK_CUT(CUT_MIDDLE, 6, "abaa\n", false, START, AB, a, a, line_feed, END);
    CHECK_CUT(CUT_MIDDLE, 2, "ab", true, START, END);
    CHECK_CUT(CUT_MIDDLE, 4, "", false, START, END);
    struct text_encoder texts;
    uint32_t ids[9];
    struct token_row tokens = {.ids = ids};
    facts.max_len = 1;
    check_status(host, text_encoder_open(host, &facts, &texts), HASHATTN_OK, NULL);
    check_status(host, text_encoder_write(host, &texts, piece_of("a"), &tokens), HASHATTN_INVALID,
                 "at most 1 tokens are allowed, but the special tokens alone are 2");
    text_encoder_close(&texts);
    task_facts_free(host, &facts);
}

static void a_given_tokenizer_is_used(void **state)
{
    struct host *host = &((struct folder *)*state)->host;
    enum { CLS = 2, SEP = 3, THE = 5, CAT = 6 }; /* of tests/models/checkpoints/bert/vocab.txt */
    struct tokenizer *given;
    check_status(host, tokenizer_load(host, "tests/models/checkpoints/bert", &given), HASHATTN_OK, NULL);
    struct token_choice choice = {.kind = TOKENS_BPE, .vocab_size = 300, .given = given};
    struct task_facts facts = {0};
    check_status(host, tokens_check(host, &choice), HASHATTN_OK, NULL);
    check_status(host, learn(host, &choice, "x x", &facts), HASHATTN_OK, NULL);
    assert_ptr_equal(facts.tokenizer, given);
    assert_int_equal(facts.num_tokens, tokenizer_num_ids(given));
    CHECK_IDS(9, "the cat", false, CLS, THE, CAT, SEP);
    CHECK_IDS(3, "the cat", true, CLS, THE, SEP);
    CHECK_IDS(9, "", false, CLS, SEP);
    task_facts_free(host, &facts);
    for (enum token_kind kind = TOKENS_WORDS; kind <= TOKENS_BYTES; kind++) {
        choice.kind = kind;
        check_status(host, tokens_check(host, &choice), HASHATTN_INVALID,
                     kind == TOKENS_WORDS ? "tokens is words, but the stored model has a tokenizer"
                                          : "tokens is bytes, but the stored model has a tokenizer");
    }
}

/* A failure leaves the given tokenizer to the caller, and pairs have segments if the facts say so. */
static void tasks_take_the_tokenizer_last(void **state)
{
    struct folder *folder = *state;
    struct host *host = &folder->host;
    const struct task *task = task_find("retrieval");
    const struct task_options options = task_options_of("retrieval", ""),
                              bytes = task_options_of("retrieval", "tokens=bytes");
    struct tokenizer *given;
    struct task_facts facts;
    struct dataset data;
    check_status(host, tokenizer_load(host, "tests/models/checkpoints/bert", &given), HASHATTN_OK, NULL);
    folder_put_text(folder, "train.tsv", "a\tx\ty\n");
    check_status(host, task->facts(host, &options, folder->path, given, &facts), HASHATTN_BAD_FILE,
                 "single label");
    assert_null(facts.tokenizer);
    folder_put_text(folder, "train.tsv", "a\tthe cat\tthe\nb\tx\ty\n");
    folder_put_text(folder, "valid.tsv", "a\tthe cat\tthe\n");
    check_status(host, task->facts(host, &bytes, folder->path, given, &facts), HASHATTN_INVALID,
                 "tokens is bytes");
    assert_null(facts.tokenizer);
    check_status(host, task->facts(host, &options, folder->path, given, &facts), HASHATTN_OK, NULL);
    assert_ptr_equal(facts.tokenizer, given);
    for (size_t segments = 0; segments <= 2; segments += 2) {
        facts.num_segments = segments;
        check_status(host, task->load(host, &options, &facts, folder->path, SPLIT_VALID, 1, &data),
                     HASHATTN_OK, NULL);
        assert_true(data.count == 1 && data.segmented == (segments > 0) && data.offsets[1] == 4 &&
                    data.offsets[2] == 7);
        for (size_t i = 0; i < 7 && segments > 0; i++)
            assert_int_equal(data.segments[i], 0);
        dataset_free(host, &data);
    }
    task_facts_free(host, &facts);
}

/* The tokenizer of BERT has segments for pairs; one that was learned gets them if the model has two. */
static void pairs_are_one_sequence(void **state)
{
    struct host *host = &((struct folder *)*state)->host;
    const struct piece pair[2] = {piece_of("the cat"), piece_of("the")}, empty[2] = {{NULL, 0}, {NULL, 0}};
    for (int learned = 0; learned < 2; learned++)
        for (size_t segmented = 0; segmented < 2; segmented++) {
            struct tokenizer *given = NULL;
            if (!learned)
                check_status(host, tokenizer_load(host, "tests/models/checkpoints/bert", &given), HASHATTN_OK,
                             NULL);
            const struct token_choice choice = {
                .kind = TOKENS_BPE, .vocab_size = LEARN_LEAST, .given = given};
            struct task_facts facts = {.max_len = 9};
            struct text_encoder texts;
            uint32_t ids[9];
            uint8_t segments[9];
            struct token_row tokens = {.ids = ids, .segments = segmented ? segments : NULL};
            check_status(host, tokens_pair_segments(host, &choice, &facts), HASHATTN_OK, NULL);
            assert_int_equal(facts.num_segments, 2);
            check_status(host, learn(host, &choice, "the cat", &facts), HASHATTN_OK, NULL);
            check_status(host, text_encoder_open(host, &facts, &texts), HASHATTN_OK, NULL);
            check_status(host, text_encoder_write_pair(host, &texts, pair, &tokens), HASHATTN_OK, NULL);
            size_t first = 0; /* of the second text's part */
            while (ids[first] != texts.end)
                first++;
            assert_true(tokens.cut == (learned == 1) && tokens.count == (learned ? 9 : 6));
            for (size_t i = 0; segmented && i < tokens.count; i++)
                assert_int_equal(segments[i], i > first);
            tokens.cut = false;
            check_status(host, text_encoder_write_pair(host, &texts, empty, &tokens), HASHATTN_OK, NULL);
            assert_true(!tokens.cut && tokens.count == (learned ? 4 : 3));
            facts.num_segments = 1; /* of a model with one segment */
            if (learned && segmented) {
                check_status(host, text_encoder_write_pair(host, &texts, pair, &tokens), HASHATTN_OK, NULL);
                for (size_t i = 0; i < tokens.count; i++)
                    assert_int_equal(segments[i], 0);
            }
            text_encoder_close(&texts);
            task_facts_free(host, &facts);
        }
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    for (enum token_kind kind = TOKENS_BPE; kind <= TOKENS_WORDS; kind++) {
        bool done = false;
        for (long n = 0; !done; n++) {
            struct failing_host failing;
            struct task_facts facts = {.max_len = 9};
            struct text_encoder texts;
            uint32_t ids[9];
            struct token_row tokens = {.ids = ids};
            const struct token_choice choice = {.kind = kind, .vocab_size = 263};
            failing_host_init(&failing, n);
            struct host *host = &failing.host;
            hashattn_status status = learn(host, &choice, "ab ab bc bc bc", &facts);
            if (status == HASHATTN_OK) {
                status = text_encoder_open(host, &facts, &texts);
                if (status == HASHATTN_OK)
                    status = text_encoder_write(host, &texts, piece_of("ab bc"), &tokens);
                if (status == HASHATTN_OK && kind == TOKENS_BPE)
                    status = text_encoder_write_pair(
                        host, &texts, (const struct piece[]){piece_of("ab"), piece_of("bc")}, &tokens);
                text_encoder_close(&texts);
            }
            task_facts_free(host, &facts);
            done = status == HASHATTN_OK;
            assert_true(done || status == HASHATTN_NO_MEMORY);
            assert_int_equal(failing.outstanding, 0);
            assert_true(n < 1000 && (!done || n > 3));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bytes_are_one_more, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(words_stand_between_white_space, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(bpe_is_learned, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(a_given_tokenizer_is_used, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(tasks_take_the_tokenizer_last, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(pairs_are_one_sequence, folder_enter, folder_leave),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
