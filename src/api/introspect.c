/* Introspection: lists of mechanisms, their options and tensors; and a mechanism with its options as an
   object.
   SPDX-License-Identifier: Apache-2.0 */
#include "api/introspect.h"
#include "api/floating.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "api/handles.h"
#include "api/operator/operator_plan.h"
#include "api/operator/own_params.h"
#include "api/versions/versions.h"
#include "base/memory.h"

void option_give(hashattn_option *given, const struct option_row *row, const char *owner, const void *values)
{
    static const hashattn_option_type types[] = {
        [OPTION_INT] = HASHATTN_OPTION_INT,       [OPTION_REAL] = HASHATTN_OPTION_REAL,
        [OPTION_CHOICE] = HASHATTN_OPTION_CHOICE, [OPTION_FLAG] = HASHATTN_OPTION_FLAG,
        [OPTION_TEXT] = HASHATTN_OPTION_TEXT,
    };
    hashattn_option own = {.name = row->name,
                           .owner = owner,
                           .type = types[row->type],
                           .minimum = row->minimum,
                           .maximum = row->maximum,
                           .choices = row->type == OPTION_CHOICE ? row->choices : NULL,
                           .help = row->help};
    /* Fill a struct that has only this field with its default. */
    struct option_row alone[2] = {*row};
    alone[0].offset = 0;
    union {
        int64_t whole;
        double real;
        int choice;
        char text[OPTION_TEXT_SIZE];
    } preset;
    options_preset(alone, &preset);
    if (values == NULL)
        option_text(&alone[0], &preset, own.preset, sizeof own.preset);
    else
        option_text(row, values, own.preset, sizeof own.preset);
    version_give(given, &own, sizeof own);
}

static size_t count_rows(const struct option_row *rows)
{
    size_t count = 0;
    while (rows[count].name != NULL)
        count++;
    return count;
}

static size_t count_params(const struct mechanism *mechanism)
{
    size_t count = 0;
    while (mechanism->params != NULL && mechanism->params[count].name != NULL)
        count++;
    return count;
}

size_t hashattn_mechanism_count(void)
{
    const struct mechanism *const *end = attention_mechanisms();
    while (*end != NULL)
        end++;
    return (size_t)(end - attention_mechanisms());
}

int hashattn_mechanism_get(size_t index, hashattn_mechanism_info *info)
{
    static const char *const none[] = {NULL};
    if (index >= hashattn_mechanism_count())
        return 0;
    const struct mechanism *mechanism = attention_mechanisms()[index];
    hashattn_mechanism_info own = {.name = mechanism->name,
                                   .summary = mechanism->summary,
                                   .exact = mechanism->exact,
                                   .num_options = count_rows(mechanism->options),
                                   .num_params = count_params(mechanism),
                                   .departures = mechanism->departures == NULL ? none : mechanism->departures,
                                   .has_own_loss = mechanism->own_loss != NULL};
    version_give(info, &own, sizeof own);
    return 1;
}

int hashattn_mechanism_option(size_t mechanism, size_t option, hashattn_option *info)
{
    FLOATING_DEFAULT;
    if (mechanism >= hashattn_mechanism_count())
        return 0;
    const struct option_row *rows = attention_mechanisms()[mechanism]->options;
    if (option >= count_rows(rows))
        return 0;
    option_give(info, &rows[option], "attention", NULL);
    return 1;
}

hashattn_status hashattn_attention_new(hashattn_context *context, const char *mechanism,
                                       hashattn_attention **attention)
{
    FLOATING_DEFAULT;
    if (attention != NULL)
        *attention = NULL;
    if (context == NULL)
        return HASHATTN_INVALID; /* no context for a message */
    struct host *host = &context->host;
    FAIL_IF(attention == NULL, host, HASHATTN_INVALID, "attention is NULL");
    const struct mechanism *found;
    TRY(attention_named(host, mechanism, &found));
    void *block, *options;
    TRY(memory_new_zeroed(host, 1, sizeof **attention, "attention", &block));
    hashattn_status status = memory_new_zeroed(host, 1, found->options_size, "options", &options);
    if (status != HASHATTN_OK) {
        memory_free(host, block);
        return status;
    }
    options_preset(found->options, options);
    *attention = block;
    **attention = (hashattn_attention){.context = context, .mechanism = found, .options = options};
    return HASHATTN_OK;
}

void hashattn_attention_free(hashattn_attention *attention)
{
    if (attention == NULL)
        return;
    struct host *host = &attention->context->host;
    operator_plan_free(attention);
    memory_free(host, attention->params);
    memory_free(host, attention->options);
    memory_free(host, attention);
}

hashattn_status hashattn_attention_set(hashattn_attention *attention, const char *name, const char *text)
{
    FLOATING_DEFAULT;
    if (attention == NULL)
        return HASHATTN_INVALID;
    struct host *host = &attention->context->host;
    FAIL_IF(name == NULL || text == NULL, host, HASHATTN_INVALID, "%s is NULL",
            name == NULL ? "the name of the option" : "the text of the option");
    const struct mechanism *mechanism = attention->mechanism;
    const struct option_row *row = attention_option(mechanism, name);
    TRY(option_set(host, mechanism->options, mechanism->name, attention->options,
                   row == NULL ? name : row->name, text));
    operator_plan_forget(attention);
    own_params_drop(attention); /* their shapes may depend on the option */
    return HASHATTN_OK;
}

hashattn_status hashattn_attention_get(const hashattn_attention *attention, const char *name, char *text,
                                       size_t size)
{
    FLOATING_DEFAULT;
    if (attention == NULL)
        return HASHATTN_INVALID;
    struct host *host = &attention->context->host;
    FAIL_IF(name == NULL || text == NULL, host, HASHATTN_INVALID, "%s is NULL",
            name == NULL ? "the name of the option" : "the buffer for its text");
    const struct option_row *row = attention_option(attention->mechanism, name);
    FAIL_IF(row == NULL, host, HASHATTN_INVALID, "%s has no option '%.60s'", attention->mechanism->name,
            name);
    hashattn_option option = {.struct_size = sizeof option};
    option_give(&option, row, "attention", attention->options);
    FAIL_IF(strlen(option.preset) >= size, host, HASHATTN_INVALID,
            "the text of %s needs %zu chars, there is room for %zu", name, strlen(option.preset) + 1, size);
    strcpy(text, option.preset);
    return HASHATTN_OK;
}

hashattn_status hashattn_attention_settle(hashattn_attention *attention)
{
    FLOATING_DEFAULT;
    if (attention == NULL)
        return HASHATTN_INVALID;
    operator_plan_forget(attention);
    if (attention->mechanism->hashing != NULL)
        attention->mechanism->hashing->settle(attention->context->kernels, attention->options);
    return HASHATTN_OK;
}

int hashattn_attention_tensor(const hashattn_attention *attention, size_t head_dim, size_t value_dim,
                              size_t max_len, size_t index, hashattn_tensor *tensor)
{
    const struct parameter_sizes sizes = {head_dim, value_dim, max_len};
    const struct parameter_row *row = attention == NULL ? NULL : attention->mechanism->params;
    for (; row != NULL && row->name != NULL; row++) {
        hashattn_tensor own = {.name = row->name};
        row->shape(attention->options, &sizes, &own.rows, &own.cols);
        if (own.rows == 0 || index-- > 0) /* absent with these options, or before the requested one */
            continue;
        version_give(tensor, &own, sizeof own);
        return 1;
    }
    return 0;
}
