/* Rows of a split are standardised and copied once, column by column; windows are only counted, or listed
   with their beginnings where there are several series. Cost: one pass over the rows of the split.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/forecast/series_windows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

#define MOST_DEVIATIONS 1e18 /* of a value from the mean, so that its square is a float */

/* ---- parts --------------------------------------------------------------------------------------------- */

/* The option that sets a number, where it can be set. */
static const char *named(const struct series_cut *cut, const char *option)
{
    return cut->recorded ? "" : option;
}

/* 0.7 of 700 is 490, also where the product is just below it. */
static size_t share_of(size_t times, double share)
{
    return (size_t)((double)times * share + 1e-6);
}

/* Cuts `times` rows. */
static hashattn_status cut_rows(struct host *host, const struct series_cut *cut, const struct series *series,
                                size_t times, struct series_part parts[SPLIT_COUNT])
{
    size_t train, valid, test;
    if (cut->months) {
        size_t month = 30 * calendar_per_day(&series->calendar);
        FAIL_IF(month == 0, host, HASHATTN_BAD_FILE,
                "`split_by` months needs rows that divide a day; use shares");
        FAIL_IF(times < 20 * month, host, HASHATTN_BAD_FILE, "%zu rows, the 12, 4 and 4 months%s have %zu",
                times, named(cut, " of `split_by` months"), 20 * month);
        train = 12 * month;
        valid = test = 4 * month;
    } else {
        train = share_of(times, cut->train_share);
        test = share_of(times, cut->test_share);
        FAIL_IF(train + test >= times, host, HASHATTN_BAD_FILE,
                "shares of %g for training%s and %g for the test%s leave nothing of %zu rows for validation",
                cut->train_share, named(cut, " (`train_share`)"), cut->test_share,
                named(cut, " (`test_share`)"), times);
        valid = times - train - test;
    }
    parts[SPLIT_TRAIN] = (struct series_part){0, train};
    parts[SPLIT_VALID] = (struct series_part){train, train + valid};
    parts[SPLIT_TEST] = (struct series_part){train + valid, train + valid + test};
    return HASHATTN_OK;
}

/* Every part must have at least one window. */
static hashattn_status check_lengths(struct host *host, const struct series_cut *cut, size_t length,
                                     size_t horizon, size_t times,
                                     const struct series_part parts[SPLIT_COUNT])
{
    const char *of_horizon = named(cut, " (`horizon`)"), *s = horizon == 1 ? "" : "s";
    FAIL_IF(horizon > times, host, HASHATTN_BAD_FILE, "a forecast has %zu row%s%s, the file has %zu", horizon,
            s, of_horizon, times);
    FAIL_IF(parts[SPLIT_TRAIN].end < length + horizon, host, HASHATTN_BAD_FILE,
            "a forecast reads %zu rows%s and has %zu%s, the training part has %zu of %zu rows", length,
            named(cut, " (`seq_len`)"), horizon, of_horizon, parts[SPLIT_TRAIN].end, times);
    for (enum split split = SPLIT_VALID; split <= SPLIT_TEST; split++)
        FAIL_IF(parts[split].end - parts[split].first < horizon, host, HASHATTN_BAD_FILE,
                "a forecast has %zu row%s%s, the %s part has %zu of %zu", horizon, s, of_horizon,
                split == SPLIT_VALID ? "validation" : "test", parts[split].end - parts[split].first, times);
    return HASHATTN_OK;
}

hashattn_status series_parts(struct host *host, const struct series *series, size_t piece,
                             const struct series_cut *cut, const struct windows *like,
                             struct series_part parts[SPLIT_COUNT])
{
    const struct series_piece *of = &series->pieces[piece];
    hashattn_status status = cut_rows(host, cut, series, of->times, parts);
    if (status == HASHATTN_OK)
        status = check_lengths(host, cut, like->length, like->horizon, of->times, parts);
    if (status == HASHATTN_BAD_FILE && of->name != NULL)
        host_prefix(host, of->name);
    return status;
}

/* ---- windows ------------------------------------------------------------------------------------------- */

static hashattn_status fill_marks(struct host *host, const struct calendar *calendar, size_t first,
                                  struct windows *windows)
{
    float marks[CALENDAR_MARKS];
    void *block;
    size_t times = size_sum(windows->times, windows->horizon);
    TRY(memory_new(host, size_product(times, windows->num_marks), sizeof *marks, "features of times",
                   &block));
    windows->marks = block;
    for (size_t t = 0; t < times; t++) {
        calendar_marks(calendar, first + t, marks);
        memcpy(windows->marks + t * windows->num_marks, marks, windows->num_marks * sizeof *marks);
    }
    return HASHATTN_OK;
}

/* The series of a piece among those of the facts. */
static hashattn_status find_series(struct host *host, const struct task_facts *facts,
                                   const struct series_piece *piece, size_t *found)
{
    char list[200];
    *found = 0;
    if (facts->num_series == 0)
        return HASHATTN_OK;
    for (; *found < facts->num_series; ++*found)
        if (strcmp(facts->series[*found], piece->name) == 0)
            return HASHATTN_OK;
    task_names_list(facts->series, facts->num_series, list, sizeof list);
    return host_fail(host, HASHATTN_BAD_FILE, "the run has not read a series '%.60s'; it has: %s",
                     piece->name, list);
}

/* The rows of a piece that a data set has; their values begin at `time` of the windows. */
struct piece_rows {
    size_t piece, first, end; /* rows [first, end) of the piece */
    size_t series, time;
};

