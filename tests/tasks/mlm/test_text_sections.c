/* Documents of files: blank lines, whole files, JSON, WikiText's headings; long documents in parts; blocks.
   Bugs planted and caught: a document that goes on in the next file; white space as a document; the byte
   order mark kept; a wrapped document divided inside a paragraph; a heading of the second level that begins a
   document; the file or line of a message missing; a block that ends inside a document; a block of short
   documents that does not end; the line that begins a block's first document lost.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/mlm/text_sections.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/folder.h"

enum { SECTION = 40 };

struct files {
    char paths[4][120];
    const char *list[4];
    size_t count;
};

static void put(struct folder *folder, struct files *files, const char *name, const char *text)
{
    char *path = files->paths[files->count];
    snprintf(path, sizeof files->paths[0], "%s/%s", folder->path, name);
    folder_put_text(folder, name, text);
    files->list[files->count++] = path;
}

/* Reads all sections and joins their texts, each ended by '|', and by 'w' before it if lines are wrapped. */
static hashattn_status read_all(struct folder *folder, const struct files *files, enum document_rule rule,
                                char *text, size_t room)
{
    struct host *host = &folder->host;
    struct section_reader reader;
    struct section_block block = {.text = NULL};
    uint64_t index = 0;
    size_t used = 0;
    TRY(section_reader_open(host, files->list, files->count, rule, SECTION, &reader));
    hashattn_status status;
    do {
        status = section_reader_next(&reader, &block);
        for (size_t i = 0; i < block.count && status == HASHATTN_OK; i++) {
            const struct text_section *section = &block.list[i];
            assert_int_equal(section->index, index++);
            assert_true(used + section->size + 3 < room);
            memcpy(text + used, block.text + section->start, section->size);
            used += section->size;
            used += (size_t)snprintf(text + used, room - used, "%s|", section->wrapped ? "w" : "");
        }
    } while (status == HASHATTN_OK && block.count > 0);
    text[used] = '\0';
    section_reader_close(&reader);
    section_block_free(host, &block);
    return status;
}

static void check_read(struct folder *folder, const struct files *files, enum document_rule rule,
                       const char *want)
{
    char text[1000];
    check_status(&folder->host, read_all(folder, files, rule, text, sizeof text), HASHATTN_OK, NULL);
    assert_string_equal(text, want);
}

static void blank_lines_or_files_are_documents(void **state)
{
    struct folder *folder = *state;
    struct files files = {.count = 0};
    put(folder, &files, "a.txt",
        "\xef\xbb\xbf"
        "one.\r\ntwo\n \t\n\n\nthree");
    put(folder, &files, "b.txt", " \n\n");
    put(folder, &files, "c.txt", "four\n");
    check_read(folder, &files, DOCUMENTS_BLANK_LINES, "one.\ntwo\n|\nthree\n|four\n|");
    check_read(folder, &files, DOCUMENTS_FILE, "one.\ntwo\n \t\n\n\nthree\nw|four\nw|");
}

static void lines_of_json_are_documents(void **state)
{
    struct folder *folder = *state;
    struct files files = {.count = 0};
    put(folder, &files, "a.jsonl",
        "{\"text\": \"one\\n\\ntwo\", \"label\": 1}\n\n{\"text\": \"\"}\n{\"text\": \"x\"}");
    check_read(folder, &files, DOCUMENTS_FILE, "one\n\ntwo\n|x\n|");
    char text[100];
    files.count = 0;
    put(folder, &files, "b.jsonl", "{\"text\": \"one\"}\n{\"txt\": \"two\"}\n");
    check_status(&folder->host, read_all(folder, &files, DOCUMENTS_FILE, text, sizeof text),
                 HASHATTN_BAD_FILE, "b.jsonl: line 2: 'text' is missing");
    files.count = 0;
    put(folder, &files, "c.jsonl", "nothing\n");
    check_status(&folder->host, read_all(folder, &files, DOCUMENTS_FILE, text, sizeof text),
                 HASHATTN_BAD_FILE, "c.jsonl: line 1: ");
}

static void titles_begin_documents_of_wikitext(void **state)
{
    struct folder *folder = *state;
    struct files files = {.count = 0};
    put(folder, &files, "wiki.train.tokens",
        " \n = Cats = \n \n A cat .\n = = Life = = \n Nine .\n = D = \n B\n");
    check_read(folder, &files, DOCUMENTS_BLANK_LINES,
               " = Cats = \n \n A cat .\n = = Life = = \n Nine .\n| = D = \n B\n|");
}

static void long_documents_are_divided(void **state)
{
    struct folder *folder = *state;
    struct files files = {.count = 0};
    char text[400] = "", one[20];
    for (int i = 0; i < 20; i++) {
        snprintf(one, sizeof one, "line %02d%s", i, i % 7 == 6 ? "\n\n" : "\n");
        strcat(text, one);
    }
    put(folder, &files, "a.txt", text);
    check_read(folder, &files, DOCUMENTS_FILE,
               "line 00\nline 01\nline 02\nline 03\nline 04\nline 05\nline 06\n\nw|line 07\nline 08\nline "
               "09\nline 10\n"
               "line 11\nline 12\nline 13\n\nw|line 14\nline 15\nline 16\nline 17\nline 18\nline 19\nw|");
    files.count = 0;
    memset(text, '.', 390); /* without a blank line: at four times the size */
    for (int i = 1; i < 39; i++)
        text[10 * i] = '\n';
    text[390] = '\0';
    put(folder, &files, "b.txt", text);
    char read[1000];
    check_status(&folder->host, read_all(folder, &files, DOCUMENTS_FILE, read, sizeof read), HASHATTN_OK,
                 NULL);
    assert_int_equal(strchr(read, '|') - read, 161 + 1);
    check_status(&folder->host, read_all(folder, &files, DOCUMENTS_BLANK_LINES, read, sizeof read),
                 HASHATTN_OK, NULL);
    assert_int_equal(strchr(read, '|') - read, 41);
}

