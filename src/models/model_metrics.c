/* The metrics of a model, from sums over targets, and the baselines to compare them with.
   SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "models/model_parts.h"

/* ---- names -------------------------------------------------------------------------------------------- */

static void name_of(const struct model *model, const struct objective *objective, const char *own,
                    char name[METRIC_NAME])
{
    if (model->num_terms > 1)
        snprintf(name, METRIC_NAME, "%.20s.%.24s", objective->name, own);
    else
        snprintf(name, METRIC_NAME, "%.47s", own);
}

/* Overall metrics are those of the objective that predicts. */
static const struct overall_metric *overall_of(const struct model *model, size_t index)
{
    static const struct overall_metric none[] = {{.name = NULL}};
    const struct overall_metric *overall = model->terms[index].objective->overall;
    if (overall == NULL || index != model_predicting(model))
        return none;
    size_t most = overall[0].most_outputs; /* an objective has the same for all */
    return most > 0 && model->terms[index].objective->outputs(model->terms[index].self) > most ? none
                                                                                               : overall;
}

/* True if the config names the metric that chooses the best model. */
static bool is_chosen(const struct model *model)
{
    return model->num_terms > 0 && model->config.objectives[0].selects[0] != '\0';
}

static void list_metric(struct model *model, size_t index, const char *name, struct model_metric metric)
{
    bool chosen = index == 0 && is_chosen(model);
    if (index > 0)
        metric.selects = metric.selects == 1 ? 3 : 0;
    else if (chosen && strcmp(model->config.objectives[0].selects, name) == 0)
        metric.selects = 1;
    else if (chosen && metric.selects == 1)
        metric.selects = 0;
    name_of(model, model->terms[index].objective, name, metric.name);
    model->metrics[model->num_metrics++] = metric;
}

static void list_all(struct model *model)
{
    for (size_t i = 0; i < model->num_terms; i++) {
        const struct loss_term *term = &model->terms[i];
        for (const struct metric *m = term->objective->metrics; m->name != NULL; m++)
            if (!isnan(m->value(term->self, NULL)))
                list_metric(
                    model, i, m->name,
                    (struct model_metric){.more_is_better = m->more_is_better, .selects = m->selects});
        for (const struct overall_metric *m = overall_of(model, i); m->name != NULL; m++)
            list_metric(model, i, m->name,
                        (struct model_metric){.more_is_better = m->more_is_better, .overall = true});
    }
    for (size_t i = 0; i < model->num_own; i++) {
        struct model_metric *metric = &model->metrics[model->num_metrics++];
        metric->training_only = true;
        snprintf(metric->name, METRIC_NAME, "%.30s.own_loss", model->own[i].mechanism->name);
    }
}

static hashattn_status check_chosen(struct host *host, const struct model *model)
{
    for (size_t i = 0; i < model->num_metrics; i++)
        if (!is_chosen(model) || model->metrics[i].selects == 1)
            return HASHATTN_OK;
    char names[200] = "";
    for (size_t i = 0, used = 0; i < model->num_metrics && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i == 0 ? "" : ", ",
                                 model->metrics[i].name);
    FAIL_IF(is_chosen(model), host, HASHATTN_INVALID,
            "model: %s has no metric '%.60s' that could choose the best model; there are: %s",
            model->terms[0].objective->name, model->config.objectives[0].selects, names);
    return HASHATTN_OK;
}

hashattn_status model_list_metrics(struct host *host, struct model *model)
{
    list_all(model);
    return check_chosen(host, model);
}

/* ---- metrics ------------------------------------------------------------------------------------------ */

size_t model_num_metrics(const struct model *model)
{
    return model->num_metrics;
}

const struct model_metric *model_metric(const struct model *model, size_t index)
{
    assert(index < model->num_metrics);
    return &model->metrics[index];
}

size_t model_num_sums(const struct model *model)
{
    size_t count = 2 * model->num_own;
    for (size_t i = 0; i < model->num_terms; i++)
        count += objective_sums(model->terms[i].objective);
    return count;
}

void model_sum_name(const struct model *model, size_t index, char name[METRIC_NAME])
{
    for (size_t i = 0; i < model->num_terms; i++) {
        const struct objective *objective = model->terms[i].objective;
        size_t count = objective_sums(objective);
        if (index < count) {
            name_of(model, objective, objective->sums[index], name);
            return;
        }
        index -= count;
    }
    assert(index < 2 * model->num_own);
    snprintf(name, METRIC_NAME, "%.30s.%s", model->own[index / 2].mechanism->name,
             index % 2 == 0 ? "own_loss" : "count");
}

