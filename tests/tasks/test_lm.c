/* Texts in segments: every token except the first is a target once, after the tokens of its segment before
   it; both vocabularies, both layouts, splits from the end, and every refusal. Bugs planted and caught: a
   token that is a target twice; the last short segment lost; a last segment of one token; <eos> missing at
   empty lines or at a last line without its end; splits drawn at random, or in the other order; unknown words
   counted that are input only; own files preferred to the published ones; ids cut to 16 bits; id 0 predicted;
   words taken for bytes; a file in place of a folder split when all of it is wanted; with bpe, id 0 not
   predicted, line feeds lost, special tokens added, and the given tokenizer replaced.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "support/folder.h"
#include "tasks/task.h"
#include "tasks/words.h"
#include "text/tokenizer.h"

/* The layout that the rows of the task use. */
struct options {
    int vocabulary;
    int64_t seq_len, max_words;
};

static struct options options_of(const char *vocabulary, const char *seq_len, const char *max_words)
{
    const struct task *task = task_find("lm");
    struct host host;
    struct options options;
    host_init(&host);
    assert_int_equal(task->options_size, sizeof options);
    options_preset(task->options, &options);
    const char *const set[][2] = {{"vocabulary", vocabulary}, {"seq_len", seq_len}, {"max_words", max_words}};
    for (size_t i = 0; i < 3; i++)
        check_status(&host, option_set(&host, task->options, "lm", &options, set[i][0], set[i][1]),
                     HASHATTN_OK, NULL);
    return options;
}

static hashattn_status facts_of(struct folder *folder, const struct options *options,
                                struct task_facts *facts)
{
    return task_find("lm")->facts(&folder->host, options, folder->path, NULL, facts);
}

static hashattn_status load(struct folder *folder, const struct options *options,
                            const struct task_facts *facts, enum split split, struct dataset *dataset)
{
    return task_find("lm")->load(&folder->host, options, facts, folder->path, split, 1, dataset);
}

/* Every id but 0 can be predicted. */
static void check_objective(const struct task_facts *facts, size_t num_outputs)
{
    const struct task_objective *entry = &facts->objectives[0];
    assert_int_equal(facts->num_objectives, 1);
    assert_string_equal(entry->name, "next_token");
    assert_true(entry->weight == 1 && entry->first_output == 1 && entry->num_outputs == num_outputs);
}

/* The data set has these tokens, each a target once, in segments of seq_len. */
static void check_segments(const struct dataset *dataset, const uint32_t *tokens, size_t count,
                           size_t seq_len)
{
    size_t at = 0; /* the first token of the segment */
    assert_true(dataset->next && !dataset->pairs && dataset->num_cut == 0);
    assert_true(dataset->num_targets == 1 && dataset->targets[0].kind == TARGETS_NEXT);
    assert_null(dataset->targets[0].ids); /* the next ids are in the sequences */
    assert_int_equal(dataset->count, (count - 1 + seq_len - 1) / seq_len);
    for (size_t s = 0; s < dataset->count; s++) {
        size_t length = dataset_length(dataset, s);
        assert_int_equal(length, count - 1 - at < seq_len ? count - 1 - at : seq_len);
        for (size_t k = 0; k <= length; k++)
            assert_int_equal(dataset->ids[dataset->offsets[s] + k], tokens[at + k]);
        at += length;
    }
    assert_int_equal(at, count - 1);
}

static void bytes_are_read_as_they_stand(void **state)
{
    struct folder *folder = *state;
    static const unsigned char text[] = "ab\r\n\0\xff\xef\xbb\xbfz"; /* 10 bytes, and NUL at the end */
    for (size_t size = 2; size <= sizeof text; size++)
        for (size_t seq_len = 1; seq_len <= 11; seq_len++) {
            char number[8];
            uint32_t tokens[sizeof text];
            sprintf(number, "%zu", seq_len);
            struct options options = options_of("bytes", number, "9");
            for (size_t i = 0; i < size; i++)
                tokens[i] = text[i] + 1u;
            folder_put(folder, "train.txt", text, size);
            folder_put(folder, "valid.txt", text, size);
            struct task_facts facts;
            struct dataset dataset;
            check_status(&folder->host, facts_of(folder, &options, &facts), HASHATTN_OK, NULL);
            assert_true(facts.bytes && facts.vocab_size == 257 && facts.max_len == seq_len &&
                        facts.num_words == 0 && facts.words == NULL && facts.num_classes == 0);
            check_objective(&facts, 256);
            for (enum split split = SPLIT_TRAIN; split <= SPLIT_VALID; split++) {
                check_status(&folder->host, load(folder, &options, &facts, split, &dataset), HASHATTN_OK,
                             NULL);
                check_segments(&dataset, tokens, size, seq_len);
                assert_int_equal(dataset.num_unknown, 0);
                dataset_free(&folder->host, &dataset);
            }
            task_facts_free(&folder->host, &facts);
        }
}

