/* Examples are few beside rows, so all of it but pooling runs on the calling thread.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/classifier.h"

#include <assert.h>
#include <string.h>

#include "nn/loss.h"
#include "nn/pair.h"

hashattn_status classifier_describe(struct host *host, struct params *params, size_t num_classes,
                                    struct classifier *classifier)
{
    size_t dim = classifier->dim;
    return head_describe(host, params, classifier->pairs ? PAIR_WIDTH * dim : dim, 2 * dim, num_classes,
                         &classifier->head);
}

size_t classifier_examples(const struct classifier *classifier, const struct rows *rows)
{
    assert(!classifier->pairs || rows->num_sequences % 2 == 0);
    return rows->num_sequences / (classifier->pairs ? 2 : 1);
}

struct classifier_space classifier_lay(const struct classifier *classifier, const struct rows *rows,
                                       bool training, struct arena *arena)
{
    const struct head *head = &classifier->head;
    size_t pooled = size_product(head_rows(rows->num_sequences), classifier->dim);
    size_t examples = head_rows(classifier_examples(classifier, rows));
    size_t features = size_product(examples, head->first.in);
    size_t hidden = size_product(examples, head->first.out),
           logits = size_product(examples, head->second.out);
    struct classifier_space s = {
        .pooled = arena_take(arena, pooled, sizeof(float)),
        .partial = arena_take(arena, pooled, sizeof(float)),
        .hidden = arena_take(arena, hidden, sizeof(float)),
        .logits = arena_take(arena, logits, sizeof(float)),
    };
    s.features = classifier->pairs ? arena_take(arena, features, sizeof(float)) : s.pooled;
    if (!training)
        return s;
    s.dpooled = arena_take(arena, pooled, sizeof(float));
    s.dfeatures = classifier->pairs ? arena_take(arena, features, sizeof(float)) : s.dpooled;
    s.dhidden = arena_take(arena, hidden, sizeof(float));
    s.dlogits = arena_take(arena, logits, sizeof(float));
    return s;
}

double classifier_forward(const struct classifier *classifier, const struct rows *rows, const float *values,
                          const struct classifier_space *s, const float *x, const int32_t *labels,
                          size_t mean_over, float *logits)
{
    const struct head *head = &classifier->head;
    size_t count = classifier_examples(classifier, rows), classes = head->second.out;
    size_t spare = head_rows(count) - count; /* rows that fill the head's last tile */
    size_t width = head->first.in;
    pooling_forward(classifier->pooling, classifier->max_len, rows, s->pooled, s->partial, x,
                    classifier->dim);
    if (classifier->pairs)
        pair_forward(s->features, s->pooled, count, classifier->dim);
    memset(s->features + count * width, 0, spare * width * sizeof(float));
    head_forward(head, rows->kernels, values, s->logits, s->hidden, s->features, count);
    memcpy(logits, s->logits, count * classes * sizeof *logits);
    if (labels == NULL || count == 0)
        return 0;
    double loss = loss_cross_entropy(logits, labels, count, classes, mean_over, s->dlogits);
    if (s->dlogits != NULL)
        memset(s->dlogits + count * classes, 0, spare * classes * sizeof(float));
    return loss;
}

void classifier_weigh(const struct classifier *classifier, const struct rows *rows,
                      const struct classifier_space *s, double factor)
{
    size_t count = classifier_examples(classifier, rows) * classifier->head.second.out;
    for (size_t i = 0; s->dlogits != NULL && i < count; i++)
        s->dlogits[i] *= (float)factor;
}

void classifier_backward(const struct classifier *classifier, const struct rows *rows, const float *values,
                         struct slice gradients, const struct classifier_space *s)
{
    size_t count = classifier_examples(classifier, rows);
    head_backward(&classifier->head, rows->kernels, values, gradients, s->dfeatures, s->dhidden, s->dlogits,
                  s->hidden, s->features, count);
    if (classifier->pairs)
        pair_backward(s->dpooled, s->dfeatures, s->pooled, count, classifier->dim);
}

void classifier_backward_rows(const struct classifier *classifier, const struct rows *rows,
                              const struct classifier_space *s, float *dx, size_t first, size_t n)
{
    pooling_backward_rows(classifier->pooling, classifier->max_len, rows, dx, s->dpooled, first, n,
                          classifier->dim);
}
