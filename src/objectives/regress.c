/* Regression: one float per example, one sequence or two (nn/outputs/pooled_head.h), with the squared error
   as its loss. Predicts that float. Pearson's correlation of predictions and targets is a function of sums;
   Spearman's, the correlation of their ranks, needs all of them.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "nn/outputs/pooled_head.h"
#include "objectives/objective.h"

/* ---- description -------------------------------------------------------------------------------------- */

static const char *refuse(const struct objective_facts *facts)
{
    return facts->num_outputs != 1 ? "one float is predicted per example" : NULL;
}

static hashattn_status describe(struct host *host, struct params *params, const struct objective_facts *facts,
                                void *self)
{
    struct pooled_head *r = self;
    *r = (struct pooled_head){
        .pooling = facts->pooling, .pairs = facts->pairs, .dim = facts->dim, .max_len = facts->max_len};
    return pooled_head_describe(host, params, facts->head, 1, r);
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

static double off_by(const struct objective_pass *pass, const struct pooled_space *s, size_t i)
{
    return (double)s->logits[i] - (double)pass->targets->floats[i];
}

static double forward(const struct objective_pass *pass)
{
    const struct pooled_space s = space_of(pass);
    size_t count = pooled_head_examples(pass->self, pass->rows);
    double sum = 0;
    pooled_head_forward(pass->self, pass->rows, pass->values, &s, pass->x);
    for (size_t i = 0; pass->targets != NULL && i < count; i++) {
        double weight = weight_of(pass->targets, i), off = off_by(pass, &s, i);
        sum += weight == 0 ? 0 : weight * off * off;
    }
    return sum;
}

static void backward(const struct objective_pass *pass, struct slice gradients, float *dx, bool add)
{
    const struct pooled_space s = space_of(pass);
    size_t count = pooled_head_examples(pass->self, pass->rows);
    for (size_t i = 0; i < count; i++) {
        double weight = weight_of(pass->targets, i), scale = 2 * weight * pass->weight / pass->count;
        s.dlogits[i] = weight == 0 ? 0 : (float)(scale * off_by(pass, &s, i));
    }
    pooled_head_backward(pass->self, pass->rows, pass->values, gradients, &s, dx, add);
}

enum { SUM_LOSS, SUM_COUNT, SUM_Y, SUM_T, SUM_YY, SUM_TT, SUM_YT };
static const char *const sum_names[] = {
    "loss", "count", "outputs", "targets", "squared_outputs", "squared_targets", "products", NULL};

static void count_batch(const struct objective_pass *pass, double *sums)
{
    const struct pooled_space s = space_of(pass);
    size_t count = pooled_head_examples(pass->self, pass->rows);
    for (size_t i = 0; i < count; i++) {
        double weight = weight_of(pass->targets, i), y = (double)s.logits[i];
        double t = (double)pass->targets->floats[i];
        if (weight == 0)
            continue;
        sums[SUM_LOSS] += weight * (y - t) * (y - t);
        sums[SUM_COUNT] += weight;
        sums[SUM_Y] += weight * y;
        sums[SUM_T] += weight * t;
        sums[SUM_YY] += weight * y * y;
        sums[SUM_TT] += weight * t * t;
        sums[SUM_YT] += weight * y * t;
    }
}

static size_t outputs(const void *self)
{
    return pooled_head_outputs(self);
}

static void predict(const struct objective_pass *pass, float *predicted)
{
    const struct pooled_space s = space_of(pass);
    size_t count = pooled_head_examples(pass->self, pass->rows);
    for (size_t i = 0; i < count; i++)
        predicted[i] = s.logits[i];
}

/* ---- metrics ------------------------------------------------------------------------------------------ */

/* The correlation from sums over `n`; 0 if one side does not vary. */
static double correlation(double n, double y, double t, double yy, double tt, double yt)
{
    double spread_y = yy - y * y / n, spread_t = tt - t * t / n, root = sqrt(spread_y) * sqrt(spread_t);
    /* A constant has no spread but rounding, which does not count. */
    bool varies = spread_y > 1e-12 * yy && spread_t > 1e-12 * tt;
    return varies ? fmin(1, fmax(-1, (yt - y * t / n) / root)) : 0;
}

static double pearson(const void *self, const double *sums)
{
    (void)self;
    if (sums == NULL)
        return 0;
    return sums[SUM_COUNT] == 0 ? NAN
                                : correlation(sums[SUM_COUNT], sums[SUM_Y], sums[SUM_T], sums[SUM_YY],
                                              sums[SUM_TT], sums[SUM_YT]);
}

static double loss(const void *self, const double *sums)
{
    (void)self;
    return sums == NULL ? 0 : sums[SUM_COUNT] == 0 ? NAN : sums[SUM_LOSS] / sums[SUM_COUNT];
}

static const struct metric metrics[] = {
    {"pearson", pearson, true, 1}, {"loss", loss, false, 2}, {.name = NULL}};

/* A value, and whose it is. */
struct ranked {
    double value;
    size_t index;
};

static int by_value(const void *a, const void *b)
{
    const struct ranked *one = a, *two = b;
    if (one->value != two->value)
        return one->value < two->value ? -1 : 1;
    return one->index < two->index ? -1 : 1;
}

/* Sorts, and writes the rank of each value, counted from 1; equal values share their mean rank. */
static void rank(struct ranked *values, size_t n, double *ranks)
{
    qsort(values, n, sizeof *values, by_value);
    for (size_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && values[end].value == values[first].value;)
            end++;
        for (size_t i = first; i < end; i++)
            ranks[values[i].index] = (double)(first + 1 + end) / 2;
    }
}

/* Targets of weight 0 do not count; other weights count as 1. */
static hashattn_status spearman(struct host *host, const void *self, const struct targets *targets,
                                const float *predicted, size_t n, double *value)
{
    (void)self;
    void *block;
    TRY(memory_new(host, n, sizeof(struct ranked) + 2 * sizeof(double), "ranks of predictions", &block));
    struct ranked *sorted = block;
    double *ranks[2] = {(double *)(void *)(sorted + n), (double *)(void *)(sorted + n) + n};
    size_t count = 0;
    for (int side = 0; side < 2; side++) {
        const float *values = side == 0 ? predicted : targets->floats;
        count = 0;
        for (size_t i = 0; i < n; i++)
            if (weight_of(targets, i) != 0) {
                sorted[count] = (struct ranked){(double)values[i], count};
                count++;
            }
        rank(sorted, count, ranks[side]);
    }
    double y = 0, t = 0, yy = 0, tt = 0, yt = 0, middle = ((double)count + 1) / 2;
    for (size_t i = 0; i < count; i++) {
        double a = ranks[0][i] - middle, b = ranks[1][i] - middle;
        y += a;
        t += b;
        yy += a * a;
        tt += b * b;
        yt += a * b;
    }
    *value = count == 0 ? NAN : correlation((double)count, y, t, yy, tt, yt);
    memory_free(host, block);
    return HASHATTN_OK;
}

static const struct overall_metric overall[] = {{"spearman", spearman, true, 0}, {.name = NULL}};

const struct objective objective_regress = {
    .name = "regress",
    .last_layer = "classifier.out_proj.",
    .summary = "a number for an example, or for a pair of sequences",
    .place = TARGET_EXAMPLE,
    .type = TARGET_FLOATS,
    .sums = sum_names,
    .metrics = metrics,
    .overall = overall,
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
