/* Models of our own as checkpoints: what was exported opens as the type of its attention and computes the
   same rows and scores; what has no place there is refused with every setting, and nothing is left. Bugs
   planted and caught: positions shifted by the unused rows; the segment of a model without segments started
   from the seed; softmax written as yoso; labels in another order; a number without its deviation, or without
   its mean; mean pooling accepted; a classifier written too; the padding not written; only the first setting
   named; a convolution accepted with softmax; tails accepted; roberta whatever the padding's id; its
   positions without the unused rows.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/pretrained_export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "io/json.h"
#include "models/inference.h"
#include "nn/block.h"
#include "support/folder.h"
#include "support/layers.h"

enum { VOCAB = 20, DIM = 8, T = 9, SEED = 4 };

static const size_t offsets[] = {0, T};
static const uint32_t ids[T] = {0, 5, 19, 7, 7, 3, 12, 1, 2};
static const uint8_t segments[T] = {0, 0, 0, 1, 1, 1, 1, 0, 0};

static struct model_config config_of(struct host *host, const char *attention)
{
    struct model_config config;
    options_preset(model_options, &config);
    config.vocab_size = VOCAB;
    config.max_len = T;
    config.row_width = config.num_segments = config.decoder_rows = config.decoded_rows = 0;
    config.pairs = config.bytes = false;
    config.num_objectives = 1;
    config.objectives[0] = (struct model_objective){
        .objective = objective_find("masked_tokens"), .weight = 1, .num_outputs = VOCAB};
    config.layers = 2;
    config.dim = DIM;
    config.heads = 2;
    config.ffn = 12;
    config.norm = BLOCK_POST_NORM;
    config.positions = POSITIONS_LEARNED;
    config.scale_words = 0;
    config.conv_window = 0;
    check_status(host, head_plan_new(host, attention, &config.plan), HASHATTN_OK, NULL);
    return config;
}

struct outputs {
    float rows[T * DIM], scores[T * VOCAB];
};

static bool take_rows(void *user, size_t first, size_t n, const float *rows)
{
    assert_true(first == 0 && n == 1);
    memcpy(user, rows, T * DIM * sizeof *rows);
    return false;
}

static float *new_floats(size_t count)
{
    float *floats = aligned_alloc(64, (count * sizeof *floats + 63) / 64 * 64);
    assert_non_null(floats);
    return floats;
}

static void compute(struct host *host, struct inference *inference, bool segmented, struct outputs *outputs)
{
    const struct inference_input input = {1, offsets, ids, segmented ? segments : NULL};
    size_t places[T];
    for (size_t i = 0; i < T; i++)
        places[i] = i;
    memset(outputs, 0, sizeof *outputs);
    check_status(host, inference_check(host, inference, &input), HASHATTN_OK, NULL);
    check_status(host, inference_rows(host, inference, &input, take_rows, outputs->rows), HASHATTN_OK, NULL);
    if (model_num_scores(inference->model) > 0)
        check_status(host, inference_scores(host, inference, &input, places, T, outputs->scores), HASHATTN_OK,
                     NULL);
}

static const struct pretrained no_files; /* every tensor starts from the seed */

static void compute_own(struct host *host, struct pool *pool, const struct model_config *config,
                        struct outputs *outputs)
{
    struct model *model;
    check_status(host, model_new(host, config, &model), HASHATTN_OK, NULL);
    const struct params *params = model_params(model);
    float *values = new_floats(params->total), *block = new_floats(params_packed_floats(params) + 16);
    check_status(host, pretrained_load(host, &no_files, params, SEED, values), HASHATTN_OK, NULL);
    struct inference inference = {
        .kernels = kernels_named("auto", NULL), .pool = pool, .model = model, .seed = 3};
    inference.values = params_pack(params, inference.kernels, pool, values, false, block);
    compute(host, &inference, config->num_segments > 0, outputs);
    free(block);
    free(values);
    model_free(host, model);
}

static void compute_stored(struct host *host, struct pool *pool, const char *directory, bool segmented,
                           struct pretrained *files, struct outputs *outputs)
{
    struct model *model;
    check_status(host, pretrained_open(host, directory, NULL, files), HASHATTN_OK, NULL);
    check_status(host, model_new(host, &files->config.model, &model), HASHATTN_OK, NULL);
    const struct params *params = model_params(model);
    check_status(host, pretrained_check(host, files, params), HASHATTN_OK, NULL);
    float *block = new_floats(pretrained_packed_floats(params));
    struct inference inference = {
        .kernels = kernels_named("auto", NULL), .pool = pool, .model = model, .seed = 3};
    check_status(host,
                 pretrained_pack(host, files, params, inference.kernels, pool, 1, block, &inference.values),
                 HASHATTN_OK, NULL);
    compute(host, &inference, segmented, outputs);
    free(block);
    model_free(host, model);
}

