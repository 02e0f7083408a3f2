/* Files as people have them: headers in .tsv, other names, orders, delimiters and encodings, no header, bad
   lines that are skipped, names of documents; and labels that are numbers or sets.
   Covers: document_parts.c document_lines.c document_records.c document_columns.c document_labels.c
   documents.c
   Planted and caught: a header taken for a document, and a document for a header; names compared with the
   case of letters; column numbers from 0; the last field of .tsv cut at a tab; encodings ignored in folders;
   a bad record that hides the next one; the id of the line before; the deviation of numbers not divided by
   the count; a label of a set twice in it, or out of order; a float for each label of each document; an empty
   line of a table with one column taken for a document, and a pair of quotes for an empty line; a label with
   a tab; a byte order mark in a text; a key with a dot taken for a path.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/documents/document_files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/folder.h"
#include "support/labels.h"
#include "support/task_case.h"

/* What is read of a file, as "label:text " in order. */
struct seen {
    char text[600];
    size_t skipped;
};

static hashattn_status see(struct host *host, void *context, const struct document *document)
{
    struct seen *seen = context;
    size_t used = strlen(seen->text);
    (void)host;
    snprintf(seen->text + used, sizeof seen->text - used, "%.*s:%.*s%s%.*s ", (int)document->label.size,
             document->label.bytes == NULL ? "" : document->label.bytes, (int)document->texts[0].size,
             document->texts[0].bytes, document->id.bytes != NULL ? "#" : "", (int)document->id.size,
             document->id.bytes == NULL ? "" : document->id.bytes);
    return HASHATTN_OK;
}

static hashattn_status count_bad(struct host *host, void *context)
{
    (void)host;
    ((struct seen *)context)->skipped++;
    return HASHATTN_OK;
}

static hashattn_status read_with(struct folder *folder, const char *name, const char *text,
                                 const struct document_rules *rules, struct seen *seen)
{
    char path[200];
    *seen = (struct seen){.skipped = 0};
    folder_put_text(folder, name, text);
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    hashattn_status status = document_file_read(&folder->host, path, FILE_TYPED, rules, see, seen);
    folder_remove(folder, name);
    return status;
}

static const struct document_rules training = {.label_needed = true, .texts = {"text"}, .label = "label"};
static const struct document_rules prediction = {.texts = {"text"}, .label = "label"};

static void check_read(struct folder *folder, const char *name, const char *text,
                       const struct document_rules *rules, const char *want)
{
    struct seen seen;
    check_status(&folder->host, read_with(folder, name, text, rules, &seen), HASHATTN_OK, NULL);
    assert_string_equal(seen.text, want);
}

static void headers_are_recognised(void **state)
{
    struct folder *folder = *state;
    struct document_rules rules = training;
    char columns[DOCUMENT_COLUMNS];
    struct seen seen;
    check_read(folder, "a.tsv", "label\ttext\nx\tone\ty\n", &rules, "x:one\ty ");
    check_read(folder, "a.tsv", "Text\tLABEL\none\tx\n\ntwo\ty\n", &rules, "x:one y:two ");
    check_read(folder, "a.tsv", "id\tText\tLABEL\n7\tone\tx\n", &rules, "x:one ");
    check_read(folder, "a.tsv", "label\tone\nx\ttext\n", &rules, "label:one x:text ");
    rules.first_reading = true;
    check_read(folder, "a.tsv", "label\ttext\nx\tone\n", &rules, "label:text x:one ");
    rules = training;
    rules.columns = columns;
    rules.texts[0] = "review";
    rules.label = "stars";
    check_read(folder, "a.tsv", "stars\treview\n4\tone\n", &rules, "4:one ");
    assert_string_equal(columns, "label: column 1 'stars', text: column 2 'review'");
    check_read(folder, "a.csv", "Review,n,Stars\none,1,4\n", &rules, "4:one ");
    check_status(&folder->host, read_with(folder, "a.tsv", "x\tone\n", &rules, &seen), HASHATTN_BAD_FILE,
                 "line 1: no column is named 'review'");
    check_status(&folder->host, read_with(folder, "a.csv", "review,review,stars\n", &rules, &seen),
                 HASHATTN_BAD_FILE, "2 of the 3 columns are named 'review'");
    check_read(folder, "a.csv", "Review,review,stars\na,b,c\n", &rules, "c:b ");
    check_read(folder, "a.tsv", "text\none\ntwo\n", &prediction, ":one :two ");
    check_read(folder, "a.tsv", "id\ttext\n1\tone\n", &prediction, ":one#1 ");
    check_read(folder, "a.tsv", "text\tone\n", &prediction, "text:one ");
}

