/* Rows of two tables, added. SPDX-License-Identifier: Apache-2.0 */
#include "nn/embed.h"

#include <assert.h>
#include <string.h>

enum { COLUMNS = 16 }; /* of one unit of work in backward: a cache line */

hashattn_status embed_describe(struct host *host, struct params *params, size_t vocab_size, size_t max_len,
                               size_t dim, struct embed *embed)
{
    *embed = (struct embed){.vocab_size = vocab_size, .max_len = max_len, .dim = dim};
    TRY(params_add(host, params, START_NORMAL, 0.02f, &embed->words, 2, (size_t[]){vocab_size, dim},
                   "embeddings.word_embeddings.weight"));
    return params_add(host, params, START_NORMAL, 0.02f, &embed->positions, 2, (size_t[]){max_len, dim},
                      "embeddings.position_embeddings.weight");
}

void embed_forward(const struct embed *embed, const struct rows *rows, const float *values, float *y,
                   const uint16_t *tokens, size_t first, size_t n)
{
    size_t dim = embed->dim, done = 0;
    for (struct span s = rows_span(rows, first, n); s.count > 0; s = rows_next(rows, s)) {
        assert(s.position + s.count <= embed->max_len);
        const float *position = values + embed->positions + s.position * dim;
        for (size_t i = 0; i < s.count; i++, done++, position += dim) {
            size_t token = tokens[s.row + i];
            assert(token < embed->vocab_size);
            const float *word = values + embed->words + token * dim;
            for (size_t c = 0; c < dim; c++)
                y[done * dim + c] = word[c] + position[c];
        }
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
            float *position = g->positions + (s.position + i) * dim + c;
            rows->kernels->axpy(word, 1.0f, dy, width);
            rows->kernels->axpy(position, 1.0f, dy, width);
        }
}

void embed_backward(const struct embed *embed, const struct rows *rows, struct slice gradients,
                    const float *dy, const uint16_t *tokens)
{
    struct embed_gradient g = {
        embed, rows, slice_at(gradients, embed->words), slice_at(gradients, embed->positions), dy, tokens,
    };
    pool_run(rows->pool, embed_backward_columns, &g, (embed->dim + COLUMNS - 1) / COLUMNS);
}
