/* Where a run stands, on disk: last.safetensors (values), optimizer.safetensors (both moments) and
   trainer.json (everything else), which belong together and carry the number of their step. A save may be
   killed at any moment. It writes last.safetensors.next and optimizer.safetensors.next, then replaces
   trainer.json: that one rename is the moment from which the new state is the state. Only then the two .next
   files take their places. A load reads trainer.json and takes, of each of the other two, the file or its
   .next, whichever is of the same step; so it finds the old state or the new one, whole, after a kill between
   any two system calls, and after a full disk the old one. SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "models/model.h"
#include "tasks/task.h"

enum { CHECKPOINT_NAME = 64 };

/* A data set, shortly: a run goes on with the data that it began with. */
struct fingerprint {
    uint64_t examples, tokens, hash;
};
struct fingerprint fingerprint_of(const struct dataset *dataset);

struct train_state {
    int64_t step;               /* steps done; also the t of AdamW */
    int64_t evaluated;          /* the step of the last evaluation; -1 before the first */
    int64_t best_step;          /* of what model.safetensors holds; -1: there is none yet */
    double best[MODEL_METRICS]; /* metrics of that model; NaN before the first */
    /* Since the last evaluation. */
    double running[MODEL_SUMS];
    uint64_t running_tokens;
    double running_seconds;
    double seconds; /* of the whole run, stops left out */
    struct fingerprint train, valid;
    char kernels[CHECKPOINT_NAME], product[CHECKPOINT_NAME]; /* what computed: other ones give other bits */
};

/* The three blocks of a training: floats of params->total each. */
struct train_blocks {
    float *values, *m, *v;
};

/* The text of a trainer.json. The model names metrics and sums: one that the file does not have is NaN or 0.
 */
hashattn_status train_state_parse(struct host *host, const char *text, size_t size, const struct model *model,
                                  struct train_state *state);

hashattn_status checkpoint_save(struct host *host, const char *run, const struct model *model,
                                const struct train_blocks *blocks, const struct train_state *state);
/* BAD_FILE with the names and steps where there is no whole state. */
hashattn_status checkpoint_load(struct host *host, const char *run, const struct model *model,
                                const struct train_blocks *blocks, struct train_state *state);
/* Whether the files of the state have the tensors that checkpoint_load reads, before there are blocks. */
hashattn_status checkpoint_check(struct host *host, const char *run, const struct model *model);

#endif
