/* What a training leaves besides its results: the records of the log, the metadata of its files, warnings,
   and the profile. Covers: telling.c. Bugs planted and caught: training-only metrics logged for evaluations,
   or own losses not logged; a profile that is not begun before a save or an evaluation; names of kernels and
   library exchanged in the warning, or no warning.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "io/json.h"
#include "kernels/product.h"
#include "support/check.h"
#include "support/trainer_case.h"

/* The member with that name, which may have dots; NULL if there is none. */
static const struct json *member_of(const struct json *record, const char *key)
{
    for (struct json_member member = json_first(record); member.key != NULL; member = json_next(member))
        if (strcmp(member.key, key) == 0)
            return member.value;
    return NULL;
}

/* Fails unless the record has these members in this order, all of them finite numbers, words or lists. */
static void check_members(struct host *host, const struct json *record, const char *const *want)
{
    size_t i = 0;
    for (struct json_member member = json_first(record); member.key != NULL; member = json_next(member)) {
        double value = 0;
        assert_non_null(want[i]);
        assert_string_equal(member.key, want[i++]);
        if (json_text(member.value) == NULL && json_count(member.value) == 0)
            check_status(host, json_get_real(host, member.value, "", &value), HASHATTN_OK, NULL);
        assert_true(isfinite(value));
    }
    assert_null(want[i]);
}

static void check_number(struct host *host, const struct json *record, const char *key, double want)
{
    double value;
    assert_non_null(member_of(record, key));
    check_status(host, json_get_real(host, member_of(record, key), "", &value), HASHATTN_OK, NULL);
    check_near(value, want, 0, key);
}

/* Its sum is the number of examples, its trace that of the correct ones. */
static void check_confusion(const struct json *record)
{
    const struct json *rows = member_of(record, "confusion"), *row;
    double all = 0, correct = 0;
    for (size_t i = 0; (row = json_element(rows, i)) != NULL; i++) {
        assert_int_equal(json_count(row), json_count(rows));
        for (size_t k = 0; k < json_count(row); k++) {
            all += json_number(json_element(row, k));
            correct += i == k ? json_number(json_element(row, k)) : 0;
        }
    }
    check_near(correct / all, json_number(member_of(record, "valid_accuracy")), 1e-12, "confusion");
}

/* Evaluations do not have the mechanism's own loss. */
static void the_log_has_every_metric_by_name(void **state)
{
    (void)state;
    static const char *const of_start[] = {"step",  "event",   "isa",        "product", "precision",
                                           "ranks", "threads", "parameters", NULL};
    static const char *const of_step[] = {"step",
                                          "accuracy",
                                          "loss",
                                          "lha.own_loss",
                                          "learning_rate",
                                          "gradient_norm",
                                          "tokens_per_second",
                                          "seconds",
                                          "saved_bytes",
                                          "rss_bytes",
                                          NULL};
    static const char *const of_evaluation[] = {
        "step",           "mean_accuracy", "mean_loss",      "mean_lha.own_loss",
        "valid_accuracy", "valid_loss",    "valid_macro_f1", "valid_majority",
        "best_accuracy",  "best_loss",     "best_macro_f1",  "confusion",
        "valid_seconds",  "seconds",       "rss_bytes",      NULL};
    struct small_run small;
    struct json *start;
    struct model *model;
    small_run_init(&small, "lha", 24, 3);
    struct host *host = &small.host;
    struct watcher quiet = {.stop_at = -1};
    check_status(host, train(&small, small.run, 2, &quiet, false), HASHATTN_OK, NULL);
    size_t size, steps = 0, evaluations = 0;
    char *log = small_run_read(small.run, "log.jsonl", &size), *at = log;
    check_status(host, json_parse(host, log, strcspn(log, "\n"), &start), HASHATTN_OK, NULL);
    check_members(host, start, of_start);
    check_number(host, start, "step", 0);
    assert_string_equal(json_text(member_of(start, "event")), "start");
    assert_string_equal(json_text(member_of(start, "precision")), "float32");
    check_number(host, start, "threads", 2);
    check_status(host, model_new(host, &small.config.model, &model), HASHATTN_OK, NULL);
    check_number(host, start, "parameters", (double)params_count(model_params(model)));
    model_free(host, model);
    json_free(start);
    for (struct json *record; (record = next_record(host, &at)) != NULL; json_free(record)) {
        bool evaluated = member_of(record, "valid_seconds") != NULL;
        check_members(host, record, evaluated ? of_evaluation : of_step);
        if (evaluated)
            check_confusion(record);
        if (!evaluated) {
            check_number(host, record, "learning_rate", quiet.last.learning_rate);
            check_number(host, record, "saved_bytes", (double)quiet.last.saved_bytes);
        }
        steps += !evaluated;
        evaluations += evaluated;
    }
    free(log);
    assert_true(steps == 1 && evaluations == 3);
    small_run_free(&small);
}

