/* Numbers have four decimals as text and all digits in JSON.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/output/metrics_out.h"

#include <stdio.h>
#include <string.h>

void metrics_copy_from(struct metrics_copy *kept, const hashattn_metrics *metrics)
{
    kept->count = metrics->count < METRICS_MOST ? metrics->count : METRICS_MOST;
    for (size_t i = 0; i < kept->count; i++) {
        kept->list[i] = metrics->list[i];
        snprintf(kept->names[i], METRICS_NAME, "%s", metrics->list[i].name);
    }
}

hashattn_metrics metrics_of_copy(const struct metrics_copy *kept)
{
    /* Sets the names here, because those of a copied struct point into the original. */
    struct metrics_copy *own = (struct metrics_copy *)(uintptr_t)kept;
    for (size_t i = 0; i < kept->count; i++)
        own->list[i].name = kept->names[i];
    return (hashattn_metrics){kept->count, kept->list};
}

const hashattn_metric *metrics_chooser(const hashattn_metrics *metrics)
{
    for (size_t i = 0; i < metrics->count; i++)
        if (metrics->list[i].selects == 1)
            return &metrics->list[i];
    return NULL;
}

const char *metrics_words(const hashattn_metrics *metrics, const char *before, const char *between, bool all,
                          char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < metrics->count && used < size; i++) {
        const hashattn_metric *metric = &metrics->list[i];
        char name[METRICS_NAME];
        if (!all && metric->selects == 0)
            continue;
        snprintf(name, sizeof name, "%s", metric->name);
        for (char *c = name; *c != '\0'; c++)
            *c = *c == '_' ? ' ' : *c;
        used += (size_t)snprintf(text + used, size - used, "%s%s%s %.4f", used == 0 ? "" : between, before,
                                 name, metric->value);
    }
    return text;
}

void metrics_json(struct json_out *json, const char *before, const hashattn_metrics *metrics)
{
    for (size_t i = 0; i < metrics->count; i++) {
        char key[2 * METRICS_NAME];
        snprintf(key, sizeof key, "%s%s", before, metrics->list[i].name);
        json_out_number(json, key, metrics->list[i].value);
    }
}
