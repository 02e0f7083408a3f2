/* `bench layer`: one encoder layer on one sequence, compared with the machine's peak rate of products.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "cli/bench/bench.h"
#include "cli/shared/output/profile_out.h"

struct layer_bench {
    const char *mechanism;
    size_t dim, heads, ffn, seq_len, repeats;
    int backward;
    hashattn_layer_cost cost;
    double peak_gflops, products_gflops;
};

/* Adds the model options of a single layer. The widths are options of this command, with other defaults. */
static void add_model_options(struct options *options)
{
    static const char *const names[] = {"conv_window", "norm", "dropout", NULL};
    hashattn_option row = {.struct_size = sizeof row};
    for (size_t i = 0; hashattn_task_option(0, i, &row); i++)
        for (size_t j = 0; names[j] != NULL; j++)
            if (strcmp(row.owner, "model") == 0 && strcmp(row.name, names[j]) == 0)
                options_add_library(options, &row);
}

static hashattn_status measure(struct layer_bench *b, hashattn_context *context, hashattn_setup *setup)
{
    b->cost.struct_size = sizeof b->cost;
    hashattn_status status = hashattn_profile_start(context);
    if (status == HASHATTN_OK)
        status = hashattn_measure_layer(setup, b->seq_len, b->backward, b->repeats, &b->cost);
    hashattn_peak peak = {.struct_size = sizeof peak};
    if (status == HASHATTN_OK)
        status = hashattn_measure_peak(context, 0.2, &peak);
    double operations = b->cost.product_operations * (b->backward ? 3 : 1) * (double)b->cost.repeats;
    b->products_gflops = operations / profile_seconds(context, "products") * 1e-9;
    hashattn_description is = {.struct_size = sizeof is};
    hashattn_context_describe(context, &is);
    b->peak_gflops = strcmp(is.precision, "bf16") == 0 ? peak.bf16_gflops : peak.float32_gflops;
    return status;
}

static void report_text(const struct layer_bench *b, hashattn_context *context,
                        const hashattn_description *is)
{
    printf(
        "layer with %s: %zu wide, %zu heads, feed-forward %zu, %zu tokens, %s, %d thread%s, median of %zu\n",
        b->mechanism, b->dim, b->heads, b->ffn, b->seq_len, is->isa, is->threads, is->threads == 1 ? "" : "s",
        b->cost.repeats);
    printf("  forward   %.3f ms\n", b->cost.forward_ms);
    if (b->backward)
        printf("  backward  %.3f ms\n", b->cost.backward_ms);
    printf("  weights packed in %.3f ms, %s\n", b->cost.lay_ms,
           b->backward ? "in every forward pass, as in a training step"
                       : "once in advance, as in an evaluation");
    printf("  products  %.1f GF/s, %.0f %% of the peak of %.1f\n", b->products_gflops,
           b->products_gflops / b->peak_gflops * 100, b->peak_gflops);
    if (b->cost.library_gflops > 0)
        printf("            %.0f %% of the %.1f GF/s of plain %s on the same products\n",
               b->products_gflops / b->cost.library_gflops * 100, b->cost.library_gflops, is->products);
    fflush(stdout);
    profile_words(context, b->backward ? "forward + backward" : "forward", b->cost.repeats);
}

static void report_json(const struct layer_bench *b, const hashattn_context *context,
                        const hashattn_description *is)
{
    struct json_out json = json_out_to(stdout);
    json_out_object(&json, NULL);
    json_out_text(&json, "attention", b->mechanism);
    json_out_count(&json, "dim", b->dim);
    json_out_count(&json, "heads", b->heads);
    json_out_count(&json, "ffn", b->ffn);
    json_out_count(&json, "seq_len", b->seq_len);
    json_out_number(&json, "forward_ms", b->cost.forward_ms);
    json_out_number(&json, "backward_ms", b->cost.backward_ms);
    json_out_number(&json, "lay_ms", b->cost.lay_ms);
    json_out_count(&json, "repeats", b->cost.repeats);
    json_out_number(&json, "products_gflops", b->products_gflops);
    json_out_number(&json, "peak_gflops", b->peak_gflops);
    json_out_number(&json, "products_share_of_peak", b->products_gflops / b->peak_gflops);
    json_out_number(&json, "library_gflops", b->cost.library_gflops);
    json_out_number(&json, "products_over_library",
                    b->cost.library_gflops > 0 ? b->products_gflops / b->cost.library_gflops : NAN);
    json_out_count(&json, "saved_bytes", b->cost.saved_bytes);
    json_out_count(&json, "workspace_bytes", b->cost.workspace_bytes);
    json_out_count(&json, "peak_rss_bytes", hashattn_peak_resident_bytes());
    profile_json(&json, context, b->cost.repeats);
    json_out_text(&json, "isa", is->isa);
    json_out_text(&json, "precision", is->precision);
    json_out_text(&json, "products", is->products);
    json_out_count(&json, "threads", (uint64_t)is->threads);
    json_out_end_object(&json);
}

static int measure_and_report(struct layer_bench *b, const struct options *options, hashattn_context *context)
{
    hashattn_setup *setup = NULL;
    hashattn_status status =
        bench_new_setup(context, b->mechanism, (size_t[]){b->dim, b->heads, b->ffn}, options, &setup);
    if (status == HASHATTN_OK)
        status = measure(b, context, setup);
    hashattn_setup_free(setup);
    if (status != HASHATTN_OK)
        return tool_fail_status(context, status);
    hashattn_description is = {.struct_size = sizeof is};
    hashattn_context_describe(context, &is);
    if (options->common.json)
        report_json(b, context, &is);
    else
        report_text(b, context, &is);
    return tool_finish();
}

static int run(const struct command *self, int argc, char **argv)
{
    struct layer_bench b = {.mechanism = "yoso", .dim = 768, .heads = 12, .ffn = 3072, .seq_len = 4096};
    struct options options;
    options_begin(&options, self);
    options_add_text(&options, "attention", &b.mechanism, "NAME",
                     "mechanism, or several as for train --attention (default yoso)");
    options_add_count(&options, "seq-len", &b.seq_len, "N", "tokens (default 4096)", 1, 1e9);
    options_add_count(&options, "dim", &b.dim, "N",
                      "width of a token's row, a multiple of heads (default 768)", 1, 16384);
    options_add_count(&options, "heads", &b.heads, "N", "attention heads (default 12)", 1, 256);
    options_add_count(&options, "ffn", &b.ffn, "N", "width of the feed-forward layer (default 3072)", 1,
                      65536);
    options_add_switch(&options, "backward", &b.backward,
                       "as in training: with dropout, and also time the backward pass");
    bench_add_repeats(&options, &b.repeats);
    options_add_mechanisms(&options);
    add_model_options(&options);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands > 0)
        return options_fail(&options, "bench layer takes no operand, got '%.60s'", options.operands[0]);
    hashattn_context *context;
    code = tool_open(&options.common, &context);
    if (code == EXIT_GOOD)
        code = measure_and_report(&b, &options, context);
    tool_close(context);
    return code;
}

const struct command bench_layer = {
    .name = "bench layer",
    .operands = "",
    .summary = "Measures one encoder layer part by part and compares it with the machine's peak",
    .example = "  hashattn bench layer --attention softmax --dim 64 --heads 2 --ffn 128 --seq-len 1024\n"
               "  hashattn bench layer --attention yoso --seq-len 512 --backward --repeats 3 --json\n",
    .run = run,
};
