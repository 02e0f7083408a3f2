/* `bench step`: training steps on real or generated examples, and where their time goes.
   SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench/bench.h"
#include "cli/shared/output/profile_out.h"

struct step_bench {
    const char *task, *data, *preset, *mechanism;
    size_t repeats;
    hashattn_step_cost cost;
};

/* ---- temporary examples ---- */

/* Makes a temporary directory with generated examples, so many that no step sees one twice. */
static int make_examples(const struct step_bench *b, hashattn_context *context, hashattn_setup *setup,
                         uint64_t seed, char *directory, size_t size)
{
    char text[64];
    const char *base = getenv("TMPDIR");
    snprintf(directory, size, "%s/hashattn-step-XXXXXX", base == NULL || base[0] == '\0' ? "/tmp" : base);
    if (mkdtemp(directory) == NULL)
        return tool_fail(EXIT_RESOURCE, "cannot create %s: %s", directory, strerror(errno));
    size_t counts[3] = {b->repeats, 1, 1};
    static const char *const factors[] = {"batch", "accumulate"};
    for (int i = 0; i < 2; i++)
        if (hashattn_setup_get(setup, factors[i], text, sizeof text) == HASHATTN_OK)
            counts[0] *= strtoull(text, NULL, 10);
    hashattn_status status = hashattn_setup_generate(setup, directory, counts, seed);
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(context, status);
}

static void remove_examples(const char *directory)
{
    char path[4096];
    DIR *open = opendir(directory);
    for (struct dirent *entry; open != NULL && (entry = readdir(open)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        unlink(path); /* fails for "." and ".." */
    }
    if (open != NULL)
        closedir(open);
    rmdir(directory);
}

/* ---- the command ---- */

static void report_text(const struct step_bench *b, hashattn_context *context, const hashattn_description *is)
{
    const hashattn_step_cost *cost = &b->cost;
    printf("step of %s with %s: %zu sequences, %zu tokens of up to %zu, %s, %d thread%s, median of %zu\n",
           b->task, b->mechanism == NULL ? "yoso" : b->mechanism, cost->sequences / cost->steps,
           cost->tokens / cost->steps, cost->longest, is->isa, is->threads, is->threads == 1 ? "" : "s",
           cost->steps);
    printf("  step      %.3f ms, %.0f tokens/s\n", cost->step_ms, cost->tokens_per_second);
    printf("  forward   %.3f ms, in evaluation\n", cost->forward_ms);
    fflush(stdout);
    profile_words(context, "step", cost->steps);
}

static void report_json(const struct step_bench *b, hashattn_context *context, const hashattn_description *is)
{
    const hashattn_step_cost *cost = &b->cost;
    struct json_out json = json_out_to(stdout);
    json_out_object(&json, NULL);
    json_out_text(&json, "task", b->task);
    json_out_text(&json, "attention", b->mechanism == NULL ? "yoso" : b->mechanism);
    json_out_number(&json, "step_ms", cost->step_ms);
    json_out_number(&json, "forward_ms", cost->forward_ms);
    json_out_number(&json, "tokens_per_second", cost->tokens_per_second);
    json_out_count(&json, "steps", cost->steps);
    json_out_count(&json, "sequences_per_step", cost->sequences / cost->steps);
    json_out_number(&json, "tokens_per_step", (double)cost->tokens / (double)cost->steps);
    json_out_count(&json, "longest", cost->longest);
    json_out_number(&json, "loss", cost->loss);
    json_out_count(&json, "saved_bytes", cost->saved_bytes);
    json_out_count(&json, "workspace_bytes", cost->workspace_bytes);
    json_out_count(&json, "forward_bytes", cost->forward_bytes);
    json_out_count(&json, "peak_rss_bytes", hashattn_peak_resident_bytes());
    profile_json(&json, context, cost->steps);
    json_out_text(&json, "isa", is->isa);
    json_out_text(&json, "precision", is->precision);
    json_out_text(&json, "products", is->products);
    json_out_count(&json, "threads", (uint64_t)is->threads);
    json_out_end_object(&json);
}

static int measure(struct step_bench *b, const struct options *options, hashattn_context *context,
                   hashattn_setup *setup)
{
    char directory[4096] = "";
    int code = EXIT_GOOD;
    if (b->data == NULL)
        code = make_examples(b, context, setup, options->common.seed, directory, sizeof directory);
    if (code == EXIT_GOOD) {
        b->cost.struct_size = sizeof b->cost;
        hashattn_status status = hashattn_profile_start(context);
        if (status == HASHATTN_OK)
            status =
                hashattn_measure_step(setup, b->data != NULL ? b->data : directory, b->repeats, &b->cost);
        if (status != HASHATTN_OK)
            code = tool_fail_status(context, status);
    }
    if (directory[0] != '\0')
        remove_examples(directory);
    return code;
}

static int measure_and_report(struct step_bench *b, const struct options *options, hashattn_context *context)
{
    hashattn_setup *setup = NULL;
    hashattn_status status = options_setup(options, context, b->task, b->preset, NULL, b->mechanism, &setup);
    int code =
        status == HASHATTN_OK ? measure(b, options, context, setup) : tool_fail_status(context, status);
    hashattn_setup_free(setup);
    if (code != EXIT_GOOD)
        return code;
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
    struct step_bench b = {.repeats = 10};
    struct options options;
    options_begin(&options, self);
    options_add_text(&options, "data", &b.data, "DIR",
                     "directory of a data set (default: generate temporary examples)");
    options_add_text(&options, "attention", &b.mechanism, "NAME",
                     "mechanism, or several as for train --attention (default yoso)");
    options_add_preset(&options, &b.preset, argv[1]);
    options_add_count(&options, "repeats", &b.repeats, "N", "steps; the median is reported (default 10)", 1,
                      1e6);
    options_add_mechanisms(&options);
    options_add_tasks(&options, NULL, argv[1]);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands != 1)
        return options_fail(&options, "bench step needs one operand, the task; got %zu",
                            options.num_operands);
    b.task = options.operands[0];
    hashattn_context *context;
    code = tool_open(&options.common, &context);
    if (code == EXIT_GOOD)
        code = measure_and_report(&b, &options, context);
    tool_close(context);
    return code;
}

const struct command bench_step = {
    .name = "bench step",
    .operands = "TASK",
    .summary = "Measures training steps part by part, and forward passes, and saves nothing",
    .example = "  hashattn bench step listops --preset lra --attention yoso --repeats 3 --json\n",
    .run = run,
};
