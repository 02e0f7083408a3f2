/* Shared by the tests of the trainer: a callback that records and stops, training and resuming small runs,
   and comparing them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_TRAINER_CASE_H
#define TESTS_SUPPORT_TRAINER_CASE_H

#include "io/json.h"
#include "support/small_run.h"

struct watcher {
    int64_t stop_at;    /* step of the event that stops; -1: never */
    bool in_evaluation; /* stop only at the second event of the step */
    int events, evaluations, warnings;
    struct train_event last;                    /* its lists are no longer valid */
    double loss, valid_accuracy, best_accuracy; /* of the last event; NaN: none */
    double loss_before;                         /* at the step before */
    void (*act)(struct watcher *watcher, const struct train_event *event);
    void *user;
};

bool watch(void *user, const struct train_event *event);
hashattn_status train(struct small_run *small, const char *run, int threads, struct watcher *watcher,
                      bool resume);
void check_same_file(const char *a, const char *b, const char *name);
struct json *next_record(struct host *host, char **text);
void check_same_run(struct host *host, const char *a, const char *b);
/* Gives the member `key` of trainer.json another name and number. */
void replace_member(const char *run, const char *key, const char *name, const char *number);

#endif
