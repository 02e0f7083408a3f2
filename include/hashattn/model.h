/* Trained models: evaluate them on a data set, predict documents.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_MODEL_H
#define HASHATTN_MODEL_H

#include "hashattn/attention.h"
#include "hashattn/metric.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A model read from a run: config.json, and model.safetensors or, in a run that was stopped before its first
   evaluation, last.safetensors. The context must outlive it. The first evaluation, prediction or forecast
   packs its weights for products. They and the memory of the passes are kept until an option changes or the
   model is freed. */
typedef struct hashattn_model hashattn_model;

/* BAD_FILE, with the file and what is wrong in it: `run` is not a run of this version of the library. */
HASHATTN_API hashattn_status hashattn_model_load(hashattn_context *context, const char *run,
                                                 hashattn_model **model);
HASHATTN_API void hashattn_model_free(hashattn_model *model);
/* Changes an option of its mechanism, for example to use more hashes than in training ("num_hashes", "128");
   for several mechanisms as in hashattn_setup_set. INVALID or REFUSED, with the model unchanged: the
   mechanism or the trained parameters do not fit the value. */
HASHATTN_API hashattn_status hashattn_model_set(hashattn_model *model, const char *name, const char *text);

/* Makes this label the one of the metric "f1"; otherwise it is the second of two, or, if a document has any
   number of labels, "f1" is that of all labels together. INVALID: the model has no such label, or is no
   classifier. */
HASHATTN_API hashattn_status hashattn_model_positive(hashattn_model *model, const char *label);

typedef struct hashattn_model_info {
    size_t struct_size;
    const char *task, *mechanism, *data;     /* data: the directory of its training data */
    size_t num_params, num_classes, max_len; /* num_classes: probabilities per predicted document */
    uint64_t seed;                           /* of its training */
    int predicts;                            /* hashattn_model_predict_file works */
    const char *precision;                   /* of products: as in training, unless the context sets one */
    int has_buckets;                         /* a head has a mechanism with buckets of tokens */
    int forecasts;                           /* hashattn_model_forecast works (forecast.h) */
    int64_t last_step; /* -1: the parameters are the best on validation; otherwise the run has none yet, and
                          they are the last saved ones, of this step of its training */
    int label_sets;    /* a document has any number of labels; probabilities do not sum to 1 */
    const char *positive; /* the label of "f1"; NULL: there is none */
} hashattn_model_info;
/* Set info->struct_size first. The strings are valid as long as the model. */
HASHATTN_API void hashattn_model_describe(const hashattn_model *model, hashattn_model_info *info);
/* The name of class `index`; NULL past the last. Valid as long as the model. */
HASHATTN_API const char *hashattn_model_label(const hashattn_model *model, size_t index);

typedef struct hashattn_evaluation {
    size_t struct_size;
    /* The objectives' metrics on this split, and baselines that use only its targets: "majority" is the share
       of the most frequent class or token. Valid until the next evaluation or until the model is freed. */
    hashattn_metrics metrics;
    size_t examples, num_cut; /* num_cut: examples cut to max_len */
    double seconds, tokens_per_second;
    /* Tokens given to the model, with a decoder to both stacks; targets that are not in the vocabulary. */
    size_t tokens, num_unknown;
    /* For a classifier of at most 32 classes: the examples of each class (row) by predicted class (column),
       (num_confused, num_confused). num_confused 0: none. Valid as long as the metrics. */
    const size_t *confusion;
    size_t num_confused;
    /* For a model of at most 256 labels, in the order of hashattn_model_label: the examples for which each
       label was predicted and right, predicted and wrong, or not predicted although right, (num_labels, 3).
       num_labels 0: none. Valid as long as the metrics. */
    const size_t *label_counts;
    size_t num_labels;
} hashattn_evaluation;

/* Called after every batch of an evaluation or prediction. examples: all of them; in a prediction, those read
   so far. Return non-zero to stop with INTERRUPTED. */
typedef int hashattn_evaluation_callback(void *user, size_t examples_done, size_t examples);
/* Sets the callback of this model's evaluations and predictions; NULL: none. */
HASHATTN_API void hashattn_model_watch(hashattn_model *model, hashattn_evaluation_callback *callback,
                                       void *user);

