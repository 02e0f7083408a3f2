/* Slot hash.codes_hadamard as plain loops: one row, one block and one stage at a time. Included by ref.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_REF_HADAMARD_H
#define KERNELS_REF_HADAMARD_H

#include <string.h>

#include "kernels/slots_hash.h"

enum { HADAMARD_GROUP = 3 }; /* stages between two scalings of 16-bit numbers */

static float float_of(uint32_t word)
{
    float x;
    memcpy(&x, &word, sizeof x);
    return x;
}

static uint32_t word_of(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    return word;
}

/* The product of a 16-bit number and the factor in the low half of `factor`, rounded as in the contract. */
static uint32_t scaled_half(uint32_t a, uint32_t factor)
{
    return (uint32_t)(((int16_t)a * (int16_t)factor + (1 << 14)) >> 15) & 0xffff;
}

static void scale_halves(uint32_t *x, size_t width, uint32_t factor)
{
    for (size_t c = 0; c < width && factor != 0; c++)
        x[c] = scaled_half(x[c], factor);
}

/* One stage of butterflies: pairs whose indices differ in bit `stage`. */
static void butterflies(enum hash_projection projection, uint32_t *x, size_t width, size_t stage)
{
    size_t half = (size_t)1 << stage;
    for (size_t c = 0; c < width; c++) {
        if (c & half)
            continue;
        uint32_t a = x[c], b = x[c + half];
        if (projection == HASH_F32) {
            x[c] = word_of(float_of(a) + float_of(b));
            x[c + half] = word_of(float_of(a) - float_of(b));
        } else {
            x[c] = (a + b) & 0xffff;
            x[c + half] = (a - b) & 0xffff;
        }
    }
}

static void hadamard_round(enum hash_projection projection, const struct hadamard *planes, uint32_t *x,
                           const uint32_t *signs, bool down)
{
    size_t width = (size_t)1 << planes->stages, last = planes->stages - 1;
    for (size_t c = 0; c < width; c++)
        x[c] = projection == HASH_F32 ? x[c] ^ signs[c] : scaled_half(x[c], signs[c]);
    for (size_t i = 0; i <= last; i++) {
        size_t stage = down ? last - i : i, group = stage / HADAMARD_GROUP;
        size_t before = down ? stage + 1 : stage - 1; /* the stage before this one */
        if (projection != HASH_F32 && i > 0 && before / HADAMARD_GROUP != group)
            scale_halves(x, width, group == last / HADAMARD_GROUP ? planes->widest_scale : planes->scale);
        butterflies(projection, x, width, stage);
    }
}

static void hash_codes_hadamard(void *codes, bool wide, enum hash_projection projection, const void *rows,
                                size_t ld, size_t n, const struct hadamard *planes, uint32_t *work)
{
    size_t width = (size_t)1 << planes->stages, most = width / planes->bits_of_block;
    for (size_t i = 0; i < n; i++) {
        const uint32_t *row = (const uint32_t *)rows + i * ld, *signs = planes->signs;
        for (size_t first = 0; first < planes->num_hashes; first += most)
            for (size_t bit = 0; bit < planes->hash_bits; bit += planes->bits_of_block, signs += 3 * width) {
                memset(work, 0, width * sizeof *work);
                for (size_t c = 0; c < planes->dim; c++)
                    work[planes->place[c]] =
                        projection == HASH_F32 ? row[c] : row[c / 2] >> (c % 2 * 16) & 0xffff;
                for (size_t round = 0; round < 3; round++)
                    hadamard_round(projection, planes, work, signs + round * width, round != 1);
                for (size_t r = 0; r < most * planes->bits_of_block; r++) {
                    size_t hash = first + r / planes->bits_of_block, at = bit + r % planes->bits_of_block;
                    if (hash >= planes->num_hashes)
                        break;
                    bool positive = projection == HASH_F32 ? float_of(work[r]) > 0 : (int16_t)work[r] > 0;
                    uint32_t old = at == 0 ? 0
                                   : wide  ? ((uint32_t *)codes)[i * planes->num_hashes + hash]
                                           : ((uint16_t *)codes)[i * planes->num_hashes + hash];
                    old |= (uint32_t)positive << at;
                    if (wide)
                        ((uint32_t *)codes)[i * planes->num_hashes + hash] = old;
                    else
                        ((uint16_t *)codes)[i * planes->num_hashes + hash] = (uint16_t)old;
                }
            }
    }
}

#define REF_HADAMARD .hash.codes_hadamard = hash_codes_hadamard

#endif
