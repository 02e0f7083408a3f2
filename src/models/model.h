/* The model: a trunk (none for bare objectives, objective.h), and the weighted list of objectives that its
   rows are trained for. The training loss is (1 - s) times the weighted sum of the objectives' mean losses,
   plus, for each mechanism with a loss of its own, its share times the mean of that loss over heads and
   examples; s is the sum of the shares. All parameters are one block (nn/params.h). Only model_new and
   model_fit allocate; the caller asks for the sizes of a plan and a workspace and provides both.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_MODEL_H
#define MODELS_MODEL_H

#include "base/pool.h"
#include "models/model_config.h"
#include "nn/params.h"

struct model;

/* Checks the config and describes the parameters. The options of its plan must outlive the model. */
hashattn_status model_new(struct host *host, const struct model_config *config, struct model **model);
/* Prepares the model for sequences of up to `rows` rows, rows <= max_len. Call it before the first batch. */
hashattn_status model_fit(struct host *host, struct model *model, size_t rows);
void model_free(struct host *host, struct model *model);
const struct model_config *model_config_of(const struct model *model);
const struct params *model_params(const struct model *model);
/* The factor of word embeddings on their way into the trunk: sqrt(dim) or 1 (nn/embed.h). */
float model_word_scale(const struct model *model);
/* Floats of the trunk's parameters, which begin the block; those of the objectives follow. */
size_t model_trunk_floats(const struct model *model);

/* One packed batch: sequence s is rows offsets[s] .. offsets[s + 1), at least one. */
struct model_batch {
    const struct kernels *kernels;
    struct pool *pool;
    size_t num_sequences;
    const size_t *offsets;   /* (num_sequences + 1) */
    struct input_rows input; /* all rows */
    /* For a model with a decoder: its rows, decoder_rows for each sequence above (num_sequences + 1), and
       their floats (padded rows, row_width). Predictions and targets are then of the decoder's last rows. */
    const size_t *decoder_offsets;
    const float *decoder_floats;
    /* For a model that distils: the offsets of its rows halved once, twice, ... (distil_offsets), at least
       (layers - 1, num_sequences + 1). */
    const size_t *halved_offsets;
    const struct targets *targets; /* (num_objectives); NULL: no loss */
    const uint64_t *sample_ids;    /* (num_sequences) keys of dropout and hashing in training; may be NULL in
                                      evaluation */
    uint64_t random_key;           /* (seed, step) in training, (seed, EVALUATION) otherwise */
    /* Over all batches of the step: the sum of the weights of each objective's targets (num_objectives), and
       the number of examples. NULL and 0: this batch is the whole step. */
    const double *counts;
    size_t examples;
    bool training;           /* applies dropout, and keeps what backward needs */
    size_t first_trained;    /* the gradients of parameters before this offset may stay as they are, */
    bool own_losses_only;    /* and so may all that are not of a mechanism's own loss */
    struct profile *profile; /* or NULL */
    const struct inspector *inspector; /* or NULL; see nn/rows.h */
    /* NULL, or the rows of each sequence that this rank has: then offsets, input and the targets of rows are
       those of these rows, targets of examples are those of all, and forward and backward are collective. A
       loss is this rank's part: that of an example is the first rank's. So are gradients, metrics,
       confusion and counts of labels. Predictions are on all ranks. */
    const struct rows_cut *cut;
};

/* Rows of the batch, of both stacks if there is a decoder. */
static inline size_t model_batch_rows(const struct model_batch *batch)
{
    return batch->offsets[batch->num_sequences] +
           (batch->decoder_offsets == NULL ? 0 : batch->decoder_offsets[batch->num_sequences]);
}

/* What follows from the shapes of a batch, made once in one place: the plans of attention, one for each
   different group of heads and rows, and all sizes. Const while a pass runs. */
struct model_plan;
/* Bytes of a plan for this many sequences. */
size_t model_plan_bytes(const struct model *model, size_t num_sequences);
/* block: model_plan_bytes. Reads the shapes of the batch, no rows. REFUSED, with the numbers, if a mechanism
   cannot handle a sequence. */
hashattn_status model_plan_make(struct host *host, const struct model *model, const struct model_batch *batch,
                                void *block, const struct model_plan **plan);
/* Bytes of the workspace of forward and backward, which holds every activation between the two. */
size_t model_workspace_bytes(const struct model_plan *plan);
/* Bytes of the workspace that attention saves for backward, all layers. */
size_t model_saved_bytes(const struct model_plan *plan);
/* Plans of attention. */
size_t model_num_plans(const struct model_plan *plan);

