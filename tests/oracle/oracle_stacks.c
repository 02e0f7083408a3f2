/* Plain loops over plain arrays.
   SPDX-License-Identifier: Apache-2.0 */
#include "oracle/oracle_stacks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/oracle_encoder.h"
#include "oracle/oracle_layers.h"

static const double *named(const struct oracle_stacks *o, const char *name, const char *rest)
{
    char text[160];
    snprintf(text, sizeof text, "%s%s", name, rest);
    for (size_t i = 0; i < o->params->num_rows; i++)
        if (strcmp(o->params->rows[i].name, text) == 0)
            return o->values + o->params->rows[i].offset;
    fprintf(stderr, "the oracle misses the parameter %s\n", text);
    abort();
}

static double *rows_new(size_t n)
{
    return calloc(n > 0 ? n : 1, sizeof(double));
}

void oracle_cross_attention(double *out, const double *query, size_t n, const double *key,
                            const double *value, size_t m, size_t heads, size_t width)
{
    size_t dim = heads * width;
    double *weight = rows_new(m);
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < heads; h++) {
            double sum = 0;
            for (size_t j = 0; j < m; j++) {
                double score = 0;
                for (size_t c = h * width; c < (h + 1) * width; c++)
                    score += query[i * dim + c] * key[j * dim + c];
                sum += weight[j] = exp(score / sqrt((double)width));
            }
            for (size_t c = h * width; c < (h + 1) * width; c++) {
                out[i * dim + c] = 0;
                for (size_t j = 0; j < m; j++)
                    out[i * dim + c] += weight[j] / sum * value[j * dim + c];
            }
        }
    free(weight);
}

static void dense(const struct oracle_stacks *o, const char *name, double *y, const double *x, size_t n,
                  size_t in, size_t out)
{
    oracle_dense(y, x, named(o, name, ".weight"), named(o, name, ".bias"), n, in, out);
}

/* x = LN(x), in place. */
static void norm(const struct oracle_stacks *o, const char *name, double *x, size_t n)
{
    double *y = rows_new(n * o->dim);
    oracle_norm(y, x, named(o, name, ".weight"), named(o, name, ".bias"), n, o->dim, (double)1e-5f);
    memcpy(x, y, n * o->dim * sizeof *x);
    free(y);
}

static double *embed(const struct oracle_stacks *o, const char *name, const float *floats,
                     const size_t *offsets)
{
    size_t n = offsets[o->examples];
    double *given = rows_new(n * o->width), *x = rows_new(n * o->dim);
    for (size_t i = 0; i < n * o->width; i++)
        given[i] = (double)floats[i];
    dense(o, name, x, given, n, o->width, o->dim);
    for (size_t s = 0; s < o->examples; s++)
        for (size_t r = offsets[s]; r < offsets[s + 1]; r++)
            for (size_t c = 0; c < o->dim; c++) {
                double turn = (double)(r - offsets[s]) / pow(10000, (double)(c / 2 * 2) / (double)o->dim);
                x[r * o->dim + c] += c % 2 == 0 ? sin(turn) : cos(turn);
            }
    free(given);
    return x;
}

/* x += y, then a norm. */
static void join(const struct oracle_stacks *o, const char *block, const char *part, double *x,
                 const double *y, size_t n)
{
    char name[96];
    for (size_t i = 0; i < n * o->dim; i++)
        x[i] += y[i];
    snprintf(name, sizeof name, "%s.%s", block, part);
    norm(o, name, x, n);
}

/* offsets: of the encoded rows. */
static void decode_block(const struct oracle_stacks *o, size_t layer, double *x, const double *encoded,
                         const size_t *offsets)
{
    size_t n = o->decoder_offsets[o->examples], m = offsets[o->examples], dim = o->dim,
           most = (n > m ? n : m) * dim;
    double *q = rows_new(most), *k = rows_new(most), *v = rows_new(most), *mixed = rows_new(most),
           *wide = rows_new(n * o->wide);
    char block[48], name[96];
    snprintf(block, sizeof block, "decoder.layer.%zu", layer);
    for (int cross = 0; cross < 2; cross++) {
        const double *from = cross ? encoded : x;
        const char *part = cross ? "crossattention" : "attention";
        size_t keys = cross ? m : n;
        snprintf(name, sizeof name, "%s.%s.query", block, part);
        dense(o, name, q, x, n, dim, dim);
        snprintf(name, sizeof name, "%s.%s.key", block, part);
        dense(o, name, k, from, keys, dim, dim);
        snprintf(name, sizeof name, "%s.%s.value", block, part);
        dense(o, name, v, from, keys, dim, dim);
        for (size_t s = 0; s < o->examples; s++) {
            size_t at = o->decoder_offsets[s], count = o->decoder_offsets[s + 1] - at, of = offsets[s];
            if (cross)
                oracle_cross_attention(mixed + at * dim, q + at * dim, count, k + of * dim, v + of * dim,
                                       offsets[s + 1] - of, o->heads, dim / o->heads);
            else
                oracle_attention(mixed + at * dim, q + at * dim, k + at * dim, v + at * dim, count, o->heads,
                                 dim / o->heads, 1);
        }
        snprintf(name, sizeof name, "%s.%s.output.dense", block, part);
        dense(o, name, q, mixed, n, dim, dim);
        snprintf(name, sizeof name, "%s.output.LayerNorm", part);
        join(o, block, name, x, q, n);
    }
    snprintf(name, sizeof name, "%s.intermediate.dense", block);
    dense(o, name, wide, x, n, dim, o->wide);
    for (size_t i = 0; i < n * o->wide; i++)
        wide[i] = oracle_gelu(wide[i]);
    snprintf(name, sizeof name, "%s.output.dense", block);
    dense(o, name, q, wide, n, o->wide, dim);
    join(o, block, "output.LayerNorm", x, q, n);
    free(q), free(k), free(v), free(mixed), free(wide);
}

