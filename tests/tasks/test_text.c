/* Documents of users: both formats, labels, cuts, splits, prediction, and every refusal with its line.
   Covers: text.c documents.c
   Bugs planted and caught: cut one byte late, every document counted as cut, signed bytes, empty documents
   without a token, blank lines refused, a lone tab taken for one, UTF-8 unchecked, labels with a common
   prefix out of order, the last label lost, an unknown label accepted, bounds of labels off by one.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/folder.h"
#include "support/labels.h"
#include "tasks/task.h"

static const int64_t max_len = 4096; /* the task's only option, so its address is the options */

static hashattn_status read_facts(struct folder *folder, struct task_facts *facts)
{
    const struct task *task = task_find("text");
    assert_int_equal(task->options_size, sizeof max_len);
    return task->facts(&folder->host, &max_len, folder->path, NULL, facts);
}

/* Reads the facts, then one split. */
static hashattn_status read(struct folder *folder, enum split split, struct task_facts *facts,
                            struct dataset *dataset)
{
    hashattn_status status = read_facts(folder, facts);
    *dataset = (struct dataset){0};
    if (status == HASHATTN_OK)
        status = task_find("text")->load(&folder->host, &max_len, facts, folder->path, split, 1, dataset);
    return status;
}

static void drop(struct folder *folder, struct task_facts *facts, struct dataset *dataset)
{
    dataset_free(&folder->host, dataset);
    task_facts_free(&folder->host, facts);
}

/* Checks that example i has these bytes and this label. */
static void check_example(const struct task_facts *facts, const struct dataset *dataset, size_t i,
                          const char *label, const char *text, size_t bytes)
{
    assert_true(i < dataset->count);
    assert_int_equal(dataset->offsets[i + 1] - dataset->offsets[i], bytes);
    for (size_t k = 0; k < bytes; k++)
        assert_int_equal(dataset->ids[dataset->offsets[i] + k], 1 + (unsigned char)text[k]);
    if (label == NULL)
        assert_int_equal(label_of(dataset, i), -1);
    else
        assert_string_equal(facts->labels[label_of(dataset, i)], label);
}

static const char two_rows[] = "{\"text\": \"x\", \"label\": \"a\"}\n{\"text\": \"y\", \"label\": \"b\"}\n";

static void both_formats_say_the_same(void **state)
{
    struct folder *folder = *state;
    struct task_facts facts;
    struct dataset data;
    folder_put_text(folder, "train.tsv",
                    "\xef\xbb\xbf"
                    "neg\tbad\tfilm \r\n\npos\tgr\xc3\xbc\xc3\x9f"
                    "e\nneg\t\nZ\t\"q\"");
    folder_put_text(folder, "valid.jsonl",
                    "{\"text\": \"bad\\tfilm \", \"label\": \"neg\"}\r\n  \n"
                    "{\"label\": \"pos\", \"id\": [1, {}], \"text\": \"gr\\u00fc\xc3\x9f"
                    "e\"}\n"
                    "{\"text\": \"\", \"label\": \"neg\"}\n{\"text\": \"\\\"q\\\"\", \"label\": \"Z\"}");
    for (int from = 0; from < 2; from++) {
        check_status(&folder->host, read(folder, from ? SPLIT_VALID : SPLIT_TRAIN, &facts, &data),
                     HASHATTN_OK, NULL);
        assert_int_equal(facts.vocab_size, 257);
        assert_int_equal(facts.max_len, 4096);
        assert_int_equal(facts.num_classes, 3);
        assert_true(facts.num_objectives == 1 && facts.objectives[0].num_outputs == 3 && facts.bytes);
        assert_string_equal(facts.objectives[0].name, "classify");
        assert_string_equal(facts.labels[0], "Z"); /* sorted by bytes */
        assert_string_equal(facts.labels[1], "neg");
        assert_string_equal(facts.labels[2], "pos");
        assert_int_equal(data.count, 4);
        assert_int_equal(data.num_cut, 0);
        check_example(&facts, &data, 0, "neg", "bad\tfilm ", 9);
        check_example(&facts, &data, 1, "pos",
                      "gr\xc3\xbc\xc3\x9f"
                      "e",
                      7);
        check_example(&facts, &data, 2, "neg", "\n", 1);
        check_example(&facts, &data, 3, "Z", "\"q\"", 3);
        drop(folder, &facts, &data);
    }
}