static void words_end_in_line_ends(void **state)
{
    struct folder *folder = *state;
    struct options options = options_of("words", "4", "65535");
    struct task_facts facts;
    struct dataset dataset;
    /* As in WikiText: a blank at both ends of a line, headings, <unk> in the text; the published names. */
    folder_put_text(folder, "wiki.train.tokens", " \n = b = \n \n a <unk> a b\n a");
    folder_put_text(folder, "wiki.valid.tokens", "c a\n\nb c <unk>\n");
    folder_put_text(folder, "wiki.test.tokens", "a\n");
    folder_put_text(folder, "train.txt", "other words");
    check_status(&folder->host, facts_of(folder, &options, &facts), HASHATTN_OK, NULL);
    assert_true(facts.num_words == 5 && facts.vocab_size == 6 && facts.words->count == 5 && !facts.bytes);
    check_objective(&facts, 5);
    /* a 3 (three times), = 4 and b 5 (twice) */
    static const uint32_t train[] = {2, 4, 5, 4, 2, 2, 3, 1, 3, 5, 2, 3, 2};
    static const uint32_t valid[] = {1, 3, 2, 2, 5, 1, 1, 2}, test[] = {3, 2};
    check_status(&folder->host, load(folder, &options, &facts, SPLIT_TRAIN, &dataset), HASHATTN_OK, NULL);
    check_segments(&dataset, train, 13, 4);
    assert_int_equal(dataset.num_unknown, 1);
    dataset_free(&folder->host, &dataset);
    check_status(&folder->host, load(folder, &options, &facts, SPLIT_VALID, &dataset), HASHATTN_OK, NULL);
    check_segments(&dataset, valid, 8, 4);
    assert_int_equal(dataset.num_unknown, 2); /* the first one is input only */
    dataset_free(&folder->host, &dataset);
    check_status(&folder->host, load(folder, &options, &facts, SPLIT_TEST, &dataset), HASHATTN_OK, NULL);
    check_segments(&dataset, test, 2, 4);
    dataset_free(&folder->host, &dataset);
    task_facts_free(&folder->host, &facts);
    options.max_words = 3;
    check_status(&folder->host, facts_of(folder, &options, &facts), HASHATTN_OK, NULL);
    check_status(&folder->host, load(folder, &options, &facts, SPLIT_TRAIN, &dataset), HASHATTN_OK, NULL);
    assert_true(facts.vocab_size == 4 && dataset.num_unknown == 5);
    dataset_free(&folder->host, &dataset);
    task_facts_free(&folder->host, &facts);
}

/* 101 tokens are 20 segments of 5: two each for validation and test, from the end. */
static void splits_are_the_end_of_the_text(void **state)
{
    struct folder *folder = *state;
    struct options options = options_of("bytes", "5", "9");
    char text[101];
    uint32_t tokens[101];
    for (size_t i = 0; i < 101; i++)
        tokens[i] = (uint32_t)(1 + (unsigned char)(text[i] = (char)(20 + i)));
    folder_put(folder, "train.txt", text, sizeof text);
    struct task_facts facts;
    struct dataset dataset;
    check_status(&folder->host, facts_of(folder, &options, &facts), HASHATTN_OK, NULL);
    static const size_t first[] = {0, 90, 80}, count[] = {81, 11, 11};
    for (enum split split = 0; split < SPLIT_COUNT; split++) {
        check_status(&folder->host, load(folder, &options, &facts, split, &dataset), HASHATTN_OK, NULL);
        check_segments(&dataset, tokens + first[split], count[split], 5);
        dataset_free(&folder->host, &dataset);
    }
    folder_put(folder, "test.txt", text, 7);
    check_status(&folder->host, load(folder, &options, &facts, SPLIT_TRAIN, &dataset), HASHATTN_OK, NULL);
    check_segments(&dataset, tokens, 91, 5);
    dataset_free(&folder->host, &dataset);
    check_status(&folder->host, load(folder, &options, &facts, SPLIT_TEST, &dataset), HASHATTN_OK, NULL);
    check_segments(&dataset, tokens, 7, 5);
    dataset_free(&folder->host, &dataset);
    task_facts_free(&folder->host, &facts);
}

