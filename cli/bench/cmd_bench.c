/* `bench`: the cost of attention on this machine, compared with the machine's peak rates. This file is the
   table of its kinds; each is a command of its own, bench_NAME.c. All use the public headers, so every figure
   includes drawing planes, scaling to unit length, normalisation and the check for NaN.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/bench/bench.h"
#include "cli/shared/options/suggest.h"

static const struct command *const kinds[] = {&bench_attention, &bench_error,  &bench_suggest, &bench_layer,
                                              &bench_step,      &bench_stream, &bench_peak,    &bench_decode,
                                              &bench_cluster,   NULL};
enum { NUM_KINDS = sizeof kinds / sizeof kinds[0] - 1 };

/* The second word of "bench peak". */
static const char *word_of(const struct command *kind)
{
    return strchr(kind->name, ' ') + 1;
}

static int fail_without_kind(const struct command *self, int argc, char **argv)
{
    struct options options;
    options_begin(&options, self);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    const char *words[NUM_KINDS];
    char list[200] = "", near[200];
    for (size_t i = 0, used = 0; i < NUM_KINDS; i++) {
        words[i] = word_of(kinds[i]);
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i == 0 ? "" : ", ", words[i]);
    }
    if (options.num_operands == 0)
        return options_fail(&options, "bench needs one of %s", list);
    suggest(options.operands[0], words, NUM_KINDS, "", near, sizeof near);
    return options_fail(&options, "bench has no kind '%.60s', there are %s%s", options.operands[0], list,
                        near);
}

/* The first argument that names a kind selects it, even after options; the kind gets all other arguments. */
static int run(const struct command *self, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        for (size_t k = 0; k < NUM_KINDS; k++)
            if (strcmp(argv[i], word_of(kinds[k])) == 0) {
                for (int j = i; j > 1; j--)
                    argv[j] = argv[j - 1];
                return kinds[k]->run(kinds[k], argc - 1, argv + 1);
            }
    return fail_without_kind(self, argc, argv);
}

const struct command command_bench = {
    .name = "bench",
    .operands = "KIND",
    .summary = "Measures time, memory and error of attention, or the peak rates of the machine",
    .example = "  hashattn bench attention --attention yoso --seq-len 4096 --backward --json\n"
               "  hashattn bench peak --json\n",
    .kinds = kinds,
    .run = run,
};