static void labels_may_be_numbers_and_flags(void **state)
{
    struct folder *folder = *state;
    struct task_facts facts;
    struct dataset data;
    folder_put_text(folder, "valid.tsv", "10\tx\n");
    folder_put_text(folder, "train.jsonl",
                    "{\"text\": \"a\", \"label\": 10}\n{\"text\": \"b\", \"label\": -9223372036854775808}\n"
                    "{\"text\": \"c\", \"label\": true}\n{\"text\": \"d\", \"label\": false}\n"
                    "{\"text\": \"e\", \"label\": \"10\"}\n{\"text\": \"f\", \"label\": 9}\n"
                    "{\"text\": \"g\", \"label\": \"1\"}\n{\"text\": \"h\", \"label\": \"100\"}\n"
                    "{\"text\": \"i\", \"label\": \"\xc3\xa9\"}\n");
    check_status(&folder->host, read(folder, SPLIT_TRAIN, &facts, &data), HASHATTN_OK, NULL);
    static const char *const sorted[] = {
        "-9223372036854775808", "1", "10", "100", "9", "false", "true", "\xc3\xa9"};
    assert_int_equal(facts.num_classes, 8);
    for (size_t i = 0; i < 8; i++)
        assert_string_equal(facts.labels[i], sorted[i]);
    check_example(&facts, &data, 0, "10", "a", 1);
    check_example(&facts, &data, 2, "true", "c", 1);
    check_example(&facts, &data, 4, "10", "e", 1);
    check_example(&facts, &data, 7, "100", "h", 1);
    drop(folder, &facts, &data);
}

static void long_documents_are_cut_and_counted(void **state)
{
    struct folder *folder = *state;
    struct task_facts facts;
    struct dataset data;
    enum { LENGTH = 4096 };
    static char text[3 * (LENGTH + 10)];
    char *at = text;
    for (int extra = -1; extra <= 1; extra++) {
        at += sprintf(at, "%d\t", extra);
        memset(at, 'a' + extra + 1, (size_t)(LENGTH + extra));
        at += LENGTH + extra;
        *at++ = '\n';
    }
    folder_put(folder, "train.tsv", text, (size_t)(at - text));
    folder_put_text(folder, "valid.tsv", "0\tx\n");
    check_status(&folder->host, read(folder, SPLIT_TRAIN, &facts, &data), HASHATTN_OK, NULL);
    assert_int_equal(data.num_cut, 1);
    assert_int_equal(data.offsets[1], LENGTH - 1);
    assert_int_equal(data.offsets[2], 2 * LENGTH - 1);
    assert_int_equal(data.offsets[3], 3 * LENGTH - 1);
    assert_int_equal(data.ids[3 * LENGTH - 2], 1 + 'c');
    drop(folder, &facts, &data);
    check_status(&folder->host, read(folder, SPLIT_VALID, &facts, &data), HASHATTN_OK, NULL);
    assert_int_equal(data.num_cut, 0);
    drop(folder, &facts, &data);
}

