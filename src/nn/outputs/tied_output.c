/* Chunks of words are processed in order. Within a chunk the pool works on tiles of rows, and in backward
   then on blocks of words, each of which reads the rows in order: there are no partial sums, and the number
   of threads changes no bit. The calling thread packs the weights of a chunk, once for all tiles: dim floats
   per word, against 2 n dim operations. The running sum is a float: its 16 + words / chunk additions or so
   are off by at most 1e-5, and so is a loss.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/outputs/tied_output.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/product.h"

enum { WORD_BLOCK = 64 }; /* words of a unit of work of W's gradient */

hashattn_status tied_output_describe(struct host *host, struct params *params, const struct embed *embed,
                                     size_t first, struct tied_output *output)
{
    size_t classes = embed->tails.count, words = classes > 0 ? embed->tails.head : embed->vocab_size;
    assert(first < words);
    *output = (struct tied_output){
        .dim = embed->dim,
        .words = words - first + classes,
        .first = first,
        .classes = classes,
        .chunk = TIED_OUTPUT_CHUNK,
        .weight = embed->words + first * embed->dim,
        .precision = params->precision,
    };
    return params_add(host, params, START_ZEROS, 0, &output->bias, 1, &output->words, "lm_head.bias");
}

static void lay_rows(struct tied_output_space *s, size_t padded, struct arena *arena)
{
    float **const of_rows[] = {&s->max, &s->sum, &s->factor, &s->target, &s->log_sum, &s->best};
    s->loss = arena_take(arena, padded, sizeof *s->loss);
    s->correct = arena_take(arena, padded, sizeof *s->correct);
    for (size_t i = 0; i < sizeof of_rows / sizeof of_rows[0]; i++)
        *of_rows[i] = arena_take(arena, padded, sizeof(float));
}

struct tied_output_space tied_output_lay(const struct tied_output *output, const struct rows *rows,
                                         bool training, struct arena *arena)
{
    size_t threads = (size_t)pool_threads(rows->pool);
    size_t tiles = training && rows->tiles > threads ? rows->tiles : threads;
    struct tied_output_space s = {
        .packed =
            arena_take(arena, weights_size(output->precision, output->dim, output->chunk), sizeof(float)),
        .logits = arena_take(arena, size_product(tiles, ROW_TILE * output->chunk), sizeof(float)),
    };
    lay_rows(&s, rows->padded, arena);
    if (output->classes > 0)
        s.classes = arena_take(arena, size_product(rows->padded, output->classes), sizeof(float));
    if (training)
        s.packed_backward =
            arena_take(arena, weights_size(output->precision, output->chunk, output->dim), sizeof(float));
    return s;
}

struct tied_output_space tied_output_lay_beside(const struct tied_output_space *other, size_t padded,
                                                struct arena *arena)
{
    struct tied_output_space s = {
        .packed = other->packed, .packed_backward = other->packed_backward, .logits = other->logits};
    lay_rows(&s, padded, arena);
    return s;
}

struct tied_output_space tied_output_from(const struct tied_output_space *space, size_t row)
{
    struct tied_output_space s = *space;
    float **const of_rows[] = {&s.max, &s.sum, &s.factor, &s.target, &s.log_sum, &s.best};
    assert(s.classes == NULL);
    s.loss += row;
    s.correct += row;
    for (size_t i = 0; i < sizeof of_rows / sizeof of_rows[0]; i++)
        *of_rows[i] += row;
    return s;
}

/* The state of one chunk of words; the argument of every unit of work. */
struct work {
    const struct tied_output *output;
    const struct rows *rows;
    const struct kernels *kernels;
    const float *values;
    const struct tied_output_space *space;
    const float *x;
    const struct row_ids *targets;
    size_t first, width; /* chunk [first, first + width); the id is output->first higher */
    float *all;          /* (rows, words), of tied_output_logits */
    /* backward */
    struct slice gradients;
    float *dx;
    bool add;
};

/* 0 if the row has no target. */
static float weight_of(const struct work *w, size_t row)
{
    if (row >= w->rows->count)
        return 0;
    return w->targets->weights == NULL ? 1 : w->targets->weights[row];
}

/* The index of the row's target in the chunk; `width` or more if it is not in the chunk. */
static size_t label_in(const struct work *w, size_t row)
{
    if (weight_of(w, row) == 0)
        return w->width;
    return (size_t)w->targets->ids[row] - w->output->first -
           w->first; /* wraps to a large number below the chunk */
}

