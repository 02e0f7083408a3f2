/* Gradients of a density, and mean shift: calls of the operator yoso, with seed and options of a sketch.
   With values of 1/n, its output is the density and its gradient `true` the unbiased derivative; with unit
   rows as values, its output of length 1 is the mean direction of the rows that collide.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/density/densities.h"
#include "api/floating.h"
#include "base/memory.h"
#include "base/random.h"
#include "density/density_map.h"
#include "density/modes.h"
#include "parts/hashing/unit.h"

/* Points and rows as the operator sees them, and its outputs. */
struct call {
    struct host *host;
    const struct sketch *sketch;
    size_t points, rows, width, value_dim;
    const float *query, *key;         /* (points, width), (rows, width) */
    float *mapped_query, *mapped_key; /* of the Euclidean map */
    float *query_norm, *key_norm;     /* (points), (rows) */
    float *value, *out, *dout;        /* (rows, value_dim), (points, value_dim) twice */
    float *dquery, *dkey, *dvalue;    /* shaped as query, key and value */
    size_t bytes;
};

static void lay_out(struct call *call, void *block, bool backward)
{
    struct arena arena = arena_on(block);
    bool maps = call->sketch->options.map == DENSITY_MAP_EUCLIDEAN;
    size_t row = size_product(call->width, sizeof(float)),
           value = size_product(call->value_dim, sizeof(float));
    size_t rows = maps ? call->rows : 0;
    call->mapped_query = arena_take(&arena, maps || !backward ? call->points : 0, row);
    call->mapped_key = arena_take(&arena, rows, row);
    call->query_norm = arena_take(&arena, size_max(call->points, 1), sizeof(float));
    call->key_norm = arena_take(&arena, size_max(call->rows, 1), sizeof(float));
    call->value = arena_take(&arena, call->rows, value);
    call->out = arena_take(&arena, call->points, value);
    call->dout = arena_take(&arena, backward ? call->points : 0, value);
    call->dquery = arena_take(&arena, backward ? call->points : 0, row);
    call->dkey = arena_take(&arena, backward ? call->rows : 0, row);
    call->dvalue = arena_take(&arena, backward ? call->rows : 0, value);
    call->bytes = arena.used;
}

static hashattn_status check_arrays(const hashattn_density *density, const float *points, size_t num_points,
                                    const float *rows, size_t num_rows)
{
    if (density == NULL)
        return HASHATTN_INVALID;
    struct host *host = &density->context->host;
    FAIL_IF((points == NULL && num_points > 0) || (rows == NULL && num_rows > 0), host, HASHATTN_INVALID,
            "%s is NULL", points == NULL && num_points > 0 ? "points" : "rows");
    FAIL_IF(num_rows == 0, host, HASHATTN_INVALID, "there are no rows");
    FAIL_IF(!density->sketch->mapped, host, HASHATTN_INVALID,
            "the sketch has no Euclidean map yet: rows must be added first");
    return HASHATTN_OK;
}

/* Allocates the call, and maps points and rows. */
static hashattn_status begin(const hashattn_density *density, const float *points, size_t num_points,
                             const float *rows, size_t num_rows, bool backward, struct call *call,
                             void **block)
{
    const struct sketch *sketch = density->sketch;
    *call = (struct call){.host = &density->context->host,
                          .sketch = sketch,
                          .points = num_points,
                          .rows = num_rows,
                          .width = sketch->width,
                          .value_dim = backward ? 1 : sketch->width,
                          .query = points,
                          .key = rows};
    lay_out(call, NULL, backward);
    TRY(memory_new(call->host, call->bytes, 1, "a gradient of densities", block));
    lay_out(call, *block, backward);
    if (sketch->options.map == DENSITY_MAP_NONE)
        return HASHATTN_OK;
    const struct kernels *kernels = sketch->kernels;
    if (!kernels->rows.all_finite(points, sketch->dim, num_points, sketch->dim) ||
        !kernels->rows.all_finite(rows, sketch->dim, num_rows, sketch->dim)) {
        memory_free(call->host, *block);
        return host_fail(call->host, HASHATTN_INVALID, "points or rows have NaN or infinity");
    }
    density_map_take(call->mapped_query, call->query_norm, points, num_points, sketch->dim, sketch->centre,
                     sketch->scale);
    density_map_take(call->mapped_key, call->key_norm, rows, num_rows, sketch->dim, sketch->centre,
                     sketch->scale);
    call->query = call->mapped_query;
    call->key = call->mapped_key;
    return HASHATTN_OK;
}

