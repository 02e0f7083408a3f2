/* Training a model on a task: batches, steps, evaluation, checkpoints, a log, and clean exits. A run is a
   directory: config.json (task, facts, model, training: enough for eval and predict), model.safetensors (best
   on validation by the metrics that select, models/model.h), last.safetensors + optimizer.safetensors +
   trainer.json (the training state), log.jsonl. Resuming continues bit for bit; the same seed gives the same
   bits for any number of threads, and the same shards for any number of ranks. With ranks, training, resuming
   and evaluating are collective; all ranks return the same status. Only rank 0 writes, so only it needs the
   directory of a new run; the others read config.json when resuming, and all read the data.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include <signal.h>

#include "base/pool.h"
#include "models/model_space.h"
#include "nn/profile.h"
#include "tasks/task.h"

struct comm; /* comm/comm.h */

enum { RUN_PATH = 4096, RUN_FREEZE = 1024 };

enum class_weight { WEIGHT_NONE, WEIGHT_BALANCED };

/* How a table of learned positions grows: by repeating the stored one, or by linear interpolation, from its
   first row to its last. */
enum extend_positions { EXTEND_REPEAT, EXTEND_INTERPOLATE };

/* The "training" part of config.json. */
struct train_options {
    int64_t steps, batch, accumulate, shards, sequence_parallel, warmup, eval_every, eval_examples,
        save_every, seed, patience;
    double epochs; /* 0: `steps` counts; otherwise steps follow from it (train_options_settle) */
    double learning_rate, beta1, beta2, epsilon, weight_decay, clip;
    int schedule;                /* enum schedule_kind */
    int gradient_precision;      /* enum tree_precision: of the gradients of shards and their sums */
    int class_weight;            /* enum class_weight */
    char best[OPTION_TEXT_SIZE]; /* the metric that chooses the best model, or "auto" */
    int cycle_momentum;          /* OneCycleLR's cycling of beta1, .95 .85 .95, which the lra preset needs */
    /* Not options: which of them were set, and no longer follow others. */
    int64_t train_last;   /* layers that are trained, the last ones, with the outputs; 0: all of the model */
    int extend_positions; /* enum extend_positions */
    bool steps_given, epochs_given, warmup_given, eval_given;
    bool settled; /* read from a config.json: steps have followed from epochs */
};
extern const struct option_row train_rows[];
/* The options of a task's preset. */
void train_options_preset(const struct task_preset *preset, struct train_options *options);
/* Sets an option from text. The warm-up keeps its share of the steps when steps change, until it is set
   itself. INVALID: steps and epochs are both set. */
hashattn_status train_options_set(struct host *host, struct train_options *options, const char *name,
                                  const char *text);
/* Once the number of training examples is known: with epochs, sets the steps (rounded up), the warm-up and,
   unless they were set, evaluations at the end of every epoch. INVALID: more than 1e9 steps. */
hashattn_status train_options_settle(struct host *host, struct train_options *options, size_t examples);
/* Sets the shards if they are 0. A communicator, even of one rank, means SHARDS_OF_RANKS. INVALID: there are
   fewer shards than rows of ranks (comm/row_ranks.h). */
enum { SHARDS_OF_RANKS = 8 };
hashattn_status train_options_settle_shards(struct host *host, struct train_options *options,
                                            const struct comm *comm);

/* Sent after every step, after every batch of an evaluation (the same event again, so that a stop does not
   have to wait) and after every evaluation. A callback that returns true requests a clean stop after saving.
   evaluate() called by itself sends the number of examples done and of all examples as step and steps. */
struct train_event {
    int64_t step, steps;
    const struct model *model; /* names the metrics; values are (model_num_metrics) */
    const double *train;       /* running means since the last evaluation, on training batches; for evaluate()
                                  so far */
    const double *valid;       /* at the end of an evaluation, otherwise NULL */
    const double *best;        /* of the best model on validation so far; NULL before the first */
    double tokens_per_second, seconds, learning_rate;
    double loss;         /* of the last step, own losses included; NaN before the first */
    size_t saved_bytes;  /* model_saved_size of the largest batch since this process started */
    const char *warning; /* a problem that does not stop the run, such as a failed save; otherwise NULL */
    bool stopping;       /* this evaluation is the last thing before a stop: only a second wish ends it */
    const char *note;    /* with the first event: what a table has, and which values the run started from;
                            otherwise NULL */
};
typedef bool train_callback(void *user, const struct train_event *event);

struct train_setup {
    const struct kernels *kernels;
    struct pool *pool;
    struct comm *comm;         /* the ranks that share the work; NULL: one process */
    int64_t sequence_parallel; /* of evaluate(): as the option of a run; 0: 1 */
    train_callback *callback;  /* or NULL */
    void *user;
    /* Called by train_run for the training and the validation set, before the first step; or NULL. A failure
       ends the call. */
    hashattn_status (*read)(struct host *host, void *user, enum split split, const struct dataset *dataset);
    void *read_user;
    const char *data;             /* of train_resume: the new place of the data; NULL: that of the run */
    struct profile *profile;      /* or NULL */
    volatile sig_atomic_t *begun; /* becomes 1 when a training has read everything; or NULL */
};

