/* Generating, training and resuming through the public header. tests/train tests training itself; this file
   tests what the callback gets, that a stopped run is saved and continues bit for bit, and every error.
   Planted and caught: the callback's result ignored; the warning not passed on; the sizes of the data not
   applied to the model when a setup is used twice; a relative path recorded; counts of valid and test
   swapped; files of a run in the caller's locale; a training that counts as begun while it reads data, or
   after its end. Covers: metrics.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/locales.h"
#include "support/tiny_run.h"

/* What the callback received. */
struct seen {
    int calls, evaluations, stop_at, warnings, resumed;
    int64_t last_step;
    hashattn_progress last;       /* its lists are no longer valid */
    double loss, best, best_loss; /* last running loss; accuracy and loss of the best model */
};

static int watch(void *user, const hashattn_progress *progress)
{
    struct seen *seen = user;
    assert_int_equal(progress->struct_size, sizeof *progress);
    assert_true(progress->step >= seen->last_step && progress->step <= progress->steps);
    seen->calls++;
    seen->last_step = progress->step;
    seen->evaluations += progress->valid.count > 0;
    seen->warnings += progress->warning != NULL;
    seen->last = *progress;
    seen->loss = hashattn_metric_value(&progress->train, "loss");
    seen->best = hashattn_metric_value(&progress->best, "accuracy");
    seen->best_loss = hashattn_metric_value(&progress->best, "loss");
    const hashattn_metric *accuracy = hashattn_metric_find(&progress->train, "accuracy");
    assert_true(accuracy != NULL && accuracy->more_is_better && accuracy->selects == 1);
    assert_true(isnan(hashattn_metric_value(&progress->train, "majority")));
    assert_null(hashattn_metric_find(&progress->train, NULL));
    assert_null(hashattn_metric_find(NULL, "loss"));
    hashattn_metric_info info = {.struct_size = sizeof info};
    for (size_t i = 0; i < progress->train.count; i++) {
        assert_int_equal(hashattn_metric_get(&progress->train, i, &info), 1);
        assert_string_equal(info.metric.name, progress->train.list[i].name);
    }
    assert_int_equal(hashattn_metric_get(&progress->train, progress->train.count, &info), 0);
    assert_int_equal(hashattn_metric_get(NULL, 0, &info), 0);
    assert_true((progress->best.count > 0) == (seen->evaluations > 0 || seen->resumed));
    return seen->stop_at > 0 && progress->step >= seen->stop_at;
}

static void check_same_files(const char *a, const char *b)
{
    char *texts[2];
    long sizes[2];
    const char *const paths[] = {a, b};
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(paths[i], "rb");
        if (file == NULL)
            fail_msg("%s does not exist", paths[i]);
        fseek(file, 0, SEEK_END);
        sizes[i] = ftell(file);
        rewind(file);
        texts[i] = malloc((size_t)sizes[i]);
        assert_int_equal(fread(texts[i], 1, (size_t)sizes[i], file), sizes[i]);
        fclose(file);
    }
    assert_int_equal(sizes[0], sizes[1]);
    check_same_bits(texts[0], texts[1], (size_t)sizes[0], a);
    free(texts[0]);
    free(texts[1]);
}

static void a_stop_is_saved_and_gone_on_from(void **state)
{
    (void)state;
    hashattn_context *context = context_with(2, NULL);
    tiny_data(context, "data");
    hashattn_setup *setup = tiny_setup(context, "yoso", 6);
    struct seen whole = {0}, part = {.stop_at = 3}, rest = {.resumed = 1};
    check_ok(context, hashattn_train(setup, "data", "whole", watch, &whole));
    assert_int_equal(whole.last_step, 6);
    assert_int_equal(whole.evaluations, 3);
    assert_int_equal(whole.last.steps, 6);
    assert_true(whole.best >= 0 && whole.best <= 1 && whole.best_loss > 0);
    assert_true(whole.last.saved_bytes > 0 && whole.last.tokens_per_second > 0);
    assert_true(whole.loss > 0);
    check_call(context, hashattn_train(setup, "data", "part", watch, &part), HASHATTN_INTERRUPTED, NULL);
    assert_int_equal(part.last_step, 3);
    check_ok(context, hashattn_train_resume(context, "part", watch, &rest));
    assert_int_equal(rest.last_step, 6);
    check_same_files("whole/model.safetensors", "part/model.safetensors");
    check_same_files("whole/last.safetensors", "part/last.safetensors");
    check_ok(context, hashattn_train(setup, "data", "silent", NULL, NULL));
    check_same_files("whole/last.safetensors", "silent/last.safetensors");
    hashattn_setup_free(setup);
    hashattn_context_free(context);
}

