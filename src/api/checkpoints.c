/* Stored checkpoints, and runs in their place. The weights are prepared at the first forward pass, so that
   options can be set before.
   SPDX-License-Identifier: Apache-2.0 */
#include "api/checkpoints.h"

#include <stdio.h>
#include <string.h>

#include "api/floating.h"
#include "api/setup.h"
#include "api/versions/versions.h"
#include "base/file.h"
#include "base/memory.h"
#include "models/pretrained_export.h"
#include "text/files/tokenizer_json.h"

/* Makes the model of the current options, if the files have its tensors. */
static hashattn_status renew_net(struct host *host, void *owner)
{
    struct hashattn_pretrained *pretrained = owner;
    struct model *net;
    TRY(model_new(host, pretrained->config, &net));
    hashattn_status status = pretrained_check(host, &pretrained->origin.files, model_params(net));
    if (status != HASHATTN_OK) {
        model_free(host, net);
        return status;
    }
    model_free(host, pretrained->net);
    memory_free(host, pretrained->packed);
    pretrained->net = net;
    pretrained->packed = NULL;
    return HASHATTN_OK;
}

/* Opens the files and replaces the mechanism by `attention`, unless it is NULL. */
static hashattn_status open_files(struct host *host, struct hashattn_pretrained *pretrained,
                                  const char *directory, const char *attention)
{
    struct origin *origin = &pretrained->origin;
    struct head_plan plan;
    TRY(sentence_settings_read(host, directory, &pretrained->sentences));
    TRY(origin_open(host, pretrained->sentences.encoder, origin));
    pretrained->config = origin->run.task != NULL ? &origin->run.model : &origin->files.config.model;
    FAIL_IF(pretrained->config->vocab_size == 0, host, HASHATTN_REFUSED,
            "%.300s: the sequences of this run are rows of floats, not ids", directory);
    TRY(origin_plan(host, origin, attention, &plan));
    head_plan_free(host, &pretrained->config->plan);
    pretrained->config->plan = plan;
    return HASHATTN_OK;
}

hashattn_status hashattn_pretrained_load(hashattn_context *context, const char *directory,
                                         const char *attention, hashattn_pretrained **out)
{
    FLOATING_DEFAULT;
    if (out != NULL)
        *out = NULL;
    if (context == NULL)
        return HASHATTN_INVALID; /* no context for a message */
    struct host *host = &context->host;
    FAIL_IF(out == NULL, host, HASHATTN_INVALID, "pretrained is NULL");
    FAIL_IF(directory == NULL, host, HASHATTN_INVALID, "directory is NULL");
    void *block;
    TRY(memory_new_zeroed(host, 1, sizeof **out, "checkpoint", &block));
    struct hashattn_pretrained *pretrained = block;
    pretrained->context = context;
    hashattn_status status;
    TRY_DONE(open_files(host, pretrained, directory, attention));
    if (pretrained->origin.run.task == NULL || context->precision_given)
        pretrained->config->precision = (int)context->precision;
    status = renew_net(host, pretrained);
    if (status == HASHATTN_BAD_FILE)
        host_prefix(host, directory);
    if (status == HASHATTN_OK)
        *out = pretrained;
done:
    if (status != HASHATTN_OK)
        hashattn_pretrained_free(pretrained);
    return status;
}

void hashattn_pretrained_free(hashattn_pretrained *pretrained)
{
    if (pretrained == NULL)
        return;
    struct host *host = &pretrained->context->host;
    sentence_settings_free(&pretrained->sentences);
    tokenizer_free(host, pretrained->tokenizer);
    memory_free(host, pretrained->packed);
    model_free(host, pretrained->net);
    if (pretrained->config != NULL)
        origin_close(host, &pretrained->origin);
    memory_free(host, pretrained);
}

hashattn_status hashattn_pretrained_set(hashattn_pretrained *pretrained, const char *name, const char *text)
{
    FLOATING_DEFAULT;
    if (pretrained == NULL)
        return HASHATTN_INVALID;
    struct host *host = &pretrained->context->host;
    FAIL_IF(name == NULL || text == NULL, host, HASHATTN_INVALID, "%s is NULL",
            name == NULL ? "the name of the option" : "the text of the option");
    return head_plan_change(host, &pretrained->config->plan, name, text, renew_net, pretrained);
}

static size_t count_labels(const struct hashattn_pretrained *pretrained)
{
    static const struct param last = {.name = "classifier.out_proj.weight"};
    const struct tensor *tensor = pretrained_find(&pretrained->origin.files, &last, NULL);
    return tensor == NULL ? 0 : tensor->shape[0];
}

