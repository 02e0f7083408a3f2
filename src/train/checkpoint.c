/* Saves and loads in the order that the header promises. A save costs three fsyncs and writes three floats
   per parameter, every save_every steps.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/checkpoint.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "io/json.h"
#include "models/model_io.h"

#define STATE_FORMAT  "hashattn trainer"
#define STATE_VERSION 1

enum { NUM_FILES = 2 };

static const char state_name[] = "trainer.json";
static const char *const file_names[NUM_FILES] = {"last.safetensors", "optimizer.safetensors"};
static const char *const next_names[NUM_FILES] = {"last.safetensors.next", "optimizer.safetensors.next"};

/* ---- trainer.json ---- */

static hashattn_status put_fingerprint(struct host *host, struct json *root, const char *key,
                                       const struct fingerprint *fingerprint)
{
    struct json *object;
    char hash[17];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)fingerprint->hash);
    TRY(json_new_object(host, &object));
    TRY(json_put(host, root, key, object));
    TRY(json_put_int(host, object, "examples", (int64_t)fingerprint->examples));
    TRY(json_put_int(host, object, "tokens", (int64_t)fingerprint->tokens));
    return json_put_string(host, object, "hash", hash);
}

static hashattn_status put_state(struct host *host, struct json *root, const struct model *model,
                                 const struct train_state *state)
{
    struct json *running;
    char name[METRIC_NAME], key[METRIC_NAME + 5];
    TRY(json_put_string(host, root, "format", STATE_FORMAT));
    TRY(json_put_int(host, root, "version", STATE_VERSION));
    TRY(json_put_int(host, root, "step", state->step));
    TRY(json_put_int(host, root, "evaluated", state->evaluated));
    TRY(json_put_int(host, root, "best_step", state->best_step));
    for (size_t i = 0; i < model_num_metrics(model); i++) {
        snprintf(key, sizeof key, "best_%s", model_metric(model, i)->name);
        TRY(json_put_real(host, root, key, state->best[i]));
    }
    TRY(json_new_object(host, &running));
    TRY(json_put(host, root, "running", running));
    for (size_t i = 0; i < model_num_sums(model); i++) {
        model_sum_name(model, i, name);
        TRY(json_put_real(host, running, name, state->running[i]));
    }
    TRY(json_put_int(host, running, "tokens", (int64_t)state->running_tokens));
    TRY(json_put_real(host, running, "seconds", state->running_seconds));
    TRY(json_put_real(host, root, "seconds", state->seconds));
    TRY(put_fingerprint(host, root, "train", &state->train));
    TRY(put_fingerprint(host, root, "valid", &state->valid));
    TRY(json_put_string(host, root, "kernels", state->kernels));
    return json_put_string(host, root, "product", state->product);
}

static hashattn_status save_json(struct host *host, const char *run, const struct model *model,
                                 const struct train_state *state)
{
    char path[FILE_PATH];
    struct json *root;
    TRY(file_join(host, run, state_name, path, sizeof path));
    TRY(json_new_object(host, &root));
    hashattn_status status = put_state(host, root, model, state);
    if (status == HASHATTN_OK)
        status = json_write_file(host, path, root);
    json_free(root);
    return status;
}

static hashattn_status get_count(struct host *host, const struct json *root, const char *path,
                                 uint64_t *count)
{
    int64_t value;
    TRY(json_get_int(host, root, path, 0, INT64_MAX, &value));
    *count = (uint64_t)value;
    return HASHATTN_OK;
}

static hashattn_status get_fingerprint(struct host *host, const struct json *root, const char *where,
                                       struct fingerprint *fingerprint)
{
    const struct json *object;
    const char *text;
    TRY(json_get_object(host, root, where, &object));
    TRY(get_count(host, object, "examples", &fingerprint->examples));
    TRY(get_count(host, object, "tokens", &fingerprint->tokens));
    TRY(json_get_string(host, object, "hash", &text));
    FAIL_IF(strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16, host, HASHATTN_BAD_FILE,
            "%s.hash is '%.40s', sixteen hexadecimal digits are needed", where, text);
    fingerprint->hash = strtoull(text, NULL, 16);
    return HASHATTN_OK;
}

static hashattn_status get_word(struct host *host, const struct json *root, const char *key,
                                char word[CHECKPOINT_NAME])
{
    const char *text;
    TRY(json_get_string(host, root, key, &text));
    FAIL_IF(strlen(text) >= CHECKPOINT_NAME, host, HASHATTN_BAD_FILE, "%s is %zu bytes long, at most %d fit",
            key, strlen(text), CHECKPOINT_NAME - 1);
    memcpy(word, text, strlen(text) + 1);
    return HASHATTN_OK;
}

