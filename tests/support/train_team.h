/* Ranks that train one run together, as threads: each has a config and a host of its own.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_TRAIN_TEAM_H
#define TESTS_SUPPORT_TRAIN_TEAM_H

#include "support/small_run.h"
#include "support/thread_ranks.h"

/* What every rank of a call does; each has a config and a host of its own, and all use the folder of the
   first. */
struct team {
    struct small_run members[MOST_RANKS];
    const char *run;
    int threads, size;
    bool resume;
    int stopper; /* the rank whose callback asks to stop, at step 5; -1: none */
    int poor;    /* the rank whose memory runs out at its allocation number `until`; -1: none */
    long until;
    hashattn_status status[MOST_RANKS];
    int64_t last_step[MOST_RANKS];
    uint64_t bytes_sent[MOST_RANKS];
};

/* 24 tokens with 3 marks, 8 shards, 2 batches of 11 per step; otherwise as small_run_init. */
void team_init(struct team *team, const char *mechanism);
void team_free(struct team *team);
/* Sets an option of all members. */
void team_set(struct team *team, const char *name, const char *value);
/* The body of a rank. */
void team_work(struct comm *comm, void *team);
/* All ranks train `name` in the folder of the first, or resume it, and end with the same status and
   message. */
hashattn_status train_team(struct team *team, int size, const char *name, bool resume);
/* The body of a rank: a step with the options of its member, whose values are NaN on rank 1. */
void team_step_to_nowhere(struct comm *comm, void *team);
/* The path of a run. */
void team_path(const struct team *team, const char *name, char path[80]);
/* Two runs have the same results and config.json: shards are recorded, ranks are not. */
void team_check_same(struct team *team, const char *one, const char *other);

/* What every rank evaluates: first values of seed 1, with evaluation seed 9. */
struct exam {
    struct small_run *small;
    const struct dataset *dataset;
    size_t batch;
    int64_t shared; /* sequence_parallel; 0: 1 */
    float *outputs[MOST_RANKS];
    struct evaluation found[MOST_RANKS];
};
/* The body of a rank. */
void exam_work(struct comm *comm, void *exam);

#endif
