/* Encodes one document after another.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/documents/token_documents.h"

#include <string.h>

#include "base/memory.h"
#include "tasks/documents/document_files.h"
#include "tasks/documents/given_texts.h"

struct reader {
    const struct token_rules *rules;
    struct encoder *encoder;
    struct dataset_builder *builder;
    struct grown_text prompted; /* the prompt and a text */
};

static hashattn_status append(struct host *host, struct grown_text *text, struct piece piece)
{
    TRY(memory_grow(host, &text->bytes, &text->capacity, text->size, piece.size, 1, "a prompt and its text"));
    memcpy(text->bytes + text->size, piece.bytes, piece.size);
    text->size += piece.size;
    return HASHATTN_OK;
}

static hashattn_status put_prompt(struct host *host, struct reader *reader, struct piece *text)
{
    const char *prompt = reader->rules->prompt;
    if (prompt == NULL || *prompt == '\0')
        return HASHATTN_OK;
    reader->prompted.size = 0;
    TRY(append(host, &reader->prompted, (struct piece){prompt, strlen(prompt)}));
    TRY(append(host, &reader->prompted, *text));
    *text = (struct piece){reader->prompted.bytes, reader->prompted.size};
    return HASHATTN_OK;
}

/* The number of tokens of a text that is too long, for the message. */
static hashattn_status fail_length(struct host *host, const struct reader *reader, struct piece text)
{
    const struct encode_options all = {.special_tokens = reader->rules->special_tokens};
    struct encoding encoding;
    TRY(encoder_encode(reader->encoder, text, &all, &encoding));
    return host_fail(host, HASHATTN_BAD_FILE,
                     "the document has %zu tokens, the model has positions for %zu; `truncate` cuts it",
                     encoding.count, reader->rules->max_tokens);
}

static hashattn_status name_document(struct host *host, const struct token_rules *rules,
                                     const struct document *document)
{
    const struct document_name name = {.file = document->file,
                                       .id = document->id.bytes,
                                       .id_size = document->id.size,
                                       .id_is_number = document->id_is_number};
    return rules->name == NULL || document->file == NULL ? HASHATTN_OK
                                                         : rules->name(host, rules->context, &name);
}

static hashattn_status add_document(struct host *host, void *context, const struct document *document)
{
    struct reader *reader = context;
    const struct token_rules *rules = reader->rules;
    const struct text_limit limit = {rules->max_tokens, rules->truncate ? rules->cut : CUT_END};
    struct encoding encoding;
    struct piece text = document->texts[0];
    size_t row;
    TRY(put_prompt(host, reader, &text));
    TRY(tokens_encode(reader->encoder, text, limit, rules->special_tokens, &encoding));
    if (encoding.truncated && !rules->truncate)
        return fail_length(host, reader, text);
    FAIL_IF(encoding.count == 0, host, HASHATTN_BAD_FILE, "the document has no tokens");
    TRY(dataset_reserve(host, reader->builder, size_min(encoding.count, limit.most), &row));
    const struct dataset *dataset = &reader->builder->dataset;
    struct token_row tokens = {.ids = dataset->ids + row, .segments = dataset->segments + row};
    tokens_take(&encoding, limit, &tokens);
    dataset_push(reader->builder, tokens.count, tokens.cut);
    return name_document(host, rules, document);
}

static void reader_close(struct host *host, struct reader *reader)
{
    memory_free(host, reader->prompted.bytes);
    encoder_free(reader->encoder);
}

hashattn_status token_documents_read(struct host *host, const struct tokenizer *tokenizer,
                                     const struct token_rules *rules, const char *path,
                                     struct dataset_builder *builder)
{
    struct reader reader = {.rules = rules, .builder = builder};
    TRY(encoder_new(host, tokenizer, &reader.encoder));
    hashattn_status status = document_file_read(host, path, FILE_TYPED, &rules->files, add_document, &reader);
    reader_close(host, &reader);
    return status;
}

hashattn_status token_documents_take(struct host *host, const struct tokenizer *tokenizer,
                                     const struct token_rules *rules, const struct given_texts *texts,
                                     struct dataset_builder *builder)
{
    struct reader reader = {.rules = rules, .builder = builder};
    TRY(encoder_new(host, tokenizer, &reader.encoder));
    hashattn_status status = given_texts_visit(host, texts, false, add_document, &reader);
    reader_close(host, &reader);
    return status;
}

hashattn_status token_prompt_length(struct host *host, const struct tokenizer *tokenizer,
                                    const struct token_rules *rules, size_t *count)
{
    const struct encode_options options = {.max_tokens = rules->max_tokens,
                                           .special_tokens = rules->special_tokens};
    struct encoder *encoder;
    struct encoding encoding;
    *count = 0;
    if (rules->prompt == NULL || *rules->prompt == '\0')
        return HASHATTN_OK;
    TRY(encoder_new(host, tokenizer, &encoder));
    hashattn_status status =
        encoder_encode(encoder, (struct piece){rules->prompt, strlen(rules->prompt)}, &options, &encoding);
    if (status == HASHATTN_OK && encoding.count > 0)
        *count = encoding.count - tokenizer_is_special(tokenizer, encoding.ids[encoding.count - 1]);
    encoder_free(encoder);
    return status;
}