void hashattn_pretrained_describe(const hashattn_pretrained *pretrained, hashattn_pretrained_info *info)
{
    const struct origin *origin = &pretrained->origin;
    const struct model_config *config = pretrained->config;
    const hashattn_pretrained_info own = {
        .type = origin->run.task != NULL ? origin->run.task->name
                                         : pretrained_names[origin->files.config.type].model_type,
        .mechanism = config->plan.text,
        .num_params = params_count(model_params(pretrained->net)),
        .layers = (size_t)config->layers,
        .dim = (size_t)config->dim,
        .vocab_size = (size_t)config->vocab_size,
        .num_segments = (size_t)config->num_segments,
        .max_len = (size_t)config->max_len,
        .num_scores = model_num_scores(pretrained->net),
        .num_labels = count_labels(pretrained),
        .seed = origin->run.task != NULL ? (uint64_t)origin->run.training.seed : 0,
    };
    version_give(info, &own, sizeof own);
}

/* Prepares the weights, once. */
static hashattn_status prepare(struct hashattn_pretrained *pretrained)
{
    struct hashattn_context *context = pretrained->context;
    const struct params *params = model_params(pretrained->net);
    void *packed;
    if (pretrained->packed != NULL)
        return HASHATTN_OK;
    TRY(memory_new(&context->host, pretrained_packed_floats(params), sizeof(float), "the weights", &packed));
    hashattn_status status =
        pretrained_pack(&context->host, &pretrained->origin.files, params, context->kernels, context->pool,
                        pretrained->seed, packed, &pretrained->values);
    if (status == HASHATTN_OK) {
        pretrained->packed = packed;
    } else {
        host_prefix(&context->host, pretrained->origin.directory);
        memory_free(&context->host, packed);
    }
    return status;
}

hashattn_status checkpoint_begin(struct hashattn_pretrained *pretrained, const struct inference_input *input,
                                 uint64_t seed, struct inference *inference)
{
    struct hashattn_context *context = pretrained->context;
    *inference = (struct inference){.kernels = context->kernels,
                                    .pool = context->pool,
                                    .model = pretrained->net,
                                    .seed = seed,
                                    .profile = context->profile};
    TRY(inference_check(&context->host, inference, input));
    TRY(prepare(pretrained));
    inference->values = pretrained->values;
    return HASHATTN_OK;
}

hashattn_status checkpoint_tokenizer(struct hashattn_pretrained *pretrained,
                                     const struct tokenizer **tokenizer)
{
    struct host *host = &pretrained->context->host;
    const struct origin *origin = &pretrained->origin;
    if (origin->run.task != NULL) {
        *tokenizer = origin->run.facts.tokenizer;
        const struct option_row *rows = origin->run.task->options;
        FAIL_IF(*tokenizer == NULL, host, HASHATTN_REFUSED,
                "%.300s: the ids of this run are no tokens of text%s", origin->directory,
                option_find(rows, "tokens") != NULL       ? "; a training with `tokens` bpe has them"
                : option_find(rows, "vocabulary") != NULL ? "; a training with `vocabulary` bpe has them"
                                                          : "");
        return HASHATTN_OK;
    }
    if (pretrained->tokenizer == NULL)
        TRY(tokenizer_load(host, origin->directory, &pretrained->tokenizer));
    *tokenizer = pretrained->tokenizer;
    return HASHATTN_OK;
}

bool checkpoint_has_segments(const struct hashattn_pretrained *pretrained)
{
    return pretrained->config->num_segments > 0;
}

/* Copies the caller's sequences. */
static hashattn_status take_sequences(struct host *host, const hashattn_sequences *sequences,
                                      struct inference_input *input)
{
    hashattn_sequences own = {.offsets = NULL};
    FAIL_IF(sequences == NULL, host, HASHATTN_INVALID, "sequences is NULL");
    TRY(version_take(host, &own, sizeof own, sequences, first_sizes.sequences, "sequences"));
    FAIL_IF(own.offsets == NULL || own.ids == NULL, host, HASHATTN_INVALID, "sequences: %s is NULL",
            own.offsets == NULL ? "offsets" : "ids");
    FAIL_IF(own.offsets[0] != 0, host, HASHATTN_INVALID, "sequences: offsets begin with %zu, 0 is needed",
            own.offsets[0]);
    *input = (struct inference_input){
        .num_sequences = own.num_sequences, .offsets = own.offsets, .ids = own.ids, .segments = own.segments};
    return HASHATTN_OK;
}

struct rows_target {
    const size_t *offsets;
    size_t dim;
    float *rows;
};

