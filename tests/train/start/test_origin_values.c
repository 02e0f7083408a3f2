/* Initial values from checkpoints and runs: bits of every tensor, positions of other lengths, new and dropped
   tensors, scaled tables, values that are not finite, and failing allocations. Bugs planted and caught: the
   unused rows before the first position repeated with the others; a table that was cut read from its end; the
   seed of a new tensor without its index; BERT's pooler dropped; tensors of float16 copied as they are; the
   factor of words inverted, or applied to every tensor, to projections of tails too, or not to their tables;
   cutoffs that a new model may choose; a tensor counted as dropped although it was taken; an integer
   tensor read as floats; a last layer taken for other labels, quantiles or another objective.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "io/json.h"
#include "io/weights/tensor_floats.h"
#include "support/checkpoint_case.h"
#include "support/trainer_case.h"
#include "train/start/origin.h"

/* A model of the stored architecture with other positions and objectives, and its values. */
struct fresh {
    struct model *model;
    float *values;
    struct origin_report report;
};

static const struct task_facts no_facts; /* of tests with checkpoints, which have no labels */

static void fresh_free(struct host *host, struct fresh *fresh)
{
    origin_report_free(&fresh->report);
    free(fresh->values);
    model_free(host, fresh->model);
}

static struct fresh fresh_of(struct host *host, const struct origin *origin, int64_t max_len,
                             const char *objective, int64_t outputs)
{
    struct fresh fresh = {.model = NULL};
    const struct task_facts *facts = origin->run.task != NULL ? &origin->run.facts : &no_facts;
    struct model_config config = *model_config_of(origin->model);
    config.max_len = max_len;
    config.causal = strcmp(objective, "next_token") == 0;
    config.num_objectives = 1;
    config.objectives[0] =
        (struct model_objective){.objective = objective_find(objective), .weight = 1, .num_outputs = outputs};
    check_status(host, model_new(host, &config, &fresh.model), HASHATTN_OK, NULL);
    fresh.values = calloc(model_params(fresh.model)->total, sizeof(float));
    check_status(
        host, origin_values(host, origin, fresh.model, facts, EXTEND_REPEAT, 5, fresh.values, &fresh.report),
        HASHATTN_OK, NULL);
    return fresh;
}

static const struct param *row_named(const struct model *model, const char *name)
{
    const struct params *params = model_params(model);
    for (size_t i = 0; i < params->num_rows; i++)
        if (strcmp(params->rows[i].name, name) == 0)
            return &params->rows[i];
    return NULL;
}

static bool lists(const struct json *names, const char *name)
{
    for (size_t i = 0; i < json_count(names); i++)
        if (strcmp(json_text(json_element(names, i)), name) == 0)
            return true;
    return false;
}

static void check_tensor(const struct origin *origin, const struct fresh *fresh, const struct param *row)
{
    const struct tensor *tensor = pretrained_find(&origin->files, row, NULL);
    float *stored = calloc(row->count, sizeof *stored);
    assert_non_null(tensor);
    assert_int_equal(tensor->bytes, row->count * tensor_type_size(tensor->type));
    tensor_copy_floats(tensor, stored);
    check_same_bits(stored, fresh->values + row->offset, row->count * sizeof *stored, row->name);
    free(stored);
}

