/* Gaussian planes are rows of independent normals, scaled to length 1. Orthogonal planes are hash_bits *
   ceil(m / d) independent blocks of at most d orthonormal rows, uniform among such frames (Haar on the
   Stiefel manifold): bit b of every hash comes from blocks of its own. So the bits of one hash are
   independent and the collision probability is exactly (1 - angle/pi)^hash_bits, while different hashes share
   orthogonal blocks and repel, which lowers the variance of their mean. (Putting the bits of one hash into
   one block, as is often done, makes them dependent and biases the probability by up to 64 %.)

   Hadamard planes are rows of blocks H D3 H D2 H D1, H the Hadamard matrix and D random signs (Andoni et al.
   2015, Practical and optimal LSH for angular distance): orthogonal and nearly uniform, for 2 d log2 d
   additions a plane and no normals. `hadamard` arranges them as the orthogonal ones; `hadamard-paper` takes
   the bits of one hash from consecutive rows of one block, as the released code does, and is biased.

   A frame is made from normals x_i in d - i dimensions, i = 0, 1, ...: row i is H_0 H_1 .. H_{i-1} applied
   to (0, x_i / |x_i|), where the reflection H_j acts on coordinates j .. d-1 and maps the line of the j-th
   axis to that of x_j. Each row is thus uniform in the complement of those before it (Stewart 1980, The
   efficient generation of random orthogonal matrices). For r rows about 2 r (r d - r^2 / 3) operations, in
   double, and r d - r^2 / 2 normals; a frame of 32 x 64
   takes about 50 us, of 64 x 64 90 us, half of it for the normals.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/planes.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "parts/yoso_options.h"

/* Work for one frame of r rows: the rows stand side by side in lanes, so that the inner loops run over lanes
   and no sum is re-ordered. */
struct frame {
    size_t rows, dim, lanes; /* lanes: rows, rounded up to HASH_LANES */
    double *row;             /* (dim, lanes): row i in lane i */
    double *axis;            /* (rows, dim): the vectors of the reflections, |axis_j|^2 = 2 */
    float *normal;           /* (dim) */
};

struct planes {
    size_t groups, blocks, block_rows;
    float *values;
    struct frame frame;
    size_t padded; /* hadamard: dim, or the next power of two */
    float *row;    /* (padded) */
};

static bool is_hadamard(int kind)
{
    return kind == YOSO_PLANES_HADAMARD || kind == YOSO_PLANES_HADAMARD_PAPER;
}

static size_t lay_out(struct planes *planes, int kind, size_t num_hashes, size_t hash_bits, size_t dim,
                      void *block)
{
    struct arena arena = arena_on(block);
    planes->groups = (num_hashes + HASH_LANES - 1) / HASH_LANES;
    planes->blocks = (num_hashes + dim - 1) / dim;
    planes->block_rows = num_hashes < dim ? num_hashes : dim;
    planes->values = arena_take(&arena, planes_count(num_hashes, hash_bits, dim), sizeof *planes->values);
    if (kind == YOSO_PLANES_ORTHOGONAL) {
        struct frame *frame = &planes->frame;
        frame->dim = dim;
        frame->lanes = (planes->block_rows + HASH_LANES - 1) / HASH_LANES * HASH_LANES;
        frame->row = arena_take(&arena, size_product(dim, frame->lanes), sizeof *frame->row);
        frame->axis = arena_take(&arena, size_product(dim, planes->block_rows), sizeof *frame->axis);
        frame->normal = arena_take(&arena, dim, sizeof *frame->normal);
    }
    if (is_hadamard(kind)) {
        for (planes->padded = 1; planes->padded < dim && planes->padded <= SIZE_MAX / 4;)
            planes->padded *= 2;
        planes->row = arena_take(&arena, planes->padded, sizeof *planes->row);
    }
    return arena.used;
}

size_t planes_size(int kind, size_t num_hashes, size_t hash_bits, size_t dim)
{
    struct planes planes;
    return lay_out(&planes, kind, num_hashes, hash_bits, dim, NULL);
}

