/* The interface of an objective: what the rows of a model are trained for. Beside the mechanism
   (attention/mechanism.h) it is the second extension point of the library. An objective is one file that
   exports one `const struct objective`. It reads the rows that leave the trunk and the targets of the batch,
   has parameters and memory of its own, computes its loss and the gradient of the rows, predicts, and names
   its metrics. The model, the trainer, the log, the API and the tool loop over the table and know no
   objective by name.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef OBJECTIVES_OBJECTIVE_H
#define OBJECTIVES_OBJECTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/quantiles.h"
#include "nn/embed.h"
#include "nn/outputs/head.h"
#include "nn/outputs/pooling.h"
#include "nn/params.h"
#include "nn/rows.h"

/* An objective has one target per example or one per row; a target is an id or a row of floats. */
enum target_place { TARGET_EXAMPLE, TARGET_ROW };
enum target_type { TARGET_ID, TARGET_FLOATS };

/* The targets of one batch for one objective. */
struct targets {
    const uint32_t *ids;  /* (targets) of TARGET_ID */
    const float *floats;  /* (targets, num_outputs) of TARGET_FLOATS */
    const float *weights; /* (targets) of their losses, >= 0; 0: no loss. NULL: all 1 */
};

/* What an objective may depend on when it describes itself. */
struct objective_facts {
    size_t dim;          /* width of the rows; of a bare objective, that of the input */
    size_t num_outputs;  /* classes, ids or floats of a prediction */
    size_t first_output; /* the smallest id that can be predicted; 0 unless a vocabulary has unused ids */
    size_t positive;     /* the class, from 1, of F1; 0: the second of two, or none */
    size_t max_len;      /* rows of the longest sequence */
    size_t decoded_rows; /* the last rows of a decoder's sequence, which are predicted; 0: no decoder */
    bool pairs;          /* an example is two sequences, one after the other */
    bool causal;         /* no row depends on a later one */
    bool bytes;          /* an id is a byte of text */
    struct quantiles quantiles; /* that are predicted of every float */
    enum pooling pooling;       /* how the rows of a sequence become one row */
    enum head_kind head;        /* activation of the classifier's hidden layer */
    double norm_epsilon;
    const struct embed *embed; /* of the input; for tied outputs */
};

/* One pass over one batch. */
struct objective_pass {
    const void *self; /* the struct that describe filled */
    const struct rows *rows;
    const float *values;           /* parameters, of params_pack */
    const struct targets *targets; /* NULL: prediction only */
    /* (padded rows, dim) output of the trunk, or the input, unchanged until backward is over */
    const float *x;
    bool training;
    /* The training loss is weight / count times the sum of the losses. count: the sum of the targets' weights
       over all batches of the step. */
    double weight, count;
    void *memory; /* memory_size bytes, kept from forward to backward */
};

/* Metrics are functions of sums over targets, so those of several batches or machines can be added. */
struct metric {
    const char *name; /* "accuracy" */
    /* NaN if nothing was counted. sums NULL: returns NaN if this objective does not have the metric. */
    double (*value)(const void *self, const double *sums);
    bool more_is_better;
    int selects; /* 1: chooses the best model; 2: breaks ties of 1; 0: is only shown */
};

/* A metric of all predictions of an evaluation, which no sums express: a rank correlation. */
struct overall_metric {
    const char *name;
    /* outputs (n, outputs): the predictions; targets: theirs. NaN if nothing counts. */
    hashattn_status (*value)(struct host *host, const void *self, const struct targets *targets,
                             const float *outputs, size_t n, double *value);
    bool more_is_better;
    size_t most_outputs; /* it exists for at most so many outputs, because all predictions are kept; 0: any */
};

enum { OBJECTIVE_SUMS = 8, OBJECTIVE_METRICS = 6 };

struct objective {
    const char *name;    /* as in config.json */
    const char *summary; /* one sentence */
    enum target_place place;
    enum target_type type;
    bool bare;     /* x is the input, rows of floats: the model has no trunk, and backward gets dx NULL */
    bool labelled; /* its outputs have the names of the data's labels */
    bool whole;    /* reads the rows of a sequence together, so ranks cannot share a sequence */
    bool ties_embedding; /* rows of the trunk are multiplied with the embedding table, which is then scaled
                            (nn/embed.h) */
    /* What the names of its last layer begin with: a training that starts from a stored model takes that
       layer only if objective, labels and quantiles are the same. NULL: it has none, or one tied to the
       words. */
    const char *last_layer;

    const char *const *sums;      /* names, at most OBJECTIVE_SUMS, with "loss" and "count"; ended by NULL */
    const struct metric *metrics; /* with "loss"; ended by name NULL */
    const struct overall_metric *overall; /* of an objective that predicts for examples; ended by name NULL;
                                             or NULL. At most OBJECTIVE_METRICS with those above */

