/* Words of tails, one row at a time: they are few.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/word_tails.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"

/* Columns of a tail's table in one unit of work of backward. */
enum { COLUMNS = 8 };

/* ---- description -------------------------------------------------------------------------------------- */

/* Reads a number and what ends it, a comma or the end of the text. */
static bool read_number(const char **text, size_t *number)
{
    const char *at = *text;
    for (*number = 0; *at >= '0' && *at <= '9' && *number < 100000000; at++)
        *number = 10 * *number + (size_t)(*at - '0');
    bool good = at > *text && (*at == ',' || *at == '\0');
    *text = at;
    return good;
}

static hashattn_status read_cutoffs(struct host *host, const char *cutoffs, size_t vocab_size,
                                    struct word_tails *tails)
{
    const char *at = cutoffs;
    size_t before = 0;
    do {
        size_t number;
        at += tails->count > 0; /* the comma */
        FAIL_IF(!read_number(&at, &number), host, HASHATTN_INVALID,
                "model: `cutoffs` is '%s', it must be numbers of ids such as 20000,60000", cutoffs);
        FAIL_IF(tails->count == WORD_TAILS, host, HASHATTN_INVALID,
                "model: `cutoffs` is '%s', at most %d numbers are allowed", cutoffs, WORD_TAILS);
        FAIL_IF(number <= before, host, HASHATTN_INVALID,
                "model: `cutoffs` is '%s', and %zu is not above %zu", cutoffs, number, before);
        FAIL_IF(number >= vocab_size, host, HASHATTN_INVALID,
                "model: `cutoffs` is '%s', and %zu is not below the %zu ids of the vocabulary", cutoffs,
                number, vocab_size);
        before = tails->list[tails->count++].first = number;
    } while (*at == ',');
    return HASHATTN_OK;
}

hashattn_status word_tails_read(struct host *host, const char *cutoffs, size_t div_value, size_t vocab_size,
                                size_t dim, struct word_tails *tails)
{
    *tails = (struct word_tails){.dim = dim};
    if (cutoffs == NULL || cutoffs[0] == '\0')
        return HASHATTN_OK;
    TRY(read_cutoffs(host, cutoffs, vocab_size, tails));
    tails->head = tails->list[0].first;
    for (size_t i = 0, width = dim; i < tails->count; i++) {
        struct word_tail *tail = &tails->list[i];
        size_t end = i + 1 < tails->count ? tails->list[i + 1].first : vocab_size;
        FAIL_IF(width < div_value, host, HASHATTN_INVALID,
                "model: `cutoffs` is '%s' with `div_value` %zu: words of tail %zu would have %zu / %zu = 0 "
                "columns",
                cutoffs, div_value, i + 1, width, div_value);
        width /= div_value;
        tail->words = end - tail->first;
        tail->dim = width;
        tail->projected = width < dim;
    }
    return HASHATTN_OK;
}

hashattn_status word_tails_describe(struct host *host, struct params *params, const char *prefix, float start,
                                    struct word_tails *tails)
{
    for (size_t i = 0; i < tails->count; i++) {
        struct word_tail *tail = &tails->list[i];
        float own = tail->projected ? 1 / sqrtf((float)tail->dim) : start;
        TRY(params_add(host, params, START_NORMAL, own, &tail->table, 2, (size_t[]){tail->words, tail->dim},
                       "%sembeddings.word_embeddings.%zu.weight", prefix, i + 1));
        if (tail->projected)
            TRY(params_add(host, params, START_NORMAL, start, &tail->projection, 2,
                           (size_t[]){tail->dim, tails->dim}, "%sembeddings.word_embeddings.%zu.projection",
                           prefix, i + 1));
    }
    return HASHATTN_OK;
}

const struct word_tail *word_tails_find(const struct word_tails *tails, size_t id)
{
    const struct word_tail *found = NULL;
    for (size_t i = 0; i < tails->count && id >= tails->list[i].first; i++)
        found = &tails->list[i];
    return found;
}

/* ---- passes ------------------------------------------------------------------------------------------- */

void word_tail_place(const struct word_tails *tails, const struct word_tail *tail,
                     const struct kernels *kernels, const float *values, float scale, float *y, size_t id)
{
    const float *word = values + tail->table + (id - tail->first) * tail->dim;
    assert(id - tail->first < tail->words);
    memset(y, 0, tails->dim * sizeof *y);
    if (!tail->projected)
        kernels->rows.axpy(y, scale, word, tail->dim);
    for (size_t c = 0; tail->projected && c < tail->dim; c++)
        kernels->rows.axpy(y, scale * word[c], values + tail->projection + c * tails->dim, tails->dim);
}

struct tail_gradient {
    const struct word_tails *tails;
    const struct rows *rows;
    const float *values;
    struct slice gradients;
    float scale;
    const float *dy;
    const uint32_t *ids;
};

static size_t units_of(const struct word_tail *tail)
{
    return (tail->dim + COLUMNS - 1) / COLUMNS;
}

/* Columns [at, at + n) of a tail's table, and these rows of its projection, from one row. */
static void add_row(const struct tail_gradient *g, const struct word_tail *tail, size_t row, size_t at,
                    size_t n)
{
    const struct rows_slots *slots = &g->rows->kernels->rows;
    size_t dim = g->tails->dim, word = tail->table + (g->ids[row] - tail->first) * tail->dim + at;
    float *dword = slice_at(g->gradients, word), dots[COLUMNS];
    const float *dy = g->dy + row * dim;
    if (!tail->projected) {
        slots->axpy(dword, g->scale, dy + at, n);
        return;
    }
    slots->dots(dots, g->values + tail->projection + at * dim, dim, dy, 0, n, dim);
    slots->axpy(dword, g->scale, dots, n);
    for (size_t c = 0; c < n; c++)
        slots->axpy(slice_at(g->gradients, tail->projection + (at + c) * dim), g->scale * g->values[word + c],
                    dy, dim);
}

static void backward_columns(void *argument, size_t unit, int worker)
{
    (void)worker;
    const struct tail_gradient *g = argument;
    const struct word_tail *tail = g->tails->list;
    for (; unit >= units_of(tail); tail++)
        unit -= units_of(tail);
    size_t at = unit * COLUMNS, n = size_min(tail->dim - at, COLUMNS);
    for (size_t row = 0; row < g->rows->count; row++)
        if (g->ids[row] >= tail->first && g->ids[row] - tail->first < tail->words)
            add_row(g, tail, row, at, n);
}

void word_tails_backward(const struct word_tails *tails, const struct rows *rows, const float *values,
                         struct slice gradients, float scale, const float *dy, const uint32_t *ids)
{
    struct tail_gradient g = {tails, rows, values, gradients, scale, dy, ids};
    size_t units = 0;
    for (size_t i = 0; i < tails->count; i++)
        units += units_of(&tails->list[i]);
    if (units > 0)
        pool_run(rows->pool, backward_columns, &g, units);
}