/* Everything that defines a run, filled by the API from the user's options. Written to config.json. */
struct run_config {
    const struct task *task;
    void *task_options;
    struct task_facts facts;
    struct model_config model;
    struct train_options training;
    char data[RUN_PATH];     /* directory of the data set */
    char from[RUN_PATH];     /* of the stored model that it started from (origin.h); empty: none */
    bool pretrained;         /* it comes from a checkpoint, directly or through other runs */
    char freeze[RUN_FREEZE]; /* parameters that are not trained (freeze.h); empty: none */
    int64_t extended_at;     /* steps done when `steps` last changed: patience counts from there; 0: never */
};
void run_config_free(struct host *host, struct run_config *config);
/* Copies into the model's config what the facts determine. INVALID if an objective is unknown. */
hashattn_status run_config_take_facts(struct host *host, struct run_config *config);
/* Replaces options that say auto by their meaning with these kernels, so that the run keeps it on any
   machine. */
void run_config_settle(const struct kernels *kernels, struct run_config *config);
hashattn_status run_config_save(struct host *host, const char *run, const struct run_config *config);
/* The text of config.json, which the caller frees with memory_free; a NUL that *size does not count ends
   it. */
hashattn_status run_config_text(struct host *host, const struct run_config *config, char **text,
                                size_t *size);
/* INVALID, with the reason, if config.json could not be read back as it is now: such a run would train and
   could never be loaded. */
hashattn_status run_config_check(struct host *host, const struct run_config *config);
/* On failure the config is empty. An option that the file lacks has its default. */
hashattn_status run_config_load(struct host *host, const char *run, struct run_config *config);
/* Records the absolute path of the data. BAD_FILE: nothing is there, or what cannot be read again
   (file_check_recorded). INVALID: too long. */
hashattn_status run_config_set_data(struct host *host, struct run_config *config, const char *data);
/* *data NULL becomes the recorded path, which must be a regular file or a directory (base/file.h). BAD_FILE:
   nothing is there. */
hashattn_status run_config_data(struct host *host, const struct run_config *config, const char **data);
/* The same for a training, whose path is the recorded one. */
hashattn_status run_config_check_data(struct host *host, const struct run_config *config);
/* Parses the text of a config.json. */
hashattn_status run_config_parse(struct host *host, const char *text, size_t size, struct run_config *config);

/* Trains a new run in directory `run`, which must not exist. Settles the config first (see above). The
   directory is created once the data are read; the run can be resumed as soon as it has a config.json.
   INTERRUPTED if the callback asked to stop, after saving; FAILED if a loss, gradient or parameter is not
   finite; NO_DISK if the last state or best model could not be written. After any failure, earlier saves are
   complete; if nothing was saved, the directory is removed. INVALID: ranks differ in options or data, or
   there are fewer shards than ranks. */
hashattn_status train_run(struct host *host, const struct train_setup *setup, struct run_config *config,
                          const char *run);
/* steps: the new total, which config.json then has; 0: that of the run. INVALID: more are done already.
   Resumes from last.safetensors, or from step 0 if nothing was saved, with the same options and the same data
   (compared by count and hash). A new place of the data is then in config.json. INVALID if another process
   trains the run. If the instruction set or the product library differs, the callback gets a warning that the
   bits will differ. */
hashattn_status train_resume(struct host *host, const struct train_setup *setup, const char *run,
                             int64_t steps);

struct evaluation {
    double metrics[MODEL_METRICS];      /* (model_num_metrics); NaN if nothing was counted */
    double baselines[MODEL_OBJECTIVES]; /* (model_num_baselines) of this split */
    size_t examples, num_cut;
    size_t tokens, num_unknown; /* rows that the model read; targets that are not in the vocabulary */
    double seconds, tokens_per_second;
    size_t confused;                                   /* classes; 0: no confusion (models/model.h) */
    size_t confusion[MODEL_CONFUSED * MODEL_CONFUSED]; /* (confused, confused) */
    size_t labels;                                     /* 0: none are counted (models/model.h) */
    size_t label_counts[MODEL_LABELS * LABEL_COUNTS];  /* (labels, LABEL_COUNTS) */
};
/* Opens a session with parameters `values`, unless it is open already. The ranks of the setup agree: if one
   lacks the memory, the session stays closed on all. Close it with session_close. */
hashattn_status evaluate_open(struct host *host, const struct train_setup *setup, struct model *model,
                              const float *values, struct session *session);
/* Evaluates an open session on a data set in packed batches of `batch`. outputs: (count, model_outputs) or
   NULL. INTERRUPTED if the callback asked to stop. */
hashattn_status evaluate(struct host *host, const struct train_setup *setup, struct session *session,
                         const struct dataset *dataset, size_t batch, uint64_t seed, float *outputs,
                         struct evaluation *result);

#endif