/* The number of entries before the classes. */
static size_t plain_words(const struct tied_output *output)
{
    return output->words - output->classes;
}

/* Goes to the chunk at w->first. Classes have a chunk of their own. */
static void lay_chunk(struct work *w, bool backward)
{
    size_t dim = w->output->dim, plain = plain_words(w->output);
    size_t end = w->first < plain ? plain : w->output->words;
    w->width = size_min(end - w->first, w->output->chunk);
    const float *weight = w->values + w->output->weight + w->first * dim;
    weights_pack(w->kernels, w->output->precision, w->space->packed, weight, dim, true, dim, w->width);
    if (backward)
        weights_pack(w->kernels, w->output->precision, w->space->packed_backward, weight, dim, false,
                     w->width, dim);
}

static void compute_logits(const struct work *w, float *logits, size_t row)
{
    size_t dim = w->output->dim, width = w->width, n = rows_of_tile(w->rows, row);
    product_weights(w->kernels, w->output->precision, logits, width, w->x + row * dim, dim, w->space->packed,
                    n, width, dim, false);
    w->kernels->layers.add_bias(logits, width, w->values + w->output->bias + w->first, n, width);
}

/* ---- forward ------------------------------------------------------------------------------------------ */

/* Stores the logits of the targets in this chunk. `correct` becomes 1 if no earlier logit was as large; later
   ones may be equal, not larger. */
static void note_asked(const struct work *w, const float *logits, size_t row)
{
    const struct tied_output_space *s = w->space;
    size_t end = row + rows_of_tile(w->rows, row);
    for (; row < end; row++, logits += w->width) {
        size_t label = label_in(w, row), c = 0;
        if (label >= w->width)
            continue;
        float target = s->target[row] = logits[label];
        while (logits[c] < target)
            c++;
        s->correct[row] = target > s->max[row] && c == label;
    }
}

static void keep_classes(const struct work *w, const float *logits, size_t row)
{
    size_t classes = w->output->classes, n = rows_of_tile(w->rows, row);
    float *kept = w->space->classes + row * classes + (w->first - plain_words(w->output));
    for (size_t i = 0; i < n; i++)
        memcpy(kept + i * classes, logits + i * w->width, w->width * sizeof *logits);
}

static void forward_tile(void *argument, size_t tile, int worker)
{
    const struct work *w = argument;
    const struct tied_output_space *s = w->space;
    float *logits = s->logits + (size_t)worker * ROW_TILE * w->output->chunk;
    size_t row = tile * w->rows->tile_rows;
    compute_logits(w, logits, row);
    note_asked(w, logits, row);
    if (w->first >= plain_words(w->output))
        keep_classes(w, logits, row);
    w->kernels->softmax.step(logits, w->width, rows_of_tile(w->rows, row), w->width, 1, s->max + row,
                             s->sum + row, s->factor + row);
}

static double finish_rows(const struct work *w)
{
    const struct tied_output_space *s = w->space;
    double total = 0;
    for (size_t row = 0; row < w->rows->padded; row++) {
        double log_sum = log((double)s->sum[row]);
        double weight = (double)weight_of(w, row);
        s->log_sum[row] = (float)log_sum;
        s->loss[row] = weight != 0 ? log_sum + ((double)s->max[row] - (double)s->target[row]) : 0;
        s->correct[row] = weight != 0 && s->correct[row] && s->target[row] >= s->best[row];
        total += weight * s->loss[row];
    }
    return total;
}

double tied_output_forward(const struct tied_output *output, const struct rows *rows, const float *values,
                           const struct tied_output_space *space, const float *x,
                           const struct row_ids *targets)
{
    struct work w = {.output = output,
                     .rows = rows,
                     .kernels = rows->kernels,
                     .values = values,
                     .space = space,
                     .x = x,
                     .targets = targets};
    for (size_t row = 0; row < rows->padded; row++)
        space->max[row] = -INFINITY;
    memset(space->sum, 0, rows->padded * sizeof(float));
    for (w.first = 0; w.first < output->words; w.first += w.width) {
        lay_chunk(&w, false);
        pool_run(rows->pool, forward_tile, &w, rows->tiles);
        if (w.first + w.width == plain_words(output))
            memcpy(space->best, space->max, rows->padded * sizeof(float));
    }
    return finish_rows(&w);
}