/* Reads a number of an object, or `absent`. Names may contain dots, which are not paths. */
static hashattn_status get_named(struct host *host, const struct json *object, const char *name,
                                 double absent, double *value)
{
    const struct json *found = json_at(object, name);
    *value = absent;
    if (found == NULL)
        return HASHATTN_OK;
    hashattn_status status = json_get_real(host, found, "", value);
    if (status != HASHATTN_OK)
        host_prefix(host, name);
    return status;
}

static hashattn_status get_metrics(struct host *host, const struct json *root, const struct model *model,
                                   struct train_state *state)
{
    char name[METRIC_NAME], key[METRIC_NAME + 5];
    const struct json *running;
    for (size_t i = 0; i < model_num_metrics(model); i++) {
        snprintf(key, sizeof key, "best_%s", model_metric(model, i)->name);
        TRY(get_named(host, root, key, NAN, &state->best[i]));
    }
    TRY(json_get_object(host, root, "running", &running));
    for (size_t i = 0; i < model_num_sums(model); i++) {
        model_sum_name(model, i, name);
        TRY(get_named(host, running, name, 0, &state->running[i]));
        FAIL_IF(!isfinite(state->running[i]), host, HASHATTN_BAD_FILE, "running.%s is not finite", name);
    }
    return HASHATTN_OK;
}

/* A limit of time compares differences of seconds, which a number without them, or one too large, would
   disable. */
static hashattn_status get_seconds(struct host *host, const struct json *root, const char *path,
                                   double *seconds)
{
    static const double most = 1e9; /* 31 years */
    TRY(json_get_real(host, root, path, seconds));
    FAIL_IF(!(*seconds >= 0 && *seconds <= most), host, HASHATTN_BAD_FILE, "%s is %g, allowed are 0 to %g",
            path, *seconds, most);
    return HASHATTN_OK;
}

static hashattn_status get_state(struct host *host, const struct json *root, const struct model *model,
                                 struct train_state *state)
{
    const char *format;
    int64_t version;
    TRY(json_get_string(host, root, "format", &format));
    FAIL_IF(strcmp(format, STATE_FORMAT) != 0, host, HASHATTN_BAD_FILE, "format is '%.60s', '%s' is read",
            format, STATE_FORMAT);
    TRY(json_get_int(host, root, "version", STATE_VERSION, STATE_VERSION, &version));
    TRY(json_get_int(host, root, "step", 0, INT64_MAX, &state->step));
    TRY(json_get_int(host, root, "evaluated", -1, state->step, &state->evaluated));
    TRY(json_get_int(host, root, "best_step", -1, state->step, &state->best_step));
    TRY(get_metrics(host, root, model, state));
    TRY(get_count(host, root, "running.tokens", &state->running_tokens));
    TRY(get_seconds(host, root, "running.seconds", &state->running_seconds));
    TRY(get_seconds(host, root, "seconds", &state->seconds));
    TRY(get_fingerprint(host, root, "train", &state->train));
    TRY(get_fingerprint(host, root, "valid", &state->valid));
    TRY(get_word(host, root, "kernels", state->kernels));
    return get_word(host, root, "product", state->product);
}

hashattn_status train_state_parse(struct host *host, const char *text, size_t size, const struct model *model,
                                  struct train_state *state)
{
    struct json *root;
    memset(state, 0, sizeof *state);
    TRY(json_parse(host, text, size, &root));
    hashattn_status status = get_state(host, root, model, state);
    json_free(root);
    return status;
}

static hashattn_status load_json(struct host *host, const char *run, const struct model *model,
                                 struct train_state *state)
{
    char path[FILE_PATH];
    struct json *root;
    memset(state, 0, sizeof *state);
    TRY(file_join(host, run, state_name, path, sizeof path));
    TRY(json_read_file(host, path, &root));
    hashattn_status status = get_state(host, root, model, state);
    json_free(root);
    if (status == HASHATTN_BAD_FILE)
        host_prefix(host, path);
    return status;
}

/* ---- the three together ---- */

/* Reads the word "step" of a file's metadata. */
static hashattn_status step_of(struct host *host, const char *path, int64_t *step)
{
    struct safetensors file;
    TRY(safetensors_read_header(host, path, &file));
    const char *text = safetensors_word(&file, "step");
    char *end = NULL;
    errno = 0;
    *step = text != NULL ? strtoll(text, &end, 10) : -1;
    bool good = text != NULL && end != text && *end == '\0' && errno == 0 && *step >= 0;
    if (!good)
        host_fail(host, HASHATTN_BAD_FILE,
                  "%.300s: the word 'step' of its metadata is %s%.40s, a number is needed", path,
                  text == NULL ? "missing" : "", text == NULL ? "" : text);
    safetensors_free(host, &file);
    return good ? HASHATTN_OK : HASHATTN_BAD_FILE;
}

