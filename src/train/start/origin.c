/* Opening a stored model, and what it determines about a new one.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/start/origin.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "io/json.h"
#include "models/sentences/sentence_settings.h"
#include "tasks/words.h"
#include "text/tokenizer.h"

/* ---- opening ------------------------------------------------------------------------------------------- */

/* Runs have the key "format", checkpoints "model_type". */
static hashattn_status is_run(struct host *host, const char *directory, bool *run)
{
    char path[FILE_PATH];
    struct json *root;
    TRY(file_join(host, directory, "config.json", path, sizeof path));
    FAIL_IF(!file_exists(path), host, HASHATTN_BAD_FILE,
            "%.300s has no config.json: it is neither a run nor a stored checkpoint", directory);
    TRY(json_read_file(host, path, &root));
    *run = json_find(root, "format") != NULL;
    json_free(root);
    return HASHATTN_OK;
}

static hashattn_status open_run(struct host *host, struct origin *origin)
{
    struct run_values values;
    TRY(run_config_load(host, origin->directory, &origin->run));
    TRY(run_values_find(host, origin->directory, &values));
    origin->last_step = values.last_step;
    return weight_files_open_one(host, values.path, &origin->files.weights);
}

static hashattn_status check_tensors(struct host *host, struct origin *origin)
{
    const struct model_config *config =
        origin->run.task != NULL ? &origin->run.model : &origin->files.config.model;
    hashattn_status status = model_new(host, config, &origin->model);
    if (status == HASHATTN_OK)
        status = pretrained_check(host, &origin->files, model_params(origin->model));
    if (status != HASHATTN_OK)
        host_prefix(host, origin->directory);
    return status == HASHATTN_INVALID || status == HASHATTN_REFUSED ? HASHATTN_BAD_FILE : status;
}

/* The encoder of a directory that has no config.json of its own, but modules.json. */
static hashattn_status find_encoder(struct host *host, char directory[PATH_MAX])
{
    char path[FILE_PATH];
    struct sentence_settings settings;
    TRY(file_join(host, directory, "config.json", path, sizeof path));
    if (file_exists(path))
        return HASHATTN_OK;
    TRY(sentence_settings_read(host, directory, &settings));
    snprintf(directory, PATH_MAX, "%s", settings.encoder);
    sentence_settings_free(&settings);
    return HASHATTN_OK;
}

hashattn_status origin_open(struct host *host, const char *directory, struct origin *origin)
{
    char absolute[PATH_MAX];
    bool run = false;
    hashattn_status status;
    memset(origin, 0, sizeof *origin);
    origin->last_step = -1;
    FAIL_IF(realpath(directory, absolute) == NULL, host, HASHATTN_BAD_FILE, "cannot open %.300s: %s",
            directory, strerror(errno));
    TRY(find_encoder(host, absolute));
    FAIL_IF(strlen(absolute) >= sizeof origin->directory, host, HASHATTN_INVALID,
            "the path of the stored model is %zu bytes long, at most %zu fit", strlen(absolute),
            sizeof origin->directory - 1);
    strcpy(origin->directory, absolute);
    TRY_DONE(is_run(host, absolute, &run));
    TRY_DONE(run ? open_run(host, origin) : pretrained_open(host, absolute, NULL, &origin->files));
    status = check_tensors(host, origin);
done:
    if (status != HASHATTN_OK)
        origin_close(host, origin);
    return status;
}

void origin_close(struct host *host, struct origin *origin)
{
    model_free(host, origin->model);
    pretrained_close(host, &origin->files);
    run_config_free(host, &origin->run);
    memset(origin, 0, sizeof *origin);
}

/* ---- architecture -------------------------------------------------------------------------------------- */

bool origin_fixes(const struct origin *origin, const struct option_row *row)
{
    /* The hidden layer of a classifier is meaningful only with its activation. */
    static const struct param hidden = {.name = "classifier.dense.weight"};
    return row->architecture &&
           (strcmp(row->name, "classifier") != 0 || pretrained_find(&origin->files, &hidden, NULL) != NULL);
}

void origin_architecture(const struct origin *origin, struct model_config *model)
{
    const struct model_config *stored = model_config_of(origin->model);
    for (const struct option_row *row = model_options; row->name != NULL; row++) {
        char text[OPTION_TEXT_SIZE];
        struct host unused;
        if (!row->architecture)
            continue;
        host_init(&unused);
        option_text(row, stored, text, sizeof text);
        hashattn_status status = option_set(&unused, model_options, "model", model, row->name, text);
        assert(status == HASHATTN_OK);
        (void)status;
    }
    model->causal |= stored->causal;
}

/* Copies the value of an option from the first stored mechanism that has it, the same mechanism first. A
   value that the new mechanism does not accept is left. */
static void copy_option(const struct head_plan *stored, const struct planned *used,
                        const struct option_row *row)
{
    const struct planned *from = NULL;
    struct host unused;
    char text[40];
    host_init(&unused);
    for (size_t i = stored->num_used; i-- > 0;) {
        const struct planned *candidate = &stored->used[i];
        bool same = from != NULL && from->mechanism == used->mechanism;
        if (!same && option_find(candidate->mechanism->options, row->name) != NULL)
            from = candidate;
    }
    if (from == NULL)
        return;
    option_text(option_find(from->mechanism->options, row->name), from->options, text, sizeof text);
    hashattn_status status =
        option_set(&unused, used->mechanism->options, "attention", used->options, row->name, text);
    (void)status;
}

