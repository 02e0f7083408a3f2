/* Classification of examples, one sequence or two (nn/outputs/pooled_head.h): one logit per class, and the
   loss is their cross-entropy. Predicts the probabilities of the classes. F1 is that of the positive class,
   which is the second of two classes unless the facts name one. Matthews' correlation (the phi coefficient;
   Matthews 1975) of two classes is the same for both. Macro-F1 is the mean F1 of the classes that occur among
   the targets or the predictions.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdint.h>

#include "base/memory.h"

#include "nn/outputs/loss.h"
#include "nn/outputs/pooled_head.h"
#include "objectives/objective.h"

/* The head comes first: functions of the pooled head take the whole struct. */
struct classifier {
    struct pooled_head pooled;
    size_t positive; /* class of F1; SIZE_MAX: none */
};

/* ---- description -------------------------------------------------------------------------------------- */

static const char *refuse(const struct objective_facts *facts)
{
    return facts->num_outputs < 1                 ? "there are no classes"
           : facts->positive > facts->num_outputs ? "the positive class is none of its classes"
                                                  : NULL;
}

static hashattn_status describe(struct host *host, struct params *params, const struct objective_facts *facts,
                                void *self)
{
    struct classifier *c = self;
    c->pooled = (struct pooled_head){
        .pooling = facts->pooling, .pairs = facts->pairs, .dim = facts->dim, .max_len = facts->max_len};
    c->positive = facts->positive > 0 ? facts->positive - 1 : facts->num_outputs == 2 ? 1 : SIZE_MAX;
    return pooled_head_describe(host, params, facts->head, facts->num_outputs, &c->pooled);
}

static size_t memory_size(const void *self, const struct rows *rows, bool training)
{
    return pooled_head_lay(self, rows, training, NULL).bytes;
}

static struct pooled_space space_of(const struct objective_pass *pass)
{
    return pooled_head_lay(pass->self, pass->rows, pass->training, pass->memory);
}

/* ---- passes ------------------------------------------------------------------------------------------- */

static double forward(const struct objective_pass *pass)
{
    const struct pooled_head *c = pass->self;
    const struct pooled_space s = space_of(pass);
    size_t count = pooled_head_examples(c, pass->rows);
    pooled_head_forward(c, pass->rows, pass->values, &s, pass->x);
    if (pass->targets == NULL || count == 0)
        return 0;
    return loss_cross_entropy(s.logits, pass->targets->ids, pass->targets->weights, count,
                              pooled_head_outputs(c), pass->count, s.dlogits);
}

static void backward(const struct objective_pass *pass, struct slice gradients, float *dx, bool add)
{
    const struct pooled_head *c = pass->self;
    const struct pooled_space s = space_of(pass);
    size_t count = pooled_head_examples(c, pass->rows) * pooled_head_outputs(c);
    for (size_t i = 0; pass->weight != 1 && i < count; i++)
        s.dlogits[i] *= (float)pass->weight;
    pooled_head_backward(c, pass->rows, pass->values, gradients, &s, dx, add);
}

/* Returns the index of the largest logit (the first among equals) and sets *sum to the sum of exp(logit -
   largest). */
static size_t best_of(const float *logits, size_t classes, double *sum)
{
    size_t best = 0;
    for (size_t i = 1; i < classes; i++)
        best = logits[i] > logits[best] ? i : best;
    *sum = 0;
    for (size_t i = 0; i < classes; i++)
        *sum += exp((double)logits[i] - (double)logits[best]);
    return best;
}

/* The sums of id_sums and, if there is a positive class, the weights of its LABEL_COUNTS. */
enum { TRUE_POSITIVES = ID_COUNT + 1, FALSE_POSITIVES, FALSE_NEGATIVES };
static const char *const sums_named[] = {
    "loss", "correct", "count", "true_positives", "false_positives", "false_negatives", NULL};

static void count_batch(const struct objective_pass *pass, double *sums)
{
    const struct classifier *c = pass->self;
    const struct pooled_space s = space_of(pass);
    size_t count = pooled_head_examples(&c->pooled, pass->rows), classes = pooled_head_outputs(&c->pooled);
    size_t positive = c->positive;
    for (size_t i = 0; i < count; i++) {
        const float *logits = s.logits + i * classes;
        double sum, weight = pass->targets->weights == NULL ? 1 : (double)pass->targets->weights[i];
        if (weight == 0)
            continue;
        size_t best = best_of(logits, classes, &sum), label = pass->targets->ids[i];
        sums[ID_LOSS] += weight * (log(sum) + (double)logits[best] - (double)logits[label]);
        sums[ID_CORRECT] += best == label ? weight : 0;
        sums[ID_COUNT] += weight;
        if (best == positive || label == positive)
            sums[best != positive    ? FALSE_NEGATIVES
                 : label != positive ? FALSE_POSITIVES
                                     : TRUE_POSITIVES] += weight;
    }
}

static void confuse(const struct objective_pass *pass, size_t *counts)
{
    const struct pooled_head *c = pass->self;
    const struct pooled_space s = space_of(pass);
    size_t count = pooled_head_examples(c, pass->rows), classes = pooled_head_outputs(c);
    for (size_t i = 0; i < count; i++) {
        double unused;
        if (pass->targets->weights == NULL || pass->targets->weights[i] != 0)
            counts[pass->targets->ids[i] * classes + best_of(s.logits + i * classes, classes, &unused)]++;
    }
}

