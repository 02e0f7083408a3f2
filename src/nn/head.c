/* Two dense layers with a ReLU between. SPDX-License-Identifier: Apache-2.0 */
#include "nn/head.h"

hashattn_status head_describe(struct host *host, struct params *params, size_t dim, size_t wide,
                              size_t classes, struct head *head)
{
    TRY(dense_describe(host, params, "classifier.dense", dim, wide, &head->first));
    return dense_describe(host, params, "classifier.out_proj", wide, classes, &head->second);
}

void head_forward(const struct head *head, const struct kernels *kernels, const float *values, float *logits,
                  float *hidden, const float *x, size_t n)
{
    dense_forward(&head->first, kernels, values, hidden, x, n);
    for (size_t i = 0; i < n * head->first.out; i++)
        if (hidden[i] < 0)
            hidden[i] = 0;
    dense_forward(&head->second, kernels, values, logits, hidden, n);
}

void head_backward(const struct head *head, const struct kernels *kernels, const float *values,
                   struct slice gradients, float *dx, float *dhidden, const float *dlogits,
                   const float *hidden, const float *x, size_t n)
{
    dense_backward(&head->second, kernels, values, gradients, dhidden, false, dlogits, hidden, n);
    for (size_t i = 0; i < n * head->first.out; i++)
        if (!(hidden[i] > 0))
            dhidden[i] = 0;
    dense_backward(&head->first, kernels, values, gradients, dx, false, dhidden, x, n);
}
