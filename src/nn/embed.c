/* Sums of table rows.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/embed.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"

enum { COLUMNS = 16 }; /* columns of one unit of work in backward: a cache line */

const char *const position_names[] = {"learned", "sinusoidal", "sinusoidal-halves", "none", "layered", NULL};

void embed_free(struct host *host, struct embed *embed)
{
    memory_free(host, embed->sinusoids);
    embed->sinusoids = NULL;
    embed->num_sinusoids = 0;
}

static bool is_sinusoidal(enum positions kind)
{
    return kind == POSITIONS_SINUSOIDAL || kind == POSITIONS_HALVES;
}

/* A projection follows the sinusoids of layers, so their order is of no importance. */
static bool has_sinusoids(enum positions kind)
{
    return is_sinusoidal(kind) || kind == POSITIONS_LAYERED;
}

/* Column c of dim: its frequency, and whether it is a sine. */
static double frequency_of(enum positions kind, size_t c, size_t dim, bool *sine)
{
    size_t sines = (dim + 1) / 2, index = c / 2;
    *sine = c % 2 == 0;
    if (kind == POSITIONS_HALVES) {
        *sine = c < sines;
        index = *sine ? c : c - sines;
    }
    return pow(10000, -2 * (double)index / (double)dim);
}

/* Computed in double and rounded once. */
hashattn_status embed_fit(struct host *host, struct embed *embed, size_t rows)
{
    size_t dim = embed->dim;
    void *block;
    assert(rows <= embed->max_len);
    if (!has_sinusoids(embed->kind) || rows <= embed->num_sinusoids)
        return HASHATTN_OK;
    TRY(memory_new(host, size_product(rows, dim), sizeof(float), "sinusoidal positions", &block));
    embed_free(host, embed);
    embed->sinusoids = block;
    embed->num_sinusoids = rows;
    for (size_t c = 0; c < dim; c++) {
        bool sine;
        double frequency = frequency_of(embed->kind, c, dim, &sine);
        for (size_t place = 0; place < rows; place++) {
            double angle = (double)place * frequency;
            embed->sinusoids[place * dim + c] = (float)(sine ? sin(angle) : cos(angle));
        }
    }
    return HASHATTN_OK;
}

hashattn_status embed_describe(struct host *host, struct params *params, const struct embed_shape *shape,
                               struct embed *embed)
{
    const char *prefix = shape->prefix == NULL ? "" : shape->prefix;
    size_t dim = shape->dim;
    enum positions kind = shape->positions;
    *embed = (struct embed){.vocab_size = shape->vocab_size,
                            .num_segments = shape->segments,
                            .max_len = shape->max_len,
                            .dim = dim,
                            .position_offset = shape->position_offset,
                            .kind = kind,
                            .scale = shape->tied ? sqrtf((float)dim) : 1};
    float start = shape->tied ? 1 / embed->scale : is_sinusoidal(kind) ? 1.0f : 0.02f;
    TRY(word_tails_read(host, shape->cutoffs, shape->div_value, shape->vocab_size, dim, &embed->tails));
    size_t whole = embed->tails.count > 0 ? embed->tails.head + embed->tails.count : shape->vocab_size;
    if (whole > 0)
        TRY(params_add(host, params, START_NORMAL, start, &embed->words, 2, (size_t[]){whole, dim},
                       "%sembeddings.word_embeddings.weight", prefix));
    TRY(word_tails_describe(host, params, prefix, start, &embed->tails));
    if (shape->segments > 0)
        TRY(params_add(host, params, START_NORMAL, 0.02f, &embed->segments, 2,
                       (size_t[]){shape->segments, dim}, "%sembeddings.token_type_embeddings.weight",
                       prefix));
    if (kind != POSITIONS_LEARNED)
        return HASHATTN_OK;
    return params_add(host, params, START_NORMAL, shape->tied ? 0.5f : 0.02f, &embed->positions, 2,
                      (size_t[]){size_sum(shape->position_offset, shape->max_len), dim},
                      "%sembeddings.position_embeddings.weight", prefix);
}

static size_t segment_of(const struct input_rows *input, size_t row)
{
    return input->segments == NULL ? 0 : input->segments[row];
}

static void place_word(const struct embed *embed, const struct kernels *kernels, const float *values,
                       float *y, uint32_t id)
{
    size_t dim = embed->dim;
    const struct word_tail *tail = word_tails_find(&embed->tails, id);
    assert(id < embed->vocab_size);
    if (tail != NULL)
        word_tail_place(&embed->tails, tail, kernels, values, embed->scale, y, id);
    for (size_t c = 0; tail == NULL && c < dim; c++)
        y[c] = embed->scale * values[embed->words + id * dim + c];
}

