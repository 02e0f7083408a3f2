/* Vectors of documents and guesses for masked tokens, from a checkpoint and its tokenizer.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "api/checkpoints.h"
#include "api/floating.h"
#include "api/versions/versions.h"
#include "base/memory.h"
#include "tasks/token_documents.h"

void hashattn_text_options_default_sized(hashattn_text_options *options, size_t struct_size)
{
    const hashattn_text_options own = {.pooling = "mean", .special_tokens = 1};
    version_fill_options(options, struct_size, &own, sizeof own);
}

/* ---- embedding ----------------------------------------------------------------------------------------- */

enum vectors_of { VECTORS_MEAN, VECTORS_FIRST, VECTORS_ALL };

static hashattn_status find_pooling(struct host *host, const char *name, enum vectors_of *pooling)
{
    static const char *const names[] = {"mean", "first", "none"};
    for (size_t i = 0; name != NULL && i < 3; i++)
        if (strcmp(names[i], name) == 0) {
            *pooling = (enum vectors_of)i;
            return HASHATTN_OK;
        }
    return host_fail(host, HASHATTN_INVALID, "pooling is '%.40s', allowed are mean, first, none",
                     name == NULL ? "" : name);
}

/* Passes the rows of a batch on, document by document. */
struct embedding_bridge {
    const struct inference_input *input;
    enum vectors_of pooling;
    hashattn_embedding embedding;
    hashattn_embedding_callback *callback;
    void *user;
    float *mean; /* (dim) */
};

static const float *mean_of(const struct embedding_bridge *bridge, const float *rows, size_t count)
{
    size_t dim = bridge->embedding.dim;
    for (size_t c = 0; c < dim; c++) {
        double sum = 0;
        for (size_t i = 0; i < count; i++)
            sum += (double)rows[i * dim + c];
        bridge->mean[c] = (float)(sum / (double)count);
    }
    return bridge->mean;
}

static bool tell_rows(void *user, size_t first, size_t n, const float *rows)
{
    struct embedding_bridge *bridge = user;
    hashattn_embedding *e = &bridge->embedding;
    for (size_t s = first; s < first + n; s++) {
        size_t count = bridge->input->offsets[s + 1] - bridge->input->offsets[s];
        bool all = bridge->pooling == VECTORS_ALL;
        e->document = s;
        e->first = all ? bridge->input->offsets[s] : s;
        e->count = all ? count : 1;
        e->vectors = bridge->pooling == VECTORS_MEAN ? mean_of(bridge, rows, count) : rows;
        if (bridge->callback(bridge->user, e) != 0)
            return true;
        rows += count * e->dim;
    }
    return false;
}

static hashattn_status read_documents(struct hashattn_pretrained *pretrained, const char *const *paths,
                                      size_t num_paths, const hashattn_text_options *options,
                                      struct dataset_builder *builder)
{
    struct host *host = &pretrained->context->host;
    const struct tokenizer *tokenizer;
    const struct token_rules rules = {.max_tokens = (size_t)pretrained->config->max_len,
                                      .truncate = options->truncate != 0,
                                      .special_tokens = options->special_tokens != 0};
    TRY(checkpoint_tokenizer(pretrained, &tokenizer));
    for (size_t i = 0; i < num_paths; i++) {
        FAIL_IF(paths[i] == NULL, host, HASHATTN_INVALID, "path %zu is NULL", i);
        TRY(token_documents_read(host, tokenizer, &rules, paths[i], builder));
    }
    return HASHATTN_OK;
}

hashattn_status hashattn_pretrained_embed(hashattn_pretrained *pretrained, const char *const *paths,
                                          size_t num_paths, const hashattn_text_options *options,
                                          hashattn_embedding_callback *callback, void *user)
{
    FLOATING_DEFAULT;
    if (pretrained == NULL)
        return HASHATTN_INVALID;
    struct host *host = &pretrained->context->host;
    hashattn_text_options own;
    hashattn_text_options_default(&own);
    if (options != NULL)
        TRY(version_take(host, &own, sizeof own, options, first_sizes.text_options, "text options"));
    FAIL_IF(paths == NULL || callback == NULL, host, HASHATTN_INVALID, "%s is NULL",
            paths == NULL ? "paths" : "callback");
    struct embedding_bridge bridge = {.callback = callback, .user = user};
    TRY(find_pooling(host, own.pooling, &bridge.pooling));
    struct dataset_builder builder = {.dataset = {.segmented = true}};
    struct dataset documents = {0};
    struct inference inference;
    void *mean = NULL;
    size_t dim = (size_t)pretrained->config->dim;
    hashattn_status status = read_documents(pretrained, paths, num_paths, &own, &builder);
    TRY_DONE(dataset_finish(host, &builder, status, &documents));
    if (documents.count == 0)
        goto done;
    TRY_DONE(memory_new(host, dim, sizeof(float), "a vector", &mean));
    const struct inference_input input = {documents.count, documents.offsets, documents.ids,
                                          checkpoint_has_segments(pretrained) ? documents.segments : NULL};
    bridge.input = &input;
    bridge.mean = mean;
    bridge.embedding = (hashattn_embedding){
        .struct_size = sizeof bridge.embedding,
        .num_documents = documents.count,
        .num_vectors = bridge.pooling == VECTORS_ALL ? documents.offsets[documents.count] : documents.count,
        .num_cut = documents.num_cut,
        .dim = dim};
    TRY_DONE(checkpoint_begin(pretrained, &input, own.seed, &inference));
    status = inference_rows(host, &inference, &input, tell_rows, &bridge);
done:
    memory_free(host, mean);
    dataset_free(host, &documents);
    return status;
}

