/* Chunks on the pool; all arithmetic is in the slots rows.sum_squares and layers.adamw. Runs once per
   training step, over a few hundred thousand floats: well under a thousandth of the step.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/optim.h"

#include <math.h>

#include "base/memory.h"

struct chunks {
    const struct optim *optim;
    float *values;
    const float *gradients;
    struct adamw adamw;
};

size_t optim_chunks(size_t total)
{
    return (total + OPTIM_CHUNK - 1) / OPTIM_CHUNK;
}

static size_t chunk_size(size_t total, size_t index)
{
    size_t left = total - index * OPTIM_CHUNK;
    return left < OPTIM_CHUNK ? left : OPTIM_CHUNK;
}

typedef void chunk_part(const struct chunks *chunks, size_t at, size_t count, double *sum);

/* Calls `work` with every part of a chunk that is trained; returns the sum. */
static double each_part(const struct chunks *chunks, size_t index, chunk_part *work)
{
    const struct optim *optim = chunks->optim;
    size_t at = index * OPTIM_CHUNK, end = at + chunk_size(optim->total, index);
    double sum = 0;
    if (optim->ranges == NULL)
        work(chunks, at, end - at, &sum);
    for (size_t i = 0; i < optim->num_ranges && optim->ranges[i].first < end; i++) {
        size_t first = size_max(optim->ranges[i].first, at);
        size_t last = size_min(optim->ranges[i].first + optim->ranges[i].count, end);
        if (first < last)
            work(chunks, first, last - first, &sum);
    }
    return sum;
}

static void square_part(const struct chunks *chunks, size_t at, size_t count, double *sum)
{
    *sum += chunks->optim->kernels->rows.sum_squares(chunks->gradients + at, count);
}

static void square_chunk(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct chunks *chunks = argument;
    chunks->optim->chunk_sums[index] = each_part(chunks, index, square_part);
}

double optim_norm(const struct optim *optim, const float *gradients)
{
    struct chunks chunks = {.optim = optim, .gradients = gradients};
    size_t count = optim_chunks(optim->total);
    pool_run(optim->pool, square_chunk, &chunks, count);
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += optim->chunk_sums[i];
    return sqrt(sum);
}

static void step_range(const struct chunks *chunks, size_t at, size_t count, bool decayed)
{
    const struct optim *optim = chunks->optim;
    struct adamw adamw = chunks->adamw;
    adamw.decay = decayed ? adamw.decay : 0;
    optim->kernels->layers.adamw(chunks->values + at, optim->m + at, optim->v + at, chunks->gradients + at,
                                 count, &adamw);
}

/* Row by row if there is decay. Zeros between rows stay zeros. */
static void step_part(const struct chunks *chunks, size_t at, size_t count, double *sum)
{
    (void)sum;
    const struct params *params = chunks->optim->params;
    if (chunks->adamw.decay == 0) {
        step_range(chunks, at, count, false);
        return;
    }
    for (size_t i = 0; i < params->num_rows; i++) {
        const struct param *row = &params->rows[i];
        size_t first = size_max(at, row->offset), last = size_min(at + count, row->offset + row->count);
        if (first < last)
            step_range(chunks, first, last - first, row->decayed);
    }
}

static void step_chunk(void *argument, size_t index, int worker)
{
    (void)worker;
    each_part(argument, index, step_part);
}

void optim_step(const struct optim *optim, float *values, const float *gradients, double norm, int64_t t,
                double rate, double beta1)
{
    struct chunks chunks = {.optim = optim, .values = values, .gradients = gradients};
    struct adamw *adamw = &chunks.adamw;
    adamw->rate = (float)rate;
    adamw->beta1 = (float)beta1;
    adamw->beta2 = (float)optim->beta2;
    adamw->epsilon = (float)optim->epsilon;
    adamw->decay = (float)optim->decay;
    /* Powers of the rounded betas, because the moments are averaged with them: at t = 1 the two roundings of
       1 - beta2 would differ by 1e-5. */
    adamw->correction1 = (float)(1 - pow((double)adamw->beta1, (double)t));
    adamw->correction2 = (float)(1 - pow((double)adamw->beta2, (double)t));
    adamw->gradient_scale = optim->clip > 0 && norm > optim->clip ? (float)(optim->clip / norm) : 1;
    pool_run(optim->pool, step_chunk, &chunks, optim_chunks(optim->total));
}
