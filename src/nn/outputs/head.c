/* Two dense layers with a ReLU between. SPDX-License-Identifier: Apache-2.0 */
#include "nn/outputs/head.h"

hashattn_status head_describe(struct host *host, struct params *params, size_t dim, size_t wide,
                              size_t classes, struct head *head)
{
    TRY(dense_describe(host, params, "classifier.dense", dim, wide, &head->first));
    return dense_describe(host, params, "classifier.out_proj", wide, classes, &head->second);
}

static void forward_tile(const struct head *head, const struct kernels *kernels, const float *values,
                         float *logits, float *hidden, const float *x)
{
    dense_forward(&head->first, kernels, values, hidden, x, HEAD_TILE);
    for (size_t i = 0; i < HEAD_TILE * head->first.out; i++)
        if (hidden[i] < 0)
            hidden[i] = 0;
    dense_forward(&head->second, kernels, values, logits, hidden, HEAD_TILE);
}

void head_forward(const struct head *head, const struct kernels *kernels, const float *values, float *logits,
                  float *hidden, const float *x, size_t n)
{
    for (size_t row = 0; row < n; row += HEAD_TILE)
        forward_tile(head, kernels, values, logits + row * head->second.out, hidden + row * head->first.out,
                     x + row * head->first.in);
}

static void backward_tile(const struct head *head, const struct kernels *kernels, const float *values,
                          struct slice gradients, float *dx, float *dhidden, const float *dlogits,
                          const float *hidden, const float *x)
{
    dense_backward(&head->second, kernels, values, gradients, dhidden, false, dlogits, hidden, HEAD_TILE);
    for (size_t i = 0; i < HEAD_TILE * head->first.out; i++)
        if (!(hidden[i] > 0))
            dhidden[i] = 0;
    dense_backward(&head->first, kernels, values, gradients, dx, false, dhidden, x, HEAD_TILE);
}

void head_backward(const struct head *head, const struct kernels *kernels, const float *values,
                   struct slice gradients, float *dx, float *dhidden, const float *dlogits,
                   const float *hidden, const float *x, size_t n)
{
    size_t in = head->first.in, wide = head->first.out;
    for (size_t row = 0; row < n; row += HEAD_TILE)
        backward_tile(head, kernels, values, gradients, dx + row * in, dhidden + row * wide,
                      dlogits + row * head->second.out, hidden + row * wide, x + row * in);
}
