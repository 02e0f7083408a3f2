/* `inspect`: measures the buckets of a trained run, or those that a mechanism would form of its rows, head by
   head: the share of full attention that they capture, compared with the empirical upper bound and with
   hashes that were not learned; the number of buckets per token; and how uneven the buckets would be.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/inspect/findings.h"
#include "cli/shared/options/arguments.h"
#include "cli/shared/output/json_out.h"
#include "cli/shared/tool/outputs.h"
#include "cli/shared/tool/run_open.h"
#include "cli/shared/tool/tool.h"

/* Sums over the heads of a layer, or of all layers. */
static void add_heads(struct membership_sums sums[MEMBERSHIPS], const struct inspected *inspected, bool all,
                      size_t layer)
{
    for (int p = 0; p < MEMBERSHIPS; p++)
        sums[p] = (struct membership_sums){0};
    for (size_t i = 0; i < inspected->num_heads; i++)
        for (int p = 0; p < MEMBERSHIPS && (all || inspected->heads[i].layer == layer); p++)
            membership_add(&sums[p], &inspected->heads[i].sums[p]);
}

/* ---- text ---------------------------------------------------------------------------------------------- */

static void print_row(const char *layer, const char *head, const struct membership_sums sums[MEMBERSHIPS],
                      const char *mechanism)
{
    const struct membership_sums *own = &sums[0];
    printf("%5s %4s %7.1f ", layer, head, 100 * mean_of(own->pairs, own->count));
    for (int p = 0; p < MEMBERSHIPS; p++)
        printf(" %5.1f", 100 * mean_of(sums[p].utility, sums[p].count));
    printf(" %6.1f  ", 100 * mean_of(own->bound, own->count));
    for (size_t i = 0; i < IN_BUCKETS; i++)
        printf(" %5.1f", 100 * mean_of(own->queries_in[i], own->count));
    printf("  ");
    for (int p = 0; p < MEMBERSHIPS; p++)
        printf(" %5.1f", 100 * mean_of(sums[p].sizes_off, sums[p].buckets));
    printf("  ");
    for (int p = 0; p < MEMBERSHIPS; p++)
        printf(" %5.1f", 100 * mean_of(sums[p].ratios_off, sums[p].ratios));
    printf("   %s\n", mechanism);
}

static void print_text(const struct inspected *inspected, const hashattn_model_info *info, const char *split)
{
    const char *const *names = compared_memberships;
    struct membership_sums sums[MEMBERSHIPS];
    printf("%s on %s, %s: %zu sequences of %.0f tokens; %zu buckets; all figures in per cent\n\npairs: pairs "
           "of query and key that share a bucket\nutility: full attention on these pairs; bound: on each "
           "query's best keys, with as many pairs\noff: buckets of more than twice or less than half the "
           "mean size, or with more than twice as many\nqueries as keys or keys as queries, if each token "
           "went to its best bucket\n\n",
           info->mechanism, info->task, split, inspected->sequences,
           (double)inspected->tokens / (double)inspected->sequences, inspected->heads[0].num_buckets);
    printf("%10s %7s %19s %6s %32s %19s %19s\n", "", "pairs", "utility", "",
           "own: queries by number of buckets", "sizes off", "ratios off");
    printf("%5s %4s %7s   %4s %5s %5s %6s   %5s %5s %5s %5s %5s   %5s %5s %5s   %5s %5s %5s\n", "layer",
           "head", "met", names[0], names[1], names[2], "bound", "0", "1", "2", "3", "4+", names[0], names[1],
           names[2], names[0], names[1], names[2]);
    char layer[24], head[24], mechanism[96];
    for (size_t i = 0; i < inspected->num_heads; i++) {
        const struct inspected_head *h = &inspected->heads[i];
        snprintf(mechanism, sizeof mechanism, "%.30s%s%.30s%s%.10s", h->mechanism,
                 h->probe != NULL ? ", own: " : "", h->probe != NULL ? h->probe : "",
                 h->stack != NULL ? ", " : "", h->stack != NULL ? h->stack : "");
        snprintf(layer, sizeof layer, "%zu", h->layer);
        snprintf(head, sizeof head, "%zu", h->head);
        print_row(layer, head, h->sums, mechanism);
        if (i + 1 < inspected->num_heads && inspected->heads[i + 1].layer == h->layer)
            continue;
        add_heads(sums, inspected, false, h->layer);
        print_row(layer, "all", sums, "");
    }
    add_heads(sums, inspected, true, 0);
    print_row("all", "", sums, "");
}

