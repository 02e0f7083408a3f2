/* Trained models: description, evaluation, prediction in order, options that differ from training, broken
   runs. Planted and caught: the options kept after a refused set; an encoder not rebuilt; probabilities of
   the wrong row; the least likely class returned as best; the split cut by the seed of the hashing; the
   values leaked when a load fails; memory allocated for a model before its file was checked, or for all
   sinusoids that its config claims; an evaluation not stopped; the first difference for every index; weights
   packed for each part of a file; weights of the model before an option changed.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/models.h"
#include "support/tiny_run.h"

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* Trains a run of task text in mail/ to tell "aaaa" from "zzzz". */
static void train_filter(hashattn_context *context, const char *run)
{
    static const char *const options[][2] = {
        {"steps", "60"},    {"batch", "8"},       {"layers", "1"},   {"dim", "16"}, {"heads", "2"},
        {"ffn", "16"},      {"eval_every", "20"}, {"max_len", "16"}, {"seed", "9"}, {"learning_rate", "0.02"},
        {"tokens", "bytes"}};
    hashattn_setup *setup;
    check_ok(context, hashattn_setup_new(context, "text", &setup));
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        check_ok(context, hashattn_setup_set(setup, options[i][0], options[i][1]));
    check_ok(context, hashattn_train(setup, "mail", run, NULL, NULL));
    hashattn_setup_free(setup);
}

static void make_mail(void)
{
    if (access("mail", F_OK) == 0)
        return;
    hashattn_context *context = context_with(1, NULL);
    hashattn_setup *setup = tiny_setup(context, "none", 1);
    const size_t counts[] = {1, 1, 1};
    check_ok(context, hashattn_setup_generate(setup, "mail", counts, 1)); /* creates the directory */
    hashattn_setup_free(setup);
    unlink("mail/train.tsv");
    unlink("mail/valid.tsv");
    unlink("mail/test.tsv");
    char text[4000] = "";
    for (int i = 0; i < 60; i++) {
        char line[60];
        snprintf(line, sizeof line, "%s\t%.*s\n", i % 2 == 0 ? "low" : "high", 4 + i % 5,
                 i % 2 == 0 ? "aaaabaaaac" : "zzzzyzzzzx");
        strcat(text, line);
    }
    write_text("mail/train.tsv", text);
    train_filter(context, "filter");
    hashattn_context_free(context);
}

static void models_describe_themselves(void **state)
{
    (void)state;
    make_mail();
    hashattn_context *context = context_with(1, NULL);
    hashattn_model *model;
    check_ok(context, hashattn_model_load(context, "filter", &model));
    hashattn_model_info info = {.struct_size = sizeof info};
    hashattn_model_describe(model, &info);
    assert_string_equal(info.task, "text");
    assert_string_equal(info.mechanism, "yoso");
    assert_int_equal(info.num_classes, 2);
    assert_int_equal(info.max_len, 16);
    assert_int_equal(info.seed, 9);
    assert_int_equal(info.predicts, 1);
    assert_true(info.num_params > 16 * 16);
    assert_string_equal(hashattn_model_label(model, 0), "high");
    assert_string_equal(hashattn_model_label(model, 1), "low");
    assert_null(hashattn_model_label(model, 2));
    assert_string_equal(info.precision, "float32");
    hashattn_model_free(model);
    hashattn_context_options options; /* a precision that is given replaces that of the run */
    hashattn_context_options_default(&options);
    options.precision = "bf16";
    hashattn_context *rough;
    assert_int_equal(hashattn_context_new(&options, NULL, 0, &rough), HASHATTN_OK);
    check_ok(rough, hashattn_model_load(rough, "filter", &model));
    hashattn_model_describe(model, &info);
    assert_string_equal(info.precision, "bf16");
    hashattn_model_free(model);
    hashattn_context_free(rough);
    hashattn_model_free(NULL);
    hashattn_context_free(context);
}

static double value(const hashattn_evaluation *evaluation, const char *name)
{
    return hashattn_metric_value(&evaluation->metrics, name);
}