hashattn_status origin_plan(struct host *host, const struct origin *origin, const char *mechanisms,
                            struct head_plan *plan)
{
    if (origin->run.task == NULL) { /* a file of type yoso has the hashes of both its mechanisms */
        struct pretrained_config config;
        TRY(pretrained_config_read(host, origin->directory, mechanisms, &config));
        *plan = config.model.plan;
        config.model.plan = (struct head_plan){.num_used = 0};
        pretrained_config_free(host, &config);
        return HASHATTN_OK;
    }
    const struct head_plan *stored = &origin->run.model.plan;
    if (mechanisms == NULL)
        return head_plan_copy(host, stored, plan);
    TRY(head_plan_new(host, mechanisms, plan));
    for (size_t i = 0; i < plan->num_used; i++)
        for (const struct option_row *row = plan->used[i].mechanism->options; row->name != NULL; row++)
            copy_option(stored, &plan->used[i], row);
    return HASHATTN_OK;
}

/* ---- the meaning of ids -------------------------------------------------------------------------------- */

enum { MEANING = 80 };

/* What a row of a sequence is, in words; equal words mean the same. */
static const char *meaning_of(const char *task, const struct task_facts *facts, char text[MEANING])
{
    if (facts->row_width > 0)
        snprintf(text, MEANING, "rows of %zu floats", facts->row_width);
    else if (facts->num_tokens > 0)
        snprintf(text, MEANING, "tokens of a tokenizer");
    else if (facts->num_words > 0)
        snprintf(text, MEANING, "words");
    else if (facts->bytes)
        snprintf(text, MEANING, "bytes");
    else
        snprintf(text, MEANING, "ids of the task %.40s", task);
    return text;
}

static hashattn_status check_meaning(struct host *host, const struct origin *origin, const struct task *task,
                                     const struct task_facts *facts)
{
    static const struct task_facts of_tokens = {.num_tokens = 1};
    const struct task *stored = origin->run.task;
    char theirs[MEANING], ours[MEANING];
    meaning_of(stored == NULL ? "" : stored->name, stored == NULL ? &of_tokens : &origin->run.facts, theirs);
    meaning_of(task->name, facts, ours);
    FAIL_IF(strcmp(theirs, ours) != 0, host, HASHATTN_INVALID,
            "the sequences of %s are %s, those of the model in %.200s %s: it cannot start from there",
            task->name, ours, origin->directory, theirs);
    return HASHATTN_OK;
}

/* The stored list of words in place of that of the training file. */
static hashattn_status take_words(struct host *host, const struct origin *origin, struct task_facts *facts)
{
    char path[FILE_PATH];
    struct words *words;
    size_t count = origin->run.facts.num_words;
    TRY(file_join(host, origin->directory, "vocab.txt", path, sizeof path));
    TRY(words_load(host, path, count, &words));
    words_free(host, facts->words);
    facts->words = words;
    facts->num_words = count;
    facts->vocab_size = count + 1;
    return HASHATTN_OK;
}

/* True if the length of documents is left to us, and the stored model has learned positions for so many. */
static bool has_length(const struct origin *origin, const struct task *task, const void *task_options)
{
    const struct option_row *row = option_find(task->options, "max_len");
    return row != NULL && row->minimum == 0 &&
           *(const int64_t *)((const char *)task_options + row->offset) == 0 &&
           model_config_of(origin->model)->positions == POSITIONS_LEARNED;
}

static hashattn_status fit_facts(struct host *host, const struct origin *origin, const struct task *task,
                                 const void *task_options, struct task_facts *facts)
{
    const struct model_config *stored = model_config_of(origin->model);
    size_t ids = (size_t)stored->vocab_size, segments = (size_t)stored->num_segments;
    size_t own = facts->vocab_size;
    TRY(check_meaning(host, origin, task, facts));
    if (has_length(origin, task, task_options))
        facts->max_len = size_min(facts->max_len, (size_t)stored->max_len);
    if (facts->num_words > 0)
        TRY(take_words(host, origin, facts));
    FAIL_IF(facts->vocab_size > ids, host, HASHATTN_INVALID, "%s needs %zu ids, the model in %.200s has %zu",
            task->name, facts->vocab_size, origin->directory, ids);
    FAIL_IF(facts->num_segments > segments, host, HASHATTN_INVALID,
            "%s needs %zu segments, the model in %.200s has %zu", task->name, facts->num_segments,
            origin->directory, segments);
    for (size_t i = 0; i < facts->num_objectives; i++) {
        struct task_objective *entry = &facts->objectives[i];
        const struct objective *objective = objective_find(entry->name);
        if (objective->place == TARGET_ROW && entry->first_output + entry->num_outputs == own)
            entry->num_outputs = ids - entry->first_output; /* it predicts any id of the vocabulary */
    }
    facts->vocab_size = ids;
    facts->num_segments = segments;
    return HASHATTN_OK;
}

hashattn_status origin_facts(struct host *host, const struct origin *origin, const struct task *task,
                             const void *task_options, const char *data, struct task_facts *facts)
{
    struct tokenizer *given = NULL;
    memset(facts, 0, sizeof *facts);
    if (origin->run.task == NULL || origin->run.facts.num_tokens > 0)
        TRY(tokenizer_load(host, origin->directory, &given));
    hashattn_status status = task->facts(host, task_options, data, given, facts);
    if (facts->tokenizer != given)
        tokenizer_free(host, given);
    if (status == HASHATTN_OK)
        status = fit_facts(host, origin, task, task_options, facts);
    if (status != HASHATTN_OK)
        task_facts_free(host, facts);
    return status;
}
