/* Guesses for masked tokens, from a checkpoint and its tokenizer.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "api/checkpoints.h"
#include "api/floating.h"
#include "base/memory.h"

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
