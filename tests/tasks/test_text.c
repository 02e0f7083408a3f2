/* Documents of users: both formats, labels, cuts, splits, prediction, and every refusal with its line.
   Covers: text.c documents.c document_files.c
   Bugs planted and caught: cut one byte late, every document counted as cut, signed bytes, empty documents
   without a token, blank lines refused, a lone tab taken for one, UTF-8 unchecked, labels with a common
   prefix out of order, the last label lost, an unknown label accepted, bounds of labels off by one, fields of
   a record not counted, a column found twice, the columns' names ignored, blank lines of .csv taken for
   documents, files of folders out of order, the folder unsup read, the last part of a stream lost, a part
   passed on twice, memory that grows with the file, a label 1.0 refused as "1".
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "support/folder.h"
#include "support/labels.h"
#include "support/task_case.h"

static struct task_options of_bytes; /* 4,096 of them */

static int bytes_are_tokens(void **state)
{
    of_bytes = task_options_of("text", "tokens=bytes");
    return folder_enter(state);
}

static hashattn_status read_facts(struct folder *folder, struct task_facts *facts)
{
    const struct task *task = task_find("text");
    return task->facts(&folder->host, &of_bytes, folder->path, NULL, facts);
}

/* Reads the facts, then one split. */
static hashattn_status read(struct folder *folder, enum split split, struct task_facts *facts,
                            struct dataset *dataset)
{
    hashattn_status status = read_facts(folder, facts);
    *dataset = (struct dataset){0};
    if (status == HASHATTN_OK)
        status = task_find("text")->load(&folder->host, &of_bytes, facts, folder->path, split, 1, dataset);
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
                    "{\"text\": \"i\", \"label\": \"\xc3\xa9\"}\n"
                    "{\"text\": \"j\", \"label\": 18446744073709551615, \"id\": -18446744073709551615}\n");
    check_status(&folder->host, read(folder, SPLIT_TRAIN, &facts, &data), HASHATTN_OK, NULL);
    static const char *const sorted[] = {
        "-9223372036854775808", "1", "10", "100", "18446744073709551615", "9", "false", "true", "\xc3\xa9"};
    assert_int_equal(facts.num_classes, 9);
    for (size_t i = 0; i < 9; i++)
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

/* The option holds for training files and for streams. */
static void the_middle_may_be_cut(void **state)
{
    struct folder *folder = *state;
    struct host *host = &folder->host;
    const struct task *task = task_find("text");
    const struct task_options middle = task_options_of("text", "tokens=bytes max_len=4 cut=middle");
    struct task_facts facts;
    struct dataset data;
    char path[FILE_PATH];
    folder_put_text(folder, "train.tsv", "a\tabcdefg\nb\tabcd\n");
    folder_put_text(folder, "valid.tsv", "a\tx\n");
    check_status(host, file_join(host, folder->path, "train.tsv", path, sizeof path), HASHATTN_OK, NULL);
    check_status(host, task->facts(host, &middle, folder->path, NULL, &facts), HASHATTN_OK, NULL);
    check_status(host, task->load(host, &middle, &facts, folder->path, SPLIT_TRAIN, 1, &data), HASHATTN_OK,
                 NULL);
    for (int streamed = 0; streamed < 2; streamed++) {
        assert_int_equal(data.num_cut, 1);
        check_example(&facts, &data, 0, "a", "aefg", 4);
        check_example(&facts, &data, 1, "b", "abcd", 4);
        dataset_free(host, &data);
        check_status(host, task_stream_whole(host, "text", &middle, &facts, path, &data), HASHATTN_OK, NULL);
    }
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
        {"train.jsonl", " \t \nx \t\n", "train.jsonl: line 2: no object {...} of .jsonl"},
        {"train.jsonl", "{\"text\": \"x\", \"label\": \"\\ud800\"}\n", "train.jsonl: line 1: byte"},
        {"train.jsonl", "{\"text\": \"x\\u0000\", \"label\": \"a\"}\n", "train.jsonl: line 1: byte"},
        {"train.jsonl", "[\"x\", 1]\n", "line 1: a list begins here"},
        {"train.jsonl", "{\"label\": 1}\n",
         "line 1: the object has no key 'text' (text_column); there are: label"},
        {"train.jsonl", "{\"text\": 3, \"label\": 1}\n", "line 1: text is 3; a string is needed"},
        {"train.jsonl", "{\"text\": \"x\"}\n",
         "line 1: the object has no key 'label' (label_column); there are: text"},
        {"train.jsonl", "{\"text\": \"x\", \"label\": null}\n",
         "line 1: label is null; a string, a whole number,"},
        {"train.jsonl", "{\"text\": \"x\", \"label\": 0.1}\n",
         "line 1: label is 0.1; a string, a whole number,"},
        {"train.jsonl", "{\"text\": \"x\", \"label\": -1.0}\n",
         "line 1: label is -1.0; a string, a whole number,"},
        {"train.jsonl", "{\"text\": \"x\", \"label\": [1]}\n", "line 1: label is a list; multi_label reads"},
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
        for (int i = 0; i < 2 * count; i++)
            fprintf(file, "%d\tx\n", i % count * 7919 % count);
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
    hashattn_status status = task_stream_whole(&folder->host, "text", &of_bytes, facts, path, data);
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
                 "in.txt: line 2: not UTF-8 at byte 0 of 1 (0x80); the run reads UTF-8 (iconv -t UTF-8");
    check_status(&folder->host, PREDICT("in.jsonl", "{\"label\": 1}\n", &data), HASHATTN_BAD_FILE,
                 "line 1: the object has no key 'text', the name in the training file; there are: label");
    check_status(&folder->host, PREDICT("in.csv", "txt,x\na,b\n", &data), HASHATTN_BAD_FILE,
                 "line 1: no column is named 'text', the name in the training file; there are: txt, x");
    check_status(&folder->host, PREDICT("in.jsonl", "", &data), HASHATTN_BAD_FILE,
                 "in.jsonl has no documents");
    assert_null(data.ids);
    check_status(&folder->host,
                 task_stream_whole(&folder->host, "text", &of_bytes, &facts, "/nowhere/in.txt", &data),
                 HASHATTN_BAD_FILE, "/nowhere/in.txt");

    /* From standard input, JSONL. */
    FILE *old = stdin;
    fflush(stdin);
    folder_put_text(folder, "stdin", "{\"text\": \"piped\"}\n");
    char path[200];
    snprintf(path, sizeof path, "%s/stdin", folder->path);
    assert_non_null(freopen(path, "rb", old));
    check_status(&folder->host, task_stream_whole(&folder->host, "text", &of_bytes, &facts, "-", &data),
                 HASHATTN_OK, NULL);
    check_example(&facts, &data, 0, NULL, "piped", 5);
    drop(folder, &facts, &data);
}

