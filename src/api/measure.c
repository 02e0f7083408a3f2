/* Profiles, and what a layer, a step and the machine cost: arguments are checked, and measure/ does the work.
   SPDX-License-Identifier: Apache-2.0 */
#include "hashattn/measure.h"

#include "api/floating.h"
#include "api/setup.h"
#include "api/versions/versions.h"
#include "base/clock.h"
#include "base/random.h"
#include "comm/row_ranks.h"
#include "gpu/driver.h"
#include "measure/layer_cost.h"
#include "measure/peak.h"
#include "measure/step_cost.h"

hashattn_status hashattn_profile_start(hashattn_context *context)
{
    if (context == NULL)
        return HASHATTN_INVALID;
    if (context->device != NULL)
        device_profile(context->device, true);
    if (context->profile == NULL)
        return profile_new(&context->host, context->pool, &context->profile);
    profile_clear(context->profile);
    return HASHATTN_OK;
}

void hashattn_profile_stop(hashattn_context *context)
{
    if (context == NULL)
        return;
    if (context->device != NULL)
        device_profile(context->device, false);
    profile_free(&context->host, context->profile);
    context->profile = NULL;
}

int hashattn_profile_get(const hashattn_context *context, size_t index, hashattn_profile_part *part)
{
    size_t kernels = context == NULL || context->device == NULL ? 0 : KERNEL_COUNT_OF_ALL;
    if (context == NULL || context->profile == NULL || index >= PROFILE_PARTS + kernels)
        return 0;
    hashattn_profile_part own = {.name = NULL};
    if (index < PROFILE_PARTS) {
        own.name = profile_names[index];
        own.wall_seconds = context->profile->wall[index];
        own.thread_seconds = context->profile->thread[index];
    } else
        own.name =
            device_profile_get(context->device, (enum gpu_kernel)(index - PROFILE_PARTS), &own.wall_seconds);
    version_give(part, &own, sizeof own);
    return 1;
}

static struct train_setup setup_down(const hashattn_setup *setup)
{
    return (struct train_setup){
        .kernels = setup->context->kernels, .pool = setup->context->pool, .profile = setup->context->profile};
}

hashattn_status hashattn_measure_layer(hashattn_setup *setup, size_t seq_len, int backward, size_t repeats,
                                       hashattn_layer_cost *cost)
{
    FLOATING_DEFAULT;
    if (setup == NULL)
        return HASHATTN_INVALID;
    struct host *host = &setup->context->host;
    FAIL_IF(cost == NULL, host, HASHATTN_INVALID, "cost is NULL");
    FAIL_IF(seq_len < 1 || seq_len > (size_t)1 << 31, host, HASHATTN_INVALID,
            "`seq_len` is %zu, allowed are 1 to 2147483648", seq_len);
    FAIL_IF(repeats > 1000000, host, HASHATTN_INVALID, "`repeats` is %zu, allowed are 0 to 1000000", repeats);
    const struct train_setup down = setup_down(setup);
    struct layer_cost found;
    TRY(layer_cost(host, &down, &setup->config.model, seq_len, (uint64_t)setup->config.training.seed,
                   backward != 0, repeats, &found));
    const hashattn_layer_cost own = {.forward_ms = found.forward_ms,
                                     .backward_ms = found.backward_ms,
                                     .product_operations = found.product_operations,
                                     .repeats = found.repeats,
                                     .saved_bytes = found.saved_bytes,
                                     .workspace_bytes = found.workspace_bytes,
                                     .lay_ms = found.lay_ms,
                                     .library_gflops = found.library_gflops};
    version_give(cost, &own, sizeof own);
    return HASHATTN_OK;
}

