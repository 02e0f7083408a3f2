/* Trained models: evaluate on a data set, predict documents. SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_MODEL_H
#define HASHATTN_MODEL_H

#include "hashattn/attention.h"
#include "hashattn/metric.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A model read from a run (config.json and model.safetensors). The context must outlive it. */
typedef struct hashattn_model hashattn_model;

/* BAD_FILE, with the file and what is wrong in it, where that is no run of this version of the library. */
HASHATTN_API hashattn_status hashattn_model_load(hashattn_context *context, const char *run,
                                                 hashattn_model **model);
HASHATTN_API void hashattn_model_free(hashattn_model *model);
/* Another value for an option of its mechanism, for example more hashes than in training ("num_hashes",
   "128"); of several as hashattn_setup_set. INVALID or REFUSED, and the model as it was, where the mechanism
   or the trained parameters do not fit it. */
HASHATTN_API hashattn_status hashattn_model_set(hashattn_model *model, const char *name, const char *text);

typedef struct hashattn_model_info {
    size_t struct_size;
    const char *task, *mechanism, *data;     /* data: the directory it was trained on */
    size_t num_params, num_classes, max_len; /* num_classes: numbers that are predicted for a document */
    uint64_t seed;                           /* of its training */
    int predicts;                            /* hashattn_model_predict_file works */
    const char *precision; /* of its products here: as trained, unless the context was given one */
} hashattn_model_info;
/* info->struct_size must be set; strings live as long as the model. */
HASHATTN_API void hashattn_model_describe(const hashattn_model *model, hashattn_model_info *info);
/* Text of class `index`; NULL past the last. Lives as long as the model. */
HASHATTN_API const char *hashattn_model_label(const hashattn_model *model, size_t index);

typedef struct hashattn_evaluation {
    size_t struct_size;
    /* What the model is trained for, on this split; and what whoever knows its targets alone would reach:
       "majority" is the share of the commonest class or token. Lives until the model is evaluated again, or
       freed. */
    hashattn_metrics metrics;
    size_t examples, num_cut;
    double seconds, tokens_per_second;
    size_t tokens, num_unknown; /* given to the model; of those asked for, not in the vocabulary */
} hashattn_evaluation;

/* split: "train", "valid" or "test"; data: a directory, or NULL for the recorded one; seed: of the hashing
   (splits that are cut from a training file are always cut as in training). */
HASHATTN_API hashattn_status hashattn_model_evaluate(hashattn_model *model, const char *data,
                                                     const char *split, uint64_t seed,
                                                     hashattn_evaluation *evaluation);

/* Called once per document, in order. probabilities: (num_classes), valid during the call. Non-zero stops
   with INTERRUPTED. */
typedef int hashattn_prediction_callback(void *user, size_t document, size_t best_class,
                                         const float *probabilities);
/* Predicts every document of a file of the model's task ("-": standard input); labels in it are not looked
   at. *num_cut: documents cut to max_len; may be NULL. REFUSED where the task reads no such files. */
HASHATTN_API hashattn_status hashattn_model_predict_file(hashattn_model *model, const char *path,
                                                         uint64_t seed,
                                                         hashattn_prediction_callback *callback, void *user,
                                                         size_t *num_cut);

/* ---- what buckets are worth ---- */

/* A choice of who meets whom in one head on one sequence: "own" is that of the run; "lsh" (a random linear
   hash) and "smyrf" (the same of queries and keys that were made asymmetric first) have as many buckets with
   as many places on the same rows. */
typedef struct hashattn_membership {
    size_t struct_size;
    size_t sequence, layer, head;
    const char *mechanism, *membership; /* of the head, "lha"; "own", "lsh" or "smyrf" */
    size_t num_tokens, num_buckets;
    /* Attention utility: the mean over queries of the share of full attention that lies on keys that the
       query meets. bound: the same if each query met its own best keys, as many pairs in all: the empirical
       upper bound. pairs: those that meet, as a share of all that see each other. In a causal model all three
       are over keys that stand before the query, and itself. */
    double utility, bound, pairs;
    size_t queries_in[5], keys_in[5];         /* tokens that are in 0, 1, 2, 3, and 4 or more buckets */
    const uint32_t *best_queries, *best_keys; /* (num_buckets) tokens that score best in each, before the
                                                 buckets are made equal; valid during the call */
} hashattn_membership;
/* Called for every sequence, layer, head and membership. Non-zero stops with INTERRUPTED. */
typedef int hashattn_membership_callback(void *user, const hashattn_membership *membership);

/* Over the first `examples` examples (0: all) of a split; data and seed as in evaluate. All pairs of every
   head are computed, in memory linear in n. REFUSED where the mechanism of no head has buckets of tokens. */
HASHATTN_API hashattn_status hashattn_model_inspect(hashattn_model *model, const char *data,
                                                    const char *split, size_t examples, uint64_t seed,
                                                    hashattn_membership_callback *callback, void *user);

#ifdef __cplusplus
}
#endif
#endif
