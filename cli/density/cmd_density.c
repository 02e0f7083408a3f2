/* `density`: how dense rows are around a point. This file is the table of its kinds, and what they share.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/density/density_kinds.h"
#include "cli/shared/options/kinds.h"
#include "cli/shared/output/json_out.h"
#include "cli/shared/tool/tool.h"

static const struct command *const kinds[] = {&density_fit,    &density_score, &density_merge,
                                              &density_remove, &density_modes, NULL};

int density_code(const hashattn_context *context, hashattn_status status)
{
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(context, status);
}

static int read_blocks(const struct density_reader *reader, const char *path, hashattn_rows *rows, size_t dim)
{
    hashattn_density_info info = {.dim = dim, .struct_size = sizeof info};
    if (reader->density != NULL)
        hashattn_density_describe(reader->density, &info);
    if (info.dim != dim)
        return tool_fail(EXIT_FILE, "%s: %zu columns, the sketch has %zu", path, dim, info.dim);
    const float *block;
    size_t count = 1;
    hashattn_status status = reader->density == NULL ? reader->make(reader->user, dim) : HASHATTN_OK;
    int code = density_code(reader->context, status);
    while (code == EXIT_GOOD && count > 0) {
        code = density_code(reader->context, hashattn_rows_next(rows, &block, &count));
        if (code == EXIT_GOOD && count > 0)
            code = reader->take(reader->user, block, count);
    }
    return code;
}

int density_read(const struct density_reader *reader, const char *path)
{
    hashattn_rows *rows;
    size_t dim;
    hashattn_status status = hashattn_rows_open(reader->context, path, &rows, &dim);
    if (status != HASHATTN_OK)
        return tool_fail_status(reader->context, status);
    int code = read_blocks(reader, path, rows, dim);
    hashattn_rows_close(rows);
    return code;
}

void density_model_options(struct options *options, struct density_model *model)
{
    static const char *const maps[] = {"none", "euclidean", NULL};
    *model = (struct density_model){.map = NULL};
    options_add_count(options, "num-hashes", &model->hashes, "M",
                      "hash tables; the squared error of a density is proportional to 1 / M (default: 32)", 1,
                      4096);
    options_add_count(
        options, "hash-bits", &model->bits, "T",
        "rows at angle a count (1 - a/pi)^T: more bits see less of the surroundings of a point, "
        "and need more rows and hashes (default: 9)",
        1, 24);
    options_add_text(
        options, "map", &model->map, "MAP",
        "none: rows are directions, such as vectors of texts, and their length does not matter; no "
        "statistics are used, so the sketches of any files can be merged. euclidean: rows are "
        "points, such as measurements; they are centred, each column is scaled by its deviation, "
        "and one more coordinate keeps the length. The first 4,096 rows determine centre and "
        "scale, and sketches with equal ones can be merged: see --like (default: none)");
    options_offer(options, maps);
}

void density_model_take(const struct options *options, struct density_model *model)
{
    hashattn_density_options *made = &model->options;
    hashattn_density_options_default(made);
    made->num_hashes = model->hashes > 0 ? model->hashes : made->num_hashes;
    made->hash_bits = model->bits > 0 ? model->bits : made->hash_bits;
    made->map = model->map != NULL ? model->map : made->map;
    made->seed = options->common.seed;
}

int density_finish(const struct options *options, hashattn_context *context, const hashattn_density *density,
                   const char *out)
{
    hashattn_density_info info = {.struct_size = sizeof info};
    hashattn_density_describe(density, &info);
    hashattn_status status = hashattn_density_save(density, out);
    if (status != HASHATTN_OK)
        return tool_fail_status(context, status);
    if (options->common.json) {
        struct json_out json = json_out_to(stdout);
        json_out_object(&json, NULL);
        json_out_text(&json, "sketch", out);
        json_out_count(&json, "rows", info.rows);
        json_out_count(&json, "columns", info.dim);
        json_out_count(&json, "num_hashes", info.num_hashes);
        json_out_count(&json, "hash_bits", info.hash_bits);
        json_out_text(&json, "map", info.map);
        json_out_count(&json, "seed", info.seed);
        json_out_end_object(&json);
    } else if (!options->common.quiet) {
        tool_line(stderr, "%s: %llu rows of %zu columns, %zu hashes of %zu bits, map %s", out,
                  (unsigned long long)info.rows, info.dim, info.num_hashes, info.hash_bits, info.map);
    }
    return tool_finish();
}

const struct command command_density = {
    .name = "density",
    .operands = "KIND",
    .summary = "Tells how dense rows are around a point, and finds outliers, from one pass over a file",
    .example = DENSITY_POINTS
    "  hashattn density fit points.csv --map euclidean --out points.sketch\n"
    "  hashattn density score points.sketch points.csv --out density.npy --outliers 0.01\n",
    .kinds = kinds,
    .run = kinds_run,
};
