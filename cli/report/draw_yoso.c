/* Figures 1, 2 and 6 of Zeng et al. (2021), You only sample (almost) once, from made inputs: the output of
   attention on the sphere, as a map; the weights and their derivatives; attention matrices, which are the
   outputs for the values of an identity matrix. Weights of softmax are exp(tau (x - 1)) of the cosine x, as
   in the paper: rows are scaled so that the score q.k / sqrt(d) is tau x.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/heat.h"
#include "cli/report/report.h"

enum { TAU = 8, LATITUDES = 30, LONGITUDES = 60, SPHERE_KEYS = 32, TOKENS = 64, WIDTH = 64, PATTERNS = 6 };
static const double PI = 3.14159265358979323846;

/* One panel: a mechanism, with its number of hashes as text, or NULL. */
struct panel {
    const char *mechanism, *hashes;
};
static const struct panel panels[] = {{"softmax", NULL}, {"yoso-e", NULL}, {"yoso", "8"}, {"yoso", "64"}};
enum { PANELS = sizeof panels / sizeof *panels };

static void name_panel(const struct panel *panel, char name[40])
{
    snprintf(name, 40, "%s%s%s", panel->mechanism, panel->hashes != NULL ? ", m " : "",
             panel->hashes != NULL ? panel->hashes : "");
}

/* Scales rows (n, d) to the length whose squares give scores tau x. */
static void scale_rows(float *rows, size_t n, size_t d)
{
    double wanted = sqrt(TAU * sqrt((double)d));
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t c = 0; c < d; c++)
            sum += (double)rows[i * d + c] * (double)rows[i * d + c];
        for (size_t c = 0; c < d; c++)
            rows[i * d + c] *= (float)(wanted / sqrt(sum));
    }
}

struct inputs {
    size_t num_queries, num_keys, dim, value_dim;
    float *query, *key, *value, *out;
};

static hashattn_status attend(hashattn_context *context, const struct panel *panel, const struct inputs *in)
{
    hashattn_attention *attention = NULL;
    hashattn_problem problem;
    char bits[8];
    snprintf(bits, sizeof bits, "%d", TAU);
    hashattn_problem_default(&problem);
    problem.num_queries = in->num_queries;
    problem.num_keys = in->num_keys;
    problem.head_dim = in->dim;
    problem.value_dim = in->value_dim;
    problem.seed = 1;
    hashattn_status status = hashattn_attention_new(context, panel->mechanism, &attention);
    if (status == HASHATTN_OK && strcmp(panel->mechanism, "softmax") != 0) {
        status = hashattn_attention_set(attention, "hash_bits", bits);
        if (status == HASHATTN_OK)
            status = hashattn_attention_set(attention, "normalize", "sum");
    }
    if (status == HASHATTN_OK && panel->hashes != NULL)
        status = hashattn_attention_set(attention, "num_hashes", panel->hashes);
    const hashattn_array query = hashattn_array_of_rows(in->query, 1, in->num_queries, in->dim),
                         key = hashattn_array_of_rows(in->key, 1, in->num_keys, in->dim),
                         value = hashattn_array_of_rows(in->value, 1, in->num_keys, in->value_dim),
                         out = hashattn_array_of_rows(in->out, 1, in->num_queries, in->value_dim);
    if (status == HASHATTN_OK)
        status = hashattn_attention_forward(attention, &problem, &query, &key, &value, &out, NULL, NULL);
    hashattn_attention_free(attention);
    return status;
}

static bool inputs_new(struct inputs *in)
{
    in->query = calloc(in->num_queries * in->dim, sizeof(float));
    in->key = calloc(in->num_keys * in->dim, sizeof(float));
    in->value = calloc(in->num_keys * in->value_dim, sizeof(float));
    in->out = calloc(in->num_queries * in->value_dim, sizeof(float));
    return in->query != NULL && in->key != NULL && in->value != NULL && in->out != NULL;
}

static void inputs_free(struct inputs *in)
{
    free(in->query);
    free(in->key);
    free(in->value);
    free(in->out);
}

/* ---- figure 1 ------------------------------------------------------------------------------------------ */

/* Queries in the middle of the cells of a map; random keys and values. */
static void fill_sphere(struct inputs *in)
{
    for (size_t i = 0; i < LATITUDES; i++)
        for (size_t k = 0; k < LONGITUDES; k++) {
            double latitude = PI / 2 - PI * ((double)i + 0.5) / LATITUDES,
                   longitude = -PI + 2 * PI * ((double)k + 0.5) / LONGITUDES;
            float *query = in->query + (i * LONGITUDES + k) * 3;
            query[0] = (float)(cos(latitude) * cos(longitude));
            query[1] = (float)(cos(latitude) * sin(longitude));
            query[2] = (float)sin(latitude);
        }
    hashattn_fill_normal(1, 1, in->key, SPHERE_KEYS * 3);
    hashattn_fill_normal(1, 2, in->value, SPHERE_KEYS);
    scale_rows(in->query, in->num_queries, 3);
    scale_rows(in->key, in->num_keys, 3);
}

static hashattn_status draw_sphere(FILE *page, hashattn_context *context, const struct inputs *in,
                                   const struct panel *panel, size_t number)
{
    char name[40], title[PLOT_NAME];
    name_panel(panel, name);
    snprintf(title, sizeof title, "Output on the sphere: %s", name);
    const struct heat heat = {.title = title,
                              .x = {"longitude of the query", "degrees", PLOT_LINEAR},
                              .y = {"latitude of the query", "degrees", PLOT_LINEAR},
                              .left = -180,
                              .right = 180,
                              .top = 90,
                              .bottom = -90,
                              .value = "output",
                              .unit = "values are standard normal",
                              .rows = LATITUDES,
                              .columns = LONGITUDES,
                              .cells = in->out};
    hashattn_status status = attend(context, panel, in);
    if (status == HASHATTN_OK)
        heat_write(page, &heat, number);
    return status;
}

