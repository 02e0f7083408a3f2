/* Shares no code with the library.
   SPDX-License-Identifier: Apache-2.0 */
#include "oracle/oracle_softmax.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *zeros(size_t rows, size_t cols)
{
    double *x = calloc(rows * cols + 1, sizeof *x);
    if (x == NULL)
        abort();
    return x;
}

struct oracle_softmax oracle_softmax_new(size_t n_q, size_t n_k, size_t d, size_t d_v)
{
    return (struct oracle_softmax){
        .n_q = n_q,
        .n_k = n_k,
        .d = d,
        .d_v = d_v,
        .query = zeros(n_q, d),
        .key = zeros(n_k, d),
        .value = zeros(n_k, d_v),
        .dout = zeros(n_q, d_v),
        .out = zeros(n_q, d_v),
        .dquery = zeros(n_q, d),
        .dkey = zeros(n_k, d),
        .dvalue = zeros(n_k, d_v),
        .out_bound = zeros(n_q, d_v),
        .dquery_bound = zeros(n_q, d),
        .dkey_bound = zeros(n_k, d),
        .dvalue_bound = zeros(n_k, d_v),
    };
}

void oracle_softmax_free(struct oracle_softmax *oracle)
{
    double *arrays[] = {oracle->query,     oracle->key,          oracle->value,      oracle->dout,
                        oracle->out,       oracle->dquery,       oracle->dkey,       oracle->dvalue,
                        oracle->out_bound, oracle->dquery_bound, oracle->dkey_bound, oracle->dvalue_bound};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
    free(oracle->visible);
    free(oracle->times);
}

static double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t c = 0; c < n; c++)
        sum += a[c] * b[c];
    return sum;
}

static double size_of(const double *a, size_t n)
{
    double sum = 0;
    for (size_t c = 0; c < n; c++)
        sum += fabs(a[c]);
    return sum;
}

static double dot_size(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t c = 0; c < n; c++)
        sum += fabs(a[c] * b[c]);
    return sum;
}

static double extra(const struct oracle_softmax *o, size_t i, size_t j)
{
    return o->extra == NULL ? 0 : o->extra[i * o->n_k + j];
}

static double times(const struct oracle_softmax *o, size_t i, size_t j)
{
    return o->times == NULL ? 1 : o->times[i * o->n_k + j];
}

/* Probabilities p (n_k) of query i, and bounds on their relative errors in forward and in backward. A query
   that sees no key has none. */
static void probabilities(const struct oracle_softmax *o, size_t i, double *p, double *off, double *off_again)
{
    size_t seen = o->visible == NULL ? o->n_k : o->visible[i], met = 0;
    const double *q = o->query + i * o->d;
    double scale = 1 / sqrt((double)o->d), most = -INFINITY, least = INFINITY, sum = 0, score_error = 0;
    for (size_t j = 0; j < seen; j++) {
        const double *k = o->key + j * o->d;
        p[j] = scale * (dot(q, k, o->d) + extra(o, i, j));
        if (times(o, i, j) == 0)
            continue;
        met++;
        most = fmax(most, p[j]);
        least = fmin(least, p[j]);
        score_error = fmax(score_error, ((double)o->d + 3) * FLT_EPSILON * scale * dot_size(q, k, o->d) +
                                            o->input_error * scale * (size_of(q, o->d) + size_of(k, o->d)) +
                                            (o->extra == NULL ? 0 : scale * o->extra_error[i * o->n_k + j]));
    }
    for (size_t j = seen; j < o->n_k; j++)
        p[j] = 0;
    *off = *off_again = 0;
    if (met == 0) {
        memset(p, 0, o->n_k * sizeof *p);
        return;
    }
    double range = fmin(most - least, 100); /* below that every term is negligible */
    for (size_t j = 0; j < seen; j++) {
        p[j] = times(o, i, j) == 0 ? 0 : times(o, i, j) * exp(p[j] - most);
        sum += p[j];
    }
    for (size_t j = 0; j < seen; j++)
        p[j] /= sum;
    /* A score and the maximum; their difference; exponential and division; the sum and its rescalings. */
    double roundings = 2 * range + 2 * (double)o->n_k + 16;
    *off = expm1(2 * score_error + roundings * FLT_EPSILON);
    *off_again = expm1(2 * score_error + (roundings + 3 * log(sum)) * FLT_EPSILON);
}

