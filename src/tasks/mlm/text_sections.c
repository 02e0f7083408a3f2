/* A line at a time, appended to the current section.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/mlm/text_sections.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "io/json.h"

enum text_kind { TEXT_PLAIN, TEXT_JSONL, TEXT_WIKI, TEXT_UNKNOWN };

static enum text_kind kind_of(const char *path)
{
    static const char *const endings[] = {".txt", ".jsonl", ".tokens"};
    const char *ending = strrchr(path, '.');
    for (int i = 0; ending != NULL && i < TEXT_UNKNOWN; i++)
        if (strcmp(ending, endings[i]) == 0)
            return (enum text_kind)i;
    return TEXT_UNKNOWN;
}

void section_block_free(struct host *host, struct section_block *block)
{
    memory_free(host, block->text);
    memory_free(host, block->list);
    *block = (struct section_block){.text = NULL};
}

hashattn_status section_reader_open(struct host *host, const char *const *files, size_t num_files,
                                    enum document_rule rule, size_t section, struct section_reader *reader)
{
    *reader = (struct section_reader){.host = host,
                                      .files = files,
                                      .num_files = num_files,
                                      .rule = rule,
                                      .section = section,
                                      .lines = {.file = -1}};
    for (size_t i = 0; i < num_files; i++)
        FAIL_IF(kind_of(files[i]) == TEXT_UNKNOWN, host, HASHATTN_BAD_FILE,
                "%.300s: a name that ends in .txt, .jsonl or .tokens is needed", files[i]);
    return HASHATTN_OK;
}

void section_reader_close(struct section_reader *reader)
{
    if (reader->open)
        line_blocks_close(reader->host, &reader->lines);
    reader->open = false;
}

/* Ends the current section. One of white space only is dropped. */
static hashattn_status end_section(struct section_reader *reader, bool wrapped)
{
    struct section_block *block = reader->block;
    if (reader->has_text) {
        TRY(memory_grow(reader->host, &block->list, &block->list_capacity, block->count, 1,
                        sizeof *block->list, "sections of a text"));
        block->list[block->count++] =
            (struct text_section){reader->start, block->used - reader->start, reader->indices++, wrapped};
    } else {
        block->used = reader->start;
    }
    reader->start = block->used;
    reader->has_text = false;
    return HASHATTN_OK;
}

static bool is_blank(struct piece line)
{
    for (size_t i = 0; i < line.size; i++)
        if (line.bytes[i] != ' ' && !(line.bytes[i] >= '\t' && line.bytes[i] <= '\r'))
            return false;
    return true;
}

static hashattn_status add_line(struct section_reader *reader, struct piece line, bool wrapped)
{
    struct section_block *block = reader->block;
    bool blank = is_blank(line);
    TRY(memory_grow(reader->host, &block->text, &block->text_capacity, block->used, line.size + 1, 1,
                    "text of a block"));
    if (line.size > 0)
        memcpy(block->text + block->used, line.bytes, line.size);
    block->used += line.size;
    block->text[block->used++] = '\n';
    reader->has_text = reader->has_text || !blank;
    size_t size = block->used - reader->start;
    if (size >= reader->section && (blank || !wrapped || size >= 4 * reader->section))
        return end_section(reader, wrapped);
    return HASHATTN_OK;
}

/* " = Title = ", not " = = Section = = ". */
static bool is_title(struct piece line)
{
    while (line.size > 0 && is_blank((struct piece){line.bytes, 1}))
        line.bytes++, line.size--;
    while (line.size > 0 && is_blank((struct piece){line.bytes + line.size - 1, 1}))
        line.size--;
    return line.size >= 5 && memcmp(line.bytes, "= ", 2) == 0 && line.bytes[2] != '=' &&
           memcmp(line.bytes + line.size - 2, " =", 2) == 0;
}

