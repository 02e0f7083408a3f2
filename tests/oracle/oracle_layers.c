/* Plain loops in double.
   SPDX-License-Identifier: Apache-2.0 */
#include "oracle/oracle_layers.h"

#include <math.h>
#include <stdlib.h>

void oracle_dense(double *y, const double *x, const double *weight, const double *bias, size_t n, size_t in,
                  size_t out)
{
    for (size_t i = 0; i < n; i++)
        for (size_t o = 0; o < out; o++) {
            double sum = bias[o];
            for (size_t c = 0; c < in; c++)
                sum += x[i * in + c] * weight[o * in + c];
            y[i * out + o] = sum;
        }
}

void oracle_norm(double *y, const double *x, const double *gain, const double *bias, size_t n, size_t dim,
                 double epsilon)
{
    for (size_t i = 0; i < n; i++) {
        const double *row = x + i * dim;
        double mean = 0, variance = 0;
        for (size_t c = 0; c < dim; c++)
            mean += row[c] / (double)dim;
        for (size_t c = 0; c < dim; c++)
            variance += (row[c] - mean) * (row[c] - mean) / (double)dim;
        for (size_t c = 0; c < dim; c++)
            y[i * dim + c] = (row[c] - mean) / sqrt(variance + epsilon) * gain[c] + bias[c];
    }
}

double oracle_gelu(double x)
{
    return x * erfc(-x / sqrt(2)) / 2;
}

void oracle_convolve(double *y, const double *x, const double *filters, size_t taps, size_t n, size_t heads,
                     size_t width)
{
    long half = (long)taps / 2;
    size_t dim = heads * width;
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < dim; c++)
            for (size_t t = 0; t < taps; t++) {
                long from = (long)i + (long)t - half;
                if (from >= 0 && from < (long)n)
                    y[i * dim + c] += filters[c / width * taps + t] * x[(size_t)from * dim + c];
            }
}

void oracle_attention(double *out, const double *query, const double *key, const double *value, size_t n,
                      size_t heads, size_t width, int causal)
{
    size_t dim = heads * width;
    double *weight = malloc((n > 0 ? n : 1) * sizeof *weight);
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < heads; h++) {
            double most = -INFINITY, sum = 0;
            size_t seen = causal ? i + 1 : n;
            for (size_t j = 0; j < seen; j++) {
                weight[j] = 0;
                for (size_t c = h * width; c < (h + 1) * width; c++)
                    weight[j] += query[i * dim + c] * key[j * dim + c] / sqrt((double)width);
                most = fmax(most, weight[j]);
            }
            for (size_t j = 0; j < seen; j++)
                sum += weight[j] = exp(weight[j] - most);
            for (size_t c = h * width; c < (h + 1) * width; c++) {
                out[i * dim + c] = 0;
                for (size_t j = 0; j < seen; j++)
                    out[i * dim + c] += weight[j] / sum * value[j * dim + c];
            }
        }
    free(weight);
}

double oracle_cross_entropy(const double *logits, const int32_t *labels, size_t n, size_t classes)
{
    double loss = 0;
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t c = 0; c < classes; c++)
            sum += exp(logits[i * classes + c] - logits[i * classes + (size_t)labels[i]]);
        loss += log(sum) / (double)n;
    }
    return loss;
}
