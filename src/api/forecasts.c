/* Forecasts of a trained model.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "api/floating.h"
#include "api/models.h"
#include "base/memory.h"
#include "hashattn/forecast.h"
#include "train/forecasts/forecast_visit.h"

/* Passes windows to the public callback. */
struct bridge {
    struct hashattn_model *model;
    hashattn_forecast_callback *callback;
    void *user;
    const char **names; /* of the columns of the facts */
    double *deviations; /* of the same, then their scales */
    const double *scales;
    char *const *series;
    char date_column[OPTION_TEXT_SIZE];
};

/* As of hashattn_model_evaluate. */
static hashattn_evaluation evaluation_of(struct hashattn_model *model, const struct evaluation *result)
{
    return (hashattn_evaluation){.struct_size = sizeof(hashattn_evaluation),
                                 .metrics = metrics_give_evaluation(model->net, result, &model->metrics),
                                 .examples = result->examples,
                                 .num_cut = result->num_cut,
                                 .seconds = result->seconds,
                                 .tokens_per_second = result->tokens_per_second,
                                 .tokens = result->tokens,
                                 .num_unknown = result->num_unknown};
}

static bool tell(void *user, const struct forecast_window *window, const struct evaluation *result)
{
    const struct bridge *bridge = user;
    const hashattn_evaluation evaluation = evaluation_of(bridge->model, result);
    const hashattn_forecast forecast = {
        .struct_size = sizeof forecast,
        .window = window->index,
        .num_windows = window->count,
        .num_columns = window->columns,
        .num_read = window->length,
        .horizon = window->horizon,
        .columns = bridge->names + window->first_column,
        .read = window->read,
        .values = window->forecast,
        .truth = window->truth,
        .dates = window,
        .date_column = bridge->date_column,
        .deviations = bridge->deviations + window->first_column,
        .quantiles = bridge->model->config.facts.objectives[0].quantiles.levels,
        .quantile_values = window->quantiles,
        .num_quantiles = window->num_quantiles,
        .evaluation = window->truth == NULL ? NULL : &evaluation,
        .scales = bridge->scales + window->first_column,
        .series = bridge->series == NULL ? NULL : bridge->series[window->series]};
    return bridge->callback(bridge->user, &forecast) != 0;
}

int hashattn_forecast_date(const hashattn_forecast *forecast, size_t step, char *text)
{
    _Static_assert((int)HASHATTN_DATE_TEXT == (int)DATE_TEXT, "the public room for a date is that of io");
    const struct forecast_window *window = forecast->dates;
    return calendar_date(window->calendar, window->row + step, text);
}

const char *hashattn_context_note(const hashattn_context *context, int *repaired)
{
    if (repaired != NULL)
        *repaired = context != NULL && context->host.repaired;
    return context == NULL ? "" : context->host.note;
}

static hashattn_status bridge_fill(struct host *host, const struct run_config *config, struct bridge *bridge)
{
    const struct option_row *date = option_find(config->task->options, "date_column");
    const struct task_facts *facts = &config->facts;
    void *block;
    snprintf(bridge->date_column, sizeof bridge->date_column, "%s", facts->dates.column);
    if (date != NULL && facts->dates.column[0] == '\0') /* a run of an earlier version */
        option_text(date, config->task_options, bridge->date_column, sizeof bridge->date_column);
    TRY(memory_new(host, facts->num_columns, sizeof *bridge->names, "names of columns", &block));
    bridge->names = block;
    TRY(memory_new(host, size_product(2, facts->num_columns), sizeof *bridge->deviations,
                   "deviations of columns", &block));
    bridge->deviations = block;
    bridge->scales = bridge->deviations + facts->num_columns;
    bridge->series = facts->series;
    for (size_t i = 0; i < facts->num_columns; i++) {
        bridge->names[i] = facts->columns[i].name;
        bridge->deviations[i] = facts->columns[i].deviation;
        bridge->deviations[facts->num_columns + i] = facts->columns[i].scale;
    }
    return HASHATTN_OK;
}

hashattn_status hashattn_model_forecast(hashattn_model *model, const char *data, const char *split,
                                        uint64_t seed, hashattn_forecast_callback *callback, void *user)
{
    FLOATING_DEFAULT;
    if (model == NULL)
        return HASHATTN_INVALID; /* no context for a message */
    struct host *host = &model->context->host;
    const struct run_config *config = &model->config;
    enum split which = SPLIT_COUNT;
    struct bridge bridge = {.model = model, .callback = callback, .user = user};
    const struct train_setup setup = model_setup(model);
    FAIL_IF(callback == NULL, host, HASHATTN_INVALID, "callback is NULL");
    if (split != NULL)
        TRY(model_split(host, split, &which));
    TRY(run_config_data(host, config, &data));
    hashattn_status status = model_check_ranks(model, seed);
    if (status == HASHATTN_OK)
        status = bridge_fill(host, config, &bridge);
    if (status == HASHATTN_OK)
        status = evaluate_open(host, &setup, model->net, model->values, &model->session);
    if (status == HASHATTN_OK)
        status = forecast_visit(host, &setup, config, &model->session, data, which, seed, tell, &bridge);
    memory_free(host, (void *)bridge.names);
    memory_free(host, bridge.deviations);
    return status;
}
