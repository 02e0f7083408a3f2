/* Terms are added in strips of r.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/tiles/relative_terms.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { ROWS = 128 }; /* rows of r_t per product when they are made */

struct relative_terms relative_terms_take(struct arena *arena, size_t dim, size_t most, size_t count)
{
    struct relative_terms terms = {.dim = dim, .most = most, .count = count};
    terms.sinusoids = arena_take(arena, size_product(count, RELATIVE_WIDTH), sizeof(float));
    terms.rows = arena_take(arena, size_product(count, dim), sizeof(float));
    terms.columns = arena_take(arena, size_product(count, dim), sizeof(float));
    return terms;
}

/* Sines in even columns, cosines in odd ones. Each row rotates the previous one by one position, in double,
   so thousands of positions stay accurate. */
static void make_sinusoids(const struct relative_terms *terms)
{
    for (size_t c = 0; c < RELATIVE_WIDTH; c += 2) {
        double frequency = pow(10000, -(double)c / RELATIVE_WIDTH), place = (double)terms->most * frequency;
        double sine = sin(place), cosine = cos(place), turn_sine = sin(frequency),
               turn_cosine = cos(frequency);
        for (size_t t = 0; t < terms->count; t++) {
            terms->sinusoids[t * RELATIVE_WIDTH + c] = (float)sine;
            terms->sinusoids[t * RELATIVE_WIDTH + c + 1] = (float)cosine;
            double next = sine * turn_cosine - cosine * turn_sine;
            cosine = cosine * turn_cosine + sine * turn_sine;
            sine = next;
        }
    }
}

void relative_terms_make(const struct relative_terms *terms, const struct kernels *kernels)
{
    size_t d = terms->dim;
    make_sinusoids(terms);
    for (size_t t = 0; t < terms->count; t += ROWS)
        kernels->tiles.product(terms->rows + t * d, d, terms->sinusoids + t * RELATIVE_WIDTH, RELATIVE_WIDTH,
                               1, terms->weight, d, size_min(ROWS, terms->count - t), d, RELATIVE_WIDTH,
                               false);
    kernels->tiles.transpose(terms->columns, terms->count, terms->rows, d, terms->count, d);
}

void relative_terms_make_backward(const struct relative_terms *terms, const struct kernels *kernels,
                                  const float *drows)
{
    size_t d = terms->dim;
    for (size_t t = 0; t < terms->count; t += ROWS)
        kernels->tiles.product(terms->dweight, d, terms->sinusoids + t * RELATIVE_WIDTH, 1, RELATIVE_WIDTH,
                               drows + t * d, d, RELATIVE_WIDTH, d, size_min(ROWS, terms->count - t), true);
}

const float *relative_terms_sinusoids(const struct relative_terms *terms, size_t query, size_t key)
{
    ptrdiff_t t = (ptrdiff_t)(terms->most + key) - (ptrdiff_t)(query + terms->keys_before),
              count = (ptrdiff_t)terms->count, ring = (ptrdiff_t)terms->ring;
    t += t < 0 ? ring : t >= count ? -ring : 0;
    assert(t >= 0 && t < count);
    return terms->sinusoids + t * RELATIVE_WIDTH;
}

/* ---- tiles --------------------------------------------------------------------------------------------- */

/* The row of terms for the tile's query `row` and its first key; may be before the first term. On a ring, i
   - j is shifted by -1, 0 or 1 ring lengths, whichever lies among the terms. */
static ptrdiff_t term_of(const struct relative_terms *terms, const struct relative_tile *tile, size_t row,
                         int turn)
{
    return (ptrdiff_t)(terms->most + tile->key) - (ptrdiff_t)(tile->first + row + terms->keys_before) +
           turn * (ptrdiff_t)terms->ring;
}

/* Rows of terms first .. end - 1. */
struct strip {
    ptrdiff_t first, end;
};

/* Terms of the pairs of one row of the tile, or of rows 0 to `row`. */
static struct strip strip_of(const struct relative_terms *terms, const struct relative_tile *tile, size_t row,
                             bool all, int turn)
{
    ptrdiff_t count = (ptrdiff_t)terms->count, first = term_of(terms, tile, row, turn),
              end = term_of(terms, tile, all ? 0 : row, turn) + (ptrdiff_t)tile->cols;
    first = first < 0 ? 0 : first;
    end = end > count ? count : end;
    return (struct strip){first, end > first ? end : first};
}

static const int turns[] = {0, -1, 1};

static size_t turns_of(const struct relative_terms *terms)
{
    assert(terms->ring == 0 || terms->count <= terms->ring);
    return terms->ring == 0 ? 1 : 3;
}

static void add_turn(const struct relative_terms *terms, const struct kernels *kernels,
                     const struct tile_products *products, const struct relative_tile *tile, int turn,
                     float *scores, size_t ld)
{
    struct strip strip = strip_of(terms, tile, tile->rows - 1, true, turn);
    size_t width = (size_t)(strip.end - strip.first);
    assert(width <= RELATIVE_STRIP);
    if (width == 0)
        return;
    tile_multiply(products, kernels, tile->strip, RELATIVE_STRIP, tile->position, terms->dim, 1,
                  terms->columns + strip.first, terms->count, tile->rows, width, terms->dim, false);
    for (size_t i = 0; i < tile->rows; i++) {
        struct strip own = strip_of(terms, tile, i, false, turn);
        kernels->rows.axpy(scores + i * ld + (own.first - term_of(terms, tile, i, turn)), 1,
                           tile->strip + i * RELATIVE_STRIP + (own.first - strip.first),
                           (size_t)(own.end - own.first));
    }
}

void relative_terms_add(const struct relative_terms *terms, const struct kernels *kernels,
                        const struct tile_products *products, const struct relative_tile *tile, float *scores,
                        size_t ld)
{
    for (size_t t = 0; t < turns_of(terms); t++)
        add_turn(terms, kernels, products, tile, turns[t], scores, ld);
}

static void turn_backward(const struct relative_terms *terms, const struct kernels *kernels,
                          const struct tile_products *products, const struct relative_tile *tile, int turn,
                          const float *dscores, size_t ld, float *dposition, bool add, float *drows)
{
    struct strip strip = strip_of(terms, tile, tile->rows - 1, true, turn);
    size_t width = (size_t)(strip.end - strip.first), d = terms->dim;
    if (width == 0 && add)
        return;
    for (size_t i = 0; i < tile->rows; i++) {
        struct strip own = strip_of(terms, tile, i, false, turn);
        float *row = tile->strip + i * RELATIVE_STRIP;
        memset(row, 0, width * sizeof *row);
        memcpy(row + (own.first - strip.first),
               dscores + i * ld + (own.first - term_of(terms, tile, i, turn)),
               (size_t)(own.end - own.first) * sizeof *row);
    }
    tile_multiply(products, kernels, dposition, d, tile->strip, RELATIVE_STRIP, 1,
                  terms->rows + (size_t)strip.first * d, d, tile->rows, d, width, add);
    tile_multiply(products, kernels, drows + (size_t)strip.first * d, d, tile->strip, 1, RELATIVE_STRIP,
                  tile->position, d, width, d, tile->rows, true);
}

void relative_terms_backward(const struct relative_terms *terms, const struct kernels *kernels,
                             const struct tile_products *products, const struct relative_tile *tile,
                             const float *dscores, size_t ld, float *dposition, bool add, float *drows)
{
    for (size_t t = 0; t < turns_of(terms); t++)
        turn_backward(terms, kernels, products, tile, turns[t], dscores, ld, dposition, add || t > 0, drows);
}
