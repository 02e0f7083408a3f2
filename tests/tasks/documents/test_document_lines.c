/* Values of .jsonl that are passed on or refused: ids, wrong labels; and a column or key with two roles.
   Covers: document_lines.c document_columns.c
   Planted and caught: an id with 17 digits; an id that is no string or number left out, or refused in
   training; a wrong label without its value; the array left out of what is allowed; the text read as the
   label too, in a table and in .jsonl; an id that is the text or the label passed on, or refused in
   training; a label that nobody needs in the way of the text.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "support/folder.h"
#include "tasks/documents/document_files.h"

static const struct document_rules training = {.label_needed = true, .texts = {"text"}, .label = "label"};
static const struct document_rules prediction = {.texts = {"text"}, .label = "label"};

static hashattn_status see(struct host *host, void *context, const struct document *document)
{
    char *seen = context;
    (void)host;
    sprintf(seen + strlen(seen), "%s%.*s ", document->id_is_number ? "#" : "", (int)document->id.size,
            document->id.bytes == NULL ? "" : document->id.bytes);
    return HASHATTN_OK;
}

/* Reads a file; part NULL: it succeeds with the ids `want`. */
static void check_file(struct folder *folder, const char *name, const char *text,
                       const struct document_rules *rules, const char *want, const char *part)
{
    char path[100], seen[300] = "";
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    folder_put_text(folder, name, text);
    check_status(&folder->host, document_file_read(&folder->host, path, FILE_TYPED, rules, see, seen),
                 part == NULL ? HASHATTN_OK : HASHATTN_BAD_FILE, part);
    if (part == NULL)
        assert_string_equal(seen, want);
}

static void ids_pass_through(void **state)
{
    struct folder *folder = *state;
    check_file(
        folder, "a.jsonl",
        "{\"text\": \"a\", \"id\": 0.1}\n{\"text\": \"a\", \"id\": 1.50}\n{\"text\": \"a\", \"id\": 1e5}\n"
        "{\"text\": \"a\", \"id\": 0.30000000000000004}\n"
        "{\"text\": \"a\", \"id\": 123456789012345678901234567890}\n"
        "{\"text\": \"a\", \"id\": \"0.10\"}\n{\"text\": \"a\", \"id\": null}\n{\"text\": \"a\"}\n",
        &prediction, "#0.1 #1.5 #100000 #0.30000000000000004 #123456789012345678901234567890 0.10   ", NULL);
    static const char *const others[][2] = {{"true", "true"}, {"[1]", "a list"}, {"{}", "an object"}};
    for (size_t i = 0; i < 3; i++) {
        char text[100], part[100];
        snprintf(text, sizeof text, "\n{\"text\": \"a\", \"id\": %s}\n", others[i][0]);
        snprintf(part, sizeof part, "a.jsonl: line 2: id is %s; a string or a number is needed",
                 others[i][1]);
        check_file(folder, "a.jsonl", text, &prediction, "", part);
        snprintf(text, sizeof text, "{\"text\": \"a\", \"label\": \"x\", \"id\": %s}\n", others[i][0]);
        check_file(folder, "a.jsonl", text, &training, " ", NULL); /* which passes no id on */
    }
}

static void wrong_labels_are_shown(void **state)
{
    struct folder *folder = *state;
    struct document_rules rules = training;
    static const char *const labels[][2] = {
        {"[\"a\", 1]", "line 1: element 1 of label is 1; a string that is not empty is needed"},
        {"[0.1]", "line 1: element 0 of label is 0.1; a string"},
        {"[\"\"]", "line 1: element 0 of label is an empty string; a string that is not empty"},
        {"[\"a\", null]", "line 1: element 1 of label is null; a string"},
        {"[[]]", "line 1: element 0 of label is a list; a string"},
        {"null",
         "line 1: label is null; a string, a whole number, true or false, or an array of strings is needed"},
        {"{}",
         "line 1: label is an object; a string, a whole number, true or false, or an array of strings"}};
    rules.label_list = true;
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        char text[100];
        snprintf(text, sizeof text, "{\"text\": \"a\", \"label\": %s}\n", labels[i][0]);
        check_file(folder, "a.jsonl", text, &rules, "", labels[i][1]);
    }
    rules = (struct document_rules){
        .label_needed = true, .texts = {"text"}, .label = "label", .label_number = true};
    check_file(folder, "a.jsonl", "{\"text\": \"a\", \"label\": null}\n", &rules, "",
               "label is null; a string, a number, true or false is needed");
}

