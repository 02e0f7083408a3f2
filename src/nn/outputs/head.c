/* Two dense layers with an activation between. A tile of hidden rows is (HEAD_TILE, wide) after the
   activation, followed for GELU by its slopes.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/outputs/head.h"

#include <math.h>

const char *const head_names[] = {"relu", "tanh", "gelu", NULL};

hashattn_status head_describe(struct host *host, struct params *params, enum head_kind kind, size_t dim,
                              size_t wide, size_t classes, struct head *head)
{
    head->kind = kind;
    TRY(dense_describe(host, params, "classifier.dense", dim, wide, &head->first));
    return dense_describe(host, params, "classifier.out_proj", wide, classes, &head->second);
}

size_t head_kept(const struct head *head)
{
    return head->kind == HEAD_GELU ? 2 * head->first.out : head->first.out;
}

/* hidden: the rows before the activation, and after the call those after it. */
static void activate(const struct head *head, const struct kernels *kernels, float *hidden)
{
    size_t count = HEAD_TILE * head->first.out;
    if (head->kind == HEAD_GELU)
        kernels->layers.gelu_again(hidden, hidden + count, hidden, count, 0, 0, 0, 1);
    for (size_t i = 0; i < count && head->kind == HEAD_RELU; i++)
        if (hidden[i] < 0)
            hidden[i] = 0;
    for (size_t i = 0; i < count && head->kind == HEAD_TANH; i++)
        hidden[i] = tanhf(hidden[i]);
}

/* dhidden: the gradient of the rows after the activation becomes that of the rows before it. */
static void activate_backward(const struct head *head, const struct kernels *kernels, float *dhidden,
                              const float *hidden)
{
    size_t count = HEAD_TILE * head->first.out;
    if (head->kind == HEAD_GELU)
        kernels->rows.multiply(dhidden, hidden + count, count);
    for (size_t i = 0; i < count && head->kind == HEAD_RELU; i++)
        if (!(hidden[i] > 0))
            dhidden[i] = 0;
    for (size_t i = 0; i < count && head->kind == HEAD_TANH; i++)
        dhidden[i] *= 1 - hidden[i] * hidden[i];
}

static void forward_tile(const struct head *head, const struct kernels *kernels, const float *values,
                         float *logits, float *hidden, const float *x)
{
    dense_forward(&head->first, kernels, values, hidden, x, HEAD_TILE);
    activate(head, kernels, hidden);
    dense_forward(&head->second, kernels, values, logits, hidden, HEAD_TILE);
}

void head_forward(const struct head *head, const struct kernels *kernels, const float *values, float *logits,
                  float *hidden, const float *x, size_t n)
{
    for (size_t row = 0; row < n; row += HEAD_TILE)
        forward_tile(head, kernels, values, logits + row * head->second.out, hidden + row * head_kept(head),
                     x + row * head->first.in);
}

static void backward_tile(const struct head *head, const struct kernels *kernels, const float *values,
                          struct slice gradients, float *dx, float *dhidden, const float *dlogits,
                          const float *hidden, const float *x)
{
    dense_backward(&head->second, kernels, values, gradients, dhidden, false, dlogits, hidden, HEAD_TILE);
    activate_backward(head, kernels, dhidden, hidden);
    dense_backward(&head->first, kernels, values, gradients, dx, false, dhidden, x, HEAD_TILE);
}

void head_backward(const struct head *head, const struct kernels *kernels, const float *values,
                   struct slice gradients, float *dx, float *dhidden, const float *dlogits,
                   const float *hidden, const float *x, size_t n)
{
    size_t in = head->first.in, wide = head->first.out;
    for (size_t row = 0; row < n; row += HEAD_TILE)
        backward_tile(head, kernels, values, gradients, dx + row * in, dhidden + row * wide,
                      dlogits + row * head->second.out, hidden + row * head_kept(head), x + row * in);
}