static void damaged_training_files_are_refused_by_line(void **state)
{
    struct folder *folder = *state;
    char long_label[300] = "{\"text\": \"a\", \"label\": \"";
    memset(long_label + strlen(long_label), 'L', 201);
    strcat(long_label, "\"}\n");
    const struct {
        const char *name, *text, *part;
    } cases[] = {
        {"train.jsonl", "", "train.jsonl has no examples"},
        {"train.tsv", "\n\n", "train.tsv has no examples"},
        {"train.jsonl", "{\"text\": \"x\", \"label\": \"a\"}\n", "has a single label 'a', at least 2"},
        {"train.tsv", "a\tx\nb y\n", "train.tsv: line 2: no tab"},
        {"train.tsv", "a\tx\n\ty\n", "train.tsv: line 2: the label is empty"},
        {"train.tsv", "a\tx\nb\ty\xff\n", "train.tsv: line 2: not UTF-8 at byte 3 of 4 (0xff)"},
        {"train.tsv", "a\tx\nb\xc3\ty\n", "train.tsv: line 2: not UTF-8 at byte 1 of 4 (0xc3)"},
        {"train.jsonl", "{\"text\": \"x\xc0\xaf\", \"label\": 1}\n", "line 1: not UTF-8 at byte 11"},
        {"train.jsonl", "{\"text\": \"x\", \"label\": \"a\"}\n{\"text\": \"x\"\n",
         "train.jsonl: line 2: byte"},
        {"train.jsonl", "{\"text\": \"x\", \"label\": \"a\"} {}\n", "train.jsonl: line 1: byte"},
        {"train.jsonl", " \t \nx \t\n", "train.jsonl: line 2: byte"},
        {"train.jsonl", "{\"text\": \"x\", \"label\": \"\\ud800\"}\n", "train.jsonl: line 1: byte"},
        {"train.jsonl", "{\"text\": \"x\\u0000\", \"label\": \"a\"}\n", "train.jsonl: line 1: byte"},
        {"train.jsonl", "[\"x\", 1]\n", "line 1: 'text' is missing"},
        {"train.jsonl", "{\"label\": 1}\n", "line 1: 'text' is missing"},
        {"train.jsonl", "{\"text\": 3, \"label\": 1}\n", "line 1: 'text' is "},
        {"train.jsonl", "{\"text\": \"x\"}\n", "line 1: label is neither a string"},
        {"train.jsonl", "{\"text\": \"x\", \"label\": null}\n", "line 1: label is neither a string"},
        {"train.jsonl", "{\"text\": \"x\", \"label\": 0.5}\n", "line 1: label is neither a string"},
        {"train.jsonl", "{\"text\": \"x\", \"label\": [1]}\n", "line 1: label is neither a string"},
        {"train.jsonl", "{\"text\": \"x\", \"label\": \"\"}\n", "line 1: the label is empty"},
        {"train.jsonl", long_label, "line 1: the label has 201 bytes, allowed are 200: 'LLLL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct task_facts facts;
        struct dataset data;
        folder_put_text(folder, cases[i].name, cases[i].text);
        check_status(&folder->host, read(folder, SPLIT_TRAIN, &facts, &data), HASHATTN_BAD_FILE,
                     cases[i].part);
        assert_null(facts.labels);
        assert_null(data.ids);
        folder_remove(folder, cases[i].name);
    }
    struct task_facts facts;
    check_status(&folder->host, read_facts(folder, &facts), HASHATTN_BAD_FILE,
                 "has no train.jsonl or train.tsv");
    folder_put_text(folder, "train.tsv", "a\tx\nb\ty\n");
    folder_put_text(folder, "train.jsonl", two_rows);
    check_status(&folder->host, read_facts(folder, &facts), HASHATTN_BAD_FILE,
                 "both train.jsonl and train.tsv");
    folder_remove(folder, "train.jsonl");
    folder_put(folder, "train.tsv", "a\tx\nb\0c\ty\n", 10);
    check_status(&folder->host, read_facts(folder, &facts), HASHATTN_BAD_FILE,
                 "line 2: the label holds a NUL byte: 'b?c'");
}

static void labels_of_other_files_must_be_known(void **state)
{
    struct folder *folder = *state;
    struct task_facts facts;
    struct dataset data;
    folder_put_text(folder, "train.jsonl", two_rows);
    folder_put_text(folder, "valid.tsv", "a\tx\nb\ty\nab\tz\n");
    folder_put_text(folder, "test.jsonl",
                    "{\"text\": \"x\", \"label\": \"b\"}\n\n{\"text\": \"x\", \"label\": \"A\"}\n");
    check_status(&folder->host, read(folder, SPLIT_VALID, &facts, &data), HASHATTN_BAD_FILE,
                 "valid.tsv: line 3: the label 'ab' does not occur in the training file");
    drop(folder, &facts, &data);
    check_status(&folder->host, read(folder, SPLIT_TEST, &facts, &data), HASHATTN_BAD_FILE,
                 "test.jsonl: line 3: the label 'A' does not occur");
    drop(folder, &facts, &data);
    folder_put_text(folder, "test.jsonl", "");
    check_status(&folder->host, read(folder, SPLIT_TEST, &facts, &data), HASHATTN_BAD_FILE,
                 "test.jsonl has no examples");
    drop(folder, &facts, &data);
}

static void label_count_is_bounded(void **state)
{
    struct folder *folder = *state;
    struct task_facts facts;
    for (int count = 10000; count <= 10001; count++) {
        char *text = NULL;
        size_t size;
        FILE *file = open_memstream(&text, &size);
        for (int i = 0; i < count; i++)
            fprintf(file, "%d\tx\n", i * 7919 % count);
        fclose(file);
        folder_put(folder, "train.tsv", text, size);
        free(text);
        check_status(&folder->host, read_facts(folder, &facts),
                     count > 10000 ? HASHATTN_BAD_FILE : HASHATTN_OK,
                     "line 10001: more than 10000 different labels");
        for (size_t i = 1; i < facts.num_classes; i++)
            assert_true(strcmp(facts.labels[i - 1], facts.labels[i]) < 0);
        task_facts_free(&folder->host, &facts);
    }
}

static hashattn_status predict(struct folder *folder, const struct task_facts *facts, const char *name,
                               const char *bytes, size_t size, struct dataset *data)
{
    char path[200];
    folder_put(folder, name, bytes, size);
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    hashattn_status status = task_find("text")->load_file(&folder->host, &max_len, facts, path, data);
    folder_remove(folder, name);
    return status;
}

static void prediction_needs_no_labels(void **state)
{
    struct folder *folder = *state;
    struct task_facts facts;
    struct dataset data;
    folder_put_text(folder, "train.jsonl", two_rows);
    check_status(&folder->host, read_facts(folder, &facts), HASHATTN_OK, NULL);
#define PREDICT(name, text, data) predict(folder, &facts, name, text, sizeof(text) - 1, data)
    check_status(&folder->host,
                 PREDICT("in.jsonl",
                         "{\"text\": \"one\"}\n\n{\"text\": \"two\", \"label\": \"b\"}\n"
                         "{\"text\": \"\", \"label\": null}\n{\"text\": \"four\", \"label\": \"unseen\"}",
                         &data),
                 HASHATTN_OK, NULL);
    assert_int_equal(data.count, 4);
    check_example(&facts, &data, 0, NULL, "one", 3);
    check_example(&facts, &data, 1, "b", "two", 3);
    check_example(&facts, &data, 2, NULL, "\n", 1);
    check_example(&facts, &data, 3, NULL, "four", 4);
    dataset_free(&folder->host, &data);

    check_status(&folder->host, PREDICT("in.tsv", "a\tone\n\ttwo\n\na\0b\tx\0y\nc\t\n\t", &data), HASHATTN_OK,
                 NULL);
    assert_int_equal(data.count, 5);
    check_example(&facts, &data, 0, "a", "one", 3);
    check_example(&facts, &data, 1, NULL, "two", 3);
    check_example(&facts, &data, 2, NULL, "x\0y", 3);
    check_example(&facts, &data, 3, NULL, "\n", 1);
    check_example(&facts, &data, 4, NULL, "\n", 1);
    dataset_free(&folder->host, &data);

    check_status(&folder->host, PREDICT("in.txt", "one\ttab\n\n  \nlast", &data), HASHATTN_OK, NULL);
    assert_int_equal(data.count, 4);
    check_example(&facts, &data, 0, NULL, "one\ttab", 7);
    check_example(&facts, &data, 1, NULL, "\n", 1);
    check_example(&facts, &data, 2, NULL, "  ", 2);
    check_example(&facts, &data, 3, NULL, "last", 4);
    dataset_free(&folder->host, &data);

    check_status(&folder->host, PREDICT("in.tsv", "a\tx\nno tab\n", &data), HASHATTN_BAD_FILE,
                 "line 2: no tab");
    check_status(&folder->host, PREDICT("in.txt", "ok\n\x80\n", &data), HASHATTN_BAD_FILE,
                 "in.txt: line 2: not UTF-8 at byte 0");
    check_status(&folder->host, PREDICT("in.jsonl", "{\"label\": 1}\n", &data), HASHATTN_BAD_FILE,
                 "line 1: 'text' is missing");
    check_status(&folder->host, PREDICT("in.jsonl", "", &data), HASHATTN_BAD_FILE,
                 "in.jsonl has no documents");
    assert_null(data.ids);
    check_status(&folder->host,
                 task_find("text")->load_file(&folder->host, &max_len, &facts, "/nowhere/in.txt", &data),
                 HASHATTN_BAD_FILE, "/nowhere/in.txt");

    /* From standard input, JSONL. */
    FILE *old = stdin;
    fflush(stdin);
    folder_put_text(folder, "stdin", "{\"text\": \"piped\"}\n");
    char path[200];
    snprintf(path, sizeof path, "%s/stdin", folder->path);
    assert_non_null(freopen(path, "rb", old));
    check_status(&folder->host, task_find("text")->load_file(&folder->host, &max_len, &facts, "-", &data),
                 HASHATTN_OK, NULL);
    check_example(&facts, &data, 0, NULL, "piped", 5);
    drop(folder, &facts, &data);
}

static void every_failing_allocation_is_survived(void **state)
{
    struct folder *folder = *state;
    const struct task *task = task_find("text");
    static char text[70 * 20];
    char *at = text;
    for (int i = 0; i < 70; i++)
        at += sprintf(at, "label%d\ttext %d\n", i % 3, i);
    folder_put(folder, "train.tsv", text, (size_t)(at - text));
    bool done = false;
    for (long n = 0; !done; n++) {
        struct failing_host failing;
        struct task_facts facts;
        struct dataset data = {0};
        failing_host_init(&failing, n);
        hashattn_status status = task->facts(&failing.host, &max_len, folder->path, NULL, &facts);
        if (status == HASHATTN_OK) {
            status = task->load(&failing.host, &max_len, &facts, folder->path, SPLIT_TRAIN, 1, &data);
            task_facts_free(&failing.host, &facts);
        } else {
            assert_null(facts.labels);
        }
        done = status == HASHATTN_OK;
        assert_true(done || status == HASHATTN_NO_MEMORY);
        assert_true(done == (data.count == 56));
        dataset_free(&failing.host, &data);
        assert_int_equal(failing.outstanding, 0);
        assert_true(n < 100 && (!done || n > 10));
    }
}

/* The first reviews of the training archive of IMDb: files one after another behind 512-byte headers. */
static void real_reviews_are_read(void **state)
{
    struct folder *folder = *state;
    const char *packed = "../shared/data/imdb/aclImdb_train.tar.xz";
    enum { SLICE = 3 << 20 };
    char *tar = calloc(1, SLICE + 1);
    size_t got = 0, reviews[2] = {0}, longer = 0, size;
    FILE *probe = fopen(packed, "rb"), *pipe = NULL;
    if (probe != NULL) {
        fclose(probe);
        pipe = popen("xz -dc ../shared/data/imdb/aclImdb_train.tar.xz 2>/dev/null | head -c 3145728", "r");
        got = pipe == NULL ? 0 : fread(tar, 1, SLICE, pipe);
        pclose(pipe);
    }
    char *out = NULL;
    FILE *file = open_memstream(&out, &size);
    for (size_t at = 0; at + 512 < got;) {
        char *name = tar + at;
        size_t bytes = strtoull(name + 124, NULL, 8);
        bool negative = strstr(name, "train/neg/") != NULL;
        if ((negative || strstr(name, "train/pos/") != NULL) && bytes > 0 && at + 512 + bytes <= got) {
            fprintf(file, "%s\t", negative ? "neg" : "pos");
            fwrite(name + 512, 1, bytes, file);
            fputc('\n', file);
            reviews[!negative]++;
            longer += bytes > 4096;
        }
        at += 512 + (bytes + 511) / 512 * 512;
    }
    fputs("neg\tbad\npos\tgood\n", file); /* the slice may hold one class only */
    fclose(file);
    free(tar);
    folder_put(folder, "train.tsv", out, size);
    free(out);
    if (reviews[0] + reviews[1] == 0) {
        puts("SKIPPED: real reviews (no file, or no xz to unpack it)");
        skip();
    }
    struct task_facts facts;
    struct dataset data;
    folder_put_text(folder, "valid.tsv", "pos\tx\n");
    check_status(&folder->host, read(folder, SPLIT_TRAIN, &facts, &data), HASHATTN_OK, NULL);
    assert_int_equal(data.count, reviews[0] + reviews[1] + 2);
    assert_int_equal(data.num_cut, longer);
    assert_true(data.count > 500 && longer > 0);
    size_t positive = 0;
    for (size_t i = 0; i < data.count; i++)
        positive += label_of(&data, i) == 1;
    assert_int_equal(positive, reviews[1] + 1);
    drop(folder, &facts, &data);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_enter, folder_leave)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(both_formats_say_the_same),
        IN_FOLDER(labels_may_be_numbers_and_flags),
        IN_FOLDER(long_documents_are_cut_and_counted),
        IN_FOLDER(damaged_training_files_are_refused_by_line),
        IN_FOLDER(labels_of_other_files_must_be_known),
        IN_FOLDER(label_count_is_bounded),
        IN_FOLDER(prediction_needs_no_labels),
        IN_FOLDER(every_failing_allocation_is_survived),
        IN_FOLDER(real_reviews_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