static void splits_are_those_of_the_training(void **state)
{
    (void)state;
    make_mail();
    hashattn_context *context = context_with(1, NULL);
    hashattn_model *model;
    check_ok(context, hashattn_model_load(context, "filter", &model));
    hashattn_evaluation a = {.struct_size = sizeof a}, b = {.struct_size = sizeof b};
    check_ok(context, hashattn_model_evaluate(model, NULL, "train", 1, &a));
    assert_int_equal(a.examples, 48); /* valid and test get a tenth each */
    assert_true(value(&a, "accuracy") > 0.95 && value(&a, "loss") < 0.3);
    double shares[3] = {0};
    for (uint64_t seed = 0; seed < 3; seed++) {
        check_ok(context, hashattn_model_evaluate(model, NULL, "test", seed, &b));
        assert_int_equal(b.examples, 6);
        shares[seed] = value(&b, "majority");
    }
    assert_true(shares[0] == shares[1] && shares[1] == shares[2]);
    check_ok(context, hashattn_model_evaluate(model, "mail", "valid", 1, &b));
    check_call(context, hashattn_model_evaluate(model, NULL, "tset", 1, &b), HASHATTN_INVALID,
               "split is 'tset', allowed are train, valid, test");
    check_call(context, hashattn_model_evaluate(model, "nowhere", "test", 1, &b), HASHATTN_BAD_FILE,
               "nowhere");
    check_call(context, hashattn_model_evaluate(model, NULL, NULL, 1, &b), HASHATTN_INVALID, "split is NULL");
    check_call(context, hashattn_model_evaluate(model, NULL, "test", 1, NULL), HASHATTN_INVALID,
               "evaluation");
    assert_int_equal(hashattn_model_evaluate(NULL, NULL, "test", 1, &b), HASHATTN_INVALID);
    hashattn_model_free(model);
    hashattn_context_free(context);
}

static void two_models_are_compared(void **state)
{
    (void)state;
    make_mail();
    hashattn_context *context = context_with(1, NULL);
    hashattn_model *model, *other;
    check_ok(context, hashattn_model_load(context, "filter", &model));
    check_ok(context, hashattn_model_load(context, "filter", &other));
    check_ok(context, hashattn_model_set(other, "num_hashes", "1"));
    hashattn_comparison found = {.struct_size = sizeof found};
    hashattn_evaluation a = {.struct_size = sizeof a}, b = {.struct_size = sizeof b};
    check_ok(context, hashattn_model_compare(model, other, NULL, "train", 5, &found));
    check_ok(context, hashattn_model_evaluate(model, NULL, "train", 5, &a));
    check_ok(context, hashattn_model_evaluate(other, NULL, "train", 5, &b));
    assert_int_equal(found.examples, 48);
    for (size_t i = 0; i < found.count; i++) {
        const hashattn_difference *of = &found.list[i];
        const hashattn_metric *metric = hashattn_metric_find(&a.metrics, of->name);
        check_near(of->value, metric->value, 1e-12, of->name);
        check_near(of->other, value(&b, of->name), 1e-12, of->name);
        check_near(of->difference, of->value - of->other, 0, of->name);
        assert_int_equal(of->more_is_better, metric->more_is_better);
        assert_int_equal(of->selects, metric->selects);
        double gain = of->more_is_better ? of->difference : -of->difference;
        assert_true(of->standard_error >= 0 && of->p >= 0 && of->p <= 1);
        if (of->standard_error > 0)
            check_near(of->z, gain / of->standard_error, 1e-12, of->name);
        if (strcmp(of->name, "loss") == 0)
            assert_true(of->difference != 0 && of->standard_error > 0);
    }
    assert_int_equal(found.count, 4); /* accuracy, f1, matthews, loss */
    hashattn_difference_info difference = {.struct_size = sizeof difference};
    for (size_t i = 0; i < found.count; i++) {
        assert_int_equal(hashattn_difference_get(&found, i, &difference), 1);
        assert_memory_equal(&difference.difference, &found.list[i], sizeof found.list[i]);
    }
    assert_int_equal(hashattn_difference_get(&found, found.count, &difference), 0);
    assert_int_equal(hashattn_difference_get(NULL, 0, &difference), 0);
    check_call(context, hashattn_model_compare(model, NULL, NULL, "train", 5, &found), HASHATTN_INVALID,
               "against is NULL");
    check_call(context, hashattn_model_compare(model, other, NULL, NULL, 5, &found), HASHATTN_INVALID,
               "split is NULL");
    check_call(context, hashattn_model_compare(model, other, NULL, "tset", 5, &found), HASHATTN_INVALID,
               "split is 'tset', allowed are train, valid, test");
    check_call(context, hashattn_model_compare(model, other, NULL, "train", 5, NULL), HASHATTN_INVALID,
               "comparison is NULL");
    assert_int_equal(hashattn_model_compare(NULL, other, NULL, "train", 5, &found), HASHATTN_INVALID);
    hashattn_model_free(other);
    hashattn_model_free(model);
    hashattn_context_free(context);
}

