/* Lookups in the table of mechanisms.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/driver/mechanisms.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

const struct mechanism *const *attention_mechanisms(void)
{
    return mechanism_table;
}

const struct mechanism *attention_find(const char *name)
{
    for (const struct mechanism *const *mechanism = mechanism_table; *mechanism != NULL; mechanism++)
        if (strcmp((*mechanism)->name, name) == 0)
            return *mechanism;
    return NULL;
}

hashattn_status attention_named(struct host *host, const char *name, const struct mechanism **mechanism)
{
    *mechanism = name == NULL ? NULL : attention_find(name);
    if (*mechanism != NULL)
        return HASHATTN_OK;
    char list[400] = "";
    for (const struct mechanism *const *all = mechanism_table; *all != NULL; all++) {
        size_t used = strlen(list), room = sizeof list - used;
        if (strlen((*all)->name) + sizeof ", ..., " > room) {
            snprintf(list + used, room, ", ...");
            break;
        }
        snprintf(list + used, room, "%s%s", used == 0 ? "" : ", ", (*all)->name);
    }
    return host_fail(host, HASHATTN_INVALID, "no mechanism '%.60s', there are: %s",
                     name == NULL ? "NULL" : name, list);
}

void attention_shared_names(char *list, size_t size)
{
    list[0] = '\0';
    for (const struct mechanism *const *all = mechanism_table; *all != NULL; all++) {
        size_t used = strlen(list);
        if ((*all)->ranks != NULL || !(*all)->mixes)
            snprintf(list + used, size - used, "%s%s", used == 0 ? "" : ", ", (*all)->name);
    }
}

const struct option_row *attention_option(const struct mechanism *mechanism, const char *name)
{
    size_t size = strlen(mechanism->name);
    bool scoped = strncmp(name, mechanism->name, size) == 0 && name[size] == '.';
    return option_find(mechanism->options, scoped ? name + size + 1 : name);
}

bool attention_places(const struct mechanism *mechanism, const void *options, size_t head_dim)
{
    const struct parameter_sizes sizes = {.head_dim = head_dim, .value_dim = head_dim};
    size_t rows = 0, cols;
    for (const struct parameter_row *row = mechanism->params; row != NULL && row->name != NULL; row++)
        if (rows == 0 && row->places)
            row->shape(options, &sizes, &rows, &cols);
    return rows > 0;
}

size_t attention_param_count(const struct mechanism *mechanism, const void *options,
                             const struct parameter_sizes *sizes)
{
    size_t count = 0;
    if (mechanism->params == NULL)
        return 0;
    for (const struct parameter_row *row = mechanism->params; row->name != NULL; row++) {
        size_t rows, cols;
        row->shape(options, sizes, &rows, &cols);
        count = size_sum(count, size_product(rows, cols));
    }
    return count;
}
