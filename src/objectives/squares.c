/* Sums over examples, in order.
   SPDX-License-Identifier: Apache-2.0 */
#include "objectives/squares.h"

#include <math.h>
#include <string.h>

enum { SUM_LOSS, SUM_ABSOLUTE, SUM_COUNT, SUM_SQUARED, SUM_COVERED };
const char *const squares_sums[] = {"loss", "absolute", "count", "squared", "covered", NULL};

const char *squares_refuse(const struct objective_facts *facts)
{
    const double *levels = facts->quantiles.levels;
    for (size_t q = 0; q < facts->quantiles.count; q++)
        if (!(levels[q] > (q == 0 ? 0 : levels[q - 1]) && levels[q] < 1))
            return "`quantiles` must ascend, from above 0 to below 1";
    return facts->pairs              ? "a forecast is made from one sequence, not two"
           : facts->num_outputs == 0 ? "there are no floats to forecast"
                                     : NULL;
}

struct squares squares_of(const struct objective_facts *facts)
{
    return (struct squares){.outputs = facts->num_outputs,
                            .levels = size_max(facts->quantiles.count, 1),
                            .point = quantiles_middle(&facts->quantiles),
                            .quantiles = facts->quantiles};
}

size_t squares_width(const struct squares *squares)
{
    return size_product(squares->outputs, squares->levels);
}

size_t squares_outputs(const void *self)
{
    return squares_width(self);
}

static double weight_of(const struct objective_pass *pass, size_t i)
{
    return pass->targets->weights == NULL ? 1 : (double)pass->targets->weights[i];
}

/* Prediction minus target of float k of all examples, at one level as it is predicted. */
static double off_by(const struct objective_pass *pass, size_t k, size_t level)
{
    const struct squares *self = pass->self;
    return (double)((const float *)pass->memory)[k * self->levels + level] - (double)pass->targets->floats[k];
}

/* The quantile loss of such a difference. */
static double quantile_loss(double level, double off)
{
    return off > 0 ? (1 - level) * off : -level * off;
}

/* All of them, levels that cross put in order as in a forecast. */
static void offs_in_order(const struct objective_pass *pass, size_t k, double offs[MOST_QUANTILES])
{
    const struct squares *self = pass->self;
    for (size_t q = 0; q < self->levels; q++) {
        double off = off_by(pass, k, q);
        size_t at = q;
        for (; at > 0 && offs[at - 1] > off; at--)
            offs[at] = offs[at - 1];
        offs[at] = off;
    }
}

/* The loss of example i that is trained: of the levels as they are predicted. */
static double loss_of(const struct objective_pass *pass, size_t i)
{
    const struct squares *self = pass->self;
    double sum = 0;
    for (size_t k = i * self->outputs; k < (i + 1) * self->outputs; k++)
        for (size_t q = 0; q < self->levels; q++) {
            double off = off_by(pass, k, q);
            sum += self->quantiles.count > 0 ? quantile_loss(self->quantiles.levels[q], off) : off * off;
        }
    return sum / (double)squares_width(self);
}

/* Means over the floats of example i, by the number of the sum: errors of the forecast. */
static void errors_of(const struct objective_pass *pass, size_t i, double errors[SUM_COVERED + 1])
{
    const struct squares *self = pass->self;
    size_t outputs = self->outputs;
    double squares = 0, sizes = 0, losses = 0, covered = 0;
    for (size_t k = i * outputs; k < (i + 1) * outputs; k++) {
        double offs[MOST_QUANTILES] = {0};
        offs_in_order(pass, k, offs);
        double off = offs[self->point];
        squares += off * off;
        sizes += fabs(off);
        for (size_t q = 0; q < self->quantiles.count; q++)
            losses += quantile_loss(self->quantiles.levels[q], offs[q]);
        covered += self->levels > 1 && offs[0] <= 0 && offs[self->levels - 1] >= 0;
    }
    errors[SUM_SQUARED] = squares / (double)outputs;
    errors[SUM_ABSOLUTE] = sizes / (double)outputs;
    errors[SUM_LOSS] = self->quantiles.count > 0 ? losses / (double)squares_width(self) : errors[SUM_SQUARED];
    errors[SUM_COUNT] = 1;
    errors[SUM_COVERED] = covered / (double)outputs;
}

double squares_loss(const struct objective_pass *pass)
{
    double sum = 0;
    for (size_t i = 0; i < pass->rows->num_sequences && pass->targets != NULL; i++)
        if (weight_of(pass, i) != 0)
            sum += weight_of(pass, i) * loss_of(pass, i);
    return sum;
}

void squares_gradient(const struct objective_pass *pass, float *dy)
{
    const struct squares *self = pass->self;
    size_t outputs = self->outputs;
    for (size_t i = 0; i < pass->rows->num_sequences; i++) {
        double weight = weight_of(pass, i);
        double scale = weight * pass->weight / (pass->count * (double)squares_width(self));
        for (size_t k = i * outputs; k < (i + 1) * outputs; k++)
            for (size_t q = 0; q < self->levels; q++) {
                double off = off_by(pass, k, q);
                double slope = self->quantiles.count == 0 ? 2 * off
                               : off > 0                  ? 1 - self->quantiles.levels[q]
                               : off < 0                  ? -self->quantiles.levels[q]
                                                          : 0;
                dy[k * self->levels + q] = weight == 0 ? 0 : (float)(scale * slope);
            }
    }
}

void squares_count(const struct objective_pass *pass, double *sums)
{
    double errors[SUM_COVERED + 1];
    for (size_t i = 0; i < pass->rows->num_sequences; i++) {
        double weight = weight_of(pass, i);
        if (weight == 0)
            continue;
        errors_of(pass, i, errors);
        for (size_t s = 0; s <= SUM_COVERED; s++)
            sums[s] += weight * errors[s];
    }
}

void squares_predict(const struct objective_pass *pass, float *outputs)
{
    memcpy(outputs, pass->memory, pass->rows->num_sequences * squares_width(pass->self) * sizeof *outputs);
}

static double mean(const double *sums, size_t of)
{
    return sums == NULL ? 0 : sums[SUM_COUNT] == 0 ? NAN : sums[of] / sums[SUM_COUNT];
}

static double squared_error(const void *self, const double *sums)
{
    (void)self;
    return mean(sums, SUM_SQUARED);
}

static double absolute_error(const void *self, const double *sums)
{
    (void)self;
    return mean(sums, SUM_ABSOLUTE);
}

static double loss(const void *self, const double *sums)
{
    (void)self;
    return mean(sums, SUM_LOSS);
}

static double coverage(const void *self, const double *sums)
{
    return ((const struct squares *)self)->levels > 1 ? mean(sums, SUM_COVERED) : NAN;
}

const struct metric squares_metrics[] = {{"mse", squared_error, false, 1},
                                         {"mae", absolute_error, false, 0},
                                         {"loss", loss, false, 2},
                                         {"coverage", coverage, true, 0},
                                         {.name = NULL}};
