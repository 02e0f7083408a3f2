/* Classification. Rows are pooled to one row per sequence, a head of two layers (nn/outputs/head.h) computes
   one logit per class, and the loss is their cross-entropy. If an example is two sequences, the head reads
   the features [a, b, a b, a - b] of both (nn/outputs/pair.h), as in the models of the Long Range Arena that
   match documents. Predicts the probabilities of the classes. Cost: one pass over the rows forward and one
   backward; the head works on one row per example, on the calling thread.
   SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "nn/outputs/head.h"
#include "nn/outputs/loss.h"
#include "nn/outputs/pair.h"
#include "objectives/objective.h"

struct classify {
    enum pooling pooling;
    bool pairs;
    size_t dim, max_len, classes;
    struct head head;
};

/* ---- description -------------------------------------------------------------------------------------- */

static const char *refuse(const struct objective_facts *facts)
{
    return facts->num_outputs < 1 ? "there are no classes" : NULL;
}

static hashattn_status describe(struct host *host, struct params *params, const struct objective_facts *facts,
                                void *self)
{
    struct classify *c = self;
    *c = (struct classify){.pooling = facts->pooling,
                           .pairs = facts->pairs,
                           .dim = facts->dim,
                           .max_len = facts->max_len,
                           .classes = facts->num_outputs};
    return head_describe(host, params, facts->head, c->pairs ? PAIR_WIDTH * c->dim : c->dim,
                         facts->head == HEAD_RELU ? 2 * c->dim : c->dim, c->classes, &c->head);
}

static size_t examples_of(const struct classify *c, const struct rows *rows)
{
    assert(!c->pairs || rows->num_sequences % 2 == 0);
    return rows->num_sequences / (c->pairs ? 2 : 1);
}

/* ---- memory ------------------------------------------------------------------------------------------- */

struct space {
    float *pooled, *partial;           /* (head_rows of sequences): dim */
    float *features, *hidden, *logits; /* (head_rows of examples): 4 dim (`pooled` itself if an example is one
                                          sequence), head_kept, classes */
    /* backward */
    float *dlogits, *dpooled, *dfeatures, *dhidden; /* as above */
    size_t bytes;
};

static struct space lay(const struct classify *c, const struct rows *rows, bool training, void *memory)
{
    struct arena arena = arena_on(memory);
    size_t pooled = size_product(head_rows(rows->num_sequences), c->dim);
    size_t examples = head_rows(examples_of(c, rows));
    size_t features = size_product(examples, c->head.first.in);
    size_t wide = size_product(examples, c->head.first.out), logits = size_product(examples, c->classes);
    struct space s = {
        .pooled = arena_take(&arena, pooled, sizeof(float)),
        .partial = arena_take(&arena, pooled, sizeof(float)),
        .hidden = arena_take(&arena, size_product(examples, head_kept(&c->head)), sizeof(float)),
        .logits = arena_take(&arena, logits, sizeof(float)),
    };
    s.features = c->pairs ? arena_take(&arena, features, sizeof(float)) : s.pooled;
    if (training) {
        s.dpooled = arena_take(&arena, pooled, sizeof(float));
        s.dfeatures = c->pairs ? arena_take(&arena, features, sizeof(float)) : s.dpooled;
        s.dhidden = arena_take(&arena, wide, sizeof(float));
        s.dlogits = arena_take(&arena, logits, sizeof(float));
    }
    s.bytes = arena.used;
    return s;
}

static struct space space_of(const struct objective_pass *pass)
{
    return lay(pass->self, pass->rows, pass->training, pass->memory);
}

static size_t memory_size(const void *self, const struct rows *rows, bool training)
{
    return lay(self, rows, training, NULL).bytes;
}

/* ---- passes ------------------------------------------------------------------------------------------- */

