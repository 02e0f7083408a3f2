/* Internals of the trainer (train/trainer.h): its state, and the functions that begin.c, loop.c and telling.c
   share.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_TRAINER_PARTS_H
#define TRAIN_TRAINER_PARTS_H

#include "comm/comm.h"
#include "train/checkpoint.h"
#include "train/run_folder.h"
#include "train/start/origin.h"
#include "train/step.h"
#include "train/trainer.h"

struct trainer {
    struct host *host;
    const struct train_setup *setup;
    struct run_config *config;
    const struct train_options *options; /* of config */
    const char *run;

    struct lock lock;
    struct stepper stepper;
    struct dataset valid;
    size_t num_valid;      /* examples per evaluation */
    uint32_t *drawn;       /* (num_valid) which; NULL: the first */
    int64_t extended_from; /* the steps of the run before a resumption with other steps; 0: none */

    struct train_state state;
    struct train_event event;
    bool changed;      /* the state on disk is older */
    bool stop;         /* the callback asked to stop */
    char warning[960]; /* for the next event; empty: none */
    char note[960];    /* the same */
    struct origin_report origin;
};

static inline struct comm *comm_of_run(const struct trainer *t)
{
    return t->setup->comm;
}

/* Rank 0 owns the directory of the run. */
static inline bool is_writer(const struct trainer *t)
{
    return comm_rank(comm_of_run(t)) == 0;
}

/* Done by rank 0; all ranks return its status. */
static inline hashattn_status by_writer(struct trainer *t, hashattn_status (*work)(struct trainer *t))
{
    return comm_agree(t->host, comm_of_run(t), is_writer(t) ? work(t) : HASHATTN_OK);
}

static inline struct train_blocks saved_blocks(const struct trainer *t)
{
    return (struct train_blocks){
        .values = t->stepper.values, .m = t->stepper.optim.m, .v = t->stepper.optim.v};
}

/* INVALID: the run was replaced meanwhile. Rank 0 asks before it writes a state, a model or a record. */
static inline hashattn_status trainer_check_lock(const struct trainer *t)
{
    return run_folder_check_lock(t->host, t->run, &t->lock);
}

/* ---- loop.c ---- */

/* FAILED if a number of the state is not finite: it must not replace the last good state. */
hashattn_status trainer_check_finite(struct trainer *t);
/* Writes the state; of rank 0. */
hashattn_status trainer_write_state(struct trainer *t);
/* Trains until the last step or until the callback stops it, and saves. */
hashattn_status trainer_loop(struct trainer *t);

/* ---- telling.c ---- */

/* The message of the host is added to the warning of the next event. */
void trainer_warn(struct trainer *t);
/* Calls the callback. */
void trainer_tell(struct trainer *t);
/* Records of log.jsonl, written by rank 0. what: "start" or "resume". */
void trainer_log_visit(struct trainer *t, const char *what);
void trainer_log_step(struct trainer *t, double loss, double norm);
void trainer_log_evaluation(struct trainer *t, const struct evaluation *found);

#endif