    /* NULL if the facts are acceptable, otherwise a constant sentence that says why not. */
    const char *(*refuse)(const struct objective_facts *facts);
    size_t size; /* bytes of the struct that describe fills */
    hashattn_status (*describe)(struct host *host, struct params *params, const struct objective_facts *facts,
                                void *self);
    /* Bytes of memory, kept from forward to backward. */
    size_t (*memory_size)(const void *self, const struct rows *rows, bool training);

    /* Returns the sum of weight * loss over the targets; 0 without targets. */
    double (*forward)(const struct objective_pass *pass);
    /* Call after a training forward with targets. Writes dx (padded rows, dim), or adds to it, with zeros
       after the last row; adds the gradients of its parameters to gradients. */
    void (*backward)(const struct objective_pass *pass, struct slice gradients, float *dx, bool add);
    /* Call after a forward with targets, before or after backward. Adds this batch to sums, in the order of
       their names. Reads the memory and the targets only: pass->values is NULL. */
    void (*count)(const struct objective_pass *pass, double *sums);

    /* (optional, both or none) Floats predicted per example; and after a forward the predictions, (examples,
       outputs). */
    size_t (*outputs)(const void *self);
    void (*predict)(const struct objective_pass *pass, float *outputs);

    /* (optional) Of an objective that predicts one id per example. Call after a forward with targets. counts
       (num_outputs, num_outputs): adds 1 per target whose weight is not 0, row its id, column the id that
       scores highest. */
    void (*confuse)(const struct objective_pass *pass, size_t *counts);
    /* (optional) Of an objective that predicts labels of examples. Call after a forward with targets. counts
       (num_outputs, LABEL_COUNTS): adds 1 per label and target whose weight is not 0. */
    void (*count_labels)(const struct objective_pass *pass, size_t *counts);

    /* (optional, both or none) The number of ids that a row scores; and after a forward the scores (logits)
       of `n` chosen rows, (n, num_scores), of ids first_output and up. */
    size_t (*num_scores)(const void *self);
    void (*score_rows)(const struct objective_pass *pass, const size_t *places, size_t n, float *scores);

    /* (optional, both or none) Of an objective that predicts the id after a row: the number of ids; and, for
       `n` rows x (n, dim) that are alone (nn/few_rows.h), scores (n, num_next) of ids first_output and up:
       logarithms of their probabilities, up to a constant of the row. work: (dim) floats. */
    size_t (*num_next)(const void *self);
    void (*score_next)(const void *self, const struct kernels *kernels, struct pool *pool,
                       const float *values, const float *x, size_t n, float *scores, float *work);

    /* (optional, all or none) A baseline that knows only the targets: the name of its metric ("majority");
       bytes of its counts, zeros at first; counting one batch of n targets; its value. */
    const char *baseline;
    size_t (*baseline_size)(const void *self);
    void (*baseline_count)(const void *self, const struct targets *targets, size_t n, void *counts);
    double (*baseline_value)(const void *self, const void *counts);
};

/* All objectives, ended by NULL (objective_table.c); and the one with that name, or NULL. */
extern const struct objective *const objective_table[];
const struct objective *objective_find(const char *name);

/* The number of targets of a batch for this objective: one per example, or per row. */
size_t objective_targets(const struct objective *objective, const struct rows *rows, bool pairs);

/* ---- objectives that predict labels ------------------------------------------------------------------- */

/* Of one label: it was predicted and right, predicted and wrong, or not predicted although right. */
enum { LABEL_RIGHT, LABEL_WRONG, LABEL_MISSED, LABEL_COUNTS };

/* 2 RIGHT / (2 RIGHT + WRONG + MISSED) of such weights; 0 if all are 0. */
double label_f1(const double *weights);
/* The mean of label_f1 over the labels that occur: whose weights (labels, LABEL_COUNTS) are not all 0. NaN if
   none occurs. It is the metric "macro_f1", which keeps all predictions of an evaluation, of models with at
   most MACRO_LABELS. */
enum { MACRO_LABELS = 256 };
double label_macro_f1(const double *weights, size_t labels);

/* ---- objectives that predict one id per target -------------------------------------------------------- */

/* Their sums and metrics: the mean loss, exp of it, and the share of targets whose id scores highest. */
enum { ID_LOSS, ID_CORRECT, ID_COUNT };
extern const char *const id_sums[]; /* "loss", "correct", "count" */
double id_loss(const void *self, const double *sums);
double id_perplexity(const void *self, const double *sums);
double id_accuracy(const void *self, const double *sums);

/* Their baseline "majority": the share of the most frequent id among the targets. counts: majority_size
   bytes. */
size_t majority_size(size_t num_outputs);
void majority_count(const struct targets *targets, size_t n, size_t first, size_t num_outputs,
                    size_t *counts);
double majority_value(const void *self, const void *counts);

#endif
