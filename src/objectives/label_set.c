/* Any number of labels for an example, one sequence or two (nn/outputs/pooled_head.h): one logit per label,
   and the loss is the mean over labels of the binary cross-entropy. Predicts the probability of each label;
   an example has those above a half. F1 is that of all labels of all examples together (micro); `exact` is
   the share of examples whose set is right.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "nn/outputs/pooled_head.h"
#include "objectives/objective.h"

/* ---- description -------------------------------------------------------------------------------------- */

static const char *refuse(const struct objective_facts *facts)
{
    return facts->num_outputs < 1 ? "there are no labels" : NULL;
}

static hashattn_status describe(struct host *host, struct params *params, const struct objective_facts *facts,
                                void *self)
{
    struct pooled_head *s = self;
    *s = (struct pooled_head){
        .pooling = facts->pooling, .pairs = facts->pairs, .dim = facts->dim, .max_len = facts->max_len};
    return pooled_head_describe(host, params, facts->head, facts->num_outputs, s);
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

enum { SUM_LOSS, SUM_COUNT, TRUE_POSITIVES, FALSE_POSITIVES, FALSE_NEGATIVES, SUM_EXACT };
static const char *const sum_names[] = {
    "loss", "count", "true_positives", "false_positives", "false_negatives", "exact", NULL};

static void count_batch(const struct objective_pass *pass, double *sums)
{
    const struct pooled_space s = space_of(pass);
    size_t count = pooled_head_examples(pass->self, pass->rows), labels = pooled_head_outputs(pass->self);
    for (size_t i = 0; i < count; i++) {
        double weight = weight_of(pass->targets, i);
        bool exact = true;
        if (weight == 0)
            continue;
        for (size_t k = i * labels; k < (i + 1) * labels; k++) {
            bool predicted = s.logits[k] > 0, is = pass->targets->floats[k] > 0.5F;
            exact = exact && predicted == is;
            sums[TRUE_POSITIVES] += predicted && is ? weight : 0;
            sums[FALSE_POSITIVES] += predicted && !is ? weight : 0;
            sums[FALSE_NEGATIVES] += !predicted && is ? weight : 0;
        }
        sums[SUM_LOSS] += weight * loss_of(pass, &s, i, labels);
        sums[SUM_COUNT] += weight;
        sums[SUM_EXACT] += exact ? weight : 0;
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

/* 2 TP / (2 TP + FP + FN); 0 if there is no positive, predicted or true. */
static double f1(const void *self, const double *sums)
{
    (void)self;
    if (sums == NULL)
        return 0;
    double twice = 2 * sums[TRUE_POSITIVES], all = twice + sums[FALSE_POSITIVES] + sums[FALSE_NEGATIVES];
    return sums[SUM_COUNT] == 0 ? NAN : all == 0 ? 0 : twice / all;
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

const struct objective objective_label_set = {
    .name = "label_set",
    .summary = "any number of labels for an example, or for a pair of sequences",
    .place = TARGET_EXAMPLE,
    .type = TARGET_FLOATS,
    .labelled = true,
    .sums = sum_names,
    .metrics = metrics,
    .refuse = refuse,
    .size = sizeof(struct pooled_head),
    .describe = describe,
    .memory_size = memory_size,
    .forward = forward,
    .backward = backward,
    .count = count_batch,
    .outputs = outputs,
    .predict = predict,
};