/* Predictions passed to the callback. */
struct heard {
    size_t documents, stop_at, best[8];
    float low[8];
};

static int hear(void *user, size_t document, size_t best, const float *probabilities)
{
    struct heard *heard = user;
    assert_int_equal(document, heard->documents);
    assert_true(probabilities[best] >= probabilities[1 - best]);
    check_near((double)probabilities[0] + (double)probabilities[1], 1, 1e-6, "sum of probabilities");
    heard->best[document] = best;
    heard->low[document] = probabilities[1];
    heard->documents++;
    return heard->documents == heard->stop_at;
}

static void documents_are_predicted_in_order(void **state)
{
    (void)state;
    make_mail();
    hashattn_context *context = context_with(2, NULL);
    hashattn_model *model;
    check_ok(context, hashattn_model_load(context, "filter", &model));
    write_text("documents.jsonl", "{\"text\": \"aaaaa\"}\n{\"text\": \"zzzz\", \"label\": \"low\"}\n"
                                  "{\"text\": \"zzzzyzzzzzzzzzzzzzzzzzzzzzzzz\"}\n{\"text\": \"zzzzz\"}\n");
    struct heard heard = {0};
    size_t num_cut = 99;
    check_ok(context, hashattn_model_predict_file(model, "documents.jsonl", 1, hear, &heard, &num_cut));
    assert_int_equal(heard.documents, 4);
    assert_int_equal(num_cut, 1);
    static const size_t want[] = {1, 0, 0, 0};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(heard.best[i], want[i]);
        assert_true((heard.low[i] > 0.5f) == (want[i] == 1));
    }
    heard = (struct heard){.stop_at = 2};
    check_call(context, hashattn_model_predict_file(model, "documents.jsonl", 1, hear, &heard, NULL),
               HASHATTN_INTERRUPTED, "stopped after document 2");
    check_call(context, hashattn_model_predict_file(model, "nowhere.jsonl", 1, hear, &heard, NULL),
               HASHATTN_BAD_FILE, "nowhere.jsonl");
    check_call(context, hashattn_model_predict_file(model, NULL, 1, hear, &heard, NULL), HASHATTN_INVALID,
               "path is NULL");
    check_call(context, hashattn_model_predict_file(model, "documents.jsonl", 1, NULL, NULL, NULL),
               HASHATTN_INVALID, "callback is NULL");
    assert_int_equal(hashattn_model_predict_file(NULL, "x", 1, hear, &heard, NULL), HASHATTN_INVALID);
    hashattn_model_free(model);
    hashattn_context_free(context);
}

/* The reports of one evaluation. */
struct watched {
    size_t calls, done, count, stop_at;
};

static int watch(void *user, size_t done, size_t count)
{
    struct watched *watched = user;
    assert_true(done > watched->done && done <= count);
    watched->done = done;
    watched->count = count;
    return ++watched->calls == watched->stop_at;
}

