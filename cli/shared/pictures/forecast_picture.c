/* One plot with two curves, written as a file of its own.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/pictures/forecast_picture.h"

#include <stdlib.h>

#include "cli/shared/pictures/plot.h"
#include "cli/shared/tool/outputs.h"
#include "cli/shared/tool/run_open.h"
#include "cli/shared/tool/tool.h"

enum { MOST_POINTS = 800, HORIZONS_READ = 3, TRUTH_LOOK = 7, FORECAST_LOOK = 1 };

/* The points of the last column; x is the number of rows after the last one that was read. */
static void add_points(struct plot *plot, const hashattn_forecast *f)
{
    size_t truth = plot_series_named(plot, "truth", TRUTH_LOOK);
    size_t forecast = plot_series_named(plot, "forecast", FORECAST_LOOK);
    size_t shown = f->num_read < HORIZONS_READ * f->horizon ? f->num_read : HORIZONS_READ * f->horizon;
    size_t last = f->num_columns - 1;
    for (size_t t = f->num_read - shown; t < f->num_read; t++)
        plot_add(plot, truth, (double)t - (double)(f->num_read - 1), f->read[t * f->num_columns + last]);
    for (size_t h = 0; h < f->horizon; h++) {
        if (f->truth != NULL)
            plot_add(plot, truth, (double)(h + 1), f->truth[h * f->num_columns + last]);
        plot_add(plot, forecast, (double)(h + 1), f->values[h * f->num_columns + last]);
    }
}

static void draw(struct forecast_picture *picture, const hashattn_forecast *forecast)
{
    char date[HASHATTN_DATE_TEXT];
    struct plot plot = {.kind = PLOT_LINES};
    const char *column = forecast->columns[forecast->num_columns - 1];
    hashattn_forecast_date(forecast, forecast->num_read, date);
    snprintf(plot.title, sizeof plot.title, "%.60s: forecast of %zu rows from %s on", column,
             forecast->horizon, date);
    plot.x = (struct plot_axis){"time after the last row that was read", "rows", PLOT_LINEAR};
    plot.y = (struct plot_axis){column, "units of the file", PLOT_LINEAR};
    add_points(&plot, forecast);
    FILE *stream = open_memstream(&picture->text, &picture->size);
    picture->no_memory = stream == NULL || plot.no_memory;
    if (stream != NULL) {
        plot_write_svg(stream, &plot, MOST_POINTS);
        picture->no_memory |= ferror(stream) != 0;
        picture->no_memory |= fclose(stream) != 0;
    }
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
    free(picture->text);
    *picture = (struct forecast_picture){.text = NULL};
}

int forecast_picture_check(hashattn_context *context, const char *path)
{
    hashattn_description is = {.struct_size = sizeof is};
    hashattn_context_describe(context, &is);
    return is.rank > 0 ? EXIT_GOOD : outputs_check_file(path);
}

int forecast_picture_save(struct forecast_picture *picture, hashattn_context *context, const char *path)
{
    hashattn_description is = {.struct_size = sizeof is};
    hashattn_file *file = NULL;
    hashattn_context_describe(context, &is);
    if (is.rank > 0)
        return EXIT_GOOD;
    if (picture->no_memory)
        return tool_fail(EXIT_RESOURCE, "no memory for the picture %s", path);
    hashattn_status status = hashattn_file_begin(context, path, &file);
    if (status == HASHATTN_OK)
        status = hashattn_file_write(file, picture->text, picture->size);
    if (status == HASHATTN_OK)
        status = hashattn_file_commit(file);
    else
        hashattn_file_drop(file);
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(context, status);
}

int forecast_picture_of_run(hashattn_context *context, const char *run, const char *path)
{
    hashattn_model *model = NULL;
    hashattn_model_info info = {.struct_size = sizeof info};
    struct forecast_picture picture = {.text = NULL};
    hashattn_status status = run_open(context, run, &model);
    if (status == HASHATTN_OK) {
        hashattn_model_describe(model, &info);
        status = hashattn_model_forecast(model, NULL, "valid", info.seed, forecast_picture_keep, &picture);
    }
    int code = status == HASHATTN_OK ? forecast_picture_save(&picture, context, path)
                                     : tool_fail_status(context, status);
    forecast_picture_free(&picture);
    hashattn_model_free(model);
    return code;
}
