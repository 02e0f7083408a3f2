/* Plain loops over plain arrays.
   SPDX-License-Identifier: Apache-2.0 */
#include "oracle/oracle_encoder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/oracle_layers.h"

static const double *named(const struct params *params, const double *values, const char *name,
                           const char *rest)
{
    char text[128];
    snprintf(text, sizeof text, "%s%s", name, rest);
    for (size_t i = 0; i < params->num_rows; i++)
        if (strcmp(params->rows[i].name, text) == 0)
            return values + params->rows[i].offset;
    fprintf(stderr, "the oracle misses the parameter %s\n", text);
    abort();
}

static double *rows_new(size_t n)
{
    return calloc(n > 0 ? n : 1, sizeof(double));
}

static void dense(const struct oracle_block *b, const char *name, double *y, const double *x, size_t n,
                  size_t in, size_t out)
{
    char weight[64], bias[64];
    snprintf(weight, sizeof weight, ".%s.weight", name);
    snprintf(bias, sizeof bias, ".%s.bias", name);
    oracle_dense(y, x, named(b->params, b->values, b->name, weight),
                 named(b->params, b->values, b->name, bias), n, in, out);
}

static void norm(const struct oracle_block *b, const char *name, double *y, const double *x, size_t n)
{
    char weight[64], bias[64];
    snprintf(weight, sizeof weight, ".%s.weight", name);
    snprintf(bias, sizeof bias, ".%s.bias", name);
    oracle_norm(y, x, named(b->params, b->values, b->name, weight),
                named(b->params, b->values, b->name, bias), n, b->dim, (double)1e-5f);
}

/* Column c of the sinusoids of a position. */
static double sinusoid(double place, size_t c, size_t dim)
{
    double turn = place / pow(10000, (double)(c / 2 * 2) / (double)dim);
    return c % 2 == 0 ? sin(turn) : sin(turn + acos(0));
}

/* rows (n, dim) += sinusoids W^T; the layer has as many rows as the last columns that get positions. */
static void place(const struct oracle_block *b, const char *name, double *rows, size_t len)
{
    size_t first = b->idle_heads * (b->dim / b->heads);
    const double *w = named(b->params, b->values, b->name, name);
    for (size_t i = 0; i < len; i++)
        for (size_t out = first; out < b->dim; out++)
            for (size_t c = 0; c < b->dim; c++)
                rows[i * b->dim + out] += w[(out - first) * b->dim + c] * sinusoid((double)i, c, b->dim);
}

static double kept(const float *mask, size_t i)
{
    return mask == NULL ? 1 : (double)mask[i];
}

void oracle_block(const struct oracle_block *b, double *y, const double *x, size_t num_sequences,
                  const size_t *offsets)
{
    size_t n = offsets[num_sequences], dim = b->dim;
    double *h = rows_new(n * dim), *q = rows_new(n * dim), *k = rows_new(n * dim), *v = rows_new(n * dim);
    double *mixed = rows_new(n * dim), *branch = rows_new(n * dim), *wide = rows_new(n * b->wide);
    if (b->post)
        memcpy(h, x, n * dim * sizeof *h);
    else
        norm(b, "layernorm_before", h, x, n);
    dense(b, "attention.query", q, h, n, dim, dim);
    dense(b, "attention.key", k, h, n, dim, dim);
    dense(b, "attention.value", v, h, n, dim, dim);
    for (size_t s = 0; s < num_sequences; s++) {
        size_t first = offsets[s], len = offsets[s + 1] - first, at = first * dim;
        if (b->layered) {
            place(b, ".attention.query_position.weight", q + at, len);
            place(b, ".attention.key_position.weight", k + at, len);
        }
        if (b->softmax)
            oracle_attention(mixed + at, q + at, k + at, v + at, len, b->heads, dim / b->heads, b->causal);
        else
            memcpy(mixed + at, v + at, len * dim * sizeof *v);
        for (size_t i = 0; i < len; i++)
            memcpy(mixed + at + i * dim, v + at + i * dim, b->idle_heads * (dim / b->heads) * sizeof *v);
        if (b->taps > 0)
            oracle_convolve(mixed + at, v + at,
                            named(b->params, b->values, b->name, ".attention.conv.weight"), b->taps, len,
                            b->heads, dim / b->heads);
    }
    dense(b, "attention.output.dense", branch, mixed, n, dim, dim);
    for (size_t i = 0; i < n * dim; i++)
        y[i] = x[i] + kept(b->attention_mask, i) * branch[i];
    norm(b, b->post ? "attention.output.LayerNorm" : "layernorm_after", h, y, n);
    if (b->post)
        memcpy(y, h, n * dim * sizeof *y);
    dense(b, "intermediate.dense", wide, h, n, dim, b->wide);
    for (size_t i = 0; i < n * b->wide; i++)
        wide[i] = (b->post ? 1 : kept(b->wide_mask, i)) * oracle_gelu(wide[i]);
    dense(b, "output.dense", branch, wide, n, b->wide, dim);
    for (size_t i = 0; i < n * dim; i++)
        y[i] += kept(b->ffn_mask, i) * branch[i];
    if (b->post) {
        memcpy(h, y, n * dim * sizeof *h);
        norm(b, "output.LayerNorm", y, h, n);
    }
    free(h), free(q), free(k), free(v), free(mixed), free(branch), free(wide);
}

