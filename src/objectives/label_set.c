/* Any number of labels for an example, one sequence or two (nn/outputs/pooled_head.h): one logit per label,
   and the loss is the mean over labels of the binary cross-entropy. Predicts the probability of each label;
   an example has those above a half. F1 is that of all labels of all examples together (micro), or that of
   the positive label if the facts name one; macro-F1 is the mean F1 of the labels that occur among the
   targets or the predictions; `exact` is the share of examples whose set is right.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdint.h>

#include "base/memory.h"
#include "nn/outputs/pooled_head.h"
#include "objectives/objective.h"

/* The head comes first: functions of the pooled head take the whole struct. */
struct label_set {
    struct pooled_head pooled;
    size_t positive; /* label of F1; SIZE_MAX: all labels */
};

/* ---- description -------------------------------------------------------------------------------------- */

static const char *refuse(const struct objective_facts *facts)
{
    return facts->num_outputs < 1                 ? "there are no labels"
           : facts->positive > facts->num_outputs ? "the positive label is none of its labels"
                                                  : NULL;
}

static hashattn_status describe(struct host *host, struct params *params, const struct objective_facts *facts,
                                void *self)
{
    struct label_set *s = self;
    s->pooled = (struct pooled_head){
        .pooling = facts->pooling, .pairs = facts->pairs, .dim = facts->dim, .max_len = facts->max_len};
    s->positive = facts->positive > 0 ? facts->positive - 1 : SIZE_MAX;
    return pooled_head_describe(host, params, facts->head, facts->num_outputs, &s->pooled);
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

static double weight_of(const struct targets *targets, size_t i)
{
    return targets->weights == NULL ? 1 : (double)targets->weights[i];
}

static double chance(double logit)
{
    return 1 / (1 + exp(-logit));
}

/* log(1 + exp(logit)) - target logit, without overflow. */
static double cross_entropy(double logit, double target)
{
    return fmax(logit, 0) - target * logit + log1p(exp(-fabs(logit)));
}

/* The mean over the labels of example i. */
static double loss_of(const struct objective_pass *pass, const struct pooled_space *s, size_t i,
                      size_t labels)
{
    double sum = 0;
    for (size_t k = i * labels; k < (i + 1) * labels; k++)
        sum += cross_entropy((double)s->logits[k], (double)pass->targets->floats[k]);
    return sum / (double)labels;
}

static double forward(const struct objective_pass *pass)
{
    const struct pooled_space s = space_of(pass);
    size_t count = pooled_head_examples(pass->self, pass->rows), labels = pooled_head_outputs(pass->self);
    double sum = 0;
    pooled_head_forward(pass->self, pass->rows, pass->values, &s, pass->x);
    for (size_t i = 0; pass->targets != NULL && i < count; i++) {
        double weight = weight_of(pass->targets, i);
        sum += weight == 0 ? 0 : weight * loss_of(pass, &s, i, labels);
    }
    return sum;
}

static void backward(const struct objective_pass *pass, struct slice gradients, float *dx, bool add)
{
    const struct pooled_space s = space_of(pass);
    size_t count = pooled_head_examples(pass->self, pass->rows), labels = pooled_head_outputs(pass->self);
    for (size_t i = 0; i < count; i++) {
        double weight = weight_of(pass->targets, i),
               scale = weight * pass->weight / (pass->count * (double)labels);
        for (size_t k = i * labels; k < (i + 1) * labels; k++)
            s.dlogits[k] =
                weight == 0
                    ? 0
                    : (float)(scale * (chance((double)s.logits[k]) - (double)pass->targets->floats[k]));
    }
    pooled_head_backward(pass->self, pass->rows, pass->values, gradients, &s, dx, add);
}

/* The outcome of one label, one of LABEL_COUNTS; LABEL_COUNTS: neither predicted nor right. */
static size_t outcome(bool predicted, bool is)
{
    return predicted ? (is ? LABEL_RIGHT : LABEL_WRONG) : is ? LABEL_MISSED : LABEL_COUNTS;
}

/* The weights of LABEL_COUNTS are those of the positive label, or of all. */
enum { SUM_LOSS, SUM_COUNT, TRUE_POSITIVES, FALSE_POSITIVES, FALSE_NEGATIVES, SUM_EXACT };
static const char *const sum_names[] = {
    "loss", "count", "true_positives", "false_positives", "false_negatives", "exact", NULL};

static void count_batch(const struct objective_pass *pass, double *sums)
{
    const struct label_set *set = pass->self;
    const struct pooled_space s = space_of(pass);
    size_t count = pooled_head_examples(&set->pooled, pass->rows), labels = pooled_head_outputs(&set->pooled);
    for (size_t i = 0; i < count; i++) {
        double weight = weight_of(pass->targets, i);
        bool exact = true;
        if (weight == 0)
            continue;
        for (size_t k = 0; k < labels; k++) {
            bool predicted = s.logits[i * labels + k] > 0, is = pass->targets->floats[i * labels + k] > 0.5F;
            size_t found = outcome(predicted, is);
            exact = exact && predicted == is;
            if (found < LABEL_COUNTS && (set->positive == SIZE_MAX || set->positive == k))
                sums[TRUE_POSITIVES + found] += weight;
        }
        sums[SUM_LOSS] += weight * loss_of(pass, &s, i, labels);
        sums[SUM_COUNT] += weight;
        sums[SUM_EXACT] += exact ? weight : 0;
    }
}

static void count_labels(const struct objective_pass *pass, size_t *counts)
{
    const struct pooled_space s = space_of(pass);
    size_t count = pooled_head_examples(pass->self, pass->rows), labels = pooled_head_outputs(pass->self);
    for (size_t k = 0; k < count * labels; k++) {
        size_t found = outcome(s.logits[k] > 0, pass->targets->floats[k] > 0.5F);
        if (found < LABEL_COUNTS && weight_of(pass->targets, k / labels) != 0)
            counts[k % labels * LABEL_COUNTS + found]++;
    }
}

static size_t outputs(const void *self)
{
    return pooled_head_outputs(self);
}

static void predict(const struct objective_pass *pass, float *predicted)
{
    const struct pooled_space s = space_of(pass);
    size_t count = pooled_head_examples(pass->self, pass->rows) * pooled_head_outputs(pass->self);
    for (size_t i = 0; i < count; i++)
        predicted[i] = (float)chance((double)s.logits[i]);
}

/* ---- metrics ------------------------------------------------------------------------------------------ */

static double f1(const void *self, const double *sums)
{
    (void)self;
    return sums == NULL ? 0 : sums[SUM_COUNT] == 0 ? NAN : label_f1(sums + TRUE_POSITIVES);
}

static double mean_of(const double *sums, int sum)
{
    return sums == NULL ? 0 : sums[SUM_COUNT] == 0 ? NAN : sums[sum] / sums[SUM_COUNT];
}

static double exact(const void *self, const double *sums)
{
    (void)self;
    return mean_of(sums, SUM_EXACT);
}

static double loss(const void *self, const double *sums)
{
    (void)self;
    return mean_of(sums, SUM_LOSS);
}

static const struct metric metrics[] = {
    {"f1", f1, true, 1}, {"exact", exact, true, 0}, {"loss", loss, false, 2}, {.name = NULL}};

static hashattn_status macro_f1(struct host *host, const void *self, const struct targets *targets,
                                const float *probabilities, size_t n, double *value)
{
    size_t labels = outputs(self);
    void *block;
    TRY(memory_new_zeroed(host, labels, LABEL_COUNTS * sizeof(double), "counts of labels", &block));
    double *weights = block;
    for (size_t k = 0; k < n * labels; k++) {
        size_t found = outcome(probabilities[k] > 0.5F, targets->floats[k] > 0.5F);
        if (found < LABEL_COUNTS)
            weights[k % labels * LABEL_COUNTS + found] += weight_of(targets, k / labels);
    }
    *value = label_macro_f1(weights, labels);
    memory_free(host, block);
    return HASHATTN_OK;
}

static const struct overall_metric overall[] = {{"macro_f1", macro_f1, true, MACRO_LABELS}, {.name = NULL}};

const struct objective objective_label_set = {
    .name = "label_set",
    .last_layer = "classifier.out_proj.",
    .summary = "any number of labels for an example, or for a pair of sequences",
    .place = TARGET_EXAMPLE,
    .type = TARGET_FLOATS,
    .labelled = true,
    .sums = sum_names,
    .metrics = metrics,
    .overall = overall,
    .refuse = refuse,
    .size = sizeof(struct label_set),
    .describe = describe,
    .memory_size = memory_size,
    .forward = forward,
    .backward = backward,
    .count = count_batch,
    .outputs = outputs,
    .predict = predict,
    .count_labels = count_labels,
};
