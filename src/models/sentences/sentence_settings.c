/* The type of a module is the last word of its class, because the library moves its classes between versions.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/sentences/sentence_settings.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "io/json.h"

/* ---- files --------------------------------------------------------------------------------------------- */

/* *root stays NULL if there is no such file. */
static hashattn_status read_file(struct host *host, const char *directory, const char *name,
                                 struct json **root)
{
    char path[FILE_PATH];
    *root = NULL;
    TRY(file_join(host, directory, name, path, sizeof path));
    return file_exists(path) ? json_read_file(host, path, root) : HASHATTN_OK;
}

/* *value stays as it is if the key is absent or null. */
static hashattn_status get_flag(struct host *host, const struct json *root, const char *key, bool *value)
{
    return json_is_absent(root, key) ? HASHATTN_OK : json_get_bool(host, root, key, value);
}

static hashattn_status get_length(struct host *host, const struct json *root, const char *key, size_t *length)
{
    double value;
    if (json_is_absent(root, key))
        return HASHATTN_OK;
    TRY(json_get_real(host, root, key, &value));
    FAIL_IF(!(value >= 1), host, HASHATTN_BAD_FILE, "%s is %g, 1 or more is needed", key, value);
    if (value < 1 << 30) /* more stands for no limit */
        *length = (size_t)value;
    return HASHATTN_OK;
}

/* ---- pooling ------------------------------------------------------------------------------------------- */

