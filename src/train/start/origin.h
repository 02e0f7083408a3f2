/* The stored model that a training starts from: a checkpoint of the transformers library or a run. It
   determines the architecture and the meaning of ids. Its tensors become initial values: those of the trunk,
   and those of objectives that the new model has too. Positions (YOSO's models for 4,096 tokens continue from
   those for 512): a longer table repeats the stored one, or its rows lie between those of the stored one; a
   shorter one is its start; the unused rows before the first position stay. Nothing is unpickled. Cost: the
   files are mapped, so a tensor is read once.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_ORIGIN_H
#define TRAIN_ORIGIN_H

#include "models/pretrained.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

struct origin {
    char directory[RUN_PATH]; /* absolute */
    struct pretrained files;  /* the tensors, and of a checkpoint also its config */
    struct run_config run;    /* of a run; otherwise run.task is NULL */
    int64_t last_step;        /* of a run: see struct run_values */
    struct model *model;      /* described, without values */
};

/* BAD_FILE, with the path: the directory is neither a checkpoint nor a run, a file is missing or broken, or
   tensors do not fit the config (all are named). On failure *origin is empty. */
hashattn_status origin_open(struct host *host, const char *directory, struct origin *origin);
void origin_close(struct host *host, struct origin *origin);

/* True if the stored model determines this option of a model. */
bool origin_fixes(const struct origin *origin, const struct option_row *row);
/* Copies the options of the architecture. A causal model stays causal. */
void origin_architecture(const struct origin *origin, struct model_config *model);
/* The plan of heads `mechanisms`, NULL: the stored one. Options that a stored mechanism has too keep the
   stored values. INVALID: `mechanisms` is no plan. On failure there is nothing to free. */
hashattn_status origin_plan(struct host *host, const struct origin *origin, const char *mechanisms,
                            struct head_plan *plan);

/* The facts of a task in the directory `data`, read with the stored tokenizer. Numbers of ids and segments
   become those of the stored model, and so does a list of words. A length that the task chooses (max_len 0)
   is at most the stored positions. INVALID, with both: the ids mean something
   else than those of the stored model, or are more. On failure *facts is empty. */
hashattn_status origin_facts(struct host *host, const struct origin *origin, const struct task *task,
                             const void *task_options, const char *data, struct task_facts *facts);

/* What became of the tensors. */
struct origin_report {
    size_t taken;            /* tensors of the new model with stored values */
    size_t stored_positions; /* the table of positions was cut or extended; 0: it was not */
    size_t positions;
    struct json *anew, *dropped; /* arrays of names: ours of tensors that started from the seed, and the
                                    files' of those that were not taken */
};
void origin_report_free(struct origin_report *report);

/* Fills the block of a model of this architecture for a task with these facts. The last layer is taken
   only if its outputs mean the same: from a run if objective, labels and quantiles are equal, from a
   checkpoint if it names no other labels and no standardised number is predicted. seed: of tensors that are
   not taken. BAD_FILE: a value is not finite. On failure *report is empty. */
hashattn_status origin_values(struct host *host, const struct origin *origin, const struct model *model,
                              const struct task_facts *facts, enum extend_positions extend, uint64_t seed,
                              float *values, struct origin_report *report);

#endif
