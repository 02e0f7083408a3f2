/* Forecast: the next `horizon` values of a table of numbers with dates, from the `seq_len` before them, as in
   Informer (Zhou et al. 2021), PatchTST (Nie et al. 2023) and DLinear (Zeng et al. 2023). The data are one
   CSV file (series.h). Its beginning is training, then come validation and test, whose windows reach back
   into the part before, so that their first target is their first row. Columns are standardised by mean and
   population standard deviation of the training part; a column that is constant there is only centred.
   Models: an encoder over patches of the series, and without attention DLinear, the last value, and the mean
   of the season. Cost: one pass over the file per split; windows are cut when a batch is packed.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "tasks/dataset.h"
#include "tasks/forecast/series.h"

enum features { FEATURES_S, FEATURES_M, FEATURES_MS };
enum model { MODEL_ENCODER, MODEL_DLINEAR, MODEL_LAST, MODEL_SEASONAL, MODEL_INFORMER };
enum input { INPUT_PATCHES, INPUT_JOINT };
enum { LEVEL_AUTO = LEVEL_SEASONAL + 1 };
enum cut { CUT_SHARES, CUT_MONTHS };
#define MOST_DEVIATIONS 1e18 /* of a value from the mean, so that its square is a float */

static const char *const features[] = {"S", "M", "MS", NULL};
static const char *const models[] = {"encoder", "dlinear", "last", "seasonal", "informer", NULL};
static const char *const inputs[] = {"patches", "joint", NULL};
static const char *const levels[] = {"none", "last", "mean", "seasonal", "auto", NULL};
static const char *const cuts[] = {"shares", "months", NULL};

struct forecast_options {
    char target[OPTION_TEXT_SIZE], date_column[OPTION_TEXT_SIZE];
    int features, model, input, level, split_by; /* the enums above */
    int64_t seq_len, horizon, label_len, patch_len, stride, season;
    double train_share, test_share;
};

static const char *const no_target[] = {"", NULL}, *const date[] = {"date", NULL};
#define FIELD(name) offsetof(struct forecast_options, name)
static const struct option_row rows[] = {
    {"target", OPTION_TEXT, FIELD(target), 0, 0, OPTION_TEXT_SIZE - 1, no_target,
     "the column that S and MS forecast (default: the last one)"},
    {"date_column", OPTION_TEXT, FIELD(date_column), 0, 1, OPTION_TEXT_SIZE - 1, date, "the column of dates"},
    {"features", OPTION_CHOICE, FIELD(features), FEATURES_M, 0, 0, features,
     "S forecasts the target from itself, M all columns, MS the target from all columns"},
    {"seq_len", OPTION_INT, FIELD(seq_len), 96, 1, 65536, NULL, "rows that a forecast reads"},
    {"horizon", OPTION_INT, FIELD(horizon), 24, 1, 65536, NULL, "rows to forecast"},
    {"label_len", OPTION_INT, FIELD(label_len), 48, 0, 65536, NULL,
     "with model informer: the last rows that are read which the decoder reads too, before the forecast"},
    {"model", OPTION_CHOICE, FIELD(model), MODEL_ENCODER, 0, 0, models,
     "a Transformer encoder, or a baseline: dlinear (linear maps of trend and rest), last (the last value) "
     "or "
     "seasonal (the mean at the same phase); informer has an encoder and a decoder"},
    {"input", OPTION_CHOICE, FIELD(input), INPUT_PATCHES, 0, 0, inputs,
     "tokens of the encoder: patches of one column, each column on its own, or jointly of all columns "
     "(always "
     "with MS)"},
    {"patch_len", OPTION_INT, FIELD(patch_len), 8, 1, 65536, NULL, "rows of a patch"},
    {"stride", OPTION_INT, FIELD(stride), 0, 0, 65536, NULL,
     "rows from one patch to the next; 0: patch_len, without overlap"},
    {"level", OPTION_CHOICE, FIELD(level), LEVEL_AUTO, 0, 0, levels,
     "subtracted from a window and added to its forecast: its last value, its mean, or the mean at the same "
     "phase of the season; auto: last for the encoder, none for dlinear"},
    {"season", OPTION_INT, FIELD(season), 0, 0, 65536, NULL,
     "rows of a season; 0: a day, of daily dates a week, of monthly dates a year"},
    {"split_by", OPTION_CHOICE, FIELD(split_by), CUT_SHARES, 0, 0, cuts,
     "training, validation and test by shares of the rows, or as for ETT the first 12, 4 and 4 months of 30 "
     "days"},
    {"train_share", OPTION_REAL, FIELD(train_share), 0.7, 0.01, 0.98, NULL, "share of the training part"},
    {"test_share", OPTION_REAL, FIELD(test_share), 0.2, 0.01, 0.98, NULL,
     "share of the test part; the rest is validation"},
    {.name = NULL},
};