static const struct mode {
    const char *name, *flag; /* in files of version 6 and of earlier ones */
    int pooling;             /* enum sentence_pooling; -1: not computed */
} modes[] = {
    {"cls", "pooling_mode_cls_token", SENTENCE_FIRST},
    {"max", "pooling_mode_max_tokens", SENTENCE_MAX},
    {"mean", "pooling_mode_mean_tokens", SENTENCE_MEAN},
    {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", -1},
    {"weightedmean", "pooling_mode_weightedmean_tokens", -1},
    {"lasttoken", "pooling_mode_lasttoken", -1},
};
enum { MODES = sizeof modes / sizeof *modes };

static const struct mode unknown = {"", "", -1};

static const struct mode *find_mode(const char *name)
{
    for (size_t i = 0; i < MODES; i++)
        if (strcmp(name, modes[i].name) == 0)
            return &modes[i];
    return &unknown;
}

/* The modes of a file, joined by "+". */
struct used_modes {
    char text[120];
    size_t size, count;
    const struct mode *last;
};

static void add_mode(struct used_modes *used, const char *name, const struct mode *mode)
{
    size_t left = sizeof used->text - used->size;
    int length = snprintf(used->text + used->size, left, "%s%.60s", used->count > 0 ? "+" : "", name);
    used->size += size_min((size_t)length, left - 1);
    used->last = mode;
    used->count++;
}

/* Of pooling_mode, a name or a list of names, or else of the flags. */
static hashattn_status list_modes(struct host *host, const struct json *root, struct used_modes *used)
{
    const struct json *given = json_at(root, "pooling_mode");
    const char *name = json_text(given);
    *used = (struct used_modes){.last = find_mode("mean")}; /* of the library, if a file names none */
    if (name != NULL) {
        add_mode(used, name, find_mode(name));
    } else if (json_is_list(given)) {
        for (size_t i = 0; i < json_count(given); i++) {
            name = json_text(json_element(given, i));
            add_mode(used, name == NULL ? "?" : name, name == NULL ? &unknown : find_mode(name));
        }
        if (used->count == 0)
            add_mode(used, "[]", &unknown);
    } else {
        for (size_t i = 0; i < MODES; i++) {
            bool on = false;
            TRY(get_flag(host, root, modes[i].flag, &on));
            if (on)
                add_mode(used, modes[i].name, &modes[i]);
        }
    }
    return HASHATTN_OK;
}

static hashattn_status get_pooling(struct host *host, const struct json *root,
                                   struct sentence_settings *settings)
{
    const struct json *object;
    struct used_modes used;
    TRY(json_get_object(host, root, "", &object));
    TRY(get_flag(host, root, "include_prompt", &settings->pools_prompt));
    TRY(list_modes(host, root, &used));
    if (used.count > 1 || used.last->pooling < 0)
        snprintf(settings->refusal, SENTENCE_REFUSAL,
                 "the pooling is %s; one of mean, cls and max is computed (`pooling` chooses another)",
                 used.text);
    else
        settings->pooling = (enum sentence_pooling)used.last->pooling;
    return HASHATTN_OK;
}

/* Without a config.json the pooling is the library's default. */
static hashattn_status read_pooling(struct host *host, const char *folder, struct sentence_settings *settings)
{
    struct json *root;
    TRY(read_file(host, folder, "config.json", &root));
    if (root == NULL)
        return HASHATTN_OK;
    hashattn_status status = get_pooling(host, root, settings);
    json_free(root);
    if (status != HASHATTN_OK)
        host_prefix(host, folder);
    return status;
}

/* ---- modules ------------------------------------------------------------------------------------------- */

static const char *last_word(const char *type)
{
    const char *dot = strrchr(type, '.');
    return dot == NULL ? type : dot + 1;
}

/* What a list of modules must be: an encoder, a pooling, and perhaps unit length. */
static hashattn_status read_module(struct host *host, const char *directory, const struct json *module,
                                   size_t place, struct sentence_settings *settings)
{
    const char *type, *path = "";
    char folder[FILE_PATH];
    TRY(json_get_string(host, module, "type", &type));
    if (!json_is_absent(module, "path"))
        TRY(json_get_string(host, module, "path", &path));
    if (*path == '\0')
        snprintf(folder, sizeof folder, "%s", directory);
    else
        TRY(file_join_inside(host, directory, path, folder, sizeof folder));
    bool theirs = strncmp(type, "sentence_transformers.", 22) == 0;
    const char *kind = theirs ? last_word(type) : "";
    if (place == 0 && strcmp(kind, "Transformer") == 0)
        snprintf(settings->encoder, sizeof settings->encoder, "%s", folder);
    else if (place == 1 && strcmp(kind, "Pooling") == 0)
        return read_pooling(host, folder, settings);
    else if (place > 1 && strcmp(kind, "Normalize") == 0)
        settings->normalize = true;
    else if (settings->refusal[0] == '\0')
        snprintf(
            settings->refusal, SENTENCE_REFUSAL,
            "module %zu of modules.json is %.160s; Transformer, Pooling and Normalize are computed, in this "
            "order (`pooling` replaces what follows the Transformer)",
            place, theirs ? kind : type);
    return HASHATTN_OK;
}

static hashattn_status read_modules(struct host *host, const char *directory, const struct json *root,
                                    struct sentence_settings *settings)
{
    const struct json *array;
    TRY(json_get_array(host, root, "", &array));
    for (size_t i = 0; i < json_count(array); i++)
        TRY(read_module(host, directory, json_element(array, i), i, settings));
    if (json_count(array) < 2 && settings->refusal[0] == '\0')
        snprintf(settings->refusal, SENTENCE_REFUSAL, "modules.json has no Pooling (`pooling` chooses one)");
    return HASHATTN_OK;
}

/* ---- length and case ----------------------------------------------------------------------------------- */

/* The first file that is there, as in the library. */
static hashattn_status read_encoder(struct host *host, struct sentence_settings *settings)
{
    static const char *const names[] = {"sentence_bert_config.json",       "sentence_roberta_config.json",
                                        "sentence_distilbert_config.json", "sentence_camembert_config.json",
                                        "sentence_albert_config.json",     "sentence_xlm-roberta_config.json",
                                        "sentence_xlnet_config.json"};
    struct json *root = NULL;
    hashattn_status status;
    for (size_t i = 0; i < sizeof names / sizeof *names && root == NULL; i++)
        TRY(read_file(host, settings->encoder, names[i], &root));
    bool given = !json_is_absent(root, "max_seq_length");
    TRY_DONE(get_length(host, root, "max_seq_length", &settings->max_len));
    TRY_DONE(get_flag(host, root, "do_lower_case", &settings->lower));
    json_free(root);
    root = NULL;
    TRY_DONE(given ? HASHATTN_OK : read_file(host, settings->encoder, "tokenizer_config.json", &root));
    status = get_length(host, root, "model_max_length", &settings->max_len);
done:
    json_free(root);
    if (status != HASHATTN_OK)
        host_prefix(host, settings->encoder);
    return status;
}

/* ---- all ----------------------------------------------------------------------------------------------- */

hashattn_status sentence_settings_read(struct host *host, const char *directory,
                                       struct sentence_settings *settings)
{
    struct json *root = NULL;
    hashattn_status status;
    *settings = (struct sentence_settings){.pools_prompt = true};
    snprintf(settings->encoder, sizeof settings->encoder, "%s", directory);
    TRY_DONE(read_file(host, directory, "modules.json", &root));
    if (root == NULL)
        return HASHATTN_OK;
    settings->modules = true;
    status = read_modules(host, directory, root, settings);
    if (status != HASHATTN_OK) {
        host_prefix(host, directory);
        goto done;
    }
    TRY_DONE(read_encoder(host, settings));
    status = read_file(host, directory, "config_sentence_transformers.json", &settings->config);
done:
    json_free(root);
    if (status != HASHATTN_OK)
        sentence_settings_free(settings);
    return status;
}

void sentence_settings_free(struct sentence_settings *settings)
{
    json_free(settings->config);
    *settings = (struct sentence_settings){.config = NULL};
}

/* ---- prompts ------------------------------------------------------------------------------------------- */

static hashattn_status fail_prompt(struct host *host, const struct json *prompts, const char *name)
{
    char names[200] = "";
    size_t used = 0;
    for (struct json_member m = json_first(prompts); m.key != NULL && used < sizeof names; m = json_next(m))
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "", m.key);
    return host_fail(host, HASHATTN_INVALID, "no prompt '%.60s'; the prompts of the files are: %s", name,
                     used > 0 ? names : "none");
}

hashattn_status sentence_prompt(struct host *host, const struct sentence_settings *settings, const char *name,
                                const char **prompt)
{
    const struct json *prompts = json_at(settings->config, "prompts");
    *prompt = "";
    if (name == NULL)
        name = json_text(json_at(settings->config, "default_prompt_name"));
    if (name == NULL)
        return HASHATTN_OK;
    const char *text = json_text(json_at(prompts, name));
    if (text == NULL)
        return fail_prompt(host, prompts, name);
    *prompt = text;
    return HASHATTN_OK;
}