/* What a signal handler would be told at each allocation of a training: until the folder of the run exists,
   and afterwards. */
struct asking {
    hashattn_context *context;
    const char *run;
    int reading, writing;                     /* allocations before and after the folder is there */
    int begun_while_reading, begun_otherwise; /* where the training counts as begun */
};

static void *ask_and_allocate(void *user, size_t alignment, size_t bytes)
{
    struct asking *asking = user;
    bool there = access(asking->run, F_OK) == 0;
    int begun = hashattn_context_is_training(asking->context);
    asking->reading += !there;
    asking->writing += there;
    asking->begun_while_reading += !there && begun;
    asking->begun_otherwise += there && begun;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void release(void *user, void *block)
{
    (void)user;
    free(block);
}

static int expect_training(void *user, const hashattn_progress *progress)
{
    assert_int_equal(hashattn_context_is_training(user), 1);
    return progress->step == 2;
}

static void a_training_begins_when_its_data_are_read(void **state)
{
    (void)state;
    struct asking asking = {.run = "asked"};
    hashattn_context_options options;
    hashattn_context_options_default(&options);
    options.threads = 1;
    options.allocate = ask_and_allocate;
    options.release = release;
    options.user = &asking;
    assert_int_equal(hashattn_context_is_training(NULL), 0);
    assert_int_equal(hashattn_context_new(&options, NULL, 0, &asking.context), HASHATTN_OK);
    hashattn_context *context = asking.context;
    tiny_data(context, "asked_data");
    hashattn_setup *setup = tiny_setup(context, "yoso", 4);
    asking.reading = 0;
    check_call(context, hashattn_train(setup, "asked_data", "asked", expect_training, context),
               HASHATTN_INTERRUPTED, NULL);
    assert_true(asking.reading > 10 && asking.begun_while_reading == 0);
    assert_true(asking.writing > 0 && asking.begun_otherwise == asking.writing);
    assert_int_equal(hashattn_context_is_training(context), 0);
    asking.writing = asking.begun_otherwise = 0; /* resuming reads first */
    check_ok(context, hashattn_train_resume(context, "asked", NULL, NULL));
    assert_true(asking.writing - asking.begun_otherwise > 10 && asking.begun_otherwise > 0);
    assert_int_equal(hashattn_context_is_training(context), 0);
    check_call(context, hashattn_train(setup, "asked_data", "asked", NULL, NULL), HASHATTN_INVALID, "exists");
    assert_int_equal(hashattn_context_is_training(context), 0);
    hashattn_setup_free(setup);
    hashattn_context_free(context);
}

/* Compares loss and accuracy of every step and evaluation in log.jsonl, but not times, which differ. */
static void check_log(const char *path, const char *like)
{
    FILE *files[] = {fopen(path, "r"), fopen(like, "r")};
    assert_true(files[0] != NULL && files[1] != NULL);
    char lines[2][2000];
    size_t reals = 0;
    while (fgets(lines[1], sizeof lines[1], files[1]) != NULL) {
        assert_non_null(fgets(lines[0], sizeof lines[0], files[0]));
        static const char *const keys[] = {"\"loss\": ", "\"accuracy\": ", "\"learning_rate\": "};
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            const char *want = strstr(lines[1], keys[k]), *got = strstr(lines[0], keys[k]);
            assert_int_equal(got != NULL, want != NULL);
            if (want == NULL)
                continue;
            size_t length = strcspn(want, ",}");
            reals += memchr(want, '.', length) != NULL;
            check_same_bits(got, want, length, keys[k]);
        }
    }
    assert_null(fgets(lines[0], sizeof lines[0], files[0]));
    assert_true(reals > 0);
    fclose(files[0]);
    fclose(files[1]);
}