/* Row i as x_i / |x_i| at coordinates i .. dim-1, and the axis of H_i: x/|x| + sign(x_0) e_0, scaled. */
static void start_row(struct frame *frame, size_t i)
{
    size_t n = frame->dim - i;
    double sum = 0, *axis = frame->axis + i * frame->dim + i;
    for (size_t c = 0; c < n; c++)
        sum += (double)frame->normal[c] * (double)frame->normal[c];
    for (size_t c = 0; c < n; c++)
        axis[c] = sum > 0 ? (double)frame->normal[c] / sqrt(sum) : c == 0;
    for (size_t c = 0; c < frame->dim; c++)
        frame->row[c * frame->lanes + i] = c < i ? 0 : axis[c - i];
    /* |x + s e_0|^2 = 2 (1 + |x_0|) for a unit x: scaled to 2, H = I - axis axis^T. */
    double scale = 1 / sqrt(1 + fabs(axis[0]));
    axis[0] += axis[0] < 0 ? -1 : 1;
    for (size_t c = 0; c < n; c++)
        axis[c] *= scale;
}

/* H_j on every row after j, HASH_LANES rows at a time. */
static void reflect(struct frame *frame, size_t j)
{
    const double *axis = frame->axis + j * frame->dim;
    for (size_t first = (j + 1) / HASH_LANES * HASH_LANES; first < frame->lanes; first += HASH_LANES) {
        double dot[HASH_LANES] = {0};
        for (size_t c = j; c < frame->dim; c++) {
            const double *row = frame->row + c * frame->lanes + first;
            for (size_t lane = 0; lane < HASH_LANES; lane++)
                dot[lane] += axis[c] * row[lane];
        }
        for (size_t lane = 0; first + lane <= j && lane < HASH_LANES; lane++)
            dot[lane] = 0;
        for (size_t c = j; c < frame->dim; c++) {
            double *row = frame->row + c * frame->lanes + first, along = axis[c];
            for (size_t lane = 0; lane < HASH_LANES; lane++)
                row[lane] -= dot[lane] * along;
        }
    }
}

static void draw_frame(struct frame *frame, uint64_t key)
{
    memset(frame->row, 0, frame->dim * frame->lanes * sizeof *frame->row);
    for (size_t i = 0; i < frame->rows; i++) {
        random_normals(random_key(key, RANDOM_PLANES, i), 0, frame->normal, frame->dim - i);
        start_row(frame, i);
    }
    for (size_t j = frame->rows; j-- > 0;)
        reflect(frame, j);
}

static float *plane_of(const struct planes *planes, size_t dim, size_t bit, size_t hash)
{
    return planes->values + (bit * planes->groups + hash / HASH_LANES) * dim * HASH_LANES + hash % HASH_LANES;
}

static void draw_orthogonal(struct planes *planes, size_t num_hashes, size_t dim, size_t bit, uint64_t key)
{
    struct frame *frame = &planes->frame;
    for (size_t block = 0; block < planes->blocks; block++) {
        size_t left = num_hashes - block * dim;
        frame->rows = left < dim ? left : dim;
        draw_frame(frame, random_key(key, RANDOM_PLANES, block));
        for (size_t i = 0; i < frame->rows; i++) {
            float *plane = plane_of(planes, dim, bit, block * dim + i);
            for (size_t c = 0; c < dim; c++)
                plane[c * HASH_LANES] = (float)frame->row[c * frame->lanes + i];
        }
    }
}

/* To length 1, which changes no sign; unused planes to 0. */
static void scale_plane(float *plane, size_t dim, bool used)
{
    double sum = 0;
    for (size_t c = 0; c < dim; c++)
        sum += (double)plane[c * HASH_LANES] * (double)plane[c * HASH_LANES];
    double factor = used && sum > 0 ? 1 / sqrt(sum) : 0;
    for (size_t c = 0; c < dim; c++)
        plane[c * HASH_LANES] = (float)((double)plane[c * HASH_LANES] * factor);
}

/* row <- row H, in place: butterflies; H has entries 1 and -1 (Sylvester's order). */
static void transform(float *row, size_t n)
{
    for (size_t half = 1; half < n; half *= 2)
        for (size_t first = 0; first < n; first += 2 * half)
            for (size_t c = first; c < first + half; c++) {
                float a = row[c], b = row[c + half];
                row[c] = a + b;
                row[c + half] = a - b;
            }
}

