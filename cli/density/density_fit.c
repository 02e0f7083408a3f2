/* `density fit`: counts the rows of a file in a new sketch. Memory does not grow with the file.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/density/density_kinds.h"
#include "cli/shared/tool/outputs.h"

struct fit {
    hashattn_context *context;
    const hashattn_density_options *given;
    hashattn_density *density;
};

static hashattn_status make(void *user, size_t dim)
{
    struct fit *fit = user;
    return hashattn_density_new(fit->context, dim, fit->given, &fit->density);
}

static int add(void *user, const float *rows, size_t count)
{
    struct fit *fit = user;
    return density_code(fit->context, hashattn_density_add(fit->density, rows, count));
}

static int work(const struct options *options, struct fit *fit, const char *like, const char *out)
{
    hashattn_density *model = NULL;
    hashattn_status status = HASHATTN_OK;
    if (like != NULL)
        status = hashattn_density_load(fit->context, like, &model);
    if (status == HASHATTN_OK && like != NULL)
        status = hashattn_density_new_like(model, &fit->density);
    hashattn_density_free(model);
    if (status != HASHATTN_OK)
        return tool_fail_status(fit->context, status);
    const struct density_reader reader = {fit->context, fit->density, make, add, fit};
    int code = density_read(&reader, options->operands[0]);
    if (code == EXIT_GOOD)
        code = density_finish(options, fit->context, fit->density, out);
    hashattn_density_free(fit->density);
    return code;
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options;
    struct density_model model;
    const char *like = NULL, *out = NULL;
    options_begin(&options, self);
    options_add_text(&options, "out", &out, "S", "file for the sketch");
    density_model_options(&options, &model);
    options_add_text(
        &options, "like", &like, "S",
        "a sketch whose options, seed and Euclidean map are used, so that the two can be merged");
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands != 1)
        return options_fail(&options, "density fit needs one FILE of rows, .npy or CSV");
    if (out == NULL)
        return options_fail(&options, "density fit needs --out S");
    if (like != NULL &&
        (model.hashes > 0 || model.bits > 0 || model.map != NULL || options.common.seed_given))
        return options_fail(&options, "--like determines --num-hashes, --hash-bits, --map and --seed");
    density_model_take(&options, &model);
    struct fit fit = {.given = &model.options};
    code = tool_open(&options.common, &fit.context);
    if (code == EXIT_GOOD)
        code = outputs_check_inputs("out", out, (const char *const[]){options.operands[0], like}, 2);
    if (code == EXIT_GOOD)
        code = outputs_check_file(out);
    if (code == EXIT_GOOD)
        code = work(&options, &fit, like, out);
    tool_close(fit.context);
    return code;
}

const struct command density_fit = {
    .name = "density fit",
    .operands = "FILE",
    .summary = "Counts the rows of FILE, .npy or CSV (- for CSV on stdin), in a sketch of constant size",
    .example = DENSITY_POINTS "  hashattn density fit points.csv --out points.sketch --seed 1\n",
    .run = run,
};
