/* Documents of users as tokens: ids, segments, cuts, prompts and names; what is refused, with file, line and
   numbers. Bugs planted and caught: special tokens always added; a document cut although nobody asked;
   the prompt of the text before kept; the end token counted in a prompt; a middle that is not cut.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/documents/token_documents.h"

#include <stdio.h>
#include <string.h>

#include "support/folder.h"

/* Words of tests/models/checkpoints/bert/vocab.txt. */
enum { CLS = 2, SEP = 3, THE = 5, CAT = 6, SAT = 8, S = 11 };

static hashattn_status read_file(struct folder *folder, const char *name, const char *text,
                                 const struct token_rules *rules, struct dataset *dataset)
{
    struct tokenizer *tokenizer;
    struct dataset_builder builder = {.dataset = {.segmented = true}};
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    folder_put_text(folder, name, text);
    check_status(&folder->host, tokenizer_load(&folder->host, "tests/models/checkpoints/bert", &tokenizer),
                 HASHATTN_OK, NULL);
    struct token_rules own = *rules;
    own.files.label = "label";
    if (own.files.texts[0] == NULL)
        own.files.texts[0] = "text";
    hashattn_status status = token_documents_read(&folder->host, tokenizer, &own, path, &builder);
    tokenizer_free(&folder->host, tokenizer);
    return dataset_finish(&folder->host, &builder, status, dataset);
}

static void documents_are_tokens(void **state)
{
    struct folder *folder = *state;
    struct dataset dataset;
    struct token_rules rules = {.max_tokens = 10, .special_tokens = true};
    check_status(&folder->host, read_file(folder, "one.txt", "The cats\nsat", &rules, &dataset), HASHATTN_OK,
                 NULL);
    static const uint32_t want[] = {CLS, THE, CAT, S, SAT, SEP};
    assert_true(dataset.count == 1 && dataset.offsets[1] == 6 && dataset.num_cut == 0);
    check_same_bits(dataset.ids, want, sizeof want, "ids");
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(dataset.segments[i], 0);
    dataset_free(&folder->host, &dataset);
    rules.special_tokens = false;
    static const char lines[] = "{\"text\": \"the cat\"}\n \t\n\n{\"text\": \"sat\", \"label\": 1}";
    check_status(&folder->host, read_file(folder, "two.jsonl", lines, &rules, &dataset), HASHATTN_OK, NULL);
    static const uint32_t both[] = {THE, CAT, SAT};
    assert_true(dataset.count == 2 && dataset.offsets[1] == 2 && dataset.offsets[2] == 3);
    check_same_bits(dataset.ids, both, sizeof both, "ids");
    dataset_free(&folder->host, &dataset);
}

static void long_documents_are_cut_if_asked(void **state)
{
    struct folder *folder = *state;
    struct dataset dataset;
    struct token_rules rules = {.max_tokens = 4, .special_tokens = true};
    static const char lines[] = "{\"text\": \"the cat\"}\n{\"text\": \"the cat sat\"}\n";
    check_status(
        &folder->host, read_file(folder, "two.jsonl", lines, &rules, &dataset), HASHATTN_BAD_FILE,
        "two.jsonl: line 2: the document has 5 tokens, the model has positions for 4; truncate cuts it");
    assert_null(dataset.ids);
    rules.truncate = true;
    check_status(&folder->host, read_file(folder, "two.jsonl", lines, &rules, &dataset), HASHATTN_OK, NULL);
    static const uint32_t want[] = {CLS, THE, CAT, SEP, CLS, THE, CAT, SEP};
    assert_true(dataset.count == 2 && dataset.num_cut == 1 && dataset.offsets[2] == 8);
    check_same_bits(dataset.ids, want, sizeof want, "ids");
    dataset_free(&folder->host, &dataset);
    rules.cut = CUT_MIDDLE;
    check_status(&folder->host, read_file(folder, "two.jsonl", lines, &rules, &dataset), HASHATTN_OK, NULL);
    static const uint32_t ends[] = {CLS, THE, CAT, SEP, CLS, CAT, SAT, SEP};
    assert_true(dataset.count == 2 && dataset.num_cut == 1 && dataset.offsets[2] == 8);
    check_same_bits(dataset.ids, ends, sizeof ends, "ids");
    dataset_free(&folder->host, &dataset);
}

