/* Reads a file whole, and encodes one document after another.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/token_documents.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "io/json.h"

struct reader {
    const struct token_rules *rules;
    struct encoder *encoder;
    struct dataset_builder *builder;
};

/* The number of tokens of a text that is too long, for the message. */
static hashattn_status fail_length(struct host *host, const struct reader *reader, struct piece text)
{
    const struct encode_options all = {.special_tokens = reader->rules->special_tokens};
    struct encoding encoding;
    TRY(encoder_encode(reader->encoder, text, &all, &encoding));
    return host_fail(host, HASHATTN_BAD_FILE, "the document has %zu tokens, the model has positions for %zu",
                     encoding.count, reader->rules->max_tokens);
}

static hashattn_status add_document(struct host *host, struct reader *reader, struct piece text)
{
    const struct encode_options options = {.max_tokens = reader->rules->max_tokens,
                                           .special_tokens = reader->rules->special_tokens};
    struct encoding encoding;
    size_t row;
    TRY(encoder_encode(reader->encoder, text, &options, &encoding));
    if (encoding.truncated && !reader->rules->truncate)
        return fail_length(host, reader, text);
    FAIL_IF(encoding.count == 0, host, HASHATTN_BAD_FILE, "the document has no tokens");
    TRY(dataset_reserve(host, reader->builder, encoding.count, &row));
    struct dataset *dataset = &reader->builder->dataset;
    memcpy(dataset->ids + row, encoding.ids, encoding.count * sizeof *encoding.ids);
    memcpy(dataset->segments + row, encoding.segments, encoding.count);
    dataset_push(reader->builder, encoding.count, encoding.truncated);
    return HASHATTN_OK;
}

static hashattn_status read_line(struct host *host, void *context, struct piece line, size_t number)
{
    (void)number;
    struct json *root;
    const char *text;
    if (strspn(line.bytes, " \t") >= line.size)
        return HASHATTN_OK;
    TRY(json_parse(host, line.bytes, line.size, &root));
    hashattn_status status = json_get_string(host, root, "text", &text);
    if (status == HASHATTN_OK)
        status = add_document(host, context, (struct piece){text, strlen(text)});
    json_free(root);
    return status;
}

static hashattn_status read_whole(struct host *host, struct reader *reader, const char *path)
{
    char *bytes;
    size_t size;
    TRY(file_read(host, path, FILE_MOST, &bytes, &size));
    hashattn_status status = add_document(host, reader, (struct piece){bytes, size});
    if (status != HASHATTN_OK)
        host_prefix(host, path);
    memory_free(host, bytes);
    return status;
}

hashattn_status token_documents_read(struct host *host, const struct tokenizer *tokenizer,
                                     const struct token_rules *rules, const char *path,
                                     struct dataset_builder *builder)
{
    const char *ending = strrchr(path, '.');
    bool plain = ending != NULL && strcmp(ending, ".txt") == 0;
    FAIL_IF(!plain && (ending == NULL || strcmp(ending, ".jsonl") != 0), host, HASHATTN_BAD_FILE,
            "%.300s: a name that ends in .txt (one document) or .jsonl (one on each line) is needed", path);
    struct reader reader = {.rules = rules, .builder = builder};
    TRY(encoder_new(host, tokenizer, &reader.encoder));
    hashattn_status status =
        plain ? read_whole(host, &reader, path) : file_each_line(host, path, FILE_TYPED, read_line, &reader);
    encoder_free(reader.encoder);
    return status;
}