static hashattn_status add_json(struct section_reader *reader, struct piece line)
{
    struct json *root;
    const char *text;
    struct piece part;
    if (is_blank(line))
        return HASHATTN_OK;
    TRY(json_parse(reader->host, line.bytes, line.size, &root));
    hashattn_status status = json_get_string(reader->host, root, "text", &text);
    if (status == HASHATTN_OK) {
        struct lines lines = {.at = text, .end = text + strlen(text)};
        while (status == HASHATTN_OK && lines_next(&lines, &part))
            status = add_line(reader, part, false);
        if (status == HASHATTN_OK)
            status = end_section(reader, false);
    }
    json_free(root);
    return status;
}

/* The next read_line returns this line, the last one that was read, once more. */
static void put_back(struct section_reader *reader, struct piece line)
{
    const char *end = reader->rest.bytes + reader->rest.size;
    reader->rest = (struct piece){line.bytes, (size_t)(end - line.bytes)};
    reader->line--;
}

/* A line of a file. If the block is full, a line that begins a document is left for the next one: here it
   would begin a section, and a block ends between sections only. */
static hashattn_status take_line(struct section_reader *reader, enum text_kind kind, struct piece line)
{
    bool wrapped = kind == TEXT_PLAIN && reader->rule == DOCUMENTS_FILE;
    if (kind == TEXT_JSONL)
        return add_json(reader, line);
    if (kind == TEXT_WIKI ? is_title(line) : !wrapped && is_blank(line)) {
        TRY(end_section(reader, wrapped));
        if (reader->block->used >= SECTION_BLOCK) {
            put_back(reader, line);
            return HASHATTN_OK;
        }
    }
    return add_line(reader, line, wrapped);
}

static hashattn_status open_next(struct section_reader *reader)
{
    TRY(line_blocks_open(reader->host, reader->files[reader->file], FILE_TYPED, &reader->lines));
    reader->open = true;
    reader->line = 0;
    reader->rest = (struct piece){NULL, 0};
    return HASHATTN_OK;
}

/* The next line of the current file; *ended: it has no more. */
static hashattn_status read_line(struct section_reader *reader, struct piece *line, bool *ended)
{
    if (reader->rest.size == 0) {
        TRY(line_blocks_next(reader->host, &reader->lines, &reader->rest));
        reader->bytes += reader->rest.size;
    }
    struct lines lines =
        reader->line == 0
            ? lines_open(reader->rest.bytes, reader->rest.size)
            : (struct lines){.at = reader->rest.bytes,
                             .end = reader->rest.size == 0 ? reader->rest.bytes
                                                           : reader->rest.bytes + reader->rest.size};
    *ended = !lines_next(&lines, line);
    reader->rest = (struct piece){lines.at, (size_t)(lines.end - lines.at)};
    reader->line += !*ended;
    return HASHATTN_OK;
}

/* Reads the current file up to the end of a section that fills the block, or to its end. */
static hashattn_status read_file(struct section_reader *reader)
{
    const char *path = reader->files[reader->file];
    enum text_kind kind = kind_of(path);
    struct piece line;
    bool ended = false;
    while (reader->block->used < SECTION_BLOCK || reader->start < reader->block->used) {
        TRY(read_line(reader, &line, &ended));
        if (ended)
            break;
        hashattn_status status = take_line(reader, kind, line);
        if (status != HASHATTN_OK) {
            char where[40];
            snprintf(where, sizeof where, "line %zu", reader->line);
            host_prefix(reader->host, where);
            host_prefix(reader->host, path);
            return status;
        }
    }
    if (!ended)
        return HASHATTN_OK;
    TRY(end_section(reader, kind == TEXT_PLAIN && reader->rule == DOCUMENTS_FILE));
    section_reader_close(reader);
    reader->file++;
    return HASHATTN_OK;
}

hashattn_status section_reader_next(struct section_reader *reader, struct section_block *block)
{
    reader->block = block;
    block->count = block->used = reader->start = 0;
    while (reader->file < reader->num_files && block->used < SECTION_BLOCK) {
        if (!reader->open)
            TRY(open_next(reader));
        TRY(read_file(reader));
    }
    return HASHATTN_OK;
}