void model_metrics(const struct model *model, const double *sums, double *values)
{
    for (size_t i = 0; i < model->num_terms; i++) {
        const struct loss_term *term = &model->terms[i];
        for (const struct metric *m = term->objective->metrics; m->name != NULL; m++)
            if (!isnan(m->value(term->self, NULL)))
                *values++ = m->value(term->self, sums);
        for (const struct overall_metric *m = overall_of(model, i); m->name != NULL; m++)
            *values++ = NAN;
        sums += objective_sums(term->objective);
    }
    for (size_t i = 0; i < model->num_own; i++)
        *values++ = sums[2 * i + 1] == 0 ? NAN : sums[2 * i] / sums[2 * i + 1];
}

size_t model_num_overall(const struct model *model)
{
    size_t count = 0;
    for (size_t i = 0; i < model->num_metrics; i++)
        count += model->metrics[i].overall;
    return count;
}

hashattn_status model_overall(struct host *host, const struct model *model, const struct targets *targets,
                              const float *outputs, size_t n, double *values)
{
    size_t index = model_predicting(model), at = 0;
    if (index == model->num_terms)
        return HASHATTN_OK;
    const struct overall_metric *m = overall_of(model, index);
    for (; m->name != NULL; m++, at++) {
        while (!model->metrics[at].overall)
            at++;
        TRY(m->value(host, model->terms[index].self, &targets[index], outputs, n, &values[at]));
    }
    return HASHATTN_OK;
}

bool model_is_better(const struct model *model, const double *values, const double *best)
{
    for (int rank = 1; rank <= 2; rank++)
        for (size_t i = 0; i < model->num_metrics; i++) {
            const struct model_metric *metric = &model->metrics[i];
            if (metric->selects != rank || values[i] == best[i])
                continue;
            return metric->more_is_better ? values[i] > best[i] : values[i] < best[i];
        }
    return false;
}

/* ---- baselines ---------------------------------------------------------------------------------------- */

/* The next term from `index` on that has a baseline; num_terms if there is none. */
static size_t next_baseline(const struct model *model, size_t index)
{
    while (index < model->num_terms && model->terms[index].objective->baseline == NULL)
        index++;
    return index;
}

size_t model_num_baselines(const struct model *model)
{
    size_t count = 0;
    for (size_t i = next_baseline(model, 0); i < model->num_terms; i = next_baseline(model, i + 1))
        count++;
    return count;
}

void model_baseline_name(const struct model *model, size_t index, char name[METRIC_NAME])
{
    size_t i = next_baseline(model, 0);
    while (index-- > 0)
        i = next_baseline(model, i + 1);
    name_of(model, model->terms[i].objective, model->terms[i].objective->baseline, name);
}

/* The part of term i in the block that starts at `counts`, and what follows it. */
static void *counts_of(const struct model *model, size_t i, struct arena *arena)
{
    return arena_take(arena, model->terms[i].objective->baseline_size(model->terms[i].self), 1);
}

size_t model_baselines_size(const struct model *model)
{
    struct arena arena = arena_on(NULL);
    for (size_t i = next_baseline(model, 0); i < model->num_terms; i = next_baseline(model, i + 1))
        counts_of(model, i, &arena);
    return arena.used;
}

void model_baseline_count(const struct model *model, const struct model_batch *batch, void *counts)
{
    struct arena arena = arena_on(counts);
    struct rows rows =
        rows_of(batch->kernels, batch->pool, batch->num_sequences, batch->offsets, batch->sample_ids);
    for (size_t i = next_baseline(model, 0); i < model->num_terms; i = next_baseline(model, i + 1)) {
        const struct objective *objective = model->terms[i].objective;
        objective->baseline_count(model->terms[i].self, &batch->targets[i],
                                  objective_targets(objective, &rows, model->config.pairs),
                                  counts_of(model, i, &arena));
    }
}

void model_baselines(const struct model *model, const void *counts, double *values)
{
    struct arena arena = arena_on((void *)(uintptr_t)counts); /* only read */
    for (size_t i = next_baseline(model, 0); i < model->num_terms; i = next_baseline(model, i + 1))
        *values++ =
            model->terms[i].objective->baseline_value(model->terms[i].self, counts_of(model, i, &arena));
}
