/* Pairs of documents: both formats and the published one, cuts of each document, splits that keep pairs
   together, prediction, and every refusal.
   Bugs planted and caught: the second document's tokens over the first's; a cut second document not counted;
   names taken for texts; a split that keeps one document of a pair; own files preferred to the published
   ones; empty second documents without a token; joined documents in the other order; a joined pair without
   segments, or with the separator in the second; joined bytes accepted.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/folder.h"
#include "support/labels.h"
#include "support/task_case.h"
#include "text/tokenizer.h"

static hashattn_status read(struct folder *folder, int64_t max_len, enum split split,
                            struct task_facts *facts, struct dataset *dataset)
{
    const struct task *task = task_find("retrieval");
    char settings[60];
    snprintf(settings, sizeof settings, "tokens=bytes max_len=%d", (int)max_len);
    const struct task_options options = task_options_of("retrieval", settings);
    *dataset = (struct dataset){0};
    TRY(task->facts(&folder->host, &options, folder->path, NULL, facts));
    return task->load(&folder->host, &options, facts, folder->path, split, 1, dataset);
}

static void drop(struct folder *folder, struct task_facts *facts, struct dataset *dataset)
{
    dataset_free(&folder->host, dataset);
    task_facts_free(&folder->host, facts);
}

static void check_text(const struct dataset *dataset, size_t sequence, const char *text)
{
    size_t start = dataset->offsets[sequence], length = dataset->offsets[sequence + 1] - start;
    assert_int_equal(length, strlen(text));
    for (size_t k = 0; k < length; k++)
        assert_int_equal(dataset->ids[start + k], 1 + (unsigned char)text[k]);
}

static void check_pair(const struct task_facts *facts, const struct dataset *dataset, size_t i,
                       const char *label, const char *first, const char *second)
{
    assert_true(dataset->pairs && i < dataset->count);
    check_text(dataset, 2 * i, first);
    check_text(dataset, 2 * i + 1, second);
    if (label == NULL)
        assert_int_equal(label_of(dataset, i), -1);
    else
        assert_string_equal(facts->labels[label_of(dataset, i)], label);
}

static void every_layout_says_the_same(void **state)
{
    struct folder *folder = *state;
    static const char *const names[] = {"train.tsv", "train.jsonl", "train.tsv", "new_aan_pairs.train.tsv"};
    static const char *const texts[] = {
        "no\tone\ttwo\nyes\tlong document\t\n",
        ("{\"text1\": \"one\", \"text2\": \"two\", \"label\": \"no\"}\n"
         "{\"label\": \"yes\", \"text2\": \"\", \"text1\": \"long document\"}\n"),
        "no\tP1\tP2\tone\ttwo\nyes\tP1\tP3\tlong document\t\n",
        "no\tP1\tP2\tone\ttwo\nyes\tP1\tP3\tlong document\t\n",
    };
    static const char *const valid[] = {"valid.tsv", "valid.jsonl", "valid.tsv", "new_aan_pairs.eval.tsv"};
    for (int i = 0; i < 4; i++) {
        struct task_facts facts;
        struct dataset data;
        folder_put_text(folder, names[i], texts[i]);
        folder_put_text(folder, valid[i],
                        i == 1 ? "{\"text1\":\"x\",\"text2\":\"y\",\"label\":\"yes\"}\n" : "yes\tx\ty\n");
        if (i == 3) /* ignored next to the published files */
            folder_put_text(folder, "train.tsv", "other\tx\ty\nlabels\tx\ty\n");
        check_status(&folder->host, read(folder, 6, SPLIT_TRAIN, &facts, &data), HASHATTN_OK, NULL);
        assert_true(facts.pairs && facts.max_len == 6 && facts.vocab_size == 257 && facts.num_classes == 2);
        assert_true(facts.num_objectives == 1 && facts.objectives[0].num_outputs == 2 && facts.bytes);
        assert_int_equal(data.count, 2);
        assert_int_equal(dataset_sequences(&data), 4);
        assert_int_equal(data.num_cut, 1);
        check_pair(&facts, &data, 0, "no", "one", "two");
        check_pair(&facts, &data, 1, "yes", "long d", "\n");
        drop(folder, &facts, &data);
        check_status(&folder->host, read(folder, 6, SPLIT_VALID, &facts, &data), HASHATTN_OK, NULL);
        check_pair(&facts, &data, 0, "yes", "x", "y");
        drop(folder, &facts, &data);
        folder_remove(folder, names[i]);
        folder_remove(folder, valid[i]);
    }
    folder_remove(folder, "train.tsv");
}