static void columns_have_numbers_without_a_header(void **state)
{
    struct folder *folder = *state;
    struct document_rules rules = training;
    struct seen seen;
    rules.no_header = true;
    check_read(folder, "a.tsv", "label\ttext\n", &rules, "label:text ");
    check_read(folder, "a.csv", "x,one\ny,two\n", &rules, "x:one y:two ");
    rules.texts[0] = "1";
    rules.label = "3";
    check_read(folder, "a.csv", "one,-,x\n", &rules, "x:one ");
    check_read(folder, "a.tsv", "one\t-\tx\ntwo\t-\ty\n", &rules, "x:one y:two ");
    check_status(&folder->host, read_with(folder, "a.csv", "one,x\n", &rules, &seen), HASHATTN_BAD_FILE,
                 "there are 2 columns and no header, and column 3 is wanted");
    rules = prediction;
    rules.no_header = true;
    check_read(folder, "a.csv", "one\n\"two, three\"\n", &rules, ":one :two, three ");
}

static void other_delimiters_and_encodings(void **state)
{
    struct folder *folder = *state;
    struct document_rules rules = training;
    struct seen seen;
    rules.delimiter = ';';
    check_read(folder, "a.csv", "label;text\nx;\"one;two\"\n", &rules, "x:one;two ");
    check_read(folder, "a.dat", "text;label\none;x\n", &rules, "x:one ");
    rules.delimiter = '\t';
    check_read(folder, "a.tsv", "label\ttext\nx\t\"a\tb\"\n", &rules, "x:a\tb ");
    rules = training;
    check_status(
        &folder->host, read_with(folder, "a.tsv", "x\tcaf\xe9\n", &rules, &seen), HASHATTN_BAD_FILE,
        "line 1: not UTF-8 at byte 5 of 6 (0xe9); other texts need encoding latin-1 or windows-1252");
    rules.encoding = ENCODING_LATIN1;
    check_read(folder, "a.tsv", "x\tcaf\xe9\n", &rules, "x:caf\xc3\xa9 ");
    rules.encoding = ENCODING_WINDOWS1252;
    check_read(folder, "a.csv", "label,text\nx,5 \x80\n", &rules, "x:5 \xe2\x82\xac ");
    check_read(
        folder, "a.txt", "5 \x80",
        &(struct document_rules){.texts = {"text"}, .label = "label", .encoding = ENCODING_WINDOWS1252},
        ":5 \xe2\x82\xac ");
}

static void texts_are_whole_or_lines(void **state)
{
    struct folder *folder = *state;
    struct document_rules rules = prediction;
    struct seen seen;
    check_read(folder, "a.txt", "one\ntwo\n", &rules, ":one\ntwo\n ");
    check_read(folder, "a.txt", "\xef\xbb\xbfone\n", &rules, ":one\n ");
    rules.lines = true;
    check_read(folder, "a.txt", "one\ntwo\n", &rules, ":one :two ");
    check_read(folder, "a.txt", "\xef\xbb\xbfone\n", &rules, ":one ");
    check_status(&folder->host, read_with(folder, "a.txt", "one\n", &training, &seen), HASHATTN_BAD_FILE,
                 "a .txt file has no labels; they are read from");
}

