/* A table of the numbers, then what needs a rule. Keys that are absent have the defaults of the library's
   configuration classes.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/pretrained_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "io/json.h"
#include "nn/block.h"

/* ---- the numbers --------------------------------------------------------------------------------------- */

enum { MOST_POSITIONS = 1 << 28, HADAMARD_LEAST = 32 };

#define FIELD(name) offsetof(struct model_config, name)
static const struct number {
    const char *key, *of_distil;      /* of_distil NULL: files of DistilBERT have none, and 0 is meant */
    size_t offset;                    /* of the int64_t in the config */
    int64_t preset[PRETRAINED_TYPES]; /* in the order of enum pretrained_type */
    int64_t minimum, maximum;
} numbers[] = {
    {"vocab_size",
     "vocab_size",
     FIELD(vocab_size),
     {50265, 30522, 50265, 30522, 30522, 30522, 30522},
     2,
     MODEL_MOST_VOCAB},
    {"hidden_size", "dim", FIELD(dim), {768, 768, 768, 768, 768, 256, 768}, 1, 16384},
    {"num_hidden_layers", "n_layers", FIELD(layers), {12, 12, 12, 12, 12, 12, 6}, 1, 256},
    {"num_attention_heads", "n_heads", FIELD(heads), {12, 12, 12, 12, 12, 4, 12}, 1, 256},
    {"intermediate_size", "hidden_dim", FIELD(ffn), {3072, 3072, 3072, 3072, 3072, 1024, 3072}, 1, 65536},
    {"type_vocab_size", NULL, FIELD(num_segments), {1, 2, 2, 2, 2, 2, 0}, 1, 256},
};
enum { NUMBERS = sizeof numbers / sizeof *numbers, OF_DIM = 1, OF_HEADS = 3 };

static bool is_like(enum pretrained_type type, enum pretrained_type like)
{
    return pretrained_names[type].like == like;
}

/* The file's key of a number; NULL: it has none. */
static const char *key_of(const struct number *number, enum pretrained_type type)
{
    return is_like(type, PRETRAINED_DISTILBERT) ? number->of_distil : number->key;
}

static const char *dropout_key(enum pretrained_type type)
{
    return is_like(type, PRETRAINED_DISTILBERT) ? "dropout" : "hidden_dropout_prob";
}

static const char *activation_key(enum pretrained_type type)
{
    return is_like(type, PRETRAINED_DISTILBERT) ? "activation" : "hidden_act";
}

/* The activation of a classifier's hidden layer. */
static enum head_kind head_of(enum pretrained_type type)
{
    return type == PRETRAINED_YOSO || type == PRETRAINED_ELECTRA ? HEAD_GELU : HEAD_TANH;
}

/* True if the key is absent or null: the default applies. */
static bool is_default(const struct json *root, const char *key)
{
    const struct json *value = json_at(root, key);
    struct host unused;
    double number;
    host_init(&unused);
    return value == NULL || (json_get_real(&unused, root, key, &number) == HASHATTN_OK && isnan(number));
}

static hashattn_status get_int(struct host *host, const struct json *root, const char *key, int64_t preset,
                               int64_t minimum, int64_t maximum, int64_t *value)
{
    *value = preset;
    return is_default(root, key) ? HASHATTN_OK : json_get_int(host, root, key, minimum, maximum, value);
}

static hashattn_status get_real(struct host *host, const struct json *root, const char *key, double preset,
                                double minimum, double maximum, double *value)
{
    *value = preset;
    if (is_default(root, key))
        return HASHATTN_OK;
    TRY(json_get_real(host, root, key, value));
    FAIL_IF(!(*value >= minimum && *value <= maximum), host, HASHATTN_BAD_FILE,
            "'%s' is %g, allowed are %g to %g", key, *value, minimum, maximum);
    return HASHATTN_OK;
}

