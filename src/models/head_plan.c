/* Reads a plan, and finds its options by name.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/head_plan.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { MOST_HEADS = 256, VALUE_TEXT = 64 };

/* ---- reading ------------------------------------------------------------------------------------------- */

static hashattn_status use(struct host *host, struct head_plan *plan, const char *name, size_t *index)
{
    const struct mechanism *mechanism;
    TRY(attention_named(host, name, &mechanism));
    for (*index = 0; *index < plan->num_used; ++*index)
        if (plan->used[*index].mechanism == mechanism)
            return HASHATTN_OK;
    FAIL_IF(plan->num_used == PLAN_MECHANISMS, host, HASHATTN_INVALID,
            "attention '%.60s' names more than %d mechanisms", plan->text, PLAN_MECHANISMS);
    void *options;
    TRY(memory_new_zeroed(host, 1, mechanism->options_size, "options", &options));
    options_preset(mechanism->options, options);
    plan->used[plan->num_used++] = (struct planned){mechanism, options};
    return HASHATTN_OK;
}

/* "NAME" or "NAME*HEADS", `size` chars. */
static hashattn_status read_group(struct host *host, struct head_plan *plan, const char *text, size_t size)
{
    char group[PLAN_TEXT];
    struct head_list *list = &plan->lists[plan->num_lists];
    FAIL_IF(list->num_groups == HEAD_GROUPS, host, HASHATTN_INVALID,
            "attention '%.60s' has a list of more than %d mechanisms", plan->text, HEAD_GROUPS);
    snprintf(group, sizeof group, "%.*s", (int)size, text);
    char *star = strchr(group, '*'), *end = NULL;
    size_t heads = 0;
    if (star != NULL) {
        *star = '\0';
        bool digit = star[1] >= '0' && star[1] <= '9';
        unsigned long number = strtoul(star + 1, &end, 10);
        FAIL_IF(!digit || *end != '\0' || number < 1 || number > MOST_HEADS, host, HASHATTN_INVALID,
                "attention '%.60s' gives %.20s '%.20s' heads, allowed are 1 to %d", plan->text, group,
                star + 1, MOST_HEADS);
        heads = number;
    }
    size_t index;
    TRY(use(host, plan, group, &index));
    list->groups[list->num_groups].used = index;
    list->groups[list->num_groups++].heads = heads;
    return HASHATTN_OK;
}

static hashattn_status read_lists(struct host *host, struct head_plan *plan)
{
    for (const char *at = plan->text;; at++) {
        size_t size = strcspn(at, ",/");
        FAIL_IF(plan->num_lists == PLAN_LISTS, host, HASHATTN_INVALID,
                "attention '%.60s' has more than %d lists", plan->text, PLAN_LISTS);
        TRY(read_group(host, plan, at, size));
        at += size;
        plan->num_lists += *at != ',';
        if (*at == '\0')
            return HASHATTN_OK;
    }
}

hashattn_status head_plan_new(struct host *host, const char *text, struct head_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    FAIL_IF(strlen(text) >= PLAN_TEXT, host, HASHATTN_INVALID,
            "attention '%.60s...' is %zu long, at most %d fit", text, strlen(text), PLAN_TEXT - 1);
    strcpy(plan->text, text);
    hashattn_status status = read_lists(host, plan);
    if (status != HASHATTN_OK)
        head_plan_free(host, plan);
    return status;
}

void head_plan_free(struct host *host, struct head_plan *plan)
{
    for (size_t i = 0; i < plan->num_used; i++)
        memory_free(host, plan->used[i].options);
    memset(plan, 0, sizeof *plan);
}

hashattn_status head_plan_copy(struct host *host, const struct head_plan *plan, struct head_plan *copy)
{
    *copy = *plan;
    for (copy->num_used = 0; copy->num_used < plan->num_used; copy->num_used++) {
        const struct planned *from = &plan->used[copy->num_used];
        void *options;
        hashattn_status status = memory_new(host, 1, from->mechanism->options_size, "options", &options);
        if (status != HASHATTN_OK) {
            head_plan_free(host, copy);
            return status;
        }
        if (options != NULL)
            memcpy(options, from->options, from->mechanism->options_size);
        copy->used[copy->num_used].options = options;
    }
    return HASHATTN_OK;
}

/* ---- options ------------------------------------------------------------------------------------------- */

bool head_plan_has(const struct head_plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->num_used; i++)
        if (attention_option(plan->used[i].mechanism, name) != NULL)
            return true;
    return false;
}

