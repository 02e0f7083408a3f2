/* hash.codes_hadamard on every table, bit for bit against its contract, written as arrays stage by stage.
   test_hadamard.c tests that the contract is a transform by Hadamard matrices. Bugs planted and caught:
   the last token's row for the wrong lanes; the odd coordinate of the second half taken from the even one;
   the third round from the narrowest stage up; too few rows kept of it; bits from 16 on in the words of the
   first; >= for > in the bit; the widest group not scaled; a difference of floats rounded twice.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "kernels/slots.h"

enum { MOST_WIDTH = 1024, ROUNDS = 3 };

struct setting {
    size_t n, dim, stages, num_hashes, hash_bits, bits_of_block;
    enum hash_projection projection;
};

/* ---- the contract ---- */

/* One number of the transform: a float or a 16-bit integer. */
union number {
    float real;
    int whole;
};

static int wrapped(long x)
{
    return (int)(((x + 32768) & 0xffff) - 32768);
}

static union number scaled(enum hash_projection projection, union number x, uint32_t word)
{
    if (projection == HASH_F32)
        return (union number){.real = word == 0 ? x.real : -x.real};
    return (union number){.whole = (int)floor((double)x.whole * (int16_t)(word & 0xffff) / 32768 + 0.5)};
}

/* `group`: number of stages between two scalings. */
static void contract_round(enum hash_projection projection, const struct hadamard *planes, union number *x,
                           const uint32_t *signs, bool down)
{
    size_t width = (size_t)1 << planes->stages, groups = (planes->stages + 2) / 3;
    union number next[MOST_WIDTH];
    for (size_t c = 0; c < width; c++)
        x[c] = scaled(projection, x[c], signs[c]);
    for (size_t g = 0; g < groups; g++) {
        size_t group = down ? groups - 1 - g : g, first = 3 * group;
        size_t end = first + 3 < planes->stages ? first + 3 : planes->stages;
        uint32_t factor = group == groups - 1 ? planes->widest_scale : planes->scale;
        for (size_t c = 0; g > 0 && projection != HASH_F32 && factor != 0 && c < width; c++)
            x[c] = scaled(projection, x[c], factor);
        for (size_t s = 0; s < end - first; s++) {
            size_t bit = (size_t)1 << (down ? end - 1 - s : first + s);
            for (size_t c = 0; c < width; c++) {
                union number a = x[c & ~bit], b = x[c | bit];
                if (projection == HASH_F32)
                    next[c].real = c & bit ? a.real - b.real : a.real + b.real;
                else
                    next[c].whole = wrapped(c & bit ? (long)a.whole - b.whole : (long)a.whole + b.whole);
            }
            memcpy(x, next, width * sizeof *x);
        }
    }
}

/* The final numbers of one block for a row. */
static void contract_block(enum hash_projection projection, const struct hadamard *planes, const void *row,
                           size_t block, union number *x)
{
    size_t width = (size_t)1 << planes->stages;
    memset(x, 0, width * sizeof *x);
    for (size_t c = 0; c < planes->dim; c++)
        if (projection == HASH_F32)
            x[planes->place[c]].real = ((const float *)row)[c];
        else
            x[planes->place[c]].whole = ((const int16_t *)row)[c];
    for (size_t k = 0; k < ROUNDS; k++)
        contract_round(projection, planes, x, planes->signs + (block * ROUNDS + k) * width, k != 1);
}

static bool is_positive(enum hash_projection projection, union number x)
{
    return projection == HASH_F32 ? x.real > 0 : x.whole > 0;
}

static void contract_codes(enum hash_projection projection, const struct hadamard *planes, const void *row,
                           uint32_t *codes)
{
    union number x[MOST_WIDTH];
    size_t hashes = ((size_t)1 << planes->stages) / planes->bits_of_block;
    size_t bits = planes->hash_bits / planes->bits_of_block;
    memset(codes, 0, planes->num_hashes * sizeof *codes);
    for (size_t block = 0; block < (planes->num_hashes + hashes - 1) / hashes * bits; block++) {
        contract_block(projection, planes, row, block, x);
        for (size_t r = 0; r < hashes * planes->bits_of_block; r++) {
            size_t hash = block / bits * hashes + r / planes->bits_of_block;
            size_t bit = block % bits + r % planes->bits_of_block;
            if (hash < planes->num_hashes)
                codes[hash] |= (uint32_t)is_positive(projection, x[r]) << bit;
        }
    }
}