static void count_labels(const struct objective_pass *pass, size_t *counts)
{
    const struct pooled_head *c = pass->self;
    const struct pooled_space s = space_of(pass);
    size_t count = pooled_head_examples(c, pass->rows), classes = pooled_head_outputs(c);
    for (size_t i = 0; i < count; i++) {
        double unused;
        if (pass->targets->weights != NULL && pass->targets->weights[i] == 0)
            continue;
        size_t best = best_of(s.logits + i * classes, classes, &unused), label = pass->targets->ids[i];
        counts[best * LABEL_COUNTS + (best == label ? LABEL_RIGHT : LABEL_WRONG)]++;
        counts[label * LABEL_COUNTS + LABEL_MISSED] += best != label;
    }
}

static size_t outputs(const void *self)
{
    return pooled_head_outputs(self);
}

static void predict(const struct objective_pass *pass, float *probabilities)
{
    const struct pooled_head *c = pass->self;
    const struct pooled_space s = space_of(pass);
    size_t count = pooled_head_examples(c, pass->rows), classes = pooled_head_outputs(c);
    for (size_t i = 0; i < count; i++) {
        const float *logits = s.logits + i * classes;
        double sum;
        size_t best = best_of(logits, classes, &sum);
        for (size_t k = 0; k < classes; k++)
            *probabilities++ = (float)(exp((double)logits[k] - (double)logits[best]) / sum);
    }
}

/* ---- metrics ------------------------------------------------------------------------------------------ */

static double f1(const void *self, const double *sums)
{
    const struct classifier *c = self;
    if (c->positive == SIZE_MAX)
        return NAN;
    return sums == NULL ? 0 : sums[ID_COUNT] == 0 ? NAN : label_f1(sums + TRUE_POSITIVES);
}

/* (TP TN - FP FN) / sqrt((TP + FP)(TP + FN)(TN + FP)(TN + FN)); 0 if a factor of the root is 0. */
static double matthews(const void *self, const double *sums)
{
    if (outputs(self) != 2)
        return NAN;
    if (sums == NULL)
        return 0;
    double tp = sums[TRUE_POSITIVES], fp = sums[FALSE_POSITIVES], fn = sums[FALSE_NEGATIVES];
    double tn = sums[ID_CORRECT] - tp, root = sqrt((tp + fp) * (tp + fn)) * sqrt((tn + fp) * (tn + fn));
    return sums[ID_COUNT] == 0 ? NAN : root == 0 ? 0 : (tp * tn - fp * fn) / root;
}

static const struct metric metrics[] = {{"accuracy", id_accuracy, true, 1},
                                        {"f1", f1, true, 0},
                                        {"matthews", matthews, true, 0},
                                        {"loss", id_loss, false, 2},
                                        {.name = NULL}};

static hashattn_status macro_f1(struct host *host, const void *self, const struct targets *targets,
                                const float *probabilities, size_t n, double *value)
{
    size_t classes = outputs(self);
    void *block;
    TRY(memory_new_zeroed(host, classes, LABEL_COUNTS * sizeof(double), "counts of classes", &block));
    double *weights = block;
    for (size_t i = 0; i < n; i++) {
        const float *row = probabilities + i * classes;
        size_t best = 0, label = targets->ids[i];
        double weight = targets->weights == NULL ? 1 : (double)targets->weights[i];
        if (weight == 0)
            continue; /* its label may be none of the classes */
        for (size_t c = 1; c < classes; c++)
            best = row[c] > row[best] ? c : best;
        weights[best * LABEL_COUNTS + (best == label ? LABEL_RIGHT : LABEL_WRONG)] += weight;
        weights[label * LABEL_COUNTS + LABEL_MISSED] += best == label ? 0 : weight;
    }
    *value = label_macro_f1(weights, classes);
    memory_free(host, block);
    return HASHATTN_OK;
}

static const struct overall_metric overall[] = {{"macro_f1", macro_f1, true, MACRO_LABELS}, {.name = NULL}};

static size_t baseline_size(const void *self)
{
    return majority_size(outputs(self));
}

static void baseline_count(const void *self, const struct targets *targets, size_t n, void *counts)
{
    majority_count(targets, n, 0, outputs(self), counts);
}

const struct objective objective_classify = {
    .name = "classify",
    .last_layer = "classifier.out_proj.",
    .summary = "which class an example, or a pair of sequences, belongs to",
    .place = TARGET_EXAMPLE,
    .type = TARGET_ID,
    .sums = sums_named,
    .metrics = metrics,
    .overall = overall,
    .labelled = true,
    .refuse = refuse,
    .size = sizeof(struct classifier),
    .describe = describe,
    .memory_size = memory_size,
    .forward = forward,
    .backward = backward,
    .count = count_batch,
    .outputs = outputs,
    .predict = predict,
    .confuse = confuse,
    .count_labels = count_labels,
    .baseline = "majority",
    .baseline_size = baseline_size,
    .baseline_count = baseline_count,
    .baseline_value = majority_value,
};