static hashattn_status get_bool(struct host *host, const struct json *root, const char *key, bool preset,
                                bool *value)
{
    *value = preset;
    return is_default(root, key) ? HASHATTN_OK : json_get_bool(host, root, key, value);
}

/* ---- what is supported --------------------------------------------------------------------------------- */

/* Why encoders that people have are not read. */
static const struct {
    const char *type, *reason;
} unread[] = {
    {"albert", "its layers share their weights"},
    {"big_bird", "its attention is sparse"},
    {"deberta", "its attention reads relative positions"},
    {"deberta-v2", "its attention reads relative positions"},
    {"longformer", "its attention is of windows and global tokens"},
    {"modernbert", "it rotates queries and keys by their positions, and its layers are gated"},
    {"mpnet", "its attention adds biases for relative positions"},
    {"nomic_bert", "it rotates queries and keys by their positions, and its layers are gated"},
    {"xlnet", "its attention reads relative positions"},
};

static hashattn_status fail_type(struct host *host, const char *name)
{
    const char *reason = "";
    char types[120] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof unread / sizeof *unread; i++)
        if (strcmp(unread[i].type, name) == 0)
            reason = unread[i].reason;
    for (size_t i = 0; i < PRETRAINED_TYPES; i++)
        used += (size_t)snprintf(types + used, sizeof types - used, "%s%s",
                                 i == 0                      ? ""
                                 : i == PRETRAINED_TYPES - 1 ? " and "
                                                             : ", ",
                                 pretrained_names[i].model_type);
    return host_fail(host, HASHATTN_BAD_FILE, "model_type is '%.60s'%s%s; models of type %s are read", name,
                     *reason != '\0' ? ": " : "", reason, types);
}

static hashattn_status get_type(struct host *host, const struct json *root, enum pretrained_type *type)
{
    const char *name;
    TRY(json_get_string(host, root, "model_type", &name));
    for (*type = 0; *type < PRETRAINED_TYPES; ++*type)
        if (strcmp(pretrained_names[*type].model_type, name) == 0)
            return HASHATTN_OK;
    return fail_type(host, name);
}

/* The key is absent or has this word. */
static hashattn_status need_word(struct host *host, const struct json *root, const char *key,
                                 const char *word)
{
    const char *text;
    if (is_default(root, key))
        return HASHATTN_OK;
    TRY(json_get_string(host, root, key, &text));
    FAIL_IF(strcmp(text, word) != 0, host, HASHATTN_BAD_FILE, "%s is '%.60s', only '%s' is computed", key,
            text, word);
    return HASHATTN_OK;
}

static hashattn_status need_false(struct host *host, const struct json *root, const char *key)
{
    bool value;
    TRY(get_bool(host, root, key, false, &value));
    FAIL_IF(value, host, HASHATTN_BAD_FILE, "%s is true: a decoder, and encoders are read", key);
    return HASHATTN_OK;
}