static double forward(const struct objective_pass *pass)
{
    const struct classify *c = pass->self;
    const struct rows *rows = pass->rows;
    const struct space s = space_of(pass);
    size_t count = examples_of(c, rows), width = c->head.first.in;
    size_t spare = head_rows(count) - count; /* rows that pad the head's last tile */
    pooling_forward(c->pooling, c->max_len, rows, s.pooled, s.partial, pass->x, c->dim);
    if (c->pairs)
        pair_forward(s.features, s.pooled, count, c->dim);
    memset(s.features + count * width, 0, spare * width * sizeof(float));
    head_forward(&c->head, rows->kernels, pass->values, s.logits, s.hidden, s.features, count);
    if (pass->targets == NULL || count == 0)
        return 0;
    if (s.dlogits != NULL)
        memset(s.dlogits + count * c->classes, 0, spare * c->classes * sizeof(float));
    return loss_cross_entropy(s.logits, pass->targets->ids, pass->targets->weights, count, c->classes,
                              pass->count, s.dlogits);
}

static void backward(const struct objective_pass *pass, struct slice gradients, float *dx, bool add)
{
    const struct classify *c = pass->self;
    const struct rows *rows = pass->rows;
    const struct space s = space_of(pass);
    size_t count = examples_of(c, rows);
    for (size_t i = 0; pass->weight != 1 && i < count * c->classes; i++)
        s.dlogits[i] *= (float)pass->weight;
    head_backward(&c->head, rows->kernels, pass->values, gradients, s.dfeatures, s.dhidden, s.dlogits,
                  s.hidden, s.features, count);
    if (c->pairs)
        pair_backward(s.dpooled, s.dfeatures, s.pooled, count, c->dim);
    pooling_backward(c->pooling, c->max_len, rows, dx, add, s.dpooled, c->dim);
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

static void count_batch(const struct objective_pass *pass, double *sums)
{
    const struct classify *c = pass->self;
    const struct space s = space_of(pass);
    size_t count = examples_of(c, pass->rows);
    for (size_t i = 0; i < count; i++) {
        const float *logits = s.logits + i * c->classes;
        double sum, weight = pass->targets->weights == NULL ? 1 : (double)pass->targets->weights[i];
        if (weight == 0)
            continue;
        size_t best = best_of(logits, c->classes, &sum), label = pass->targets->ids[i];
        sums[ID_LOSS] += weight * (log(sum) + (double)logits[best] - (double)logits[label]);
        sums[ID_CORRECT] += best == label ? weight : 0;
        sums[ID_COUNT] += weight;
    }
}

static size_t outputs(const void *self)
{
    return ((const struct classify *)self)->classes;
}

static void predict(const struct objective_pass *pass, float *probabilities)
{
    const struct classify *c = pass->self;
    const struct space s = space_of(pass);
    size_t count = examples_of(c, pass->rows);
    for (size_t i = 0; i < count; i++) {
        const float *logits = s.logits + i * c->classes;
        double sum;
        size_t best = best_of(logits, c->classes, &sum);
        for (size_t k = 0; k < c->classes; k++)
            *probabilities++ = (float)(exp((double)logits[k] - (double)logits[best]) / sum);
    }
}

/* ---- metrics ------------------------------------------------------------------------------------------ */

static const struct metric metrics[] = {
    {"accuracy", id_accuracy, true, 1}, {"loss", id_loss, false, 2}, {.name = NULL}};

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
    .summary = "which class an example, or a pair of sequences, belongs to",
    .place = TARGET_EXAMPLE,
    .type = TARGET_ID,
    .sums = id_sums,
    .metrics = metrics,
    .refuse = refuse,
    .size = sizeof(struct classify),
    .describe = describe,
    .memory_size = memory_size,
    .forward = forward,
    .backward = backward,
    .count = count_batch,
    .outputs = outputs,
    .predict = predict,
    .baseline = "majority",
    .baseline_size = baseline_size,
    .baseline_count = baseline_count,
    .baseline_value = majority_value,
};
