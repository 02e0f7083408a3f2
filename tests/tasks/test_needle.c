/* Generated needles against their description, and the reader against damaged files.
   Bugs planted and caught: marks sampled from too many positions, marks not counted down, marks that carry
   noise, 15 symbols, neighbours that share bits, marked ids shifted by one, splits alike, one mark in 16, the
   longest length off by one.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/folder.h"
#include "support/labels.h"
#include "tasks/task.h"

struct needle_values {
    int64_t seq_len, marks;
};

static struct needle_values values_of(const char *seq_len, const char *marks)
{
    const struct option_row *rows = task_find("needle")->options;
    struct needle_values values;
    struct host host;
    host_init(&host);
    assert_int_equal(sizeof values, task_find("needle")->options_size);
    options_preset(rows, &values);
    check_status(&host, option_set(&host, rows, "needle", &values, "seq_len", seq_len), HASHATTN_OK, NULL);
    check_status(&host, option_set(&host, rows, "needle", &values, "marks", marks), HASHATTN_OK, NULL);
    return values;
}

static void generate(struct folder *folder, struct needle_values values, size_t train, size_t valid,
                     size_t test, uint64_t seed)
{
    const size_t counts[SPLIT_COUNT] = {train, valid, test};
    check_status(&folder->host,
                 task_find("needle")->generate(&folder->host, &values, folder->path, counts, seed),
                 HASHATTN_OK, NULL);
}

static void load(struct folder *folder, enum split split, struct task_facts *facts, struct dataset *dataset)
{
    struct needle_values values = values_of("1024", "0"); /* reading gets the length from the file */
    const struct task *task = task_find("needle");
    check_status(&folder->host, task->facts(&folder->host, &values, folder->path, NULL, facts), HASHATTN_OK,
                 NULL);
    check_status(&folder->host, task->load(&folder->host, &values, facts, folder->path, split, 1, dataset),
                 HASHATTN_OK, NULL);
}

/* A share of `count` trials within 4.5 standard errors. */
static void check_share(double hits, double count, double want, const char *what)
{
    check_near(hits / count, want, 4.5 * sqrt(want * (1 - want) / count), what);
}

static void examples_are_as_described(void **state)
{
    struct folder *folder = *state;
    enum { COUNT = 2000, LENGTH = 64, MARKS = 5 };
    generate(folder, values_of("64", "5"), COUNT, 0, 0, 9);
    struct task_facts facts;
    struct dataset data;
    load(folder, SPLIT_TRAIN, &facts, &data);
    /* Validation and test have been cut out. */
    assert_int_equal(data.count, COUNT - COUNT / 10 * 2);
    assert_int_equal(facts.vocab_size, 34);
    assert_int_equal(facts.num_classes, 16);
    assert_string_equal(facts.objectives[0].name, "classify");
    assert_true(facts.num_objectives == 1 && facts.objectives[0].num_outputs == 16 && !facts.bytes);
    assert_int_equal(facts.max_len, LENGTH);
    double answer[16] = {0}, symbol[16] = {0}, place[LENGTH] = {0}, same = 0, unmarked = 0;
    static double pair[16][16]; /* of unmarked neighbours */
    double pairs = 0, square = 0;
    for (size_t i = 0; i < data.count; i++) {
        assert_int_equal(data.offsets[i + 1] - data.offsets[i], LENGTH);
        const uint32_t *tokens = data.ids + data.offsets[i];
        int marks = 0, label = label_of(&data, i);
        assert_int_equal(tokens[0], 33);
        assert_in_range(label, 0, 15);
        assert_int_equal(facts.labels[label][0], 'a' + label);
        answer[label]++;
        for (int k = 1; k < LENGTH; k++) {
            assert_in_range(tokens[k], 1, 32);
            if (tokens[k] >= 17) {
                assert_int_equal(tokens[k] - 17, label);
                place[k]++;
                marks++;
            } else {
                symbol[tokens[k] - 1]++;
                same += tokens[k] - 1 == (uint32_t)label;
                unmarked++;
                if (k > 1 && tokens[k - 1] < 17) {
                    pair[tokens[k - 1] - 1][tokens[k] - 1]++;
                    pairs++;
                }
            }
        }
        assert_int_equal(marks, MARKS);
    }
    for (int s = 0; s < 16; s++) {
        check_share(answer[s], (double)data.count, 1 / 16.0, "answers");
        check_share(symbol[s], unmarked, 1 / 16.0, "symbols");
    }
    for (int cell = 0; cell < 256; cell++) {
        double off = pair[cell / 16][cell % 16] - pairs / 256;
        square += off * off / (pairs / 256);
    }
    check_near(square, 255, 4.5 * sqrt(2 * 255.0), "chi-square of neighbours");
    check_share(same, unmarked, 1 / 16.0, "unmarked symbols that happen to be the answer");
    for (int k = 1; k < LENGTH; k++)
        check_share(place[k], (double)data.count, MARKS / (LENGTH - 1.0), "marks at a place");
    dataset_free(&folder->host, &data);
    task_facts_free(&folder->host, &facts);
}