/* ---- figure 2 ------------------------------------------------------------------------------------------ */

static double weight_softmax(double x)
{
    return exp(TAU * (x - 1));
}

static double weight_collision(double x)
{
    return pow(1 - acos(x) / PI, TAU);
}

static double slope_softmax(double x)
{
    return TAU * weight_softmax(x);
}

/* Infinite at x = 1, which is not drawn. */
static double slope_collision(double x)
{
    return TAU * pow(1 - acos(x) / PI, TAU - 1) / (PI * sqrt(1 - x * x));
}

static double slope_bound(double x)
{
    return TAU / 2.0 * weight_collision(x);
}

static bool draw_curves(FILE *page, bool slopes, size_t number)
{
    static const struct {
        const char *name;
        double (*of)(double);
        bool slope;
    } curves[] = {{"exp(tau (x - 1))", weight_softmax, false},
                  {"(1 - acos(x) / pi)^tau", weight_collision, false},
                  {"derivative of the exponential", slope_softmax, true},
                  {"derivative of the collision probability", slope_collision, true},
                  {"lower bound, tau / 2 times the probability", slope_bound, true}};
    struct plot plot = {.x = {"cosine x of query and key", "1", PLOT_LINEAR},
                        .y = {slopes ? "derivative" : "weight", "1", PLOT_LINEAR}};
    snprintf(plot.title, sizeof plot.title, "%s of attention over the cosine, tau %d",
             slopes ? "Derivatives of the weights" : "Weights", TAU);
    for (size_t i = 0; i < sizeof curves / sizeof *curves; i++) {
        if (curves[i].slope != slopes)
            continue;
        size_t series = plot_series_named(&plot, curves[i].name, plot.count);
        for (int k = -100; k <= 100; k++)
            plot_add(&plot, series, k / 100.0, curves[i].of(k / 100.0));
    }
    bool good = !plot.no_memory;
    plot_write(page, &plot, 400, number);
    plot_free(&plot);
    return good;
}

/* ---- figure 6 ------------------------------------------------------------------------------------------ */

/* Tokens of PATTERNS kinds in runs of different length, with noise; a query attends to keys of its kind. */
static void fill_tokens(struct inputs *in)
{
    float *kinds = in->out; /* overwritten later */
    hashattn_fill_normal(2, 1, kinds, PATTERNS * WIDTH);
    hashattn_fill_normal(2, 2, in->query, TOKENS * WIDTH);
    hashattn_fill_normal(2, 3, in->key, TOKENS * WIDTH);
    for (size_t i = 0; i < TOKENS; i++) {
        size_t kind = (i * i / 23 + i / 7) % PATTERNS;
        for (size_t c = 0; c < WIDTH; c++) {
            in->query[i * WIDTH + c] = kinds[kind * WIDTH + c] + 0.5f * in->query[i * WIDTH + c];
            in->key[i * WIDTH + c] = kinds[kind * WIDTH + c] + 0.5f * in->key[i * WIDTH + c];
        }
        in->value[i * TOKENS + i] = 1;
    }
    scale_rows(in->query, TOKENS, WIDTH);
    scale_rows(in->key, TOKENS, WIDTH);
}

static hashattn_status draw_matrix(FILE *page, hashattn_context *context, const struct inputs *in,
                                   const struct panel *panel, size_t number)
{
    char name[40], title[PLOT_NAME];
    name_panel(panel, name);
    snprintf(title, sizeof title, "Attention matrix: %s", name);
    const struct heat heat = {.title = title,
                              .x = {"position of the key", "tokens", PLOT_LINEAR},
                              .y = {"position of the query", "tokens", PLOT_LINEAR},
                              .right = TOKENS,
                              .bottom = TOKENS,
                              .value = "weight",
                              .unit = "share of the row",
                              .rows = TOKENS,
                              .columns = TOKENS,
                              .cells = in->out};
    hashattn_status status = attend(context, panel, in);
    if (status == HASHATTN_OK)
        heat_write(page, &heat, number);
    return status;
}

int report_write_yoso(FILE *page, hashattn_context *context, size_t *figures)
{
    struct inputs sphere = {LATITUDES * LONGITUDES, SPHERE_KEYS, 3, 1, NULL, NULL, NULL, NULL},
                  tokens = {TOKENS, TOKENS, WIDTH, TOKENS, NULL, NULL, NULL, NULL};
    bool good = inputs_new(&sphere) && inputs_new(&tokens);
    hashattn_status status = HASHATTN_OK;
    if (good) {
        fill_sphere(&sphere);
        fill_tokens(&tokens);
        good = draw_curves(page, false, ++*figures) && draw_curves(page, true, ++*figures);
    }
    for (size_t i = 0; i < PANELS && good && status == HASHATTN_OK; i++)
        status = draw_sphere(page, context, &sphere, &panels[i], ++*figures);
    for (size_t i = 0; i < PANELS && good && status == HASHATTN_OK; i++)
        status = draw_matrix(page, context, &tokens, &panels[i], ++*figures);
    inputs_free(&tokens);
    inputs_free(&sphere);
    if (!good)
        return tool_fail(EXIT_RESOURCE, "no memory for the figures");
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(context, status);
}
