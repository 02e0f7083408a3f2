/* `info`: the build, the machine, mechanisms and tasks. With --attention: the options of one mechanism, its
   departures from its paper and the released code, and its tensors for the given options.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli/shared/options/arguments.h"
#include "cli/shared/output/facts_out.h"
#include "cli/shared/output/json_out.h"

/* Writes one option row as an array element. */
static void option_json(struct json_out *json, const hashattn_option *row)
{
    static const char *const types[] = {"int", "real", "choice", "flag", "text"};
    json_out_object(json, NULL);
    json_out_text(json, "name", row->name);
    json_out_text(json, "type", types[row->type]);
    if (row->type == HASHATTN_OPTION_CHOICE || row->type == HASHATTN_OPTION_TEXT)
        json_out_text(json, "default", row->preset);
    else if (row->type == HASHATTN_OPTION_FLAG)
        json_out_flag(json, "default", strcmp(row->preset, "true") == 0);
    else
        json_out_number(json, "default", strtod(row->preset, NULL));
    if (row->type == HASHATTN_OPTION_INT || row->type == HASHATTN_OPTION_REAL) {
        json_out_number(json, "minimum", row->minimum);
        json_out_number(json, "maximum", row->maximum);
    }
    if (row->choices != NULL) {
        json_out_array(json, "choices");
        for (const char *const *choice = row->choices; *choice != NULL; choice++)
            json_out_text(json, NULL, *choice);
        json_out_end_array(json);
    }
    json_out_text(json, "help", row->help);
    json_out_end_object(json);
}

/* The GPUs of the machine, or why there are none. */
static void devices_json(struct json_out *json)
{
    char message[512] = "";
    size_t count;
    hashattn_device_info device = {.struct_size = sizeof device};
    hashattn_device_count(message, sizeof message, &count);
    json_out_array(json, "devices");
    for (size_t i = 0; hashattn_device_get(i, &device); i++) {
        char name[40], capability[40];
        snprintf(name, sizeof name, "cuda:%zu", i);
        snprintf(capability, sizeof capability, "%d.%d", device.major, device.minor);
        json_out_object(json, NULL);
        json_out_text(json, "device", name);
        json_out_text(json, "name", device.name);
        json_out_text(json, "compute_capability", capability);
        json_out_count(json, "memory_bytes", device.memory_bytes);
        json_out_end_object(json);
    }
    json_out_end_array(json);
    if (message[0] != '\0')
        json_out_text(json, "no_devices", message);
}

static void devices_words(void)
{
    char message[512] = "";
    size_t count;
    hashattn_device_info device = {.struct_size = sizeof device};
    hashattn_device_count(message, sizeof message, &count);
    printf("\ndevices\n");
    for (size_t i = 0; hashattn_device_get(i, &device); i++)
        printf("  cuda:%zu          %s, compute capability %d.%d, %.1f GiB\n", i, device.name, device.major,
               device.minor, (double)device.memory_bytes / (double)(1 << 30));
    if (count == 0)
        printf("  none            %s\n", message[0] != '\0' ? message : "the NVIDIA driver finds no GPU");
}

static void describe_json(const hashattn_context *context)
{
    struct json_out json = json_out_to(stdout);
    json_out_object(&json, NULL);
    facts_json(&json, context);
    devices_json(&json);
    json_out_array(&json, "mechanisms");
    hashattn_mechanism_info mechanism = {.struct_size = sizeof mechanism};
    for (size_t i = 0; hashattn_mechanism_get(i, &mechanism); i++) {
        json_out_object(&json, NULL);
        json_out_text(&json, "name", mechanism.name);
        json_out_text(&json, "summary", mechanism.summary);
        json_out_flag(&json, "exact", mechanism.exact);
        json_out_end_object(&json);
    }
    json_out_end_array(&json);
    json_out_array(&json, "tasks");
    hashattn_task_info task = {.struct_size = sizeof task};
    for (size_t i = 0; hashattn_task_get(i, &task); i++) {
        json_out_object(&json, NULL);
        json_out_text(&json, "name", task.name);
        json_out_text(&json, "summary", task.summary);
        json_out_flag(&json, "generates", task.generates);
        json_out_flag(&json, "predicts", task.predicts);
        json_out_flag(&json, "prepares", task.prepares);
        json_out_flag(&json, "preset_lra", task.has_lra);
        json_out_array(&json, "presets");
        const char *preset;
        for (size_t k = 0; (preset = hashattn_task_preset(i, k)) != NULL; k++)
            json_out_text(&json, NULL, preset);
        json_out_end_array(&json);
        json_out_end_object(&json);
    }
    json_out_end_array(&json);
    json_out_end_object(&json);
}