/* y, the maximum of 3 rows of ELU, norm and a circular convolution of 3 rows of x, with a stride of 2;
   changes the offsets to those of y. */
static void distil(const struct oracle_stacks *o, size_t layer, double *y, const double *x, size_t *offsets)
{
    size_t dim = o->dim, start = 0, written = 0;
    double *three = rows_new(offsets[o->examples] * 3 * dim), *z = rows_new(offsets[o->examples] * dim);
    char name[96];
    for (size_t s = 0; s < o->examples; s++)
        for (size_t r = offsets[s], n = offsets[s + 1] - r; r < offsets[s + 1]; r++)
            for (size_t k = 0; k < 3; k++)
                memcpy(three + (3 * r + k) * dim, x + (offsets[s] + (r - offsets[s] + n + k - 1) % n) * dim,
                       dim * sizeof *x);
    snprintf(name, sizeof name, "encoder.distil.%zu.convolution", layer);
    dense(o, name, z, three, offsets[o->examples], 3 * dim, dim);
    snprintf(name, sizeof name, "encoder.distil.%zu.LayerNorm", layer);
    norm(o, name, z, offsets[o->examples]);
    for (size_t i = 0; i < offsets[o->examples] * dim; i++)
        z[i] = z[i] > 0 ? z[i] : expm1(z[i]);
    for (size_t s = 0; s < o->examples; s++) {
        size_t end = offsets[s + 1];
        for (size_t r = start; r < end; r += 2, written++)
            for (size_t c = 0; c < dim; c++) {
                double best = z[r * dim + c];
                best = r > start ? fmax(best, z[(r - 1) * dim + c]) : best;
                y[written * dim + c] = r + 1 < end ? fmax(best, z[(r + 1) * dim + c]) : best;
            }
        start = end;
        offsets[s + 1] = written;
    }
    free(three), free(z);
}

/* offsets (examples + 1): receives those of the rows that leave. */
static double *encode(const struct oracle_stacks *o, size_t *offsets)
{
    double *x = embed(o, "embeddings.projection", o->floats, o->offsets),
           *y = rows_new(o->offsets[o->examples] * o->dim);
    memcpy(offsets, o->offsets, (o->examples + 1) * sizeof *offsets);
    for (size_t i = 0; i < o->layers; i++) {
        struct oracle_block block = {.dim = o->dim,
                                     .heads = o->heads,
                                     .wide = o->wide,
                                     .softmax = 1,
                                     .post = 1,
                                     .params = o->params,
                                     .values = o->values};
        snprintf(block.name, sizeof block.name, "encoder.layer.%zu", i);
        oracle_block(&block, y, x, o->examples, offsets);
        if (o->distil && i + 1 < o->layers)
            distil(o, i, x, y, offsets);
        else
            memcpy(x, y, offsets[o->examples] * o->dim * sizeof *x);
    }
    norm(o, "layernorm", x, offsets[o->examples]);
    free(y);
    return x;
}

double oracle_stacks_loss(const struct oracle_stacks *o, double *predictions)
{
    size_t n = o->decoder_offsets[o->examples], each = o->outputs / o->decoded;
    size_t *offsets = calloc(o->examples + 1, sizeof *offsets);
    double *encoded = encode(o, offsets), *all = rows_new(n * each),
           *x = embed(o, "decoder.embeddings.projection", o->decoder_floats, o->decoder_offsets), loss = 0;
    for (size_t i = 0; i < o->decoder_layers; i++)
        decode_block(o, i, x, encoded, offsets);
    norm(o, "decoder.layernorm", x, n);
    dense(o, "decoded.dense", all, x, n, o->dim, each);
    for (size_t s = 0; s < o->examples; s++)
        for (size_t k = 0; k < o->outputs; k++) {
            double y = all[(o->decoder_offsets[s + 1] - o->decoded) * each + k],
                   off = y - (double)o->targets[s * o->outputs + k];
            loss += off * off / (double)(o->outputs * o->examples);
            if (predictions != NULL)
                predictions[s * o->outputs + k] = y;
        }
    free(encoded), free(all), free(x), free(offsets);
    return loss;
}