static void evaluations_are_watched_and_stopped(void **state)
{
    (void)state;
    make_mail();
    hashattn_context *context = context_with(1, NULL);
    hashattn_model *model;
    check_ok(context, hashattn_model_load(context, "filter", &model));
    hashattn_evaluation found = {.struct_size = sizeof found};
    struct watched watched = {0};
    hashattn_model_watch(model, watch, &watched);
    check_ok(context, hashattn_model_evaluate(model, NULL, "train", 1, &found));
    assert_int_equal(watched.calls, 6); /* 48 examples in batches of 8 */
    assert_int_equal(watched.done, 48);
    assert_int_equal(watched.count, 48);
    watched = (struct watched){.stop_at = 2};
    check_call(context, hashattn_model_evaluate(model, NULL, "train", 1, &found), HASHATTN_INTERRUPTED,
               "stopped after 16 of 48 examples");
    write_text("watched.jsonl", "{\"text\": \"aaaaa\"}\n{\"text\": \"zzzz\"}\n");
    struct heard heard = {0};
    watched = (struct watched){0};
    check_ok(context, hashattn_model_predict_file(model, "watched.jsonl", 1, hear, &heard, NULL));
    assert_int_equal(watched.done, 2);
    hashattn_model_watch(model, NULL, NULL);
    check_ok(context, hashattn_model_evaluate(model, NULL, "train", 1, &found));
    assert_int_equal(watched.calls, 1);
    hashattn_model_watch(NULL, watch, NULL);
    hashattn_model_free(model);
    hashattn_context_free(context);
}

static void options_may_differ_from_training(void **state)
{
    (void)state;
    make_mail();
    hashattn_context *context = context_with(1, NULL);
    hashattn_model *model;
    check_ok(context, hashattn_model_load(context, "filter", &model));
    hashattn_evaluation found = {.struct_size = sizeof found};
    double few, many;
    check_ok(context, hashattn_model_set(model, "num_hashes", "1"));
    check_ok(context, hashattn_model_evaluate(model, NULL, "train", 1, &found));
    few = value(&found, "loss");
    check_ok(context, hashattn_model_set(model, "num_hashes", "64"));
    check_ok(context, hashattn_model_evaluate(model, NULL, "train", 1, &found));
    many = value(&found, "loss");
    assert_true(few != many);
    check_call(context, hashattn_model_set(model, "num_hashes", "99999999"), HASHATTN_INVALID,
               "num_hashes is 99999999");
    check_call(context, hashattn_model_set(model, "dim", "7"), HASHATTN_INVALID, "yoso has no option 'dim'");
    check_call(context, hashattn_model_set(model, NULL, "7"), HASHATTN_INVALID, "name");
    check_call(context, hashattn_model_set(model, "num_hashes", NULL), HASHATTN_INVALID, "text");
    assert_int_equal(hashattn_model_set(NULL, "num_hashes", "1"), HASHATTN_INVALID);
    check_ok(context, hashattn_model_set(model, "gradient", "true"));
    check_call(context, hashattn_model_set(model, "hash_bits", "1"), HASHATTN_REFUSED,
               "gradient true needs hash_bits of at least 2");
    check_ok(context, hashattn_model_evaluate(model, NULL, "train", 1, &found));
    assert_true(value(&found, "loss") == many); /* unchanged by the refused options */
    hashattn_model_free(model);
    hashattn_context_free(context);
}

/* The sum of the probabilities of all documents weighted by their number: the bits depend on each. */
static int weigh(void *user, size_t document, size_t best, const float *probabilities)
{
    (void)best;
    *(double *)user += (double)(document + 1) * (double)probabilities[1];
    return 0;
}

/* Kernels that count how many tiles of the parameters are transposed: only packing does that. */
static struct kernels counted;
static const struct kernels *counting_for;
static const float *counted_from, *counted_to;
static size_t tiles_packed;

static void count_transpose(float *out, size_t ld_out, const float *in, size_t ld_in, size_t rows,
                            size_t cols)
{
    tiles_packed += in >= counted_from && in < counted_to;
    counting_for->tiles.transpose(out, ld_out, in, ld_in, rows, cols);
}

static hashattn_model *counted_model(hashattn_context *context)
{
    hashattn_model *model;
    check_ok(context, hashattn_model_load(context, "filter", &model));
    counted_from = model->values;
    counted_to = model->values + model_params(model->net)->total;
    tiles_packed = 0;
    return model;
}