/* ---- the file ------------------------------------------------------------------------------------------ */

/* `data` is the file, or a directory with one .csv file. */
static hashattn_status find_file(struct host *host, const char *data, char *path, size_t size,
                                 enum file_source *source)
{
    const char **names;
    size_t count;
    *source = file_is_directory(data) ? FILE_FOUND : FILE_TYPED;
    if (*source == FILE_TYPED) {
        FAIL_IF(strlen(data) >= size, host, HASHATTN_INVALID, "the path of the file has %zu bytes, %zu fit",
                strlen(data), size - 1);
        strcpy(path, data);
        return HASHATTN_OK;
    }
    TRY(file_list(host, data, ".csv", &names, &count));
    hashattn_status status = HASHATTN_OK;
    if (count == 1)
        status = file_join(host, data, names[0], path, size);
    else if (count == 0)
        status = host_fail(host, HASHATTN_BAD_FILE, "%s has no .csv file", data);
    else
        status =
            host_fail(host, HASHATTN_BAD_FILE, "%s has %zu .csv files, %.60s and %.60s among them: name one",
                      data, count, names[0], names[1]);
    memory_free(host, (void *)names);
    return status;
}

/* Every column is an example of its own. The baselines forecast a column from itself. */
static bool is_joint(const struct forecast_options *options)
{
    return options->model == MODEL_INFORMER ||
           (options->model == MODEL_ENCODER &&
            (options->input == INPUT_JOINT || options->features == FEATURES_MS));
}

static hashattn_status read_series(struct host *host, const struct forecast_options *options,
                                   const struct task_facts *facts, const char *path, enum file_source source,
                                   struct series *series)
{
    bool only_target =
        options->features == FEATURES_S || (options->features == FEATURES_MS && !is_joint(options));
    char **names = NULL;
    void *block;
    struct series_choice choice = {
        .date = options->date_column, .target = options->target, .only_target = only_target};
    if (facts != NULL) {
        TRY(memory_new(host, facts->num_columns, sizeof *names, "names of columns", &block));
        names = block;
        for (size_t i = 0; i < facts->num_columns; i++)
            names[i] = facts->columns[i].name;
        choice.names = names;
        choice.count = facts->num_columns;
    }
    hashattn_status status = series_read(host, path, source, &choice, series);
    memory_free(host, (void *)names);
    return status;
}

/* ---- parts --------------------------------------------------------------------------------------------- */

/* Targets of a split are in rows [first, end). */
struct part {
    size_t first, end;
};

/* 0.7 of 700 is 490, also where the product is just below it. */
static size_t share_of(size_t times, double share)
{
    return (size_t)((double)times * share + 1e-6);
}

static hashattn_status cut_series(struct host *host, const struct forecast_options *options,
                                  const struct series *series, struct part parts[SPLIT_COUNT])
{
    size_t times = series->times, train, valid, test;
    if (options->split_by == CUT_MONTHS) {
        size_t month = 30 * calendar_per_day(&series->calendar);
        FAIL_IF(month == 0, host, HASHATTN_BAD_FILE,
                "split_by months needs rows that divide a day; use shares");
        FAIL_IF(times < 20 * month, host, HASHATTN_BAD_FILE,
                "%zu rows, the 12, 4 and 4 months of split_by months have %zu", times, 20 * month);
        train = 12 * month;
        valid = test = 4 * month;
    } else {
        train = share_of(times, options->train_share);
        test = share_of(times, options->test_share);
        FAIL_IF(train + test >= times, host, HASHATTN_BAD_FILE,
                "train_share %g and test_share %g leave nothing of %zu rows for validation",
                options->train_share, options->test_share, times);
        valid = times - train - test;
    }
    parts[SPLIT_TRAIN] = (struct part){0, train};
    parts[SPLIT_VALID] = (struct part){train, train + valid};
    parts[SPLIT_TEST] = (struct part){train + valid, train + valid + test};
    return HASHATTN_OK;
}