static void logits_tile(void *argument, size_t tile, int worker)
{
    const struct work *w = argument;
    size_t row = tile * w->rows->tile_rows, count = size_min(w->rows->tile_rows, w->rows->count - row);
    float *logits = w->space->logits + (size_t)worker * ROW_TILE * w->output->chunk;
    compute_logits(w, logits, row);
    for (size_t i = 0; i < count; i++)
        memcpy(w->all + (row + i) * w->output->words + w->first, logits + i * w->width,
               w->width * sizeof *logits);
}

void tied_output_logits(const struct tied_output *output, const struct rows *rows, const float *values,
                        const struct tied_output_space *space, float *logits, const float *x)
{
    struct work w = {.output = output,
                     .rows = rows,
                     .kernels = rows->kernels,
                     .values = values,
                     .space = space,
                     .x = x,
                     .all = logits};
    for (w.first = 0; w.first < output->words; w.first += w.width) {
        lay_chunk(&w, false);
        pool_run(rows->pool, logits_tile, &w, rows->tiles);
    }
}

/* ---- backward ----------------------------------------------------------------------------------------- */

/* The gradient of a tile's logits, which is kept, and its contribution to dx. */
static void backward_tile(void *argument, size_t tile, int worker)
{
    (void)worker;
    const struct work *w = argument;
    const struct tied_output_space *s = w->space;
    size_t dim = w->output->dim, width = w->width, row = tile * w->rows->tile_rows,
           n = rows_of_tile(w->rows, row);
    float *dlogits = s->logits + row * w->output->chunk;
    compute_logits(w, dlogits, row);
    w->kernels->softmax.again(dlogits, width, n, width, 1, s->max + row, s->log_sum + row);
    w->kernels->rows.scale(dlogits, width, s->factor + row, n, width);
    for (size_t i = 0; i < n; i++) {
        size_t label = label_in(w, row + i);
        if (label < width)
            dlogits[i * width + label] -= s->factor[row + i];
    }
    product_weights(w->kernels, w->output->precision, w->dx + row * dim, dim, dlogits, width,
                    s->packed_backward, n, dim, width, w->add || w->first > 0);
}

/* The gradients of a block of words from all rows, in order. */
static void backward_words(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct work *w = argument;
    const struct tied_output *output = w->output;
    size_t dim = output->dim, width = w->width, at = index * WORD_BLOCK;
    size_t words = width - at < WORD_BLOCK ? width - at : WORD_BLOCK;
    float *dweight = slice_at(w->gradients, output->weight) + (w->first + at) * dim;
    float *dbias = slice_at(w->gradients, output->bias) + w->first + at;
    for (size_t tile = 0; tile < w->rows->tiles; tile++) {
        size_t row = tile * w->rows->tile_rows, n = rows_of_tile(w->rows, row);
        const float *dlogits = w->space->logits + row * output->chunk + at, *x = w->x + row * dim;
        if (output->precision == PRECISION_BF16)
            product_transposed_bf16(w->kernels, dweight, dim, dlogits, width, x, dim, words, dim, n);
        else
            product(w->kernels, dweight, dim, dlogits, width, true, x, dim, false, words, dim, n, true);
        for (size_t i = 0; i < n; i++)
            w->kernels->rows.axpy(dbias, 1, dlogits + i * width, words);
    }
}

void tied_output_backward(const struct tied_output *output, const struct rows *rows, const float *values,
                          struct slice gradients, const struct tied_output_space *space, float *dx, bool add,
                          const float *x, const struct row_ids *targets, float weight)
{
    struct work w = {.output = output,
                     .rows = rows,
                     .kernels = rows->kernels,
                     .values = values,
                     .space = space,
                     .x = x,
                     .targets = targets,
                     .gradients = gradients,
                     .dx = dx,
                     .add = add};
    for (size_t row = 0; row < rows->padded; row++)
        space->factor[row] = weight * weight_of(&w, row);
    for (w.first = 0; w.first < output->words; w.first += w.width) {
        lay_chunk(&w, true);
        pool_run(rows->pool, backward_tile, &w, rows->tiles);
        pool_run(rows->pool, backward_words, &w, (w.width + WORD_BLOCK - 1) / WORD_BLOCK);
    }
}