static void tensors_of_checkpoints_keep_their_bits(void **state)
{
    (void)state;
    for (size_t c = 0; checkpoint_types[c] != NULL; c++) {
        struct checkpoint_case files;
        struct host host;
        struct origin origin;
        host_init(&host);
        checkpoint_case_read(checkpoint_types[c], &files);
        check_status(&host, origin_open(&host, files.directory, &origin), HASHATTN_OK, NULL);
        const struct model_config *stored = model_config_of(origin.model);
        struct fresh classify = fresh_of(&host, &origin, stored->max_len, "classify", 3);
        struct fresh same = fresh_of(&host, &origin, stored->max_len, "masked_tokens", CHECKPOINT_VOCAB);
        const struct params *params = model_params(classify.model);
        size_t anew = 0;
        bool bert = strcmp(checkpoint_types[c], "bert") == 0;
        for (size_t i = 0; i < params->num_rows; i++) {
            const struct param *row = &params->rows[i];
            bool head = strncmp(row->name, "classifier.", 11) == 0;
            if (head && !(bert && strncmp(row->name, "classifier.dense.", 17) == 0)) {
                float *start = calloc(row->count, sizeof *start);
                start_fill(row->start, row->scale, random_key(5, RANDOM_INIT, i), start, row->count);
                check_same_bits(start, classify.values + row->offset, row->count * sizeof *start, row->name);
                assert_true(lists(classify.report.anew, row->name));
                free(start);
                anew++;
            } else {
                check_tensor(&origin, &classify, row);
            }
        }
        assert_int_equal(anew, bert ? 2 : 4);
        assert_int_equal(json_count(classify.report.anew), anew);
        assert_int_equal(classify.report.taken, params->num_rows - anew);
        assert_int_equal(classify.report.positions, 0);
        const char *output = c == 2 ? "lm_head.dense.weight" : "cls.predictions.transform.dense.weight";
        assert_true(lists(classify.report.dropped, output));
        assert_false(lists(classify.report.dropped, "bert.pooler.dense.weight"));
        for (size_t i = 0; i < model_params(same.model)->num_rows; i++)
            check_tensor(&origin, &same, &model_params(same.model)->rows[i]);
        assert_int_equal(json_count(same.report.anew), 0);
        assert_false(lists(same.report.dropped, output));
        assert_true(lists(same.report.dropped, "bert.pooler.dense.weight") == bert);
        fresh_free(&host, &classify);
        fresh_free(&host, &same);
        origin_close(&host, &origin);
    }
}

/* The checkpoints have 10 positions, those of YOSO and RoBERTa after 2 unused rows. */
static void positions_are_cut_or_repeated(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 9, 11, 37};
    for (size_t c = 0; checkpoint_types[c] != NULL; c++)
        for (size_t k = 0; k < 4; k++) {
            struct checkpoint_case files;
            struct host host;
            struct origin origin;
            host_init(&host);
            checkpoint_case_read(checkpoint_types[c], &files);
            check_status(&host, origin_open(&host, files.directory, &origin), HASHATTN_OK, NULL);
            struct fresh fresh = fresh_of(&host, &origin, lengths[k], "classify", 2);
            const struct param *row = row_named(fresh.model, "embeddings.position_embeddings.weight");
            const float *table = pretrained_find(&origin.files, row, NULL)->data;
            size_t unused = strcmp(checkpoint_types[c], "bert") == 0 ? 0 : 2, n = (size_t)lengths[k];
            assert_int_equal(row->shape[0], unused + n);
            for (size_t r = 0; r < row->shape[0]; r++) {
                size_t want = r < unused ? r : unused + (r - unused) % 10;
                check_same_bits(fresh.values + row->offset + r * CHECKPOINT_DIM,
                                table + want * CHECKPOINT_DIM, CHECKPOINT_DIM * sizeof *table, "position");
            }
            assert_int_equal(fresh.report.stored_positions, 10);
            assert_int_equal(fresh.report.positions, n);
            assert_false(lists(fresh.report.anew, row->name));
            fresh_free(&host, &fresh);
            origin_close(&host, &origin);
        }
}

/* Positions between the first and the last stored one; a shorter table is cut all the same. */
static void positions_are_interpolated(void **state)
{
    (void)state;
    struct checkpoint_case files;
    struct host host;
    struct origin origin;
    host_init(&host);
    checkpoint_case_read("roberta", &files);
    check_status(&host, origin_open(&host, files.directory, &origin), HASHATTN_OK, NULL);
    for (int64_t n = 9; n <= 19; n += 10) {
        struct fresh fresh = fresh_of(&host, &origin, n, "classify", 2);
        const struct param *row = row_named(fresh.model, "embeddings.position_embeddings.weight");
        const float *table = pretrained_find(&origin.files, row, NULL)->data;
        struct origin_report report;
        check_status(&host,
                     origin_values(&host, &origin, fresh.model, &no_facts, EXTEND_INTERPOLATE, 5,
                                   fresh.values, &report),
                     HASHATTN_OK, NULL);
        const float *found = fresh.values + row->offset;
        for (size_t r = 0; r < row->shape[0]; r++)
            for (size_t c = 0; c < CHECKPOINT_DIM; c++) {
                size_t low = n == 9 || r < 2 ? r : 2 + (r - 2) / 2;
                double want = (double)table[low * CHECKPOINT_DIM + c];
                if (n == 19 && r >= 2 && r % 2 == 1) /* half way */
                    want = (want + (double)table[(low + 1) * CHECKPOINT_DIM + c]) / 2;
                check_near((double)found[r * CHECKPOINT_DIM + c], want, 1e-6, "position");
            }
        origin_report_free(&report);
        fresh_free(&host, &fresh);
    }
    origin_close(&host, &origin);
}