/* Without files of their own, validation and test are cut out; every pair is in one split, complete. */
static void splits_keep_pairs_together(void **state)
{
    struct folder *folder = *state;
    char text[60 * 20], *at = text;
    for (int i = 0; i < 60; i++)
        at += sprintf(at, "%c\ta%d\tb%d%s\n", "xy"[i % 2], i, i, i % 3 == 0 ? "long" : "");
    folder_put(folder, "train.tsv", text, (size_t)(at - text));
    bool seen[60] = {false};
    size_t total = 0, cut = 0;
    for (enum split split = 0; split < SPLIT_COUNT; split++) {
        struct task_facts facts;
        struct dataset data;
        check_status(&folder->host, read(folder, 4, split, &facts, &data), HASHATTN_OK, NULL);
        assert_int_equal(data.count, split == SPLIT_TRAIN ? 48 : 6);
        for (size_t i = 0; i < data.count; i++) {
            int numbers[2] = {-1, -1};
            for (size_t s = 0; s < 2; s++) {
                char word[8] = "";
                size_t start = data.offsets[2 * i + s], length = data.offsets[2 * i + s + 1] - start;
                for (size_t k = 0; k < length; k++)
                    word[k] = (char)(data.ids[start + k] - 1);
                assert_int_equal(sscanf(word, s == 0 ? "a%d" : "b%d", &numbers[s]), 1);
            }
            assert_true(numbers[0] == numbers[1] && numbers[0] >= 0 && numbers[0] < 60 && !seen[numbers[0]]);
            assert_int_equal(label_of(&data, i), numbers[0] % 2);
            seen[numbers[0]] = true;
        }
        total += data.count;
        cut += data.num_cut;
        drop(folder, &facts, &data);
    }
    assert_int_equal(total, 60);
    assert_int_equal(cut, 20);
}

static void files_to_predict_need_no_label(void **state)
{
    struct folder *folder = *state;
    struct task_facts facts;
    struct dataset data;
    const struct task *task = task_find("retrieval");
    const struct task_options options = task_options_of("retrieval", "tokens=bytes max_len=100");
    char path[200];
    folder_put_text(folder, "train.tsv", "no\tx\ty\nyes\tx\ty\n");
    check_status(&folder->host, task->facts(&folder->host, &options, folder->path, NULL, &facts), HASHATTN_OK,
                 NULL);
    folder_put_text(
        folder, "new.jsonl",
        "{\"text1\": \"a\", \"text2\": \"b\"}\n{\"text1\": \"c\", \"text2\": \"d\", \"label\": \"yes\"}\n");
    snprintf(path, sizeof path, "%s/new.jsonl", folder->path);
    check_status(&folder->host, task_stream_whole(&folder->host, "retrieval", &options, &facts, path, &data),
                 HASHATTN_OK, NULL);
    check_pair(&facts, &data, 0, NULL, "a", "b");
    check_pair(&facts, &data, 1, "yes", "c", "d");
    dataset_free(&folder->host, &data);
    folder_put_text(folder, "new.txt", "a\n");
    snprintf(path, sizeof path, "%s/new.txt", folder->path);
    check_status(&folder->host, task_stream_whole(&folder->host, "retrieval", &options, &facts, path, &data),
                 HASHATTN_BAD_FILE, "a .txt file has no pairs; they are read from .jsonl, .tsv and .csv");
    task_facts_free(&folder->host, &facts);
}