static void a_run_is_the_same_in_every_locale(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    tiny_data(context, "numbers");
    hashattn_setup *setup = tiny_setup(context, "yoso", 12);
    check_ok(context, hashattn_setup_set(setup, "dropout", "0.25"));
    check_ok(context, hashattn_train(setup, "numbers", "dotted", NULL, NULL));
    for (const char *const *locale = foreign_locales; *locale != NULL; locale++) {
        char part[40], path[80];
        struct seen seen = {.stop_at = 6};
        locales_set(*locale);
        check_ok(context, hashattn_train(setup, "numbers", *locale, NULL, NULL));
        snprintf(part, sizeof part, "part_%s", *locale);
        check_call(context, hashattn_train(setup, "numbers", part, watch, &seen), HASHATTN_INTERRUPTED, NULL);
        check_ok(context, hashattn_train_resume(context, part, NULL, NULL));
        hashattn_model *model;
        check_ok(context, hashattn_model_load(context, part, &model));
        hashattn_model_free(model);
        locales_set("C");
        snprintf(path, sizeof path, "%s/config.json", *locale);
        check_same_files(path, "dotted/config.json");
        snprintf(path, sizeof path, "%s/log.jsonl", *locale);
        check_log(path, "dotted/log.jsonl");
        snprintf(path, sizeof path, "%s/last.safetensors", part);
        check_same_files(path, "dotted/last.safetensors");
    }
    hashattn_setup_free(setup);
    hashattn_context_free(context);
}

static void data_are_recorded_by_their_absolute_name(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    tiny_data(context, "some");
    hashattn_setup *setup = tiny_setup(context, "none", 2);
    check_ok(context, hashattn_train(setup, "./some/../some", "recorded", NULL, NULL));
    hashattn_model *model;
    check_ok(context, hashattn_model_load(context, "recorded", &model));
    hashattn_model_info info = {.struct_size = sizeof info};
    hashattn_model_describe(model, &info);
    char want[PATH_MAX];
    assert_non_null(realpath("some", want));
    assert_string_equal(info.data, want);
    hashattn_model_free(model);
    hashattn_setup_free(setup);
    hashattn_context_free(context);
}

static void a_setup_serves_twice(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    tiny_data(context, "short");
    hashattn_setup *setup = tiny_setup(context, "none", 2);
    check_ok(context, hashattn_setup_set(setup, "seq_len", "16"));
    const size_t counts[] = {40, 10, 10};
    check_ok(context, hashattn_setup_generate(setup, "longer", counts, 1));
    check_ok(context, hashattn_train(setup, "short", "first", NULL, NULL));
    check_ok(context, hashattn_train(setup, "longer", "second", NULL, NULL));
    static const struct {
        const char *run;
        size_t max_len;
    } want[] = {{"first", 8}, {"second", 16}};
    for (size_t i = 0; i < 2; i++) {
        hashattn_model *model;
        check_ok(context, hashattn_model_load(context, want[i].run, &model));
        hashattn_model_info info = {.struct_size = sizeof info};
        hashattn_model_describe(model, &info);
        assert_int_equal(info.max_len, want[i].max_len);
        hashattn_model_free(model);
    }
    hashattn_setup_free(setup);
    hashattn_context_free(context);
}