/* ---- JSON ---------------------------------------------------------------------------------------------- */

static void json_shares(struct json_out *json, const char *key, const double *sums, double count)
{
    json_out_array(json, key);
    for (size_t i = 0; i < IN_BUCKETS; i++)
        json_out_number(json, NULL, mean_of(sums[i], count));
    json_out_end_array(json);
}

/* [queries, keys] of each bucket of the first sequence, largest first. */
static void json_buckets(struct json_out *json, const struct bucket_count *counts, size_t num)
{
    json_out_array(json, "buckets");
    for (size_t b = 0; b < num; b++) {
        json_out_array(json, NULL);
        json_out_count(json, NULL, counts[b].queries);
        json_out_count(json, NULL, counts[b].keys);
        json_out_end_array(json);
    }
    json_out_end_array(json);
}

/* head NULL: lists no buckets. */
static void json_memberships(struct json_out *json, const struct membership_sums sums[MEMBERSHIPS],
                             const struct inspected_head *head)
{
    for (int p = 0; p < MEMBERSHIPS; p++) {
        json_out_object(json, compared_memberships[p]);
        json_out_number(json, "utility", mean_of(sums[p].utility, sums[p].count));
        json_out_number(json, "bound", mean_of(sums[p].bound, sums[p].count));
        json_out_number(json, "pairs", mean_of(sums[p].pairs, sums[p].count));
        json_shares(json, "queries_in", sums[p].queries_in, sums[p].count);
        json_shares(json, "keys_in", sums[p].keys_in, sums[p].count);
        json_out_number(json, "sizes_off", mean_of(sums[p].sizes_off, sums[p].buckets));
        json_out_number(json, "ratios_off", mean_of(sums[p].ratios_off, sums[p].ratios));
        if (head != NULL)
            json_buckets(json, head->first[p], head->num_buckets);
        json_out_end_object(json);
    }
}

static void print_json(const struct inspected *inspected, const hashattn_model_info *info, const char *split)
{
    struct json_out json = json_out_to(stdout);
    struct membership_sums sums[MEMBERSHIPS];
    add_heads(sums, inspected, true, 0);
    json_out_object(&json, NULL);
    json_out_text(&json, "task", info->task);
    json_out_text(&json, "attention", info->mechanism);
    json_out_text(&json, "split", split);
    json_out_count(&json, "sequences", inspected->sequences);
    json_out_count(&json, "tokens", inspected->tokens);
    json_out_object(&json, "all");
    json_memberships(&json, sums, NULL);
    json_out_end_object(&json);
    json_out_array(&json, "heads");
    for (size_t i = 0; i < inspected->num_heads; i++) {
        const struct inspected_head *head = &inspected->heads[i];
        json_out_object(&json, NULL);
        json_out_count(&json, "layer", head->layer);
        json_out_count(&json, "head", head->head);
        json_out_text(&json, "attention", head->mechanism);
        if (head->probe != NULL)
            json_out_text(&json, "probe", head->probe);
        if (head->stack != NULL)
            json_out_text(&json, "stack", head->stack);
        json_out_count(&json, "num_buckets", head->num_buckets);
        json_memberships(&json, head->sums, head);
        json_out_end_object(&json);
    }
    json_out_end_array(&json);
    json_out_end_object(&json);
}

/* ---- the command --------------------------------------------------------------------------------------- */

struct inspect_options {
    const char *data, *split, *plots, *probe;
    size_t examples, layer, fit;
};

static int report(const struct options *options, const struct inspect_options *request,
                  const struct inspected *inspected, const hashattn_model_info *info)
{
    int code = EXIT_GOOD;
    if (request->plots != NULL)
        code = inspected_plot(inspected, request->plots, request->layer, options->common.quiet);
    if (code != EXIT_GOOD)
        return code;
    (options->common.json ? print_json : print_text)(inspected, info, request->split);
    return tool_finish();
}

/* Makes the probe if one is given, or if no head has buckets. The options of mechanisms are then its own, and
   otherwise the model's. */