/* One file is train.txt, whatever its name; `eval` reads all segments of another one. */
static void a_file_is_a_data_set(void **state)
{
    struct folder *folder = *state;
    struct options bytes = options_of("bytes", "5", "9"), words = options_of("words", "5", "9");
    const struct task *task = task_find("lm");
    char text[101], path[300];
    uint32_t tokens[101];
    for (size_t i = 0; i < 101; i++)
        tokens[i] = (uint32_t)(1 + (unsigned char)(text[i] = (char)(20 + i)));
    folder_put(folder, "book", text, sizeof text);
    snprintf(path, sizeof path, "%s/book", folder->path);
    struct task_facts facts;
    struct dataset dataset;
    check_status(&folder->host, task->facts(&folder->host, &bytes, path, NULL, &facts), HASHATTN_OK, NULL);
    static const size_t first[] = {0, 90, 80, 0}, count[] = {81, 11, 11, 101};
    for (enum split split = 0; split <= SPLIT_COUNT; split++) {
        check_status(&folder->host, task->load(&folder->host, &bytes, &facts, path, split, 1, &dataset),
                     HASHATTN_OK, NULL);
        check_segments(&dataset, tokens + first[split], count[split], 5);
        dataset_free(&folder->host, &dataset);
    }
    task_facts_free(&folder->host, &facts);
    folder_put_text(folder, "book", "a b a\n\xff\n");
    check_status(&folder->host, task->facts(&folder->host, &words, path, NULL, &facts), HASHATTN_BAD_FILE,
                 "book: line 2");
}

static void refuse(struct folder *folder, const struct options *options, const char *part)
{
    struct task_facts facts;
    struct dataset dataset = {0};
    hashattn_status status = facts_of(folder, options, &facts);
    if (status == HASHATTN_OK)
        status = load(folder, options, &facts, SPLIT_TRAIN, &dataset);
    check_status(&folder->host, status, HASHATTN_BAD_FILE, part);
    assert_true(dataset.ids == NULL && dataset.count == 0);
    task_facts_free(&folder->host, &facts);
}

/* The text of all segments, in which each begins with the last token of the one before. */
static char *decoded(struct host *host, const struct task_facts *facts, const struct dataset *data)
{
    uint32_t ids[400];
    size_t count = 0, size;
    char *text;
    for (size_t s = 0; s < data->count; s++)
        for (size_t at = data->offsets[s] + (s > 0); at < data->offsets[s + 1]; at++)
            ids[count++] = data->ids[at];
    check_status(host, tokenizer_decode(host, facts->tokenizer, ids, count, false, &text, &size), HASHATTN_OK,
                 NULL);
    return text;
}