/* Every part must have at least one window. */
static hashattn_status check_lengths(struct host *host, const struct forecast_options *options,
                                     const struct series *series, const struct part parts[SPLIT_COUNT])
{
    size_t length = (size_t)options->seq_len, horizon = (size_t)options->horizon;
    FAIL_IF(horizon > series->times, host, HASHATTN_BAD_FILE, "horizon is %zu, the file has %zu rows",
            horizon, series->times);
    FAIL_IF(parts[SPLIT_TRAIN].end < length + horizon, host, HASHATTN_BAD_FILE,
            "a window of seq_len %zu and horizon %zu has %zu rows, the training part has %zu of %zu", length,
            horizon, length + horizon, parts[SPLIT_TRAIN].end, series->times);
    for (enum split split = SPLIT_VALID; split <= SPLIT_TEST; split++)
        FAIL_IF(parts[split].end - parts[split].first < horizon, host, HASHATTN_BAD_FILE,
                "horizon is %zu, the %s part has %zu of %zu rows", horizon,
                split == SPLIT_VALID ? "validation" : "test", parts[split].end - parts[split].first,
                series->times);
    return HASHATTN_OK;
}

/* ---- windows ------------------------------------------------------------------------------------------- */

static size_t outputs_of(const struct forecast_options *options, size_t columns)
{
    return is_joint(options) && options->features != FEATURES_MS ? columns : 1;
}

/* Rows per season of level seasonal. */
static hashattn_status find_season(struct host *host, const struct forecast_options *options,
                                   const struct calendar *calendar, size_t *season)
{
    size_t day = calendar_per_day(calendar);
    *season = options->season > 0                                  ? (size_t)options->season
              : day > 1                                            ? day
              : day == 1                                           ? 7
              : calendar->months > 0 && 12 % calendar->months == 0 ? (size_t)(12 / calendar->months)
                                                                   : 0;
    FAIL_IF(*season == 0, host, HASHATTN_BAD_FILE,
            "the dates tell no season: neither a day nor a year is a whole number of rows; set season");
    FAIL_IF(*season > (size_t)options->seq_len, host, HASHATTN_INVALID,
            "a season has %zu rows, seq_len has %lld; set season or seq_len", *season,
            (long long)options->seq_len);
    return HASHATTN_OK;
}

/* The windows of these options, without values and places. */
static hashattn_status windows_of(struct host *host, const struct forecast_options *options,
                                  const struct series *series, struct windows *windows)
{
    bool encoder = options->model == MODEL_ENCODER, informer = options->model == MODEL_INFORMER;
    size_t length = (size_t)options->seq_len,
           patch = informer  ? 1
                   : encoder ? (size_t)options->patch_len
                             : length,
           stride = encoder && options->stride > 0 ? (size_t)options->stride : patch;
    int level = options->model == MODEL_LAST        ? LEVEL_LAST
                : options->model == MODEL_SEASONAL  ? LEVEL_SEASONAL
                : options->level != (int)LEVEL_AUTO ? options->level
                : options->model == MODEL_DLINEAR   ? LEVEL_NONE
                : informer                          ? LEVEL_NONE
                                                    : LEVEL_LAST;
    size_t columns = series->columns, outputs = outputs_of(options, columns);
    FAIL_IF(informer && options->label_len > options->seq_len, host, HASHATTN_INVALID,
            "label_len is %lld, seq_len %lld; the decoder reads rows that the encoder reads",
            (long long)options->label_len, (long long)options->seq_len);
    FAIL_IF(patch > length || (length - patch) % stride != 0, host, HASHATTN_INVALID,
            "patches of %zu rows every %zu rows do not end with the %zu rows of seq_len; change patch_len, "
            "stride or seq_len",
            patch, stride, length);
    *windows = (struct windows){.columns = columns,
                                .length = length,
                                .horizon = (size_t)options->horizon,
                                .patch = patch,
                                .stride = stride,
                                .joint = is_joint(options),
                                .target = columns - outputs,
                                .num_targets = outputs,
                                .level = (enum level)level,
                                .num_marks = informer ? calendar_num_marks(&series->calendar) : 0,
                                .label = informer ? (size_t)options->label_len : 0};
    return level == LEVEL_SEASONAL ? find_season(host, options, &series->calendar, &windows->season)
                                   : HASHATTN_OK;
}

/* Rows [first, end) of the series, standardised, in a data set with a window that ends its reading at every
   row from first + seq_len to end - `horizon`. */
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

