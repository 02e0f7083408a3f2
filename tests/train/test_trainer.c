/* Training as a whole on a tiny needle: stopping anywhere and resuming changes no bit, threads change no bit,
   accidents lose nothing that was saved, and errors are reported with the numbers.
   Bugs planted and caught: running means not saved, or not reset; the evaluation at the step of a stop left
   out; the optimiser's t, the batches or the random numbers of a step counted from the resume; the log not
   trimmed; gradients not zeroed; clipping or the cycling beta1 not passed on; the best model replaced at
   every evaluation, or by the larger loss; a failed last save or last model forgotten; nothing saved when the
   last evaluation fails; saves left out; data compared by count only; a loss that is not a number accepted;
   the directory of a run that never began left behind; a run that two processes train at a time; a run killed
   in its first save that cannot be resumed, or one that lost a file started anew; a best whose metric the
   file lacks never beaten, or beaten by anything; a mean logged as the loss of a step; a best model that was
   lost still defended, or left in the way; another run in the same place overwritten by a save or the log; a
   warning that replaces another of its moment; an extension in two files, of which a kill leaves one.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/evaluate_once.h"
#include "train/trainer.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "io/json.h"
#include "models/model_io.h"
#include "support/check.h"
#include "support/fake_clock.h"
#include "support/named_metric.h"
#include "support/trainer_case.h"
#include "train/checkpoint.h"

/* ---- bit for bit ---- */

static void stopping_anywhere_and_going_on_changes_nothing(void **state)
{
    (void)state;
    static const char *const mechanisms[] = {"yoso", "softmax", "yoso", "local*1,lha*1"};
    static const char *const others[][2] = {
        {"norm", "post"}, {"positions", "sinusoidal"}, {"schedule", "cosine"}, {"accumulate", "3"}};
    for (size_t k = 0; k < 4; k++) {
        struct small_run small;
        small_run_init(&small, mechanisms[k], 24, 3);
        small_run_set(&small, "steps", "20");
        for (size_t i = 0; k == 2 && i < sizeof others / sizeof others[0]; i++)
            small_run_set(&small, others[i][0], others[i][1]);
        small_run_set(&small, "precision", k != 1 ? "float32" : "bf16");
        if (k == 3) /* both have learned tensors of their own */
            small_run_set(&small, "relative", "true");
        struct watcher quiet = {.stop_at = -1};
        check_status(&small.host, train(&small, small.run, 2, &quiet, false), HASHATTN_OK, NULL);
        for (int64_t stop = 1; stop <= 20; stop += k == 0 ? 1 : 9) {
            for (int in_evaluation = 0; in_evaluation <= (stop % 4 == 0); in_evaluation++) {
                char run[80];
                small_run_path(&small, "stopped", run);
                struct watcher stopping = {.stop_at = stop, .in_evaluation = in_evaluation};
                check_status(&small.host, train(&small, run, 2, &stopping, false), HASHATTN_INTERRUPTED,
                             "stopped after step");
                struct watcher after = {.stop_at = -1};
                check_status(&small.host, train(&small, run, 2, &after, true), HASHATTN_OK, NULL);
                check_same_run(&small.host, small.run, run);
                small_run_remove(run);
            }
        }
        small_run_free(&small);
    }
}

static void kill_at_17(struct watcher *watcher, const struct train_event *event)
{
    (void)watcher;
    if (event->step == 17)
        raise(SIGKILL);
}

