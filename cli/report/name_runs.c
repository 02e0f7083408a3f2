/* Names of runs and of their data: the last parts of a path, as few as tell all paths apart. Cost: sorting,
   once for each part that is needed.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli/report/report.h"

struct named_path {
    const char *path, *name;
};

/* The last `parts` parts of a path, without a slash at its end. */
static void tail_of(const char *path, size_t parts, char name[PLOT_NAME])
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    for (size_t i = 0; i < parts && begin > 0; i++)
        for (begin -= i > 0; begin > 0 && path[begin - 1] != '/';)
            begin--;
    size_t size = end - begin;
    if (size >= PLOT_NAME) { /* the end tells more */
        begin = end - (PLOT_NAME - 1);
        size = PLOT_NAME - 1;
    }
    memcpy(name, path + begin, size);
    name[size] = '\0';
}

static int compare(const void *one, const void *other)
{
    const struct named_path *a = one, *b = other;
    int order = strcmp(a->name, b->name);
    return order != 0 ? order : strcmp(a->path, b->path);
}

/* Two different paths have one name; they are then neighbours somewhere. */
static bool is_ambiguous(struct named_path *paths, size_t count)
{
    qsort(paths, count, sizeof *paths, compare);
    for (size_t i = 1; i < count; i++)
        if (strcmp(paths[i - 1].name, paths[i].name) == 0 && strcmp(paths[i - 1].path, paths[i].path) != 0)
            return true;
    return false;
}

bool report_name_runs(struct report_run *runs, size_t count)
{
    enum { MOST_PARTS = 32 };
    struct named_path *paths = calloc(count + 1, sizeof *paths);
    if (paths == NULL)
        return false;
    for (int of_data = 0; of_data < 2; of_data++) {
        bool ambiguous = true;
        for (size_t parts = 1; parts <= MOST_PARTS && ambiguous; parts++) {
            for (size_t i = 0; i < count; i++) {
                char number[HASHATTN_NUMBER_TEXT];
                const hashattn_value *data = hashattn_value_find(runs[i].config, "data");
                const char *path = of_data ? hashattn_value_text(data, number) : runs[i].path;
                char *name = of_data ? runs[i].data : runs[i].name;
                paths[i] = (struct named_path){path != NULL && path != number ? path : "", name};
                tail_of(paths[i].path, parts, name);
            }
            ambiguous = is_ambiguous(paths, count);
        }
    }
    free(paths);
    return true;
}
