/* See the header. SPDX-License-Identifier: Apache-2.0 */
#include "objectives/squares.h"

#include <math.h>

enum { SUM_LOSS, SUM_ABSOLUTE, SUM_COUNT };
const char *const squares_sums[] = {"loss", "absolute", "count", NULL};

static double weight_of(const struct objective_pass *pass, size_t i)
{
    return pass->targets->weights == NULL ? 1 : (double)pass->targets->weights[i];
}

/* Means of the squared and of the absolute errors of example i. */
static void errors_of(const struct objective_pass *pass, const float *y, size_t i, size_t outputs,
                      double *squared, double *absolute)
{
    double squares = 0, sizes = 0;
    for (size_t k = i * outputs; k < (i + 1) * outputs; k++) {
        double off = (double)y[k] - (double)pass->targets->floats[k];
        squares += off * off;
        sizes += fabs(off);
    }
    *squared = squares / (double)outputs;
    *absolute = sizes / (double)outputs;
}

const char *squares_refuse(const struct objective_facts *facts)
{
    return facts->pairs              ? "a forecast is made from one sequence, not two"
           : facts->num_outputs == 0 ? "there are no floats to forecast"
                                     : NULL;
}

double squares_loss(const struct objective_pass *pass, const float *y, size_t n, size_t outputs)
{
    double sum = 0, squared, absolute;
    for (size_t i = 0; i < n && pass->targets != NULL; i++) {
        if (weight_of(pass, i) == 0)
            continue;
        errors_of(pass, y, i, outputs, &squared, &absolute);
        sum += weight_of(pass, i) * squared;
    }
    return sum;
}

void squares_gradient(const struct objective_pass *pass, const float *y, size_t n, size_t outputs, float *dy)
{
    for (size_t i = 0; i < n; i++) {
        double weight = weight_of(pass, i);
        double scale = 2 * weight * pass->weight / (pass->count * (double)outputs);
        for (size_t k = i * outputs; k < (i + 1) * outputs; k++)
            dy[k] = weight == 0 ? 0 : (float)(scale * ((double)y[k] - (double)pass->targets->floats[k]));
    }
}

void squares_count(const struct objective_pass *pass, const float *y, size_t n, size_t outputs, double *sums)
{
    for (size_t i = 0; i < n; i++) {
        double weight = weight_of(pass, i), squared, absolute;
        if (weight == 0)
            continue;
        errors_of(pass, y, i, outputs, &squared, &absolute);
        sums[SUM_LOSS] += weight * squared;
        sums[SUM_ABSOLUTE] += weight * absolute;
        sums[SUM_COUNT] += weight;
    }
}

static double mean(const double *sums, size_t of)
{
    return sums == NULL ? 0 : sums[SUM_COUNT] == 0 ? NAN : sums[of] / sums[SUM_COUNT];
}

static double squared_error(const void *self, const double *sums)
{
    (void)self;
    return mean(sums, SUM_LOSS);
}

static double absolute_error(const void *self, const double *sums)
{
    (void)self;
    return mean(sums, SUM_ABSOLUTE);
}

const struct metric squares_metrics[] = {{"mse", squared_error, false, 1},
                                         {"mae", absolute_error, false, 0},
                                         {"loss", squared_error, false, 2},
                                         {.name = NULL}};
