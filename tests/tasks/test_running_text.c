/* A prompt becomes the ids that task lm gives the same text, for bytes, words and tokens; ids become the text
   again; an empty text is a line feed. Bugs planted and caught: an end of line after a last line without one;
   a line feed that is lost; a space after the end of a line; special tokens written.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/running_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "support/folder.h"

static const char text[] = "the cat sat\non a m\xc3\xa4t\n\nthe end\n";

struct options {
    int vocabulary;
    int64_t seq_len, max_words;
};

static void facts_of(struct folder *folder, const char *vocabulary, struct task_facts *facts,
                     struct dataset *dataset)
{
    const struct task *task = task_find("lm");
    struct options options;
    options_preset(task->options, &options);
    check_status(&folder->host,
                 option_set(&folder->host, task->options, "lm", &options, "vocabulary", vocabulary),
                 HASHATTN_OK, NULL);
    check_status(&folder->host, option_set(&folder->host, task->options, "lm", &options, "max_words", "300"),
                 HASHATTN_OK, NULL);
    folder_put_text(folder, "train.txt", text);
    folder_put_text(folder, "valid.txt", text);
    folder_put_text(folder, "test.txt", text);
    check_status(&folder->host, task->facts(&folder->host, &options, folder->path, NULL, facts), HASHATTN_OK,
                 NULL);
    check_status(&folder->host,
                 task->load(&folder->host, &options, facts, folder->path, SPLIT_TEST, 1, dataset),
                 HASHATTN_OK, NULL);
}

static void read(struct folder *folder, const struct task_facts *facts, const char *from, uint32_t **ids,
                 size_t *count, size_t *unknown)
{
    check_status(
        &folder->host,
        running_text_read(&folder->host, facts, (struct piece){from, strlen(from)}, ids, count, unknown),
        HASHATTN_OK, NULL);
}

/* The text that ids add to the text before the first of them. */
static void check_written(struct folder *folder, const struct task_facts *facts, const uint32_t *ids,
                          size_t first, size_t count, const char *want)
{
    struct grown_text written = {.bytes = NULL};
    for (size_t i = first; i < count; i++)
        check_status(&folder->host, running_text_write(&folder->host, facts, ids[i - 1], ids[i], &written),
                     HASHATTN_OK, NULL);
    assert_int_equal(written.size, strlen(want));
    assert_memory_equal(written.bytes, want, written.size);
    memory_free(&folder->host, written.bytes);
}

static void prompts_are_read_as_lm_reads_texts(void **state)
{
    struct folder *folder = *state;
    static const char *const kinds[] = {"bytes", "words", "bpe"};
    for (size_t k = 0; k < 3; k++) {
        struct task_facts facts;
        struct dataset dataset;
        uint32_t *ids;
        size_t count, unknown;
        facts_of(folder, kinds[k], &facts, &dataset);
        read(folder, &facts, text, &ids, &count, &unknown);
        assert_int_equal(unknown, 0);
        assert_int_equal(dataset.count, 1);
        assert_int_equal(dataset.offsets[1], count);
        check_same_bits(ids, dataset.ids, count * sizeof *ids, kinds[k]);
        size_t rest = k == 0 ? 1 : 0;
        if (k == 0)
            check_written(folder, &facts, ids, rest, count, text + 1);
        if (k == 1)
            check_written(folder, &facts, ids, 1, count, text + 3);
        memory_free(&folder->host, ids);
        if (k == 2) { /* every token, after a line feed */
            uint32_t *feed;
            read(folder, &facts, "\nthe cat s\xc3\xa4t\n\non", &ids, &count, &unknown);
            read(folder, &facts, "", &feed, &count, &unknown);
            assert_int_equal(count, 1);
            assert_int_equal(feed[0], ids[0]);
            memory_free(&folder->host, feed);
            memory_free(&folder->host, ids);
            read(folder, &facts, "\nthe cat s\xc3\xa4t\n\non", &ids, &count, &unknown);
            check_written(folder, &facts, ids, 1, count, "the cat s\xc3\xa4t\n\non");
            check_written(folder, &facts, (const uint32_t[]){ids[0], 0, 2}, 1, 3, ""); /* special */
            memory_free(&folder->host, ids);
        }
        dataset_free(&folder->host, &dataset);
        task_facts_free(&folder->host, &facts);
    }
}

static void words_of_a_prompt(void **state)
{
    struct folder *folder = *state;
    struct task_facts facts;
    struct dataset dataset;
    uint32_t *ids;
    size_t count, unknown;
    facts_of(folder, "words", &facts, &dataset);
    read(folder, &facts, "the  dog sat", &ids, &count, &unknown);
    assert_int_equal(count, 3);
    assert_int_equal(unknown, 1);
    check_written(folder, &facts, ids, 1, count, " <unk> sat");
    memory_free(&folder->host, ids);
    static const char *const empty[] = {"", "  \t", "\n"};
    for (size_t i = 0; i < 3; i++) {
        read(folder, &facts, empty[i], &ids, &count, &unknown);
        assert_int_equal(count, 1);
        assert_int_equal(ids[0], WORDS_END);
        memory_free(&folder->host, ids);
    }
    read(folder, &facts, "a\nthe end", &ids, &count, &unknown);
    check_written(folder, &facts, ids, 1, count, "\nthe end");
    memory_free(&folder->host, ids);
    check_status(
        &folder->host,
        running_text_read(&folder->host, &facts, (struct piece){"ab\xff", 3}, &ids, &count, &unknown),
        HASHATTN_INVALID, "byte 2 (0xff) is not UTF-8");
    assert_null(ids);
    dataset_free(&folder->host, &dataset);
    task_facts_free(&folder->host, &facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(prompts_are_read_as_lm_reads_texts, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(words_of_a_prompt, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
