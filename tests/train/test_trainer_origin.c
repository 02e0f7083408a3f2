/* Runs that start from another run: what the first report and the log say, resuming bit for bit without the
   directory, a process killed in its first save, frozen parameters, and epochs. Covers: begin.c step.c.
   Bugs planted and caught: the note sent with every event, or never; a resumed run that starts from the
   stored values again; a run killed in its first save that starts from the seed alone; frozen parameters
   decayed; freeze not read from config.json; epochs settled after the batches were reserved; the resumed run
   settled again; control characters of a path in the note; a path that is refused unnamed.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "io/json.h"
#include "io/weights/safetensors.h"
#include "support/check.h"
#include "support/trainer_case.h"

/* A small run with a model, and another config of the same architecture that starts from it. */
struct pair {
    struct small_run stored, small;
};

static void pair_init(struct pair *pair)
{
    struct watcher watcher = {.stop_at = 5};
    small_run_init(&pair->stored, "softmax", 8, 2);
    assert_int_equal(train(&pair->stored, pair->stored.run, 1, &watcher, false), HASHATTN_INTERRUPTED);
    small_run_init(&pair->small, "yoso", 8, 2);
    strcpy(pair->small.config.from, pair->stored.run);
    small_run_set(&pair->small, "dropout", "0.2");
}

static void pair_free(struct pair *pair)
{
    small_run_free(&pair->stored);
    small_run_free(&pair->small);
}

static void tensors_of(struct host *host, const char *run, const char *name, struct safetensors *file)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", run, name);
    check_status(host, safetensors_read(host, path, 1 << 20, file), HASHATTN_OK, NULL);
}

static bool same_tensor(const struct safetensors *a, const struct safetensors *b, const char *name)
{
    const struct tensor *one = safetensors_find(a, name), *two = safetensors_find(b, name);
    assert_true(one != NULL && two != NULL && one->bytes == two->bytes);
    return one->bytes == 0 || memcmp(one->data, two->data, one->bytes) == 0;
}

/* Counts the notes, and keeps the last. */
static void count_notes(struct watcher *watcher, const struct train_event *event)
{
    char *kept = watcher->user;
    if (event->note == NULL)
        return;
    kept[0]++;
    snprintf(kept + 1, 399, "%s", event->note);
}

static void the_start_is_reported_and_logged(void **state)
{
    (void)state;
    struct pair pair;
    char notes[400] = {0}, *log, want[200];
    size_t size;
    struct json *start;
    const char *text;
    pair_init(&pair);
    struct host *host = &pair.small.host;
    struct watcher watcher = {.stop_at = 6, .act = count_notes, .user = notes};
    assert_int_equal(train(&pair.small, pair.small.run, 2, &watcher, false), HASHATTN_INTERRUPTED);
    assert_int_equal(notes[0], 1);
    snprintf(want, sizeof want, "starts from %s: 24 tensors taken, 0 new, 0 dropped", pair.stored.run);
    if (strncmp(notes + 1, want, strlen(want)) != 0)
        fail_msg("note: %s", notes + 1);
    log = small_run_read(pair.small.run, "log.jsonl", &size);
    check_status(host, json_parse(host, log, strcspn(log, "\n"), &start), HASHATTN_OK, NULL);
    check_status(host, json_get_string(host, start, "from", &text), HASHATTN_OK, NULL);
    assert_string_equal(text, pair.stored.run);
    assert_true(json_count(json_find(start, "tensors_new")) == 0);
    assert_non_null(json_find(start, "tensors_dropped"));
    json_free(start);
    free(log);
    pair_free(&pair);
}

/* JSON holds UTF-8 only. */
static void paths_that_cannot_be_recorded_are_named(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "none", 8, 2);
    strcpy(small.config.from, "/a/\377(");
    check_status(&small.host, run_config_check(&small.host, &small.config), HASHATTN_INVALID,
                 "/a/?(: this path is not UTF-8, so config.json cannot record it as from; rename it");
    small.config.from[0] = '\0';
    strcpy(small.config.data, "/a/b\377d\n/data");
    check_status(&small.host, run_config_check(&small.host, &small.config), HASHATTN_INVALID,
                 "/a/b?d?/data: this path is not UTF-8, so config.json cannot record it as data; rename it");
    small_run_free(&small);
}

static void the_note_is_clean(void **state)
{
    (void)state;
    struct pair pair;
    char notes[400] = {0};
    pair_init(&pair);
    small_run_path(&pair.stored, "odd\033[2J", pair.small.config.from);
    assert_int_equal(rename(pair.stored.run, pair.small.config.from), 0);
    struct watcher watcher = {.stop_at = 1, .act = count_notes, .user = notes};
    assert_int_equal(train(&pair.small, pair.small.run, 1, &watcher, false), HASHATTN_INTERRUPTED);
    if (strstr(notes + 1, "/odd?[2J: 24 tensors") == NULL)
        fail_msg("note: %s", notes + 1);
    pair_free(&pair);
}

