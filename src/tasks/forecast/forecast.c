/* Forecast: the next `horizon` values of a table of numbers with dates, from the `seq_len` before them, as in
   Informer (Zhou et al. 2021), PatchTST (Nie et al. 2023) and DLinear (Zeng et al. 2023). The data are CSV
   files (series.h), cut into parts by time (series_windows.h). Columns are standardised by mean and
   population standard deviation of the training part of their series; a column that is constant there is only
   centred. Models: an encoder over patches of the series, and without attention DLinear, the last value, and
   the mean of the season. Cost: one pass over the file per split; windows are cut when a batch is packed.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/file.h"
#include "base/memory.h"
#include "tasks/forecast/series_files.h"
#include "tasks/forecast/series_statistics.h"
#include "tasks/forecast/series_windows.h"

enum features { FEATURES_S, FEATURES_M, FEATURES_MS };
enum model { MODEL_ENCODER, MODEL_DLINEAR, MODEL_LAST, MODEL_SEASONAL, MODEL_INFORMER };
enum input { INPUT_PATCHES, INPUT_JOINT };
enum { LEVEL_AUTO = LEVEL_SEASONAL + 1 };
enum cut { CUT_SHARES, CUT_MONTHS };

static const char *const features[] = {"S", "M", "MS", NULL};
static const char *const models[] = {"encoder", "dlinear", "last", "seasonal", "informer", NULL};
static const char *const inputs[] = {"patches", "joint", NULL};
static const char *const levels[] = {"none", "last", "mean", "seasonal", "auto", NULL};
static const char *const cuts[] = {"shares", "months", NULL};

struct forecast_options {
    char target[OPTION_TEXT_SIZE], date_column[OPTION_TEXT_SIZE], series_column[OPTION_TEXT_SIZE];
    char columns[OPTION_TEXT_SIZE], freq[OPTION_TEXT_SIZE], delimiter[OPTION_TEXT_SIZE],
        quantiles[OPTION_TEXT_SIZE];
    int header, date_format, missing, duplicates, decimal; /* date_format: 0, or 1 + enum date_format */
    int features, model, input, level, split_by;           /* the enums above */
    int64_t seq_len, horizon, label_len, patch_len, stride, season;
    double train_share, test_share;
};

static const char *const date_choices[] = {"auto", "year-first", "day-first", "month-first", "epoch", NULL};
static const char *const missings[] = {"refuse", "interpolate", "last", NULL};
static const char *const repeats[] = {"refuse", "first", "last", "mean", NULL};
static const char *const decimals[] = {"auto", "point", "comma", NULL};

