/* Records the events of a run, and compares the files of two runs record by record.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/trainer_case.h"

#include "base/file.h"
#include "base/memory.h"
#include "io/json.h"
#include "models/model_io.h"
#include "support/check.h"
#include "support/named_metric.h"
#include "train/checkpoint.h"
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

bool watch(void *user, const struct train_event *event)
{
    struct watcher *watcher = user;
    bool again = watcher->events > 0 && watcher->last.step == event->step;
    watcher->events++;
    watcher->evaluations += event->valid != NULL;
    watcher->warnings += event->warning != NULL;
    watcher->last = *event;
    watcher->loss_before = again ? watcher->loss_before : watcher->loss;
    watcher->loss = metric_named(event->model, event->train, "loss");
    watcher->valid_accuracy = metric_named(event->model, event->valid, "accuracy");
    watcher->best_accuracy = metric_named(event->model, event->best, "accuracy");
    if (watcher->act != NULL)
        watcher->act(watcher, event);
    return event->step == watcher->stop_at && (again || !watcher->in_evaluation);
}

/* One call of the trainer with its own pool: starts a run or continues one. */
hashattn_status train(struct small_run *small, const char *run, int threads, struct watcher *watcher,
                      bool resume)
{
    const char *why;
    struct train_setup setup = {.kernels = kernels_named("auto", &why), .callback = watch, .user = watcher};
    check_status(&small->host, pool_new(&small->host, threads, &setup.pool), HASHATTN_OK, NULL);
    hashattn_status status = resume ? train_resume(&small->host, &setup, run, 0)
                                    : train_run(&small->host, &setup, &small->config, run);
    pool_free(&small->host, setup.pool);
    return status;
}

/* ---- comparing runs ---- */

void check_same_file(const char *a, const char *b, const char *name)
{
    size_t size_a, size_b;
    char *bytes_a = small_run_read(a, name, &size_a), *bytes_b = small_run_read(b, name, &size_b);
    assert_int_equal(size_a, size_b);
    check_same_bits(bytes_a, bytes_b, size_a, name);
    free(bytes_a);
    free(bytes_b);
}

/* The members of trainer.json and of log records that measure time and memory. */
static bool is_measured(const char *key)
{
    static const char *const keys[] = {"seconds",       "tokens_per_second", "rss_bytes",
                                       "valid_seconds", "saved_bytes",       NULL};
    for (size_t i = 0; keys[i] != NULL; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

static void check_same_record(struct host *host, const struct json *a, const struct json *b)
{
    assert_int_equal(json_count(a), json_count(b));
    for (struct json_member m = json_first(a), n = json_first(b); m.key != NULL;
         m = json_next(m), n = json_next(n)) {
        assert_string_equal(m.key, n.key);
        if (json_first(m.value).key != NULL) {
            check_same_record(host, m.value, n.value);
        } else if (!is_measured(m.key)) {
            char *left, *right;
            size_t size;
            check_status(host, json_to_text(host, m.value, JSON_LINE, &left, &size), HASHATTN_OK, NULL);
            check_status(host, json_to_text(host, n.value, JSON_LINE, &right, &size), HASHATTN_OK, NULL);
            if (strcmp(left, right) != 0)
                fail_msg("%s: %s in one run, %s in the other", m.key, left, right);
            memory_free(host, left);
            memory_free(host, right);
        }
    }
}

struct json *next_record(struct host *host, char **text)
{
    while (**text != '\0') {
        char *end = strchr(*text, '\n');
        struct json *record;
        assert_non_null(end);
        check_status(host, json_parse(host, *text, (size_t)(end - *text), &record), HASHATTN_OK, NULL);
        *text = end + 1;
        if (json_find(record, "event") == NULL)
            return record;
        json_free(record);
    }
    return NULL;
}

void check_same_run(struct host *host, const char *a, const char *b)
{
    check_same_file(a, b, "last.safetensors");
    check_same_file(a, b, "optimizer.safetensors");
    check_same_file(a, b, "model.safetensors");
    check_same_file(a, b, "config.json");
    size_t size;
    char *one = small_run_read(a, "log.jsonl", &size), *two = small_run_read(b, "log.jsonl", &size);
    char *at_one = one, *at_two = two;
    for (;;) {
        struct json *left = next_record(host, &at_one), *right = next_record(host, &at_two);
        assert_true((left == NULL) == (right == NULL));
        if (left == NULL)
            break;
        check_same_record(host, left, right);
        json_free(left);
        json_free(right);
    }
    free(one);
    free(two);
    struct json *left, *right;
    char path[160];
    snprintf(path, sizeof path, "%s/trainer.json", a);
    check_status(host, json_read_file(host, path, &left), HASHATTN_OK, NULL);
    snprintf(path, sizeof path, "%s/trainer.json", b);
    check_status(host, json_read_file(host, path, &right), HASHATTN_OK, NULL);
    check_same_record(host, left, right);
    json_free(left);
    json_free(right);
}

void replace_member(const char *run, const char *key, const char *name, const char *number)
{
    size_t size;
    char quoted[60], path[160], *text = small_run_read(run, "trainer.json", &size);
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    snprintf(path, sizeof path, "%s/trainer.json", run);
    char *at = strstr(text, quoted);
    assert_non_null(at);
    char *rest = at + strcspn(at, ",");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%.*s\"%s\": %s%s", (int)(at - text), text, name, number, rest);
    fclose(file);
    free(text);
}