/* The number of marks in the first line of the training file. */
static int marks_in(struct folder *folder, const char *seq_len, const char *marks)
{
    size_t size;
    int count = 0;
    generate(folder, values_of(seq_len, marks), 1, 0, 0, 1);
    char *bytes = folder_get(folder, "train.tsv", &size);
    assert_int_equal(size, 3 + (size_t)atoi(seq_len));
    for (char *c = bytes; *c != '\0'; c++)
        count += *c >= 'A' && *c <= 'P';
    free(bytes);
    folder_remove(folder, "train.tsv");
    return count;
}

static void marks_are_one_in_32_unless_said(void **state)
{
    struct folder *folder = *state;
    assert_int_equal(marks_in(folder, "2", "0"), 1);
    assert_int_equal(marks_in(folder, "63", "0"), 1);
    assert_int_equal(marks_in(folder, "256", "0"), 8);
    assert_int_equal(marks_in(folder, "1024", "0"), 32);
    assert_int_equal(marks_in(folder, "64", "63"), 63);
    struct needle_values values = values_of("64", "99");
    const size_t counts[SPLIT_COUNT] = {1, 1, 1};
    check_status(&folder->host,
                 task_find("needle")->generate(&folder->host, &values, folder->path, counts, 1),
                 HASHATTN_INVALID, "needle: 99 marks do not fit into 64 tokens of which one is the question");
    values = values_of("64", "64");
    check_status(&folder->host,
                 task_find("needle")->generate(&folder->host, &values, folder->path, counts, 1),
                 HASHATTN_INVALID, "needle: 64 marks");
}

static void examples_depend_on_seed_split_and_index_alone(void **state)
{
    struct folder *folder = *state;
    size_t sizes[3], size;
    generate(folder, values_of("64", "0"), 5, 3, 3, 4);
    char *few = folder_get(folder, "train.tsv", &sizes[0]);
    char *valid = folder_get(folder, "valid.tsv", &sizes[1]);
    char *test = folder_get(folder, "test.tsv", &sizes[2]);
    assert_memory_not_equal(valid, test, sizes[1]);
    assert_memory_not_equal(valid, few, sizes[1]);
    folder_remove(folder, "train.tsv");
    folder_remove(folder, "valid.tsv");
    folder_remove(folder, "test.tsv");
    generate(folder, values_of("64", "0"), 50, 3, 0, 4);
    char *many = folder_get(folder, "train.tsv", &size);
    char *again = folder_get(folder, "valid.tsv", &size);
    check_same_bits(few, many, sizes[0], "the first examples of more");
    check_same_bits(valid, again, sizes[1], "validation beside more training");
    folder_remove(folder, "train.tsv");
    folder_remove(folder, "valid.tsv");
    generate(folder, values_of("64", "0"), 5, 0, 0, 5);
    free(many);
    many = folder_get(folder, "train.tsv", &size);
    assert_memory_not_equal(few, many, sizes[0]);
    free(few), free(valid), free(test), free(many), free(again);
}

