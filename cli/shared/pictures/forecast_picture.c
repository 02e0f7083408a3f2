/* One plot, written as a file of its own.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/pictures/forecast_picture.h"

#include <stdlib.h>
#include <string.h>

#include "cli/shared/pictures/plot.h"
#include "cli/shared/pictures/plot_png.h"
#include "cli/shared/tool/outputs.h"
#include "cli/shared/tool/run_open.h"
#include "cli/shared/tool/tool.h"

/* Letters of the names in the title, and of the one along the axis, that fit the picture. */
enum { TITLE_LETTERS = 20, AXIS_LETTERS = 20, CUT_NAME = 128 };
enum { MOST_POINTS = 800, HORIZONS_READ = 3, TRUTH_LOOK = 7, FORECAST_LOOK = 1, LOW_LOOK = 0, HIGH_LOOK = 2 };

/* The column that is drawn; false, with the names that there are: there is none. */
static bool find_column(struct forecast_picture *picture, const hashattn_forecast *f, size_t *column)
{
    size_t used = 0;
    for (*column = 0; picture->column != NULL && *column < f->num_columns; ++*column)
        if (strcmp(f->columns[*column], picture->column) == 0)
            return true;
    *column = f->num_columns - 1;
    for (size_t i = 0; picture->column != NULL && i < f->num_columns && used < sizeof picture->columns; i++)
        used += (size_t)snprintf(picture->columns + used, sizeof picture->columns - used, "%s%s",
                                 i == 0 ? "" : ", ", f->columns[i]);
    return picture->column == NULL;
}

/* The points of a column; x is the number of rows after the last one that was read. */
static void add_points(struct plot *plot, const hashattn_forecast *f, size_t column)
{
    size_t truth = plot_series_named(plot, "truth", TRUTH_LOOK);
    size_t forecast = plot_series_named(plot, "forecast", FORECAST_LOOK);
    size_t shown = f->num_read < HORIZONS_READ * f->horizon ? f->num_read : HORIZONS_READ * f->horizon;
    for (size_t t = f->num_read - shown; t < f->num_read; t++)
        plot_add(plot, truth, (double)t - (double)(f->num_read - 1), f->read[t * f->num_columns + column]);
    for (size_t h = 0; h < f->horizon; h++) {
        if (f->truth != NULL)
            plot_add(plot, truth, (double)(h + 1), f->truth[h * f->num_columns + column]);
        plot_add(plot, forecast, (double)(h + 1), f->values[h * f->num_columns + column]);
    }
    for (size_t q = 0; q < f->num_quantiles && f->num_quantiles > 1; q += f->num_quantiles - 1) {
        char name[40];
        snprintf(name, sizeof name, "quantile %g", f->quantiles[q]);
        size_t quantile = plot_series_named(plot, name, q == 0 ? LOW_LOOK : HIGH_LOOK);
        for (size_t h = 0; h < f->horizon; h++)
            plot_add(plot, quantile, (double)(h + 1),
                     f->quantile_values[(h * f->num_columns + column) * f->num_quantiles + q]);
    }
}

/* Copies at most this many letters of a name; what is cut off becomes three points. */
static const char *cut_name(const char *name, size_t letters, char cut[CUT_NAME])
{
    size_t size = 0, kept = 0, count = 0;
    for (; name[size] != '\0' && size + 4 < CUT_NAME; size++) {
        count += ((unsigned char)name[size] & 0xc0) != 0x80; /* a letter of UTF-8 begins */
        if (count > letters)
            break;
        kept = count + 2 < letters ? size + 1 : kept;
    }
    if (name[size] == '\0')
        kept = size;
    snprintf(cut, CUT_NAME, "%.*s%s", (int)kept, name, name[kept] == '\0' ? "" : "...");
    return cut;
}

static bool is_png(const char *path)
{
    size_t size = strlen(path);
    return size > 4 && strcmp(path + size - 4, ".png") == 0;
}