static void embed(const struct oracle_encoder *e, double *x)
{
    size_t dim = e->blocks[0].dim;
    const double *words = named(e->params, e->values, "embeddings.word_embeddings", ".weight");
    const double *positions =
        e->positions == 0 ? named(e->params, e->values, "embeddings.position_embeddings", ".weight") : NULL;
    double *row = rows_new(dim), *normed = rows_new(dim);
    for (size_t s = 0; s < e->num_sequences; s++)
        for (size_t r = e->offsets[s]; r < e->offsets[s + 1]; r++) {
            double place = (double)(r - e->offsets[s]);
            for (size_t c = 0; c < dim; c++) {
                row[c] = words[e->tokens[r] * dim + c] * (e->next_token ? sqrt((double)dim) : 1);
                if (e->positions == 0)
                    row[c] += positions[(r - e->offsets[s]) * dim + c];
                else if (e->positions == 1)
                    row[c] += sinusoid(place, c, dim);
            }
            memcpy(normed, row, dim * sizeof *row);
            if (e->blocks[0].post)
                oracle_norm(normed, row, named(e->params, e->values, "embeddings.LayerNorm", ".weight"),
                            named(e->params, e->values, "embeddings.LayerNorm", ".bias"), 1, dim,
                            (double)1e-5f);
            for (size_t c = 0; c < dim; c++)
                x[r * dim + c] = kept(e->embed_mask, r * dim + c) * normed[c];
        }
    free(row), free(normed);
}

static void pool(const struct oracle_encoder *e, double *pooled, const double *x)
{
    size_t dim = e->blocks[0].dim;
    memset(pooled, 0, e->num_sequences * dim * sizeof *pooled);
    for (size_t s = 0; s < e->num_sequences; s++) {
        size_t first = e->offsets[s], end = e->pooling == 2 ? first + 1 : e->offsets[s + 1];
        double divisor = e->pooling == 1 ? (double)e->max_len : (double)(end - first);
        for (size_t r = first; r < end; r++)
            for (size_t c = 0; c < dim; c++)
                pooled[s * dim + c] += x[r * dim + c] / divisor;
    }
}

/* The mean over rows that have a label of -log softmax(x W^T + b)[label], from all logits. */
static double next_token_loss(const struct oracle_encoder *e, const double *x)
{
    size_t dim = e->blocks[0].dim, n = e->offsets[e->num_sequences], asked = 0;
    const double *words = named(e->params, e->values, "embeddings.word_embeddings", ".weight");
    const double *bias = named(e->params, e->values, "lm_head", ".bias");
    double *logits = rows_new(e->classes), loss = 0;
    for (size_t r = 0; r < n; r++) {
        int32_t label = e->labels[r] - 1;
        if (e->row_losses != NULL)
            e->row_losses[r] = 0;
        if (label < 0)
            continue;
        oracle_dense(logits, x + r * dim, words + dim, bias, 1, dim, e->classes);
        double one = oracle_cross_entropy(logits, &label, 1, e->classes);
        if (e->row_losses != NULL)
            e->row_losses[r] = one;
        loss += one;
        asked++;
    }
    free(logits);
    return asked > 0 ? loss / (double)asked : 0;
}

double oracle_encoder_loss(const struct oracle_encoder *e, double *logits)
{
    size_t dim = e->blocks[0].dim, n = e->offsets[e->num_sequences], count = e->num_sequences;
    double *x = rows_new(n * dim), *y = rows_new(n * dim), *pooled = rows_new(count * dim);
    double *hidden = rows_new(count * 2 * dim), *out = rows_new(count * e->classes);
    embed(e, x);
    for (size_t i = 0; i < e->layers; i++) {
        struct oracle_block block = e->blocks[0];
        block.params = e->params;
        block.values = e->values;
        block.attention_mask = e->blocks[i].attention_mask;
        block.wide_mask = e->blocks[i].wide_mask;
        block.ffn_mask = e->blocks[i].ffn_mask;
        snprintf(block.name, sizeof block.name, "encoder.layer.%zu", i);
        oracle_block(&block, y, x, count, e->offsets);
        memcpy(x, y, n * dim * sizeof *x);
    }
    if (!e->blocks[0].post)
        oracle_norm(y, x, named(e->params, e->values, "layernorm", ".weight"),
                    named(e->params, e->values, "layernorm", ".bias"), n, dim, (double)1e-5f);
    if (e->next_token) {
        double loss = next_token_loss(e, y);
        free(x), free(y), free(pooled), free(hidden), free(out);
        return loss;
    }
    pool(e, pooled, y);
    size_t width = dim;
    double *features = rows_new(count * 4 * dim);
    memcpy(features, pooled, count * dim * sizeof *pooled);
    if (e->pairs) {
        count /= 2;
        width = 4 * dim;
        for (size_t i = 0; i < count; i++)
            for (size_t c = 0; c < width; c++) {
                double a = pooled[2 * i * dim + c % dim], b = pooled[(2 * i + 1) * dim + c % dim];
                const double four[] = {a, b, a * b, a - b};
                features[i * width + c] = four[c / dim];
            }
    }
    oracle_dense(hidden, features, named(e->params, e->values, "classifier.dense", ".weight"),
                 named(e->params, e->values, "classifier.dense", ".bias"), count, width, 2 * dim);
    for (size_t i = 0; i < count * 2 * dim; i++)
        hidden[i] = fmax(hidden[i], 0);
    oracle_dense(out, hidden, named(e->params, e->values, "classifier.out_proj", ".weight"),
                 named(e->params, e->values, "classifier.out_proj", ".bias"), count, 2 * dim, e->classes);
    if (logits != NULL)
        memcpy(logits, out, count * e->classes * sizeof *out);
    double loss = oracle_cross_entropy(out, e->labels, count, e->classes);
    free(x), free(y), free(pooled), free(features), free(hidden), free(out);
    return loss;
}