/* As Python's csv module reads it: a pair of quotes is a field, an empty line is nothing. */
static void empty_lines_are_no_documents(void **state)
{
    struct folder *folder = *state;
    struct seen seen;
    check_read(folder, "a.csv", "text\na\n\n\"\"\n\r\nb\n\n", &prediction, ":a : :b ");
    check_read(folder, "a.csv", "\r\n\nlabel,text\nx,a\n\ny,b\n", &training, "x:a y:b ");
    check_status(&folder->host, read_with(folder, "a.csv", "\n\nlabel\n", &training, &seen),
                 HASHATTN_BAD_FILE, "a.csv: line 3: no column is named 'text'");
    check_status(&folder->host, read_with(folder, "a.csv", "label,text\nx,a\n\"\"\n", &training, &seen),
                 HASHATTN_BAD_FILE, "a.csv: line 3: 1 field, the header has 2");
}

/* Where a text is the last column, tabs belong to it; elsewhere they would move the fields after it. */
static void tabs_belong_to_a_last_text_only(void **state)
{
    struct folder *folder = *state;
    struct seen seen;
    check_read(folder, "a.tsv", "label\tid\ttext\nx\t7\ta\tb\n", &training, "x:a\tb ");
    check_status(&folder->host, read_with(folder, "a.tsv", "text\tlabel\na\tb\tx\n", &training, &seen),
                 HASHATTN_BAD_FILE, "a.tsv: line 2: 3 fields between tabs, line 1 has 2");
    struct document_rules rules = training;
    rules.texts[0] = "1";
    rules.label = "2";
    rules.no_header = true;
    check_status(&folder->host, read_with(folder, "a.tsv", "a\tx\nb\tc\ty\n", &rules, &seen),
                 HASHATTN_BAD_FILE, "a.tsv: line 2: 3 fields between tabs, line 1 has 2");
}

/* A dot is a letter of a key, and not the way to a value inside another. */
static void keys_may_have_dots(void **state)
{
    struct folder *folder = *state;
    struct document_rules rules = training;
    struct seen seen;
    rules.texts[0] = "a.b";
    rules.label = "c.0";
    check_read(folder, "a.jsonl", "{\"a\": {\"b\": \"in\"}, \"a.b\": \"out\", \"c\": [\"in\"], \"c.0\": 7}\n",
               &rules, "7:out ");
    check_status(
        &folder->host, read_with(folder, "a.jsonl", "{\"a\": {\"b\": \"in\"}, \"c.0\": 7}\n", &rules, &seen),
        HASHATTN_BAD_FILE, "a.jsonl: line 1: the object has no key 'a.b' (text_column); there are: a, c.0");
    check_status(&folder->host, read_with(folder, "a.jsonl", "{\"a.b\": 5, \"c.0\": 7}\n", &rules, &seen),
                 HASHATTN_BAD_FILE, "a.jsonl: line 1: a.b is 5; a string is needed");
}

static void bad_lines_are_skipped(void **state)
{
    struct folder *folder = *state;
    struct document_rules rules = prediction;
    struct seen seen;
    rules.skip = count_bad;
    rules.skip_context = &seen;
    check_status(&folder->host,
                 read_with(folder, "a.jsonl",
                           "{\"text\": \"a\", \"id\": 12}\nbroken\n{\"text\": 5}\n"
                           "{\"text\": \"b\", \"id\": \"x y\"}\n{\"text\": \"c\"}\n",
                           &rules, &seen),
                 HASHATTN_OK, NULL);
    assert_string_equal(seen.text, ":a#12 :b#x y :c ");
    assert_int_equal(seen.skipped, 2);
    check_status(&folder->host,
                 read_with(folder, "a.csv", "text\none\na\"b\ntwo\nx,y\nthree\n\"open\n", &rules, &seen),
                 HASHATTN_OK, NULL);
    assert_string_equal(seen.text, ":one :two :three ");
    assert_int_equal(seen.skipped, 3);
    check_status(&folder->host, read_with(folder, "a.tsv", "x\tone\n\xff\ny\ttwo\nnone\n", &rules, &seen),
                 HASHATTN_OK, NULL);
    assert_string_equal(seen.text, "x:one y:two ");
    assert_int_equal(seen.skipped, 2);
}