static hashattn_status fill_dataset(struct host *host, const struct windows *like,
                                    const struct task_facts *facts, const struct series *series, size_t first,
                                    size_t end, size_t horizon, struct dataset *dataset)
{
    struct windows *windows = &dataset->windows;
    void *block;
    *dataset = (struct dataset){.windows = *like, .num_targets = 1};
    dataset->targets[0] =
        (struct target_set){.kind = TARGETS_EXAMPLE, .width = like->horizon * windows_outputs(like)};
    windows->times = end - first;
    windows->count = windows->times - like->length - horizon + 1;
    dataset->count = windows_examples(windows);
    TRY(memory_new(host, size_product(windows->times, windows->columns), sizeof(float),
                   "values of the series", &block));
    windows->values = block;
    if (windows->num_marks > 0)
        TRY(fill_marks(host, &series->calendar, first, windows));
    dataset->row_width = windows_row_width(windows);
    for (size_t c = 0; c < windows->columns; c++)
        for (size_t t = 0; t < windows->times; t++) {
            double value = series->values[(first + t) * windows->columns + c];
            double standard = (value - facts->columns[c].mean) / facts->columns[c].deviation;
            FAIL_IF(
                !(fabs(standard) <= MOST_DEVIATIONS), host, HASHATTN_BAD_FILE,
                "row %zu: column '%.60s' is %g, more than %g deviations of the training part from its mean",
                first + t + 1, facts->columns[c].name, value, MOST_DEVIATIONS);
            windows->values[c * windows->times + t] = (float)standard;
        }
    TRY(memory_new(host, size_sum(dataset->count, 1), sizeof *dataset->offsets, "offsets of examples",
                   &block));
    dataset->offsets = block;
    for (size_t i = 0; i <= dataset->count; i++)
        dataset->offsets[i] = i * windows_rows(windows);
    return HASHATTN_OK;
}

/* Messages have the path. */
static hashattn_status load_part(struct host *host, const struct forecast_options *options,
                                 const struct task_facts *facts, const struct series *series,
                                 enum split split, struct dataset *dataset, size_t *first)
{
    struct part parts[SPLIT_COUNT];
    struct windows like;
    size_t length = (size_t)options->seq_len, times = series->times;
    TRY(windows_of(host, options, series, &like));
    if (split == SPLIT_COUNT) {
        FAIL_IF(times < length, host, HASHATTN_BAD_FILE, "%zu rows, a forecast reads seq_len %zu", times,
                length);
        *first = times - length;
        return fill_dataset(host, &like, facts, series, *first, times, 0, dataset);
    }
    TRY(cut_series(host, options, series, parts));
    TRY(check_lengths(host, options, series, parts));
    *first = split == SPLIT_TRAIN ? 0 : parts[split].first - length;
    return fill_dataset(host, &like, facts, series, *first, parts[split].end, like.horizon, dataset);
}

static hashattn_status load_dated(struct host *host, const void *task_options, const struct task_facts *facts,
                                  const char *data, enum split split, struct dataset *dataset,
                                  struct calendar *calendar, size_t *first)
{
    const struct forecast_options *options = task_options;
    struct series series;
    char path[FILE_PATH];
    enum file_source source;
    *dataset = (struct dataset){0};
    FAIL_IF(facts->num_columns == 0, host, HASHATTN_INVALID, "the facts of the run have no columns");
    TRY(find_file(host, data, path, sizeof path, &source));
    TRY(read_series(host, options, facts, path, source, &series));
    hashattn_status status = load_part(host, options, facts, &series, split, dataset, first);
    *calendar = series.calendar;
    series_free(host, &series);
    if (status != HASHATTN_OK) {
        host_prefix(host, path);
        dataset_free(host, dataset);
    }
    return status;
}

static hashattn_status load(struct host *host, const void *options, const struct task_facts *facts,
                            const char *data, enum split split, uint64_t seed, struct dataset *dataset)
{
    struct calendar calendar;
    size_t first;
    (void)seed; /* parts follow each other in time */
    return load_dated(host, options, facts, data, split, dataset, &calendar, &first);
}

/* ---- facts --------------------------------------------------------------------------------------------- */

/* Mean and deviation of a column over the first n rows. */
static void measure(const struct series *series, size_t column, size_t n, struct task_column *result)
{
    const double *x = series->values + column;
    double sum = 0, squares = 0;
    bool constant = true;
    for (size_t t = 0; t < n; t++) {
        sum += x[t * series->columns];
        constant = constant && x[t * series->columns] == x[0];
    }
    result->mean = constant ? x[0] : sum / (double)n;
    for (size_t t = 0; t < n; t++) {
        double off = x[t * series->columns] - result->mean;
        squares += off * off;
    }
    double deviation = sqrt(squares / (double)n);
    result->deviation = constant || !(deviation > 0) ? 1 : deviation;
}

