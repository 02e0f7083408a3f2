/* Frames of planes.h, scaled to chi-distributed lengths, and tiles of exponentials.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/features/random_features.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "parts/hashing/planes.h"

struct work {
    float *planes, *normal; /* in the layout of planes_draw; (dim) */
    void *of_planes;
    size_t bytes;
};

static struct work work_on(const struct planes_form *form, size_t workers, void *block)
{
    struct work work;
    struct arena arena = arena_on(block);
    work.planes = arena_take(&arena, planes_count(form), sizeof(float));
    work.normal = arena_take(&arena, form->dim, sizeof(float));
    work.of_planes = arena_take(&arena, planes_work_size(form, workers), 1);
    work.bytes = arena.used;
    return work;
}

static struct planes_form form_of(size_t count, size_t dim)
{
    return (struct planes_form){.kind = PLANES_ORTHOGONAL, .num_hashes = count, .hash_bits = 1, .dim = dim};
}

size_t features_count(size_t count, size_t dim)
{
    return size_product(count, dim);
}

size_t features_work_size(size_t count, size_t dim, size_t workers)
{
    struct planes_form form = form_of(count, dim);
    return work_on(&form, workers, NULL).bytes;
}

void features_draw(const struct kernels *kernels, struct pool *pool, size_t count, size_t dim, uint64_t key,
                   float *directions, void *block)
{
    struct planes_form form = form_of(count, dim);
    struct work work = work_on(&form, (size_t)pool_threads(pool), block);
    double fourth = pow((double)dim, -0.25);
    planes_draw(kernels, pool, &form, key, work.planes, work.of_planes);
    for (size_t r = 0; r < count; r++) {
        double square = 0;
        random_normals(random_key(key, RANDOM_FEATURES, r), 0, work.normal, dim);
        for (size_t c = 0; c < dim; c++)
            square += (double)work.normal[c] * (double)work.normal[c];
        const float *plane = work.planes + r / HASH_LANES * dim * HASH_LANES + r % HASH_LANES;
        for (size_t c = 0; c < dim; c++)
            directions[c * count + r] = (float)(sqrt(square) * fourth * (double)plane[c * HASH_LANES]);
    }
}

/* The products of the other sign. */
static void mirror(const struct features *f, float *products, size_t rows)
{
    size_t drawn = features_directions(f->count, true), mirrored = f->count - drawn;
    for (size_t i = 0; i < rows; i++) {
        const float *restrict from = products + i * f->count;
        float *restrict to = products + i * f->count + drawn;
        for (size_t r = 0; r < mirrored; r++)
            to[r] = -from[r];
    }
}

void features_project(const struct features *f, const float *x, size_t ld_x, size_t rows,
                      const struct feature_rows *to)
{
    float half = 0.5f / sqrtf((float)f->dim);
    size_t drawn = features_directions(f->count, f->both_signs);
    f->kernels->tiles.product(to->products, f->count, x, ld_x, 1, f->directions, drawn, rows, drawn, f->dim,
                              false);
    if (f->both_signs)
        mirror(f, to->products, rows);
    f->kernels->softmax.largest(to->largest, to->products, f->count, rows, f->count);
    f->kernels->rows.dots(to->half, x, ld_x, x, ld_x, rows, f->dim);
    for (size_t i = 0; i < rows; i++)
        to->half[i] *= half;
}

float features_level(const struct feature_rows *from, size_t rows, float shrink)
{
    float level = -INFINITY;
    for (size_t i = 0; i < rows; i++) {
        float exponent = shrink * from->largest[i] - shrink * shrink * from->half[i];
        level = exponent > level ? exponent : level;
    }
    return level;
}

void features_of(const struct features *f, const struct feature_rows *from, size_t rows, float shrink,
                 enum stabiliser stabiliser, float level, float *phi)
{
    for (size_t i = 0; i < rows; i++)
        from->shift[i] =
            stabiliser == STABILISE_ROW ? shrink * from->largest[i] : shrink * shrink * from->half[i] + level;
    f->kernels->softmax.exp(phi, f->count, from->products, f->count, rows, f->count, shrink, from->shift,
                            FEATURES_EPSILON);
}