static hashattn_status see_name(struct host *host, void *context, const struct document_name *name)
{
    (void)host;
    char *seen = context;
    snprintf(seen + strlen(seen), 40, "%.*s,", (int)name->id_size, name->id == NULL ? "" : name->id);
    return HASHATTN_OK;
}

static void a_prompt_is_before_each_text(void **state)
{
    struct folder *folder = *state;
    struct dataset dataset;
    struct tokenizer *tokenizer;
    char seen[100] = "";
    size_t count;
    struct token_rules rules = {.max_tokens = 4,
                                .truncate = true,
                                .special_tokens = true,
                                .prompt = "the ",
                                .name = see_name,
                                .context = seen};
    rules.files.texts[0] = "Body";
    check_status(&folder->host, read_file(folder, "a.csv", "id,body\n7,cat\nx,s\n", &rules, &dataset),
                 HASHATTN_OK, NULL);
    static const uint32_t want[] = {CLS, THE, CAT, SEP, CLS, THE};
    assert_true(dataset.count == 2 && dataset.offsets[1] == 4 && dataset.num_cut == 0);
    check_same_bits(dataset.ids, want, 6 * sizeof *want, "ids");
    assert_string_equal(seen, "7,x,");
    dataset_free(&folder->host, &dataset);
    rules.files.lines = true;
    rules.prompt = NULL;
    rules.name = NULL;
    check_status(&folder->host, read_file(folder, "a.txt", "the\n\ncat cat cat\n", &rules, &dataset),
                 HASHATTN_OK, NULL);
    assert_true(dataset.count == 3 && dataset.offsets[1] == 3 && dataset.offsets[2] == 5 &&
                dataset.num_cut == 1);
    dataset_free(&folder->host, &dataset);
    check_status(&folder->host, tokenizer_load(&folder->host, "tests/models/checkpoints/bert", &tokenizer),
                 HASHATTN_OK, NULL);
    rules.prompt = "the cat";
    check_status(&folder->host, token_prompt_length(&folder->host, tokenizer, &rules, &count), HASHATTN_OK,
                 NULL);
    assert_int_equal(count, 3);
    rules.special_tokens = false;
    check_status(&folder->host, token_prompt_length(&folder->host, tokenizer, &rules, &count), HASHATTN_OK,
                 NULL);
    assert_int_equal(count, 2);
    rules.prompt = "";
    check_status(&folder->host, token_prompt_length(&folder->host, tokenizer, &rules, &count), HASHATTN_OK,
                 NULL);
    assert_int_equal(count, 0);
    tokenizer_free(&folder->host, tokenizer);
}

static void what_is_no_document_is_refused(void **state)
{
    struct folder *folder = *state;
    struct dataset dataset;
    const struct token_rules rules = {.max_tokens = 10};
    static const struct {
        const char *name, *text, *part;
    } cases[] = {
        {"a.txt", "", "a.txt: the document has no tokens"},
        {"a.jsonl", "{\"text\": \"\"}\n", "a.jsonl: line 1: the document has no tokens"},
        {"a.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"\"}\n",
         "a.jsonl: line 2: the object has no key 'text' (text_column); there are: txt"},
        {"a.jsonl", "{\"text\": 5}\n", "line 1: text is 5; a string is needed"},
        {"a.jsonl", "{\"text\": \"\\ud800\"}\n", "line 1: "},
        {"a.jsonl", "text\n", "line 1: "},
        {"a.txt", "\xff", "a.txt: "},
        {"a.csv", "words\nthe cat\n", "a.csv: line 1: no column is named 'text'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_status(&folder->host, read_file(folder, cases[i].name, cases[i].text, &rules, &dataset),
                     HASHATTN_BAD_FILE, cases[i].part);
        assert_null(dataset.ids);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(documents_are_tokens, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(long_documents_are_cut_if_asked, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(a_prompt_is_before_each_text, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(what_is_no_document_is_refused, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