static void draw(struct forecast_picture *picture, const hashattn_forecast *forecast)
{
    char date[HASHATTN_DATE_TEXT], series[CUT_NAME], name[CUT_NAME];
    struct plot plot = {.kind = PLOT_LINES};
    size_t column, letters = forecast->series == NULL ? TITLE_LETTERS : TITLE_LETTERS / 2;
    if (!find_column(picture, forecast, &column))
        return;
    hashattn_forecast_date(forecast, forecast->num_read, date);
    snprintf(plot.title, sizeof plot.title, "%s%s%s: forecast of %zu row%s from %s on",
             forecast->series == NULL ? "" : cut_name(forecast->series, letters, series),
             forecast->series == NULL ? "" : ", ", cut_name(forecast->columns[column], letters, name),
             forecast->horizon, forecast->horizon == 1 ? "" : "s", date);
    plot.x = (struct plot_axis){"time after the last row that was read", "rows", PLOT_LINEAR};
    plot.y = (struct plot_axis){cut_name(forecast->columns[column], AXIS_LETTERS, name), "units of the file",
                                PLOT_LINEAR};
    add_points(&plot, forecast, column);
    FILE *stream = open_memstream(&picture->bytes, &picture->size);
    picture->no_memory = stream == NULL;
    if (stream != NULL) {
        if (is_png(picture->path))
            plot_write_png(stream, &plot, MOST_POINTS);
        else
            plot_write_svg(stream, &plot, MOST_POINTS);
        picture->no_memory |= ferror(stream) != 0;
        picture->no_memory |= fclose(stream) != 0;
    }
    picture->no_memory |= plot.no_memory;
    plot_free(&plot);
}

int forecast_picture_keep(void *user, const hashattn_forecast *forecast)
{
    if (forecast->window + 1 == forecast->num_windows)
        draw(user, forecast);
    return 0;
}

void forecast_picture_free(struct forecast_picture *picture)
{
    free(picture->bytes);
    *picture = (struct forecast_picture){.bytes = NULL};
}

int forecast_picture_check(hashattn_context *context, const char *path, const char *run, const char *data,
                           const char *out)
{
    hashattn_description is = {.struct_size = sizeof is};
    hashattn_context_describe(context, &is);
    if (is.rank > 0)
        return EXIT_GOOD;
    int code = outputs_check_inputs("draw", path, &data, 1);
    if (code == EXIT_GOOD)
        code = outputs_check_model("draw", path, run);
    if (code == EXIT_GOOD)
        code = outputs_check_two("draw", path, "out", out);
    return code == EXIT_GOOD ? outputs_check_file(path) : code;
}

int forecast_picture_save(struct forecast_picture *picture, hashattn_context *context)
{
    hashattn_description is = {.struct_size = sizeof is};
    hashattn_file *file = NULL;
    hashattn_context_describe(context, &is);
    if (is.rank > 0)
        return EXIT_GOOD;
    if (picture->columns[0] != '\0')
        return tool_fail(EXIT_USAGE, "--column: no column '%.60s' is forecast; there are: %s",
                         picture->column, picture->columns);
    if (picture->no_memory)
        return tool_fail(EXIT_RESOURCE, "no memory for the picture %s", picture->path);
    hashattn_status status = hashattn_file_begin(context, picture->path, &file);
    if (status == HASHATTN_OK)
        status = hashattn_file_write(file, picture->bytes, picture->size);
    if (status == HASHATTN_OK)
        status = hashattn_file_commit(file);
    else
        hashattn_file_drop(file);
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(context, status);
}

int forecast_picture_of_run(hashattn_context *context, const char *run, const char *path, const char *column)
{
    hashattn_model *model = NULL;
    hashattn_model_info info = {.struct_size = sizeof info};
    struct forecast_picture picture = {.path = path, .column = column};
    hashattn_status status = run_open(context, run, &model);
    if (status == HASHATTN_OK) {
        hashattn_model_describe(model, &info);
        status = hashattn_model_forecast(model, NULL, "valid", info.seed, forecast_picture_keep, &picture);
    }
    int code =
        status == HASHATTN_OK ? forecast_picture_save(&picture, context) : tool_fail_status(context, status);
    forecast_picture_free(&picture);
    hashattn_model_free(model);
    return code;
}
