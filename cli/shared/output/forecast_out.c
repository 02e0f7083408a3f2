/* Rows of CSV or JSON for each time of a window; sums of errors for each column.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/output/forecast_out.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/shared/output/csv_out.h"
#include "cli/shared/tool/tool.h"

enum { DIGITS = 7, MOST_DIGITS = 17 };

/* Seven digits of the deviation: fewer would be lost, more are noise. So 1234567.89 keeps its cents in a
   column that varies by 1. */
static int digits_of(double value, double deviation)
{
    double larger = log10(fabs(value) / deviation);
    return !(larger >= 1) ? DIGITS : larger > MOST_DIGITS - DIGITS ? MOST_DIGITS : DIGITS + (int)larger;
}

enum { NAME = 400 };

/* "load_q0.9" */
static void quantile_name(const hashattn_forecast *forecast, size_t column, size_t quantile, char name[NAME])
{
    snprintf(name, NAME, "%.360s_q%g", forecast->columns[column], forecast->quantiles[quantile]);
}

static const char *date_name(const hashattn_forecast *forecast)
{
    return strcmp(forecast->date_column, "none") == 0 ? "row" : forecast->date_column;
}

static void csv_header(FILE *to, const hashattn_forecast *forecast)
{
    char name[NAME];
    if (forecast->series != NULL)
        fputs("series,", to);
    csv_out_field(to, date_name(forecast));
    for (size_t c = 0; c < forecast->num_columns; c++) {
        putc(',', to);
        csv_out_field(to, forecast->columns[c]);
        for (size_t q = 0; q < forecast->num_quantiles; q++) {
            putc(',', to);
            quantile_name(forecast, c, q, name);
            csv_out_field(to, name);
        }
    }
    putc('\n', to);
}

void forecast_csv(FILE *to, const hashattn_forecast *forecast)
{
    char date[HASHATTN_DATE_TEXT];
    if (forecast->window == 0)
        csv_header(to, forecast);
    for (size_t h = 0; h < forecast->horizon; h++) {
        hashattn_forecast_date(forecast, forecast->num_read + h, date);
        if (forecast->series != NULL) {
            csv_out_field(to, forecast->series);
            putc(',', to);
        }
        csv_out_field(to, date);
        for (size_t c = 0; c < forecast->num_columns; c++) {
            size_t place = h * forecast->num_columns + c;
            double deviation = forecast->deviations[c], value = forecast->values[place];
            fprintf(to, ",%.*g", digits_of(value, deviation), value);
            for (size_t q = 0; q < forecast->num_quantiles; q++) {
                value = forecast->quantile_values[place * forecast->num_quantiles + q];
                fprintf(to, ",%.*g", digits_of(value, deviation), value);
            }
        }
        putc('\n', to);
    }
}

/* |forecast - truth| relative to both. */
static double symmetric(double forecast, double truth)
{
    double sizes = fabs(forecast) + fabs(truth);
    return sizes > 0 ? 200 * fabs(forecast - truth) / sizes : 0;
}

void forecast_json(FILE *to, const hashattn_forecast *forecast)
{
    char date[HASHATTN_DATE_TEXT], name[NAME];
    for (size_t h = 0; h < forecast->horizon; h++) {
        struct json_out json = json_out_to(to);
        json_out_object(&json, NULL);
        if (forecast->series != NULL)
            json_out_text(&json, "series", forecast->series);
        hashattn_forecast_date(forecast, forecast->num_read + h, date);
        json_out_text(&json, date_name(forecast), date);
        for (size_t c = 0; c < forecast->num_columns; c++) {
            size_t place = h * forecast->num_columns + c;
            json_out_number(&json, forecast->columns[c], forecast->values[place]);
            for (size_t q = 0; q < forecast->num_quantiles; q++) {
                quantile_name(forecast, c, q, name);
                json_out_number(&json, name, forecast->quantile_values[place * forecast->num_quantiles + q]);
            }
        }
        json_out_end_object(&json);
    }
}

static bool errors_begin(struct forecast_errors *errors, const hashattn_forecast *forecast)
{
    errors->columns = calloc(forecast->num_columns, sizeof *errors->columns);
    if (errors->columns == NULL)
        return false;
    errors->count = forecast->num_columns;
    errors->quantiles = forecast->num_quantiles > 1;
    for (size_t c = 0; c < errors->count; c++) {
        errors->columns[c].name = strdup(forecast->columns[c]);
        if (errors->columns[c].name == NULL)
            return false;
    }
    return true;
}

int forecast_errors_add(void *user, const hashattn_forecast *forecast)
{
    struct forecast_errors *errors = user;
    if (forecast->truth == NULL)
        return 0;
    if (errors->count == 0 && !errors_begin(errors, forecast))
        return errors->no_memory = true;
    for (size_t i = 0; i < forecast->horizon * errors->count; i++) {
        struct column_errors *column = &errors->columns[i % errors->count];
        double off = forecast->values[i] - forecast->truth[i];
        column->squares += off * off;
        column->sizes += fabs(off);
        column->shares += symmetric(forecast->values[i], forecast->truth[i]);
        column->scaled += fabs(off) / forecast->scales[i % errors->count]; /* no scale: not finite */
        if (errors->quantiles) {
            const double *levels = forecast->quantile_values + i * forecast->num_quantiles;
            column->covered +=
                levels[0] <= forecast->truth[i] && forecast->truth[i] <= levels[forecast->num_quantiles - 1];
        }
        column->values++;
    }
    return 0;
}

void forecast_errors_words(const struct forecast_errors *errors)
{
    printf("%-24s %12s %12s %9s %9s%s\n", "in the units of the file", "mse", "mae", "sMAPE %", "MASE",
           errors->quantiles ? "  coverage" : "");
    for (size_t c = 0; c < errors->count; c++) {
        const struct column_errors *column = &errors->columns[c];
        double n = column->values;
        tool_words(stdout, "%-24s %12.6g %12.6g %9.4g", column->name, column->squares / n, column->sizes / n,
                   column->shares / n);
        if (isfinite(column->scaled))
            printf(" %9.4g", column->scaled / n);
        else
            printf(" %9s", "-");
        if (errors->quantiles)
            printf(" %9.4f", column->covered / n);
        putchar('\n');
    }
}

void forecast_errors_json(const struct forecast_errors *errors, struct json_out *json)
{
    json_out_object(json, "columns");
    for (size_t c = 0; c < errors->count; c++) {
        const struct column_errors *column = &errors->columns[c];
        json_out_object(json, column->name);
        json_out_number(json, "mse", column->squares / column->values);
        json_out_number(json, "mae", column->sizes / column->values);
        json_out_number(json, "smape", column->shares / column->values);
        json_out_number(json, "mase", column->scaled / column->values);
        if (errors->quantiles)
            json_out_number(json, "coverage", column->covered / column->values);
        json_out_end_object(json);
    }
    json_out_end_object(json);
}

void forecast_errors_free(struct forecast_errors *errors)
{
    for (size_t c = 0; c < errors->count; c++)
        free(errors->columns[c].name);
    free(errors->columns);
    *errors = (struct forecast_errors){.count = 0};
}