hashattn_status head_plan_set(struct host *host, struct head_plan *plan, const char *name, const char *text)
{
    char before[PLAN_MECHANISMS][VALUE_TEXT];
    FAIL_IF(!head_plan_has(plan, name), host, HASHATTN_INVALID, "%.60s has no option '%.60s'", plan->text,
            name);
    for (size_t i = 0; i < plan->num_used; i++) {
        const struct mechanism *mechanism = plan->used[i].mechanism;
        const struct option_row *row = attention_option(mechanism, name);
        if (row == NULL)
            continue;
        option_text(row, plan->used[i].options, before[i], VALUE_TEXT);
        hashattn_status status =
            option_set(host, mechanism->options, mechanism->name, plan->used[i].options, row->name, text);
        if (status == HASHATTN_OK)
            continue;
        while (i-- > 0)
            if ((row = attention_option(plan->used[i].mechanism, name)) != NULL)
                option_set(host, plan->used[i].mechanism->options, plan->used[i].mechanism->name,
                           plan->used[i].options, row->name, before[i]);
        return status;
    }
    return HASHATTN_OK;
}

hashattn_status head_plan_change(struct host *host, struct head_plan *plan, const char *name,
                                 const char *text, head_plan_take *take, void *owner)
{
    struct head_plan before;
    TRY(head_plan_copy(host, plan, &before));
    hashattn_status status = head_plan_set(host, plan, name, text);
    if (status == HASHATTN_OK)
        status = take(host, owner);
    if (status != HASHATTN_OK)
        for (size_t i = 0; i < plan->num_used; i++)
            if (plan->used[i].mechanism->options_size > 0)
                memcpy(plan->used[i].options, before.used[i].options, plan->used[i].mechanism->options_size);
    head_plan_free(host, &before);
    return status;
}

hashattn_status head_plan_preset(struct host *host, struct head_plan *plan, const char *text)
{
    char name[VALUE_TEXT], value[VALUE_TEXT];
    for (text = text == NULL ? "" : text; *text != '\0'; text += strspn(text, " ")) {
        size_t size = strcspn(text, "="), end = strcspn(text, " ");
        assert(size < end && end < VALUE_TEXT);
        snprintf(name, sizeof name, "%.*s", (int)size, text);
        snprintf(value, sizeof value, "%.*s", (int)(end - size - 1), text + size + 1);
        if (head_plan_has(plan, name))
            TRY(head_plan_set(host, plan, name, value));
        text += end;
    }
    return HASHATTN_OK;
}

/* ---- layers -------------------------------------------------------------------------------------------- */

size_t head_plan_groups(const struct head_plan *plan, size_t layer, size_t heads, struct head_group *groups)
{
    const struct head_list *list = &plan->lists[layer < plan->num_lists ? layer : plan->num_lists - 1];
    size_t named = 0, sharing = 0;
    for (size_t i = 0; i < list->num_groups; i++) {
        named += list->groups[i].heads;
        sharing += list->groups[i].heads == 0;
    }
    size_t left = named < heads ? heads - named : 0;
    if (sharing == 0 ? named != heads : left == 0 || left % sharing != 0)
        return 0;
    for (size_t i = 0; i < list->num_groups; i++) {
        const struct planned *used = &plan->used[list->groups[i].used];
        size_t own = list->groups[i].heads;
        groups[i] = (struct head_group){used->mechanism, used->options, own > 0 ? own : left / sharing};
    }
    return list->num_groups;
}

hashattn_status head_plan_check(struct host *host, const struct head_plan *plan, size_t layers, size_t heads)
{
    struct head_group groups[HEAD_GROUPS];
    FAIL_IF(plan->num_lists > layers, host, HASHATTN_INVALID,
            "attention '%.60s' has lists for %zu layers, the model has %zu", plan->text, plan->num_lists,
            layers);
    for (size_t layer = 0; layer < plan->num_lists; layer++)
        FAIL_IF(head_plan_groups(plan, layer, heads, groups) == 0, host, HASHATTN_INVALID,
                "attention '%.60s' does not fit %zu heads in layer %zu: numbers must add up to the heads, "
                "and names without a number must be able to share the rest equally",
                plan->text, heads, layer);
    return HASHATTN_OK;
}

hashattn_status head_plan_check_backward(struct host *host, const struct head_plan *plan)
{
    for (size_t i = 0; i < plan->num_used; i++)
        TRY(attention_check_backward(host, plan->used[i].mechanism));
    return HASHATTN_OK;
}