static void read_as_train(struct folder *folder, hashattn_status want, const char *part)
{
    struct needle_values values = values_of("1024", "0");
    const struct task *task = task_find("needle");
    struct task_facts facts;
    struct dataset data;
    hashattn_status status = task->facts(&folder->host, &values, folder->path, NULL, &facts);
    if (status == HASHATTN_OK)
        status = task->load(&folder->host, &values, &facts, folder->path, SPLIT_TEST, 1, &data);
    check_status(&folder->host, status, want, part);
    if (status == HASHATTN_OK)
        dataset_free(&folder->host, &data);
    task_facts_free(&folder->host, &facts);
}

static void damaged_files_are_refused_by_line(void **state)
{
    struct folder *folder = *state;
    static const struct {
        const char *test, *part;
    } cases[] = {
        {"a\t?bA\nc\t?xC\n", "test.tsv: line 2: 0x78 at byte 3 is none of"},
        {"a\t?bA\na?bA\n", "line 2: "},
        {"q\t?bA\n", "line 1: "},
        {"ab\t?bA\n", "line 1: "},
        {"A\t?bA\n", "line 1: "},
        {"a\t\n", "line 1: "},
        {"a\t?bAA\n", "line 1: 4 tokens, the longest of the training file has 3"},
        {"a\t?b\x80\n", "line 1: 0x80 at byte 4 is none of"},
        {"\n", "line 1: "},
        {"", "no examples"},
    };
    folder_put_text(folder, "train.tsv", "a\t?bA\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        folder_put_text(folder, "test.tsv", cases[i].test);
        folder_put_text(folder, "valid.tsv", cases[i].test);
        read_as_train(folder, HASHATTN_BAD_FILE, cases[i].part);
    }
    folder_put_text(folder, "test.tsv", "p\t?bPp\r\na\t?\r\n"); /* CR LF, and a line with the question only */
    folder_put_text(folder, "train.tsv", "a\t?bAb\n");
    read_as_train(folder, HASHATTN_OK, NULL);
    folder_put_text(folder, "train.tsv", "a\t?bAb\nnothing\n");
    read_as_train(folder, HASHATTN_BAD_FILE, "train.tsv: line 2");
    folder_put_text(folder, "train.tsv", "");
    read_as_train(folder, HASHATTN_BAD_FILE, "train.tsv has no examples");
    folder_remove(folder, "train.tsv");
    read_as_train(folder, HASHATTN_BAD_FILE, "no train.tsv");
}

static void every_failing_allocation_is_survived(void **state)
{
    struct folder *folder = *state;
    const struct task *task = task_find("needle");
    struct needle_values values = values_of("64", "0");
    const size_t counts[SPLIT_COUNT] = {150, 0, 0};
    bool done = false;
    for (long n = 0; !done; n++) {
        struct failing_host failing;
        struct task_facts facts;
        struct dataset data = {0};
        failing_host_init(&failing, n);
        hashattn_status status = task->generate(&failing.host, &values, folder->path, counts, 1);
        if (status == HASHATTN_OK)
            status = task->facts(&failing.host, &values, folder->path, NULL, &facts);
        if (status == HASHATTN_OK) {
            status = task->load(&failing.host, &values, &facts, folder->path, SPLIT_TRAIN, 1, &data);
            task_facts_free(&failing.host, &facts);
        }
        done = status == HASHATTN_OK;
        assert_true(done || status == HASHATTN_NO_MEMORY);
        assert_true(done == (data.count == 120));
        dataset_free(&failing.host, &data);
        assert_int_equal(failing.outstanding, 0);
        folder_remove(folder, "train.tsv");
        assert_true(n < 100 && (!done || n > 20));
    }
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_enter, folder_leave)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(examples_are_as_described),
        IN_FOLDER(marks_are_one_in_32_unless_said),
        IN_FOLDER(examples_depend_on_seed_split_and_index_alone),
        IN_FOLDER(damaged_files_are_refused_by_line),
        IN_FOLDER(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
