/* Windows of a series: examples that overlap, cut when a batch is packed, so that a data set takes the memory
   of its series. A window reads `length` consecutive times and forecasts the `horizon` times after them. A
   row holds `patch` times; rows begin `stride` times apart. An example is a window of one column (row: patch
   values) or, jointly, of all columns (row: patch x columns values, columns fastest).
   With `marks` an example is for an encoder and a decoder (Informer; Zhou et al. 2021), jointly, with patches
   of one time: the encoder reads the `length` times, the decoder the last `label` of them and the `horizon`
   after them, whose values are 0. A row has the values of the time before, of its own and of the time after,
   in a circle around the sequence, and the time's marks: a dense layer of such rows is Informer's convolution
   of values plus its map of time features.
   A level of the window is subtracted from what it reads and from its targets, so the error of a forecast
   does not depend on it (NLinear; Zeng et al. 2023, "Are Transformers effective for time series
   forecasting?"). Cost: one pass over the window.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_WINDOWS_H
#define TASKS_WINDOWS_H

#include <stdbool.h>
#include <stddef.h>

enum level {
    LEVEL_NONE,
    LEVEL_LAST,     /* the last value that the window reads */
    LEVEL_MEAN,     /* the mean of those values */
    LEVEL_SEASONAL, /* for each phase of the season, the mean of those values at that phase */
};

struct windows {
    float *values; /* (columns, times), owned by the data set; NULL: no windows */
    size_t times, columns;
    size_t first; /* time of the first value that window 0 reads; window w begins at first + w */
    size_t count; /* number of windows */
    size_t length, horizon, patch, stride;
    bool joint;
    size_t target, num_targets; /* joint: the columns that are forecast */
    enum level level;
    size_t season; /* LEVEL_SEASONAL: times per season, at most `length` */
    /* (times + horizon, num_marks) features of each time, owned by the data set. num_marks 0: no decoder */
    float *marks;
    size_t num_marks, label;
    /* (count) where windows begin, owned by the data set, if `values` has several series one after another;
       NULL: there is one */
    struct window_origin {
        size_t time;   /* of `values` */
        size_t row;    /* of the calendar */
        size_t series; /* its statistics are those of the columns series x columns and up */
    } * origins;
    bool blind; /* the values after windows are not known: targets are 0 */
};

/* Time of the first value that a window reads. */
size_t windows_begin(const struct windows *windows, size_t window);
size_t windows_examples(const struct windows *windows);
size_t windows_rows(const struct windows *windows); /* of an example */
size_t windows_row_width(const struct windows *windows);
/* Columns that an example forecasts; a target has horizon x outputs values, columns fastest. */
size_t windows_outputs(const struct windows *windows);
/* Window and first forecast column of an example. Examples of one window are neighbours. */
struct window_place {
    size_t window, column;
};
struct window_place windows_place(const struct windows *windows, size_t example);

/* Rows of the decoder's sequence; 0: no decoder. */
size_t windows_decoder_rows(const struct windows *windows);

/* rows: (windows_rows, windows_row_width). */
void windows_read(const struct windows *windows, size_t example, float *rows);
/* rows: (windows_decoder_rows, windows_row_width). */
void windows_read_decoder(const struct windows *windows, size_t example, float *rows);
/* target: (horizon, outputs); 0 after the end of the series, and of blind windows. */
void windows_ask(const struct windows *windows, size_t example, float *target);
/* Adds the level to a forecast (horizon, outputs, quantiles) of this example; quantiles: at least 1. */
void windows_restore(const struct windows *windows, size_t example, size_t quantiles, float *forecast);

#endif