/* ---- labels -------------------------------------------------------------------------------------------- */

static hashattn_status facts_of(struct folder *folder, const char *options, const char *text,
                                struct task_options *given, struct task_facts *facts)
{
    *given = task_options_of("text", options);
    folder_put_text(folder, "train.tsv", text);
    return task_find("text")->facts(&folder->host, given, folder->path, NULL, facts);
}

static void the_wrong_column_is_refused(void **state)
{
    struct folder *folder = *state;
    struct task_options options;
    struct task_facts facts;
    char words[400] = "", numbers[400] = "";
    for (int i = 0; i < 20; i++) {
        sprintf(words + strlen(words), "t%d\t%c\n", i, 'x' + i % 2);
        sprintf(numbers + strlen(numbers), "%d.5\t%c\n", i, 'x' + i % 2);
    }
    check_status(&folder->host, facts_of(folder, "tokens=bytes", words, &options, &facts), HASHATTN_BAD_FILE,
                 "20 of 20 labels occur once, as 't0': this is the column of the text");
    check_status(&folder->host, facts_of(folder, "tokens=bytes", numbers, &options, &facts),
                 HASHATTN_BAD_FILE, "numbers to predict need label_type number");
}

static void labels_can_be_numbers(void **state)
{
    struct folder *folder = *state;
    struct task_options options;
    struct task_facts facts;
    struct dataset data;
    check_status(
        &folder->host,
        facts_of(folder, "tokens=bytes label_type=number", "2\ta\n4\tb\n 6 \tc\n8\td\n", &options, &facts),
        HASHATTN_OK, NULL);
    assert_string_equal(facts.objectives[0].name, "regress");
    assert_true(facts.num_classes == 0 && facts.columns[0].mean == 5);
    assert_true(fabs(facts.columns[0].deviation - sqrt(5)) < 1e-12);
    assert_string_equal(facts.shown[0], "a");
    assert_string_equal(facts.shown[1], "d");
    check_status(
        &folder->host,
        task_find("text")->load(&folder->host, &options, &facts, folder->path, SPLIT_COUNT, 1, &data),
        HASHATTN_OK, NULL);
    assert_int_equal(data.count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_true(fabs((double)data.targets[0].floats[i] - (2.0 * (double)i - 3) / sqrt(5)) < 1e-6);
    dataset_free(&folder->host, &data);
    task_facts_free(&folder->host, &facts);
    check_status(&folder->host, facts_of(folder, "label_type=number", "2\ta\nx\tb\n", &options, &facts),
                 HASHATTN_BAD_FILE, "line 2: the label 'x' is no number");
    check_status(&folder->host, facts_of(folder, "label_type=number", "2\ta\n2\tb\n", &options, &facts),
                 HASHATTN_BAD_FILE, "all 2 labels are 2");
}

/* The labels of document i, as "a,c". */
static void check_set(const struct dataset *data, const struct task_facts *facts, size_t i, const char *want)
{
    const struct target_set *set = &data->targets[0];
    char found[100] = "";
    float floats[8];
    assert_true(set->sparse && set->floats == NULL && set->width == facts->num_classes && set->width <= 8);
    target_read(set, i, floats);
    size_t ones = 0;
    for (size_t k = 0; k < set->width; k++) {
        assert_true(floats[k] == 0 || floats[k] == 1);
        if (floats[k] == 0)
            continue;
        assert_true(ones < set->ones[i].count && set->places[set->ones[i].first + ones++] == k);
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s", found[0] == '\0' ? "" : ",",
                 facts->labels[k]);
    }
    assert_string_equal(found, want);
    assert_int_equal(set->ones[i].count, ones);
}

