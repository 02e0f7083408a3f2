/* Prompt, groups of texts, and their tokens in order.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/generate/grow_texts.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "models/generation/generation.h"
#include "models/model.h"
#include "tasks/running_text.h"
#include "train/generate/text_stream.h"

/* One call. */
struct work {
    const struct run_config *config;
    const struct grow_options *options;
    grow_callback *callback;
    void *user;
    struct inference inference;
    struct model *longer; /* a model for more positions than in training; or NULL */
    uint32_t *prompt;
    size_t prompt_tokens, prompt_unknown, max_tokens;
    struct candidate *candidates; /* (count) */
    struct generation *generation;
    struct text_stream streams[FEW_ROWS];
    double prompt_seconds, began; /* began: when the prompt had been read */
};

/* ---- before the first token --------------------------------------------------------------------------- */

hashattn_status grow_texts_check(struct host *host, const struct run_config *config,
                                 const struct grow_options *options)
{
    const struct choice_rules *rules = &options->rules;
    FAIL_IF(strcmp(config->task->name, "lm") != 0, host, HASHATTN_REFUSED,
            "a run of %s does not generate text: only lm predicts the next token", config->task->name);
    FAIL_IF(options->num_texts < 1, host, HASHATTN_INVALID, "the number of texts is 0, at least 1 is needed");
    FAIL_IF(!(rules->temperature >= 0) || isinf(rules->temperature), host, HASHATTN_INVALID,
            "`temperature` is %g, allowed are 0 and finite positive numbers", rules->temperature);
    FAIL_IF(!(rules->top_p > 0 && rules->top_p <= 1), host, HASHATTN_INVALID,
            "`top_p` is %g, allowed are numbers above 0 up to 1", rules->top_p);
    for (size_t i = 0; i < options->num_stops; i++)
        FAIL_IF(options->stops[i].size == 0, host, HASHATTN_INVALID, "stop text %zu is empty", i + 1);
    return HASHATTN_OK;
}

/* Without learned positions a model has the same parameters for any length. */
static hashattn_status make_longer(struct host *host, struct work *work, size_t context)
{
    struct model_config config = work->config->model;
    const struct model *trained = work->inference.model;
    config.max_len = (int64_t)context;
    TRY(model_new(host, &config, &work->longer));
    const struct params *longer = model_params(work->longer), *given = model_params(trained);
    FAIL_IF(longer->num_rows != given->num_rows || longer->total != given->total, host, HASHATTN_REFUSED,
            "a context of %zu tokens is needed; what the mechanism has learned is for %lld", context,
            (long long)work->config->model.max_len);
    work->inference.model = work->longer;
    return HASHATTN_OK;
}

/* The tokens of a text, and a model with positions for them. The last token is not read again. */
static hashattn_status fit_context(struct host *host, struct work *work)
{
    const struct model_config *config = &work->config->model;
    size_t most = (size_t)config->max_len, prompt = work->prompt_tokens;
    bool learned = config->positions == POSITIONS_LEARNED;
    work->max_tokens = work->options->max_tokens;
    if (work->max_tokens == 0)
        work->max_tokens = learned ? size_min(GROWN_TOKENS, most - size_min(prompt, most) + 1) : GROWN_TOKENS;
    size_t context = size_sum(prompt, work->max_tokens - 1);
    FAIL_IF(learned && context > most, host, HASHATTN_INVALID,
            "a prompt of %zu tokens and %zu more need %zu positions, the model has learned %zu", prompt,
            work->max_tokens, context, most);
    FAIL_IF(context > INT32_MAX, host, HASHATTN_INVALID, "a context of %zu tokens is too long", context);
    return context > most ? make_longer(host, work, context) : HASHATTN_OK;
}

static hashattn_status prepare(struct host *host, struct work *work, struct piece prompt)
{
    void *block;
    TRY(running_text_read(host, &work->config->facts, prompt, &work->prompt, &work->prompt_tokens,
                          &work->prompt_unknown));
    TRY(fit_context(host, work));
    TRY(generation_new(host, &work->inference, size_min(work->options->num_texts, FEW_ROWS),
                       work->prompt_tokens + work->max_tokens - 1, &work->generation));
    TRY(memory_new(host, generation_count(work->generation), sizeof *work->candidates, "candidates", &block));
    work->candidates = block;
    for (size_t s = 0; s < FEW_ROWS; s++) {
        work->streams[s].stops = work->options->stops;
        work->streams[s].num_stops = work->options->num_stops;
    }
    return HASHATTN_OK;
}

