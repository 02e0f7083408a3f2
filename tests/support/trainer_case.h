/* What the tests of the trainer share: a callback that looks and stops, training and resuming small runs, and
   comparing them. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_TRAINER_CASE_H
#define TESTS_SUPPORT_TRAINER_CASE_H

#include "io/json.h"
#include "support/small_run.h"

struct watcher {
    int64_t stop_at;    /* step of the event that stops; -1 never */
    bool in_evaluation; /* stop only when told the same step a second time */
    int events, evaluations, warnings;
    struct train_event last;                    /* its lists are gone */
    double loss, valid_accuracy, best_accuracy; /* of the last event; NaN: not told */
    double loss_before;                         /* at the step before it */
    void (*act)(struct watcher *watcher, const struct train_event *event);
    void *user;
};

bool watch(void *user, const struct train_event *event);
hashattn_status train(struct small_run *small, const char *run, int threads, struct watcher *watcher,
                      bool resume);
void check_same_file(const char *a, const char *b, const char *name);
struct json *next_record(struct host *host, char **text);
void check_same_run(struct host *host, const char *a, const char *b);

#endif