/* ---- a case ---- */

struct scene {
    struct setting setting;
    struct hadamard planes;
    uint32_t *place, *signs, *work;
    size_t num_signs, work_words, ld;
};

static size_t row_words(const struct setting *s)
{
    return s->projection == HASH_F32 ? s->dim : (s->dim + 15) / 16 * 8; /* as hash.pack_rows writes them */
}

/* 16-bit factors of both signs; the slot accepts any. A zero scale means none. */
static uint32_t factor_word(int value)
{
    return ((uint32_t)value & 0xffff) * 0x10001u;
}

static struct scene scene_of(const struct setting *s, uint64_t seed)
{
    struct scene scene = {.setting = *s, .ld = row_words(s) + 3};
    size_t width = (size_t)1 << s->stages, hashes = width / s->bits_of_block;
    size_t blocks = (s->num_hashes + hashes - 1) / hashes * (s->hash_bits / s->bits_of_block);
    bool halves = s->projection != HASH_F32;
    uint32_t order[MOST_WIDTH];
    scene.num_signs = blocks * ROUNDS * width;
    scene.place = (uint32_t *)(void *)guard_floats(s->dim);
    scene.signs = (uint32_t *)(void *)guard_floats(scene.num_signs);
    scene.work_words = 2 * (width + (s->num_hashes < hashes ? s->num_hashes : hashes)) * HASH_LANES;
    scene.work = (uint32_t *)(void *)guard_floats(scene.work_words);
    memset(scene.work, 0xA5, scene.work_words * sizeof *scene.work);
    random_permutation(random_key(seed, RANDOM_BENCH, 0), order, width);
    memcpy(scene.place, order, s->dim * sizeof *order);
    struct random random = random_open(random_key(seed, RANDOM_BENCH, 1));
    for (size_t i = 0; i < scene.num_signs; i++) {
        bool negative = random_next(&random) & 1;
        int factor = 3000 + (int)random_below(&random, 2000);
        scene.signs[i] = halves ? factor_word(negative ? -factor : factor) : negative ? 0x80000000u : 0;
    }
    scene.planes = (struct hadamard){.dim = s->dim,
                                     .stages = s->stages,
                                     .num_hashes = s->num_hashes,
                                     .hash_bits = s->hash_bits,
                                     .bits_of_block = s->bits_of_block,
                                     .place = scene.place,
                                     .signs = scene.signs};
    if (halves && s->stages > 6) {
        scene.planes.scale = factor_word(11469);
        scene.planes.widest_scale = factor_word(s->stages % 3 == 1 ? 22938 : 16220);
    }
    return scene;
}

static void scene_free(struct scene *scene)
{
    guard_free((float *)(void *)scene->place, scene->setting.dim);
    guard_free((float *)(void *)scene->signs, scene->num_signs);
    guard_free((float *)(void *)scene->work, scene->work_words);
}

/* Rows of the projection: floats, or integers whose length is at most 32767. */
static uint32_t *rows_of(const struct scene *scene, uint64_t seed, bool odd)
{
    const struct setting *s = &scene->setting;
    size_t count = s->n == 0 ? 0 : (s->n - 1) * scene->ld + row_words(s);
    float *rows = odd && s->projection == HASH_F32 ? oddities(seed, count) : normals(seed, count);
    int16_t *halves = (int16_t *)(void *)rows;
    for (size_t i = 0; s->projection != HASH_F32 && i < 2 * count; i++)
        halves[i] = (int16_t)((i * 7919 + seed * 104729) % 65521 * 31 % 8001) - 4000;
    for (size_t i = 0; s->projection != HASH_F32 && i < s->n; i++)
        for (size_t c = s->dim; c < 2 * row_words(s); c++)
            halves[i * 2 * scene->ld + c] = 0;
    if (s->n > 2)
        memset(rows + 2 * scene->ld, 0, row_words(s) * sizeof *rows); /* code 0 */
    return (uint32_t *)(void *)rows;
}

