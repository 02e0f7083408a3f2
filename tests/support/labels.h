/* Labels of a classification data set.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_LABELS_H
#define TESTS_SUPPORT_LABELS_H

#include "tasks/task.h"

/* The label of an example; -1 if unknown; -2 if these are no labels, or id and weight disagree. */
static inline int32_t label_of(const struct dataset *dataset, size_t example)
{
    const struct target_set *set = &dataset->targets[0];
    if (dataset->num_targets != 1 || set->kind != TARGETS_EXAMPLE || set->width != 0 || !set->weighted)
        return -2;
    if (set->weights[example] == 1)
        return (int32_t)set->ids[example];
    return set->weights[example] == 0 && set->ids[example] == 0 ? -1 : -2;
}

#endif