static void a_killed_run_goes_on_from_its_last_save(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "yoso", 24, 3);
    small_run_set(&small, "steps", "20");
    struct watcher quiet = {.stop_at = -1};
    check_status(&small.host, train(&small, small.run, 2, &quiet, false), HASHATTN_OK, NULL);
    char run[80];
    small_run_path(&small, "killed", run);
    pid_t child = fork();
    if (child == 0) {
        struct watcher killing = {.stop_at = -1, .act = kill_at_17};
        train(&small, run, 2, &killing, false);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    struct watcher after = {.stop_at = -1};
    check_status(&small.host, train(&small, run, 2, &after, true), HASHATTN_OK, NULL);
    assert_int_equal(after.last.step, 20);
    check_same_run(&small.host, small.run, run);
    small_run_free(&small);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "yoso", 24, 3);
    struct watcher one = {.stop_at = -1};
    check_status(&small.host, train(&small, small.run, 1, &one, false), HASHATTN_OK, NULL);
    for (int threads = 2; threads <= 3; threads++) {
        char run[80];
        small_run_path(&small, "threads", run);
        struct watcher more = {.stop_at = -1};
        check_status(&small.host, train(&small, run, threads, &more, false), HASHATTN_OK, NULL);
        check_same_run(&small.host, small.run, run);
        assert_int_equal(more.last.saved_bytes, one.last.saved_bytes);
        small_run_remove(run);
    }
    small_run_free(&small);
}

static void another_seed_is_another_run(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "none", 24, 3);
    struct watcher quiet = {.stop_at = -1};
    check_status(&small.host, train(&small, small.run, 1, &quiet, false), HASHATTN_OK, NULL);
    small_run_set(&small, "seed", "2");
    char run[80];
    small_run_path(&small, "other", run);
    check_status(&small.host, train(&small, run, 1, &quiet, false), HASHATTN_OK, NULL);
    size_t size;
    char *one = small_run_read(small.run, "last.safetensors", &size);
    char *two = small_run_read(run, "last.safetensors", &size);
    assert_true(memcmp(one, two, size) != 0);
    free(one);
    free(two);
    small_run_free(&small);
}

/* ---- events, and which model is kept ---- */

static void count_steps(struct watcher *watcher, const struct train_event *event)
{
    assert_int_equal(event->steps, 10);
    assert_true(event->step >= 1 && event->step <= 10);
    assert_true(event->seconds > 0 && event->tokens_per_second > 0 && event->learning_rate > 0);
    assert_true(event->saved_bytes > 0 && isfinite(watcher->loss));
    assert_true((event->best == NULL) == (event->step < 4 || (event->step == 4 && event->valid == NULL)));
}

static void events_tell_every_step_and_evaluation(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "yoso", 24, 3);
    struct watcher watcher = {.stop_at = -1, .act = count_steps};
    check_status(&small.host, train(&small, small.run, 2, &watcher, false), HASHATTN_OK, NULL);
    assert_int_equal(watcher.evaluations, 3);         /* steps 4, 8, 10 */
    assert_int_equal(watcher.events, 10 + 3 + 3 * 2); /* an evaluation of 7 examples has two batches of 5 */
    assert_int_equal(watcher.warnings, 0);
    assert_int_equal(watcher.last.step, 10);
    small_run_free(&small);
}

/* Seconds and rates at the end of each step; evaluations at step 9 and 10. */
struct times {
    double seconds[11], rate[11];
};

static void note_times(struct watcher *watcher, const struct train_event *event)
{
    struct times *times = watcher->user;
    if (event->valid == NULL && times->seconds[event->step] == 0) {
        times->seconds[event->step] = event->seconds;
        times->rate[event->step] = event->tokens_per_second;
    }
}

/* Every step reads the clock equally often, and a reading takes a quarter of a second. */
static void times_add_up(void **state)
{
    (void)state;
    struct small_run small;
    struct times times = {{0}, {0}};
    struct watcher watcher = {.stop_at = -1, .act = note_times, .user = &times};
    small_run_init(&small, "none", 24, 3);
    small_run_set(&small, "eval_every", "9");
    fake_clock_tick = 0.25;
    hashattn_status status = train(&small, small.run, 1, &watcher, false);
    fake_clock_tick = 0;
    check_status(&small.host, status, HASHATTN_OK, NULL);
    double step = times.seconds[1];
    assert_true(step > 0);
    for (int i = 1; i <= 9; i++) {
        check_near(times.seconds[i], i * step, 0, "seconds");
        check_near(times.rate[i], times.rate[1], 0, "tokens per second");
    }
    assert_true(times.seconds[10] > 10 * step); /* with the evaluation at step 9 */
    check_near(times.rate[10], times.rate[1], 0, "the rate of one step");
    assert_true(watcher.last.seconds > times.seconds[10]); /* with the one at step 10 */
    small_run_free(&small);
}