static void labels_can_be_sets(void **state)
{
    struct folder *folder = *state;
    struct task_options options;
    struct task_facts facts;
    struct dataset data;
    char path[200];
    check_status(&folder->host,
                 facts_of(folder, "tokens=bytes multi_label=true",
                          "d,a\tx\nc\tx\n,\tx\nb, b,a,b\tx\nd,c,b,a\tx\n", &options, &facts),
                 HASHATTN_OK, NULL);
    assert_string_equal(facts.objectives[0].name, "label_set");
    check_status(
        &folder->host,
        task_find("text")->load(&folder->host, &options, &facts, folder->path, SPLIT_COUNT, 1, &data),
        HASHATTN_OK, NULL);
    assert_int_equal(data.count, 5);
    static const char *const sets[] = {"a,d", "c", "", "a,b", "a,b,c,d"};
    for (size_t i = 0; i < 5; i++)
        check_set(&data, &facts, i, sets[i]);
    dataset_free(&folder->host, &data);
    folder_put_text(folder, "in.jsonl",
                    "{\"text\": \"x\", \"label\": [\"d\", \"a\"]}\n"
                    "{\"text\": \"x\"}\n{\"text\": \"x\", \"label\": [\"b\", \"new\"]}\n");
    snprintf(path, sizeof path, "%s/in.jsonl", folder->path);
    check_status(&folder->host, task_stream_whole(&folder->host, "text", &options, &facts, path, &data),
                 HASHATTN_OK, NULL);
    assert_true(data.count == 3 && data.targets[0].weights[0] == 1);
    assert_true(data.targets[0].weights[1] == 0 && data.targets[0].weights[2] == 0);
    static const char *const given[] = {"a,d", "", "b"};
    for (size_t i = 0; i < 3; i++)
        check_set(&data, &facts, i, given[i]);
    dataset_free(&folder->host, &data);
    task_facts_free(&folder->host, &facts);
}

/* A float for each of 1,000 documents and labels would be 4 MB; a file is read 1 MiB at a time. */
static void memory_of_sets_grows_with_the_file(void **state)
{
    enum { DOCUMENTS = 1000 };
    struct folder *folder = *state;
    struct task_options options;
    struct task_facts facts;
    static char text[DOCUMENTS * 8];
    size_t size = 0;
    for (int i = 0; i < DOCUMENTS; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "%d\tx\n", i);
    check_status(&folder->host,
                 facts_of(folder, "tokens=bytes max_len=4 multi_label=true", text, &options, &facts),
                 HASHATTN_OK, NULL);
    for (enum split split = SPLIT_TRAIN; split < SPLIT_COUNT; split++) {
        struct failing_host counting;
        struct dataset data;
        failing_host_init(&counting, -1);
        check_status(&counting.host,
                     task_find("text")->load(&counting.host, &options, &facts, folder->path, split, 1, &data),
                     HASHATTN_OK, NULL);
        assert_int_equal(data.targets[0].width, DOCUMENTS);
        assert_true(counting.largest < 2 << 20);
        dataset_free(&counting.host, &data);
        assert_int_equal(counting.outstanding, 0);
    }
    task_facts_free(&folder->host, &facts);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_enter, folder_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(headers_are_recognised),
        IN_FOLDER(columns_have_numbers_without_a_header),
        IN_FOLDER(other_delimiters_and_encodings),
        IN_FOLDER(texts_are_whole_or_lines),
        IN_FOLDER(empty_lines_are_no_documents),
        IN_FOLDER(tabs_belong_to_a_last_text_only),
        IN_FOLDER(keys_may_have_dots),
        IN_FOLDER(bad_lines_are_skipped),
        IN_FOLDER(the_wrong_column_is_refused),
        IN_FOLDER(labels_can_be_numbers),
        IN_FOLDER(labels_can_be_sets),
        IN_FOLDER(memory_of_sets_grows_with_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
