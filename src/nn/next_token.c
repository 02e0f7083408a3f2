/* Chunks of words in order; within a chunk, tiles of rows on the pool, and in backward then blocks of words,
   each of which goes through the rows in order: no partial sums, and the same bits for any threads. Weights
   of a chunk are laid on the calling thread, once for all tiles: dim floats a word, against 2 n dim
   operations. The running sum is a float: about 16 + words / chunk additions are off by 1e-5 at most, and so
   is a loss. SPDX-License-Identifier: Apache-2.0 */
#include "nn/next_token.h"

#include <math.h>
#include <string.h>

#include "kernels/product.h"

enum { WORD_BLOCK = 64 }; /* words of a unit of work of W's gradient */

hashattn_status next_token_describe(struct host *host, struct params *params, const struct embed *embed,
                                    struct next_token *next)
{
    *next = (struct next_token){
        .dim = embed->dim,
        .words = embed->vocab_size - 1,
        .chunk = NEXT_TOKEN_CHUNK,
        .weight = embed->words + embed->dim,
        .precision = params->precision,
    };
    return params_add(host, params, START_ZEROS, 0, &next->bias, 1, &next->words, "lm_head.bias");
}

struct next_token_space next_token_lay(const struct next_token *next, const struct rows *rows, bool training,
                                       struct arena *arena)
{
    size_t threads = (size_t)pool_threads(rows->pool), padded = rows->padded;
    size_t tiles = training && rows->tiles > threads ? rows->tiles : threads;
    struct next_token_space s = {
        .loss = arena_take(arena, padded, sizeof *s.loss),
        .correct = arena_take(arena, padded, sizeof *s.correct),
        .laid = arena_take(arena, weights_size(next->precision, next->dim, next->chunk), sizeof(float)),
        .logits = arena_take(arena, size_product(tiles, ROW_TILE * next->chunk), sizeof(float)),
    };
    float **const of_rows[] = {&s.max, &s.sum, &s.factor, &s.target, &s.log_sum};
    for (size_t i = 0; i < sizeof of_rows / sizeof of_rows[0]; i++)
        *of_rows[i] = arena_take(arena, padded, sizeof(float));
    if (training)
        s.laid_backward =
            arena_take(arena, weights_size(next->precision, next->chunk, next->dim), sizeof(float));
    return s;
}

/* A chunk of words on its way; the argument of every unit of work. */
struct work {
    const struct next_token *next;
    const struct rows *rows;
    const struct kernels *kernels;
    const float *values;
    const struct next_token_space *space;
    const float *x;
    const int32_t *labels;
    size_t first, width; /* words [first, first + width) of 0 .. words - 1; token id is one more */
    /* backward */
    struct slice gradients;
    float *dx;
    float weight;
};

/* The place of the row's label in the chunk, from 0 on; `width` or more where it is not there. */
static size_t label_in(const struct work *w, size_t row)
{
    if (row >= w->rows->count || w->labels[row] < 1)
        return w->width;
    return (size_t)w->labels[row] - 1 - w->first; /* wraps below the chunk, to something large */
}

static void lay_chunk(const struct work *w, bool backward)
{
    size_t dim = w->next->dim;
    const float *weight = w->values + w->next->weight + w->first * dim;
    weights_lay(w->kernels, w->next->precision, w->space->laid, weight, dim, true, dim, w->width);
    if (backward)
        weights_lay(w->kernels, w->next->precision, w->space->laid_backward, weight, dim, false, w->width,
                    dim);
}

static void compute_logits(const struct work *w, float *logits, size_t row)
{
    size_t dim = w->next->dim, width = w->width;
    product_weights(w->kernels, w->next->precision, logits, width, w->x + row * dim, dim, w->space->laid,
                    ROW_TILE, width, dim, false);
    w->kernels->add_bias(logits, width, w->values + w->next->bias + w->first, ROW_TILE, width);
}

/* ---- forward ------------------------------------------------------------------------------------------ */

/* Keeps the logits of labels that are in this chunk. `correct` is 1 from here on while nothing before it was
   as large; what comes after may be as large, not larger. */
static void note_labels(const struct work *w, const float *logits, size_t row)
{
    const struct next_token_space *s = w->space;
    for (size_t i = 0; i < ROW_TILE; i++, row++, logits += w->width) {
        size_t label = label_in(w, row), c = 0;
        if (label >= w->width)
            continue;
        float target = s->target[row] = logits[label];
        while (logits[c] < target)
            c++;
        s->correct[row] = target > s->max[row] && c == label;
    }
}

static void forward_tile(void *argument, size_t tile, int worker)
{
    const struct work *w = argument;
    const struct next_token_space *s = w->space;
    float *logits = s->logits + (size_t)worker * ROW_TILE * w->next->chunk;
    size_t row = tile * ROW_TILE;
    compute_logits(w, logits, row);
    note_labels(w, logits, row);
    w->kernels->softmax_step(logits, w->width, ROW_TILE, w->width, 1, s->max + row, s->sum + row,
                             s->factor + row);
}