static hashattn_array array_of(const float *data, size_t rows, size_t width)
{
    return hashattn_array_of_rows((void *)data, 1, rows, width);
}

static hashattn_status set_options(hashattn_attention *attention, const struct sketch *sketch,
                                   const char *normalize)
{
    char hashes[24], bits[24];
    snprintf(hashes, sizeof hashes, "%zu", sketch->options.num_hashes);
    snprintf(bits, sizeof bits, "%zu", sketch->options.hash_bits);
    const char *const set[][2] = {{"num_hashes", hashes},     {"hash_bits", bits},  {"normalize", normalize},
                                  {"projection", "int16-dp"}, {"gradient", "true"}, {"max_partners", "256"}};
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        TRY(hashattn_attention_set(attention, set[i][0], set[i][1]));
    return HASHATTN_OK;
}

/* Forward to call->out and, with dout, backward; `fill` makes dout from out in between. */
static hashattn_status run(const hashattn_density *density, struct call *call, const char *normalize,
                           uint64_t seed, void (*fill)(struct call *call, const void *), const void *of_fill)
{
    hashattn_attention *attention = NULL;
    void *saved = NULL;
    size_t saved_bytes, scratch_bytes;
    hashattn_problem problem;
    hashattn_problem_default(&problem);
    problem.num_queries = call->points;
    problem.num_keys = call->rows;
    problem.head_dim = call->width;
    problem.value_dim = call->value_dim;
    problem.seed = seed;
    const hashattn_array query = array_of(call->query, call->points, call->width),
                         key = array_of(call->key, call->rows, call->width),
                         value = array_of(call->value, call->rows, call->value_dim),
                         out = array_of(call->out, call->points, call->value_dim),
                         dout = array_of(call->dout, call->points, call->value_dim),
                         dquery = array_of(call->dquery, call->points, call->width),
                         dkey = array_of(call->dkey, call->rows, call->width),
                         dvalue = array_of(call->dvalue, call->rows, call->value_dim);
    hashattn_status status = hashattn_attention_new(density->context, "yoso", &attention);
    if (status == HASHATTN_OK)
        status = set_options(attention, call->sketch, normalize);
    if (status == HASHATTN_OK)
        status = hashattn_attention_sizes(attention, &problem, &saved_bytes, &scratch_bytes);
    if (status == HASHATTN_OK && fill != NULL)
        status = memory_new(call->host, saved_bytes, 1, "codes", &saved);
    if (status == HASHATTN_OK)
        status = hashattn_attention_forward(attention, &problem, &query, &key, &value, &out, saved, NULL);
    if (status == HASHATTN_OK && fill != NULL) {
        fill(call, of_fill);
        status = hashattn_attention_backward(attention, &problem, &query, &key, &value, &out, &dout, &dquery,
                                             &dkey, &dvalue, saved, NULL);
    }
    memory_free(call->host, saved);
    hashattn_attention_free(attention);
    return status;
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

struct loss {
    const float *of_density;
    int logarithm;
};

static void fill_dout(struct call *call, const void *of_fill)
{
    const struct loss *loss = of_fill;
    for (size_t i = 0; i < call->points; i++) {
        call->dout[i] = loss->of_density == NULL ? 1 : loss->of_density[i];
        if (loss->logarithm)
            call->dout[i] = call->out[i] > 0 ? call->dout[i] / call->out[i] : 0;
    }
}

/* The gradient of raw points from that of what the operator saw. */
static void give(const struct call *call, float *to, const float *gradient, const float *norm, size_t n)
{
    size_t dim = call->sketch->dim;
    if (to == NULL)
        return;
    if (call->sketch->options.map == DENSITY_MAP_EUCLIDEAN)
        density_map_backward(to, gradient, norm, n, dim, call->sketch->scale);
    else
        memcpy(to, gradient, n * dim * sizeof *to);
}

hashattn_status hashattn_density_gradient(hashattn_density *density, const float *points, size_t num_points,
                                          const float *rows, size_t num_rows, const float *of_density,
                                          int logarithm, float *densities, float *dpoints, float *drows)
{
    FLOATING_DEFAULT;
    struct call call;
    void *block;
    const struct loss loss = {of_density, logarithm};
    TRY(check_arrays(density, points, num_points, rows, num_rows));
    TRY(begin(density, points, num_points, rows, num_rows, true, &call, &block));
    for (size_t i = 0; i < num_rows; i++)
        call.value[i] = 1 / (float)num_rows;
    hashattn_status status = run(density, &call, "none", density->sketch->options.seed, fill_dout, &loss);
    if (status == HASHATTN_OK) {
        if (densities != NULL && num_points > 0)
            memcpy(densities, call.out, num_points * sizeof *densities);
        give(&call, dpoints, call.dquery, call.query_norm, num_points);
        give(&call, drows, call.dkey, call.key_norm, num_rows);
    }
    memory_free(call.host, block);
    return status;
}

/* ---- mean shift ---------------------------------------------------------------------------------------- */

/* One step: call->query, unit rows or raw ones, moves to call->out, unit rows. */
static hashattn_status shift(const hashattn_density *density, struct call *call, uint64_t step)
{
    const struct sketch *sketch = call->sketch;
    size_t width = call->width;
    TRY(run(density, call, "l2", random_key(sketch->options.seed, RANDOM_STEP, step), NULL, NULL));
    for (size_t i = 0; i < call->points; i++) {
        float *to = call->out + i * width;
        double square = 0;
        for (size_t c = 0; c < width; c++)
            square += (double)to[c] * (double)to[c];
        if (square < 0.5) /* it collides with nothing */
            unit_take(sketch->kernels, to, width, call->query_norm, call->query + i * width, width, 1, width);
    }
    return HASHATTN_OK;
}

/* Begins a call whose values are the unit rows. */
static hashattn_status begin_shift(const hashattn_density *density, const float *points, size_t num_points,
                                   const float *rows, size_t num_rows, struct call *call, void **block)
{
    TRY(check_arrays(density, points, num_points, rows, num_rows));
    TRY(begin(density, points, num_points, rows, num_rows, false, call, block));
    unit_take(call->sketch->kernels, call->value, call->width, call->key_norm, call->key, call->width,
              num_rows, call->width);
    return HASHATTN_OK;
}

/* Writes the points of unit row `from` of call->out. */
static void give_point(const struct call *call, float *to, size_t from)
{
    const struct sketch *sketch = call->sketch;
    const float *row = call->out + from * call->width;
    if (sketch->options.map == DENSITY_MAP_EUCLIDEAN)
        density_map_invert(to, row, 1, sketch->dim, sketch->centre, sketch->scale);
    else
        memcpy(to, row, call->width * sizeof *to);
}

hashattn_status hashattn_density_shift(hashattn_density *density, float *points, size_t num_points,
                                       const float *rows, size_t num_rows, uint64_t step)
{
    FLOATING_DEFAULT;
    struct call call;
    void *block;
    TRY(begin_shift(density, points, num_points, rows, num_rows, &call, &block));
    hashattn_status status = shift(density, &call, step);
    for (size_t i = 0; i < num_points && status == HASHATTN_OK; i++)
        give_point(&call, points + i * call.sketch->dim, i);
    memory_free(call.host, block);
    return status;
}

hashattn_status hashattn_density_modes(hashattn_density *density, const float *rows, size_t num_rows,
                                       size_t steps, float *modes, size_t *labels, size_t *num_modes)
{
    FLOATING_DEFAULT;
    struct call call;
    void *block, *work;
    TRY(check_arrays(density, rows, num_rows, rows, num_rows));
    struct host *host = &density->context->host;
    FAIL_IF(modes == NULL || labels == NULL || num_modes == NULL, host, HASHATTN_INVALID, "%s is NULL",
            modes == NULL    ? "modes"
            : labels == NULL ? "labels"
                             : "num_modes");
    TRY(memory_new(host, size_product(num_rows, 3), sizeof *labels, "modes", &work));
    hashattn_status status = begin_shift(density, rows, num_rows, rows, num_rows, &call, &block);
    if (status != HASHATTN_OK) {
        memory_free(host, work);
        return status;
    }
    float *moved = call.mapped_query;
    unit_take(call.sketch->kernels, call.out, call.width, call.query_norm, call.query, call.width, num_rows,
              call.width);
    call.query = moved;
    for (size_t step = 1; step <= steps && status == HASHATTN_OK; step++) {
        memcpy(moved, call.out, num_rows * call.width * sizeof *moved);
        status = shift(density, &call, step);
    }
    if (status == HASHATTN_OK) {
        size_t *first = work;
        *num_modes = modes_group(call.out, num_rows, call.width, call.sketch->options.hash_bits, labels,
                                 first, first + num_rows, first + 2 * num_rows);
        for (size_t k = 0; k < *num_modes; k++)
            give_point(&call, modes + k * call.sketch->dim, first[k]);
    }
    memory_free(call.host, block);
    memory_free(host, work);
    return status;
}
