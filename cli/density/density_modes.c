/* `density modes`: where the rows of a file are densest, by mean shift from every row. The rows are in
   memory: a sketch has counts only.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli/density/density_kinds.h"
#include "cli/shared/output/json_out.h"
#include "cli/shared/tool/outputs.h"
#include "cli/shared/tool/tool.h"

struct modes {
    hashattn_context *context;
    const struct density_model *model;
    hashattn_density *density;
    size_t dim, steps, count, capacity, num_modes;
    float *rows, *modes;          /* (count, dim); (num_modes, dim) */
    size_t *labels, *sizes;       /* (count), (num_modes) */
    const char *out, *labels_out; /* NULL: not wanted */
};

static int no_memory(const struct modes *modes)
{
    return tool_fail(EXIT_RESOURCE, "no memory for %zu rows", modes->count);
}

static hashattn_status make(void *user, size_t dim)
{
    struct modes *modes = user;
    modes->dim = dim;
    return hashattn_density_new(modes->context, dim, &modes->model->options, &modes->density);
}

static int take(void *user, const float *rows, size_t count)
{
    struct modes *modes = user;
    if (modes->count + count > modes->capacity) {
        size_t capacity = 2 * modes->capacity + count;
        float *wider = realloc(modes->rows, capacity * modes->dim * sizeof *wider);
        if (wider == NULL)
            return no_memory(modes);
        modes->rows = wider;
        modes->capacity = capacity;
    }
    memcpy(modes->rows + modes->count * modes->dim, rows, count * modes->dim * sizeof *rows);
    modes->count += count;
    return density_code(modes->context, hashattn_density_add(modes->density, rows, count));
}

static int find(struct modes *modes)
{
    modes->modes = malloc(modes->count * modes->dim * sizeof *modes->modes);
    modes->labels = malloc(modes->count * sizeof *modes->labels);
    modes->sizes = calloc(modes->count, sizeof *modes->sizes);
    if (modes->modes == NULL || modes->labels == NULL || modes->sizes == NULL)
        return no_memory(modes);
    int code = density_code(modes->context,
                            hashattn_density_modes(modes->density, modes->rows, modes->count, modes->steps,
                                                   modes->modes, modes->labels, &modes->num_modes));
    for (size_t i = 0; i < modes->count && code == EXIT_GOOD; i++)
        modes->sizes[modes->labels[i]]++;
    return code;
}

static int give(const struct options *options, const struct modes *modes)
{
    const size_t shape[] = {modes->num_modes, modes->dim};
    int code =
        density_code(modes->context, hashattn_npy_write(modes->context, modes->out, modes->modes, 2, shape));
    if (code == EXIT_GOOD && modes->labels_out != NULL)
        code = density_code(modes->context, hashattn_npy_write_counts(modes->context, modes->labels_out,
                                                                      modes->labels, modes->count));
    if (code != EXIT_GOOD)
        return code;
    if (options->common.json) {
        struct json_out json = json_out_to(stdout);
        json_out_object(&json, NULL);
        json_out_count(&json, "rows", modes->count);
        json_out_array(&json, "modes");
        for (size_t k = 0; k < modes->num_modes; k++)
            json_out_count(&json, NULL, modes->sizes[k]);
        json_out_end_array(&json);
        json_out_end_object(&json);
    } else if (!options->common.quiet) {
        tool_line(stderr, "%s: %zu modes of %zu rows; the first has %zu of them", modes->out,
                  modes->num_modes, modes->count, modes->sizes[0]);
    }
    return tool_finish();
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options;
    struct density_model model;
    struct modes modes = {.model = &model, .steps = 30};
    options_begin(&options, self);
    density_model_options(&options, &model);
    options_add_text(
        &options, "out", &modes.out, "M.npy",
        "the modes, the one that most rows lead to first; unit rows, unless the map is euclidean");
    options_add_text(&options, "labels", &modes.labels_out, "L.npy", "the mode of each row, int64");
    options_add_count(&options, "steps", &modes.steps, "N", "steps of mean shift (default: 30)", 0, 1e6);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands != 1)
        return options_fail(&options, "density modes needs one FILE of rows, .npy or CSV");
    if (modes.out == NULL)
        return options_fail(&options, "density modes needs --out M.npy");
    density_model_take(&options, &model);
    code = tool_open(&options.common, &modes.context);
    if (code == EXIT_GOOD)
        code = outputs_check_inputs("out", modes.out, options.operands, 1);
    if (code == EXIT_GOOD)
        code = outputs_check_inputs("labels", modes.labels_out, options.operands, 1);
    if (code == EXIT_GOOD)
        code = outputs_check_two("labels", modes.labels_out, "out", modes.out);
    if (code == EXIT_GOOD)
        code = outputs_check_file(modes.out);
    if (code == EXIT_GOOD && modes.labels_out != NULL)
        code = outputs_check_file(modes.labels_out);
    const struct density_reader reader = {modes.context, NULL, make, take, &modes};
    if (code == EXIT_GOOD)
        code = density_read(&reader, options.operands[0]);
    if (code == EXIT_GOOD)
        code = find(&modes);
    if (code == EXIT_GOOD)
        code = give(&options, &modes);
    hashattn_density_free(modes.density);
    tool_close(modes.context);
    free(modes.rows);
    free(modes.modes);
    free(modes.labels);
    free(modes.sizes);
    return code;
}

const struct command density_modes = {
    .name = "density modes",
    .operands = "FILE",
    .summary =
        "Finds where the rows of FILE are densest: mean shift from every row, which needs them in memory",
    .example = DENSITY_POINTS "  hashattn density modes points.csv --map euclidean --out modes.npy --labels "
                              "labels.npy\n",
    .run = run,
};