static void running_means_begin_anew_after_an_evaluation(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "none", 24, 3);
    small_run_set(&small, "eval_every", "9");
    struct watcher stopping = {.stop_at = 10};
    check_status(&small.host, train(&small, small.run, 1, &stopping, false), HASHATTN_INTERRUPTED, NULL);
    /* Step 10 is the only one since the evaluation; the log has its own loss. */
    size_t size;
    char *log = small_run_read(small.run, "log.jsonl", &size), *at = log;
    double loss = NAN;
    for (struct json *record; (record = next_record(&small.host, &at)) != NULL; json_free(record))
        if (json_find(record, "loss") != NULL)
            check_status(&small.host, json_get_real(&small.host, record, "loss", &loss), HASHATTN_OK, NULL);
    check_near(stopping.loss, loss, 1e-5 * loss, "loss"); /* logits in float, summed twice */
    free(log);
    small_run_free(&small);
}

static void the_first_step_has_the_rates_of_the_schedule(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "none", 24, 3);
    small_run_set(&small, "beta2", "0.99");
    struct watcher stopping = {.stop_at = 1};
    check_status(&small.host, train(&small, small.run, 1, &stopping, false), HASHATTN_INTERRUPTED, NULL);
    check_near(stopping.last.learning_rate, 0.01 / 25, 1e-18, "rate");
    /* After one step m = (1 - beta1) g and v = (1 - beta2) g^2; beta1 cycles from .95. */
    struct host *host = &small.host;
    struct model *model;
    void *memory;
    check_status(host, model_new(host, &small.config.model, &model), HASHATTN_OK, NULL);
    const struct params *params = model_params(model);
    check_status(host, memory_new(host, 3 * params->total, sizeof(float), "blocks", &memory), HASHATTN_OK,
                 NULL);
    const struct train_blocks blocks = {memory, (float *)memory + params->total,
                                        (float *)memory + 2 * params->total};
    struct train_state loaded;
    check_status(host, checkpoint_load(host, small.run, model, &blocks, &loaded), HASHATTN_OK, NULL);
    size_t compared = 0;
    double norm2 = 0;
    for (size_t i = 0; i < params->total; i++) {
        double m = (double)blocks.m[i], v = (double)blocks.v[i];
        norm2 += pow(m / 0.05, 2);
        if (fabs(m) < 1e-6) /* v of smaller ones is near the end of the range of floats */
            continue;
        check_near(m * m / v, 0.05 * 0.05 / 0.01, 0.25 * 1e-4, "m^2 / v"); /* 1 - .99f is off by 1e-6 */
        compared++;
    }
    assert_true(compared > 100);
    check_near(sqrt(norm2), 0.5, 1e-5, "norm of the clipped gradient");
    memory_free(host, memory);
    model_free(host, model);
    small_run_free(&small);
}