/* ---- masked tokens ------------------------------------------------------------------------------------- */

/* The logarithm of the sum of exp. */
static double log_sum(const float *scores, size_t count)
{
    double most = (double)scores[0], sum = 0;
    for (size_t i = 1; i < count; i++)
        most = fmax(most, (double)scores[i]);
    for (size_t i = 0; i < count; i++)
        sum += exp((double)scores[i] - most);
    return most + log(sum);
}

/* Passes the `top` largest scores of one mask to the callback and sets them to minus infinity. */
static hashattn_status tell_guesses(struct host *host, const struct tokenizer *tokenizer, size_t mask,
                                    size_t top, float *scores, size_t count,
                                    hashattn_guess_callback *callback, void *user)
{
    double total = log_sum(scores, count);
    for (size_t rank = 0; rank < top && rank < count; rank++) {
        uint32_t best = 0;
        for (uint32_t id = 1; id < count; id++)
            best = scores[id] > scores[best] ? id : best;
        char *text = NULL;
        size_t size;
        if (tokenizer_token(tokenizer, best).bytes != NULL)
            TRY(tokenizer_decode(host, tokenizer, &best, 1, false, &text, &size));
        const hashattn_guess guess = {.struct_size = sizeof guess,
                                      .mask = mask,
                                      .rank = rank,
                                      .id = best,
                                      .token = text == NULL ? "" : text,
                                      .probability = exp((double)scores[best] - total)};
        int stop = callback(user, &guess);
        memory_free(host, text);
        scores[best] = -INFINITY;
        FAIL_IF(stop != 0, host, HASHATTN_INTERRUPTED, "stopped after guess %zu of %zu", rank + 1, top);
    }
    return HASHATTN_OK;
}

static hashattn_status encode_text(struct hashattn_pretrained *pretrained, struct encoder *encoder,
                                   const char *text, struct encoding *encoding)
{
    struct host *host = &pretrained->context->host;
    const struct encode_options options = {.special_tokens = true};
    size_t max_len = (size_t)pretrained->config->max_len;
    TRY(encoder_encode(encoder, (struct piece){text, strlen(text)}, &options, encoding));
    FAIL_IF(encoding->count > max_len, host, HASHATTN_INVALID,
            "the text has %zu tokens, the model has positions for %zu", encoding->count, max_len);
    return HASHATTN_OK;
}

/* The places of the masks; at least one. */
static hashattn_status find_masks(struct host *host, const struct tokenizer *tokenizer,
                                  const struct encoding *encoding, size_t *places, size_t *count)
{
    uint32_t mask;
    FAIL_IF(!tokenizer_role(tokenizer, TOKEN_MASK, &mask), host, HASHATTN_REFUSED,
            "the tokenizer has no mask");
    struct piece name = tokenizer_token(tokenizer, mask);
    *count = 0;
    for (size_t i = 0; i < encoding->count; i++)
        if (encoding->ids[i] == mask)
            places[(*count)++] = i;
    FAIL_IF(*count == 0, host, HASHATTN_INVALID, "the text has no %.*s to be filled", (int)name.size,
            name.bytes);
    return HASHATTN_OK;
}

hashattn_status hashattn_pretrained_fill_mask(hashattn_pretrained *pretrained, const char *text, size_t top,
                                              uint64_t seed, hashattn_guess_callback *callback, void *user)
{
    FLOATING_DEFAULT;
    if (pretrained == NULL)
        return HASHATTN_INVALID;
    struct host *host = &pretrained->context->host;
    FAIL_IF(text == NULL || callback == NULL, host, HASHATTN_INVALID, "%s is NULL",
            text == NULL ? "text" : "callback");
    size_t width = model_num_scores(pretrained->net), count;
    FAIL_IF(width == 0, host, HASHATTN_REFUSED, "the model has no output for masked tokens");
    struct encoder *encoder = NULL;
    struct encoding encoding;
    struct inference inference;
    const struct tokenizer *tokenizer;
    void *places = NULL, *scores = NULL;
    TRY(checkpoint_tokenizer(pretrained, &tokenizer));
    hashattn_status status;
    TRY_DONE(encoder_new(host, tokenizer, &encoder));
    TRY_DONE(encode_text(pretrained, encoder, text, &encoding));
    TRY_DONE(memory_new(host, size_sum(encoding.count, 1), sizeof(size_t), "the places of masks", &places));
    TRY_DONE(find_masks(host, tokenizer, &encoding, places, &count));
    TRY_DONE(memory_new(host, size_product(count, width), sizeof(float), "the scores of tokens", &scores));
    const size_t offsets[] = {0, encoding.count};
    const struct inference_input input = {1, offsets, encoding.ids,
                                          checkpoint_has_segments(pretrained) ? encoding.segments : NULL};
    TRY_DONE(checkpoint_begin(pretrained, &input, seed, &inference));
    TRY_DONE(inference_scores(host, &inference, &input, places, count, scores));
    for (size_t i = 0; i < count; i++)
        TRY_DONE(tell_guesses(host, tokenizer, i, top, (float *)scores + i * width, width, callback, user));
done:
    memory_free(host, scores);
    memory_free(host, places);
    encoder_free(encoder);
    return status;
}