/* ---- tokens ------------------------------------------------------------------------------------------- */

/* Texts that grow together, number first and up. */
struct group {
    size_t first, count, left; /* left: not complete */
    uint32_t last[FEW_ROWS];   /* the newest token of each */
    bool done[FEW_ROWS];
};

static hashattn_status tell(struct host *host, const struct work *work, size_t text, size_t tokens, bool done,
                            const struct text_stream *stream)
{
    double seconds = clock_seconds() - work->began;
    const struct grown_token generated = {
        .text = text,
        .added = {stream->ready.size > 0 ? stream->ready.bytes : "", stream->ready.size},
        .tokens = tokens,
        .done = done,
        .stopped = stream->stopped,
        .tokens_per_second = seconds > 0 ? (double)tokens / seconds : 0,
        .prompt_tokens = work->prompt_tokens,
        .prompt_unknown = work->prompt_unknown,
        .prompt_seconds = work->prompt_seconds,
        .recomputes = generation_recomputes(work->generation),
    };
    FAIL_IF(work->callback(work->user, &generated), host, HASHATTN_INTERRUPTED,
            "stopped after %zu tokens of text %zu", tokens, text + 1);
    return HASHATTN_OK;
}

/* Token number `step` of a text. */
static hashattn_status take_token(struct host *host, struct work *work, struct group *group, size_t s,
                                  size_t step)
{
    size_t count = generation_count(work->generation), text = group->first + s;
    const float *scores = generation_scores(work->generation) + s * count;
    struct text_stream *stream = &work->streams[s];
    uint32_t before = group->last[s];
    for (size_t i = 0; i < count; i++)
        FAIL_IF(!isfinite(scores[i]), host, HASHATTN_FAILED,
                "the score of id %zu after %zu tokens is not finite", generation_first(work->generation) + i,
                work->prompt_tokens + step);
    size_t kept = choose_from(&work->options->rules, scores, count, work->candidates);
    uint64_t key = random_key(work->options->seed, RANDOM_TOKENS, text);
    uint32_t id = generation_first(work->generation) + choose_one(work->candidates, kept, key, step);
    group->last[s] = id;
    TRY(running_text_write(host, &work->config->facts, before, id, &stream->waiting));
    bool last = step + 1 == work->max_tokens;
    TRY(text_stream_go(host, stream, last));
    group->done[s] = last || stream->stopped;
    group->left -= group->done[s];
    return tell(host, work, text, step + 1, group->done[s], stream);
}

static hashattn_status grow(struct host *host, struct work *work, size_t first)
{
    struct group group = {.first = first, .count = size_min(work->options->num_texts - first, FEW_ROWS)};
    double start = clock_seconds();
    group.left = group.count;
    TRY(generation_read(host, work->generation, work->prompt, work->prompt_tokens));
    work->began = clock_seconds();
    work->prompt_seconds = work->began - start;
    for (size_t s = 0; s < FEW_ROWS; s++) {
        text_stream_clear(&work->streams[s]);
        group.last[s] = work->prompt[work->prompt_tokens - 1];
    }
    if (first == 0)
        TRY(tell(host, work, 0, 0, false, &work->streams[0]));
    for (size_t step = 0; group.left > 0; step++) {
        if (step > 0)
            TRY(generation_append(host, work->generation, group.last));
        for (size_t s = 0; s < group.count; s++)
            if (!group.done[s])
                TRY(take_token(host, work, &group, s, step));
    }
    return HASHATTN_OK;
}

static void free_work(struct host *host, struct work *work)
{
    for (size_t s = 0; s < FEW_ROWS; s++)
        text_stream_free(host, &work->streams[s]);
    memory_free(host, work->candidates);
    generation_free(host, work->generation);
    model_free(host, work->longer);
    memory_free(host, work->prompt);
}

hashattn_status grow_texts(struct host *host, const struct train_setup *setup,
                           const struct run_config *config, struct session *session, struct piece prompt,
                           const struct grow_options *options, grow_callback *callback, void *user)
{
    struct work work = {
        .config = config,
        .options = options,
        .callback = callback,
        .user = user,
        .inference = {.kernels = setup->kernels,
                      .pool = setup->pool,
                      .model = session->model,
                      .values = session->values,
                      .seed = options->seed,
                      .profile = setup->profile},
    };
    hashattn_status status = prepare(host, &work, prompt);
    for (size_t first = 0; first < options->num_texts && status == HASHATTN_OK; first += FEW_ROWS)
        status = grow(host, &work, first);
    free_work(host, &work);
    return status;
}
