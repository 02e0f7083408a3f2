/* Times the steps of a stepper and passes over the first batch, each by itself.
   SPDX-License-Identifier: Apache-2.0 */
#include "measure/step_cost.h"

#include "base/clock.h"
#include "base/memory.h"
#include "train/step.h"

static hashattn_status measure_steps(struct stepper *stepper, size_t steps, double *times,
                                     struct step_cost *cost)
{
    double sums[MODEL_SUMS] = {0};
    struct step_outcome outcome;
    double total = 0;
    const struct windows *windows = &stepper->train.windows;
    bool decodes = windows->marks != NULL;
    cost->longest = decodes ? windows_decoder_rows(windows) : 0;
    for (size_t i = 0; i < dataset_sequences(&stepper->train); i++) {
        size_t length = dataset_length(&stepper->train, i);
        cost->longest = length > cost->longest ? length : cost->longest;
    }
    params_start(stepper->params, (uint64_t)stepper->options->seed, stepper->values);
    TRY(stepper_run(stepper, 0, sums, &outcome));
    if (stepper->setup->profile != NULL)
        profile_clear(stepper->setup->profile);
    for (size_t i = 0; i < steps; i++) {
        double start = clock_seconds();
        TRY(stepper_run(stepper, (int64_t)i, sums, &outcome));
        times[i] = (clock_seconds() - start) * 1e3;
        total += times[i];
        cost->tokens += outcome.tokens;
        cost->saved_bytes = outcome.saved_bytes > cost->saved_bytes ? outcome.saved_bytes : cost->saved_bytes;
    }
    cost->steps = steps;
    cost->sequences = steps * (size_t)(stepper->options->batch * stepper->options->accumulate) *
                      (stepper->train.pairs || decodes ? 2 : 1);
    cost->loss = outcome.loss;
    cost->workspace_bytes = stepper->session.space.pass.size;
    cost->tokens_per_second = (double)cost->tokens / total * 1e3;
    cost->step_ms = clock_median(times, steps);
    return HASHATTN_OK;
}

/* What an evaluation of the first batch takes, packed parameters included. */
static hashattn_status measure_forward(struct stepper *stepper, size_t passes, double *times,
                                       struct step_cost *cost)
{
    size_t count = size_min((size_t)stepper->options->batch, stepper->train.count);
    struct train_setup setup = *stepper->setup;
    setup.callback = NULL;
    struct session session;
    struct evaluation found;
    hashattn_status status = session_open(stepper->host, stepper->model, &session);
    for (size_t i = 0; i <= passes && status == HASHATTN_OK; i++) { /* the first warms up */
        double start = clock_seconds();
        session_pack(&session, setup.kernels, setup.pool, stepper->values);
        status = evaluate_within(stepper->host, &setup, &session, &stepper->train, NULL, count, count,
                                 (uint64_t)stepper->options->seed, NULL, &found);
        if (i > 0)
            times[i - 1] = (clock_seconds() - start) * 1e3;
    }
    cost->forward_bytes = session.space.pass.size;
    session_close(stepper->host, &session);
    cost->forward_ms = clock_median(times, passes);
    return status;
}

hashattn_status step_cost(struct host *host, const struct train_setup *setup, struct run_config *config,
                          size_t steps, struct step_cost *cost)
{
    struct stepper stepper;
    void *times = NULL;
    hashattn_status status;
    *cost = (struct step_cost){0};
    TRY_DONE(stepper_open(host, setup, config, &stepper));
    TRY_DONE(memory_new(host, steps, sizeof(double), "times", &times));
    TRY_DONE(measure_steps(&stepper, steps, times, cost));
    TRY_DONE(measure_forward(&stepper, steps, times, cost));
done:
    if (status != HASHATTN_OK)
        *cost = (struct step_cost){0};
    memory_free(host, times);
    stepper_close(&stepper);
    return status;
}