/* Nothing is evaluated yet: the metrics of the best model are null. The best model names its mechanism. */
static void files_say_what_they_are(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "lha", 24, 3);
    small_run_set(&small, "eval_every", "1");
    small_run_set(&small, "eval_examples", "1");
    struct watcher stopping = {.stop_at = 1}, after = {.stop_at = -1};
    check_status(&small.host, train(&small, small.run, 1, &stopping, false), HASHATTN_INTERRUPTED, NULL);
    size_t size;
    char *text = small_run_read(small.run, "trainer.json", &size);
    static const char *const want[] = {"\"evaluated\": -1", "\"best_step\": -1", "\"best_accuracy\": null",
                                       "\"best_loss\": null"};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        if (strstr(text, want[i]) == NULL)
            fail_msg("trainer.json has no %s: %s", want[i], text);
    free(text);
    check_status(&small.host, train(&small, small.run, 1, &after, true), HASHATTN_OK, NULL);
    assert_int_equal(after.evaluations, 10);                 /* of steps 1 to 10 */
    assert_int_equal(after.events, 9 + 10 + 10 * 1);         /* an evaluation of one example has one batch */
    text = small_run_read(small.run, "trainer.json", &size); /* means begin anew after an evaluation */
    assert_true(strstr(text, "\"tokens\": 0,") != NULL && strstr(text, "\"seconds\": 0.0") != NULL);
    free(text);
    text = small_run_read(small.run, "model.safetensors", &size);
    if (strstr(text + 8, "{\"format\": \"pt\", \"mechanism\": \"lha\"}") == NULL)
        fail_msg("the metadata of the model: %.200s", text + 8);
    free(text);
    small_run_free(&small);
}

/* A log that cannot be written or trimmed is a warning only. */
static void a_lost_log_is_a_warning(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "none", 24, 3);
    struct watcher stopping = {.stop_at = 1}, after = {.stop_at = -1};
    check_status(&small.host, train(&small, small.run, 1, &stopping, false), HASHATTN_INTERRUPTED, NULL);
    assert_int_equal(stopping.warnings, 0);
    char path[160];
    snprintf(path, sizeof path, "%s/log.jsonl", small.run);
    assert_int_equal(unlink(path), 0);
    check_status(&small.host, file_make_directory(&small.host, path, false), HASHATTN_OK, NULL);
    check_status(&small.host, train(&small, small.run, 1, &after, true), HASHATTN_OK, NULL);
    /* Of the visit, which follows that of trimming; of three evaluations and of step 10. */
    assert_int_equal(after.warnings, 5);
    assert_int_equal(rmdir(path), 0);
    small_run_remove(small.run);
    check_status(&small.host, train(&small, small.run, 1, &stopping, false), HASHATTN_INTERRUPTED, NULL);
    assert_int_equal(truncate(path, (1 << 30) + 1), 0); /* more than is trimmed, but a line can be appended */
    after = (struct watcher){.stop_at = -1};
    check_status(&small.host, train(&small, small.run, 1, &after, true), HASHATTN_OK, NULL);
    assert_int_equal(after.warnings, 1);
    small_run_free(&small);
}

/* ---- the profile ---- */

static void sleep_once(struct watcher *watcher, const struct train_event *event)
{
    (void)watcher;
    if (event->step == 2)
        nanosleep(&(struct timespec){0, 100000000}, NULL);
}

