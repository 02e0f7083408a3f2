/* The state of a run on disk: last.safetensors (values), optimizer.safetensors (both moments) and
   trainer.json (everything else). They belong together and carry their step number. A save may be killed at
   any moment. It writes last.safetensors.next and optimizer.safetensors.next, then replaces trainer.json:
   this one rename makes the new state the current one. Only then are the two .next files renamed. A load
   reads trainer.json and, for each of the other two, reads the file or its .next, whichever has the same
   step. So it finds the old state or the new one, complete, after a kill between any two system calls; after
   a full disk it finds the old one.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "base/file.h"
#include "models/model.h"
#include "train/fingerprint.h"

enum { CHECKPOINT_NAME = 64 };

/* Where the parameters of a run are. */
struct run_values {
    char path[FILE_PATH];
    int64_t last_step; /* -1: the best model on validation; else the last saved ones, of this step */
};

struct train_state {
    int64_t step;               /* steps done; also the t of AdamW */
    int64_t evaluated;          /* the step of the last evaluation; -1 before the first */
    int64_t best_step;          /* the step of model.safetensors; -1: no such file yet */
    double best[MODEL_METRICS]; /* metrics of that model; NaN before the first */
    /* Sums since the last evaluation. */
    double running[MODEL_SUMS];
    uint64_t running_tokens;
    double running_seconds;
    double seconds; /* of the whole run, without pauses */
    struct fingerprint train, valid;
    char kernels[CHECKPOINT_NAME], product[CHECKPOINT_NAME]; /* used so far; others change bits */
};

/* The three blocks of a training: params->total floats each. */
struct train_blocks {
    float *values, *m, *v;
};

/* Parses a trainer.json. The model names metrics and sums; one that the file lacks is NaN or 0. */
hashattn_status train_state_parse(struct host *host, const char *text, size_t size, const struct model *model,
                                  struct train_state *state);

hashattn_status checkpoint_save(struct host *host, const char *run, const struct model *model,
                                const struct train_blocks *blocks, const struct train_state *state);
/* BAD_FILE, with names and steps, if there is no complete state. */
hashattn_status checkpoint_load(struct host *host, const char *run, const struct model *model,
                                const struct train_blocks *blocks, struct train_state *state);
/* Checks that the files of the state have the tensors that checkpoint_load reads, before any block is
   allocated. */
hashattn_status checkpoint_check(struct host *host, const char *run, const struct model *model);

/* Finds stopped.safetensors, a better model that was evaluated when the run was stopped, or
   model.safetensors, or without it, as in a run stopped before its first evaluation, the last saved
   parameters, also if trainer.json is lost. Only reads. BAD_FILE if the run has neither. */
hashattn_status run_values_find(struct host *host, const char *run, struct run_values *found);

#endif