static void what_is_no_pair_is_refused(void **state)
{
    struct folder *folder = *state;
    static const char *const bad[][3] = {
        {"train.tsv", "a\tx\ty\nb\tx\n", "line 2: 2 fields between tabs; a pair has 3"},
        {"train.tsv", "a\tx\ty\nb\t1\tx\ty\n", "line 2: 4 fields"},
        {"train.tsv", "a\tx\ty\nb\t1\t2\tx\ty\tz\tz\n", "line 2: 6 or more fields"},
        {"train.tsv", "a\tx\ty\na\tx\ty\n", "single label 'a'"},
        {"train.jsonl", "{\"text\": \"x\", \"label\": \"a\"}\n", "text1"},
        {"train.jsonl", "{\"text1\": \"x\", \"label\": \"a\"}\n", "text2"},
        {"train.jsonl", "{\"text1\": \"x\", \"text2\": 3, \"label\": \"a\"}\n", "text2"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct task_facts facts;
        struct dataset data;
        folder_put_text(folder, bad[i][0], bad[i][1]);
        check_status(&folder->host, read(folder, 9, SPLIT_TRAIN, &facts, &data), HASHATTN_BAD_FILE,
                     bad[i][2]);
        assert_null(data.ids);
        folder_remove(folder, bad[i][0]);
    }
}

/* As one sequence, start A end end B end, of which the second segment begins after the first end; without
   separators in the template the pair is one segment. */
static void joined_pairs_are_one_sequence(void **state)
{
    struct folder *folder = *state;
    struct host *host = &folder->host;
    const struct task *task = task_find("retrieval");
    const struct task_options options = task_options_of("retrieval", "join=true max_len=9"),
                              bytes = task_options_of("retrieval", "join=true tokens=bytes");
    struct task_facts facts;
    struct dataset data;
    uint32_t a, b, start, end;
    folder_put_text(folder, "train.tsv", "no\tab\tb\nyes\taaaaaaaaa\tb\n");
    folder_put_text(folder, "valid.tsv", "no\tab\tb\nyes\taaaaaaaaa\tb\n");
    check_status(host, task->facts(host, &bytes, folder->path, NULL, &facts), HASHATTN_INVALID,
                 "join needs tokens bpe");
    check_status(host, task->facts(host, &options, folder->path, NULL, &facts), HASHATTN_OK, NULL);
    assert_true(!facts.pairs && facts.num_segments == 2 && facts.max_len == 9);
    check_status(host, task->load(host, &options, &facts, folder->path, SPLIT_VALID, 1, &data), HASHATTN_OK,
                 NULL);
    assert_true(tokenizer_find(facts.tokenizer, (struct piece){"b", 1}, &b) &&
                tokenizer_find(facts.tokenizer, (struct piece){"a", 1}, &a));
    assert_true(tokenizer_role(facts.tokenizer, TOKEN_START, &start) &&
                tokenizer_role(facts.tokenizer, TOKEN_END, &end));
    const uint32_t want[] = {start, a, b, end, end, b, end}; /* pairs that occur once are not joined */
    const uint8_t segments[] = {0, 0, 0, 0, 1, 1, 1};
    assert_true(!data.pairs && data.segmented && data.count == 2 && dataset_sequences(&data) == 2);
    assert_int_equal(data.offsets[1], 7);
    check_same_bits(data.ids, want, sizeof want, "ids");
    check_same_bits(data.segments, segments, sizeof segments, "segments");
    assert_true(data.num_cut <= 1 && data.offsets[2] - data.offsets[1] <= 9);
    assert_int_equal(data.ids[data.offsets[2] - 1], end);
    assert_int_equal(data.ids[data.offsets[2] - 2], b);
    assert_int_equal(label_of(&data, 1), 1);
    drop(folder, &facts, &data);
}

/* Real papers in the published layout: 324 pairs, half of them related. */
static void real_pairs_are_read(void **state)
{
    struct folder *folder = *state;
    char command[300];
    static const char *const parts[] = {"train", "eval"}; /* the smaller file serves as both */
    int status = 0;
    for (int i = 0; i < 2 && status == 0; i++) {
        snprintf(command, sizeof command,
                 "xz -dc ../shared/data/acl-pairs/new_aan_pairs.eval.tsv.xz 2>/dev/null "
                 ">%s/new_aan_pairs.%s.tsv",
                 folder->path, parts[i]);
        status = system(command);
    }
    if (status != 0) {
        puts("SKIPPED: real pairs (no file, or no xz to unpack it)");
        skip();
    }
    struct task_facts facts;
    struct dataset data;
    check_status(&folder->host, read(folder, 4000, SPLIT_VALID, &facts, &data), HASHATTN_OK, NULL);
    assert_int_equal(data.count, 324);
    assert_int_equal(facts.num_classes, 2);
    assert_string_equal(facts.labels[1], "1.0");
    size_t positive = 0;
    for (size_t i = 0; i < data.count; i++)
        positive += label_of(&data, i) == 1;
    assert_int_equal(positive, 162);
    assert_int_equal(data.num_cut, 324); /* papers of at least 4,000 characters, one of each pair is longer */
    drop(folder, &facts, &data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_layout_says_the_same, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(splits_keep_pairs_together, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(files_to_predict_need_no_label, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(what_is_no_pair_is_refused, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(joined_pairs_are_one_sequence, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(real_pairs_are_read, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
