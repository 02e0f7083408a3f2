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
    static const char *const maps[] = {"none", "euclidean", NULL};
    struct options options;
    hashattn_density_options given;
    size_t hashes = 0, bits = 0;
    const char *map = NULL, *like = NULL, *out = NULL;
    hashattn_density_options_default(&given);
    options_begin(&options, self);
    options_add_text(&options, "out", &out, "S", "file for the sketch");
    options_add_count(&options, "num-hashes", &hashes, "M",
                      "hash tables; the squared error of a density is proportional to 1 / M (default: 32)", 1,
                      4096);
    options_add_count(
        &options, "hash-bits", &bits, "T",
        "rows at angle a count (1 - a/pi)^T: more bits see less of the surroundings of a point, "
        "and need more rows and hashes (default: 9)",
        1, 24);
    options_add_text(
        &options, "map", &map, "MAP",
        "none: rows are directions, such as vectors of texts, and their length does not matter; no "
        "statistics are used, so the sketches of any files can be merged. euclidean: rows are "
        "points, such as measurements; they are centred, each column is scaled by its deviation, "
        "and one more coordinate keeps the length. The first 4,096 rows determine centre and "
        "scale, and sketches with equal ones can be merged: see --like (default: none)");
    options_offer(&options, maps);
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
    if (like != NULL && (hashes > 0 || bits > 0 || map != NULL || options.common.seed_given))
        return options_fail(&options, "--like determines --num-hashes, --hash-bits, --map and --seed");
    given.num_hashes = hashes > 0 ? hashes : given.num_hashes;
    given.hash_bits = bits > 0 ? bits : given.hash_bits;
    given.map = map != NULL ? map : given.map;
    given.seed = options.common.seed;
    struct fit fit = {.given = &given};
    code = tool_open(&options.common, &fit.context);
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