static hashattn_status check_supported(struct host *host, const struct json *root)
{
    TRY(need_word(host, root, "position_embedding_type", "absolute"));
    TRY(need_false(host, root, "is_decoder"));
    TRY(need_false(host, root, "add_cross_attention"));
    FAIL_IF(!is_default(root, "quantization_config"), host, HASHATTN_BAD_FILE,
            "quantization_config: the weights are quantized, and floats are read");
    return HASHATTN_OK;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

/* The table of positions has unused rows at its start: of RoBERTa up to the padding's id, of YOSO always two.
   RoBERTa counts them in max_position_embeddings, YOSO does not. */
static hashattn_status get_positions(struct host *host, const struct json *root, enum pretrained_type type,
                                     struct model_config *model)
{
    bool yoso = type == PRETRAINED_YOSO;
    int64_t most, padding, unused = yoso ? PRETRAINED_YOSO_OFFSET : 0, counted = 0;
    TRY(get_int(host, root, "max_position_embeddings", yoso ? 4096 : 512, 1, MOST_POSITIONS, &most));
    if (is_like(type, PRETRAINED_ROBERTA)) {
        TRY(get_int(host, root, "pad_token_id", 1, 0, 1023, &padding));
        unused = counted = padding + 1;
    }
    FAIL_IF(most <= counted, host, HASHATTN_BAD_FILE,
            "max_position_embeddings is %lld, of which the first %lld are never used", (long long)most,
            (long long)counted);
    model->position_offset = unused;
    model->max_len = most - counted;
    return HASHATTN_OK;
}

/* gelu_python is an older name of the exact form. A classifier of YOSO has the model's activation, and our
   hidden layer with ReLU is wider than its. */
static hashattn_status get_activation(struct host *host, const struct json *root, enum pretrained_type type,
                                      int *activation)
{
    const char *text = "gelu", *key = activation_key(type);
    if (!is_default(root, key))
        TRY(json_get_string(host, root, key, &text));
    bool relu = type != PRETRAINED_YOSO && strcmp(text, "relu") == 0;
    FAIL_IF(!relu && strcmp(text, "gelu") != 0 && strcmp(text, "gelu_python") != 0, host, HASHATTN_BAD_FILE,
            "%s is '%.60s', gelu (gelu_python)%s computed", key, text,
            type == PRETRAINED_YOSO ? " is" : " and relu are");
    *activation = relu ? FFN_RELU : FFN_GELU;
    return HASHATTN_OK;
}

static hashattn_status get_model(struct host *host, const struct json *root, enum pretrained_type type,
                                 struct model_config *model)
{
    options_preset(model_options, model);
    for (size_t i = 0; i < NUMBERS; i++) {
        const struct number *n = &numbers[i];
        int64_t *value = (int64_t *)((char *)model + n->offset);
        if (key_of(n, type) == NULL)
            *value = 0;
        else
            TRY(get_int(host, root, key_of(n, type), n->preset[type], n->minimum, n->maximum, value));
    }
    FAIL_IF(model->dim % model->heads != 0, host, HASHATTN_BAD_FILE,
            "%s is %lld, which is not a multiple of %s, %lld", key_of(&numbers[OF_DIM], type),
            (long long)model->dim, key_of(&numbers[OF_HEADS], type), (long long)model->heads);
    int64_t embedded, usual = type == PRETRAINED_ELECTRA ? 128 : model->dim;
    TRY(get_int(host, root, "embedding_size", usual, 1, 1 << 24, &embedded));
    FAIL_IF(embedded != model->dim, host, HASHATTN_BAD_FILE,
            "embedding_size is %lld and hidden_size %lld, which must be equal", (long long)embedded,
            (long long)model->dim);
    TRY(get_positions(host, root, type, model));
    TRY(get_activation(host, root, type, &model->activation));
    model->norm_epsilon = 1e-12;
    if (!is_like(type, PRETRAINED_DISTILBERT)) /* its files have none */
        TRY(get_real(host, root, "layer_norm_eps", 1e-12, 1e-12, 0.1, &model->norm_epsilon));
    TRY(get_real(host, root, dropout_key(type), 0.1, 0, 0.9, &model->dropout));
    if (type == PRETRAINED_YOSO)
        TRY(get_int(host, root, "conv_window", 0, 0, 1023, &model->conv_window));
    FAIL_IF(model->conv_window != 0 && model->conv_window % 2 == 0, host, HASHATTN_BAD_FILE,
            "conv_window is %lld, odd numbers are allowed", (long long)model->conv_window);
    model->norm = BLOCK_POST_NORM;
    model->positions = POSITIONS_LEARNED;
    model->pooling = POOL_FIRST;
    model->classifier = head_of(type);
    model->scale_words = 0;
    return HASHATTN_OK;
}

/* Sets an option of the mechanisms that have it from a number of the file, whatever its key is there. */
static hashattn_status set_option(struct host *host, struct head_plan *plan, const char *key,
                                  const char *name, const char *text)
{
    if (!head_plan_has(plan, name))
        return HASHATTN_OK;
    hashattn_status status = head_plan_set(host, plan, name, text);
    if (status == HASHATTN_INVALID) {
        host_prefix(host, key);
        return HASHATTN_BAD_FILE;
    }
    return status;
}

/* The hashes of YOSO's files, and the mechanism: the expectation, or sampled with Gaussian planes or Hadamard
   planes as in the paper's code. That code pads heads narrower than 32 with zeros, which hashes with bias;
   here they get Gaussian planes. The library's gradient is the lower bound, the default of both. */
static hashattn_status get_attention(struct host *host, const struct json *root, enum pretrained_type type,
                                     int64_t head_dim, const char *attention, struct head_plan *plan)
{
    bool expectation = true, fast = true;
    int64_t bits = 9, hashes = 64;
    char text[24];
    if (type != PRETRAINED_YOSO)
        return head_plan_new(host, attention == NULL ? "softmax" : attention, plan);
    TRY(get_bool(host, root, "use_expectation", true, &expectation));
    TRY(get_bool(host, root, "use_fast_hash", true, &fast));
    TRY(get_int(host, root, "hash_code_len", 9, 1, 24, &bits));
    TRY(get_int(host, root, "num_hash", 64, 1, 4096, &hashes));
    TRY(head_plan_new(host, attention != NULL ? attention : expectation ? "yoso-e" : "yoso", plan));
    snprintf(text, sizeof text, "%lld", (long long)bits);
    TRY(set_option(host, plan, "hash_code_len", "hash_bits", text));
    snprintf(text, sizeof text, "%lld", (long long)hashes);
    TRY(set_option(host, plan, "num_hash", "num_hashes", text));
    return set_option(host, plan, "use_fast_hash", "planes",
                      fast && head_dim >= HADAMARD_LEAST ? "hadamard-paper" : "gaussian");
}

static hashattn_status get_config(struct host *host, const struct json *root, const char *attention,
                                  struct pretrained_config *config)
{
    const struct json *object;
    TRY(json_get_object(host, root, "", &object));
    TRY(get_type(host, root, &config->type));
    TRY(check_supported(host, root));
    TRY(get_model(host, root, config->type, &config->model));
    TRY(get_attention(host, root, config->type, config->model.dim / config->model.heads, attention,
                      &config->model.plan));
    return model_config_check(host, &config->model);
}

void pretrained_config_free(struct host *host, struct pretrained_config *config)
{
    head_plan_free(host, &config->model.plan);
    json_free(config->json);
    memset(config, 0, sizeof *config);
}

static hashattn_status finish(struct host *host, const char *attention, struct pretrained_config *config)
{
    hashattn_status status = get_config(host, config->json, attention, config);
    if (status != HASHATTN_OK)
        pretrained_config_free(host, config);
    return status;
}

hashattn_status pretrained_config_parse(struct host *host, const char *text, size_t size,
                                        const char *attention, struct pretrained_config *config)
{
    memset(config, 0, sizeof *config);
    TRY(json_parse(host, text, size, &config->json));
    return finish(host, attention, config);
}

hashattn_status pretrained_config_read(struct host *host, const char *directory, const char *attention,
                                       struct pretrained_config *config)
{
    char path[FILE_PATH];
    memset(config, 0, sizeof *config);
    TRY(file_join(host, directory, "config.json", path, sizeof path));
    TRY(json_read_file(host, path, &config->json));
    hashattn_status status = finish(host, attention, config);
    if (status == HASHATTN_BAD_FILE) /* not for a wrong `attention` */
        host_prefix(host, path);
    return status;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

/* Settings of a model that a file has no place for, as "norm is pre (post is needed)". */
struct obstacles {
    char text[400];
    size_t used;
};

static void add_obstacle(struct obstacles *list, const char *name, const char *value, const char *needed)
{
    char *end = list->text + list->used;
    size_t left = sizeof list->text - list->used;
    int length =
        snprintf(end, left, "%s%s is %.60s (%s is needed)", list->used > 0 ? ", " : "", name, value, needed);
    list->used += size_min((size_t)length, left - 1);
}

static void need_option(struct obstacles *list, const struct option_row *rows, const void *values,
                        const char *name, const char *needed)
{
    char text[OPTION_TEXT_SIZE], shown[OPTION_TEXT_SIZE];
    const struct option_row *row = option_find(rows, name);
    if (row == NULL)
        return;
    option_text(row, values, text, sizeof text);
    snprintf(shown, sizeof shown, "`%s`", name);
    if (strcmp(text, needed) != 0)
        add_obstacle(list, shown, text, needed);
}

static bool has_masked_output(const struct model_config *model)
{
    bool masked = false;
    for (size_t i = 0; i < model->num_objectives; i++)
        masked |= strcmp(model->objectives[i].objective->name, "masked_tokens") == 0;
    return masked;
}

const char *pretrained_problem(const struct model_config *model)
{
    static const struct {
        const char *objective, *problem;
    } problems[] = {{"classify", "single_label_classification"},
                    {"label_set", "multi_label_classification"},
                    {"regress", "regression"}};
    for (size_t i = 0; model->num_objectives == 1 && i < sizeof problems / sizeof *problems; i++)
        if (strcmp(model->objectives[0].objective->name, problems[i].objective) == 0)
            return problems[i].problem;
    return NULL;
}

hashattn_status pretrained_config_check(struct host *host, enum pretrained_type type,
                                        const struct model_config *model)
{
    const struct head_plan *plan = &model->plan;
    const struct planned *used = &plan->used[0];
    bool known =
        plan->num_used == 1 && (type == PRETRAINED_YOSO ? strcmp(used->mechanism->name, "yoso") == 0 ||
                                                              strcmp(used->mechanism->name, "yoso-e") == 0
                                                        : strcmp(used->mechanism->name, "softmax") == 0);
    struct obstacles list = {.used = 0};
    if (!known) {
        add_obstacle(&list, "`attention`", plan->text,
                     type == PRETRAINED_YOSO ? "yoso or yoso-e" : "softmax");
    } else {
        need_option(&list, used->mechanism->options, used->options, "normalize", "l2");
        need_option(&list, used->mechanism->options, used->options, "map", "l2");
    }
    need_option(&list, model_options, model, "norm", "post");
    need_option(&list, model_options, model, "positions", "learned");
    need_option(&list, model_options, model, "causal", "false");
    if (model->cutoffs[0] != '\0')
        add_obstacle(&list, "`cutoffs`", model->cutoffs, "none");
    need_option(&list, model_options, model, "attention_biases", "true");
    if (type == PRETRAINED_YOSO || (has_masked_output(model) && pretrained_names[type].transform_follows))
        need_option(&list, model_options, model, "activation", "gelu");
    if (has_masked_output(model))
        need_option(&list, model_options, model, "scale_words", "false");
    if (pretrained_problem(model) != NULL) {
        need_option(&list, model_options, model, "pooling", "first");
        need_option(&list, model_options, model, "classifier", head_names[head_of(type)]);
        if (model->pairs)
            add_obstacle(&list, "an example", "two sequences", "one");
    }
    if (type != PRETRAINED_YOSO)
        need_option(&list, model_options, model, "conv_window", "0");
    if (!is_like(type, PRETRAINED_ROBERTA))
        need_option(&list, model_options, model, "position_offset", type == PRETRAINED_YOSO ? "2" : "0");
    FAIL_IF(list.used > 0, host, HASHATTN_REFUSED, "a file of type %s cannot describe the model: %s",
            pretrained_names[type].model_type, list.text);
    bool segments = !is_like(type, PRETRAINED_DISTILBERT);
    FAIL_IF(model->vocab_size == 0 || (model->num_segments > 0) != segments, host, HASHATTN_REFUSED,
            "a file of type %s cannot describe the model: it has %s", pretrained_names[type].model_type,
            segments ? "no words or no segments" : "no words, or segments");
    return HASHATTN_OK;
}

static hashattn_status put_attention(struct host *host, struct json *json, const struct head_plan *plan)
{
    const struct mechanism *mechanism = plan->used[0].mechanism;
    const void *options = plan->used[0].options;
    const struct option_row *row;
    char text[40];
    bool sampled = strcmp(mechanism->name, "yoso") == 0;
    TRY(json_put_bool(host, json, "use_expectation", !sampled));
    row = option_find(mechanism->options, "hash_bits");
    TRY(json_put_int(host, json, "hash_code_len", *(const int64_t *)((const char *)options + row->offset)));
    if (!sampled)
        return HASHATTN_OK;
    row = option_find(mechanism->options, "num_hashes");
    TRY(json_put_int(host, json, "num_hash", *(const int64_t *)((const char *)options + row->offset)));
    option_text(option_find(mechanism->options, "planes"), options, text, sizeof text);
    return json_put_bool(host, json, "use_fast_hash", strcmp(text, "hadamard-paper") == 0);
}

static hashattn_status put_class(struct host *host, struct json *json, const struct pretrained_names *names,
                                 const struct model_config *model)
{
    const char *problem = pretrained_problem(model);
    struct json *array;
    TRY(json_new_array(host, &array));
    TRY(json_put(host, json, "architectures", array));
    if (problem != NULL)
        TRY(json_put_string(host, json, "problem_type", problem));
    return json_put_string(host, array, NULL,
                           has_masked_output(model) ? names->masked_class
                           : problem != NULL        ? names->classes_class
                                                    : names->bare_class);
}

static hashattn_status put_config(struct host *host, struct json *json, enum pretrained_type type,
                                  const struct model_config *model)
{
    TRY(json_put_string(host, json, "model_type", pretrained_names[type].model_type));
    if (json_at(json, "architectures") == NULL)
        TRY(put_class(host, json, &pretrained_names[type], model));
    for (size_t i = 0; i < NUMBERS; i++)
        if (key_of(&numbers[i], type) != NULL)
            TRY(json_put_int(host, json, key_of(&numbers[i], type),
                             *(const int64_t *)((const char *)model + numbers[i].offset)));
    bool roberta = is_like(type, PRETRAINED_ROBERTA);
    TRY(json_put_int(host, json, "max_position_embeddings",
                     model->max_len + (roberta ? model->position_offset : 0)));
    if (roberta)
        TRY(json_put_int(host, json, "pad_token_id", model->position_offset - 1));
    if (!is_like(type, PRETRAINED_DISTILBERT))
        TRY(json_put_real(host, json, "layer_norm_eps", model->norm_epsilon));
    TRY(json_put_real(host, json, dropout_key(type), model->dropout));
    TRY(json_put_string(host, json, activation_key(type), ffn_activations[model->activation]));
    TRY(json_put_string(host, json, "dtype", "float32"));
    /* The output's table is written once, as that of the words. */
    if (has_masked_output(model) && json_at(json, "tie_word_embeddings") != NULL)
        TRY(json_put_bool(host, json, "tie_word_embeddings", true));
    if (type != PRETRAINED_YOSO)
        return HASHATTN_OK;
    if (model->conv_window > 0)
        TRY(json_put_int(host, json, "conv_window", model->conv_window));
    return put_attention(host, json, &model->plan);
}

hashattn_status pretrained_config_write(struct host *host, const char *directory, enum pretrained_type type,
                                        const struct model_config *model, struct json *others)
{
    char path[FILE_PATH];
    struct json *json = others;
    TRY(pretrained_config_check(host, type, model));
    TRY(file_join(host, directory, "config.json", path, sizeof path));
    if (others == NULL)
        TRY(json_new_object(host, &json));
    hashattn_status status = put_config(host, json, type, model);
    if (status == HASHATTN_OK)
        status = json_write_file(host, path, json);
    if (others == NULL)
        json_free(json);
    return status;
}