static void check_codes(const struct kernels *kernels, const struct setting *s, bool odd)
{
    struct scene scene = scene_of(s, s->dim + s->hash_bits);
    size_t count = s->n == 0 ? 0 : (s->n - 1) * scene.ld + row_words(s), cells = s->n * s->num_hashes;
    uint32_t *rows = rows_of(&scene, s->n, odd), *want = malloc((s->num_hashes + 1) * sizeof *want);
    float *wide = guard_floats(cells), *narrow = guard_floats((cells + 1) / 2);
    char *at = (char *)narrow + cells % 2 * sizeof(uint16_t); /* ends at the guard page */
    kernels->hash.codes_hadamard(wide, true, s->projection, rows, scene.ld, s->n, &scene.planes, scene.work);
    if (s->hash_bits <= 16)
        kernels->hash.codes_hadamard(at, false, s->projection, rows, scene.ld, s->n, &scene.planes,
                                     scene.work);
    for (size_t i = 0; i < s->n; i++) {
        contract_codes(s->projection, &scene.planes, rows + i * scene.ld, want);
        for (size_t h = 0; h < s->num_hashes; h++) {
            uint32_t got = ((uint32_t *)(void *)wide)[i * s->num_hashes + h];
            uint16_t small = (uint16_t)want[h];
            if (s->hash_bits <= 16)
                memcpy(&small, at + (i * s->num_hashes + h) * sizeof small, sizeof small);
            if (got != want[h] || small != (uint16_t)want[h] || (i == 2 && got != 0))
                fail_msg("%s, projection %d: n %zu dim %zu stages %zu m %zu tau %zu block %zu: row %zu hash "
                         "%zu has %x and %x, want %x",
                         kernels->name, s->projection, s->n, s->dim, s->stages, s->num_hashes, s->hash_bits,
                         s->bits_of_block, i, h, got, small, want[h]);
        }
    }
    free(want);
    guard_free((float *)(void *)rows, count);
    guard_free(wide, cells);
    guard_free(narrow, (cells + 1) / 2);
    scene_free(&scene);
}

static const enum hash_projection projections[] = {HASH_F32, HASH_INT16_DP};

static void codes_are_exact(void **state)
{
    (void)state;
    static const size_t tokens[] = {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65},
                        hashes[] = {1, 8, 15, 17, 33};
    static const size_t dims[] = {9, 16, 17, 32, 33, 48, 64, 65, 100, 128, 129, 200, 300, 512, 600, 1024};
    FOR_EACH_TABLE(kernels)
    for (size_t p = 0; p < 2; p++) {
        for (size_t t = 0; t < 13; t++)
            for (size_t h = 0; h < 5; h++) {
                struct setting s = {tokens[t], 19, 5, hashes[h], 4, 1, projections[p]};
                check_codes(kernels, &s, t % 2 == 1);
                s.bits_of_block = 4;
                check_codes(kernels, &s, t % 2 == 0);
            }
        for (size_t bits = 1; bits <= 24; bits++) {
            struct setting s = {19, 32, 5, 16 + bits % 3, bits, 1, projections[p]};
            check_codes(kernels, &s, false);
            s.bits_of_block = bits;
            check_codes(kernels, &s, false);
        }
        for (size_t d = 0; d < 16; d++) {
            struct setting s = {3, dims[d], 4, 20, 2, 1, projections[p]};
            while ((size_t)1 << s.stages < s.dim)
                s.stages++;
            check_codes(kernels, &s, false);
            s.num_hashes = dims[d] + 3; /* more than one block */
            check_codes(kernels, &s, true);
        }
    }
}

/* The third round computes only the rows in use: each number of hashes is a number of rows. */
static void rows_that_are_left_out_change_nothing(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    for (size_t p = 0; p < 2; p++)
        for (size_t stages = 4; stages <= 8; stages++)
            for (size_t m = 1; m <= (size_t)1 << stages; m += 1 + m / 9) {
                struct setting s = {2, (size_t)1 << stages, stages, m, 1, 1, projections[p]};
                check_codes(kernels, &s, false);
            }
}

static void a_row_has_its_codes_wherever_it_stands(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    for (size_t p = 0; p < 2; p++) {
        struct setting s = {70, 64, 6, 18, 7, 1, projections[p]};
        struct scene scene = scene_of(&s, 1);
        uint32_t *rows = rows_of(&scene, 3, false);
        uint16_t all[70 * 18], alone[18];
        kernels->hash.codes_hadamard(all, false, s.projection, rows, scene.ld, 70, &scene.planes, scene.work);
        for (size_t i = 0; i < 70; i++) {
            kernels->hash.codes_hadamard(alone, false, s.projection, rows + i * scene.ld, scene.ld, 1,
                                         &scene.planes, scene.work);
            check_same_bits(alone, all + i * 18, sizeof alone, "codes of a row alone");
        }
        guard_free((float *)(void *)rows, 69 * scene.ld + row_words(&s));
        scene_free(&scene);
    }
}

