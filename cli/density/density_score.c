/* `density score`: the density of each row of a file by a sketch, with its standard error, and the rows of
   lowest density. Memory: one block of rows, and 8 bytes per row.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "cli/density/density_kinds.h"
#include "cli/shared/output/json_out.h"
#include "cli/shared/tool/outputs.h"

struct score {
    hashattn_context *context;
    hashattn_density *density;
    const char *out, *errors_out; /* NULL: not wanted */
    double outliers;              /* a share; below 0: not wanted */
    float *densities, *errors;    /* (count) */
    size_t count, capacity;
    size_t *lowest; /* (num_lowest) rows, the lowest density first */
    size_t num_lowest;
};

static int no_memory(const struct score *score)
{
    return tool_fail(EXIT_RESOURCE, "no memory for the densities of %zu rows", score->count);
}

static int add(void *user, const float *rows, size_t count)
{
    struct score *score = user;
    if (score->count + count > score->capacity) {
        size_t capacity = 2 * score->capacity + count;
        float *densities = realloc(score->densities, capacity * sizeof *densities);
        score->densities = densities != NULL ? densities : score->densities;
        float *errors = realloc(score->errors, capacity * sizeof *errors);
        score->errors = errors != NULL ? errors : score->errors;
        if (densities == NULL || errors == NULL)
            return no_memory(score);
        score->capacity = capacity;
    }
    size_t first = score->count;
    score->count += count;
    return density_code(
        score->context,
        hashattn_density_score(score->density, rows, count, score->densities + first, score->errors + first));
}

/* ---- outliers ------------------------------------------------------------------------------------------ */

struct ranked {
    float density;
    size_t row;
};

static int by_density(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->density != y->density)
        return x->density < y->density ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* The rows below the quantile as numpy.quantile has it: ceil(share (count - 1)) of them, equal densities by
   their order. */
static int find_lowest(struct score *score)
{
    if (score->outliers < 0)
        return EXIT_GOOD;
    score->num_lowest = (size_t)ceil(score->outliers * (double)(score->count - 1));
    struct ranked *ranked = malloc(score->count * sizeof *ranked);
    score->lowest = malloc((score->num_lowest + 1) * sizeof *score->lowest);
    if (ranked == NULL || score->lowest == NULL) {
        free(ranked);
        return no_memory(score);
    }
    for (size_t i = 0; i < score->count; i++)
        ranked[i] = (struct ranked){score->densities[i], i};
    qsort(ranked, score->count, sizeof *ranked, by_density);
    for (size_t i = 0; i < score->num_lowest; i++)
        score->lowest[i] = ranked[i].row;
    free(ranked);
    return EXIT_GOOD;
}

/* ---- results ------------------------------------------------------------------------------------------- */

static double mean_of(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i];
    return sum / (double)n;
}

static void report(const struct options *options, const struct score *score)
{
    double density = mean_of(score->densities, score->count), error = mean_of(score->errors, score->count);
    if (options->common.json) {
        struct json_out json = json_out_to(stdout);
        json_out_object(&json, NULL);
        json_out_count(&json, "rows", score->count);
        json_out_number(&json, "mean_density", density);
        json_out_number(&json, "mean_standard_error", error);
        if (score->outliers >= 0)
            json_out_array(&json, "outliers");
        for (size_t i = 0; i < score->num_lowest; i++) {
            size_t row = score->lowest[i];
            json_out_object(&json, NULL);
            json_out_count(&json, "row", row);
            json_out_number(&json, "density", (double)score->densities[row]);
            json_out_number(&json, "standard_error", (double)score->errors[row]);
            json_out_end_object(&json);
        }
        if (score->outliers >= 0)
            json_out_end_array(&json);
        json_out_end_object(&json);
        return;
    }
    if (!options->common.quiet)
        fprintf(stderr, "%zu rows: mean density %.4g, mean standard error %.2g\n", score->count, density,
                error);
    if (score->num_lowest > 0)
        printf("row\tdensity\tstandard error\n");
    for (size_t i = 0; i < score->num_lowest; i++)
        printf("%zu\t%.6g\t%.2g\n", score->lowest[i], (double)score->densities[score->lowest[i]],
               (double)score->errors[score->lowest[i]]);
}

static int work(const struct options *options, struct score *score)
{
    hashattn_status status = hashattn_density_load(score->context, options->operands[0], &score->density);
    if (status != HASHATTN_OK)
        return tool_fail_status(score->context, status);
    const struct density_reader reader = {score->context, score->density, NULL, add, score};
    int code = density_read(&reader, options->operands[1]);
    if (code == EXIT_GOOD)
        code = find_lowest(score);
    if (code != EXIT_GOOD)
        return code;
    const struct {
        const char *path;
        const float *data;
    } arrays[] = {{score->out, score->densities}, {score->errors_out, score->errors}};
    for (size_t i = 0; i < 2; i++)
        if (arrays[i].path != NULL) {
            status = hashattn_npy_write(score->context, arrays[i].path, arrays[i].data, 1, &score->count);
            if (status != HASHATTN_OK)
                return tool_fail_status(score->context, status);
        }
    report(options, score);
    return tool_finish();
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options;
    struct score score = {.outliers = -1};
    options_begin(&options, self);
    options_add_text(&options, "out", &score.out, "D.npy", "the density of each row, float32");
    options_add_text(&options, "errors", &score.errors_out, "E.npy",
                     "the standard error of each density, from the differences between the hashes, float32");
    options_add_number(&options, "outliers", &score.outliers, "X",
                       "print the rows whose density is below the X quantile of FILE, the lowest first; rows "
                       "count from 0 (0.01: the lowest hundredth)",
                       0, 1);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands != 2)
        return options_fail(&options, "density score needs a sketch S and one FILE of rows, .npy or CSV");
    if (score.out == NULL && score.errors_out == NULL && score.outliers < 0)
        return options_fail(&options, "density score needs --out D.npy or --outliers X");
    code = tool_open(&options.common, &score.context);
    if (code == EXIT_GOOD)
        code = outputs_check_inputs("out", score.out, options.operands, 2);
    if (code == EXIT_GOOD)
        code = outputs_check_inputs("errors", score.errors_out, options.operands, 2);
    if (code == EXIT_GOOD)
        code = outputs_check_two("errors", score.errors_out, "out", score.out);
    if (code == EXIT_GOOD && score.out != NULL)
        code = outputs_check_file(score.out);
    if (code == EXIT_GOOD && score.errors_out != NULL)
        code = outputs_check_file(score.errors_out);
    if (code == EXIT_GOOD)
        code = work(&options, &score);
    hashattn_density_free(score.density);
    tool_close(score.context);
    free(score.densities);
    free(score.errors);
    free(score.lowest);
    return code;
}

const struct command density_score = {
    .name = "density score",
    .operands = "S FILE",
    .summary = "Estimates the density of each row of FILE, larger is denser, and names outliers",
    .example =
        DENSITY_POINTS "  hashattn density fit points.csv --out points.sketch\n"
                       "  hashattn density score points.sketch points.csv --out density.npy --outliers "
                       "0.01\n",
    .run = run,
};