static double finish_rows(const struct work *w)
{
    const struct next_token_space *s = w->space;
    double total = 0;
    for (size_t row = 0; row < w->rows->padded; row++) {
        double log_sum = log((double)s->sum[row]) + (double)s->max[row];
        bool asked = row < w->rows->count && w->labels[row] >= 1;
        s->log_sum[row] = (float)log_sum;
        s->loss[row] = asked ? log_sum - (double)s->target[row] : 0;
        s->correct[row] = asked && s->correct[row] && s->target[row] >= s->max[row];
        total += s->loss[row];
    }
    return total;
}

double next_token_forward(const struct next_token *next, const struct rows *rows, const float *values,
                          const struct next_token_space *space, const float *x, const int32_t *labels)
{
    struct work w = {.next = next,
                     .rows = rows,
                     .kernels = rows->kernels,
                     .values = values,
                     .space = space,
                     .x = x,
                     .labels = labels};
    for (size_t row = 0; row < rows->padded; row++)
        space->max[row] = -INFINITY;
    memset(space->sum, 0, rows->padded * sizeof(float));
    memset(space->correct, 0, rows->padded);
    for (w.first = 0; w.first < next->words; w.first += w.width) {
        size_t left = next->words - w.first;
        w.width = left < next->chunk ? left : next->chunk;
        lay_chunk(&w, false);
        pool_run(rows->pool, forward_tile, &w, rows->tiles);
    }
    return finish_rows(&w);
}

/* ---- backward ----------------------------------------------------------------------------------------- */

/* The gradient of a tile's logits, which stays, and its share of dx. */
static void backward_tile(void *argument, size_t tile, int worker)
{
    (void)worker;
    const struct work *w = argument;
    const struct next_token_space *s = w->space;
    size_t dim = w->next->dim, width = w->width, row = tile * ROW_TILE;
    float *dlogits = s->logits + row * w->next->chunk;
    compute_logits(w, dlogits, row);
    w->kernels->softmax_again(dlogits, width, ROW_TILE, width, 1, s->log_sum + row);
    w->kernels->scale_rows(dlogits, width, s->factor + row, ROW_TILE, width);
    for (size_t i = 0; i < ROW_TILE; i++) {
        size_t label = label_in(w, row + i);
        if (label < width)
            dlogits[i * width + label] -= w->weight;
    }
    product_weights(w->kernels, w->next->precision, w->dx + row * dim, dim, dlogits, width, s->laid_backward,
                    ROW_TILE, dim, width, w->first > 0);
}

/* A block of words: its gradients from all rows, in order. */
static void backward_words(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct work *w = argument;
    const struct next_token *next = w->next;
    size_t dim = next->dim, width = w->width, at = index * WORD_BLOCK;
    size_t words = width - at < WORD_BLOCK ? width - at : WORD_BLOCK;
    float *dweight = slice_at(w->gradients, next->weight) + (w->first + at) * dim;
    float *dbias = slice_at(w->gradients, next->bias) + w->first + at;
    for (size_t tile = 0; tile < w->rows->tiles; tile++) {
        size_t row = tile * ROW_TILE;
        const float *dlogits = w->space->logits + row * next->chunk + at, *x = w->x + row * dim;
        if (next->precision == PRECISION_BF16)
            product_turned_bf16(w->kernels, dweight, dim, dlogits, width, x, dim, words, dim, ROW_TILE);
        else
            product(w->kernels, dweight, dim, dlogits, width, true, x, dim, false, words, dim, ROW_TILE,
                    true);
        for (size_t i = 0; i < ROW_TILE; i++)
            w->kernels->axpy(dbias, 1, dlogits + i * width, words);
    }
}

void next_token_backward(const struct next_token *next, const struct rows *rows, const float *values,
                         struct slice gradients, const struct next_token_space *space, float *dx,
                         const float *x, const int32_t *labels, float weight)
{
    struct work w = {.next = next,
                     .rows = rows,
                     .kernels = rows->kernels,
                     .values = values,
                     .space = space,
                     .x = x,
                     .labels = labels,
                     .gradients = gradients,
                     .dx = dx,
                     .weight = weight};
    for (size_t row = 0; row < rows->padded; row++)
        space->factor[row] = row < rows->count && labels[row] >= 1 ? weight : 0;
    for (w.first = 0; w.first < next->words; w.first += w.width) {
        size_t left = next->words - w.first;
        w.width = left < next->chunk ? left : next->chunk;
        lay_chunk(&w, true);
        pool_run(rows->pool, backward_tile, &w, rows->tiles);
        pool_run(rows->pool, backward_words, &w, (w.width + WORD_BLOCK - 1) / WORD_BLOCK);
    }
}