static void blocks_end_with_a_section(void **state)
{
    struct folder *folder = *state;
    struct files files = {.count = 0};
    enum { LINE = 1 << 16, LINES = 300 };
    char *text = malloc((size_t)LINE * LINES + 1);
    assert_non_null(text);
    memset(text, 'x', (size_t)LINE * LINES);
    for (size_t i = 1; i <= LINES; i++)
        text[i * LINE - 1] = '\n';
    text[(size_t)LINE * LINES] = '\0';
    put(folder, &files, "a.txt", text);
    free(text);
    struct section_reader reader;
    struct section_block block = {.text = NULL};
    size_t sections = 0, bytes = 0, blocks = 0;
    check_status(&folder->host, section_reader_open(&folder->host, files.list, 1, 0, 3 * LINE, &reader),
                 HASHATTN_OK, NULL);
    for (;; blocks++) {
        check_status(&folder->host, section_reader_next(&reader, &block), HASHATTN_OK, NULL);
        if (block.count == 0)
            break;
        assert_true(block.used < SECTION_BLOCK + 3 * LINE);
        for (size_t i = 0; i < block.count; i++, sections++) {
            assert_int_equal(block.list[i].size, 3 * LINE);
            bytes += block.list[i].size;
        }
        assert_true(reader.bytes >= bytes);
    }
    assert_true(sections == LINES / 3 && bytes == (size_t)LINE * LINES && reader.bytes == bytes &&
                blocks > 2);
    section_reader_close(&reader);
    section_block_free(&folder->host, &block);
}

/* Reads a file of short documents, each with its number after `before`, and counts its blocks. */
static void check_blocks(struct folder *folder, const char *name, const char *before, const char *after)
{
    enum { DOCUMENTS = 20000, SIZE = 1000, SECTIONS = 1 << 16 };
    struct files files = {.count = 0};
    char *text = malloc((size_t)DOCUMENTS * SIZE + 1), start[40];
    assert_non_null(text);
    memset(text, 'x', (size_t)DOCUMENTS * SIZE);
    for (size_t i = 0; i < DOCUMENTS; i++) {
        int used = snprintf(start, sizeof start, "%s%05zu%s", before, i, after);
        memcpy(text + i * SIZE, start, (size_t)used);
        text[(i + 1) * SIZE - 1] = '\n';
    }
    text[(size_t)DOCUMENTS * SIZE] = '\0';
    put(folder, &files, name, text);
    struct section_reader reader;
    struct section_block block = {.text = NULL};
    size_t sections = 0, blocks = 0;
    check_status(&folder->host, section_reader_open(&folder->host, files.list, 1, 0, SECTIONS, &reader),
                 HASHATTN_OK, NULL);
    for (;; blocks++) {
        check_status(&folder->host, section_reader_next(&reader, &block), HASHATTN_OK, NULL);
        if (block.count == 0)
            break;
        assert_true(block.used < SECTION_BLOCK + SIZE);
        for (size_t i = 0; i < block.count; i++, sections++) {
            assert_true(block.list[i].index == sections && block.list[i].size == SIZE);
            assert_memory_equal(block.text + block.list[i].start, text + sections * SIZE, SIZE);
        }
    }
    assert_true(sections == DOCUMENTS && blocks == 3);
    section_reader_close(&reader);
    section_block_free(&folder->host, &block);
    free(text);
}

static void blocks_of_short_documents_end(void **state)
{
    check_blocks(*state, "a.txt", "\n", "\n");
    check_blocks(*state, "a.tokens", " = ", " = \n");
}

static void other_files_are_refused(void **state)
{
    struct folder *folder = *state;
    struct files files = {.count = 0};
    char text[100];
    put(folder, &files, "a.csv", "x");
    check_status(&folder->host, read_all(folder, &files, DOCUMENTS_FILE, text, sizeof text),
                 HASHATTN_BAD_FILE, "a.csv: a name that ends in .txt, .jsonl or .tokens is needed");
    const char *absent = "absent/a.txt";
    struct files none = {.list = {absent}, .count = 1};
    check_status(&folder->host, read_all(folder, &none, DOCUMENTS_FILE, text, sizeof text), HASHATTN_BAD_FILE,
                 "absent/a.txt: cannot open");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_enter, folder_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(blank_lines_or_files_are_documents),
        IN_FOLDER(lines_of_json_are_documents),
        IN_FOLDER(titles_begin_documents_of_wikitext),
        IN_FOLDER(long_documents_are_divided),
        IN_FOLDER(blocks_end_with_a_section),
        IN_FOLDER(blocks_of_short_documents_end),
        IN_FOLDER(other_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
