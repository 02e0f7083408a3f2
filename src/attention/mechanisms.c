/* The table of mechanisms. Adding one is its file and one row here; the row's name is the C name, the
   mechanism's own `name` is what people write. SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "attention/attention.h"
#include "base/memory.h"

#define MECHANISMS(X)                                                                                        \
    X(softmax)                                                                                               \
    X(none)                                                                                                  \
    X(yoso)                                                                                                  \
    X(yoso_e)                                                                                                \
    X(lha)                                                                                                   \
    X(lsh)                                                                                                   \
    X(random)                                                                                                \
    X(local)

#define DECLARE(name) extern const struct mechanism mechanism_##name;
MECHANISMS(DECLARE)

#define ROW(name) &mechanism_##name,
static const struct mechanism *const mechanisms[] = {MECHANISMS(ROW) NULL};

const struct mechanism *const *attention_mechanisms(void)
{
    return mechanisms;
}

const struct mechanism *attention_find(const char *name)
{
    for (const struct mechanism *const *mechanism = mechanisms; *mechanism != NULL; mechanism++)
        if (strcmp((*mechanism)->name, name) == 0)
            return *mechanism;
    return NULL;
}

hashattn_status attention_named(struct host *host, const char *name, const struct mechanism **mechanism)
{
    *mechanism = name == NULL ? NULL : attention_find(name);
    if (*mechanism != NULL)
        return HASHATTN_OK;
    char list[300] = "";
    for (const struct mechanism *const *all = mechanisms; *all != NULL; all++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", used == 0 ? "" : ", ", (*all)->name);
    }
    return host_fail(host, HASHATTN_INVALID, "no mechanism '%.60s', there are: %s",
                     name == NULL ? "NULL" : name, list);
}

size_t attention_param_count(const struct mechanism *mechanism, const void *options, size_t head_dim,
                             size_t value_dim)
{
    size_t count = 0;
    if (mechanism->params == NULL)
        return 0;
    for (const struct parameter_row *row = mechanism->params; row->name != NULL; row++) {
        size_t rows, cols;
        row->shape(options, head_dim, value_dim, &rows, &cols);
        count = size_sum(count, size_product(rows, cols));
    }
    return count;
}