/* The tiles that predicting a file packs. */
static size_t packed_for(hashattn_model *model, const char *path, double *sum)
{
    *sum = 0;
    tiles_packed = 0;
    check_ok(model->context, hashattn_model_predict_file(model, path, 1, weigh, sum, NULL));
    return tiles_packed;
}

static void weights_are_packed_once_until_an_option_changes(void **state)
{
    (void)state;
    enum { DOCUMENTS = 600 }; /* three parts */
    make_mail();
    FILE *file = fopen("parts.jsonl", "wb");
    for (int i = 0; i < DOCUMENTS; i++)
        fprintf(file, "{\"text\": \"%c%c%cz\"}\n", 'a' + i % 26, 'a' + i / 26 % 26, 'a' + i % 7);
    fclose(file);
    write_text("one.jsonl", "{\"text\": \"aaaaa\"}\n");
    hashattn_context_options options;
    hashattn_context_options_default(&options);
    options.threads = 1;
    options.precision = "bf16"; /* packs small weights too */
    hashattn_context *context;
    assert_int_equal(hashattn_context_new(&options, NULL, 0, &context), HASHATTN_OK);
    counting_for = context->kernels;
    counted = *counting_for;
    counted.tiles.transpose = count_transpose;
    context->kernels = &counted;
    double one, first, again, changed, fresh;
    hashattn_model *model = counted_model(context);
    size_t once = packed_for(model, "one.jsonl", &one);
    assert_true(once > 0);
    hashattn_model_free(model);
    model = counted_model(context);
    assert_int_equal(packed_for(model, "parts.jsonl", &first), once);
    hashattn_evaluation found = {.struct_size = sizeof found};
    check_ok(context, hashattn_model_evaluate(model, NULL, "train", 1, &found));
    assert_int_equal(tiles_packed, once);
    assert_int_equal(packed_for(model, "parts.jsonl", &again), 0);
    assert_true(again == first);
    check_ok(context, hashattn_model_set(model, "num_hashes", "2"));
    assert_int_equal(packed_for(model, "parts.jsonl", &changed), once);
    hashattn_model_free(model);
    model = counted_model(context);
    check_ok(context, hashattn_model_set(model, "num_hashes", "2"));
    assert_int_equal(packed_for(model, "parts.jsonl", &fresh), once);
    assert_true(changed == fresh && changed != first);
    hashattn_model_free(model);
    hashattn_context_free(context);
}

/* An option that changes tensors is refused, and the model works on. */
static void options_that_change_tensors_are_refused(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_model *model;
    hashattn_setup *setup = tiny_setup(context, "lha", 2);
    tiny_data(context, "buckets");
    check_ok(context, hashattn_train(setup, "buckets", "bucketed", NULL, NULL));
    hashattn_setup_free(setup);
    check_ok(context, hashattn_model_load(context, "bucketed", &model));
    hashattn_model_info info = {.struct_size = sizeof info};
    hashattn_evaluation before = {.struct_size = sizeof before}, after = before;
    hashattn_model_describe(model, &info);
    check_ok(context, hashattn_model_evaluate(model, NULL, "valid", 1, &before));
    double loss = value(&before, "loss");
    /* Three tensors per head, (head_dim 4, num_buckets 16), of two heads. */
    char want[100];
    snprintf(want, sizeof want, "with num_buckets 5 the model has %zu parameters, the trained one has %zu",
             info.num_params - (size_t)3 * 2 * 4 * (16 - 5), info.num_params);
    check_call(context, hashattn_model_set(model, "num_buckets", "5"), HASHATTN_INVALID, want);
    check_call(context, hashattn_model_set(model, "hash", "linear"), HASHATTN_INVALID, "with hash linear");
    check_ok(context, hashattn_model_evaluate(model, NULL, "valid", 1, &after));
    assert_true(value(&after, "loss") == loss);
    check_ok(context, hashattn_model_set(model, "hash_loss", "0"));
    hashattn_model_free(model);
    hashattn_context_free(context);
}