/* With the stored run in place, and after it was removed. */
static void check_resumed(enum precision precision)
{
    struct pair pair;
    char whole[80], parts[2][80], notes[400] = {0};
    pair_init(&pair);
    struct host *host = &pair.small.host;
    struct watcher quiet = {.stop_at = -1};
    small_run_path(&pair.small, "part", parts[0]);
    small_run_path(&pair.small, "other", parts[1]);
    small_run_path(&pair.small, "whole", whole);
    pair.small.config.model.precision = precision;
    strcpy(pair.small.config.freeze, "embeddings,encoder.layer.0.output");
    small_run_set(&pair.small, "epochs", "3.2"); /* 3.2 x 40 / 5 = 25.6 */
    const struct run_config before = pair.small.config;
    check_status(host, train(&pair.small, whole, 2, &quiet, false), HASHATTN_OK, NULL);
    assert_true(quiet.last.step == 26 && quiet.evaluations == 4);
    for (int i = 0; i < 2; i++) {
        struct watcher part = {.stop_at = 3};
        pair.small.config.training = before.training;
        assert_int_equal(train(&pair.small, parts[i], 2, &part, false), HASHATTN_INTERRUPTED);
    }
    for (int i = 0; i < 2; i++) {
        struct watcher rest = {.stop_at = -1, .act = count_notes, .user = notes};
        check_status(host, train(&pair.small, parts[i], 1, &rest, true), HASHATTN_OK, NULL);
        assert_int_equal(notes[0], 0);
        check_same_run(host, whole, parts[i]);
        small_run_remove(pair.stored.run);
    }
    pair_free(&pair);
}

/* In bf16 all weights are packed, those that are trained in every step. */
static void it_resumes_bit_for_bit_without_the_stored_run(void **state)
{
    (void)state;
    check_resumed(PRECISION_FLOAT32);
    check_resumed(PRECISION_BF16);
}

/* Without a state, the run starts anew: from the stored values. */
static void a_first_save_that_was_killed_starts_again(void **state)
{
    (void)state;
    static const char *const files[] = {"trainer.json",      "last.safetensors", "optimizer.safetensors",
                                        "model.safetensors", "log.jsonl",        NULL};
    struct pair pair;
    char killed[80], path[160];
    pair_init(&pair);
    struct host *host = &pair.small.host;
    struct watcher whole = {.stop_at = 6}, other = {.stop_at = 6}, again = {.stop_at = 6};
    small_run_path(&pair.small, "killed", killed);
    assert_int_equal(train(&pair.small, pair.small.run, 1, &whole, false), HASHATTN_INTERRUPTED);
    assert_int_equal(train(&pair.small, killed, 1, &other, false), HASHATTN_INTERRUPTED);
    for (size_t i = 0; files[i] != NULL; i++) {
        snprintf(path, sizeof path, "%s/%s", killed, files[i]);
        assert_int_equal(remove(path), 0);
    }
    assert_int_equal(train(&pair.small, killed, 1, &again, true), HASHATTN_INTERRUPTED);
    check_same_run(host, pair.small.run, killed);
    pair_free(&pair);
}

/* weight_decay is 0.01 and would change frozen values. */
static void frozen_parameters_keep_their_bits(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct host *host = &pair.small.host;
    struct watcher quiet = {.stop_at = -1};
    struct safetensors stored, trained, moments;
    strcpy(pair.small.config.freeze, "trunk,classifier.dense.bias");
    check_status(host, train(&pair.small, pair.small.run, 2, &quiet, false), HASHATTN_OK, NULL);
    tensors_of(host, pair.stored.run, "model.safetensors", &stored);
    tensors_of(host, pair.small.run, "last.safetensors", &trained);
    tensors_of(host, pair.small.run, "optimizer.safetensors", &moments);
    for (size_t i = 0; i < trained.count; i++) {
        const char *name = trained.tensors[i].name;
        bool moves = strncmp(name, "classifier.", 11) == 0 && strcmp(name, "classifier.dense.bias") != 0;
        char moment[120];
        assert_true(same_tensor(&stored, &trained, name) == !moves);
        snprintf(moment, sizeof moment, "v.%s", name);
        const struct tensor *squares = safetensors_find(&moments, moment);
        bool zero = true;
        assert_non_null(squares);
        for (size_t k = 0; k < squares->bytes; k++)
            zero &= ((const char *)squares->data)[k] == 0;
        assert_true(zero == !moves);
    }
    safetensors_free(host, &stored);
    safetensors_free(host, &trained);
    safetensors_free(host, &moments);
    pair_free(&pair);
}

static void a_start_that_fails_leaves_nothing(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct watcher quiet = {.stop_at = -1};
    strcpy(pair.small.config.from, "/no/such/run");
    check_status(&pair.small.host, train(&pair.small, pair.small.run, 1, &quiet, false), HASHATTN_BAD_FILE,
                 "cannot open /no/such/run");
    assert_false(file_exists(pair.small.run));
    strcpy(pair.small.config.freeze, "head");
    check_status(&pair.small.host, train(&pair.small, pair.small.run, 1, &quiet, false), HASHATTN_INVALID,
                 "freeze: no parameter is called 'head'");
    assert_false(file_exists(pair.small.run));
    pair_free(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_start_is_reported_and_logged),
        cmocka_unit_test(the_note_is_clean),
        cmocka_unit_test(paths_that_cannot_be_recorded_are_named),
        cmocka_unit_test(it_resumes_bit_for_bit_without_the_stored_run),
        cmocka_unit_test(a_first_save_that_was_killed_starts_again),
        cmocka_unit_test(frozen_parameters_keep_their_bits),
        cmocka_unit_test(a_start_that_fails_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