/* A run whose output is its table multiplies words by sqrt(16); without that output the table has the factor,
   and the other way round. */
static void check_words(const char *cutoffs)
{
    struct small_run small;
    struct origin origin;
    struct watcher watcher = {.stop_at = 5};
    small_run_init(&small, "softmax", 8, 2);
    strcpy(small.config.model.cutoffs, cutoffs);
    assert_int_equal(train(&small, small.run, 1, &watcher, false), HASHATTN_INTERRUPTED);
    struct host *host = &small.host;
    check_status(host, origin_open(host, small.run, &origin), HASHATTN_OK, NULL);
    struct model_config taken;
    options_preset(model_options, &taken);
    origin_architecture(&origin, &taken);
    assert_string_equal(taken.cutoffs, cutoffs);
    assert_true(origin_fixes(&origin, option_find(model_options, "cutoffs")) &&
                origin_fixes(&origin, option_find(model_options, "div_value")));
    struct fresh same = fresh_of(host, &origin, small.config.model.max_len, "classify",
                                 (int64_t)small.config.facts.num_classes);
    struct fresh tied = fresh_of(host, &origin, small.config.model.max_len, "next_token", 9);
    assert_true(model_word_scale(same.model) == 1 && model_word_scale(tied.model) == 4);
    for (size_t i = 0; i < model_params(same.model)->num_rows; i++) {
        const struct param *row = &model_params(same.model)->rows[i],
                           *other = row_named(tied.model, row->name);
        bool words = strncmp(row->name, "embeddings.word_embeddings.", 27) == 0 &&
                     strstr(row->name, ".projection") == NULL;
        check_tensor(&origin, &same, row);
        for (size_t k = 0; other != NULL && k < row->count; k++)
            assert_true(tied.values[other->offset + k] * (words ? 4 : 1) == same.values[row->offset + k]);
    }
    assert_true(lists(tied.report.dropped, "classifier.dense.weight"));
    /* Outputs for other labels are another layer; the one before it stays. */
    struct task_facts others = small.config.facts;
    char *labels[20], other[] = "other";
    assert_true(others.num_classes > 1 && others.num_classes < 20);
    memcpy(labels, others.labels, others.num_classes * sizeof *labels);
    labels[others.num_classes - 1] = other;
    others.labels = labels;
    origin_report_free(&same.report);
    check_status(
        host, origin_values(host, &origin, same.model, &others, EXTEND_REPEAT, 5, same.values, &same.report),
        HASHATTN_OK, NULL);
    assert_true(json_count(same.report.anew) == 2 && lists(same.report.anew, "classifier.out_proj.bias"));
    assert_true(lists(same.report.dropped, "classifier.out_proj.weight"));
    others = small.config.facts;
    others.objectives[0].quantiles = (struct quantiles){1, {0.25}};
    origin_report_free(&same.report);
    check_status(
        host, origin_values(host, &origin, same.model, &others, EXTEND_REPEAT, 5, same.values, &same.report),
        HASHATTN_OK, NULL);
    assert_true(json_count(same.report.anew) == 2 && lists(same.report.anew, "classifier.out_proj.bias"));
    others = small.config.facts;
    snprintf(others.objectives[0].name, sizeof others.objectives[0].name, "label_set");
    origin_report_free(&same.report);
    check_status(
        host, origin_values(host, &origin, same.model, &others, EXTEND_REPEAT, 5, same.values, &same.report),
        HASHATTN_OK, NULL);
    assert_true(json_count(same.report.anew) == 2);
    assert_true(lists(tied.report.anew, "lm_head.bias"));
    assert_int_equal(lists(tied.report.anew, "lm_head.1.bias"), cutoffs[0] != '\0');
    fresh_free(host, &same);
    fresh_free(host, &tied);
    origin_close(host, &origin);
    small_run_free(&small);
}