static hashattn_status export(struct host *host, const struct model_config *config, const char *directory,
                              int64_t padding)
{
    struct model *model;
    TRY(model_new(host, config, &model));
    if (!file_exists(directory))
        assert_int_equal(mkdir(directory, 0700), 0);
    static const char *const labels[] = {"ham", "more of \"it\"", "spam"};
    const struct export_choice choice = {
        .padding = padding, .seed = SEED, .labels = labels, .shift = 3, .scale = 2};
    hashattn_status status = pretrained_export(host, directory, &no_files, model, &choice);
    model_free(host, model);
    return status;
}

static void remove_directory(struct host *host, const char *path)
{
    static const char *const files[] = {"config.json", "model.safetensors", NULL};
    file_remove_directory(host, path, files);
}

static void outputs_are_the_same(void **state)
{
    struct folder *folder = *state;
    struct host *host = &folder->host;
    static const struct {
        const char *attention, *type;
        int64_t segments, offset, conv, padding;
        bool classifies;
    } cases[] = {{"yoso-e", "yoso", 0, 0, 3, 1, false},     {"yoso", "yoso", 2, 2, 0, -1, true},
                 {"softmax", "bert", 0, 3, 0, 7, false},    {"softmax", "bert", 0, 3, 0, -1, false},
                 {"softmax", "roberta", 0, 8, 0, 7, false}, {"softmax", "roberta", 2, 2, 0, 1, true},
                 {"softmax", "bert", 2, 0, 0, 1, true}};
    struct pool *pool;
    char path[100];
    check_status(host, pool_new(host, 2, &pool), HASHATTN_OK, NULL);
    snprintf(path, sizeof path, "%s/out", folder->path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_config config = config_of(host, cases[i].attention);
        struct pretrained files;
        struct outputs own, stored;
        int64_t padding = -1;
        config.num_segments = cases[i].segments;
        config.position_offset = cases[i].offset;
        config.conv_window = cases[i].conv;
        if (head_plan_has(&config.plan, "planes"))
            check_status(host, head_plan_set(host, &config.plan, "planes", "gaussian"), HASHATTN_OK, NULL);
        if (cases[i].classifies)
            config.objectives[config.num_objectives++] = (struct model_objective){
                .objective = objective_find("classify"), .weight = 1, .num_outputs = 3};
        compute_own(host, pool, &config, &own);
        check_status(host, export(host, &config, path, cases[i].padding), HASHATTN_OK, NULL);
        compute_stored(host, pool, path, cases[i].segments > 0, &files, &stored);
        assert_string_equal(pretrained_names[files.config.type].model_type, cases[i].type);
        assert_string_equal(files.config.model.plan.text, cases[i].attention);
        assert_int_equal(files.config.model.num_segments, cases[i].segments == 0 ? 1 : cases[i].segments);
        if (cases[i].padding >= 0)
            check_status(host, json_get_int(host, files.config.json, "pad_token_id", 0, 100, &padding),
                         HASHATTN_OK, NULL);
        assert_true(padding == cases[i].padding);
        assert_true(!cases[i].classifies ||
                    weight_files_find(&files.weights, "classifier.out_proj.weight", NULL) == NULL);
        check_same_bits(stored.rows, own.rows, sizeof own.rows, cases[i].attention);
        check_same_bits(stored.scores, own.scores, sizeof own.scores, cases[i].attention);
        assert_true(own.scores[0] != 0 && own.scores[VOCAB + 1] != 0);
        pretrained_close(host, &files);
        remove_directory(host, path);
        head_plan_free(host, &config.plan);
    }
    pool_free(host, pool);
}

/* The classifier of a type is written by its names, with what the library needs to call its classes by name;
   a regression gives numbers in the units of its targets. */