/* One pass over a batch. Plan, batch and values must stay until it is over. */
struct model_pass;
/* values: of params_pack. workspace: model_workspace_bytes, where the pass lives. */
struct model_pass *model_open(const struct model_plan *plan, const struct model_batch *batch,
                              const float *values, void *workspace);

/* Returns this batch's part of the training loss; in evaluation without own losses; 0 without targets. */
double model_forward(struct model_pass *pass);
/* Call after a training forward with targets. Adds the gradient of the training loss to gradients (one block,
   as values). listener: see nn/rows.h, or NULL. */
void model_backward(struct model_pass *pass, float *gradients, const struct backward_listener *listener);

/* ---- metrics: named functions of sums over targets ---- */

enum { MODEL_SUMS = MODEL_OBJECTIVES * OBJECTIVE_SUMS + 2 * PLAN_MECHANISMS };
enum { MODEL_METRICS = MODEL_OBJECTIVES * OBJECTIVE_METRICS + PLAN_MECHANISMS, METRIC_NAME = 48 };

/* Names are the objective's ("accuracy"), or "OBJECTIVE.accuracy" if there are several objectives. The own
   loss of a mechanism is "MECHANISM.own_loss", in training only. */
struct model_metric {
    char name[METRIC_NAME];
    bool more_is_better;
    int selects;        /* 1, 2: see struct metric; 3: would be 1 if the objective were the first */
    bool training_only; /* evaluations do not have it */
    bool overall;       /* of all predictions of an evaluation: training and single batches do not have it */
};
size_t model_num_metrics(const struct model *model);
const struct model_metric *model_metric(const struct model *model, size_t index);
/* Names of the sums, formed like those of metrics; at most MODEL_SUMS. */
size_t model_num_sums(const struct model *model);
void model_sum_name(const struct model *model, size_t index, char name[METRIC_NAME]);
/* Call after a forward with targets. Adds this batch to sums (num_sums). */
void model_count(const struct model_pass *pass, double *sums);
/* values (num_metrics); NaN if nothing was counted, and for overall metrics. */
void model_metrics(const struct model *model, const double *sums, double *values);
/* The number of overall metrics; and their values, written over those of model_metrics. outputs (n,
   model_outputs): predictions of n examples; targets (num_objectives): of these examples. */
size_t model_num_overall(const struct model *model);
hashattn_status model_overall(struct host *host, const struct model *model, const struct targets *targets,
                              const float *outputs, size_t n, double *values);

/* True if `values` are better than `best`, compared by the metrics that select. */
bool model_is_better(const struct model *model, const double *values, const double *best);

/* ---- baselines: metrics of a prediction that knows only the targets ---- */

size_t model_num_baselines(const struct model *model);
void model_baseline_name(const struct model *model, size_t index, char name[METRIC_NAME]);
/* Bytes of the counts of targets, zeros at first. */
size_t model_baselines_size(const struct model *model);
void model_baseline_count(const struct model *model, const struct model_batch *batch, void *counts);
/* values (num_baselines) */
void model_baselines(const struct model *model, const void *counts, double *values);

/* ---- confusion: how often each class was taken for each other ---- */

enum { MODEL_CONFUSED = 32 };
/* Classes of the first objective that predicts for examples; 0: it predicts no classes, or more than
   MODEL_CONFUSED. */
size_t model_confused(const struct model *model);
/* Call after a forward with targets, if there are confused classes. counts (classes, classes): adds the
   targets of this batch, row the class, column the prediction. */
void model_confuse(const struct model_pass *pass, size_t *counts);

/* ---- labels: how often each was right, wrong or missed ---- */

enum { MODEL_LABELS = 256 };
/* Labels of the first objective that predicts for examples; 0: it predicts no labels, or more than
   MODEL_LABELS. */
size_t model_labels(const struct model *model);
/* Call after a forward with targets, if there are labels. Adds the targets of this batch to counts (labels,
   LABEL_COUNTS). */
void model_count_labels(const struct model_pass *pass, size_t *counts);

/* ---- predictions: those of the first objective that makes any ---- */

size_t model_outputs(const struct model *model); /* floats per example; 0: no prediction for examples */
/* outputs (examples, model_outputs). Call after a forward. */
void model_predict(const struct model_pass *pass, float *outputs);

/* ---- rows and scores, after a forward ---- */

/* The rows that left the trunk, (rows, dim); not for bare objectives. */
const float *model_rows(const struct model_pass *pass);
/* The number of ids that a row scores, by the first objective with scores; 0: no objective has any. */
size_t model_num_scores(const struct model *model);
/* scores (n, num_scores): the logits of the rows `places` (n), indices in the batch. */
void model_score_rows(const struct model_pass *pass, const size_t *places, size_t n, float *scores);

#endif
