/* Any bytes as config.json of a stored checkpoint, with the mechanism of the file and another: an accepted
   file gives a model whose options are in range.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz/fuzz.h"
#include "models/model.h"
#include "models/pretrained_config.h"

static void check_options(struct host *host, const struct option_row *rows, void *values)
{
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        char text[64];
        option_text(row, values, text, sizeof text);
        FUZZ_CHECK(option_set(host, rows, "", values, row->name, text) == HASHATTN_OK);
    }
}

static void check(const uint8_t *data, size_t size, const char *attention)
{
    struct host host;
    struct pretrained_config config;
    struct model *model;
    host_init(&host);
    hashattn_status status = pretrained_config_parse(&host, (const char *)data, size, attention, &config);
    if (status != HASHATTN_OK) {
        FUZZ_CHECK(
            (status == HASHATTN_BAD_FILE || status == HASHATTN_INVALID || status == HASHATTN_REFUSED) &&
            host.message[0] != '\0' && config.json == NULL);
        return;
    }
    check_options(&host, model_options, &config.model);
    for (size_t i = 0; i < config.model.plan.num_used; i++)
        check_options(&host, config.model.plan.used[i].mechanism->options, config.model.plan.used[i].options);
    FUZZ_CHECK(config.model.max_len >= 1 && config.model.num_segments >= 1);
    FUZZ_CHECK(model_new(&host, &config.model, &model) == HASHATTN_OK);
    model_free(&host, model);
    pretrained_config_free(&host, &config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check(data, size, NULL);
    check(data, size, "yoso");
    return 0;
}