/* split: "train", "valid" or "test". data: a directory, or NULL for the recorded one; of a task with files of
   users also another file, which is evaluated whole. seed: of the hashing; splits that are cut from a
   training file are always the ones of training. */
HASHATTN_API hashattn_status hashattn_model_evaluate(hashattn_model *model, const char *data,
                                                     const char *split, uint64_t seed,
                                                     hashattn_evaluation *evaluation);

typedef struct hashattn_comparison {
    size_t struct_size;
    size_t examples;
    /* (count) The metrics of evaluations of both models, except those of the order of all predictions (rank
       correlation). Valid until the model's next comparison or until it is freed. */
    const hashattn_difference *list;
    size_t count;
} hashattn_comparison;

/* Evaluates two models on the same split and tests each metric: the paired one-tail test, with the standard
   error of the difference by the jackknife over examples. For accuracy it is the test for paired proportions.
   data: a directory, or NULL for the one recorded in both; seed: of the hashing of both. The callback of
   `model` gets the examples of both as one count. Takes longer than two evaluations, because a batch is one
   example. INVALID: the models have different tasks, recorded directories, numbers of examples or targets, or
   the split has fewer than two examples. */
HASHATTN_API hashattn_status hashattn_model_compare(hashattn_model *model, hashattn_model *against,
                                                    const char *data, const char *split, uint64_t seed,
                                                    hashattn_comparison *comparison);
/* Fills *info, whose struct_size must be set, with element `index` of the list and returns 1; returns 0 past
   the last. */
HASHATTN_API int hashattn_difference_get(const hashattn_comparison *comparison, size_t index,
                                         hashattn_difference_info *info);

/* Called once per document, in order. probabilities: (num_classes), valid during the call; of a model that
   predicts scores (hashattn_model_label is NULL for 0) it is the one score. Return non-zero to stop with
   INTERRUPTED. */
typedef int hashattn_prediction_callback(void *user, size_t document, size_t best_class,
                                         const float *probabilities);
/* Predicts every document of a file of the model's task ("-": standard input) and ignores its labels. Reads
   a few hundred documents at a time, so memory does not grow with the file, and a bad line is found after the
   callbacks of the documents before it. num_cut: receives the number of documents cut to max_len; may be
   NULL. REFUSED: the task has no such files. */
HASHATTN_API hashattn_status hashattn_model_predict_file(hashattn_model *model, const char *path,
                                                         uint64_t seed,
                                                         hashattn_prediction_callback *callback, void *user,
                                                         size_t *num_cut);

/* A document and its prediction. Everything is valid during the call. */
typedef struct hashattn_prediction {
    size_t struct_size;
    size_t document;   /* from 0, of all files */
    size_t best_class; /* with the largest probability */
    /* (num_classes); of a model that predicts numbers the one number, in the units of the training file */
    const float *probabilities;
    const char *file; /* that holds it; NULL: standard input, a text in memory, or a task of the library's
                         own files */
    const char *id;   /* "id" of its line, or NULL */
    int id_is_number;
} hashattn_prediction;
/* Return non-zero to stop with INTERRUPTED. */
typedef int hashattn_predicted_callback(void *user, const hashattn_prediction *prediction);

typedef struct hashattn_predict_options {
    size_t struct_size;
    uint64_t seed; /* of hashing; default 0. Without options: that of the training */
    int lines;     /* 1: each line of a .txt file, or of standard input, is a document; 0: a file is one */
    /* Gets the message of every bad line, which is then left out, and the user of the callback. Non-zero
       stops. NULL (default): a bad line is BAD_FILE. */
    int (*skip)(void *user, const char *message);
} hashattn_predict_options;
/* Sets every field to its default. */
HASHATTN_API void hashattn_predict_options_default_sized(hashattn_predict_options *options,
                                                         size_t struct_size);
HASHATTN_INLINE void hashattn_predict_options_default(hashattn_predict_options *options)
{
    hashattn_predict_options_default_sized(options, sizeof *options);
}