static void tokens_of_bpe_are_the_text(void **state)
{
    struct folder *folder = *state;
    struct host *host = &folder->host;
    static const char train[] = "the cat sat\n\n  on the mat\nthe cat sat", valid[] = "a \xc3\xa9 cat\n\n\n";
    struct options options = options_of("bpe", "4", "300"), few = options_of("bpe", "4", "260");
    folder_put_text(folder, "train.txt", train);
    folder_put_text(folder, "valid.txt", valid);
    struct task_facts facts;
    struct dataset data;
    check_status(host, facts_of(folder, &few, &facts), HASHATTN_INVALID, "a bpe has at least 261 tokens");
    check_status(host, facts_of(folder, &options, &facts), HASHATTN_OK, NULL);
    assert_true(!facts.bytes && facts.num_tokens > 261 && facts.num_tokens <= 300);
    const struct task_objective *entry = &facts.objectives[0];
    assert_true(entry->first_output == 0 && entry->num_outputs == facts.vocab_size);
    for (enum split split = SPLIT_TRAIN; split <= SPLIT_VALID; split++) {
        check_status(host, load(folder, &options, &facts, split, &data), HASHATTN_OK, NULL);
        char *text = decoded(host, &facts, &data);
        assert_string_equal(text, split == SPLIT_TRAIN ? train : valid);
        memory_free(host, text);
        dataset_free(host, &data);
    }
    task_facts_free(host, &facts);

    /* The tokenizer of a stored model, whatever the default vocabulary is. */
    enum { THE = 5, CAT = 6 }; /* of tests/models/checkpoints/bert/vocab.txt */
    struct tokenizer *given;
    struct options bytes = options_of("bytes", "4", "9"), words = options_of("words", "4", "9");
    check_status(host, tokenizer_load(host, "tests/models/checkpoints/bert", &given), HASHATTN_OK, NULL);
    const struct task *task = task_find("lm");
    check_status(host, task->facts(host, &words, folder->path, given, &facts), HASHATTN_INVALID,
                 "vocabulary is words, but the stored model has a tokenizer");
    assert_null(facts.tokenizer);
    check_status(host, task->facts(host, &bytes, folder->path, given, &facts), HASHATTN_OK, NULL);
    assert_true(facts.tokenizer == given && !facts.bytes);
    check_status(host, load(folder, &bytes, &facts, SPLIT_TRAIN, &data), HASHATTN_OK, NULL);
    assert_true(data.ids[0] == THE && data.ids[1] == CAT);
    dataset_free(host, &data);
    task_facts_free(host, &facts);
}

static void what_cannot_be_read_is_refused(void **state)
{
    struct folder *folder = *state;
    struct options bytes = options_of("bytes", "4", "9"), words = options_of("words", "4", "9");
    refuse(folder, &bytes, "has no train.txt");
    folder_put_text(folder, "train.txt", "");
    refuse(folder, &bytes, "train.txt has 0 tokens, at least 2");
    refuse(folder, &words, "train.txt has 0 tokens, at least 2");
    folder_put_text(folder, "train.txt", "a");
    refuse(folder, &bytes, "train.txt has 1 token, at least");
    folder_put_text(folder, "train.txt", "\n");
    refuse(folder, &words, "train.txt has 1 token, at least");
    folder_put_text(folder, "train.txt", "fine\nnot \xc3 fine\n");
    refuse(folder, &words, "train.txt: line 2");
    folder_put_text(folder, "train.txt", "short");
    refuse(folder, &bytes, "1 example, too few to cut validation and test out of it");
    assert_null(task_find("lm")->stream_file);
}

static void every_failing_allocation_is_survived(void **state)
{
    struct folder *folder = *state;
    folder_put_text(folder, "train.txt",
                    "one two three\nfour five six seven\neight nine ten one two three\n");
    static const char *const vocabularies[] = {"bytes", "words", "bpe"};
    for (int vocabulary = 0; vocabulary < 3; vocabulary++)
        for (long n = 0;; n++) {
            struct options options = options_of(vocabularies[vocabulary], "4", vocabulary == 2 ? "270" : "9");
            struct failing_host failing;
            struct task_facts facts;
            struct dataset dataset = {0};
            failing_host_init(&failing, n);
            const struct task *task = task_find("lm");
            hashattn_status status = task->facts(&failing.host, &options, folder->path, NULL, &facts);
            if (status == HASHATTN_OK)
                status = task->load(&failing.host, &options, &facts, folder->path, SPLIT_TRAIN, 1, &dataset);
            dataset_free(&failing.host, &dataset);
            task_facts_free(&failing.host, &facts);
            assert_int_equal(failing.outstanding, 0);
            if (status == HASHATTN_OK)
                break;
            assert_int_equal(status, HASHATTN_NO_MEMORY);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bytes_are_read_as_they_stand, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(words_end_in_line_ends, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(splits_are_the_end_of_the_text, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(a_file_is_a_data_set, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(tokens_of_bpe_are_the_text, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_is_refused, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(every_failing_allocation_is_survived, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