static const char *const no_text[] = {"", NULL}, *const automatic[] = {"auto", NULL};
#define FIELD(name) offsetof(struct forecast_options, name)
static const struct option_row rows[] = {
    OPTION_ROW("target", OPTION_TEXT, FIELD(target), 0, 0, OPTION_TEXT_SIZE - 1, no_text,
               "the column that S and MS forecast, by its name or number (default: the last one)"),
    OPTION_ROW("columns", OPTION_TEXT, FIELD(columns), 0, 0, OPTION_TEXT_SIZE - 1, no_text,
               "the columns of numbers to read, by names or by numbers from 1, between commas (default: all "
               "but dates and series)"),
    OPTION_ROW("header", OPTION_FLAG, FIELD(header), 1, 0, 1, NULL,
               "the first line has the names of the columns; without a header they are called by their "
               "numbers, from 1"),
    OPTION_ROW("date_column", OPTION_TEXT, FIELD(date_column), 0, 0, OPTION_TEXT_SIZE - 1, no_text,
               "the column of dates; none: rows are numbered (default: one that is called date, time or "
               "alike, or the first with dates)"),
    OPTION_ROW("date_format", OPTION_CHOICE, FIELD(date_format), 0, 0, 0, date_choices,
               "how dates are written: 2016-07-31, 31.7.2016, 7/31/2016, or as a number since 1970; auto: as "
               "all dates can be read"),
    OPTION_ROW("freq", OPTION_TEXT, FIELD(freq), 0, 1, OPTION_TEXT_SIZE - 1, automatic,
               "the period of the rows, as in 15min: a number and ms, s, min, h, D, W, M, Q or Y, or B for "
               "business days; rows are put into periods; auto: what most rows are apart"),
    OPTION_ROW("missing", OPTION_CHOICE, FIELD(missing), MISSING_REFUSE, 0, 0, missings,
               "missing values and rows: refuse them, interpolate between their neighbours, or repeat the "
               "last value"),
    OPTION_ROW("duplicates", OPTION_CHOICE, FIELD(duplicates), REPEATED_REFUSE, 0, 0, repeats,
               "several rows of one time or period: refuse them, or take the first, the last or the mean"),
    OPTION_ROW(
        "series_column", OPTION_TEXT, FIELD(series_column), 0, 0, OPTION_TEXT_SIZE - 1, no_text,
        "the column that names the series of a row, if a file has several series (default: one series)"),
    OPTION_ROW("delimiter", OPTION_TEXT, FIELD(delimiter), 0, 1, OPTION_TEXT_SIZE - 1, automatic,
               "the character between fields, or tab; auto: comma, semicolon, tab or |, by the first line"),
    OPTION_ROW("decimal", OPTION_CHOICE, FIELD(decimal), DECIMAL_AUTO, 0, 0, decimals,
               "the decimal mark; auto: point, and in a file without commas between fields also comma"),
    OPTION_ROW("features", OPTION_CHOICE, FIELD(features), FEATURES_M, 0, 0, features,
               "S forecasts the target from itself, M all columns, MS the target from all columns"),
    OPTION_ROW(
        "seq_len", OPTION_INT, FIELD(seq_len), 0, 0, 65536, NULL,
        "rows that a forecast reads; 0: 96, or half of the training rows before a forecast if these are too "
        "few"),
    OPTION_ROW("horizon", OPTION_INT, FIELD(horizon), 24, 1, 65536, NULL, "rows to forecast"),
    OPTION_ROW(
        "label_len", OPTION_INT, FIELD(label_len), 48, 0, 65536, NULL,
        "with model informer: the last rows that are read which the decoder reads too, before the forecast"),
    OPTION_ROW("model", OPTION_CHOICE, FIELD(model), MODEL_ENCODER, 0, 0, models,
               "a Transformer encoder, or a baseline: dlinear (linear maps of trend and rest), last (the "
               "last value) or seasonal (the mean at the same phase); informer has an encoder and a decoder"),
    OPTION_ROW("input", OPTION_CHOICE, FIELD(input), INPUT_PATCHES, 0, 0, inputs,
               "tokens of the encoder: patches of one column, each column on its own, or jointly of all "
               "columns (always with MS)"),
    OPTION_ROW("patch_len", OPTION_INT, FIELD(patch_len), 8, 1, 65536, NULL, "rows of a patch"),
    OPTION_ROW("stride", OPTION_INT, FIELD(stride), 0, 0, 65536, NULL,
               "rows from one patch to the next; 0: patch_len, without overlap"),
    OPTION_ROW("level", OPTION_CHOICE, FIELD(level), LEVEL_AUTO, 0, 0, levels,
               "subtracted from a window and added to its forecast: its last value, its mean, or the mean at "
               "the same phase of the season; auto: last for the encoder, none for dlinear"),
    OPTION_ROW("quantiles", OPTION_TEXT, FIELD(quantiles), 0, 0, OPTION_TEXT_SIZE - 1, no_text,
               "levels of quantiles to forecast instead of the mean, as in 0.1,0.5,0.9; the outermost two "
               "are an interval"),
    OPTION_ROW("season", OPTION_INT, FIELD(season), 0, 0, 65536, NULL,
               "rows of a season; 0: a day, of daily dates a week, of monthly dates a year"),
    OPTION_ROW("split_by", OPTION_CHOICE, FIELD(split_by), CUT_SHARES, 0, 0, cuts,
               "training, validation and test by shares of the rows, or as for ETT the first 12, 4 and 4 "
               "months of 30 days"),
    OPTION_ROW("train_share", OPTION_REAL, FIELD(train_share), 0.7, 0.01, 0.98, NULL,
               "share of the training part"),
    OPTION_ROW("test_share", OPTION_REAL, FIELD(test_share), 0.2, 0.01, 0.98, NULL,
               "share of the test part; the rest is validation"),
    {.name = NULL},
};

/* ---- reading ------------------------------------------------------------------------------------------- */

/* Every column is an example of its own. The baselines forecast a column from itself. */
static bool is_joint(const struct forecast_options *options)
{
    return options->model == MODEL_INFORMER ||
           (options->model == MODEL_ENCODER &&
            (options->input == INPUT_JOINT || options->features == FEATURES_MS));
}