static bool copy_rows(void *user, size_t first, size_t n, const float *rows)
{
    const struct rows_target *target = user;
    size_t row = target->offsets[first], count = target->offsets[first + n] - row;
    memcpy(target->rows + row * target->dim, rows, count * target->dim * sizeof *rows);
    return false;
}

hashattn_status hashattn_pretrained_rows(hashattn_pretrained *pretrained, const hashattn_sequences *sequences,
                                         uint64_t seed, float *rows)
{
    FLOATING_DEFAULT;
    struct inference inference;
    struct inference_input input;
    if (pretrained == NULL)
        return HASHATTN_INVALID;
    struct host *host = &pretrained->context->host;
    FAIL_IF(rows == NULL, host, HASHATTN_INVALID, "rows is NULL");
    TRY(take_sequences(host, sequences, &input));
    TRY(checkpoint_begin(pretrained, &input, seed, &inference));
    struct rows_target target = {input.offsets, (size_t)pretrained->config->dim, rows};
    return inference_rows(host, &inference, &input, copy_rows, &target);
}

hashattn_status hashattn_pretrained_scores(hashattn_pretrained *pretrained,
                                           const hashattn_sequences *sequences, uint64_t seed,
                                           const size_t *places, size_t num_places, float *scores)
{
    FLOATING_DEFAULT;
    struct inference inference;
    struct inference_input input;
    if (pretrained == NULL)
        return HASHATTN_INVALID;
    struct host *host = &pretrained->context->host;
    FAIL_IF(places == NULL || scores == NULL, host, HASHATTN_INVALID, "%s is NULL",
            places == NULL ? "places" : "scores");
    FAIL_IF(model_num_scores(pretrained->net) == 0, host, HASHATTN_REFUSED,
            "the model has no output for masked tokens");
    TRY(take_sequences(host, sequences, &input));
    TRY(checkpoint_begin(pretrained, &input, seed, &inference));
    for (size_t i = 0; i < num_places; i++)
        FAIL_IF(places[i] >= input.offsets[input.num_sequences] || (i > 0 && places[i] < places[i - 1]), host,
                HASHATTN_INVALID, "place %zu is row %zu; places rise and are below %zu", i, places[i],
                input.offsets[input.num_sequences]);
    return inference_scores(host, &inference, &input, places, num_places, scores);
}

/* The id of the padding token; -1: there is none. */
static int64_t padding_of(const struct tokenizer *tokenizer)
{
    uint32_t id;
    return tokenizer != NULL && tokenizer_role(tokenizer, TOKEN_PAD, &id) ? (int64_t)id : -1;
}

static hashattn_status save_run(struct hashattn_pretrained *pretrained, const char *directory,
                                bool encoder_only)
{
    struct host *host = &pretrained->context->host;
    const struct task_facts *facts = &pretrained->origin.run.facts;
    const struct tokenizer *tokenizer;
    TRY(checkpoint_tokenizer(pretrained, &tokenizer));
    bool numbers = facts->num_columns == 1;
    const struct export_choice choice = {.encoder_only = encoder_only,
                                         .padding = padding_of(tokenizer),
                                         .seed = pretrained->seed,
                                         .labels = (const char *const *)facts->labels,
                                         .shift = numbers ? facts->columns[0].mean : 0,
                                         .scale = numbers ? facts->columns[0].deviation : 1};
    return pretrained_export(host, directory, &pretrained->origin.files, pretrained->net, &choice);
}

static hashattn_status save_checkpoint(struct hashattn_pretrained *pretrained, const char *directory)
{
    struct host *host = &pretrained->context->host;
    const struct pretrained *files = &pretrained->origin.files;
    const struct params *params = model_params(pretrained->net);
    void *values;
    TRY(memory_new(host, params->total, sizeof(float), "the parameters", &values));
    hashattn_status status = pretrained_load(host, files, params, pretrained->seed, values);
    if (status == HASHATTN_OK)
        status = pretrained_save(host, directory, files, pretrained->config, params, values);
    memory_free(host, values);
    return status;
}

static hashattn_status save_tokenizer(struct hashattn_pretrained *pretrained, const char *directory)
{
    struct host *host = &pretrained->context->host;
    const struct origin *origin = &pretrained->origin;
    const struct tokenizer *tokenizer;
    char path[FILE_PATH];
    bool is = true;
    if (origin->run.task == NULL)
        TRY(tokenizer_is_in(host, origin->directory, &is));
    if (!is)
        return HASHATTN_OK;
    TRY(checkpoint_tokenizer(pretrained, &tokenizer));
    bool segments = pretrained->config->num_segments > 1;
    if (segments && origin->run.task != NULL)
        tokenizer_separate_pair(origin->run.facts.tokenizer);
    TRY(file_join(host, directory, "tokenizer.json", path, sizeof path));
    TRY(tokenizer_write_json(host, path, tokenizer));
    TRY(file_join(host, directory, "tokenizer_config.json", path, sizeof path));
    return tokenizer_write_config(host, path, tokenizer, (size_t)pretrained->config->max_len, segments);
}