static void records_of_csv_are_documents(void **state)
{
    struct folder *folder = *state;
    struct task_facts facts;
    struct dataset data;
    folder_put_text(folder, "train.csv",
                    "id,text,label\r\n1,\"a \"\"good\"\"\nfilm, really\",pos\r\n\r\n2,,neg\r\n3,ok,pos");
    folder_put_text(folder, "valid.csv", "label,text\nneg,x\n");
    check_status(&folder->host, read(folder, SPLIT_TRAIN, &facts, &data), HASHATTN_OK, NULL);
    assert_true(data.count == 3 && facts.num_classes == 2);
    check_example(&facts, &data, 0, "pos", "a \"good\"\nfilm, really", 21);
    check_example(&facts, &data, 1, "neg", "\n", 1);
    check_example(&facts, &data, 2, "pos", "ok", 2);
    drop(folder, &facts, &data);
    check_status(&folder->host, read(folder, SPLIT_VALID, &facts, &data), HASHATTN_OK, NULL);
    check_example(&facts, &data, 0, "neg", "x", 1);
    dataset_free(&folder->host, &data);

    /* To predict, a label is not needed. */
    check_status(&folder->host, PREDICT("in.csv", "text\none\n\n\"\"\ntwo\n", &data), HASHATTN_OK, NULL);
    assert_int_equal(data.count, 3);
    check_example(&facts, &data, 1, NULL, "\n", 1); /* a record of one field */
    check_example(&facts, &data, 2, NULL, "two", 3);
    dataset_free(&folder->host, &data);
    check_status(&folder->host, PREDICT("in.csv", "label,text\n\npos,one\nunseen,two\n", &data), HASHATTN_OK,
                 NULL);
    assert_int_equal(data.count, 2);
    check_example(&facts, &data, 0, "pos", "one", 3);
    check_example(&facts, &data, 1, NULL, "two", 3);
    drop(folder, &facts, &data);

    static const char *const bad[][2] = {
        {"", "train.csv: the file is empty, a header is needed"},
        {"text,label\n", "train.csv has no examples"},
        {"txt,label\na,b\n",
         "train.csv: line 1: no column is named 'text' (text_column); there are: txt, label"},
        {"text,lable\na,b\n", "line 1: no column is named 'label' (label_column); there are: text, lable"},
        {"text,label,text\na,b,c\n", "line 1: 2 of the 3 columns are named 'text'"},
        {"text,label\n\"a\n\",b\na,b,c\n", "train.csv: line 4: 3 fields, the header has 2"},
        {"text,label\na,b\nc\n", "train.csv: line 3: 1 field, the header has 2"},
        {"text,label\n\"a\nb,c\n", "train.csv: line 2: the quote that opens here is not closed"},
        {"text,label\n\"a\n\xff\",c\n", "train.csv: line 2: not UTF-8 at byte 2 of 3"},
        {"text,label\na,\n", "train.csv: line 2: the label is empty"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        folder_put_text(folder, "train.csv", bad[i][0]);
        check_status(&folder->host, read_facts(folder, &facts), HASHATTN_BAD_FILE, bad[i][1]);
    }
    folder_put_text(folder, "train.csv", "text,label\na,x\nb,y\n");
    folder_put_text(folder, "valid.csv", "text,label\na,x\nb,z\n");
    check_status(&folder->host, read(folder, SPLIT_VALID, &facts, &data), HASHATTN_BAD_FILE,
                 "valid.csv: line 3: the label 'z' does not occur in the training file");
    task_facts_free(&folder->host, &facts);
}

static void columns_and_keys_have_names(void **state)
{
    struct folder *folder = *state;
    const struct task *task = task_find("text");
    const struct task_options options =
        task_options_of("text", "tokens=bytes text_column=Review label_column=Stars");
    folder_put_text(folder, "train.csv", "Stars,Review,text\n5,good,x\n1,bad,x\n");
    folder_put_text(folder, "valid.jsonl", "{\"Review\": \"bad\", \"Stars\": 1}\n");
    struct task_facts facts;
    struct dataset data;
    check_status(&folder->host, task->facts(&folder->host, &options, folder->path, NULL, &facts), HASHATTN_OK,
                 NULL);
    for (enum split split = SPLIT_TRAIN; split <= SPLIT_VALID; split++) {
        check_status(&folder->host,
                     task->load(&folder->host, &options, &facts, folder->path, split, 1, &data), HASHATTN_OK,
                     NULL);
        check_example(&facts, &data, split == SPLIT_TRAIN, "1", "bad", 3);
        dataset_free(&folder->host, &data);
    }
    folder_put_text(folder, "valid.jsonl", "{\"Review\": \"bad\"}\n");
    check_status(
        &folder->host, task->load(&folder->host, &options, &facts, folder->path, SPLIT_VALID, 1, &data),
        HASHATTN_BAD_FILE,
        "valid.jsonl: line 1: the object has no key 'Stars', the name in the training file; there are: ");
    task_facts_free(&folder->host, &facts);
}

/* Makes the directories of a path below the folder, then the file. */
static void put_below(struct folder *folder, const char *path, const char *text)
{
    char full[300];
    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(full, sizeof full, "%s/%.*s", folder->path, (int)(slash - path), path);
        check_status(&folder->host, file_make_directory(&folder->host, full, true), HASHATTN_OK, NULL);
    }
    folder_put_text(folder, path, text);
}