static void broken_runs_are_reported(void **state)
{
    (void)state;
    make_mail();
    hashattn_context *context = context_with(1, NULL);
    hashattn_model *model = (void *)context;
    check_call(context, hashattn_model_load(context, "nowhere", &model), HASHATTN_BAD_FILE,
               "nowhere/config.json: ");
    assert_null(model);
    check_call(context, hashattn_model_load(context, NULL, &model), HASHATTN_INVALID, "run is NULL");
    assert_int_equal(hashattn_model_load(NULL, "filter", &model), HASHATTN_INVALID);
    assert_int_equal(hashattn_model_load(context, "filter", NULL), HASHATTN_INVALID);
    assert_int_equal(rename("filter/model.safetensors", "kept"), 0);
    assert_int_equal(rename("filter/last.safetensors", "last"), 0);
    check_call(context, hashattn_model_load(context, "filter", &model), HASHATTN_BAD_FILE,
               "filter has no model.safetensors, and no parameters of step");
    assert_int_equal(rename("last", "filter/last.safetensors"), 0);
    write_text("filter/model.safetensors", "{}");
    check_call(context, hashattn_model_load(context, "filter", &model), HASHATTN_BAD_FILE,
               "filter/model.safetensors");
    assert_null(model);
    assert_int_equal(rename("kept", "filter/model.safetensors"), 0);
    tiny_data(context, "needles");
    hashattn_setup *setup = tiny_setup(context, "none", 2);
    check_ok(context, hashattn_train(setup, "needles", "finder", NULL, NULL));
    hashattn_setup_free(setup);
    check_ok(context, hashattn_model_load(context, "finder", &model));
    struct heard heard = {0};
    check_call(context, hashattn_model_predict_file(model, "needles/test.tsv", 1, hear, &heard, NULL),
               HASHATTN_REFUSED, "needle has no files of documents");
    hashattn_model_free(model);
    hashattn_context_free(context);
}

static void replace_in(const char *path, const char *from, const char *to)
{
    char text[8000] = "", changed[8000];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    const char *at = strstr(text, from);
    if (at == NULL)
        fail_msg("%s has no %s", path, from);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    write_text(path, changed);
}

/* A config that claims gigabytes is compared with the tensors of the file before anything is allocated. */
static void promises_take_no_memory(void **state)
{
    (void)state;
    make_mail();
    static const char *const changes[][2] = {
        {"\"dim\": 16", "\"dim\": 16384"},
        {"\"ffn\": 16", "\"ffn\": 65536"},
        {"\"layers\": 1", "\"layers\": 256"},
        {"\"max_len\": 16,\n      \"pairs\"", "\"max_len\": 16777216,\n      \"pairs\""},
        {"\"positions\": \"learned\"",
         "\"positions\": \"sinusoidal\""}, /* together with the last one: 16,777,216 rows */
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct failing_host counting;
        failing_host_init(&counting, -1);
        hashattn_context *context = context_with(1, &counting);
        hashattn_model *model;
        if (i < 4)
            assert_int_equal(system("rm -rf promising && cp -r filter promising"), 0);
        replace_in("promising/config.json", changes[i][0], changes[i][1]);
        check_call(context, hashattn_model_load(context, "promising", &model), HASHATTN_BAD_FILE,
                   "promising/model.safetensors: tensor '");
        assert_null(model);
        assert_true(counting.largest < 1 << 22);
        check_call(context, hashattn_train_resume(context, "promising", NULL, NULL), HASHATTN_BAD_FILE,
                   "promising/last.safetensors: tensor '");
        assert_true(counting.largest < 1 << 22);
        hashattn_context_free(context);
        assert_int_equal(counting.outstanding, 0);
    }
}

