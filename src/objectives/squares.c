/* Sums over examples, in order.
   SPDX-License-Identifier: Apache-2.0 */
#include "objectives/squares.h"

#include <math.h>
#include <string.h>

enum { SUM_LOSS, SUM_ABSOLUTE, SUM_COUNT };
const char *const squares_sums[] = {"loss", "absolute", "count", NULL};

const char *squares_refuse(const struct objective_facts *facts)
{
    return facts->pairs              ? "a forecast is made from one sequence, not two"
           : facts->num_outputs == 0 ? "there are no floats to forecast"
                                     : NULL;
}

size_t squares_outputs(const void *self)
{
    return ((const struct squares *)self)->outputs;
}

static double weight_of(const struct objective_pass *pass, size_t i)
{
    return pass->targets->weights == NULL ? 1 : (double)pass->targets->weights[i];
}

/* Prediction minus target of float k of all examples. */
static double off_by(const struct objective_pass *pass, size_t k)
{
    return (double)((const float *)pass->memory)[k] - (double)pass->targets->floats[k];
}

/* Means of the squared and of the absolute errors of example i. */
static void errors_of(const struct objective_pass *pass, size_t i, double *squared, double *absolute)
{
    size_t outputs = squares_outputs(pass->self);
    double squares = 0, sizes = 0;
    for (size_t k = i * outputs; k < (i + 1) * outputs; k++) {
        double off = off_by(pass, k);
        squares += off * off;
        sizes += fabs(off);
    }
    *squared = squares / (double)outputs;
    *absolute = sizes / (double)outputs;
}

double squares_loss(const struct objective_pass *pass)
{
    double sum = 0, squared, absolute;
    for (size_t i = 0; i < pass->rows->num_sequences && pass->targets != NULL; i++) {
        if (weight_of(pass, i) == 0)
            continue;
        errors_of(pass, i, &squared, &absolute);
        sum += weight_of(pass, i) * squared;
    }
    return sum;
}

void squares_gradient(const struct objective_pass *pass, float *dy)
{
    size_t outputs = squares_outputs(pass->self);
    for (size_t i = 0; i < pass->rows->num_sequences; i++) {
        double weight = weight_of(pass, i);
        double scale = 2 * weight * pass->weight / (pass->count * (double)outputs);
        for (size_t k = i * outputs; k < (i + 1) * outputs; k++)
            dy[k] = weight == 0 ? 0 : (float)(scale * off_by(pass, k));
    }
}

void squares_count(const struct objective_pass *pass, double *sums)
{
    for (size_t i = 0; i < pass->rows->num_sequences; i++) {
        double weight = weight_of(pass, i), squared, absolute;
        if (weight == 0)
            continue;
        errors_of(pass, i, &squared, &absolute);
        sums[SUM_LOSS] += weight * squared;
        sums[SUM_ABSOLUTE] += weight * absolute;
        sums[SUM_COUNT] += weight;
    }
}

void squares_predict(const struct objective_pass *pass, float *outputs)
{
    memcpy(outputs, pass->memory, pass->rows->num_sequences * squares_outputs(pass->self) * sizeof *outputs);
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