/* y (n, dim) = the words of rows [first, first + n); zeros after the last row. */
static void place_words(const struct embed *embed, const struct rows *rows, const float *values, float *y,
                        const uint32_t *ids, size_t first, size_t n)
{
    size_t dim = embed->dim, left = first < rows->count ? rows->count - first : 0, count = size_min(n, left);
    for (size_t i = 0; i < count; i++)
        place_word(embed, rows->kernels, values, y + i * dim, ids[first + i]);
    memset(y + count * dim, 0, (n - count) * dim * sizeof *y);
}

/* The positions that are added to rows; NULL: none. */
static const float *table_of(const struct embed *embed, const float *values)
{
    if (embed->kind == POSITIONS_LEARNED)
        return values + embed->positions + embed->position_offset * embed->dim;
    return is_sinusoidal(embed->kind) ? embed->sinusoids : NULL;
}

/* True if there is a position for this many rows of a sequence. */
static inline bool has_positions(const struct embed *embed, size_t rows)
{
    return embed->kind == POSITIONS_NONE || embed->kind == POSITIONS_LAYERED ||
           rows <= (embed->kind == POSITIONS_LEARNED ? embed->max_len : embed->num_sinusoids);
}

void embed_forward(const struct embed *embed, const struct rows *rows, const float *values, float *y,
                   const struct input_rows *input, size_t first, size_t n)
{
    size_t dim = embed->dim;
    const float *table = table_of(embed, values);
    if (embed->vocab_size > 0)
        place_words(embed, rows, values, y, input->ids, first, n);
    for (struct span s = rows_span(rows, first, n); s.count > 0; s = rows_next(rows, s)) {
        float *at = y + (s.row - first) * dim;
        assert(has_positions(embed, s.position + s.count));
        for (size_t i = 0; embed->num_segments > 0 && i < s.count; i++) {
            size_t segment = segment_of(input, s.row + i);
            assert(segment < embed->num_segments);
            rows->kernels->rows.axpy(at + i * dim, 1.0f, values + embed->segments + segment * dim, dim);
        }
        if (table != NULL)
            rows->kernels->rows.axpy(at, 1.0f, table + s.position * dim, s.count * dim);
    }
}

void embed_word(const struct embed *embed, const struct kernels *kernels, const float *values, float *y,
                uint32_t id, size_t position)
{
    const float *table = table_of(embed, values);
    assert(has_positions(embed, position + 1));
    place_word(embed, kernels, values, y, id);
    if (embed->num_segments > 0)
        kernels->rows.axpy(y, 1.0f, values + embed->segments, embed->dim);
    if (table != NULL)
        kernels->rows.axpy(y, 1.0f, table + position * embed->dim, embed->dim);
}

struct embed_gradient {
    const struct embed *embed;
    const struct rows *rows;
    float *words, *segments, *positions; /* NULL if there is no such table to learn */
    const float *dy;
    const struct input_rows *input;
};

static void embed_backward_columns(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct embed_gradient *g = argument;
    const struct rows *rows = g->rows;
    const struct input_rows *input = g->input;
    size_t dim = g->embed->dim, c = index * COLUMNS, width = dim - c < COLUMNS ? dim - c : COLUMNS;
    for (struct span s = rows_span(rows, 0, rows->count); s.count > 0; s = rows_next(rows, s))
        for (size_t i = 0; i < s.count; i++) {
            const float *dy = g->dy + (s.row + i) * dim + c;
            if (g->words != NULL && word_tails_find(&g->embed->tails, input->ids[s.row + i]) == NULL)
                rows->kernels->rows.axpy(g->words + input->ids[s.row + i] * dim + c, g->embed->scale, dy,
                                         width);
            if (g->segments != NULL)
                rows->kernels->rows.axpy(g->segments + segment_of(input, s.row + i) * dim + c, 1.0f, dy,
                                         width);
            if (g->positions != NULL)
                rows->kernels->rows.axpy(g->positions + (s.position + i) * dim + c, 1.0f, dy, width);
        }
}

void embed_backward(const struct embed *embed, const struct rows *rows, const float *values,
                    struct slice gradients, const float *dy, const struct input_rows *input)
{
    struct embed_gradient g = {
        .embed = embed,
        .rows = rows,
        .words = embed->vocab_size > 0 ? slice_at(gradients, embed->words) : NULL,
        .segments = embed->num_segments > 0 ? slice_at(gradients, embed->segments) : NULL,
        .positions = embed->kind == POSITIONS_LEARNED
                         ? slice_at(gradients, embed->positions) + embed->position_offset * embed->dim
                         : NULL,
        .dy = dy,
        .input = input,
    };
    if (g.words != NULL || g.segments != NULL || g.positions != NULL)
        pool_run(rows->pool, embed_backward_columns, &g, (embed->dim + COLUMNS - 1) / COLUMNS);
    word_tails_backward(&embed->tails, rows, values, gradients, embed->scale, dy, input->ids);
}