static hashattn_status find_delimiter(struct host *host, const char *text, char *delimiter)
{
    *delimiter = strcmp(text, "auto") == 0 ? '\0' : strcmp(text, "tab") == 0 ? '\t' : text[0];
    FAIL_IF(*delimiter != '\0' && *delimiter != '\t' &&
                (text[1] != '\0' || strchr("\"\r\n", text[0]) != NULL),
            host, HASHATTN_INVALID, "`delimiter` is '%.20s', one character or tab is needed", text);
    return HASHATTN_OK;
}

/* How a file is read: by the options, and where these leave it open as the run has read its own. */
static hashattn_status choose(struct host *host, const struct forecast_options *options,
                              const struct task_facts *facts, struct series_choice *choice)
{
    const struct task_dates *dates = facts == NULL ? NULL : &facts->dates;
    *choice = (struct series_choice){
        .date = options->date_column,
        .by = options->series_column,
        .target = options->target,
        .no_header = !options->header,
        .columns = options->columns,
        .only_target =
            options->features == FEATURES_S || (options->features == FEATURES_MS && !is_joint(options)),
        .format = options->date_format - 1,
        .freq = options->freq,
        .expected = dates == NULL ? "" : dates->freq,
        .missing = (enum missing)options->missing,
        .repeated = (enum repeated)options->duplicates,
        .decimal = (enum decimal_mark)options->decimal,
    };
    if (dates != NULL && dates->column[0] != '\0')
        choice->date = dates->column;
    for (int f = 0; date_formats[f] != NULL && dates != NULL; f++)
        if (strcmp(date_formats[f], dates->format) == 0)
            choice->format = f;
    return find_delimiter(host, options->delimiter, &choice->delimiter);
}

/* Columns of a series, whose statistics the facts have for each series. */
static size_t facts_columns(const struct task_facts *facts)
{
    return facts->num_columns / size_max(facts->num_series, 1);
}

/* facts NULL: a new run. Messages have the path; path: (FILE_PATH) that of the file, or of the directory of
   several. The host's note says what was found. */
static hashattn_status read_series(struct host *host, const struct forecast_options *options,
                                   const struct task_facts *facts, const char *data, struct series *series,
                                   char *path)
{
    char **names = NULL;
    void *block = NULL;
    struct series_choice choice;
    struct series_files files = {.count = 0};
    bool several = facts != NULL && facts->num_series > 0;
    host->note[0] = '\0';
    TRY(choose(host, options, facts, &choice));
    hashattn_status status = series_files_find(host, data, several, &files);
    if (facts != NULL && status == HASHATTN_OK) {
        choice.count = facts_columns(facts);
        status = memory_new(host, choice.count, sizeof *names, "names of columns", &block);
        choice.names = names = block;
        for (size_t i = 0; i < choice.count && status == HASHATTN_OK; i++)
            names[i] = facts->columns[i].name;
    }
    if (status == HASHATTN_OK)
        snprintf(path, FILE_PATH, "%s",
                 file_is_standard(data) ? "standard input"
                 : files.count == 1     ? files.paths[0]
                                        : data);
    if (status == HASHATTN_OK)
        status = series_read(host, files.list, files.count, files.source, &choice, series);
    if (status == HASHATTN_OK)
        host_note(host, series->repaired, "%s", series->found);
    memory_free(host, (void *)names);
    series_files_free(host, &files);
    return status;
}

/* ---- windows ------------------------------------------------------------------------------------------- */

enum { USUAL_LENGTH = 96 };

static size_t season_of(const struct forecast_options *options, const struct calendar *calendar)
{
    return options->season > 0 ? (size_t)options->season : calendar_season(calendar);
}

/* The stride of patches; 0: windows are no patches. */
static size_t stride_of(const struct forecast_options *options)
{
    return options->model != MODEL_ENCODER
               ? 0
               : (size_t)(options->stride > 0 ? options->stride : options->patch_len);
}

/* Rows of a new run's windows if no option says them: whole patches. */
static size_t usual_length(const struct forecast_options *options, const struct series *series)
{
    size_t train = SIZE_MAX, horizon = (size_t)options->horizon, stride = stride_of(options),
           length = USUAL_LENGTH;
    for (size_t p = 0; p < series->num_pieces; p++)
        train = size_min(train, (size_t)((double)series->pieces[p].times * options->train_share + 1e-6));
    if (train < length + horizon && options->model != MODEL_INFORMER)
        length = train < horizon ? 1 : size_max((train - horizon) / 2, 1);
    size_t patch = (size_t)options->patch_len;
    return stride == 0 ? length : length < patch ? patch : patch + (length - patch) / stride * stride;
}

