/* The name of a kind is the second word of its command's.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/options/kinds.h"

#include <string.h>

#include "cli/shared/options/arguments.h"
#include "cli/shared/options/suggest.h"

enum { MOST_KINDS = 32 };

static const char *name_of(const struct command *kind)
{
    return strchr(kind->name, ' ') + 1;
}

const struct command *kinds_find(const struct command *command, const char *name)
{
    for (const struct command *const *kind = command->kinds; *kind != NULL; kind++)
        if (strcmp(name, name_of(*kind)) == 0)
            return *kind;
    return NULL;
}

static int fail_without_kind(const struct command *self, int argc, char **argv)
{
    struct options options;
    options_begin(&options, self);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    const char *names[MOST_KINDS];
    char list[400] = "", near[200];
    size_t count = 0;
    for (size_t used = 0; count < MOST_KINDS && self->kinds[count] != NULL; count++) {
        names[count] = name_of(self->kinds[count]);
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%s", count == 0 ? "" : ", ", names[count]);
    }
    if (options.num_operands == 0)
        return options_fail(&options, "%s needs one of %s", self->name, list);
    suggest(options.operands[0], names, count, "", near, sizeof near);
    return options_fail(&options, "%s has no kind '%.60s', there are %s%s", self->name, options.operands[0],
                        list, near);
}

int kinds_run(const struct command *self, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const struct command *kind = kinds_find(self, argv[i]);
        if (kind == NULL)
            continue;
        for (int j = i; j > 1; j--)
            argv[j] = argv[j - 1];
        return kind->run(kind, argc - 1, argv + 1);
    }
    return fail_without_kind(self, argc, argv);
}
