/* Gaussian planes are rows of independent normals, scaled to length 1. Orthogonal planes are hash_bits *
   ceil(m / d) independent blocks of at most d orthonormal rows, uniform among such frames (Haar on the
   Stiefel manifold): bit b of every hash comes from separate blocks. The bits of one hash are therefore
   independent and the collision probability is exactly (1 - angle/pi)^hash_bits, while different hashes
   share orthogonal blocks and repel, which lowers the variance of their mean. (Taking the bits of one hash
   from one block, as is often done, makes them dependent and biases the probability by up to 64 %.)

   A frame is made from normals x_i in d - i dimensions, i = 0, 1, ...: row i is H_0 H_1 .. H_{i-1} applied
   to (0, x_i / |x_i|), where the reflection H_j acts on coordinates j .. d-1 and maps the line of the j-th
   axis to that of x_j. Each row is thus uniform in the complement of the rows before it (Stewart 1980, The
   efficient generation of random orthogonal matrices). r rows take about 2 r (r d - r^2 / 3) operations, in
   double, and r d - r^2 / 2 normals: a frame of 32 x 64 took 50 us in plain C and takes 10 us now, a third
   each for slot chance.normals, slot chance.reflect and the rest. Frames, or bits if planes are independent,
   are drawn in parallel from their own keys.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/hashing/planes.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"

/* Memory of one thread. */
struct work {
    /* A frame of r rows, interleaved in lanes: inner loops run over lanes, so no sum is re-ordered. */
    size_t lanes;  /* r, rounded up to HASH_LANES */
    double *row;   /* (dim, lanes): row i in lane i */
    double *axis;  /* (r, dim): the vectors of the reflections, |axis_j|^2 = 2 */
    float *normal; /* (dim) */
    size_t bytes;
};

static struct work work_at(const struct planes_form *form, void *block)
{
    struct arena arena = arena_on(block);
    struct work work = {.lanes = 0};
    size_t dim = form->dim;
    if (form->kind == PLANES_ORTHOGONAL) {
        size_t rows = form->num_hashes < dim ? form->num_hashes : dim;
        work.lanes = (rows + HASH_LANES - 1) / HASH_LANES * HASH_LANES;
        work.row = arena_take(&arena, size_product(dim, work.lanes), sizeof *work.row);
        work.axis = arena_take(&arena, size_product(dim, rows), sizeof *work.axis);
        work.normal = arena_take(&arena, dim, sizeof *work.normal);
    }
    work.bytes = arena.used;
    return work;
}

size_t planes_work_size(const struct planes_form *form, size_t workers)
{
    return size_product(work_at(form, NULL).bytes, workers);
}

/* Groups of hashes. */
static size_t count_groups(size_t num_hashes)
{
    return (num_hashes + HASH_LANES - 1) / HASH_LANES;
}

static size_t all_groups(const struct planes_form *form)
{
    return form->dense ? count_groups(form->num_hashes * form->hash_bits)
                       : form->hash_bits * count_groups(form->num_hashes);
}

size_t planes_count(const struct planes_form *form)
{
    return size_product(all_groups(form) * HASH_LANES, form->dim);
}

size_t planes_rotated_count(const struct planes_form *form)
{
    return size_product(all_groups(form) * HASH_LANES, form->dim < 2 ? 2 : form->dim);
}

/* The drawing of a call's planes. */
struct drawing {
    const struct kernels *kernels;
    const struct planes_form *form;
    uint64_t key;
    float *planes;
    unsigned char *work; /* (workers, work_bytes) */
    size_t work_bytes;
};

/* Its coordinates are HASH_LANES apart. */
static float *plane_of(const struct drawing *drawing, size_t bit, size_t hash)
{
    const struct planes_form *form = drawing->form;
    size_t plane =
        form->dense ? hash * form->hash_bits + bit : bit * count_groups(form->num_hashes) * HASH_LANES + hash;
    return drawing->planes + plane / HASH_LANES * form->dim * HASH_LANES + plane % HASH_LANES;
}

/* ---- frames -------------------------------------------------------------------------------------------- */

static double square_of(const float *x, size_t n)
{
    enum { SUMS = 8 };
    double sum[SUMS] = {0};
    for (size_t c = 0; c < n; c++)
        sum[c % SUMS] += (double)x[c] * (double)x[c];
    return ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
}

/* Row i = x_i / |x_i| at coordinates i .. dim-1, and the axis of H_i: x/|x| + sign(x_0) e_0, scaled. */
static void start_row(struct work *work, size_t dim, size_t i)
{
    size_t n = dim - i;
    double square = square_of(work->normal, n), factor = square > 0 ? 1 / sqrt(square) : 0;
    double *axis = work->axis + i * dim + i, *row = work->row + i;
    double first = square > 0 ? (double)work->normal[0] * factor : 1;
    /* |x + s e_0|^2 = 2 (1 + |x_0|) for a unit x: scaled to 2, H = I - axis axis^T. */
    double scale = 1 / sqrt(1 + fabs(first));
    for (size_t c = 0; c < i; c++)
        row[c * work->lanes] = 0;
    for (size_t c = 0; c < n; c++) {
        double x = (double)work->normal[c] * factor;
        row[(i + c) * work->lanes] = x;
        axis[c] = x * scale;
    }
    row[i * work->lanes] = first;
    axis[0] = (first + (first < 0 ? -1 : 1)) * scale;
}