static void a_column_has_one_role(void **state)
{
    struct folder *folder = *state;
    struct document_rules rules = training;
    rules.texts[0] = "Label";
    check_file(folder, "a.csv", "label,text\nx,a\n", &rules, "",
               "a.csv: line 1: column 1 'label' is both the text and the label (text_column, label_column)");
    rules.texts[0] = "label";
    check_file(folder, "a.jsonl", "{\"text\": \"a\", \"label\": \"x\"}\n", &rules, "",
               "a.jsonl: the key 'label' is both the text and the label (text_column, label_column)");
    rules.recorded = true;
    check_file(folder, "a.tsv", "label\ttext\nx\ta\n", &rules, "",
               "a.tsv: line 1: column 1 'label' is both the text and the label");
    rules.label_needed = false;
    check_file(folder, "a.csv", "id,label\n7,a\n", &rules, "7 ", NULL);
    check_file(folder, "a.jsonl", "{\"label\": \"a\", \"id\": 7}\n", &rules, "#7 ", NULL);
    rules = prediction; /* as `embed` reads, which has no `label_column` */
    rules.texts[0] = "id";
    check_file(folder, "a.csv", "id,label\n7,a\n", &rules, "",
               "column 1 'id' is both the text and the id (text_column)");
    check_file(folder, "a.jsonl", "{\"id\": \"a\"}\n", &rules, "",
               "the key 'id' is both the text and the id (text_column)");
    rules = training;
    rules.texts[0] = "2";
    rules.label = "2";
    rules.no_header = true;
    check_file(folder, "a.csv", "x,a\n", &rules, "",
               "a.csv: line 1: column 2 is both the text and the label");
    rules = training;
    rules.texts[0] = "1"; /* the number of a column that has a name */
    check_file(folder, "a.csv", "label,b\nx,a\n", &rules, "",
               "column 1 'label' is both the text and the label");
    rules = (struct document_rules){
        .pairs = true, .label_needed = true, .texts = {"text1", "text2"}, .label = "text2"};
    check_file(folder, "a.csv", "text1,text2\nx,a\n", &rules, "",
               "column 2 'text2' is both the second text and the label");
}

/* Where no id is read, its name is one like any other. */
static void an_id_may_have_a_role_in_training(void **state)
{
    struct folder *folder = *state;
    static const char *const files[][2] = {{"a.csv", "id,text\nx,a\n"},
                                           {"a.tsv", "text\tid\na\tx\n"},
                                           {"a.jsonl", "{\"id\": \"x\", \"text\": \"a\"}\n"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct document_rules rules = training;
        rules.label = "id";
        check_file(folder, files[i][0], files[i][1], &rules, " ", NULL);
        rules.label_needed = false;
        check_file(folder, files[i][0], files[i][1], &rules, "", "'id' is both the label and the id");
        rules = training;
        rules.texts[0] = "id";
        rules.label = "text";
        check_file(folder, files[i][0], files[i][1], &rules, " ", NULL);
        rules.label_needed = false;
        check_file(folder, files[i][0], files[i][1], &rules, "", "'id' is both the text and the id");
    }
    struct document_rules rules = prediction;
    rules.label = "id"; /* of a run whose label was the id */
    check_file(folder, "a.csv", "text\na\n", &rules, " ", NULL);
    check_file(folder, "a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"a\", \"id\": null}\n", &rules, "  ", NULL);
    check_file(folder, "a.csv", "id,text,label,id\n7,a,x,8\n", &training, " ", NULL);
    check_file(folder, "a.csv", "id,text,id\n7,a,8\n", &prediction, "", "2 of the 3 columns are named 'id'");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_enter, folder_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {IN_FOLDER(ids_pass_through), IN_FOLDER(wrong_labels_are_shown),
                                       IN_FOLDER(a_column_has_one_role),
                                       IN_FOLDER(an_id_may_have_a_role_in_training)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