static void counts_are_of_their_splits(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_setup *setup = tiny_setup(context, "none", 2);
    const size_t counts[] = {30, 5, 7};
    check_ok(context, hashattn_setup_generate(setup, "counted", counts, 3));
    check_ok(context, hashattn_train(setup, "counted", "count", NULL, NULL));
    hashattn_model *model;
    check_ok(context, hashattn_model_load(context, "count", &model));
    static const char *const splits[] = {"train", "valid", "test"};
    for (size_t i = 0; i < 3; i++) {
        hashattn_evaluation result = {.struct_size = sizeof result};
        check_ok(context, hashattn_model_evaluate(model, NULL, splits[i], 0, &result));
        assert_int_equal(result.examples, counts[i]);
    }
    hashattn_model_free(model);
    hashattn_setup_free(setup);
    hashattn_context_free(context);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    tiny_data(context, "good");
    hashattn_setup *setup = tiny_setup(context, "yoso", 2), *text;
    const size_t counts[] = {1, 1, 1};
    check_call(context, hashattn_setup_generate(setup, "good", counts, 1), HASHATTN_INVALID,
               "exists already");
    check_call(context, hashattn_setup_generate(setup, NULL, counts, 1), HASHATTN_INVALID,
               "directory is NULL");
    check_call(context, hashattn_setup_generate(setup, "d", NULL, 1), HASHATTN_INVALID, "counts is NULL");
    check_ok(context, hashattn_setup_new(context, "text", &text));
    check_call(context, hashattn_setup_generate(text, "d", counts, 1), HASHATTN_REFUSED,
               "text cannot be generated");
    hashattn_setup_free(text);
    assert_int_equal(access("d", F_OK), -1);
    check_call(context, hashattn_train(setup, "nowhere", "run", NULL, NULL), HASHATTN_BAD_FILE,
               "cannot open nowhere: No such file");
    check_call(context, hashattn_train(setup, "good", "good", NULL, NULL), HASHATTN_INVALID,
               "good exists already");
    check_call(context, hashattn_train(setup, "good", NULL, NULL, NULL), HASHATTN_INVALID, "run is NULL");
    check_call(context, hashattn_train(setup, NULL, "run", NULL, NULL), HASHATTN_INVALID, "data is NULL");
    check_call(context, hashattn_train(setup, "good", "no/such/place", NULL, NULL), HASHATTN_NO_DISK,
               "no/such/place");
    check_call(context, hashattn_train_resume(context, "nowhere", NULL, NULL), HASHATTN_BAD_FILE, "nowhere");
    check_call(context, hashattn_train_resume(context, NULL, NULL, NULL), HASHATTN_INVALID, "run is NULL");
    check_ok(context, hashattn_setup_set(setup, "heads", "3"));
    check_call(context, hashattn_train(setup, "good", "run", NULL, NULL), HASHATTN_INVALID,
               "dim is 8, which is not a multiple of heads, 3");
    assert_int_equal(access("run", F_OK), -1);
    assert_int_equal(hashattn_train(NULL, "good", "run", NULL, NULL), HASHATTN_INVALID);
    assert_int_equal(hashattn_train_resume(NULL, "run", NULL, NULL), HASHATTN_INVALID);
    assert_int_equal(hashattn_setup_generate(NULL, "d", counts, 1), HASHATTN_INVALID);
    hashattn_setup_free(setup);
    hashattn_context_free(context);
}

/* A save that fails during training: the callback gets a warning. */
static int spoil(void *user, const hashattn_progress *progress)
{
    struct seen *seen = user;
    if (seen->calls == 0) /* no file can replace a directory */
        assert_int_equal(mkdir("spoiled/last.safetensors.next", 0777), 0);
    if (progress->warning != NULL && seen->warnings == 0)
        assert_int_equal(rmdir("spoiled/last.safetensors.next"), 0);
    return watch(user, progress);
}

static void a_failed_save_is_reported(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    tiny_data(context, "spoil");
    hashattn_setup *setup = tiny_setup(context, "none", 6);
    struct seen seen = {0};
    check_ok(context, hashattn_train(setup, "spoil", "spoiled", spoil, &seen));
    assert_true(seen.warnings > 0);
    hashattn_setup_free(setup);
    hashattn_context_free(context);
}

static hashattn_status train_one(hashattn_context *context, void *user)
{
    int *tries = user;
    char run[32];
    snprintf(run, sizeof run, "failing-%d", (*tries)++);
    hashattn_setup *setup;
    hashattn_status status = hashattn_setup_new(context, "needle", &setup);
    static const char *const options[][2] = {{"batch", "2"},     {"layers", "1"}, {"dim", "4"},
                                             {"heads", "1"},     {"ffn", "4"},    {"steps", "1"},
                                             {"num_hashes", "2"}};
    for (size_t i = 0; i < sizeof options / sizeof options[0] && status == HASHATTN_OK; i++)
        status = hashattn_setup_set(setup, options[i][0], options[i][1]);
    if (status == HASHATTN_OK)
        status = hashattn_train(setup, "little", run, NULL, NULL);
    hashattn_setup_free(setup);
    return status;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_setup *setup = tiny_setup(context, "none", 1);
    const size_t counts[] = {4, 2, 2};
    check_ok(context, hashattn_setup_generate(setup, "little", counts, 1));
    hashattn_setup_free(setup);
    hashattn_context_free(context);
    int tries = 0;
    check_memory_that_ends(train_one, &tries);
}

int main(void)
{
    locales_make();
    tiny_enter();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_is_saved_and_gone_on_from),
        cmocka_unit_test(a_training_begins_when_its_data_are_read),
        cmocka_unit_test(a_run_is_the_same_in_every_locale),
        cmocka_unit_test(data_are_recorded_by_their_absolute_name),
        cmocka_unit_test(a_setup_serves_twice),
        cmocka_unit_test(counts_are_of_their_splits),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(a_failed_save_is_reported),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tiny_leave();
    locales_remove();
    return failed;
}