static void classifiers_are_exported(void **state)
{
    struct folder *folder = *state;
    struct host *host = &folder->host;
    static const struct {
        const char *attention, *objective, *problem, *class_of, *last;
        int64_t outputs, offset;
    } cases[] = {
        {"softmax", "classify", "single_label_classification", "BertForSequenceClassification",
         "classifier.weight", 3, 0},
        {"yoso", "label_set", "multi_label_classification", "YosoForSequenceClassification",
         "classifier.out_proj.weight", 3, PRETRAINED_YOSO_OFFSET},
        {"softmax", "classify", "single_label_classification", "RobertaForSequenceClassification",
         "classifier.out_proj.weight", 3, 2},
        {"softmax", "regress", "regression", "BertForSequenceClassification", "classifier.weight", 1, 0}};
    char path[100];
    snprintf(path, sizeof path, "%s/out", folder->path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool yoso = strcmp(cases[i].attention, "yoso") == 0;
        struct model_config config = config_of(host, cases[i].attention);
        struct pretrained files;
        struct model *model;
        const char *word;
        config.num_segments = 1;
        config.position_offset = cases[i].offset;
        config.pooling = POOL_FIRST;
        config.classifier = yoso ? HEAD_GELU : HEAD_TANH;
        config.objectives[0] = (struct model_objective){
            .objective = objective_find(cases[i].objective), .weight = 1, .num_outputs = cases[i].outputs};
        check_status(host, export(host, &config, path, 1), HASHATTN_OK, NULL);
        check_status(host, pretrained_open(host, path, NULL, &files), HASHATTN_OK, NULL);
        check_status(host, json_get_string(host, files.config.json, "problem_type", &word), HASHATTN_OK,
                     NULL);
        assert_string_equal(word, cases[i].problem);
        check_status(host, json_get_string(host, files.config.json, "architectures.0", &word), HASHATTN_OK,
                     NULL);
        assert_string_equal(word, cases[i].class_of);
        check_status(host, json_get_string(host, files.config.json, "id2label.0", &word), HASHATTN_OK, NULL);
        assert_string_equal(word, "ham");
        assert_non_null(weight_files_find(&files.weights, cases[i].last, NULL));
        bool bert = strncmp(cases[i].class_of, "Bert", 4) == 0;
        assert_non_null(weight_files_find(&files.weights,
                                          bert ? "bert.pooler.dense.bias" : "classifier.dense.bias", NULL));
        check_status(host, model_new(host, &config, &model), HASHATTN_OK, NULL);
        check_status(host, pretrained_check(host, &files, model_params(model)), HASHATTN_OK, NULL);
        const struct params *params = model_params(model);
        float *own = new_floats(params->total), *stored = new_floats(params->total);
        check_status(host, pretrained_load(host, &no_files, params, SEED, own), HASHATTN_OK, NULL);
        check_status(host, pretrained_load(host, &files, params, SEED, stored), HASHATTN_OK, NULL);
        bool number = strcmp(cases[i].objective, "regress") == 0;
        for (size_t r = 0; r < params->num_rows; r++) {
            const struct param *row = &params->rows[r];
            double scale = number && strncmp(row->name, "classifier.out_proj", 19) == 0 ? 2 : 1;
            double shift = number && strcmp(row->name, "classifier.out_proj.bias") == 0 ? 3 : 0;
            if (strncmp(row->name, "classifier.", 11) == 0)
                for (size_t k = row->offset; k < row->offset + row->count; k++)
                    assert_true(stored[k] == (float)(shift + scale * (double)own[k]));
        }
        free(own);
        free(stored);
        model_free(host, model);
        pretrained_close(host, &files);
        remove_directory(host, path);
        head_plan_free(host, &config.plan);
    }
}

/* A head that has no place there is refused with every setting, unless the encoder is written alone. */
static void a_bare_encoder_is_exported(void **state)
{
    struct folder *folder = *state;
    struct host *host = &folder->host;
    struct model_config config = config_of(host, "softmax");
    struct pretrained files;
    struct outputs own, stored;
    struct pool *pool;
    struct model *model;
    char path[100];
    snprintf(path, sizeof path, "%s/out", folder->path);
    config.pairs = true;
    config.pooling = POOL_MEAN;
    config.classifier = HEAD_RELU;
    config.objectives[0] =
        (struct model_objective){.objective = objective_find("classify"), .weight = 1, .num_outputs = 3};
    check_status(host, pool_new(host, 1, &pool), HASHATTN_OK, NULL);
    check_status(
        host, export(host, &config, path, 1), HASHATTN_REFUSED,
        "a file of type bert cannot describe the model: pooling is mean (first is needed), classifier is "
        "relu (tanh is needed), an example is two sequences (one is needed)");
    config.pairs = false;
    compute_own(host, pool, &config, &own);
    check_status(host, model_new(host, &config, &model), HASHATTN_OK, NULL);
    const struct export_choice choice = {.encoder_only = true, .padding = 1, .seed = SEED};
    check_status(host, pretrained_export(host, path, &no_files, model, &choice), HASHATTN_OK, NULL);
    model_free(host, model);
    compute_stored(host, pool, path, false, &files, &stored);
    check_same_bits(stored.rows, own.rows, sizeof own.rows, "rows");
    assert_int_equal(files.config.model.num_objectives, 0);
    assert_null(json_at(files.config.json, "id2label"));
    pretrained_close(host, &files);
    remove_directory(host, path);
    pool_free(host, pool);
    head_plan_free(host, &config.plan);
}