/* Rows that a window reads: of the baseline seasonal at least a season. facts: NULL for a new run. */
static size_t length_of(const struct forecast_options *options, const struct task_facts *facts,
                        const struct series *series)
{
    size_t stride = stride_of(options), length = (size_t)options->seq_len;
    if (length == 0 && facts == NULL)
        length = usual_length(options, series);
    else if (length == 0) /* as the run has found it */
        length = options->model == MODEL_INFORMER ? USUAL_LENGTH
                 : stride == 0                    ? facts->row_width
                               : (facts->max_len - 1) * stride + (size_t)options->patch_len;
    return options->model == MODEL_SEASONAL ? size_max(length, season_of(options, &series->calendar))
                                            : length;
}

static size_t outputs_of(const struct forecast_options *options, size_t columns)
{
    return is_joint(options) && options->features != FEATURES_MS ? columns : 1;
}

/* Rows per season of level seasonal. */
static hashattn_status find_season(struct host *host, const struct forecast_options *options,
                                   const struct calendar *calendar, size_t length, size_t *season)
{
    *season = season_of(options, calendar);
    FAIL_IF(*season == 0, host, HASHATTN_BAD_FILE,
            "the dates tell no season: neither a day nor a year is a whole number of rows; set `season`");
    FAIL_IF(*season > length, host, HASHATTN_INVALID,
            "a season has %zu rows, `seq_len` has %zu; set `season` or `seq_len`", *season, length);
    return HASHATTN_OK;
}

/* The windows of these options, without values and places. */
static hashattn_status windows_of(struct host *host, const struct forecast_options *options,
                                  const struct task_facts *facts, const struct series *series,
                                  struct windows *windows)
{
    bool encoder = options->model == MODEL_ENCODER, informer = options->model == MODEL_INFORMER;
    size_t length = length_of(options, facts, series),
           patch = informer  ? 1
                   : encoder ? (size_t)options->patch_len
                             : length,
           stride = encoder ? stride_of(options) : patch;
    int level = options->model == MODEL_LAST        ? LEVEL_LAST
                : options->model == MODEL_SEASONAL  ? LEVEL_SEASONAL
                : options->level != (int)LEVEL_AUTO ? options->level
                : options->model == MODEL_DLINEAR   ? LEVEL_NONE
                : informer                          ? LEVEL_NONE
                                                    : LEVEL_LAST;
    size_t columns = series->columns, outputs = outputs_of(options, columns);
    FAIL_IF(informer && (size_t)options->label_len > length, host, HASHATTN_INVALID,
            "`label_len` is %lld, `seq_len` %zu; the decoder reads rows that the encoder reads",
            (long long)options->label_len, length);
    FAIL_IF(
        patch > length || (length - patch) % stride != 0, host, HASHATTN_INVALID,
        "patches of %zu rows every %zu rows do not end with the %zu rows of `seq_len`; change `patch_len`, "
        "`stride` or `seq_len`",
        patch, stride, length);
    FAIL_IF(informer && series->num_pieces > 1, host, HASHATTN_INVALID,
            "model informer reads one series, the data have %zu", series->num_pieces);
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
    return level == LEVEL_SEASONAL ? find_season(host, options, &series->calendar, length, &windows->season)
                                   : HASHATTN_OK;
}

static struct series_cut cut_of(const struct forecast_options *options, bool recorded)
{
    return (struct series_cut){.months = options->split_by == CUT_MONTHS,
                               .train_share = options->train_share,
                               .test_share = options->test_share,
                               .recorded = recorded};
}