/* Row i of the block H D3 H D2 H D1 that belongs to the key, by the signs of D3, D2, D1 in that order; of the
   padded row the coordinates past dim meet zeros. */
static void hadamard_plane(struct planes *planes, float *plane, size_t dim, size_t i, uint64_t key)
{
    size_t n = planes->padded;
    for (size_t c = 0; c < n; c++)
        planes->row[c] = __builtin_parityll(i & c) ? -1.0f : 1.0f;
    for (uint64_t round = 0; round < 3; round++) {
        if (round > 0)
            transform(planes->row, n);
        struct random signs = random_open(random_key(key, RANDOM_PLANES, round));
        uint32_t word = 0;
        for (size_t c = 0; c < n; c++) {
            if (c % 32 == 0)
                word = random_next(&signs);
            planes->row[c] *= (word >> (c % 32) & 1) ? 1.0f : -1.0f;
        }
    }
    for (size_t c = 0; c < dim; c++)
        plane[c * HASH_LANES] = planes->row[c];
    scale_plane(plane, dim, true);
}

static void draw_hadamard(struct planes *planes, bool paper, size_t num_hashes, size_t hash_bits, size_t dim,
                          uint64_t key)
{
    size_t per_block = paper ? planes->padded / hash_bits : planes->padded; /* hashes of a block */
    for (size_t bit = 0; bit < hash_bits; bit++)
        for (size_t hash = 0; hash < num_hashes; hash++) {
            size_t row = hash % per_block;
            uint64_t bits = paper ? key : random_key(key, RANDOM_PLANES, bit);
            hadamard_plane(planes, plane_of(planes, dim, bit, hash), dim, paper ? row * hash_bits + bit : row,
                           random_key(bits, RANDOM_PLANES, hash / per_block));
        }
}

void planes_draw(int kind, size_t num_hashes, size_t hash_bits, size_t dim, uint64_t key, void *block)
{
    struct planes planes;
    lay_out(&planes, kind, num_hashes, hash_bits, dim, block);
    size_t bit_floats = planes.groups * HASH_LANES * dim;
    if (is_hadamard(kind)) {
        memset(planes.values, 0, hash_bits * bit_floats * sizeof *planes.values);
        draw_hadamard(&planes, kind == YOSO_PLANES_HADAMARD_PAPER, num_hashes, hash_bits, dim, key);
        return;
    }
    for (size_t bit = 0; bit < hash_bits; bit++) {
        uint64_t bit_key = random_key(key, RANDOM_PLANES, bit);
        if (kind == YOSO_PLANES_ORTHOGONAL) {
            memset(planes.values + bit * bit_floats, 0, bit_floats * sizeof *planes.values);
            draw_orthogonal(&planes, num_hashes, dim, bit, bit_key);
            continue;
        }
        random_normals(bit_key, 0, planes.values + bit * bit_floats, bit_floats);
        for (size_t hash = 0; hash < planes.groups * HASH_LANES; hash++)
            scale_plane(plane_of(&planes, dim, bit, hash), dim, hash < num_hashes);
    }
}

size_t planes_count(size_t num_hashes, size_t hash_bits, size_t dim)
{
    size_t groups = (num_hashes + HASH_LANES - 1) / HASH_LANES;
    return size_product(hash_bits * groups * HASH_LANES, dim);
}

void planes_turn(const struct kernels *kernels, enum hash_projection projection, void *turned,
                 const float *planes, size_t num_hashes, size_t hash_bits, size_t dim, uint64_t key,
                 uint32_t *permutation, float *sign)
{
    size_t groups = (num_hashes + HASH_LANES - 1) / HASH_LANES;
    random_permutation(random_key(key, RANDOM_TURN, 0), permutation, dim);
    random_signs(random_key(key, RANDOM_TURN, 1), sign, dim);
    kernels->hash_planes(turned, hash_projection_of(kernels, projection), planes, hash_bits * groups, dim,
                         permutation, sign);
}