/* INVALID, with what to do, if a killed call may have left the directory. */
static hashattn_status check_new(struct host *host, const char *directory)
{
    char path[FILE_PATH];
    TRY(file_join(host, directory, "config.json", path, sizeof path));
    FAIL_IF(file_is_directory(directory) && !file_exists(path), host, HASHATTN_INVALID,
            "%.300s exists already and has no config.json: it is not a checkpoint, or one that was killed "
            "while it was "
            "written; remove it or choose another name",
            directory);
    return HASHATTN_OK;
}

static hashattn_status save(struct hashattn_pretrained *pretrained, const char *directory, bool encoder_only)
{
    static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.json",
                                        "tokenizer_config.json", NULL};
    struct host *host = &pretrained->context->host;
    FAIL_IF(directory == NULL, host, HASHATTN_INVALID, "directory is NULL");
    bool run = pretrained->origin.run.task != NULL;
    bool modules = pretrained->sentences.modules;
    FAIL_IF(encoder_only && !run && !modules, host, HASHATTN_REFUSED,
            "%.300s is a checkpoint; the encoder alone is written of runs", pretrained->origin.directory);
    FAIL_IF(modules && !encoder_only, host, HASHATTN_REFUSED,
            "%.300s: modules.json, pooling and prompts are not written, only the encoder with `encoder_only`",
            pretrained->origin.directory);
    TRY(check_new(host, directory));
    TRY(file_make_directory(host, directory, false));
    hashattn_status status = save_tokenizer(pretrained, directory);
    if (status == HASHATTN_OK) /* config.json is the last file */
        status = run ? save_run(pretrained, directory, encoder_only) : save_checkpoint(pretrained, directory);
    if (status == HASHATTN_BAD_FILE)
        host_prefix(host, pretrained->origin.directory);
    if (status != HASHATTN_OK)
        file_remove_directory(host, directory, files);
    return status;
}

hashattn_status hashattn_pretrained_save(hashattn_pretrained *pretrained, const char *directory)
{
    FLOATING_DEFAULT;
    return pretrained == NULL ? HASHATTN_INVALID : save(pretrained, directory, false);
}

hashattn_status hashattn_pretrained_save_encoder(hashattn_pretrained *pretrained, const char *directory)
{
    FLOATING_DEFAULT;
    return pretrained == NULL ? HASHATTN_INVALID : save(pretrained, directory, true);
}

/* Adds an option of the task that is in the way of an export to the message. */
static hashattn_status add_remark(struct host *host, hashattn_status status, const struct run_config *config,
                                  const char *name, const char *needed)
{
    char value[OPTION_TEXT_SIZE], remark[2 * OPTION_TEXT_SIZE];
    const struct option_row *row = option_find(config->task->options, name);
    if (row == NULL || status == HASHATTN_INVALID)
        return status;
    option_text(row, config->task_options, value, sizeof value);
    snprintf(remark, sizeof remark, "`%s` is %s (%s is needed)", name, value, needed);
    if (status == HASHATTN_OK)
        return host_fail(host, HASHATTN_REFUSED, "%s", remark);
    host_suffix(host, ", ");
    host_suffix(host, remark);
    return status;
}

hashattn_status hashattn_setup_check_export(const hashattn_setup *setup)
{
    FLOATING_DEFAULT;
    if (setup == NULL)
        return HASHATTN_INVALID;
    struct host *host = &setup->context->host;
    const struct run_config *config = &setup->config;
    bool read = config->facts.num_tokens > 0; /* as tokens; a text could be, and is now words or bytes */
    FAIL_IF(config->data[0] == '\0', host, HASHATTN_INVALID, "no data was read");
    FAIL_IF(!read && option_find(config->task->options, "tokens") == NULL, host, HASHATTN_INVALID,
            "the sequences of %s are no tokens of text", config->task->name);
    FAIL_IF(config->task->preset.causal, host, HASHATTN_INVALID, "%s predicts the next token",
            config->task->name);
    const struct export_choice choice = {.padding = padding_of(config->facts.tokenizer)};
    hashattn_status status = pretrained_export_check(host, &config->model, &choice);
    if (config->model.pairs)
        status = add_remark(host, status, config, "join", "true");
    return read ? status : add_remark(host, status, config, "tokens", "bpe");
}