/* Renames file number i from .next to its name. No flush is needed: if a power failure undoes the rename, the
   load finds the file as .next again. */
static hashattn_status take_place(struct host *host, const char *run, int i)
{
    char from[FILE_PATH], to[FILE_PATH];
    TRY(file_join(host, run, next_names[i], from, sizeof from));
    TRY(file_join(host, run, file_names[i], to, sizeof to));
    FAIL_IF(rename(from, to) != 0, host, HASHATTN_NO_DISK, "%.300s: cannot rename: %s", from,
            strerror(errno));
    return HASHATTN_OK;
}

/* After a .next could not be read: harmless if file number i is of that step, as then the .next is not. */
static hashattn_status check_named(struct host *host, const char *run, int i, int64_t step,
                                   hashattn_status status)
{
    char path[FILE_PATH], message[sizeof host->message];
    int64_t held;
    memcpy(message, host->message, sizeof message);
    TRY(file_join(host, run, file_names[i], path, sizeof path));
    if (step_of(host, path, &held) == HASHATTN_OK && held == step)
        return HASHATTN_OK;
    return host_fail(host, status, "%s", message);
}

/* Completes a save that was interrupted after its trainer.json was written; otherwise the next save would
   overwrite the only copy of a file. */
static hashattn_status settle(struct host *host, const char *run, const struct model *model)
{
    char path[FILE_PATH];
    for (int i = 0; i < NUM_FILES; i++) {
        struct train_state state;
        int64_t step;
        TRY(file_join(host, run, next_names[i], path, sizeof path));
        if (!file_exists(path))
            continue;
        TRY(load_json(host, run, model, &state));
        hashattn_status status = step_of(host, path, &step);
        if (status != HASHATTN_OK)
            TRY(check_named(host, run, i, state.step, status));
        else if (step == state.step)
            TRY(take_place(host, run, i));
    }
    return HASHATTN_OK;
}

/* File number i holds one block, or both moments. */
enum { MOST_BLOCKS = 2 };
static size_t blocks_of(int i, const struct train_blocks *blocks, struct model_block file_blocks[MOST_BLOCKS])
{
    file_blocks[0] =
        i == 0 ? (struct model_block){"", blocks->values, NULL} : (struct model_block){"m.", blocks->m, NULL};
    file_blocks[1] = (struct model_block){"v.", blocks->v, NULL};
    return i == 0 ? 1 : 2;
}

/* Writes file number i as .next. */
static hashattn_status save_next(struct host *host, const char *run, int i, const struct model *model,
                                 const struct train_blocks *blocks, int64_t step)
{
    char path[FILE_PATH], text[32];
    struct model_block file_blocks[MOST_BLOCKS];
    size_t count = blocks_of(i, blocks, file_blocks);
    snprintf(text, sizeof text, "%lld", (long long)step);
    const struct tensor_word words[] = {{"format", "pt"}, {"step", text}};
    TRY(file_join(host, run, next_names[i], path, sizeof path));
    return model_save(host, path, model_params(model), file_blocks, count, words, 2);
}

/* A full disk gets its space back: no trainer.json names these files. */
static void drop_next(struct host *host, const char *run)
{
    char path[FILE_PATH];
    for (int i = 0; i < NUM_FILES; i++)
        if (file_join(host, run, next_names[i], path, sizeof path) == HASHATTN_OK)
            file_remove(path);
}

hashattn_status checkpoint_save(struct host *host, const char *run, const struct model *model,
                                const struct train_blocks *blocks, const struct train_state *state)
{
    char path[FILE_PATH];
    TRY(file_join(host, run, state_name, path, sizeof path));
    if (file_exists(path))
        TRY(settle(host, run, model));
    for (int i = 0; i < NUM_FILES; i++) {
        hashattn_status status = save_next(host, run, i, model, blocks, state->step);
        if (status != HASHATTN_OK) {
            drop_next(host, run);
            return status;
        }
    }
    TRY(save_json(host, run, model, state));
    for (int i = 0; i < NUM_FILES; i++)
        TRY(take_place(host, run, i));
    return HASHATTN_OK;
}

/* A damaged state cannot be continued. If the run has parameters, the message says what they are good for. */
static hashattn_status fail_state(struct host *host, const char *run, hashattn_status status)
{
    char message[sizeof host->message];
    struct run_values found;
    memcpy(message, host->message, sizeof message);
    bool left = status == HASHATTN_BAD_FILE && run_values_find(host, run, &found) == HASHATTN_OK;
    return host_fail(host, status, "%s%s", message,
                     left ? "; a new run can start from the parameters of this one (`from`)" : "");
}