static hashattn_status load_dated(struct host *host, const void *task_options, const struct task_facts *facts,
                                  const char *data, enum split split, struct dataset *dataset,
                                  struct calendar *calendar, size_t *first)
{
    const struct forecast_options *options = task_options;
    struct series series;
    char path[FILE_PATH];
    *dataset = (struct dataset){0};
    FAIL_IF(facts->num_columns == 0, host, HASHATTN_INVALID, "the facts of the run have no columns");
    TRY(read_series(host, options, facts, data, &series, path));
    struct windows like;
    const struct series_cut cut = cut_of(options, true);
    hashattn_status status = windows_of(host, options, facts, &series, &like);
    if (status == HASHATTN_OK)
        status = series_windows(host, &series, &cut, &like, facts, split, dataset, first);
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

static hashattn_status take_series(struct host *host, const struct forecast_options *options,
                                   const struct windows *windows, struct series *series,
                                   struct task_facts *facts)
{
    const struct series_cut cut = cut_of(options, false);
    struct series_part parts[SPLIT_COUNT];
    void *block;
    size_t pieces = series->num_pieces, count = size_product(pieces, series->columns);
    size_t season = season_of(options, &series->calendar);
    TRY(memory_new_zeroed(host, count, sizeof *facts->columns, "columns", &block));
    facts->columns = block;
    facts->num_columns = count;
    for (size_t p = 0; p < pieces; p++) {
        TRY(series_parts(host, series, p, &cut, windows, parts));
        TRY(series_statistics(host, series, p, parts[SPLIT_TRAIN].end, size_max(season, 1),
                              facts->columns + p * series->columns));
    }
    if (series->pieces[0].name == NULL)
        return HASHATTN_OK;
    TRY(memory_new_zeroed(host, pieces, sizeof *facts->series, "series", &block));
    facts->series = block;
    facts->num_series = pieces;
    for (size_t p = 0; p < pieces; p++) {
        facts->series[p] = series->pieces[p].name;
        series->pieces[p].name = NULL;
    }
    return HASHATTN_OK;
}

static hashattn_status read_quantiles(struct host *host, const char *text, struct quantiles *quantiles)
{
    double before = 0;
    quantiles->count = 0;
    for (const char *at = text; *at != '\0';) {
        size_t size = strcspn(at, ",");
        double *level = &quantiles->levels[quantiles->count];
        bool good = quantiles->count < MOST_QUANTILES && decimal_read((struct piece){at, size}, level);
        FAIL_IF(!good, host, HASHATTN_INVALID,
                "`quantiles` is '%.60s'; 1 to %d levels are needed, as in 0.1,0.5,0.9", text, MOST_QUANTILES);
        quantiles->count++;
        FAIL_IF(!(*level > before && *level < 1), host, HASHATTN_INVALID,
                "`quantiles` is '%.60s', whose level %zu is %g; levels must ascend, from above 0 to below 1",
                text, quantiles->count, *level);
        before = *level;
        at += size + (at[size] == ',');
    }
    return HASHATTN_OK;
}

static hashattn_status find_facts(struct host *host, const struct forecast_options *options,
                                  const struct quantiles *quantiles, struct series *series,
                                  struct task_facts *facts)
{
    static const char *const objectives[] = {"horizon", "dlinear", "naive", "naive", "decoded"};
    struct windows windows;
    TRY(windows_of(host, options, NULL, series, &windows));
    facts->row_width = windows_row_width(&windows);
    facts->max_len = windows_rows(&windows);
    if (options->model == MODEL_INFORMER) {
        facts->decoder_rows = windows_decoder_rows(&windows);
        facts->decoded_rows = windows.horizon;
        facts->max_len = size_max(facts->max_len, facts->decoder_rows);
    }
    task_facts_add(facts, objectives[options->model], windows.horizon * windows_outputs(&windows), 0);
    facts->objectives[0].quantiles = *quantiles;
    if (quantiles->count > 0)
        strcpy(facts->objectives[0].selects, "loss");
    strcpy(facts->dates.column, series->date_column);
    if (!series->calendar.numbered) {
        calendar_freq(&series->calendar, facts->dates.freq);
        strcpy(facts->dates.format, date_formats[series->calendar.style.format]);
    }
    void *read;
    TRY(memory_new(host, strlen(series->found) + 1, 1, "what was read", &read));
    facts->read = strcpy(read, series->found);
    return take_series(host, options, &windows, series, facts);
}

static hashattn_status facts(struct host *host, const void *task_options, const char *data,
                             struct tokenizer *given, struct task_facts *result)
{
    (void)given; /* rows are not tokens */
    const struct forecast_options *options = task_options;
    struct series series;
    struct quantiles quantiles;
    char path[FILE_PATH];
    *result = (struct task_facts){0};
    struct c_locale locale = c_locale_begin();
    hashattn_status status = read_quantiles(host, options->quantiles, &quantiles);
    c_locale_end(locale);
    TRY(status);
    TRY(read_series(host, options, NULL, data, &series, path));
    status = find_facts(host, options, &quantiles, &series, result);
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
    .unread = "pooling classifier class_weight cutoffs div_value scale_words",
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