/* Writes the standardised values of a piece to the windows. */
static hashattn_status fill_values(struct host *host, const struct task_facts *facts,
                                   const struct series *series, const struct piece_rows *own,
                                   struct windows *windows)
{
    const struct series_piece *piece = &series->pieces[own->piece];
    for (size_t c = 0; c < windows->columns; c++) {
        const struct task_column *column = &facts->columns[own->series * windows->columns + c];
        for (size_t t = own->first; t < own->end; t++) {
            double value = series->values[(piece->time + t) * windows->columns + c];
            double standard = (value - column->mean) / column->deviation;
            FAIL_IF(
                !(fabs(standard) <= MOST_DEVIATIONS), host, HASHATTN_BAD_FILE,
                "row %zu: column '%.60s' is %g, more than %g deviations of the training part from its mean",
                t + 1, column->name, value, MOST_DEVIATIONS);
            windows->values[c * windows->times + own->time + t - own->first] = (float)standard;
        }
    }
    return HASHATTN_OK;
}

/* Windows begin at every row from which they fit, with `horizon` rows after them. */
static hashattn_status fill_origins(struct host *host, const struct series *series,
                                    const struct piece_rows *all, size_t horizon, struct windows *windows)
{
    void *block;
    size_t count = 0;
    TRY(memory_new(host, windows->count, sizeof *windows->origins, "places of windows", &block));
    windows->origins = block;
    for (size_t p = 0; p < series->num_pieces; p++) {
        const struct piece_rows *own = &all[p];
        for (size_t t = own->first; t + windows->length + horizon <= own->end; t++)
            windows->origins[count++] = (struct window_origin){.time = own->time + t - own->first,
                                                               .row = series->pieces[own->piece].row + t,
                                                               .series = own->series};
    }
    return HASHATTN_OK;
}

/* These rows of all pieces, standardised, with the windows that fit into them. */
static hashattn_status fill_dataset(struct host *host, const struct windows *like,
                                    const struct task_facts *facts, const struct series *series,
                                    const struct piece_rows *all, size_t horizon, struct dataset *dataset)
{
    struct windows *windows = &dataset->windows;
    void *block;
    *dataset = (struct dataset){.windows = *like, .num_targets = 1};
    dataset->targets[0] =
        (struct target_set){.kind = TARGETS_EXAMPLE, .width = like->horizon * windows_outputs(like)};
    for (size_t p = 0; p < series->num_pieces; p++) {
        windows->times += all[p].end - all[p].first;
        windows->count += all[p].end - all[p].first - like->length - horizon + 1;
    }
    windows->blind = horizon == 0;
    dataset->count = windows_examples(windows);
    TRY(memory_new(host, size_product(windows->times, windows->columns), sizeof(float),
                   "values of the series", &block));
    windows->values = block;
    if (windows->num_marks > 0)
        TRY(fill_marks(host, &series->calendar, all[0].first, windows));
    if (series->num_pieces > 1 || facts->num_series > 0)
        TRY(fill_origins(host, series, all, horizon, windows));
    dataset->row_width = windows_row_width(windows);
    for (size_t p = 0; p < series->num_pieces; p++)
        TRY(fill_values(host, facts, series, &all[p], windows));
    TRY(memory_new(host, size_sum(dataset->count, 1), sizeof *dataset->offsets, "offsets of examples",
                   &block));
    dataset->offsets = block;
    for (size_t i = 0; i <= dataset->count; i++)
        dataset->offsets[i] = i * windows_rows(windows);
    return HASHATTN_OK;
}

/* The rows of a piece that a split reads; SPLIT_COUNT: its last ones. */
static hashattn_status find_rows(struct host *host, const struct series_cut *cut, const struct windows *like,
                                 const struct task_facts *facts, const struct series *series, size_t piece,
                                 enum split split, struct piece_rows *own)
{
    struct series_part parts[SPLIT_COUNT];
    const struct series_piece *of = &series->pieces[piece];
    size_t length = like->length;
    TRY(find_series(host, facts, of, &own->series));
    if (split == SPLIT_COUNT) {
        FAIL_IF(of->times < length, host, HASHATTN_BAD_FILE, "%s%s%zu rows, a forecast reads %zu",
                of->name == NULL ? "" : of->name, of->name == NULL ? "" : ": ", of->times, length);
        own->first = of->times - length;
        own->end = of->times;
        return HASHATTN_OK;
    }
    TRY(series_parts(host, series, piece, cut, like, parts));
    own->first = split == SPLIT_TRAIN ? 0 : parts[split].first - length;
    own->end = parts[split].end;
    return HASHATTN_OK;
}

hashattn_status series_windows(struct host *host, const struct series *series, const struct series_cut *cut,
                               const struct windows *like, const struct task_facts *facts, enum split split,
                               struct dataset *dataset, size_t *first)
{
    struct piece_rows *all;
    void *block;
    size_t time = 0;
    TRY(memory_new(host, series->num_pieces, sizeof *all, "parts of series", &block));
    all = block;
    hashattn_status status = HASHATTN_OK;
    for (size_t p = 0; p < series->num_pieces && status == HASHATTN_OK; p++) {
        all[p] = (struct piece_rows){.piece = p, .time = time};
        status = find_rows(host, cut, like, facts, series, p, split, &all[p]);
        time += all[p].end - all[p].first;
    }
    *first = all[0].first;
    if (status == HASHATTN_OK)
        status =
            fill_dataset(host, like, facts, series, all, split == SPLIT_COUNT ? 0 : like->horizon, dataset);
    memory_free(host, all);
    return status;
}