/* Rows that are orthogonal to a plane except for their own rounding: u = sum of r (p_b e_a - p_a e_b) in
   integers, times a tenth. The sum is pure rounding, and its sign changes with the order. (1,200 rows and
   bits: swapping two stages changes hundreds.) */
static void sums_are_in_the_order_of_the_contract(void **state)
{
    (void)state;
    enum { ROWS = 40, D = 64 };
    struct setting s = {ROWS, D, 6, 5, 6, 1, HASH_F32};
    struct scene scene = scene_of(&s, 4);
    float *rows = guard_floats(ROWS * scene.ld);
    struct random random = random_open(8);
    uint32_t want[5], zeros = 0;
    for (size_t hash = 0; hash < 5; hash++)
        for (size_t bit = 0; bit < 6; bit++) {
            float plane[D], unit[D] = {0};
            union number x[MOST_WIDTH];
            for (size_t c = 0; c < D; c++) {
                unit[c] = 1;
                contract_block(HASH_F32, &scene.planes, unit, bit, x);
                plane[c] = x[hash].real;
                unit[c] = 0;
            }
            memset(rows, 0, ROWS * scene.ld * sizeof *rows);
            for (size_t i = 0; i < ROWS; i++) {
                float *row = rows + i * scene.ld;
                for (int pair = 0; pair < 100; pair++) {
                    size_t a = random_below(&random, D), b = random_below(&random, D);
                    float r = (float)random_below(&random, 9) - 4;
                    row[a] += a == b ? 0 : r * plane[b];
                    row[b] -= a == b ? 0 : r * plane[a];
                }
                for (size_t c = 0; c < D; c++)
                    row[c] *= 0.1f;
            }
            FOR_EACH_TABLE(kernels)
            {
                uint16_t codes[ROWS * 5];
                kernels->hash.codes_hadamard(codes, false, HASH_F32, rows, scene.ld, ROWS, &scene.planes,
                                             scene.work);
                for (size_t i = 0; i < ROWS; i++) {
                    contract_codes(HASH_F32, &scene.planes, rows + i * scene.ld, want);
                    zeros += want[hash] >> bit & 1;
                    assert_int_equal(codes[i * 5 + hash], want[hash]);
                }
            }
        }
    assert_true(zeros > 0); /* rounding went both ways */
    guard_free(rows, ROWS * scene.ld);
    scene_free(&scene);
}

/* 16-bit sums wrap, and products round to the nearest with halves up, in every lane. */
static void halves_turn_over_and_round_up(void **state)
{
    (void)state;
    struct setting s = {33, 16, 4, 16, 1, 1, HASH_INT16_DP};
    struct scene scene = scene_of(&s, 6);
    uint32_t *rows = rows_of(&scene, 1, false), want[16];
    for (int large = 0; large < 2; large++) {
        for (size_t i = 0; i < scene.num_signs; i++)
            scene.signs[i] = factor_word(large ? 32767 - 65534 * (int)(i % 3 == 0) : i % 2 ? 16384 : -16384);
        int16_t *halves = (int16_t *)(void *)rows;
        for (size_t i = 0; i < 33; i++)
            for (size_t c = 0; c < 16; c++)
                halves[i * 2 * scene.ld + c] = (int16_t)(large ? 20000 + (int)(i * c) : (int)(i + c) % 7 - 3);
        FOR_EACH_TABLE(kernels)
        {
            uint16_t codes[33 * 16];
            kernels->hash.codes_hadamard(codes, false, HASH_INT16_DP, rows, scene.ld, 33, &scene.planes,
                                         scene.work);
            for (size_t i = 0; i < 33; i++) {
                contract_codes(HASH_INT16_DP, &scene.planes, rows + i * scene.ld, want);
                for (size_t h = 0; h < 16; h++)
                    assert_int_equal(codes[i * 16 + h], want[h]);
            }
        }
    }
    guard_free((float *)(void *)rows, 32 * scene.ld + row_words(&s));
    scene_free(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_exact),
        cmocka_unit_test(rows_that_are_left_out_change_nothing),
        cmocka_unit_test(a_row_has_its_codes_wherever_it_stands),
        cmocka_unit_test(sums_are_in_the_order_of_the_contract),
        cmocka_unit_test(halves_turn_over_and_round_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
