/* The first rule that matches counts.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/name_map.h"

#include <stdio.h>
#include <string.h>

/* True if `name` is `pattern`, with digits in place of `*`: *digits and *count are where they are in the
   name. */
static bool matches(const char *pattern, const char *name, const char **digits, size_t *count)
{
    const char *star = strchr(pattern, '*');
    size_t head = star == NULL ? strlen(pattern) : (size_t)(star - pattern);
    *digits = name;
    *count = 0;
    if (strncmp(pattern, name, head) != 0)
        return false;
    if (star == NULL)
        return name[head] == '\0';
    *digits = name + head;
    *count = strspn(*digits, "0123456789");
    return *count > 0 && strcmp(*digits + *count, star + 1) == 0;
}

bool name_map_theirs(const struct name_map *map, const char *ours, char *theirs, size_t size)
{
    const char *digits;
    size_t count;
    for (const struct name_rule *rule = map == NULL ? NULL : map->rules; rule != NULL && rule->ours != NULL;
         rule++)
        if (matches(rule->ours, ours, &digits, &count)) {
            size_t head = strcspn(rule->theirs, "*");
            const char *tail = rule->theirs[head] == '*' ? rule->theirs + head + 1 : "";
            int length =
                snprintf(theirs, size, "%.*s%.*s%s", (int)head, rule->theirs, (int)count, digits, tail);
            return length >= 0 && (size_t)length < size;
        }
    int length = snprintf(theirs, size, "%s", ours);
    return length >= 0 && (size_t)length < size;
}

bool name_map_ignores(const struct name_map *map, const char *theirs)
{
    const char *digits;
    size_t count;
    for (const char *const *pattern = map == NULL ? NULL : map->ignored; pattern != NULL && *pattern != NULL;
         pattern++)
        if (matches(*pattern, theirs, &digits, &count))
            return true;
    return false;
}