/* The row of the largest number of a column among the first n. */
static size_t row_of_largest(const struct series *series, size_t column, size_t n)
{
    size_t found = 0;
    for (size_t t = 1; t < n; t++)
        if (fabs(series->values[t * series->columns + column]) >
            fabs(series->values[found * series->columns + column]))
            found = t;
    return found;
}

static hashattn_status take_columns(struct host *host, struct series *series, size_t n,
                                    struct task_facts *facts)
{
    void *block;
    TRY(memory_new_zeroed(host, series->columns, sizeof *facts->columns, "columns", &block));
    facts->columns = block;
    facts->num_columns = series->columns;
    for (size_t c = 0; c < series->columns; c++) {
        measure(series, c, n, &facts->columns[c]);
        facts->columns[c].name = series->names[c];
        series->names[c] = NULL;
        if (isfinite(facts->columns[c].deviation) && isfinite(facts->columns[c].mean))
            continue;
        size_t row = row_of_largest(series, c, n);
        return host_fail(host, HASHATTN_BAD_FILE,
                         "row %zu: column '%.60s' is %g, too large to standardise; up to 1e150 are allowed",
                         row + 1, facts->columns[c].name, series->values[row * series->columns + c]);
    }
    return HASHATTN_OK;
}

static hashattn_status find_facts(struct host *host, const struct forecast_options *options,
                                  struct series *series, struct task_facts *facts)
{
    static const char *const objectives[] = {"horizon", "dlinear", "naive", "naive", "decoded"};
    struct part parts[SPLIT_COUNT];
    struct windows windows;
    TRY(windows_of(host, options, series, &windows));
    TRY(cut_series(host, options, series, parts));
    TRY(check_lengths(host, options, series, parts));
    facts->row_width = windows_row_width(&windows);
    facts->max_len = windows_rows(&windows);
    if (options->model == MODEL_INFORMER) {
        facts->decoder_rows = windows_decoder_rows(&windows);
        facts->decoded_rows = windows.horizon;
        facts->max_len = size_max(facts->max_len, facts->decoder_rows);
    }
    task_facts_add(facts, objectives[options->model], windows.horizon * windows_outputs(&windows), 0);
    return take_columns(host, series, parts[SPLIT_TRAIN].end, facts);
}

static hashattn_status facts(struct host *host, const void *task_options, const char *data,
                             struct tokenizer *given, struct task_facts *result)
{
    (void)given; /* rows are not tokens */
    const struct forecast_options *options = task_options;
    struct series series;
    char path[FILE_PATH];
    enum file_source source;
    *result = (struct task_facts){0};
    TRY(find_file(host, data, path, sizeof path, &source));
    TRY(read_series(host, options, NULL, path, source, &series));
    hashattn_status status = find_facts(host, options, &series, result);
    series_free(host, &series);
    if (status != HASHATTN_OK) {
        host_prefix(host, path);
        task_facts_free(host, result);
    }
    return status;
}

const struct task task_forecast = {
    .name = "forecast",
    .summary = "forecast the next values of a CSV file with dates (ETT, or a file of your own)",
    .options = rows,
    .options_size = sizeof(struct forecast_options),
    .preset = {ENCODER(2, 64, 4, 128), .steps = 1000, .batch = 128, .eval_every = 100, .warmup = 50,
               .learning_rate = 1e-3, .pooling = "mean", .attention = YOSO_BITS(5)},
    /* The published settings of Informer on ETTh1, 24 rows ahead; other horizons have other lengths. Heads:
       its sparse ones, and all keys in cross attention. 1600 steps are its six passes. */
    .presets =
        (const struct task_preset[]){{ENCODER(2, 512, 8, 2048), .name = "informer", .steps = 1600,
                                      .batch = 32, .eval_every = 100, .warmup = 1, .learning_rate = 1e-4,
                                      .pooling = "mean", .plan = "probsparse/probsparse/probsparse/softmax",
                                      .attention = YOSO_BITS(5),
                                      .model = "norm=post positions=sinusoidal dropout=0.05 "
                                               "distil=true",
                                      .training = "schedule=halving clip=0",
                                      .task = "model=informer split_by=months seq_len=48 label_len=48 "
                                              "horizon=24"},
                                     {.name = NULL}},
    .facts = facts,
    .load = load,
    .load_dated = load_dated,
};