static void folders_are_labels(void **state)
{
    struct folder *folder = *state;
    struct task_facts facts;
    struct dataset data;
    char path[200];
    put_below(folder, "train/pos/2_9.txt", "two\nlines\n");
    put_below(folder, "train/pos/10_7.txt", "ten");
    put_below(folder, "train/pos/.hidden.txt", "x");
    put_below(folder, "train/pos/notes.md", "x");
    put_below(folder, "train/neg/1_1.txt", "");
    put_below(folder, "train/unsup/1_0.txt", "x");
    put_below(folder, "train/urls.txt", "x");
    put_below(folder, "test/neg/0_2.txt", "bad");
    put_below(folder, "valid/pos/0_8.txt", "good");
    check_status(&folder->host, read(folder, SPLIT_TRAIN, &facts, &data), HASHATTN_OK, NULL);
    assert_true(data.count == 3 && facts.num_classes == 2);
    check_example(&facts, &data, 0, "neg", "\n", 1);
    check_example(&facts, &data, 1, "pos", "ten", 3); /* names are sorted by bytes */
    check_example(&facts, &data, 2, "pos", "two\nlines\n", 10);
    drop(folder, &facts, &data);
    check_status(&folder->host, read(folder, SPLIT_TEST, &facts, &data), HASHATTN_OK, NULL);
    assert_int_equal(data.count, 1);
    check_example(&facts, &data, 0, "neg", "bad", 3);
    dataset_free(&folder->host, &data);
    snprintf(path, sizeof path, "%s/train", folder->path);
    check_status(&folder->host, task_stream_whole(&folder->host, "text", &of_bytes, &facts, path, &data),
                 HASHATTN_OK, NULL);
    assert_int_equal(data.count, 5); /* with urls.txt, which has no label, and what is in unsup */
    drop(folder, &facts, &data);

    put_below(folder, "test/other/0_2.txt", "bad");
    check_status(&folder->host, read(folder, SPLIT_TEST, &facts, &data), HASHATTN_BAD_FILE,
                 "test/other/0_2.txt: the label 'other' does not occur in the training file");
    task_facts_free(&folder->host, &facts);
    put_below(folder, "train/pos/3.txt", "a\xff");
    check_status(&folder->host, read_facts(folder, &facts), HASHATTN_BAD_FILE,
                 "train/pos/3.txt: not UTF-8 at byte 1 of 2");
    folder_put_text(folder, "train.tsv", "a\tx\nb\ty\n");
    check_status(&folder->host, read_facts(folder, &facts), HASHATTN_BAD_FILE, "both train.tsv and train/");
}

