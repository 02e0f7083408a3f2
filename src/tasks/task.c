/* What tasks share: lookup by name, and facts.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/task.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "tasks/words.h"
#include "text/tokenizer.h"

const struct task *task_find(const char *name)
{
    for (const struct task *const *task = task_table; *task != NULL; task++)
        if (strcmp((*task)->name, name) == 0)
            return *task;
    return NULL;
}

const char *split_name(enum split split)
{
    static const char *const names[SPLIT_COUNT] = {"train", "valid", "test"};
    return names[split];
}

const struct task_preset *task_preset_find(const struct task *task, const char *name)
{
    for (const struct task_preset *preset = task->presets; preset != NULL && preset->name != NULL; preset++)
        if (strcmp(preset->name, name) == 0)
            return preset;
    return NULL;
}

void task_facts_add(struct task_facts *facts, const char *objective, size_t num_outputs, size_t first_output)
{
    assert(facts->num_objectives < TASK_OBJECTIVES);
    struct task_objective *entry = &facts->objectives[facts->num_objectives++];
    *entry = (struct task_objective){.weight = 1, .num_outputs = num_outputs, .first_output = first_output};
    snprintf(entry->name, sizeof entry->name, "%s", objective);
}

hashattn_status task_facts_new(struct host *host, size_t vocab_size, size_t max_len,
                               const char *const *labels, size_t num_classes, struct task_facts *facts)
{
    *facts = (struct task_facts){.vocab_size = vocab_size, .num_classes = num_classes, .max_len = max_len};
    task_facts_add(facts, "classify", num_classes, 0);
    void *block;
    hashattn_status status = memory_new_zeroed(host, num_classes, sizeof(char *), "labels", &block);
    facts->labels = block;
    for (size_t i = 0; i < num_classes && status == HASHATTN_OK; i++) {
        size_t bytes = strlen(labels[i]) + 1;
        status = memory_new(host, bytes, 1, "a label", &block);
        facts->labels[i] = block;
        if (status == HASHATTN_OK)
            memcpy(block, labels[i], bytes);
    }
    if (status != HASHATTN_OK)
        task_facts_free(host, facts);
    return status;
}

void task_names_list(char *const *names, size_t count, char *list, size_t size)
{
    static const char more[] = ", ...";
    size_t used = 0;
    list[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        size_t needed = strlen(names[i]) + (i == 0 ? 0 : 2), left = size - used;
        if (needed + (i + 1 < count ? sizeof more : 1) > left) {
            snprintf(list + used, left, "%s", i == 0 ? more + 2 : more);
            return;
        }
        used += (size_t)snprintf(list + used, left, "%s%s", i == 0 ? "" : ", ", names[i]);
    }
}

void task_facts_free(struct host *host, struct task_facts *facts)
{
    for (size_t i = 0; facts->labels != NULL && i < facts->num_classes; i++)
        memory_free(host, facts->labels[i]);
    memory_free(host, facts->labels);
    for (size_t i = 0; i < facts->num_columns; i++)
        memory_free(host, facts->columns[i].name);
    memory_free(host, facts->columns);
    for (size_t i = 0; facts->series != NULL && i < facts->num_series; i++)
        memory_free(host, facts->series[i]);
    memory_free(host, facts->series);
    memory_free(host, facts->read);
    memory_free(host, facts->shown);
    words_free(host, facts->words);
    tokenizer_free(host, facts->tokenizer);
    *facts = (struct task_facts){0};
}