static void the_best_model_is_what_is_kept(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "softmax", 24, 6);
    static const char *const settings[][2] = {
        {"steps", "60"}, {"eval_examples", "0"}, {"clip", "0"}, {"dropout", "0"}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        small_run_set(&small, settings[i][0], settings[i][1]);
    struct watcher watcher = {.stop_at = -1};
    check_status(&small.host, train(&small, small.run, 2, &watcher, false), HASHATTN_OK, NULL);
    /* Among all evaluations in the log, the first with the best accuracy, then loss. */
    size_t size;
    char *log = small_run_read(small.run, "log.jsonl", &size), *at = log;
    double best_accuracy = -1, best_loss = 0;
    int better_by_loss = 0, not_better = 0; /* both must happen, otherwise this tests nothing */
    for (struct json *record; (record = next_record(&small.host, &at)) != NULL; json_free(record)) {
        double accuracy, loss;
        if (json_find(record, "valid_loss") == NULL)
            continue;
        check_status(&small.host, json_get_real(&small.host, record, "valid_accuracy", &accuracy),
                     HASHATTN_OK, NULL);
        check_status(&small.host, json_get_real(&small.host, record, "valid_loss", &loss), HASHATTN_OK, NULL);
        bool equal = accuracy == best_accuracy;
        if (accuracy > best_accuracy || (equal && loss < best_loss)) {
            best_accuracy = accuracy;
            best_loss = loss;
            better_by_loss += equal;
            not_better = 0;
        } else {
            not_better++;
        }
    }
    free(log);
    assert_true(better_by_loss > 0 && not_better > 0);
    assert_true(watcher.best_accuracy == best_accuracy);
    /* The file reproduces these numbers. */
    const char *why;
    struct train_setup setup = {.kernels = kernels_named("auto", &why)};
    struct model *model;
    struct dataset valid;
    struct evaluation found;
    void *values;
    struct host *host = &small.host;
    char path[160];
    snprintf(path, sizeof path, "%s/model.safetensors", small.run);
    check_status(host, pool_new(host, 1, &setup.pool), HASHATTN_OK, NULL);
    check_status(host, model_new(host, &small.config.model, &model), HASHATTN_OK, NULL);
    const struct params *params = model_params(model);
    check_status(host, memory_new_zeroed(host, params->total, sizeof(float), "values", &values), HASHATTN_OK,
                 NULL);
    const struct model_block block = {"", values, NULL};
    check_status(host, model_load(host, path, params, &block, 1), HASHATTN_OK, NULL);
    small_run_load(&small, SPLIT_VALID, &valid);
    check_status(host, evaluate_once(host, &setup, model, values, &valid, 5, 1, NULL, &found), HASHATTN_OK,
                 NULL);
    assert_true(metric_named(model, found.metrics, "accuracy") == best_accuracy);
    assert_true(metric_named(model, found.metrics, "loss") == best_loss);
    dataset_free(host, &valid);
    memory_free(host, values);
    model_free(host, model);
    pool_free(host, setup.pool);
    small_run_free(&small);
}

/* The loss in the log is that of its step, not a mean. */
static void the_log_has_the_loss_of_its_step(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "none", 24, 3);
    struct watcher quiet = {.stop_at = -1};
    check_status(&small.host, train(&small, small.run, 1, &quiet, false), HASHATTN_OK, NULL);
    size_t size;
    double loss = NAN;
    char *log = small_run_read(small.run, "log.jsonl", &size), *at = log;
    for (struct json *record; (record = next_record(&small.host, &at)) != NULL; json_free(record))
        if (json_find(record, "loss") != NULL)
            check_status(&small.host, json_get_real(&small.host, record, "loss", &loss), HASHATTN_OK, NULL);
    /* The means of steps 9, and 9 and 10, which follow the evaluation of step 8. */
    check_near(loss, 2 * quiet.loss - quiet.loss_before, 1e-12 * loss, "loss of step 10");
    assert_true(fabs(loss - quiet.loss) > 1e-3);
    free(log);
    small_run_free(&small);
}

