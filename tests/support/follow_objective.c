/* One file, like every objective.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/follow_objective.h"

#include <math.h>
#include <string.h>

#include "nn/dense.h"

struct follow {
    struct dense dense;
};

static const char *refuse(const struct objective_facts *facts)
{
    return facts->num_outputs < 1 ? "there are no floats to follow" : NULL;
}

static hashattn_status describe(struct host *host, struct params *params, const struct objective_facts *facts,
                                void *self)
{
    struct follow *follow = self;
    return dense_describe(host, params, "follow.dense", facts->dim, facts->num_outputs, &follow->dense);
}

/* Floats for the predictions and, in training, their gradient: (padded rows, out) each. */
static size_t floats_of(const struct follow *follow, const struct rows *rows)
{
    return rows->padded * follow->dense.out;
}

static size_t memory_size(const void *self, const struct rows *rows, bool training)
{
    return (training ? 2 : 1) * floats_of(self, rows) * sizeof(float);
}

static double weight_of(const struct objective_pass *pass, size_t row)
{
    return pass->targets->weights == NULL ? 1 : (double)pass->targets->weights[row];
}

static double forward(const struct objective_pass *pass)
{
    const struct dense *dense = &((const struct follow *)pass->self)->dense;
    float *y = pass->memory;
    double sum = 0;
    for (size_t row = 0; row < pass->rows->padded; row += pass->rows->tile_rows)
        dense_forward(dense, pass->rows->kernels, pass->values, y + row * dense->out,
                      pass->x + row * dense->in, rows_of_tile(pass->rows, row));
    for (size_t row = 0; pass->targets != NULL && row < pass->rows->count; row++)
        for (size_t c = 0; c < dense->out; c++) {
            double off =
                (double)y[row * dense->out + c] - (double)pass->targets->floats[row * dense->out + c];
            sum += 0.5 * weight_of(pass, row) * off * off;
        }
    return sum;
}

static void backward(const struct objective_pass *pass, struct slice gradients, float *dx, bool add)
{
    const struct dense *dense = &((const struct follow *)pass->self)->dense;
    size_t out = dense->out;
    const float *y = pass->memory;
    float *dy = (float *)pass->memory + floats_of(pass->self, pass->rows);
    for (size_t row = 0; row < pass->rows->padded; row++)
        for (size_t c = 0; c < out; c++) {
            size_t i = row * out + c;
            dy[i] = row < pass->rows->count ? (float)(weight_of(pass, row) * pass->weight / pass->count *
                                                      ((double)y[i] - (double)pass->targets->floats[i]))
                                            : 0;
        }
    for (size_t row = 0; row < pass->rows->padded; row += pass->rows->tile_rows)
        dense_backward(dense, pass->rows->kernels, pass->values, gradients, dx + row * dense->in, add,
                       dy + row * out, pass->x + row * dense->in, rows_of_tile(pass->rows, row));
}

enum { SUM_LOSS, SUM_ERROR, SUM_COUNT };
static const char *const sum_names[] = {"loss", "error", "count", NULL};

static void count(const struct objective_pass *pass, double *sums)
{
    size_t out = ((const struct follow *)pass->self)->dense.out;
    const float *y = pass->memory;
    for (size_t row = 0; row < pass->rows->count; row++) {
        double weight = weight_of(pass, row);
        for (size_t i = row * out; i < (row + 1) * out; i++) {
            double off = (double)y[i] - (double)pass->targets->floats[i];
            sums[SUM_LOSS] += 0.5 * weight * off * off;
            sums[SUM_ERROR] += weight * fabs(off);
        }
        sums[SUM_COUNT] += weight;
    }
}

static double value(const double *sums, size_t of)
{
    return sums == NULL ? 0 : sums[SUM_COUNT] == 0 ? NAN : sums[of] / sums[SUM_COUNT];
}

static double loss(const void *self, const double *sums)
{
    (void)self;
    return value(sums, SUM_LOSS);
}

static double error(const void *self, const double *sums)
{
    (void)self;
    return value(sums, SUM_ERROR);
}

static const struct metric metrics[] = {
    {"loss", loss, false, 1}, {"error", error, false, 0}, {NULL, NULL, false, 0}};

const struct objective objective_follow = {
    .name = "follow",
    .summary = "rows of floats for every row",
    .place = TARGET_ROW,
    .type = TARGET_FLOATS,
    .sums = sum_names,
    .metrics = metrics,
    .refuse = refuse,
    .size = sizeof(struct follow),
    .describe = describe,
    .memory_size = memory_size,
    .forward = forward,
    .backward = backward,
    .count = count,
};
