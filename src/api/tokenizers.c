/* Tokenizers for the public header.
   SPDX-License-Identifier: Apache-2.0 */
#include "hashattn/tokenizer.h"

#include <string.h>

#include "api/floating.h"
#include "api/handles.h"
#include "api/versions/versions.h"
#include "base/file.h"
#include "base/memory.h"
#include "text/files/tokenizer_json.h"
#include "text/learning/learn_bpe.h"

struct hashattn_tokenizer {
    hashattn_context *context;
    struct tokenizer *tokenizer;
    struct encoder *encoder;
    char *decoded;
};

void hashattn_tokenizer_free(hashattn_tokenizer *tokenizer)
{
    if (tokenizer == NULL)
        return;
    struct host *host = &tokenizer->context->host;
    encoder_free(tokenizer->encoder);
    tokenizer_free(host, tokenizer->tokenizer);
    memory_free(host, tokenizer->decoded);
    memory_free(host, tokenizer);
}

/* Takes ownership of `made`, also if it fails. */
static hashattn_status wrap(hashattn_context *context, struct tokenizer *made, hashattn_tokenizer **tokenizer)
{
    void *block;
    struct host *host = &context->host;
    hashattn_status status = memory_new_zeroed(host, 1, sizeof **tokenizer, "a tokenizer", &block);
    if (status != HASHATTN_OK) {
        tokenizer_free(host, made);
        return status;
    }
    hashattn_tokenizer *wrapped = block;
    wrapped->context = context;
    wrapped->tokenizer = made;
    status = encoder_new(host, made, &wrapped->encoder);
    if (status != HASHATTN_OK)
        hashattn_tokenizer_free(wrapped);
    else
        *tokenizer = wrapped;
    return status;
}

hashattn_status hashattn_tokenizer_load(hashattn_context *context, const char *directory,
                                        hashattn_tokenizer **tokenizer)
{
    FLOATING_DEFAULT;
    struct tokenizer *made;
    if (tokenizer != NULL)
        *tokenizer = NULL;
    if (context == NULL)
        return HASHATTN_INVALID;
    FAIL_IF(directory == NULL || tokenizer == NULL, &context->host, HASHATTN_INVALID, "%s is NULL",
            directory == NULL ? "directory" : "tokenizer");
    TRY(tokenizer_load(&context->host, directory, &made));
    return wrap(context, made, tokenizer);
}

size_t hashattn_tokenizer_num_ids(const hashattn_tokenizer *tokenizer)
{
    return tokenizer == NULL ? 0 : tokenizer_num_ids(tokenizer->tokenizer);
}

int64_t hashattn_tokenizer_find(const hashattn_tokenizer *tokenizer, const char *token)
{
    uint32_t id;
    if (tokenizer == NULL || token == NULL ||
        !tokenizer_find(tokenizer->tokenizer, (struct piece){token, strlen(token)}, &id))
        return -1;
    return id;
}

void hashattn_encode_options_default_sized(hashattn_encode_options *options, size_t struct_size)
{
    const hashattn_encode_options own = {.max_tokens = 0};
    version_fill_options(options, struct_size, &own, sizeof own);
}

hashattn_status hashattn_tokenizer_encode(hashattn_tokenizer *tokenizer, const char *text, size_t size,
                                          const char *second, size_t second_size,
                                          const hashattn_encode_options *options, hashattn_encoding *encoding)
{
    FLOATING_DEFAULT;
    hashattn_encode_options own;
    struct encoding result;
    if (tokenizer == NULL)
        return HASHATTN_INVALID;
    struct host *host = &tokenizer->context->host;
    FAIL_IF((text == NULL && size > 0) || encoding == NULL, host, HASHATTN_INVALID, "%s is NULL",
            encoding == NULL ? "encoding" : "text");
    hashattn_encode_options_default(&own);
    if (options != NULL)
        TRY(version_take(host, &own, sizeof own, options, first_sizes.encode_options, "encode options"));
    const struct encode_options given = {own.max_tokens, own.special_tokens != 0, own.offsets != 0};
    const struct piece first = {text, size};
    if (second == NULL)
        TRY(encoder_encode(tokenizer->encoder, first, &given, &result));
    else
        TRY(encoder_encode_pair(tokenizer->encoder, first, (struct piece){second, second_size}, &given,
                                &result));
    const hashattn_encoding found = {.count = result.count,
                                     .ids = result.ids,
                                     .segments = result.segments,
                                     .begins = result.begins,
                                     .ends = result.ends,
                                     .truncated = result.truncated};
    version_give(encoding, &found, sizeof found);
    return HASHATTN_OK;
}

