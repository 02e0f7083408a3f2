/* Rows of two tables, added. SPDX-License-Identifier: Apache-2.0 */
#include "nn/embed.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"

enum { COLUMNS = 16 }; /* of one unit of work in backward: a cache line */

const char *const position_names[] = {"learned", "sinusoidal", "none", NULL};

/* In double, rounded once. */
static hashattn_status make_sinusoids(struct host *host, struct embed *embed)
{
    size_t dim = embed->dim;
    void *block;
    TRY(memory_new(host, size_product(embed->max_len, dim), sizeof(float), "sinusoidal positions", &block));
    embed->sinusoids = block;
    for (size_t c = 0; c < dim; c++) {
        double frequency = pow(10000, -(double)(c - c % 2) / (double)dim);
        for (size_t place = 0; place < embed->max_len; place++) {
            double angle = (double)place * frequency;
            embed->sinusoids[place * dim + c] = (float)(c % 2 == 0 ? sin(angle) : cos(angle));
        }
    }
    return HASHATTN_OK;
}

hashattn_status embed_describe(struct host *host, struct params *params, size_t vocab_size, size_t max_len,
                               size_t dim, enum positions kind, bool tied, struct embed *embed)
{
    *embed = (struct embed){.vocab_size = vocab_size, .max_len = max_len, .dim = dim, .kind = kind};
    embed->scale = tied ? sqrtf((float)dim) : 1;
    float start = tied ? 1 / embed->scale : kind == POSITIONS_SINUSOIDAL ? 1.0f : 0.02f;
    TRY(params_add(host, params, START_NORMAL, start, &embed->words, 2, (size_t[]){vocab_size, dim},
                   "embeddings.word_embeddings.weight"));
    if (kind == POSITIONS_SINUSOIDAL)
        return make_sinusoids(host, embed);
    if (kind == POSITIONS_NONE)
        return HASHATTN_OK;
    return params_add(host, params, START_NORMAL, tied ? 0.5f : 0.02f, &embed->positions, 2,
                      (size_t[]){max_len, dim}, "embeddings.position_embeddings.weight");
}

void embed_free(struct host *host, struct embed *embed)
{
    memory_free(host, embed->sinusoids);
    embed->sinusoids = NULL;
}

void embed_forward(const struct embed *embed, const struct rows *rows, const float *values, float *y,
                   const uint16_t *tokens, size_t first, size_t n)
{
    size_t dim = embed->dim, done = 0;
    const float *table = embed->kind == POSITIONS_LEARNED ? values + embed->positions : embed->sinusoids;
    for (struct span s = rows_span(rows, first, n); s.count > 0; s = rows_next(rows, s)) {
        assert(s.position + s.count <= embed->max_len);
        for (size_t i = 0; i < s.count; i++, done++) {
            size_t token = tokens[s.row + i];
            assert(token < embed->vocab_size);
            const float *word = values + embed->words + token * dim;
            for (size_t c = 0; c < dim; c++)
                y[done * dim + c] = embed->scale * word[c];
        }
        if (table != NULL)
            rows->kernels->axpy(y + (done - s.count) * dim, 1.0f, table + s.position * dim, s.count * dim);
    }
    memset(y + done * dim, 0, (n - done) * dim * sizeof *y);
}

struct embed_gradient {
    const struct embed *embed;
    const struct rows *rows;
    float *words, *positions;
    const float *dy;
    const uint16_t *tokens;
};

static void embed_backward_columns(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct embed_gradient *g = argument;
    const struct rows *rows = g->rows;
    size_t dim = g->embed->dim, c = index * COLUMNS, width = dim - c < COLUMNS ? dim - c : COLUMNS;
    for (struct span s = rows_span(rows, 0, rows->count); s.count > 0; s = rows_next(rows, s))
        for (size_t i = 0; i < s.count; i++) {
            const float *dy = g->dy + (s.row + i) * dim + c;
            float *word = g->words + g->tokens[s.row + i] * dim + c;
            rows->kernels->axpy(word, g->embed->scale, dy, width);
            if (g->positions != NULL)
                rows->kernels->axpy(g->positions + (s.position + i) * dim + c, 1.0f, dy, width);
        }
}

void embed_backward(const struct embed *embed, const struct rows *rows, struct slice gradients,
                    const float *dy, const uint16_t *tokens)
{
    struct embed_gradient g = {
        .embed = embed,
        .rows = rows,
        .words = slice_at(gradients, embed->words),
        .positions = embed->kind == POSITIONS_LEARNED ? slice_at(gradients, embed->positions) : NULL,
        .dy = dy,
        .tokens = tokens,
    };
    pool_run(rows->pool, embed_backward_columns, &g, (embed->dim + COLUMNS - 1) / COLUMNS);
}
