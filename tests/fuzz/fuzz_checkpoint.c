/* Any bytes as trainer.json, for a model with one objective and one with two: an accepted file has consistent
   steps and finite sums.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "train/checkpoint.h"

/* Made once for all inputs. */
static const struct model *model_of(size_t num_objectives)
{
    static struct model *models[2];
    struct model_config config = {
        .vocab_size = 5,
        .max_len = 4,
        .num_objectives = num_objectives,
        .objectives = {{.objective = objective_find("classify"), .weight = 1, .num_outputs = 2},
                       {.objective = objective_find("next_token"), .weight = 1, .num_outputs = 5}},
    };
    struct model **model = &models[num_objectives - 1];
    struct host host;
    host_init(&host);
    if (*model != NULL)
        return *model;
    options_preset(model_options, &config);
    config.layers = 1;
    config.dim = config.heads = config.ffn = 2;
    config.causal = 1;
    FUZZ_CHECK(head_plan_new(&host, "none", &config.plan) == HASHATTN_OK);
    FUZZ_CHECK(model_new(&host, &config, model) == HASHATTN_OK);
    return *model;
}

static void check(const struct model *model, const uint8_t *data, size_t size)
{
    struct host host;
    struct train_state state;
    host_init(&host);
    hashattn_status status = train_state_parse(&host, (const char *)data, size, model, &state);
    if (status != HASHATTN_OK) {
        FUZZ_CHECK(status == HASHATTN_BAD_FILE && host.message[0] != '\0');
        return;
    }
    FUZZ_CHECK(state.step >= 0 && state.evaluated >= -1 && state.evaluated <= state.step);
    FUZZ_CHECK(state.best_step >= -1 && state.best_step <= state.step);
    FUZZ_CHECK(memchr(state.kernels, '\0', sizeof state.kernels) != NULL);
    FUZZ_CHECK(memchr(state.product, '\0', sizeof state.product) != NULL);
    for (size_t i = 0; i < model_num_sums(model); i++)
        FUZZ_CHECK(isfinite(state.running[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (size_t num_objectives = 1; num_objectives <= 2; num_objectives++)
        check(model_of(num_objectives), data, size);
    return 0;
}
