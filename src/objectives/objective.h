/* The interface of an objective: what the rows of a model are trained for. The second seam of the house,
   beside the mechanism (attention/mechanism.h). An objective is one file that exports one `const struct
   objective`. It is given the rows that leave the trunk and the targets of the batch, has parameters and
   memory of its own, computes its loss and the gradient of the rows, predicts, and names its metrics. The
   model, the trainer, the log, the API and the tool loop over the table and know no objective by name.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef OBJECTIVES_OBJECTIVE_H
#define OBJECTIVES_OBJECTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory.h"
#include "nn/embed.h"
#include "nn/outputs/pooling.h"
#include "nn/params.h"
#include "nn/rows.h"

/* An objective asks for one target per example or one per row; a target is an id or a row of floats. */
enum target_place { TARGET_EXAMPLE, TARGET_ROW };
enum target_type { TARGET_ID, TARGET_FLOATS };

/* The targets of one batch for one objective. */
struct targets {
    const uint32_t *ids;  /* (targets) of TARGET_ID */
    const float *floats;  /* (targets, num_outputs) of TARGET_FLOATS */
    const float *weights; /* (targets) of their losses, >= 0; 0: not asked. NULL: all 1 */
};

/* What an objective may depend on when it describes itself. */
struct objective_facts {
    size_t dim;           /* width of the rows */
    size_t num_outputs;   /* classes, ids or floats that a prediction is over */
    size_t first_output;  /* the first id that can be predicted; 0 but for vocabularies with unused ids */
    size_t max_len;       /* rows of the longest sequence */
    bool pairs;           /* an example is two sequences, one after the other */
    bool causal;          /* rows know nothing of those after them */
    bool bytes;           /* an id is a byte of text */
    enum pooling pooling; /* how rows become one row per sequence */
    const struct embed *embed; /* of the input, for tied outputs */
};

/* One pass over one batch. */
struct objective_pass {
    const void *self; /* what describe filled */
    const struct rows *rows;
    const float *values;           /* parameters, of params_lay */
    const struct targets *targets; /* NULL: prediction alone */
    const float *x; /* (padded rows, dim) that left the trunk; the same until backward is over */
    bool training;
    /* What is trained is weight / count times the sum of the losses. count: the weights of the targets of all
       batches of the step, added up. */
    double weight, count;
    void *memory; /* memory_size bytes, from forward to backward */
};

/* Metrics are functions of sums over targets, so that those of batches, and of machines, can be added up. */
struct metric {
    const char *name; /* "accuracy" */
    /* NaN where nothing was counted. NULL sums: whether this objective has the metric (not NaN). */
    double (*value)(const void *self, const double *sums);
    bool more_is_better;
    int selects; /* 1: chooses the best model; 2: between models that are equal in it; 0: is only shown */
};

enum { OBJECTIVE_SUMS = 8, OBJECTIVE_METRICS = 6 };

struct objective {
    const char *name;    /* as in config.json */
    const char *summary; /* one sentence */
    enum target_place place;
    enum target_type type;
    bool ties_embedding; /* the table of the input's words is the output too */

    const char *const *sums; /* names, at most OBJECTIVE_SUMS, ended by NULL; "loss" and "count" are there */
    const struct metric *metrics; /* at most OBJECTIVE_METRICS, ended by name NULL; "loss" is there */

    /* NULL if it can, else a constant sentence that says why not. */
    const char *(*refuse)(const struct objective_facts *facts);
    size_t size; /* of the struct that describe fills */
    hashattn_status (*describe)(struct host *host, struct params *params, const struct objective_facts *facts,
                                void *self);
    /* Bytes from forward to backward. */
    size_t (*memory_size)(const void *self, const struct rows *rows, bool training);

    /* Returns the sum of weight * loss over the targets, 0 without targets. */
    double (*forward)(const struct objective_pass *pass);
    /* After a training forward with targets: dx (padded rows, dim) is written, or added to; zeros after the
       last row. gradients += those of its parameters. */
    void (*backward)(const struct objective_pass *pass, struct slice gradients, float *dx, bool add);
    /* After a forward with targets, backward may have come between: sums += those of this batch, in the order
       of their names. From the memory and the targets alone: pass->values is NULL. */
    void (*count)(const struct objective_pass *pass, double *sums);

    /* (optional, both or none) Floats that are predicted for an example, and they, (examples, outputs), after
       a forward. */
    size_t (*outputs)(const void *self);
    void (*predict)(const struct objective_pass *pass, float *outputs);

    /* (optional, all or none) What whoever knows the targets alone would reach: the name of the metric
       ("majority"); bytes of what it counts in, zeros at first; one batch of n targets counted; its value. */
    const char *baseline;
    size_t (*baseline_size)(const void *self);
    void (*baseline_count)(const void *self, const struct targets *targets, size_t n, void *counts);
    double (*baseline_value)(const void *self, const void *counts);
};

/* All objectives, ended by NULL (objective_table.c), and the one of that name, or NULL. */
extern const struct objective *const objective_table[];
const struct objective *objective_find(const char *name);

/* The targets that a batch has for this objective: one per example, or per row. */
size_t objective_targets(const struct objective *objective, const struct rows *rows, bool pairs);

/* The baseline of those who predict ids, for `baseline`: the share of the commonest id among those asked for;
   counts: (num_outputs + 2) size_t. */
void majority_count(const struct targets *targets, size_t n, size_t first, size_t num_outputs,
                    size_t *counts);
double majority_value(const size_t *counts);

#endif
