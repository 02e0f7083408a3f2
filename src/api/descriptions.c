/* What was read of the data of a training, as counts that a person can check.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "api/descriptions.h"
#include "api/floating.h"
#include "base/memory.h"

static void count_labels(const struct target_set *set, size_t examples, size_t *counts)
{
    for (size_t i = 0; i < examples; i++) {
        if (set->weights != NULL && set->weights[i] == 0)
            continue;
        if (set->width == 0)
            counts[set->ids[i]]++;
        for (size_t k = 0; set->sparse && k < set->ones[i].count; k++)
            counts[set->places[set->ones[i].first + k]]++;
    }
}

/* In the units of the file. */
static void take_numbers(const struct task_facts *facts, const struct target_set *set, size_t examples,
                         hashattn_data_part *part)
{
    const struct task_column *column = &facts->columns[0];
    double digit = 1e-6 * column->deviation; /* the last that floats keep */
    part->numbers = 1;
    part->least = part->greatest = part->mean = NAN;
    for (size_t i = 0; i < examples; i++) {
        double value = column->mean + column->deviation * (double)set->floats[i];
        value = round(value / digit) * digit + 0.0; /* + 0: no negative zero */
        part->least = i == 0 ? value : fmin(part->least, value);
        part->greatest = i == 0 ? value : fmax(part->greatest, value);
        part->mean = i == 0 ? value : part->mean + (value - part->mean) / (double)(i + 1);
    }
}

hashattn_status describe_part(struct host *host, const struct task_facts *facts, const char *read,
                              enum split split, const struct dataset *dataset,
                              hashattn_data_callback *callback, void *user)
{
    const struct target_set *set = &dataset->targets[0];
    bool per_example = dataset->num_targets == 1 && set->kind == TARGETS_EXAMPLE,
         classes = per_example && facts->num_classes > 0,
         numbers = per_example && set->floats != NULL && set->width == 1 && facts->num_columns == 1;
    hashattn_data_part part = {.struct_size = sizeof part,
                               .split = split_name(split),
                               .drawn = dataset->drawn,
                               .examples = dataset->count,
                               .sequences = dataset_sequences(dataset),
                               .num_cut = dataset->num_cut,
                               .max_len = facts->max_len,
                               .columns = read,
                               .num_labels = classes ? facts->num_classes : 0,
                               .labels = (const char *const *)facts->labels,
                               .first_example = facts->shown == NULL ? NULL : facts->shown[0],
                               .last_example = facts->shown == NULL ? NULL : facts->shown[1]};
    void *counts;
    for (size_t s = 0; s < part.sequences && dataset->offsets != NULL; s++) {
        part.tokens += dataset_length(dataset, s);
        part.longest = size_max(part.longest, dataset_length(dataset, s));
    }
    if (numbers)
        take_numbers(facts, set, dataset->count, &part);
    TRY(memory_new_zeroed(host, part.num_labels, sizeof(size_t), "counts of labels", &counts));
    if (classes)
        count_labels(set, dataset->count, counts);
    part.label_counts = counts;
    int stop = callback(user, &part);
    memory_free(host, counts);
    FAIL_IF(stop != 0, host, HASHATTN_INTERRUPTED, "stopped after reading the %s set", part.split);
    return HASHATTN_OK;
}

hashattn_status hashattn_setup_describe(hashattn_setup *setup, const char *data,
                                        hashattn_data_callback *callback, void *user)
{
    FLOATING_DEFAULT;
    if (setup == NULL)
        return HASHATTN_INVALID;
    struct host *host = &setup->context->host;
    const struct run_config *config = &setup->config;
    FAIL_IF(data == NULL || callback == NULL, host, HASHATTN_INVALID, "%s is NULL",
            data == NULL ? "data" : "callback");
    TRY(setup_take_data(setup, data));
    for (enum split split = SPLIT_TRAIN; split < SPLIT_COUNT; split++) {
        struct dataset dataset = {0};
        hashattn_status status = config->task->load(host, config->task_options, &config->facts, config->data,
                                                    split, (uint64_t)config->training.seed, &dataset);
        if (split == SPLIT_TEST && dataset.absent)
            break; /* training reads none */
        if (status == HASHATTN_OK)
            status = describe_part(host, &config->facts, config->facts.read, split, &dataset, callback, user);
        dataset_free(host, &dataset);
        TRY(status);
    }
    return HASHATTN_OK;
}

void hashattn_setup_watch_data(hashattn_setup *setup, hashattn_data_callback *callback, void *user)
{
    if (setup == NULL)
        return;
    setup->data_callback = callback;
    setup->data_user = user;
}
