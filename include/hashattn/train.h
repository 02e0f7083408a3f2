/* Training, as the tool's `data` and `train` do it. A setup holds a task, a mechanism and all options. A run
   is a directory (config.json, model.safetensors, last.safetensors, optimizer.safetensors, trainer.json,
   log.jsonl).
   SPDX-License-Identifier: Apache-2.0 */
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
    int generates;         /* 1: hashattn_setup_generate works */
    int predicts;          /* 1: hashattn_model_predict_file or hashattn_model_forecast works */
    int has_lra;           /* 1: it has the preset "lra" */
    const char *attention; /* option values of mechanisms in its setups: "yoso.hash_bits=8"; "" none */
    int prepares;          /* 1: hashattn_setup_prepare makes its data from texts */
    int forecasts;         /* 1: its models forecast (forecast.h) */
} hashattn_task_info;

/* The index'th name of a preset of this task; NULL past the last. */
HASHATTN_API const char *hashattn_task_preset(size_t task, size_t index);

/* The number of tasks. */
HASHATTN_API size_t hashattn_task_count(void);
/* Fills *info, whose struct_size must be set, and returns 1; returns 0 past the last. */
HASHATTN_API int hashattn_task_get(size_t index, hashattn_task_info *info);
/* Fills *info with an option of this task's setups, with the task's default, and returns 1; returns 0 past
   the last. Options of mechanisms are not included. */
HASHATTN_API int hashattn_task_option(size_t task, size_t option, hashattn_option *info);

/* Everything that determines a run. The context must outlive it. */
typedef struct hashattn_setup hashattn_setup;

/* The task's default training with mechanism "yoso". INVALID, with the list of names: no such task. */
HASHATTN_API hashattn_status hashattn_setup_new(hashattn_context *context, const char *task,
                                                hashattn_setup **setup);
HASHATTN_API void hashattn_setup_free(hashattn_setup *setup);
/* preset: "lra", the settings of YOSO's released LRA configurations, or "bert", those of BERT's pretraining.
   Replaces the options of the model, of training and of the mechanisms that the preset names. INVALID: the
   task has no such preset. */
HASHATTN_API hashattn_status hashattn_setup_preset(hashattn_setup *setup, const char *preset);
/* Sets layers, dim, heads and ffn = 4 dim: "tiny" (2 layers of 128, 2 heads), "mini" (4 of 256, 4), "small"
   (4 of 512, 8) or "base" (12 of 768, 12). INVALID: there is no such size. */
HASHATTN_API hashattn_status hashattn_setup_size(hashattn_setup *setup, const char *size);
/* The name of a size by its index, smallest first; NULL past the last. */
HASHATTN_API const char *hashattn_size_name(size_t index);
/* Training starts from the model stored in `directory`: a checkpoint of the transformers library (see
   hashattn_pretrained_load) or a run. Call it after the preset and before the mechanism and the options. The
   architecture, the attention and the meaning of ids become those of the stored model. Another value of an
   option of the architecture is INVALID from then on; a mechanism selected later keeps the options that it
   has in common with the stored one. Tensors of the trunk are taken, and those of objectives that the task
   has; new ones start from the seed. Positions are cut, or extended for longer sequences (extend_positions).
   From a checkpoint, or a run that comes from one, `text` and `glue` without a preset train 3 epochs of
   batches of 16 with rate 5e-5, linear, after a warm-up of a tenth, weight decay 0.01 and dropout 0.1.
   BAD_FILE: there is no such model, or its tensors do not fit its config. The run does not need the directory
   once it has been saved. */
HASHATTN_API hashattn_status hashattn_setup_from(hashattn_setup *setup, const char *directory);
/* Parameters that keep their values: "NAME,NAME,...", each the name of a tensor, its first words
   ("embeddings", "encoder.layer.0"), "trunk": all but the objectives, or "all-but-own": all but the tensors
   that mechanisms learn, such as the hashes of lha. Their gradients are not part of the norm that clipping
   limits. Empty: none. When training begins, a name without tensors is INVALID, with a list of the parts of
   the model, and so is a list that leaves nothing to train. */