/* Draws the orthonormal rows of a frame; lanes beyond them are undefined. */
static void draw_frame(const struct drawing *drawing, struct work *work, size_t rows, uint64_t key)
{
    size_t dim = drawing->form->dim;
    for (size_t i = 0; i < rows; i++) {
        drawing->kernels->chance.normals(work->normal, random_key(key, RANDOM_PLANES, i), dim - i);
        start_row(work, dim, i);
    }
    for (size_t j = rows; j-- > 0;)
        drawing->kernels->chance.reflect(work->row + j * work->lanes, work->lanes, j + 1,
                                         work->axis + j * dim + j, dim - j);
}

/* Index: (bit, block). */
static void draw_block(void *argument, size_t index, int worker)
{
    const struct drawing *drawing = argument;
    const struct planes_form *form = drawing->form;
    struct work work = work_at(form, drawing->work + (size_t)worker * drawing->work_bytes);
    size_t dim = form->dim, blocks = (form->num_hashes + dim - 1) / dim;
    size_t bit = index / blocks, block = index % blocks, left = form->num_hashes - block * dim;
    size_t rows = left < dim ? left : dim;
    uint64_t bit_key = random_key(drawing->key, RANDOM_PLANES, bit);
    draw_frame(drawing, &work, rows, random_key(bit_key, RANDOM_PLANES, block));
    for (size_t i = 0, run; i < rows; i += run) {
        size_t hash = block * dim + i, lane = hash % HASH_LANES;
        run = HASH_LANES - lane < rows - i ? HASH_LANES - lane : rows - i; /* within one group */
        run = form->dense ? 1 : run;
        float *plane = plane_of(drawing, bit, hash);
        for (size_t c = 0; c < dim; c++)
            for (size_t l = 0; l < run; l++)
                plane[c * HASH_LANES + l] = (float)work.row[c * work.lanes + i + l];
    }
}

/* ---- independent planes -------------------------------------------------------------------------------- */

/* Scales to length 1, which changes no sign; unused planes to 0. */
static void scale_plane(float *plane, size_t dim, bool used)
{
    double sum = 0;
    for (size_t c = 0; c < dim; c++)
        sum += (double)plane[c * HASH_LANES] * (double)plane[c * HASH_LANES];
    double factor = used && sum > 0 ? 1 / sqrt(sum) : 0;
    for (size_t c = 0; c < dim; c++)
        plane[c * HASH_LANES] = (float)((double)plane[c * HASH_LANES] * factor);
}

/* Draws `lanes` adjacent planes, a multiple of HASH_LANES, of which the first `used` are planes. */
static void draw_lanes(const struct drawing *drawing, size_t index, size_t lanes, size_t used)
{
    size_t dim = drawing->form->dim;
    float *planes = drawing->planes + index * lanes * dim;
    drawing->kernels->chance.normals(planes, random_key(drawing->key, RANDOM_PLANES, index), lanes * dim);
    for (size_t lane = 0; lane < lanes; lane++)
        scale_plane(planes + lane / HASH_LANES * dim * HASH_LANES + lane % HASH_LANES, dim, lane < used);
}

/* Index: bit. */
static void draw_gaussian(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct drawing *drawing = argument;
    size_t hashes = drawing->form->num_hashes;
    draw_lanes(drawing, index, count_groups(hashes) * HASH_LANES, hashes);
}

/* Index: group. */
static void draw_gaussian_dense(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct drawing *drawing = argument;
    size_t left = drawing->form->num_hashes * drawing->form->hash_bits - index * HASH_LANES;
    draw_lanes(drawing, index, HASH_LANES, left);
}

void planes_draw(const struct kernels *kernels, struct pool *pool, const struct planes_form *form,
                 uint64_t key, float *planes, void *work)
{
    struct drawing drawing = {.kernels = kernels,
                              .form = form,
                              .key = key,
                              .planes = planes,
                              .work = work,
                              .work_bytes = work_at(form, NULL).bytes};
    if (form->kind == PLANES_GAUSSIAN) {
        pool_run(pool, form->dense ? draw_gaussian_dense : draw_gaussian, &drawing,
                 form->dense ? all_groups(form) : form->hash_bits);
        return;
    }
    memset(planes, 0, planes_count(form) * sizeof *planes); /* clears unused lanes */
    pool_run(pool, draw_block, &drawing, form->hash_bits * ((form->num_hashes + form->dim - 1) / form->dim));
}

void planes_rotate(const struct kernels *kernels, enum hash_projection projection, void *rotated,
                   const float *planes, const struct planes_form *form, uint64_t key, uint32_t *permutation,
                   float *sign)
{
    random_permutation(random_key(key, RANDOM_TURN, 0), permutation, form->dim);
    random_signs(random_key(key, RANDOM_TURN, 1), sign, form->dim);
    kernels->hash.pack_planes(rotated, hash_projection_of(kernels, projection), planes, all_groups(form),
                              form->dim, permutation, sign);
}
