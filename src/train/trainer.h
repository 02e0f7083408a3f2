/* Training a model on a task: batches, steps, evaluation, checkpoints, a log, and leaving cleanly.
   A run is a directory: config.json (task, facts, model, training: enough for eval and predict),
   model.safetensors (best on validation by the metrics that select, models/model.h), last.safetensors +
   optimizer.safetensors + trainer.json (where it stands), log.jsonl. Resuming continues bit for bit; the same
   seed gives the same bits for any number of threads. SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "base/pool.h"
#include "models/model.h"
#include "nn/profile.h"
#include "tasks/task.h"

/* The "training" part of config.json. */
struct train_options {
    int64_t steps, batch, accumulate, warmup, eval_every, eval_examples, save_every, seed;
    double learning_rate, beta1, beta2, epsilon, weight_decay, clip;
    int schedule;       /* enum schedule_kind */
    int cycle_momentum; /* OneCycleLR's own cycling of beta1, .95 .85 .95, which the lra preset needs */
    bool warmup_given;  /* no option: warmup was set, and does not follow steps any more */
};
extern const struct option_row train_rows[];
/* What a task's preset asks for; lra: with the cycling beta1 and without clipping, as those runs were made.
 */
void train_options_preset(const struct task_preset *preset, bool lra, struct train_options *options);
/* Sets an option from text. The warm-up keeps its share of another number of steps until it is set itself. */
hashattn_status train_options_set(struct host *host, struct train_options *options, const char *name,
                                  const char *text);

/* Told after every step, after every batch of an evaluation (the same event again, so that a stop need not
   wait) and after every evaluation; returning true asks for a clean stop after saving. evaluate() on its own
   tells examples done and examples in all as step and steps. */
struct train_event {
    int64_t step, steps;
    const struct model *model; /* names the metrics; values are (model_num_metrics) */
    const double *train;       /* running means since the last evaluation, on training batches; of
                                  evaluate() so far */
    const double *valid;       /* at the end of an evaluation; else NULL */
    const double *best;        /* of the best on validation so far; NULL before the first */
    double tokens_per_second, seconds, learning_rate;
    size_t saved_bytes;  /* model_saved_size of the largest batch since this process began */
    const char *warning; /* what is not as it should be, such as a save that failed just now; else NULL */
};
typedef bool train_callback(void *user, const struct train_event *event);

struct train_setup {
    const struct kernels *kernels;
    struct pool *pool;
    train_callback *callback; /* or NULL */
    void *user;
    struct profile *profile; /* or NULL */
};

/* Everything a run is made of, filled by the API from the options of the user. Written to config.json. */
struct run_config {
    const struct task *task;
    void *task_options;
    struct task_facts facts;
    struct model_config model;
    struct train_options training;
    char data[4096]; /* directory of the data set */
};
void run_config_free(struct host *host, struct run_config *config);
/* What the facts ask of the model becomes part of its config. INVALID where an objective is not known. */
hashattn_status run_config_take_facts(struct host *host, struct run_config *config);
/* Options that say auto get what auto means with this table, so that the run keeps it wherever it goes on. */
void run_config_settle(const struct kernels *kernels, struct run_config *config);
hashattn_status run_config_save(struct host *host, const char *run, const struct run_config *config);
/* Leaves the config empty when it fails; an option that the file does not name has its default. */
hashattn_status run_config_load(struct host *host, const char *run, struct run_config *config);
/* The text of a config.json. */
hashattn_status run_config_parse(struct host *host, const char *text, size_t size, struct run_config *config);

/* A new run in directory `run`, which must not exist (the config is settled first, see above); it is made
   once the data are read, and can be resumed from the moment that it has a config.json. INTERRUPTED when the
   callback asked to stop, after saving; FAILED when a loss, gradient or parameter is not finite; NO_DISK when
   the last state or best model could not be written. Whatever the failure, what was saved before is whole;
   where nothing could be saved, the directory is not there. */
hashattn_status train_run(struct host *host, const struct train_setup *setup, struct run_config *config,
                          const char *run);
/* INVALID where another process trains the run. Goes on where last.safetensors stands, or at step 0 where
   nothing was saved yet, with the same data (compared by count and hash) and options. Where the instruction
   set or the product library is another, the callback is warned that the bits will be too. */
hashattn_status train_resume(struct host *host, const struct train_setup *setup, const char *run);

struct evaluation {
    double metrics[MODEL_METRICS];      /* (model_num_metrics); NaN where nothing was counted */
    double baselines[MODEL_OBJECTIVES]; /* (model_num_baselines) of this split */
    size_t examples, num_cut;
    size_t tokens, num_unknown; /* rows given to the model; of the ids asked for, not in the vocabulary */
    double seconds, tokens_per_second;
};
/* Evaluates parameters `values` on a data set in packed batches of `batch`. outputs: (count, model_outputs)
   or NULL. INTERRUPTED when the callback asked to stop. */
hashattn_status evaluate(struct host *host, const struct train_setup *setup, struct model *model,
                         const float *values, const struct dataset *dataset, size_t batch, uint64_t seed,
                         float *outputs, struct evaluation *result);

#endif