/* With sinusoidal positions no tensor confirms max_len. */
static void positions_are_made_for_the_data(void **state)
{
    (void)state;
    struct failing_host counting;
    failing_host_init(&counting, -1);
    hashattn_context *context = context_with(1, &counting);
    hashattn_evaluation evaluation = {.struct_size = sizeof evaluation};
    double loss[2];
    hashattn_model *model;
    tiny_data(context, "waves");
    hashattn_setup *setup = tiny_setup(context, "none", 2);
    check_ok(context, hashattn_setup_set(setup, "positions", "sinusoidal"));
    check_ok(context, hashattn_train(setup, "waves", "waving", NULL, NULL));
    hashattn_setup_free(setup);
    for (int i = 0; i < 2; i++) {
        if (i == 1)
            replace_in("waving/config.json", "\"max_len\": 8,\n      \"pairs\"",
                       "\"max_len\": 16777216,\n      \"pairs\"");
        check_ok(context, hashattn_model_load(context, "waving", &model));
        check_ok(context, hashattn_model_evaluate(model, NULL, "test", 1, &evaluation));
        assert_int_equal(evaluation.examples, 10);
        loss[i] = value(&evaluation, "loss"); /* read before the model and its metrics' names are freed */
        hashattn_model_free(model);
    }
    assert_true(loss[0] == loss[1]);
    assert_true(counting.largest < 1 << 22);
    hashattn_context_free(context);
}

/* Memberships passed to the callback. */
struct told {
    size_t count, stop_at, tokens;
    double utility, pairs;
};

static int tell(void *user, const hashattn_membership *m)
{
    static const char *const names[] = {"own", "lsh", "smyrf"};
    struct told *told = user;
    size_t at = told->count++, in = 0, best = 0;
    assert_true(m->sequence == at / 6 && m->layer == 0 && m->head == at / 3 % 2);
    assert_string_equal(m->membership, names[at % 3]);
    assert_string_equal(m->mechanism, "lsh");
    for (size_t i = 0; i < 5; i++)
        in += m->queries_in[i] + m->keys_in[i];
    for (size_t b = 0; b < m->num_buckets; b++)
        best += m->best_queries[b] + m->best_keys[b];
    assert_true(in == 2 * m->num_tokens && best == in && m->utility <= 1 + 1e-9 && m->bound <= 1 + 1e-9);
    told->tokens = m->num_tokens;
    told->utility += m->utility;
    told->pairs += m->pairs;
    return told->count == told->stop_at;
}

/* What a probe catches of a head that has no buckets itself. */
static int tell_probed(void *user, const hashattn_membership *m)
{
    assert_string_equal(m->mechanism, "yoso");
    assert_int_equal(m->num_buckets, 2);
    assert_true(m->utility <= 1 + 1e-9 && m->bound <= 1 + 1e-9);
    ++*(size_t *)user;
    return 0;
}