/* Hears parts of at most 4 documents "0", "1", ... in order. */
struct parts {
    size_t documents, parts;
    bool stop;
};

static hashattn_status hear(struct host *host, void *context, struct dataset *part)
{
    struct parts *heard = context;
    assert_true(part->count >= 1 && part->count <= 4);
    for (size_t i = 0; i < part->count; i++) {
        char text[24];
        int size = sprintf(text, "%zu", heard->documents++);
        assert_int_equal(part->offsets[i + 1] - part->offsets[i], size);
        for (int k = 0; k < size; k++)
            assert_int_equal(part->ids[part->offsets[i] + (size_t)k], 1 + text[k]);
        assert_int_equal(label_of(part, i), -1);
    }
    heard->parts++;
    FAIL_IF(heard->stop, host, HASHATTN_INTERRUPTED, "stopped by the visitor");
    return HASHATTN_OK;
}

static void documents_are_streamed_in_parts(void **state)
{
    struct folder *folder = *state;
    struct task_facts facts;
    char text[9000], path[200];
    folder_put_text(folder, "train.jsonl", two_rows);
    check_status(&folder->host, read_facts(folder, &facts), HASHATTN_OK, NULL);
    snprintf(path, sizeof path, "%s/in.txt", folder->path);
    for (size_t count = 1; count <= 13; count++) {
        char *at = text;
        for (size_t i = 0; i < count; i++)
            at += sprintf(at, "%zu\n", i);
        folder_put(folder, "in.txt", text, (size_t)(at - text));
        struct parts heard = {0};
        const struct dataset_stream stream = {.batch = 4, .lines = true, .visit = hear, .context = &heard};
        check_status(&folder->host,
                     task_find("text")->stream_file(&folder->host, &of_bytes, &facts, path, &stream),
                     HASHATTN_OK, NULL);
        assert_true(heard.documents == count && heard.parts == (count + 3) / 4);
    }
    struct parts heard = {.stop = true};
    const struct dataset_stream stream = {.batch = 4, .lines = true, .visit = hear, .context = &heard};
    hashattn_status status = task_find("text")->stream_file(&folder->host, &of_bytes, &facts, path, &stream);
    check_status(&folder->host, status, HASHATTN_INTERRUPTED, "stopped by the visitor");
    assert_true(strstr(folder->host.message, "stopped") == folder->host.message && heard.documents == 4);

    /* The largest blocks do not depend on the number of documents. */
    size_t largest[2];
    for (size_t times = 0; times < 2; times++) {
        char *at = text;
        for (size_t i = 0; i < (times == 0 ? 12u : 1200u); i++)
            at += sprintf(at, "%zu\n", i);
        folder_put(folder, "in.txt", text, (size_t)(at - text));
        struct failing_host host;
        failing_host_init(&host, -1);
        heard = (struct parts){0};
        check_status(&host.host, task_find("text")->stream_file(&host.host, &of_bytes, &facts, path, &stream),
                     HASHATTN_OK, NULL);
        assert_int_equal(host.outstanding, 0);
        largest[times] = host.largest;
    }
    assert_int_equal(largest[0], largest[1]);
    task_facts_free(&folder->host, &facts);
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
        hashattn_status status = task->facts(&failing.host, &of_bytes, folder->path, NULL, &facts);
        if (status == HASHATTN_OK) {
            status = task->load(&failing.host, &of_bytes, &facts, folder->path, SPLIT_TRAIN, 1, &data);
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
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, bytes_are_tokens, folder_leave)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(both_formats_say_the_same),
        IN_FOLDER(labels_may_be_numbers_and_flags),
        IN_FOLDER(long_documents_are_cut_and_counted),
        IN_FOLDER(the_middle_may_be_cut),
        IN_FOLDER(damaged_training_files_are_refused_by_line),
        IN_FOLDER(labels_of_other_files_must_be_known),
        IN_FOLDER(label_count_is_bounded),
        IN_FOLDER(prediction_needs_no_labels),
        IN_FOLDER(records_of_csv_are_documents),
        IN_FOLDER(columns_and_keys_have_names),
        IN_FOLDER(folders_are_labels),
        IN_FOLDER(documents_are_streamed_in_parts),
        IN_FOLDER(every_failing_allocation_is_survived),
        IN_FOLDER(real_reviews_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
