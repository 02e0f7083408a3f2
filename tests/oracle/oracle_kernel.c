/* All pairs, one after another.
   SPDX-License-Identifier: Apache-2.0 */
#include "oracle/oracle_kernel.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct oracle_kernel oracle_kernel_new(size_t n_q, size_t n_k, size_t d, size_t d_v)
{
    struct oracle_kernel o = {.n_q = n_q, .n_k = n_k, .d = d, .d_v = d_v};
    double **arrays[] = {&o.query, &o.dquery, &o.key, &o.dkey, &o.value, &o.dvalue, &o.dout, &o.out};
    size_t counts[] = {n_q * d, n_q * d, n_k * d, n_k * d, n_k * d_v, n_k * d_v, n_q * d_v, n_q * d_v};
    for (size_t a = 0; a < 8; a++)
        *arrays[a] = calloc(counts[a] + 1, sizeof(double));
    return o;
}

void oracle_kernel_free(struct oracle_kernel *o)
{
    double *arrays[] = {o->query, o->dquery, o->key, o->dkey, o->value, o->dvalue, o->dout, o->out};
    for (size_t a = 0; a < 8; a++)
        free(arrays[a]);
}

static double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* One query: its output, and its share of all gradients. Returns <dout, out>. */
static double run_query(struct oracle_kernel *o, size_t i, double *dq, double *dk)
{
    size_t seen = o->visible == NULL ? o->n_k : o->visible[i], d = o->d, d_v = o->d_v;
    const double *query = o->query + i * d, *dout = o->dout + i * d_v;
    double *out = o->out + i * d_v, bottom = o->epsilon;
    memset(out, 0, d_v * sizeof *out);
    for (size_t j = 0; j < seen; j++) {
        double score = o->kernel(o->self, query, o->key + j * d, d, dq, dk);
        bottom += score;
        for (size_t c = 0; c < d_v; c++)
            out[c] += score * o->value[j * d_v + c];
    }
    bool whole = bottom > o->floor;
    bottom = whole ? bottom : o->floor;
    for (size_t c = 0; c < d_v; c++)
        out[c] = seen == 0 ? 0 : out[c] / bottom;
    for (size_t j = 0; j < seen; j++) {
        double score = o->kernel(o->self, query, o->key + j * d, d, dq, dk);
        double dscore = (dot(dout, o->value + j * d_v, d_v) - (whole ? dot(dout, out, d_v) : 0)) / bottom;
        for (size_t c = 0; c < d_v; c++)
            o->dvalue[j * d_v + c] += score / bottom * dout[c];
        for (size_t c = 0; c < d; c++) {
            o->dquery[i * d + c] += dscore * dq[c];
            o->dkey[j * d + c] += dscore * dk[c];
        }
    }
    return dot(dout, out, d_v);
}

double oracle_kernel_run(struct oracle_kernel *o)
{
    double *dq = calloc(2 * o->d, sizeof *dq), sum = 0;
    memset(o->dquery, 0, o->n_q * o->d * sizeof *o->dquery);
    memset(o->dkey, 0, o->n_k * o->d * sizeof *o->dkey);
    memset(o->dvalue, 0, o->n_k * o->d_v * sizeof *o->dvalue);
    for (size_t i = 0; i < o->n_q; i++)
        sum += run_query(o, i, dq, dq + o->d);
    free(dq);
    return sum;
}
