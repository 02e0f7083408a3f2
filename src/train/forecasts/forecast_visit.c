/* Forecasts are restored in place: the level of the window is added, then mean and deviation of the column.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/forecasts/forecast_visit.h"

#include <math.h>

#include "base/memory.h"
#include "comm/comm.h"
#include "train/run_ranks.h"

/* A pass over the windows of a data set, and what it allocates. */
struct visiting {
    struct host *host;
    const struct run_config *config;
    struct dataset dataset;
    struct calendar calendar;
    size_t first;   /* row of the calendar at time 0 of the windows */
    float *outputs; /* (examples, horizon * outputs) */
    double *read;   /* of one window: what is read, the truth and the forecast */
    double *truth, *forecast, *quantiles;
    size_t levels, point; /* quantiles of a value, at least 1, and the one that is the forecast */
    struct evaluation result;
};

/* The quantile nearest to 0.5. */
static void find_levels(struct visiting *v)
{
    const struct task_objective *of = &v->config->facts.objectives[0];
    v->levels = size_max(of->quantiles.count, 1);
    v->point = quantiles_middle(&of->quantiles);
}

static hashattn_status visiting_new(struct visiting *v)
{
    const struct windows *w = &v->dataset.windows;
    size_t columns = w->joint ? w->num_targets : w->columns;
    size_t read = size_product(w->length, columns), predicted = size_product(w->horizon, columns);
    void *block;
    find_levels(v);
    size_t width = size_product(v->dataset.targets[0].width, v->levels);
    TRY(memory_new(v->host, size_product(v->dataset.count, width), sizeof(float), "forecasts", &block));
    v->outputs = block;
    TRY(memory_new(v->host, size_sum(read, size_product(2 + v->levels, predicted)), sizeof(double),
                   "a window", &block));
    v->read = block;
    v->truth = v->read + read;
    v->forecast = v->truth + predicted;
    v->quantiles = v->forecast + predicted;
    return HASHATTN_OK;
}

static void visiting_free(struct visiting *v)
{
    memory_free(v->host, v->read);
    memory_free(v->host, v->outputs);
    dataset_free(v->host, &v->dataset);
}

static double in_units(const struct visiting *v, size_t column, float value)
{
    const struct task_column *of = &v->config->facts.columns[column];
    return (double)value * of->deviation + of->mean;
}

static size_t series_of(const struct windows *w, size_t window)
{
    return w->origins == NULL ? 0 : w->origins[window].series;
}

/* The quantiles of one value in units; crossed ones are put in order (Chernozhukov et al. 2010). */
static void fill_quantiles(struct visiting *v, size_t column, const float *values, double *quantiles)
{
    for (size_t q = 0; q < v->levels; q++) {
        double value = in_units(v, column, values[q]);
        size_t at = q;
        for (; at > 0 && quantiles[at - 1] > value; at--)
            quantiles[at] = quantiles[at - 1];
        quantiles[at] = value;
    }
}

/* Writes forecast and truth of one example into the arrays of its window, and the values that the window
   reads of its columns. known: the truth is in the series. */
static void fill_example(struct visiting *v, size_t example, size_t columns, bool known)
{
    const struct windows *w = &v->dataset.windows;
    struct window_place at = windows_place(w, example);
    size_t outputs = windows_outputs(w), first = at.column - (w->joint ? w->target : 0);
    size_t statistics = series_of(w, at.window) * w->columns + at.column;
    float *forecast = v->outputs + example * w->horizon * outputs * v->levels;
    windows_restore(w, example, v->levels, forecast);
    for (size_t k = 0; k < outputs; k++) {
        const float *x = w->values + (at.column + k) * w->times + windows_begin(w, at.window);
        for (size_t t = 0; t < w->length; t++)
            v->read[t * columns + first + k] = in_units(v, statistics + k, x[t]);
        for (size_t h = 0; h < w->horizon; h++) {
            size_t place = h * columns + first + k;
            fill_quantiles(v, statistics + k, forecast + (h * outputs + k) * v->levels,
                           v->quantiles + place * v->levels);
            v->forecast[place] = v->quantiles[place * v->levels + v->point];
            v->truth[place] = known ? in_units(v, statistics + k, x[w->length + h]) : 0;
        }
    }
}

static hashattn_status visit_all(struct visiting *v, bool known, forecast_visitor *visit, void *user)
{
    const struct windows *w = &v->dataset.windows;
    size_t columns = w->joint ? w->num_targets : w->columns;
    size_t each = windows_examples(w) / w->count;
    for (size_t i = 0; i < w->count; i++) {
        for (size_t k = 0; k < each; k++)
            fill_example(v, i * each + k, columns, known);
        const struct forecast_window window = {
            .index = i,
            .count = w->count,
            .columns = columns,
            .length = w->length,
            .horizon = w->horizon,
            .series = series_of(w, i),
            .first_column = series_of(w, i) * w->columns + (w->joint ? w->target : 0),
            .read = v->read,
            .forecast = v->forecast,
            .truth = known ? v->truth : NULL,
            .quantiles = v->quantiles,
            .num_quantiles = v->config->facts.objectives[0].quantiles.count,
            .calendar = &v->calendar,
            .row = w->origins == NULL ? v->first + w->first + i : w->origins[i].row};
        FAIL_IF(visit(user, &window, &v->result), v->host, HASHATTN_INTERRUPTED,
                "stopped after window %zu of %zu", i + 1, w->count);
    }
    return HASHATTN_OK;
}

hashattn_status forecast_visit(struct host *host, const struct train_setup *setup,
                               const struct run_config *config, struct session *session, const char *data,
                               enum split split, uint64_t seed, forecast_visitor *visit, void *user)
{
    struct visiting v = {.host = host, .config = config};
    FAIL_IF(config->task->load_dated == NULL, host, HASHATTN_REFUSED, "%s does not forecast",
            config->task->name);
    hashattn_status status =
        comm_agree(host, setup->comm,
                   config->task->load_dated(host, config->task_options, &config->facts, data, split,
                                            &v.dataset, &v.calendar, &v.first));
    if (status == HASHATTN_OK)
        status = comm_agree(host, setup->comm, visiting_new(&v));
    if (status == HASHATTN_OK)
        status = ranks_check_set(host, setup->comm, &v.dataset);
    if (status == HASHATTN_OK)
        status = evaluate(host, setup, session, &v.dataset, (size_t)config->training.batch, seed, v.outputs,
                          &v.result);
    if (status == HASHATTN_OK)
        status = visit_all(&v, split != SPLIT_COUNT, visit, user);
    visiting_free(&v);
    return status;
}