/* A run of an older version has fewer metrics of its best model: those it has decide. */
static void a_best_without_a_metric_is_compared_by_the_others(void **state)
{
    (void)state;
    for (int beaten = 0; beaten < 2; beaten++) {
        struct small_run small;
        small_run_init(&small, "none", 24, 3);
        struct watcher stopping = {.stop_at = 5}, after = {.stop_at = -1};
        check_status(&small.host, train(&small, small.run, 1, &stopping, false), HASHATTN_INTERRUPTED, NULL);
        replace_member(small.run, "best_accuracy", "best_of_old", "1");
        replace_member(small.run, "best_loss", "best_loss", beaten ? "1000" : "0.001");
        size_t size;
        char *before = small_run_read(small.run, "model.safetensors", &size);
        check_status(&small.host, train(&small, small.run, 1, &after, true), HASHATTN_OK, NULL);
        char *now = small_run_read(small.run, "model.safetensors", &size);
        assert_int_equal(memcmp(before, now, size) != 0, beaten);
        assert_int_equal(isfinite(after.best_accuracy) != 0, beaten);
        free(before);
        free(now);
        small_run_free(&small);
    }
}

/* ---- refusals ---- */

static void an_existing_run_is_refused_and_untouched(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "none", 24, 3);
    struct watcher quiet = {.stop_at = -1};
    check_status(&small.host, file_make_directory(&small.host, small.run, false), HASHATTN_OK, NULL);
    check_status(&small.host, train(&small, small.run, 1, &quiet, false), HASHATTN_INVALID, "exists");
    assert_int_equal(rmdir(small.run), 0); /* still empty */
    small_run_free(&small);
}

static void changed_data_are_refused_with_both_numbers(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "none", 24, 3);
    struct watcher stopping = {.stop_at = 4}, quiet = {.stop_at = -1};
    check_status(&small.host, train(&small, small.run, 1, &stopping, false), HASHATTN_INTERRUPTED, NULL);
    static const size_t counts[2][SPLIT_COUNT] = {{40, 11, 7}, {41, 12, 7}};
    static const char *const parts[2] = {"validation set is not the one the run began with: then 12 examples",
                                         "now 41"};
    for (size_t i = 0; i < 2; i++) {
        small_run_generate(&small, counts[i], 3);
        check_status(&small.host, train(&small, small.run, 1, &quiet, true), HASHATTN_BAD_FILE, parts[i]);
    }
    /* The same counts, other tokens. */
    static const size_t same[SPLIT_COUNT] = {40, 12, 7};
    small_run_generate(&small, same, 4);
    check_status(&small.host, train(&small, small.run, 1, &quiet, true), HASHATTN_BAD_FILE, "training set");
    small_run_free(&small);
}

static void impossible_requests_are_refused(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "none", 24, 3);
    struct watcher quiet = {.stop_at = -1};
    small_run_set(&small, "warmup", "11");
    check_status(&small.host, train(&small, small.run, 1, &quiet, false), HASHATTN_INVALID,
                 "warmup is 11, at most the 10 steps");
    small_run_set(&small, "warmup", "3");
    strcpy(small.config.data, "/nowhere");
    check_status(&small.host, train(&small, small.run, 1, &quiet, false), HASHATTN_BAD_FILE, "/nowhere");
    check_status(&small.host, train(&small, small.run, 1, &quiet, true), HASHATTN_BAD_FILE, "config.json");
    assert_false(file_exists(small.run));
    assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0); /* what was never locked is not released */
    small_run_free(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopping_anywhere_and_going_on_changes_nothing),
        cmocka_unit_test(a_killed_run_goes_on_from_its_last_save),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(another_seed_is_another_run),
        cmocka_unit_test(events_tell_every_step_and_evaluation),
        cmocka_unit_test(times_add_up),
        cmocka_unit_test(running_means_begin_anew_after_an_evaluation),
        cmocka_unit_test(the_first_step_has_the_rates_of_the_schedule),
        cmocka_unit_test(the_best_model_is_what_is_kept),
        cmocka_unit_test(the_log_has_the_loss_of_its_step),
        cmocka_unit_test(a_best_without_a_metric_is_compared_by_the_others),
        cmocka_unit_test(an_existing_run_is_refused_and_untouched),
        cmocka_unit_test(changed_data_are_refused_with_both_numbers),
        cmocka_unit_test(impossible_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
