/* `bench peak`: the peak rates of the machine, to which other figures are compared: products in registers or
   the best that the product library reaches, and the sum of arrays larger than the caches.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/bench.h"

static int report(const hashattn_description *is, const hashattn_peak *peak, bool as_json)
{
    if (!as_json) {
        printf("%s, %s, %d thread%s\n", is->processor[0] == '\0' ? "unknown processor" : is->processor,
               is->isa, is->threads, is->threads == 1 ? "" : "s");
        printf("  float32 products  %.1f GF/s\n", peak->float32_gflops);
        printf("  bf16 products     %.1f GF/s\n", peak->bf16_gflops);
        printf("  memory            %.1f GB/s\n", peak->memory_gbytes_per_s);
        printf("  hash codes        %.1f GF/s, %s\n", peak->hash_gflops, is->projection);
        return tool_finish();
    }
    struct json_out json = json_out_to(stdout);
    json_out_object(&json, NULL);
    json_out_number(&json, "float32_gflops", peak->float32_gflops);
    json_out_number(&json, "bf16_gflops", peak->bf16_gflops);
    json_out_number(&json, "memory_gbytes_per_s", peak->memory_gbytes_per_s);
    json_out_number(&json, "hash_gflops", peak->hash_gflops);
    json_out_text(&json, "projection", is->projection);
    json_out_text(&json, "isa", is->isa);
    json_out_text(&json, "products", is->products);
    json_out_text(&json, "processor", is->processor);
    json_out_count(&json, "threads", (uint64_t)is->threads);
    json_out_end_object(&json);
    return tool_finish();
}

static int run(const struct command *self, int argc, char **argv)
{
    double seconds = 0.5;
    struct options options;
    options_begin(&options, self);
    options_add_number(&options, "seconds", &seconds, "X", "seconds per figure (default 0.5)", 0.01, 60);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands != 0)
        return options_fail(&options, "bench peak takes no operand, got '%.60s'", options.operands[0]);
    hashattn_context *context = NULL;
    code = tool_open(&options.common, &context);
    if (code == EXIT_GOOD) {
        hashattn_peak peak = {.struct_size = sizeof peak};
        hashattn_description is = {.struct_size = sizeof is};
        hashattn_context_describe(context, &is);
        hashattn_status status = hashattn_measure_peak(context, seconds, &peak);
        code = status == HASHATTN_OK ? report(&is, &peak, options.common.json)
                                     : tool_fail_status(context, status);
    }
    tool_close(context);
    return code;
}

const struct command bench_peak = {
    .name = "bench peak",
    .operands = "",
    .summary = "Measures the peak rates of this machine: matrix products, memory, hashing",
    .example = "  hashattn bench peak --json\n",
    .run = run,
};
