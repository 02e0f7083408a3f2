/* `bench`: the cost of attention on this machine, compared with the machine's peak rates. This file is the
   table of its kinds; each is a command of its own, bench_NAME.c. All use the public headers, so every figure
   includes drawing planes, scaling to unit length, normalisation and the check for NaN.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/bench.h"
#include "cli/shared/options/kinds.h"

static const struct command *const kinds[] = {&bench_attention, &bench_error,  &bench_suggest, &bench_layer,
                                              &bench_step,      &bench_stream, &bench_peak,    &bench_decode,
                                              &bench_cluster,   NULL};

const struct command command_bench = {
    .name = "bench",
    .operands = "KIND",
    .summary = "Measures time, memory and error of attention, or the peak rates of the machine",
    .example = "  hashattn bench attention --attention yoso --seq-len 4096 --backward --json\n"
               "  hashattn bench peak --json\n",
    .kinds = kinds,
    .run = kinds_run,
};
