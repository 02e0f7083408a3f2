/* Training from a program: what the tool's `data` and `train` do. A setup names a task, a mechanism and all
   options; a run is a directory (config.json, model.safetensors, last.safetensors, optimizer.safetensors,
   trainer.json, log.jsonl). SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_TRAIN_H
#define HASHATTN_TRAIN_H

#include "hashattn/attention.h"
#include "hashattn/metric.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hashattn_task_info {
    size_t struct_size;
    const char *name, *summary;
    int generates; /* hashattn_setup_generate works */
    int predicts;  /* hashattn_model_predict_file works */
    int has_lra;   /* the preset "lra" exists */
} hashattn_task_info;

HASHATTN_API size_t hashattn_task_count(void);
/* 1 and *info filled (struct_size must be set), or 0 past the last. */
HASHATTN_API int hashattn_task_get(size_t index, hashattn_task_info *info);
/* The option'th of the options that a setup of this task has, beside those of its mechanism, with the
   defaults of this task; 1, or 0 past the last. */
HASHATTN_API int hashattn_task_option(size_t task, size_t option, hashattn_option *info);

/* Everything that decides a run. The context must outlive it. */
typedef struct hashattn_setup hashattn_setup;

/* The task's default training with mechanism "yoso". INVALID, with the list of names, when there is no such
   task. */
HASHATTN_API hashattn_status hashattn_setup_new(hashattn_context *context, const char *task,
                                                hashattn_setup **setup);
HASHATTN_API void hashattn_setup_free(hashattn_setup *setup);
/* preset: "lra", the settings of the released LRA configurations of YOSO. Replaces the options of model and
   training, and those of mechanisms that it names. INVALID where the task has none of that name. */
HASHATTN_API hashattn_status hashattn_setup_preset(hashattn_setup *setup, const char *preset);
/* Another mechanism, with its default options and what the preset of the task sets in them.
   Or several: "NAME*HEADS,NAME*HEADS,..." over the heads of a layer in order, names without a number sharing
   equally what the others leave; and such lists parted by "/" over the layers, the last one for all that
   follow: "local*5,lha*5", "local/local,lha". What does not fit the model's heads or layers is INVALID when
   training begins. */
HASHATTN_API hashattn_status hashattn_setup_mechanism(hashattn_setup *setup, const char *mechanism);
/* Any option of the task, the mechanism, the model or the training, by name. Of several mechanisms every one
   that has it, or one: "lha.num_buckets" (`get`: the first that has it, or that one). Setting `steps` before
   `warmup` was ever set scales the warm-up in proportion. */
HASHATTN_API hashattn_status hashattn_setup_set(hashattn_setup *setup, const char *name, const char *text);
/* The present value as text that `set` takes back; text: room for `size` chars. */
HASHATTN_API hashattn_status hashattn_setup_get(const hashattn_setup *setup, const char *name, char *text,
                                                size_t size);
/* The index'th option of all owners, with its present value in `preset`; 1, or 0 past the last. Several
   mechanisms follow one another. */
HASHATTN_API int hashattn_setup_option(const hashattn_setup *setup, size_t index, hashattn_option *info);

/* Generates counts[0..2] examples of train, valid and test into `directory`, which is made if absent; files
   there are not overwritten. REFUSED where the task's data cannot be generated. */
HASHATTN_API hashattn_status hashattn_setup_generate(hashattn_setup *setup, const char *directory,
                                                     const size_t counts[3], uint64_t seed);

/* What the callback gets: after every step, after every batch of an evaluation (the same numbers again, so
   that a stop need not wait) and after every evaluation. Lists and their names live during the call. */
typedef struct hashattn_progress {
    size_t struct_size;
    int64_t step, steps;
    hashattn_metrics train; /* running means on training batches since the last evaluation */
    hashattn_metrics valid; /* at the end of an evaluation; else empty */
    hashattn_metrics best;  /* of the best model on validation so far; empty before the first */
    double tokens_per_second, seconds, learning_rate;
    size_t saved_bytes;  /* of attention, for backward, largest batch so far */
    const char *warning; /* what is not as it should be, such as a save that failed just now; else NULL */
} hashattn_progress;
/* Non-zero asks for a clean stop: the run is saved and the call returns INTERRUPTED. */
typedef int hashattn_progress_callback(void *user, const hashattn_progress *progress);

/* A new run in `run`, which must not exist. `data`: the directory of the data set; its absolute name is
   recorded. callback may be NULL. */
HASHATTN_API hashattn_status hashattn_train(hashattn_setup *setup, const char *data, const char *run,
                                            hashattn_progress_callback *callback, void *user);
/* Goes on where `run` stands, bit for bit as if it had never stopped; where it was killed before its first
   save was done, at step 0. INVALID: another process is training it, or another context of this one; the
   message has the number of the process. */
HASHATTN_API hashattn_status hashattn_train_resume(hashattn_context *context, const char *run,
                                                   hashattn_progress_callback *callback, void *user);

#ifdef __cplusplus
}
#endif
#endif
