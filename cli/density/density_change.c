/* `density merge` and `density remove`: a sketch with the rows of others, or without those of a file.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/density/density_kinds.h"
#include "cli/shared/tool/outputs.h"

/* What a kind does to the sketch of the first operand. Returns an exit code. */
typedef int change(const struct options *options, hashattn_context *context, hashattn_density *density);

static int work(const struct options *options, hashattn_context *context, const char *out, change *apply)
{
    hashattn_density *density;
    hashattn_status status = hashattn_density_load(context, options->operands[0], &density);
    if (status != HASHATTN_OK)
        return tool_fail_status(context, status);
    int code = apply(options, context, density);
    if (code == EXIT_GOOD)
        code = density_finish(options, context, density, out);
    hashattn_density_free(density);
    return code;
}

/* sketches: of the operands, at most; the others are rows. */
static int start(const struct command *self, int argc, char **argv, const char *needs, size_t least,
                 size_t most, size_t sketches, change *apply)
{
    struct options options;
    const char *out = NULL;
    options_begin(&options, self);
    options_add_text(&options, "out", &out, "S2", "file for the new sketch; it may be one of those read");
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands < least || options.num_operands > most)
        return options_fail(&options, "%s needs %s", self->name, needs);
    if (out == NULL)
        return options_fail(&options, "%s needs --out S2", self->name);
    hashattn_context *context;
    code = tool_open(&options.common, &context);
    for (size_t i = sketches; i < options.num_operands && code == EXIT_GOOD; i++)
        code = outputs_check_inputs("out", out, options.operands + i, 1);
    if (code == EXIT_GOOD)
        code = outputs_check_file(out);
    if (code == EXIT_GOOD)
        code = work(&options, context, out, apply);
    tool_close(context);
    return code;
}

/* ---- merge --------------------------------------------------------------------------------------------- */

static int merge(const struct options *options, hashattn_context *context, hashattn_density *density)
{
    for (size_t i = 1; i < options->num_operands; i++) {
        hashattn_density *other;
        hashattn_status status = hashattn_density_load(context, options->operands[i], &other);
        if (status != HASHATTN_OK)
            return tool_fail_status(context, status);
        status = hashattn_density_merge(density, other);
        hashattn_density_free(other);
        if (status != HASHATTN_OK)
            return tool_fail(hashattn_status_exit_code(status), "%s and %s: %s", options->operands[0],
                             options->operands[i], hashattn_context_message(context));
    }
    return EXIT_GOOD;
}

static int run_merge(const struct command *self, int argc, char **argv)
{
    return start(self, argc, argv, "two sketches or more", 2, MOST_OPERANDS, MOST_OPERANDS, merge);
}

const struct command density_merge = {
    .name = "density merge",
    .operands = "S1 S2...",
    .summary = "Adds sketches, of shards or days: the sum scores bit for bit as one pass over all rows",
    .example = DENSITY_POINTS "  head -n 500 points.csv | hashattn density fit - --out a.sketch\n"
                              "  tail -n 500 points.csv | hashattn density fit - --out b.sketch\n"
                              "  hashattn density merge a.sketch b.sketch --out all.sketch\n",
    .run = run_merge,
};

/* ---- remove -------------------------------------------------------------------------------------------- */

struct removal {
    hashattn_context *context;
    hashattn_density *density;
};

static int take_away(void *user, const float *rows, size_t count)
{
    const struct removal *removal = user;
    return density_code(removal->context, hashattn_density_remove(removal->density, rows, count));
}

static int remove_rows(const struct options *options, hashattn_context *context, hashattn_density *density)
{
    struct removal removal = {context, density};
    const struct density_reader reader = {context, density, NULL, take_away, &removal};
    return density_read(&reader, options->operands[1]);
}

static int run_remove(const struct command *self, int argc, char **argv)
{
    return start(self, argc, argv, "a sketch S and one FILE of rows that it counts", 2, 2, 1, remove_rows);
}

const struct command density_remove = {
    .name = "density remove",
    .operands = "S FILE",
    .summary = "Takes the rows of FILE away again, for windows that slide",
    .example = DENSITY_POINTS "  hashattn density fit points.csv --out all.sketch\n"
                              "  head -n 500 points.csv > old.csv\n"
                              "  hashattn density remove all.sketch old.csv --out new.sketch\n",
    .run = run_remove,
};