HASHATTN_API hashattn_status hashattn_setup_freeze(hashattn_setup *setup, const char *names);
/* Selects a mechanism, with its default options and the values that the task's preset sets. Several
   mechanisms are possible: "NAME*HEADS,NAME*HEADS,..." assigns the heads of a layer in order; names without a
   number share the remaining heads equally. Such lists separated by "/" assign the layers in order, and the
   last list applies to all further layers: "local*5,lha*5", "local/local,lha". A list that does not fit the
   model's heads or layers is INVALID when training begins. */
HASHATTN_API hashattn_status hashattn_setup_mechanism(hashattn_setup *setup, const char *mechanism);
/* Sets an option of the task, mechanism, model or training by name. With several mechanisms, "num_buckets"
   sets every mechanism that has the option and "lha.num_buckets" only that one; `get` returns the value of
   the mechanism that is named, or of the first that has the option. Setting `steps` scales the warm-up in
   proportion unless `warmup` was set. INVALID, with the allowed values. */
HASHATTN_API hashattn_status hashattn_setup_set(hashattn_setup *setup, const char *name, const char *text);
/* Writes the current value as text that `set` accepts. text: (size) chars. INVALID: no such option, or the
   text does not fit. */
HASHATTN_API hashattn_status hashattn_setup_get(const hashattn_setup *setup, const char *name, char *text,
                                                size_t size);
/* Fills *info with the index'th option of all owners, its current value in `preset`, and returns 1; returns 0
   past the last. Several mechanisms follow one another. */
HASHATTN_API int hashattn_setup_option(const hashattn_setup *setup, size_t index, hashattn_option *info);

/* What was read of one part of the data. Everything is valid during the call. */
typedef struct hashattn_data_part {
    size_t struct_size;
    const char *split; /* "train", "valid" or "test" */
    int drawn;         /* 1: cut out of the training file */
    size_t examples, tokens;
    size_t sequences;        /* 2 per example for pairs */
    size_t longest, num_cut; /* tokens of the longest sequence; examples cut to max_len */
    size_t max_len;
    /* In words, which columns hold labels and texts. For hashattn_setup_describe also the rows, period, first
       and last date, number of columns and repairs of a table of series. NULL: not a file of a user. */
    const char *columns;
    /* Classes, sorted by bytes, and the examples of each; num_labels 0: there are none. */
    size_t num_labels;
    const char *const *labels;
    const size_t *label_counts;
    /* The beginnings of documents of the first and the last label, or of the least and the greatest number;
       NULL: not known. */
    const char *first_example, *last_example;
    int numbers; /* 1: labels are numbers, and the following are set */
    double least, greatest, mean;
} hashattn_data_part;
/* Return non-zero to stop with INTERRUPTED. */
typedef int hashattn_data_callback(void *user, const hashattn_data_part *part);
/* Reads the data as a training would, and calls back for each part that there is. data: a directory, or the
   training file. */
HASHATTN_API hashattn_status hashattn_setup_describe(hashattn_setup *setup, const char *data,
                                                     hashattn_data_callback *callback, void *user);
/* hashattn_train calls back for the training and the validation set when it has read them, before the first
   step. NULL: not. */
HASHATTN_API void hashattn_setup_watch_data(hashattn_setup *setup, hashattn_data_callback *callback,
                                            void *user);

/* Whether hashattn_pretrained_save could write a run of this setup with its output. In a callback of the
   data, or after hashattn_setup_describe. REFUSED: not with these options; the message names every one that
   is in the way, and what is needed. INVALID: not with any (its sequences are no texts, or its output has no
   place there), or no data was read. */
HASHATTN_API hashattn_status hashattn_setup_check_export(const hashattn_setup *setup);

/* Generates counts[0..2] examples of train, valid and test in `directory`, which is created if absent;
   existing files are not overwritten. REFUSED: the task's data cannot be generated. */
HASHATTN_API hashattn_status hashattn_setup_generate(hashattn_setup *setup, const char *directory,
                                                     const size_t counts[3], uint64_t seed);