/* Trains or resumes with a new profile. Its parts must not exceed the time of the call. */
static void check_profiled(struct small_run *small, struct watcher *watcher, bool resume, double *wall)
{
    const char *why;
    struct host *host = &small->host;
    struct train_setup setup = {.kernels = kernels_named("auto", &why), .callback = watch, .user = watcher};
    check_status(host, pool_new(host, 1, &setup.pool), HASHATTN_OK, NULL);
    check_status(host, profile_new(host, setup.pool, &setup.profile), HASHATTN_OK, NULL);
    double start = clock_seconds(), sum = 0;
    hashattn_status status = resume ? train_resume(host, &setup, small->run, 0)
                                    : train_run(host, &setup, &small->config, small->run);
    double elapsed = clock_seconds() - start;
    check_status(host, status, watcher->stop_at < 0 ? HASHATTN_OK : HASHATTN_INTERRUPTED, NULL);
    for (int p = 0; p < PROFILE_PARTS; p++)
        sum += wall[p] = setup.profile->wall[p];
    if (!(sum <= elapsed + 1e-6))
        fail_msg("the parts of the profile are %g s, the call took %g s", sum, elapsed);
    profile_free(host, setup.profile);
    pool_free(host, setup.pool);
}

/* A save, a step and an evaluation, each the first of its call. The callback of a step is part of saving. */
static void a_profile_has_the_time_of_its_run_only(void **state)
{
    (void)state;
    struct small_run small;
    double wall[PROFILE_PARTS];
    small_run_init(&small, "none", 24, 3);
    struct watcher first = {.stop_at = 1}, second = {.stop_at = 4, .in_evaluation = true, .act = sleep_once},
                   third = {.stop_at = -1};
    check_profiled(&small, &first, false, wall);
    assert_true(wall[PROFILE_SAVING] > 0 && wall[PROFILE_OPTIMISER] > 0 && wall[PROFILE_EVALUATION] == 0);
    check_profiled(&small, &second, true, wall);
    assert_true(wall[PROFILE_SAVING] >= 0.1 && wall[PROFILE_EVALUATION] > 0);
    check_profiled(&small, &third, true, wall);
    assert_true(wall[PROFILE_EVALUATION] > 0);
    small_run_free(&small);
}

static void keep_warning(struct watcher *watcher, const struct train_event *event)
{
    if (event->warning != NULL)
        snprintf(watcher->user, 512, "%s", event->warning);
}

/* Other kernels or another library round differently. The files then name those that went on. */
static void other_kernels_are_a_warning(void **state)
{
    (void)state;
    static const char *const changed[] = {"kernels", "product"};
    for (int i = 0; i < 2; i++) {
        struct small_run small;
        char warning[512] = "", want[512], product[64] = "", other[64] = "other";
        const char *why, *isa = kernels_named("auto", &why)->name;
        product_library(product, sizeof product);
        small_run_init(&small, "none", 24, 3);
        struct watcher stopping = {.stop_at = 1},
                       again = {.stop_at = 2, .act = keep_warning, .user = warning}, after = {.stop_at = -1};
        check_status(&small.host, train(&small, small.run, 1, &stopping, false), HASHATTN_INTERRUPTED, NULL);
        replace_member(small.run, changed[i], changed[i], i == 0 ? "\"other\"" : "\"other\"}"); /* the last */
        check_status(&small.host, train(&small, small.run, 1, &again, true), HASHATTN_INTERRUPTED, NULL);
        snprintf(
            want, sizeof want,
            "this run was computed with %s and %s and goes on with %s and %s: the last bits of its numbers "
            "will differ",
            i == 0 ? other : isa, i == 1 ? other : product, isa, product);
        assert_string_equal(warning, want);
        check_status(&small.host, train(&small, small.run, 1, &after, true), HASHATTN_OK, NULL);
        assert_true(again.warnings == 1 && after.warnings == 0);
        small_run_free(&small);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_log_has_every_metric_by_name),
        cmocka_unit_test(files_say_what_they_are),
        cmocka_unit_test(a_lost_log_is_a_warning),
        cmocka_unit_test(a_profile_has_the_time_of_its_run_only),
        cmocka_unit_test(other_kernels_are_a_warning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