static void buckets_are_inspected(void **state)
{
    (void)state;
    make_mail();
    hashattn_context *context = context_with(2, NULL);
    hashattn_model *model;
    if (access("inspected", F_OK) != 0) {
        tiny_data(context, "pins");
        hashattn_setup *setup = tiny_setup(context, "lsh", 2);
        check_ok(context, hashattn_train(setup, "pins", "inspected", NULL, NULL));
        hashattn_setup_free(setup);
    }
    check_ok(context, hashattn_model_load(context, "inspected", &model));
    struct told told = {0}, all = {0}, one = {0}, other = {0};
    check_ok(context, hashattn_model_set(model, "num_buckets", "4"));
    check_ok(context, hashattn_model_inspect(model, NULL, "valid", 3, 1, tell, &told));
    assert_int_equal(told.count, 3 * 2 * 3);
    assert_int_equal(told.tokens, 8);
    check_ok(context, hashattn_model_inspect(model, NULL, "valid", 3, 2, tell, &other));
    assert_true(other.utility != told.utility);
    check_ok(context, hashattn_model_inspect(model, NULL, "valid", 0, 1, tell, &all));
    assert_int_equal(all.count, 10 * 2 * 3);
    check_ok(context, hashattn_model_set(model, "num_buckets", "1"));
    check_ok(context, hashattn_model_inspect(model, "pins", "test", 2, 1, tell, &one));
    check_near(one.utility, 12, 1e-9, "utility of one bucket");
    check_near(one.pairs, 12, 0, "pairs of one bucket");
    told = (struct told){.stop_at = 4};
    check_call(context, hashattn_model_inspect(model, NULL, "valid", 3, 1, tell, &told), HASHATTN_INTERRUPTED,
               "stopped");
    assert_int_equal(told.count, 4);
    check_call(context, hashattn_model_inspect(model, NULL, "tset", 3, 1, tell, &told), HASHATTN_INVALID,
               "split is 'tset'");
    check_call(context, hashattn_model_inspect(model, NULL, NULL, 3, 1, tell, &told), HASHATTN_INVALID,
               "split");
    check_call(context, hashattn_model_inspect(model, NULL, "valid", 3, 1, NULL, NULL), HASHATTN_INVALID,
               "callback is NULL");
    assert_int_equal(hashattn_model_inspect(NULL, NULL, "valid", 3, 1, tell, &told), HASHATTN_INVALID);
    hashattn_model_free(model);
    check_ok(context, hashattn_model_load(context, "filter", &model));
    check_call(context, hashattn_model_inspect(model, NULL, "valid", 3, 1, tell, &told), HASHATTN_REFUSED,
               "the model has attention yoso");
    hashattn_attention *probe, *exact;
    size_t probed = 0;
    hashattn_model_info info = {.struct_size = sizeof info};
    hashattn_model_describe(model, &info);
    assert_int_equal(info.has_buckets, 0);
    check_ok(context, hashattn_attention_new(context, "lha", &probe));
    check_ok(context, hashattn_attention_set(probe, "num_buckets", "2"));
    check_ok(context, hashattn_attention_new(context, "softmax", &exact));
    check_call(context, hashattn_model_probe(model, exact, 3), HASHATTN_REFUSED,
               "softmax has no buckets of tokens");
    check_ok(context, hashattn_model_probe(model, probe, 3));
    check_ok(context, hashattn_model_inspect(model, NULL, "valid", 2, 1, tell_probed, &probed));
    assert_true(probed > 0 && probed % (2 * 3) == 0);
    check_ok(context, hashattn_model_probe(model, NULL, 0));
    check_call(context, hashattn_model_inspect(model, NULL, "valid", 3, 1, tell, &told), HASHATTN_REFUSED,
               "the model has attention yoso");
    assert_int_equal(hashattn_model_probe(NULL, probe, 0), HASHATTN_INVALID);
    hashattn_attention_free(exact);
    hashattn_attention_free(probe);
    hashattn_model_free(model);
    hashattn_context_free(context);
}

static hashattn_status use_model(hashattn_context *context, void *user)
{
    (void)user;
    hashattn_model *model;
    struct heard heard = {0};
    hashattn_evaluation result = {.struct_size = sizeof result};
    hashattn_status status = hashattn_model_load(context, "filter", &model);
    if (status == HASHATTN_OK)
        status = hashattn_model_set(model, "num_hashes", "2");
    if (status == HASHATTN_OK)
        status = hashattn_model_evaluate(model, NULL, "test", 1, &result);
    if (status == HASHATTN_OK)
        status = hashattn_model_predict_file(model, "documents.jsonl", 1, hear, &heard, NULL);
    hashattn_model_free(model);
    return status;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    make_mail();
    write_text("documents.jsonl", "{\"text\": \"aaaaa\"}\n");
    check_every_failing_allocation(use_model, NULL);
}

int main(void)
{
    tiny_enter();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_describe_themselves),
        cmocka_unit_test(splits_are_those_of_the_training),
        cmocka_unit_test(two_models_are_compared),
        cmocka_unit_test(documents_are_predicted_in_order),
        cmocka_unit_test(evaluations_are_watched_and_stopped),
        cmocka_unit_test(options_may_differ_from_training),
        cmocka_unit_test(weights_are_packed_once_until_an_option_changes),
        cmocka_unit_test(buckets_are_inspected),
        cmocka_unit_test(options_that_change_tensors_are_refused),
        cmocka_unit_test(broken_runs_are_reported),
        cmocka_unit_test(promises_take_no_memory),
        cmocka_unit_test(positions_are_made_for_the_data),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tiny_leave();
    return failed;
}