static void words_enter_the_trunk_as_they_did(void **state)
{
    (void)state;
    check_words("");
    check_words("4"); /* the table of a tail has the factor, its projection has not */
}

/* Sets the last float of a file, which belongs to some tensor. */
static void values_must_be_finite(void **state)
{
    const struct folder *folder = *state;
    struct host host;
    struct origin origin;
    size_t size;
    host_init(&host);
    checkpoint_copy(folder, "yoso");
    char *bytes = folder_get(folder, "model.safetensors", &size);
    memcpy(bytes + size - sizeof(float), &(float){NAN}, sizeof(float));
    folder_put(folder, "model.safetensors", bytes, size);
    free(bytes);
    check_status(&host, origin_open(&host, folder->path, &origin), HASHATTN_OK, NULL);
    struct origin_report report;
    const struct model *model = origin.model;
    float *values = calloc(model_params(model)->total, sizeof *values);
    check_status(&host, origin_values(&host, &origin, model, &no_facts, EXTEND_REPEAT, 1, values, &report),
                 HASHATTN_BAD_FILE, "holds nan at element ");
    assert_true(report.anew == NULL && report.dropped == NULL);
    free(values);
    origin_close(&host, &origin);
}

/* The encoder's tensors are checked when it is opened; a tensor of the classifier is not. */
static void tensors_hold_floats(void **state)
{
    const struct folder *folder = *state;
    static const char name[] = "bert.pooler.dense.weight\":{\"dtype\":\"F32";
    struct host host;
    struct origin origin;
    struct origin_report report;
    size_t size, at = 0;
    host_init(&host);
    checkpoint_copy(folder, "bert");
    char *bytes = folder_get(folder, "model.safetensors", &size);
    while (at + sizeof name < size && memcmp(bytes + at, name, sizeof name - 1) != 0)
        at++;
    assert_true(at + sizeof name < size);
    bytes[at + sizeof name - 4] = 'I'; /* I32: as many bytes, no floats */
    folder_put(folder, "model.safetensors", bytes, size);
    free(bytes);
    check_status(&host, origin_open(&host, folder->path, &origin), HASHATTN_OK, NULL);
    struct model_config config = *model_config_of(origin.model);
    struct model *classifier;
    config.num_objectives = 1;
    config.objectives[0] =
        (struct model_objective){.objective = objective_find("classify"), .weight = 1, .num_outputs = 2};
    check_status(&host, model_new(&host, &config, &classifier), HASHATTN_OK, NULL);
    float *values = calloc(model_params(classifier)->total, sizeof *values);
    check_status(&host,
                 origin_values(&host, &origin, classifier, &no_facts, EXTEND_REPEAT, 1, values, &report),
                 HASHATTN_BAD_FILE, "the tensor of 'classifier.dense.weight' is I32, F32, F64, F16 or BF16");
    free(values);
    model_free(&host, classifier);
    origin_close(&host, &origin);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    struct failing_host failing;
    struct host host;
    struct origin origin;
    struct checkpoint_case files;
    struct origin_report report;
    host_init(&host);
    checkpoint_case_read("roberta", &files);
    check_status(&host, origin_open(&host, files.directory, &origin), HASHATTN_OK, NULL);
    struct fresh fresh = fresh_of(&host, &origin, 12, "classify", 2);
    for (long n = 0;; n++) {
        failing_host_init(&failing, n);
        hashattn_status status = origin_values(&failing.host, &origin, fresh.model, &no_facts, EXTEND_REPEAT,
                                               5, fresh.values, &report);
        origin_report_free(&report);
        assert_int_equal(failing.outstanding, 0);
        if (status == HASHATTN_OK)
            break;
        check_status(&failing.host, status, HASHATTN_NO_MEMORY, NULL);
        assert_true(n < 100);
    }
    fresh_free(&host, &fresh);
    origin_close(&host, &origin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_of_checkpoints_keep_their_bits),
        cmocka_unit_test(positions_are_cut_or_repeated),
        cmocka_unit_test(positions_are_interpolated),
        cmocka_unit_test(words_enter_the_trunk_as_they_did),
        cmocka_unit_test_setup_teardown(values_must_be_finite, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(tensors_hold_floats, folder_enter, folder_leave),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