static void describe_text(const hashattn_context *context)
{
    facts_words(context);
    devices_words();
    printf("\nmechanisms\n");
    hashattn_mechanism_info mechanism = {.struct_size = sizeof mechanism};
    for (size_t i = 0; hashattn_mechanism_get(i, &mechanism); i++)
        printf("  %-14s  %s\n", mechanism.name, mechanism.summary);
    printf("\ntasks\n");
    hashattn_task_info task = {.struct_size = sizeof task};
    for (size_t i = 0; hashattn_task_get(i, &task); i++)
        printf("  %-14s  %s\n", task.name, task.summary);
    printf("\nhashattn info --attention NAME   options, departures and tensors of a mechanism\n");
}

static int describe_mechanism(const char *name, bool as_json, const hashattn_attention *attention,
                              size_t head_dim, size_t max_len)
{
    size_t index = 0;
    hashattn_mechanism_info info = {.struct_size = sizeof info};
    while (hashattn_mechanism_get(index, &info) && strcmp(info.name, name) != 0)
        index++;
    hashattn_option row = {.struct_size = sizeof row};
    hashattn_tensor tensor = {.struct_size = sizeof tensor};
    if (!as_json) {
        printf("%s: %s\n", info.name, info.summary);
        for (size_t i = 0; hashattn_mechanism_option(index, i, &row); i++)
            printf("  %-16s  %s (default %s)\n", row.name, row.help, row.preset);
        for (const char *const *each = info.departures; *each != NULL; each++)
            printf("  departure: %s\n", *each);
        for (size_t i = 0; hashattn_attention_tensor(attention, head_dim, head_dim, max_len, i, &tensor); i++)
            printf("  tensor %s (%zu, %zu) per head\n", tensor.name, tensor.rows, tensor.cols);
        return tool_finish();
    }
    struct json_out json = json_out_to(stdout);
    json_out_object(&json, NULL);
    json_out_text(&json, "name", info.name);
    json_out_text(&json, "summary", info.summary);
    json_out_flag(&json, "exact", info.exact);
    json_out_array(&json, "options");
    for (size_t i = 0; hashattn_mechanism_option(index, i, &row); i++)
        option_json(&json, &row);
    json_out_end_array(&json);
    json_out_array(&json, "departures");
    for (const char *const *each = info.departures; *each != NULL; each++)
        json_out_text(&json, NULL, *each);
    json_out_end_array(&json);
    json_out_array(&json, "tensors");
    for (size_t i = 0; hashattn_attention_tensor(attention, head_dim, head_dim, max_len, i, &tensor); i++) {
        json_out_object(&json, NULL);
        json_out_text(&json, "name", tensor.name);
        json_out_array(&json, "shape_per_head");
        json_out_count(&json, NULL, tensor.rows);
        json_out_count(&json, NULL, tensor.cols);
        json_out_end_array(&json);
        json_out_end_object(&json);
    }
    json_out_end_array(&json);
    json_out_end_object(&json);
    return tool_finish();
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options;
    const char *name = NULL;
    size_t head_dim = 64, max_len = 4096;
    options_begin(&options, self);
    options_add_text(&options, "attention", &name, "NAME",
                     "describe this mechanism: its options, its departures from its paper, and its tensors "
                     "for the given options");
    options_add_count(&options, "head-dim", &head_dim, "N", "width of a head, for tensor shapes (default 64)",
                      1, 65536);
    options_add_count(&options, "max-len", &max_len, "N",
                      "longest sequence, for tensor shapes (default 4096)", 1, 1e9);
    options_add_mechanisms(&options);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands > 0)
        return options_fail(&options, "info takes no operand, got '%.60s'", options.operands[0]);
    if (name == NULL && options.num_settings > 0)
        return options_fail(&options, "%s is an option of mechanisms; name one with --attention NAME",
                            options.settings[0].name);
    hashattn_context *context;
    code = tool_open(&options.common, &context);
    if (code != EXIT_GOOD)
        return code;
    if (name != NULL) {
        hashattn_attention *attention;
        hashattn_status status = options_mechanism(&options, context, name, &attention);
        code = status != HASHATTN_OK
                   ? tool_fail_status(context, status)
                   : describe_mechanism(name, options.common.json, attention, head_dim, max_len);
        hashattn_attention_free(attention);
    } else {
        (options.common.json ? describe_json : describe_text)(context);
        code = tool_finish();
    }
    tool_close(context);
    return code;
}

const struct command command_info = {
    .name = "info",
    .operands = "",
    .summary = "Lists mechanisms and tasks, and describes the build and the machine",
    .example = "  hashattn info\n  hashattn info --attention yoso --json\n"
               "  hashattn info --attention lha --hash mlp --head-dim 32\n",
    .run = run,
};
