/* Copies the times of a window into rows, less its level.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/windows.h"

#include <assert.h>
#include <string.h>

size_t windows_begin(const struct windows *w, size_t window)
{
    return w->origins == NULL ? w->first + window : w->origins[window].time;
}

size_t windows_examples(const struct windows *w)
{
    return w->joint ? w->count : w->count * w->columns;
}

size_t windows_rows(const struct windows *w)
{
    assert(w->length >= w->patch && (w->length - w->patch) % w->stride == 0);
    return (w->length - w->patch) / w->stride + 1;
}

size_t windows_row_width(const struct windows *w)
{
    if (w->num_marks > 0)
        return 3 * w->columns + w->num_marks;
    return w->joint ? w->patch * w->columns : w->patch;
}

size_t windows_outputs(const struct windows *w)
{
    return w->joint ? w->num_targets : 1;
}

struct window_place windows_place(const struct windows *w, size_t example)
{
    assert(example < windows_examples(w));
    if (w->joint)
        return (struct window_place){example, w->target};
    return (struct window_place){example / w->columns, example % w->columns};
}

/* The mean of x[phase], x[phase + season], ... below length. */
static float mean_at(const float *x, size_t length, size_t season, size_t phase)
{
    double sum = 0;
    size_t n = 0;
    for (size_t t = phase; t < length; t += season, n++)
        sum += (double)x[t];
    return (float)(sum / (double)n);
}

/* Adds factor times the level of the window x at times [first, first + n) to values that are `apart` floats
   apart. Time 0 is the first that the window reads. */
static void add_level(const struct windows *w, const float *x, float factor, size_t first, size_t n,
                      float *to, size_t apart)
{
    if (w->level == LEVEL_NONE)
        return;
    size_t season = w->level == LEVEL_SEASONAL ? w->season : 1;
    for (size_t phase = 0; phase < season; phase++) {
        float level = w->level == LEVEL_LAST ? x[w->length - 1] : mean_at(x, w->length, season, phase);
        for (size_t t = (season + phase - first % season) % season; t < n; t += season)
            to[t * apart] += factor * level;
    }
}

static const float *window_of(const struct windows *w, size_t window, size_t column)
{
    return w->values + column * w->times + windows_begin(w, window);
}

/* The values of one column, `apart` floats apart in every row, at `to` in the first. */
static void read_column(const struct windows *w, const float *x, float *to, size_t apart, size_t row_width)
{
    size_t rows = windows_rows(w);
    for (size_t r = 0; r < rows; r++) {
        float *row = to + r * row_width;
        for (size_t i = 0; i < w->patch; i++)
            row[i * apart] = x[r * w->stride + i];
        add_level(w, x, -1, r * w->stride, w->patch, row, apart);
    }
}

size_t windows_decoder_rows(const struct windows *w)
{
    return w->num_marks == 0 ? 0 : w->label + w->horizon;
}

/* `count` rows of times `first` .. of the window, the first `known` of them with values, each with those
   before and after it. */
static void read_marked(const struct windows *w, size_t window, size_t first, size_t count, size_t known,
                        float *rows)
{
    size_t width = windows_row_width(w), c = w->columns;
    for (size_t r = 0; r < count; r++) {
        float *row = rows + r * width;
        for (size_t k = 0; k < c; k++) {
            row[c + k] = r < known ? window_of(w, window, k)[first + r] : 0;
            if (r < known)
                add_level(w, window_of(w, window, k), -1, first + r, 1, row + c + k, 1);
        }
        memcpy(row + 3 * c, w->marks + (windows_begin(w, window) + first + r) * w->num_marks,
               w->num_marks * sizeof *row);
    }
    for (size_t r = 0; r < count; r++) {
        memcpy(rows + r * width, rows + (r == 0 ? count - 1 : r - 1) * width + c, c * sizeof *rows);
        memcpy(rows + r * width + 2 * c, rows + (r + 1 == count ? 0 : r + 1) * width + c, c * sizeof *rows);
    }
}

void windows_read_decoder(const struct windows *w, size_t example, float *rows)
{
    struct window_place at = windows_place(w, example);
    read_marked(w, at.window, w->length - w->label, windows_decoder_rows(w), w->label, rows);
}

void windows_read(const struct windows *w, size_t example, float *rows)
{
    struct window_place at = windows_place(w, example);
    size_t width = windows_row_width(w);
    if (w->num_marks > 0) {
        read_marked(w, at.window, 0, w->length, w->length, rows);
        return;
    }
    if (!w->joint)
        read_column(w, window_of(w, at.window, at.column), rows, 1, width);
    for (size_t c = 0; w->joint && c < w->columns; c++)
        read_column(w, window_of(w, at.window, c), rows + c, w->columns, width);
}

void windows_ask(const struct windows *w, size_t example, float *target)
{
    struct window_place at = windows_place(w, example);
    size_t outputs = windows_outputs(w), begin = windows_begin(w, at.window) + w->length;
    for (size_t k = 0; k < outputs; k++) {
        const float *x = window_of(w, at.window, at.column + k);
        size_t known = begin >= w->times || w->blind   ? 0
                       : w->times - begin < w->horizon ? w->times - begin
                                                       : w->horizon;
        for (size_t h = 0; h < w->horizon; h++)
            target[h * outputs + k] = h < known ? x[w->length + h] : 0;
        add_level(w, x, -1, w->length, known, target + k, outputs);
    }
}

void windows_restore(const struct windows *w, size_t example, size_t quantiles, float *forecast)
{
    struct window_place at = windows_place(w, example);
    size_t outputs = windows_outputs(w);
    for (size_t k = 0; k < outputs; k++)
        for (size_t q = 0; q < quantiles; q++)
            add_level(w, window_of(w, at.window, at.column + k), 1, w->length, w->horizon,
                      forecast + k * quantiles + q, outputs * quantiles);
}