hashattn_status hashattn_measure_step(hashattn_setup *setup, const char *data, size_t steps,
                                      hashattn_step_cost *cost)
{
    FLOATING_DEFAULT;
    if (setup == NULL)
        return HASHATTN_INVALID;
    struct host *host = &setup->context->host;
    const struct train_options *options = &setup->config.training;
    FAIL_IF(data == NULL || cost == NULL, host, HASHATTN_INVALID, "%s is NULL",
            data == NULL ? "data" : "cost");
    FAIL_IF(steps < 1 || steps > (size_t)options->steps, host, HASHATTN_INVALID,
            "`steps` is %zu, allowed are 1 to the %lld of the training", steps, (long long)options->steps);
    TRY(setup_take_data(setup, data));
    const struct train_setup down = setup_down(setup);
    struct step_cost found;
    TRY(step_cost(host, &down, &setup->config, steps, &found));
    const hashattn_step_cost own = {.step_ms = found.step_ms,
                                    .tokens_per_second = found.tokens_per_second,
                                    .loss = found.loss,
                                    .steps = found.steps,
                                    .sequences = found.sequences,
                                    .tokens = found.tokens,
                                    .longest = found.longest,
                                    .saved_bytes = found.saved_bytes,
                                    .workspace_bytes = found.workspace_bytes,
                                    .forward_ms = found.forward_ms,
                                    .forward_bytes = found.forward_bytes};
    version_give(cost, &own, sizeof own);
    return HASHATTN_OK;
}

hashattn_status hashattn_measure_exchange(hashattn_setup *setup, size_t seq_len, size_t ranks, double *bytes,
                                          size_t *exchanges)
{
    FLOATING_DEFAULT;
    if (setup == NULL)
        return HASHATTN_INVALID;
    struct host *host = &setup->context->host;
    const struct model_config *model = &setup->config.model;
    const struct planned *used = &model->plan.used[0];
    FAIL_IF(bytes == NULL || exchanges == NULL, host, HASHATTN_INVALID, "%s is NULL",
            bytes == NULL ? "bytes" : "exchanges");
    FAIL_IF(seq_len < 1 || seq_len > (size_t)1 << 31, host, HASHATTN_INVALID,
            "`seq_len` is %zu, allowed are 1 to 2147483648", seq_len);
    FAIL_IF(ranks < 2 || ranks > 65536, host, HASHATTN_INVALID, "`ranks` is %zu, allowed are 2 to 65536",
            ranks);
    FAIL_IF(model->dim % model->heads != 0, host, HASHATTN_INVALID, "dim is %lld, no multiple of %lld heads",
            (long long)model->dim, (long long)model->heads);
    FAIL_IF(model->plan.num_used != 1 || used->mechanism->ranks_gradient_bytes == NULL, host,
            HASHATTN_REFUSED, "%.60s does not tell what ranks exchange", model->plan.text);
    size_t rows = row_ranks_most(ranks, seq_len), width = (size_t)(model->dim / model->heads);
    const struct problem_shape shape = {.num_queries = rows,
                                        .num_keys = rows,
                                        .head_dim = width,
                                        .value_dim = width,
                                        .causal = model->causal,
                                        .workers = 1,
                                        .ranks = ranks,
                                        .total_rows = seq_len};
    *bytes = used->mechanism->ranks_gradient_bytes(used->options, &shape, exchanges);
    return HASHATTN_OK;
}

hashattn_status hashattn_measure_peak(hashattn_context *context, double seconds, hashattn_peak *peak)
{
    FLOATING_DEFAULT;
    if (context == NULL)
        return HASHATTN_INVALID;
    struct host *host = &context->host;
    FAIL_IF(peak == NULL, host, HASHATTN_INVALID, "peak is NULL");
    FAIL_IF(!(seconds >= 0.01 && seconds <= 60), host, HASHATTN_INVALID,
            "`seconds` is %g, allowed are 0.01 to 60", seconds);
    struct peak found;
    TRY(peak_measure(host, context->kernels, context->pool, seconds, &found));
    const hashattn_peak own = {.float32_gflops = found.float32_gflops,
                               .bf16_gflops = found.bf16_gflops,
                               .memory_gbytes_per_s = found.memory_gbytes_per_s,
                               .hash_gflops = found.hash_gflops};
    version_give(peak, &own, sizeof own);
    return HASHATTN_OK;
}

size_t hashattn_peak_resident_bytes(void)
{
    return clock_peak_resident();
}

void hashattn_fill_normal(uint64_t seed, uint64_t stream, float *out, size_t count)
{
    FLOATING_DEFAULT;
    random_normals(random_key(seed, RANDOM_BENCH, stream), 0, out, count);
}