double oracle_softmax_run(struct oracle_softmax *o)
{
    double scale = 1 / sqrt((double)o->d), total = 0, n_q = (double)o->n_q, n_k = (double)o->n_k;
    double *p = zeros(3, o->n_k), *dp = p + o->n_k, *dp_size = dp + o->n_k;
    memset(o->out, 0, o->n_q * o->d_v * sizeof(double));
    memset(o->out_bound, 0, o->n_q * o->d_v * sizeof(double));
    memset(o->dquery, 0, o->n_q * o->d * sizeof(double));
    memset(o->dquery_bound, 0, o->n_q * o->d * sizeof(double));
    memset(o->dkey, 0, o->n_k * o->d * sizeof(double));
    memset(o->dkey_bound, 0, o->n_k * o->d * sizeof(double));
    memset(o->dvalue, 0, o->n_k * o->d_v * sizeof(double));
    memset(o->dvalue_bound, 0, o->n_k * o->d_v * sizeof(double));
    for (size_t i = 0; i < o->n_q; i++) {
        const double *q = o->query + i * o->d, *g = o->dout + i * o->d_v;
        double off, off_again, delta = 0, delta_size = 0;
        probabilities(o, i, p, &off, &off_again);
        for (size_t j = 0; j < o->n_k; j++) {
            const double *v = o->value + j * o->d_v;
            dp[j] = dot(g, v, o->d_v);
            dp_size[j] = dot_size(g, v, o->d_v);
            delta += p[j] * dp[j];
            delta_size += p[j] * dp_size[j];
            for (size_t c = 0; c < o->d_v; c++) {
                o->out[i * o->d_v + c] += p[j] * v[c];
                o->out_bound[i * o->d_v + c] +=
                    (off + o->rounding + (n_k + 2) * FLT_EPSILON) * p[j] * fabs(v[c]) + FLT_MIN * fabs(v[c]);
                o->dvalue[j * o->d_v + c] += p[j] * g[c];
                o->dvalue_bound[j * o->d_v + c] +=
                    (off_again + o->rounding + (n_q + 2) * FLT_EPSILON) * p[j] * fabs(g[c]) +
                    FLT_MIN * fabs(g[c]);
            }
        }
        total += delta;
        double delta_error = delta_size * (off + o->rounding + (n_k + (double)o->d_v + 4) * FLT_EPSILON);
        for (size_t j = 0; j < o->n_k; j++) {
            const double *k = o->key + j * o->d;
            double ds = scale * p[j] * (dp[j] - delta), size = scale * p[j] * (dp_size[j] + delta_size);
            double error =
                size * off_again + scale * FLT_MIN * (dp_size[j] + delta_size) +
                scale * p[j] * (((double)o->d_v + 4) * FLT_EPSILON * (dp_size[j] + delta_size) + delta_error);
            if (o->extra != NULL) {
                o->dextra[i * o->n_k + j] = ds;
                o->dextra_bound[i * o->n_k + j] = error;
            }
            error += o->rounding * (fabs(ds) + error);
            for (size_t c = 0; c < o->d; c++) {
                o->dquery[i * o->d + c] += ds * k[c];
                o->dquery_bound[i * o->d + c] +=
                    (error + (n_k + 2) * FLT_EPSILON * size) * fabs(k[c]) + o->input_error * size;
                o->dkey[j * o->d + c] += ds * q[c];
                o->dkey_bound[j * o->d + c] +=
                    (error + (n_q + 2) * FLT_EPSILON * size) * fabs(q[c]) + o->input_error * size;
            }
        }
    }
    free(p);
    return total;
}