static hashattn_status load(struct host *host, const char *run, const struct model *model,
                            const struct train_blocks *blocks, struct train_state *state)
{
    TRY(load_json(host, run, model, state));
    TRY(settle(host, run, model));
    for (int i = 0; i < NUM_FILES; i++) {
        struct model_block file_blocks[MOST_BLOCKS];
        size_t count = blocks_of(i, blocks, file_blocks);
        char path[FILE_PATH];
        int64_t step;
        TRY(file_join(host, run, file_names[i], path, sizeof path));
        TRY(step_of(host, path, &step));
        FAIL_IF(step != state->step, host, HASHATTN_BAD_FILE, "%.300s is of step %lld, %s of step %lld", path,
                (long long)step, state_name, (long long)state->step);
        TRY(model_load(host, path, model_params(model), file_blocks, count));
    }
    return HASHATTN_OK;
}

hashattn_status checkpoint_load(struct host *host, const char *run, const struct model *model,
                                const struct train_blocks *blocks, struct train_state *state)
{
    hashattn_status status = load(host, run, model, blocks, state);
    return status == HASHATTN_OK ? status : fail_state(host, run, status);
}

/* The step of the state, from trainer.json alone. */
static hashattn_status saved_step(struct host *host, const char *run, int64_t *step)
{
    char path[FILE_PATH];
    struct json *root;
    TRY(file_join(host, run, state_name, path, sizeof path));
    TRY(json_read_file(host, path, &root));
    hashattn_status status = json_get_int(host, root, "step", 0, INT64_MAX, step);
    json_free(root);
    if (status != HASHATTN_OK)
        host_prefix(host, path);
    return status;
}

/* holds: whether the file has parameters of that step, or of any for -1, which it replaces. If it is damaged,
   the host has the reason. */
static hashattn_status check_step(struct host *host, const char *path, int64_t *step, bool *holds)
{
    int64_t held;
    host->message[0] = '\0';
    *holds = false;
    if (!file_exists(path))
        return HASHATTN_OK;
    hashattn_status status = step_of(host, path, &held);
    if (status != HASHATTN_OK)
        return status == HASHATTN_BAD_FILE ? HASHATTN_OK : status;
    *holds = *step < 0 || held == *step;
    if (*holds)
        *step = held;
    return HASHATTN_OK;
}

/* Without a readable trainer.json, last.safetensors is taken. A .next is not: a killed save may have left
   it. */
static hashattn_status find_last(struct host *host, const char *run, struct run_values *found)
{
    const char *const places[] = {file_names[0], next_names[0]};
    char reason[sizeof host->message] = "";
    hashattn_status status = saved_step(host, run, &found->last_step);
    if (status != HASHATTN_OK && status != HASHATTN_BAD_FILE)
        return status;
    if (status != HASHATTN_OK) {
        memcpy(reason, host->message, sizeof reason);
        found->last_step = -1;
    }
    for (int i = 0; i < (status == HASHATTN_OK ? 2 : 1); i++) {
        TRY(file_join(host, run, places[i], found->path, sizeof found->path));
        bool holds;
        TRY(check_step(host, found->path, &found->last_step, &holds));
        if (holds)
            return HASHATTN_OK;
        if (reason[0] == '\0')
            memcpy(reason, host->message, sizeof reason);
    }
    if (status != HASHATTN_OK)
        return host_fail(host, status, "%s", reason);
    return host_fail(
        host, HASHATTN_BAD_FILE,
        "%.300s has no model.safetensors, and no parameters of step %lld, the last that %s names%s%s", run,
        (long long)found->last_step, state_name, reason[0] == '\0' ? "" : ": ", reason);
}

hashattn_status run_values_find(struct host *host, const char *run, struct run_values *found)
{
    found->last_step = -1;
    TRY(file_join(host, run, "stopped.safetensors", found->path, sizeof found->path));
    if (file_exists(found->path))
        return HASHATTN_OK;
    TRY(file_join(host, run, "model.safetensors", found->path, sizeof found->path));
    if (file_exists(found->path))
        return HASHATTN_OK;
    return find_last(host, run, found);
}

static hashattn_status check(struct host *host, const char *run, const struct model *model)
{
    const struct train_blocks none = {NULL, NULL, NULL};
    struct train_state state;
    TRY(load_json(host, run, model, &state));
    TRY(settle(host, run, model));
    for (int i = 0; i < NUM_FILES; i++) {
        struct model_block file_blocks[MOST_BLOCKS];
        size_t count = blocks_of(i, &none, file_blocks);
        char path[FILE_PATH];
        TRY(file_join(host, run, file_names[i], path, sizeof path));
        TRY(model_check_file(host, path, model_params(model), file_blocks, count));
    }
    return HASHATTN_OK;
}

hashattn_status checkpoint_check(struct host *host, const char *run, const struct model *model)
{
    hashattn_status status = check(host, run, model);
    return status == HASHATTN_OK ? status : fail_state(host, run, status);
}
