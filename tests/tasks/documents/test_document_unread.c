/* Folders of documents: what is read of them, and that nothing else is left out without being named.
   Covers: document_files.c document_unread.c
   Planted and caught: endings compared with the case of letters; tables in folders not read; `unsup` left out
   of a prediction, or read by training; a folder in a folder not counted; lines of a .txt file in a folder
   taken for one document; a count that stops where the names have no more room; a compressed document read
   as Latin-1.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/documents/document_unread.h"

#include <stdio.h>
#include <string.h>

#include "support/folder.h"
#include "tasks/documents/document_files.h"

static hashattn_status see(struct host *host, void *context, const struct document *document)
{
    char *seen = context;
    (void)host;
    sprintf(seen + strlen(seen), "%.*s:%.*s ", (int)document->label.size,
            document->label.bytes == NULL ? "" : document->label.bytes, (int)document->texts[0].size,
            document->texts[0].bytes);
    return HASHATTN_OK;
}

/* Writes a file and the folders on its path. */
static void put_below(struct folder *folder, const char *path, const char *text)
{
    char full[200];
    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(full, sizeof full, "%s/%.*s", folder->path, (int)(slash - path), path);
        check_status(&folder->host, file_make_directory(&folder->host, full, true), HASHATTN_OK, NULL);
    }
    folder_put_text(folder, path, text);
}

static void put_all(struct folder *folder)
{
    put_below(folder, "d/top.TXT", "top");
    put_below(folder, "d/q.csv", "label,text\n1,in csv\n");
    put_below(folder, "d/r.jsonl", "{\"text\": \"in jsonl\"}\n");
    put_below(folder, "d/.hidden", "x");
    put_below(folder, "d/s.pdf", "x");
    put_below(folder, "d/a/1.txt", "one");
    put_below(folder, "d/a/2.Tsv", "b\tin tsv\n");
    put_below(folder, "d/a/b/3.txt", "deep");
    put_below(folder, "d/unsup/4.txt", "four\nlines");
}

static void read_folder(struct folder *folder, const struct document_rules *rules, const char *want)
{
    char path[100], seen[400] = "";
    snprintf(path, sizeof path, "%s/d", folder->path);
    check_status(&folder->host, document_file_read(&folder->host, path, FILE_TYPED, rules, see, seen),
                 HASHATTN_OK, NULL);
    assert_string_equal(seen, want);
}

static void folders_are_read_or_named(void **state)
{
    struct folder *folder = *state;
    struct unread_files unread = {.count = 0};
    char want[300];
    struct document_rules rules = {.texts = {"text"}, .label = "label", .unread = &unread};
    put_all(folder);
    read_folder(folder, &rules, "1:in csv :in jsonl :top a:one b:in tsv unsup:four\nlines ");
    assert_int_equal(unread.count, 2);
    snprintf(want, sizeof want, "%s/d/s.pdf, %s/d/a/b/", folder->path, folder->path);
    assert_string_equal(unread.names, want);
    rules.lines = true;
    rules.delimiter = '|';
    rules.unread = NULL;
    folder_put_text(folder, "d/q.csv", "label|text\n1|a,b\n");
    folder_put_text(folder, "d/a/2.Tsv", "label|text\n2|c\n");
    read_folder(folder, &rules, "1:a,b :in jsonl :top :one 2:c :four :lines ");
    rules = (struct document_rules){.label_needed = true, .texts = {"text"}, .label = "label"};
    read_folder(folder, &rules, "a:one ");
}

static void compressed_documents_are_refused(void **state)
{
    struct folder *folder = *state;
    struct document_rules rules = {.texts = {"text"}, .label = "label", .encoding = ENCODING_LATIN1};
    char path[100], seen[100] = "";
    snprintf(path, sizeof path, "%s/a.txt", folder->path);
    folder_put(folder, "a.txt", "\x1f\x8b\x08", 3);
    check_status(&folder->host, document_file_read(&folder->host, path, FILE_TYPED, &rules, see, seen),
                 HASHATTN_BAD_FILE, "a.txt: the file is compressed (gzip)");
}

static void the_note_counts_all(void **state)
{
    struct host *host = &((struct folder *)*state)->host;
    struct unread_files unread = {.count = 0};
    unread_note(host, &unread);
    assert_string_equal(host->note, "");
    unread_add(&unread, "d/a\x1b.pdf", false);
    unread_note(host, &unread);
    assert_true(host->repaired == 1 && strchr(host->note, '\x1b') == NULL);
    assert_non_null(strstr(host->note, "1 file or folder is not read: d/a"));
    for (int i = 0; i < 500; i++)
        unread_add(&unread, "d/of a long name", i % 2 == 0);
    unread_add(&unread, "z", false); /* has room, but stands behind names that had none */
    assert_null(strstr(unread.names, ", z"));
    host_note(host, 1, "%s", "what was there");
    unread_note(host, &unread);
    assert_non_null(strstr(host->note, "502 files or folders are not read: d/a"));
    assert_non_null(strstr(host->note, "d/of a long name/, d/of a long name, "));
    assert_non_null(strstr(host->note, ", ... (a folder gives its .txt, "));
    assert_non_null(strstr(host->note, "; what was there"));
    host_fail(host, HASHATTN_BAD_FILE, "d has no documents");
    check_status(host, unread_explain(host, &unread, HASHATTN_BAD_FILE), HASHATTN_BAD_FILE,
                 "d has no documents; 502 files or folders are not read: d/a");
    host_fail(host, HASHATTN_BAD_FILE, "d has no documents");
    unread = (struct unread_files){.count = 0};
    assert_int_equal(unread_explain(host, &unread, HASHATTN_BAD_FILE), HASHATTN_BAD_FILE);
    assert_string_equal(host->message, "d has no documents");
    assert_int_equal(unread_explain(host, NULL, HASHATTN_BAD_FILE), HASHATTN_BAD_FILE);
    unread_add(NULL, "d", true);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_enter, folder_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {IN_FOLDER(folders_are_read_or_named),
                                       IN_FOLDER(compressed_documents_are_refused),
                                       IN_FOLDER(the_note_counts_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