/* Texts for hashattn_setup_prepare. */
typedef struct hashattn_sources {
    size_t struct_size;
    const char *const *files; /* (num_files) .txt, .jsonl or .tokens, of the training set */
    size_t num_files;         /* at least 1 */
    const char *valid, *test; /* files of these splits; NULL: drawn as the options of the data say */
    const char *tokenizer;    /* directory of a tokenizer */
    uint64_t seed;
    /* Called now and then with the bytes of text that are done; total is 0 if unknown. Non-zero stops, and no
       file is left. May be NULL. */
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
} hashattn_sources;
/* Sets every field to its default: no files, seed 0, no callback. */
HASHATTN_API void hashattn_sources_default_sized(hashattn_sources *sources, size_t struct_size);
HASHATTN_INLINE void hashattn_sources_default(hashattn_sources *sources)
{
    hashattn_sources_default_sized(sources, sizeof *sources);
}

typedef struct hashattn_prepared {
    size_t struct_size;
    size_t examples[3], tokens[3]; /* of train, valid and test */
    size_t documents;              /* in all of them; parts of long documents count as documents */
    size_t dropped;                /* tokens in no example */
} hashattn_prepared;

/* Turns texts into the data of the task in `directory`, which is created if absent; existing files are not
   overwritten. The options are those of the owner "data". Runs on all threads of the context, and the result
   does not depend on their number. prepared may be NULL. REFUSED: the task's data is not made from texts;
   BAD_FILE: a file; INTERRUPTED: progress stopped it. */
HASHATTN_API hashattn_status hashattn_setup_prepare(hashattn_setup *setup, const hashattn_sources *sources,
                                                    const char *directory, hashattn_prepared *prepared);

/* Passed to the callback after every step, after every batch of an evaluation (with unchanged numbers, so
   that a stop need not wait) and after every evaluation. Lists and names are valid during the call. */
typedef struct hashattn_progress {
    size_t struct_size;
    int64_t step, steps;
    hashattn_metrics train; /* running means over the training batches since the last evaluation */
    hashattn_metrics valid; /* after an evaluation; otherwise empty */
    hashattn_metrics best;  /* of the best model on validation so far; empty before the first evaluation */
    double tokens_per_second, seconds, learning_rate;
    size_t saved_bytes;  /* saved by attention for backward, largest batch so far */
    const char *warning; /* a problem, such as a save that just failed; otherwise NULL */
    const char *note;    /* in the first report: what a table has, and what was taken from a stored model;
                            otherwise NULL */
    double step_loss;    /* of the last step, losses of mechanisms included; NaN before the first */
    int stopping; /* 1: the state is saved, and this is the last evaluation before a stop; non-zero ends it */
} hashattn_progress;
/* Return non-zero for a clean stop: the run is saved, evaluated once if the callback then returns 0, and the
   call returns INTERRUPTED. */
typedef int hashattn_progress_callback(void *user, const hashattn_progress *progress);

/* Trains a new run in `run`, which must not exist. data: the directory of the data set, or for tasks with
   files of users the training file; its absolute path is recorded. callback may be NULL. */
HASHATTN_API hashattn_status hashattn_train(hashattn_setup *setup, const char *data, const char *run,
                                            hashattn_progress_callback *callback, void *user);
/* Continues `run`, bit for bit as if it had never stopped; from step 0 if it was killed before its first
   save. INVALID: another process is training it, or another context of this process; the message has the
   process number. */
HASHATTN_API hashattn_status hashattn_train_resume(hashattn_context *context, const char *run,
                                                   hashattn_progress_callback *callback, void *user);
/* Continues `run` to this number of steps in all, which the run then has; 0: to those that it has. The
   learning rate goes on as if it had been planned for them, as the note of the first report says. data: where
   its data are now, which the run then records; NULL: where they were. INVALID: more steps are done already.
   BAD_FILE: other data than those of the saved state. */
HASHATTN_API hashattn_status hashattn_train_extend(hashattn_context *context, const char *run,
                                                   const char *data, int64_t steps,
                                                   hashattn_progress_callback *callback, void *user);
/* 1 while a training of the context can be stopped by its callback without loss: from the first save of a new
   run, or from the end of reading an old one, until the call returns; 0 while it reads data. For the handler
   of a signal, on the thread that trains: async-signal-safe. */
HASHATTN_API int hashattn_context_is_training(const hashattn_context *context);
/* 1 if a process is training this run now; 0 if not, or if the file system has no locks. */
HASHATTN_API int hashattn_run_is_training(const char *run);

#ifdef __cplusplus
}
#endif
#endif
