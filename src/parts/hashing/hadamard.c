/* A block H D3 H D2 H D1 is orthogonal, and its rows are nearly uniform (Andoni et al. 2015, Practical and
   optimal LSH for angular distance). `hadamard` takes bit b of the hashes from separate blocks, as the
   orthogonal planes do, so the bits of a hash are independent. `hadamard-paper` takes the bits of one hash
   from consecutive rows of one block, as the released code does: they repel, so fewer vectors collide than
   should (table in docs/MATH.md). Vectors whose width is no power of two are padded with zeros.

   In 16-bit fixed point a row starts with length 32767. Each round multiplies by D with a factor that undoes
   the growth of its stages, 0.99 2^-s/2 for s stages; above six stages each group of three has its own
   factor. A sum of 2^k numbers is at most 2^k/2 times their length, and rounding adds at most half a unit to
   each. So a round of s <= 6 stages turns length L into at most 0.99 L + 2^s / 2, and a group of three on w
   numbers into at most 0.99 L + sqrt(2 w); both stay below 32767 up to w = 2^15, and no row overflows.
   Rounding moves a row of 64 by at most 3.2e-3 radians (three roundings of at most 4 units in a length of
   about 4000), and by 9.9e-4 root mean square: one bit in 3,200 flips.

   Cost: 3 bits per coordinate and block.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/hashing/hadamard.h"

#include <string.h>

#include "base/memory.h"
#include "base/random.h"

enum { ROUNDS = 3, GROUP = 3, TOGETHER = 6 };
enum { LEAST_STAGES = 5 }; /* 32 rows: the bits of the longest hash fit in one block */
#define SIGN_BIT 0x80000000u

bool hadamard_is(int planes)
{
    return planes == PLANES_HADAMARD || planes == PLANES_HADAMARD_PAPER;
}

struct shape {
    size_t width, stages;
    size_t bits_of_block; /* see struct hadamard */
    size_t chunks, bits;  /* blocks: per group of hashes in order, and per group of bits */
};

static struct shape shape_of(int planes, size_t num_hashes, size_t hash_bits, size_t dim)
{
    struct shape shape = {.stages = LEAST_STAGES};
    while ((size_t)1 << shape.stages < dim && (size_t)1 << shape.stages <= SIZE_MAX / 4)
        shape.stages++;
    shape.width = (size_t)1 << shape.stages;
    shape.bits_of_block = planes == PLANES_HADAMARD_PAPER ? hash_bits : 1;
    size_t hashes = shape.width / shape.bits_of_block;
    shape.chunks = (num_hashes + hashes - 1) / hashes;
    shape.bits = hash_bits / shape.bits_of_block;
    return shape;
}

static struct shape shape_at(const struct hashing *hashing, size_t dim)
{
    return shape_of(hashing->planes, hashing_drawn(hashing), hashing->hash_bits, dim);
}

static size_t count_signs(const struct shape *shape)
{
    return size_product(shape->width, ROUNDS * shape->chunks * shape->bits);
}

/* ---- once per call: SIGN_BIT or 0 for each sign -------------------------------------------------------- */

size_t hadamard_size(const struct planes_form *form)
{
    struct shape shape = shape_of(form->kind, form->num_hashes, form->hash_bits, form->dim);
    struct arena arena = arena_on(NULL);
    arena_take(&arena, count_signs(&shape), sizeof(uint32_t));
    return arena.used;
}

static void draw_signs(uint32_t *signs, size_t width, uint64_t key)
{
    struct random bits = random_open(key);
    uint32_t word = 0;
    for (size_t c = 0; c < width; c++) {
        if (c % 32 == 0)
            word = random_next(&bits);
        signs[c] = word >> (c % 32) & 1 ? 0 : SIGN_BIT;
    }
}

void hadamard_draw(const struct planes_form *form, uint64_t key, void *block)
{
    struct shape shape = shape_of(form->kind, form->num_hashes, form->hash_bits, form->dim);
    uint32_t *signs = block;
    for (size_t chunk = 0; chunk < shape.chunks; chunk++)
        for (size_t bit = 0; bit < shape.bits; bit++) {
            uint64_t bits = shape.bits_of_block > 1 ? key : random_key(key, RANDOM_PLANES, bit);
            uint64_t own = random_key(bits, RANDOM_PLANES, chunk);
            for (size_t round = ROUNDS; round-- > 0; signs += shape.width) /* D1 is drawn last */
                draw_signs(signs, shape.width, random_key(own, RANDOM_PLANES, round));
        }
}

/* ---- for each head ------------------------------------------------------------------------------------- */

/* 0.99 2^-s/2 in units of 2^-15, in both halves of a word. */
static uint32_t factor_of(size_t stages, bool negative)
{
    static const int16_t factors[TOGETHER + 1] = {0, 22938, 16220, 11469, 8110, 5734, 4055};
    uint32_t half = (uint32_t)(negative ? -factors[stages] : factors[stages]) & 0xffff;
    return half | half << 16;
}

/* Stages of the widest group. */
static size_t widest_of(const struct shape *shape)
{
    return (shape->stages - 1) % GROUP + 1;
}

/* Stages before the next scaling, for the first group of a round. */
static size_t first_stages(const struct shape *shape, size_t round)
{
    return shape->stages <= TOGETHER ? shape->stages : round == 1 ? GROUP : widest_of(shape);
}

size_t hadamard_rotated_count(const struct hashing *hashing, size_t dim)
{
    struct shape shape = shape_at(hashing, dim);
    return size_sum(dim, count_signs(&shape));
}

void hadamard_rotate(const struct hashing *hashing, size_t dim, uint32_t *rotated, const void *block,
                     uint64_t key, uint32_t *permutation, float *sign)
{
    struct shape shape = shape_at(hashing, dim);
    const uint32_t *drawn = block;
    uint32_t *place = rotated, *signs = rotated + dim;
    random_permutation(random_key(key, RANDOM_TURN, 0), permutation, dim);
    random_signs(random_key(key, RANDOM_TURN, 1), sign, dim);
    memcpy(place, permutation, dim * sizeof *place);
    size_t count = count_signs(&shape);
    memcpy(signs, drawn, count * sizeof *signs);
    for (size_t first = 0; first < count; first += ROUNDS * shape.width)
        for (size_t c = 0; c < dim; c++)
            signs[first + place[c]] ^= sign[c] < 0 ? SIGN_BIT : 0;
    if (hashing->projection == HASH_F32)
        return;
    for (size_t i = 0; i < count; i++)
        signs[i] = factor_of(first_stages(&shape, i / shape.width % ROUNDS), signs[i] != 0);
}

struct hadamard hadamard_at(const struct hashing *hashing, size_t dim, const uint32_t *rotated)
{
    struct shape shape = shape_at(hashing, dim);
    struct hadamard planes = {.dim = dim,
                              .stages = shape.stages,
                              .num_hashes = hashing_drawn(hashing),
                              .hash_bits = hashing->hash_bits,
                              .bits_of_block = shape.bits_of_block,
                              .place = rotated,
                              .signs = rotated + dim};
    if (hashing->projection != HASH_F32 && shape.stages > TOGETHER) {
        planes.scale = factor_of(GROUP, false);
        planes.widest_scale = factor_of(widest_of(&shape), false);
    }
    return planes;
}

size_t hadamard_work(const struct hashing *hashing, size_t dim)
{
    struct shape shape = shape_at(hashing, dim);
    size_t hashes = size_min(shape.width / shape.bits_of_block, hashing_drawn(hashing));
    return size_product(size_sum(shape.width, hashes), 2 * HASH_LANES);
}
