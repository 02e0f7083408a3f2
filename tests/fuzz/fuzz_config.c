/* Any bytes as config.json, up to the description of its model: an accepted file has every option in range
   and gives a model or a named refusal.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz/fuzz.h"
#include "train/trainer.h"

/* Checks that each option's row accepts its value. */
static void check_options(struct host *host, const struct option_row *rows, void *values)
{
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        char text[64];
        option_text(row, values, text, sizeof text);
        FUZZ_CHECK(option_set(host, rows, "", values, row->name, text) == HASHATTN_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct host host;
    struct run_config config;
    struct model *model;
    host_init(&host);
    hashattn_status status = run_config_parse(&host, (const char *)data, size, &config);
    if (status != HASHATTN_OK) {
        FUZZ_CHECK(status == HASHATTN_BAD_FILE && host.message[0] != '\0' && config.facts.labels == NULL);
        return 0;
    }
    check_options(&host, config.task->options, config.task_options);
    check_options(&host, model_options, &config.model);
    const struct head_plan *plan = &config.model.plan;
    for (size_t i = 0; i < plan->num_used; i++)
        check_options(&host, plan->used[i].mechanism->options, plan->used[i].options);
    check_options(&host, train_rows, &config.training);
    FUZZ_CHECK(config.training.warmup <= config.training.steps && strlen(config.data) < sizeof config.data);
    const struct task_facts *facts = &config.facts;
    FUZZ_CHECK((facts->vocab_size >= 1) != (facts->row_width >= 1) && facts->num_segments <= 256);
    FUZZ_CHECK(facts->max_len >= 1 && facts->words == NULL && facts->num_objectives <= TASK_OBJECTIVES);
    FUZZ_CHECK(config.model.num_objectives == facts->num_objectives);
    for (size_t i = 0; i < facts->num_objectives; i++)
        FUZZ_CHECK(objective_find(facts->objectives[i].name) == config.model.objectives[i].objective &&
                   config.model.objectives[i].weight > 0);
    FUZZ_CHECK(config.facts.num_words == 0 || config.facts.num_words + 1 == config.facts.vocab_size);
    for (size_t i = 0; i < config.facts.num_classes; i++)
        FUZZ_CHECK(config.facts.labels[i] != NULL);
    FUZZ_CHECK(model_new(&host, &config.model, &model) == HASHATTN_OK);
    model_free(&host, model);
    run_config_free(&host, &config);
    return 0;
}