typedef struct hashattn_predicted {
    size_t struct_size;
    size_t num_documents, num_cut, num_skipped; /* num_cut: cut to max_len; num_skipped: bad lines */
} hashattn_predicted;
/* Predicts the documents of files and folders, in order, as hashattn_model_predict_file. What folders hold
   beside documents is in hashattn_context_note. Set counts->struct_size first; counts may be NULL. */
HASHATTN_API hashattn_status hashattn_model_predict(hashattn_model *model, const char *const *paths,
                                                    size_t num_paths, const hashattn_predict_options *options,
                                                    hashattn_predicted_callback *callback, void *user,
                                                    hashattn_predicted *counts);
/* The same for UTF-8 texts in memory, without names; the options about files change nothing. seconds:
   (num_texts) the second texts of pairs, for a model of them; otherwise NULL. INVALID, with the place, before
   the first callback: a text is NULL or no text. REFUSED: the task reads no documents. */
HASHATTN_API hashattn_status hashattn_model_predict_texts(hashattn_model *model, const char *const *texts,
                                                          const char *const *seconds, size_t num_texts,
                                                          const hashattn_predict_options *options,
                                                          hashattn_predicted_callback *callback, void *user,
                                                          hashattn_predicted *counts);

/* ---- quality of buckets ---- */

/* An assignment of queries and keys to buckets, in one head for one sequence. "own" is the run's. "lsh" (a
   random linear hash) and "smyrf" (the same after SMYRF's asymmetric transform of queries and keys) use the
   same rows and the same number and size of buckets. */
typedef struct hashattn_membership {
    size_t struct_size;
    size_t sequence, layer, head;
    const char *mechanism, *membership; /* the head's mechanism, "lha"; "own", "lsh" or "smyrf" */
    size_t num_tokens, num_buckets;     /* num_buckets: of all rounds */
    /* utility: attention utility, the mean over queries of the share of full attention that falls on keys in
       a common bucket. bound: its empirical upper bound, with the same number of pairs but each query's best
       keys. pairs: the pairs in a common bucket as a share of all pairs. In a causal model all three count
       only keys up to the query itself. */
    double utility, bound, pairs;
    size_t queries_in[5], keys_in[5];         /* number of tokens in 0, 1, 2, 3, and 4 or more buckets */
    const uint32_t *best_queries, *best_keys; /* (num_buckets) the tokens with the best score in each bucket,
                                                 before the buckets are balanced; valid during the call */
    const char *probe; /* the mechanism whose buckets are "own", if the head's has none; otherwise NULL */
    size_t num_keys;   /* keys of the head; num_tokens unless its attention is to another sequence */
    /* For a model with a decoder: "encoder", "decoder" (its self-attention) or "cross"; otherwise NULL.
       `layer` is then the place in the list A/B/C/... of mechanisms: those of the encoder, then
       self-attention and cross attention of each block of the decoder. */
    const char *stack;
} hashattn_membership;
/* Called for every sequence, layer, head and membership. Return non-zero to stop with INTERRUPTED. */
typedef int hashattn_membership_callback(void *user, const hashattn_membership *membership);

/* For heads of mechanisms without buckets (softmax): hashattn_model_inspect measures the buckets that
   `probe`, a mechanism with buckets, would form of their rows; its report names both. Learned hashes (lha)
   are first fitted to rows of the training split in `steps` steps of one example, at the cost of a forward
   each and without changing the model. The probe must outlive the model; NULL leaves such heads out. REFUSED:
   the probe has no buckets. */
HASHATTN_API hashattn_status hashattn_model_probe(hashattn_model *model, const hashattn_attention *probe,
                                                  size_t steps);
/* Inspects the first `examples` examples (0: all) of a split; data and seed as in evaluate. Computes all
   pairs of every head, in memory linear in n. REFUSED: no head has a mechanism with buckets of tokens, and
   there is no probe. */
HASHATTN_API hashattn_status hashattn_model_inspect(hashattn_model *model, const char *data,
                                                    const char *split, size_t examples, uint64_t seed,
                                                    hashattn_membership_callback *callback, void *user);

#ifdef __cplusplus
}
#endif
#endif
