/* The jackknife, metric by metric.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/compare/paired_test.h"

#include <math.h>
#include <string.h>

static void add_sums(double *sums, const double *more, double sign)
{
    for (size_t i = 0; i < MODEL_SUMS; i++)
        sums[i] += sign * more[i];
}

/* The sums of one model, over all examples and by example. */
struct summed {
    const struct model *model;
    const double *each; /* (n, MODEL_SUMS) */
    double all[MODEL_SUMS];
};

static struct summed sum_up(const struct model *model, const double *each, size_t n)
{
    struct summed summed = {.model = model, .each = each};
    for (size_t i = 0; i < n; i++)
        add_sums(summed.all, each + i * MODEL_SUMS, 1);
    return summed;
}

/* The metric without example i; and true if the example has it. */
static double without(const struct summed *summed, size_t metric, size_t i, bool *has)
{
    double rest[MODEL_SUMS], values[MODEL_METRICS];
    const double *one = summed->each + i * MODEL_SUMS;
    model_metrics(summed->model, one, values);
    *has = !isnan(values[metric]);
    memcpy(rest, summed->all, sizeof rest);
    add_sums(rest, one, -1);
    model_metrics(summed->model, rest, values);
    return values[metric];
}

/* Mean and sum of squared deviations are updated as in Welford 1962. */
static double jackknife(const struct summed *run, size_t metric, const struct summed *other,
                        size_t other_metric, size_t n)
{
    double mean = 0, squares = 0, count = 0;
    for (size_t i = 0; i < n; i++) {
        bool has, other_has;
        double left = without(run, metric, i, &has) - without(other, other_metric, i, &other_has);
        if (!has && !other_has)
            continue;
        double step = left - mean;
        count++;
        mean += step / count;
        squares += step * (left - mean);
    }
    return count < 2 ? NAN : sqrt((count - 1) / count * squares);
}

static bool is_tested(const struct model_metric *metric)
{
    return !metric->training_only && !metric->overall;
}

/* Its index in the model, or model_num_metrics. */
static size_t metric_index(const struct model *model, const char *name)
{
    size_t i = 0;
    while (i < model_num_metrics(model) && strcmp(model_metric(model, i)->name, name) != 0)
        i++;
    return i;
}

void paired_test(const struct model *model, const double *sums, const struct model *other,
                 const double *other_sums, size_t n, struct comparison *comparison)
{
    const struct summed a = sum_up(model, sums, n), b = sum_up(other, other_sums, n);
    double values[MODEL_METRICS], other_values[MODEL_METRICS];
    model_metrics(model, a.all, values);
    model_metrics(other, b.all, other_values);
    comparison->examples = n;
    comparison->count = 0;
    for (size_t i = 0; i < model_num_metrics(model); i++) {
        const struct model_metric *metric = model_metric(model, i);
        size_t k = metric_index(other, metric->name);
        if (!is_tested(metric) || k == model_num_metrics(other))
            continue;
        double difference = values[i] - other_values[k],
               gain = metric->more_is_better ? difference : -difference;
        double error = jackknife(&a, i, &b, k, n), z = gain == 0 && error == 0 ? 0 : gain / error;
        comparison->list[comparison->count++] = (struct metric_difference){.metric = metric,
                                                                           .value = values[i],
                                                                           .other = other_values[k],
                                                                           .difference = difference,
                                                                           .standard_error = error,
                                                                           .z = z,
                                                                           .p = erfc(z / sqrt(2)) / 2};
    }
}
