/* Text from trained language models.
   SPDX-License-Identifier: Apache-2.0 */
#include "hashattn/generate.h"

#include <string.h>

#include "api/floating.h"
#include "api/models.h"
#include "api/versions/versions.h"
#include "base/memory.h"
#include "train/generate/grow_texts.h"

void hashattn_generate_options_default_sized(hashattn_generate_options *options, size_t struct_size)
{
    const hashattn_generate_options own = {.temperature = 1, .top_p = 1, .num_texts = 1};
    version_fill_options(options, struct_size, &own, sizeof own);
}

/* Passes tokens to the public callback. */
struct bridge {
    hashattn_generate_callback *callback;
    void *user;
};

static bool tell(void *user, const struct grown_token *from)
{
    const struct bridge *bridge = user;
    const hashattn_generated generated = {.struct_size = sizeof generated,
                                          .text = from->text,
                                          .added = from->added.bytes,
                                          .size = from->added.size,
                                          .tokens = from->tokens,
                                          .done = from->done,
                                          .stopped = from->stopped,
                                          .tokens_per_second = from->tokens_per_second,
                                          .prompt_tokens = from->prompt_tokens,
                                          .prompt_unknown = from->prompt_unknown,
                                          .prompt_seconds = from->prompt_seconds,
                                          .recomputes = from->recomputes};
    return bridge->callback(bridge->user, &generated) != 0;
}

static hashattn_status list_stops(struct host *host, const hashattn_generate_options *options,
                                  struct piece **stops)
{
    void *block;
    FAIL_IF(options->num_stops > 0 && options->stops == NULL, host, HASHATTN_INVALID,
            "options.stops is NULL for %zu stop texts", options->num_stops);
    for (size_t i = 0; i < options->num_stops; i++)
        FAIL_IF(options->stops[i] == NULL, host, HASHATTN_INVALID, "stop text %zu is NULL", i + 1);
    TRY(memory_new(host, options->num_stops, sizeof **stops, "stop texts", &block));
    *stops = block;
    for (size_t i = 0; i < options->num_stops; i++)
        (*stops)[i] = (struct piece){options->stops[i], strlen(options->stops[i])};
    return HASHATTN_OK;
}

hashattn_status hashattn_model_generate(hashattn_model *model, const char *prompt, size_t size,
                                        const hashattn_generate_options *options,
                                        hashattn_generate_callback *callback, void *user)
{
    FLOATING_DEFAULT;
    if (model == NULL)
        return HASHATTN_INVALID;
    struct host *host = &model->context->host;
    hashattn_generate_options own;
    hashattn_generate_options_default(&own);
    TRY(version_take(host, &own, sizeof own, options, first_sizes.generate_options, "options"));
    FAIL_IF(callback == NULL || (prompt == NULL && size > 0), host, HASHATTN_INVALID, "%s is NULL",
            callback == NULL ? "callback" : "prompt");
    struct piece *stops = NULL;
    struct bridge bridge = {callback, user};
    const struct train_setup setup = model_setup(model);
    TRY(list_stops(host, &own, &stops));
    const struct grow_options wanted = {.num_texts = own.num_texts,
                                        .max_tokens = own.max_tokens,
                                        .rules = {own.temperature, own.top_k, own.top_p},
                                        .seed = own.seed,
                                        .stops = stops,
                                        .num_stops = own.num_stops};
    hashattn_status status = grow_texts_check(host, &model->config, &wanted);
    if (status == HASHATTN_OK)
        status = evaluate_open(host, &setup, model->net, model->values, &model->session);
    if (status == HASHATTN_OK)
        status = grow_texts(host, &setup, &model->config, &model->session,
                            (struct piece){prompt == NULL ? "" : prompt, size}, &wanted, tell, &bridge);
    memory_free(host, stops);
    return status;
}