static hashattn_status set_options(const struct options *options, hashattn_context *context,
                                   const struct inspect_options *request, hashattn_model *model,
                                   hashattn_attention **probe)
{
    hashattn_model_info info = {.struct_size = sizeof info};
    hashattn_status status = HASHATTN_OK;
    hashattn_model_describe(model, &info);
    if (request->probe == NULL && info.has_buckets) {
        for (size_t i = 0; i < options->num_settings && status == HASHATTN_OK; i++)
            status = hashattn_model_set(model, options->settings[i].name, options->settings[i].text);
        return status;
    }
    status = options_mechanism(options, context, request->probe == NULL ? "lha" : request->probe, probe);
    if (status == HASHATTN_OK)
        status = hashattn_attention_settle(*probe);
    return status == HASHATTN_OK ? hashattn_model_probe(model, *probe, request->fit) : status;
}

static int inspect(const struct options *options, hashattn_context *context,
                   const struct inspect_options *request)
{
    hashattn_model *model;
    hashattn_attention *probe = NULL;
    struct inspected inspected = {0};
    hashattn_model_info info = {.struct_size = sizeof info};
    hashattn_status status = run_open(context, options->operands[0], &model);
    if (status == HASHATTN_OK)
        status = set_options(options, context, request, model, &probe);
    if (status == HASHATTN_OK) {
        hashattn_model_describe(model, &info);
        status = hashattn_model_inspect(model, request->data, request->split, request->examples,
                                        options->common.seed_given ? options->common.seed : info.seed,
                                        inspected_hear, &inspected);
    }
    int code =
        inspected.no_memory     ? tool_fail(EXIT_RESOURCE, "no memory for the results")
        : status != HASHATTN_OK ? tool_fail_status(context, status)
        : inspected.num_heads == 0
            ? tool_fail(EXIT_FILE, "split %s has no examples, or no head has attention", request->split)
            : report(options, request, &inspected, &info);
    inspected_free(&inspected);
    hashattn_model_free(model);
    hashattn_attention_free(probe);
    return code;
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options;
    struct inspect_options inspect_options = {.split = "valid", .examples = 8, .layer = SIZE_MAX, .fit = 200};
    options_begin(&options, self);
    options_add_text(&options, "data", &inspect_options.data, "DIR",
                     "directory of the data set (default: the one recorded in the run)");
    options_add_split(&options, &inspect_options.split, "train, valid or test (default valid)");
    options_add_count(&options, "examples", &inspect_options.examples, "N",
                      "use the first N examples; 0: all. The cost is quadratic in the length (default 8)", 0,
                      1e9);
    options_add_text(
        &options, "plots", &inspect_options.plots, "DIR",
        "directory for plots of utility and buckets: gnuplot scripts, and SVG if gnuplot is installed");
    options_add_count(&options, "layer", &inspect_options.layer, "N",
                      "layer whose buckets are plotted individually (default: the first layer with buckets)",
                      0, 255);
    options_add_text(
        &options, "probe", &inspect_options.probe, "NAME",
        "lha, lsh or random: measure the buckets that it would form in heads without buckets (default: "
        "lha if no head has buckets). Options of mechanisms are then its own");
    options_add_count(
        &options, "fit", &inspect_options.fit, "N",
        "with --probe lha: fit its hashes to the rows of N training examples first (default 200)", 0, 1e9);
    options_add_mechanisms(&options);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands != 1)
        return options_fail(&options, "inspect needs one operand, the run; got %zu", options.num_operands);
    hashattn_context *context;
    code = tool_open(&options.common, &context);
    if (code == EXIT_GOOD && inspect_options.plots != NULL)
        code = outputs_check_directory(inspect_options.plots);
    if (code == EXIT_GOOD)
        code = inspect(&options, context, &inspect_options);
    tool_close(context);
    return code;
}

const struct command command_inspect = {
    .name = "inspect",
    .operands = "RUN",
    .summary = "Measures how much of full attention the buckets of a trained run capture and how uneven they "
               "are; of "
               "a run without buckets, those that lha, lsh and smyrf would form",
    .example = "  hashattn data needle --out needles --train 2000 --valid 200 --seq-len 128 --marks 8\n"
               "  hashattn train needle --data needles --attention lha --num-buckets 4 --steps 20 "
               "--eval-every 10 --out run\n"
               "  hashattn inspect run --examples 4 --plots plots\n",
    .run = run,
};