hashattn_status hashattn_tokenizer_decode(hashattn_tokenizer *tokenizer, const uint32_t *ids, size_t count,
                                          int skip_special, const char **text, size_t *size)
{
    FLOATING_DEFAULT;
    if (tokenizer == NULL)
        return HASHATTN_INVALID;
    struct host *host = &tokenizer->context->host;
    FAIL_IF((ids == NULL && count > 0) || text == NULL || size == NULL, host, HASHATTN_INVALID, "%s is NULL",
            text == NULL   ? "text"
            : size == NULL ? "size"
                           : "ids");
    memory_free(host, tokenizer->decoded);
    hashattn_status status = tokenizer_decode(host, tokenizer->tokenizer, ids, count, skip_special != 0,
                                              &tokenizer->decoded, size);
    *text = tokenizer->decoded;
    return status;
}

/* ---- learning ----------------------------------------------------------------------------------------- */

void hashattn_learn_options_default_sized(hashattn_learn_options *options, size_t struct_size)
{
    const hashattn_learn_options own = {.vocab_size = 30000, .min_frequency = 2};
    version_fill_options(options, struct_size, &own, sizeof own);
}

static hashattn_status learn(struct host *host, const char *const *files, size_t num_files,
                             const hashattn_learn_options *options, struct tokenizer **tokenizer)
{
    struct word_counts counts = {.bytes = NULL};
    const struct learn_options given = {options->vocab_size, options->min_frequency, options->progress,
                                        options->user};
    hashattn_status status = HASHATTN_OK;
    for (size_t i = 0; i < num_files && status == HASHATTN_OK; i++)
        status = word_counts_add_file(host, &counts, files[i], FILE_TYPED);
    if (status == HASHATTN_OK && counts.count == 0)
        status =
            host_fail(host, HASHATTN_INVALID, "no text in %zu file%s", num_files, num_files == 1 ? "" : "s");
    if (status == HASHATTN_OK)
        status = learn_bpe(host, &counts, &given, tokenizer);
    word_counts_free(host, &counts);
    return status;
}

hashattn_status hashattn_tokenizer_learn(hashattn_context *context, const char *const *files,
                                         size_t num_files, const hashattn_learn_options *options,
                                         hashattn_tokenizer **tokenizer)
{
    FLOATING_DEFAULT;
    hashattn_learn_options own;
    struct tokenizer *made;
    if (tokenizer != NULL)
        *tokenizer = NULL;
    if (context == NULL)
        return HASHATTN_INVALID;
    struct host *host = &context->host;
    FAIL_IF(files == NULL || tokenizer == NULL, host, HASHATTN_INVALID, "%s is NULL",
            files == NULL ? "files" : "tokenizer");
    hashattn_learn_options_default(&own);
    if (options != NULL)
        TRY(version_take(host, &own, sizeof own, options, first_sizes.learn_options, "learn options"));
    FAIL_IF(own.vocab_size < LEARN_LEAST || own.vocab_size > VOCABULARY_MOST_IDS, host, HASHATTN_INVALID,
            "`vocab_size` is %zu, allowed are %d (%d special tokens and 256 bytes) to %d", own.vocab_size,
            LEARN_LEAST, LEARN_SPECIAL, VOCABULARY_MOST_IDS);
    FAIL_IF(own.min_frequency < 1, host, HASHATTN_INVALID, "`min_frequency` is 0, at least 1 is needed");
    for (size_t i = 0; i < num_files; i++)
        FAIL_IF(files[i] == NULL, host, HASHATTN_INVALID, "file %zu is NULL", i);
    TRY(learn(host, files, num_files, &own, &made));
    return wrap(context, made, tokenizer);
}

hashattn_status hashattn_tokenizer_save(hashattn_tokenizer *tokenizer, const char *directory)
{
    FLOATING_DEFAULT;
    char path[FILE_PATH];
    if (tokenizer == NULL)
        return HASHATTN_INVALID;
    struct host *host = &tokenizer->context->host;
    FAIL_IF(directory == NULL, host, HASHATTN_INVALID, "directory is NULL");
    TRY(file_join(host, directory, "tokenizer.json", path, sizeof path));
    FAIL_IF(file_exists(path), host, HASHATTN_INVALID, "%s exists and is not overwritten", path);
    TRY(file_make_directory(host, directory, true));
    return tokenizer_write_json(host, path, tokenizer->tokenizer);
}