static void what_has_no_place_is_refused(void **state)
{
    struct folder *folder = *state;
    struct host *host = &folder->host;
    static const struct {
        const char *attention, *option, *value; /* of the mechanism, or of the model */
        const char *part;
    } cases[] = {
        {"lha", NULL, NULL,
         "type yoso cannot describe the model: attention is lha (yoso or yoso-e is needed)"},
        {"softmax,yoso", NULL, NULL, "attention is softmax,yoso ("},
        {"yoso", "normalize", "none", "normalize is none (l2 is needed)"},
        {"yoso-e", "map", "neyshabur", "map is neyshabur (l2 is needed)"},
        {"softmax", "conv_window", "3",
         "type bert cannot describe the model: conv_window is 3 (0 is needed)"},
        {"softmax", "norm", "pre", "norm is pre (post is needed)"},
        {"softmax", "positions", "sinusoidal", "positions is sinusoidal (learned is needed)"},
        {"softmax", "activation", "relu", "activation is relu (gelu is needed)"},
        {"yoso-e", "activation", "relu", "activation is relu (gelu is needed)"},
        {"softmax", "attention_biases", "false", "attention_biases is false (true is needed)"},
        {"softmax", "scale_words", "true", "scale_words is true (false is needed)"},
    };
    char path[100];
    const char **names;
    size_t count;
    snprintf(path, sizeof path, "%s/out", folder->path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_config config = config_of(host, cases[i].attention);
        if (cases[i].option != NULL)
            check_status(
                host,
                option_find(model_options, cases[i].option) != NULL
                    ? option_set(host, model_options, "model", &config, cases[i].option, cases[i].value)
                    : head_plan_set(host, &config.plan, cases[i].option, cases[i].value),
                HASHATTN_OK, NULL);
        check_status(host, export(host, &config, path, 1), HASHATTN_REFUSED, cases[i].part);
        check_status(host, file_list(host, path, "", &names, &count), HASHATTN_OK, NULL);
        assert_int_equal(count, 0);
        memory_free(host, (void *)names);
        head_plan_free(host, &config.plan);
    }
    struct model_config config = config_of(host, "local");
    config.norm = BLOCK_PRE_NORM;
    config.positions = POSITIONS_NONE;
    check_status(
        host, export(host, &config, path, 1), HASHATTN_REFUSED,
        "attention is local (yoso or yoso-e is needed), norm is pre (post is needed), positions is none "
        "(learned is needed)");
    head_plan_free(host, &config.plan);
    config = config_of(host, "softmax");
    config.num_objectives = 0; /* masked tokens refuse tails themselves */
    strcpy(config.cutoffs, "5");
    check_status(host, export(host, &config, path, 1), HASHATTN_REFUSED, "cutoffs is 5 (none is needed)");
    head_plan_free(host, &config.plan);
}

static void every_failing_allocation_is_reported(void **state)
{
    struct folder *folder = *state;
    char path[100], file[120];
    snprintf(path, sizeof path, "%s/out", folder->path);
    snprintf(file, sizeof file, "%s/config.json", path);
    for (long n = 0;; n++) {
        struct failing_host failing;
        struct host plain;
        host_init(&plain);
        struct model_config config = config_of(&plain, "yoso");
        failing_host_init(&failing, n);
        hashattn_status status = export(&failing.host, &config, path, 1);
        head_plan_free(&plain, &config.plan);
        assert_int_equal(failing.outstanding, 0);
        assert_true(file_exists(file) == (status == HASHATTN_OK));
        if (status == HASHATTN_OK)
            break;
        check_status(&failing.host, status, HASHATTN_NO_MEMORY, NULL);
        assert_true(n < 5000);
    }
    remove_directory(&folder->host, path);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_enter, folder_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(outputs_are_the_same),
        IN_FOLDER(classifiers_are_exported),
        IN_FOLDER(a_bare_encoder_is_exported),
        IN_FOLDER(what_has_no_place_is_refused),
        IN_FOLDER(every_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
