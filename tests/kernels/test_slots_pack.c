/* hash.pack_rows, hash.pack_planes and hash.codes_dp on every table, bit for bit, against the words of their
   contracts. Bugs planted and caught: the low product of bfloat16 before the high one; a denormal taken as
   it is; >= for > in the bit; ties of bfloat16 rounded up; the odd last coordinate beside noise; the sign of
   the low half used for the high one; codes of the second group of hashes from the planes of the first; bytes
   of rows taken with a sign; the start of a byte plane left out; that start without its minus; results under
   2^-126 flushed before they are rounded, or rounded as denormals.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "kernels/slots.h"

static const enum hash_projection dp[] = {HASH_INT16_DP, HASH_BF16_DP, HASH_INT8_DP};

/* ---- the contract, with other means than ref.c: whole numbers through double, bfloat16 by candidates --- */

static float number_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The nearer of the two bfloat16 around x; the even one in a tie. */
static uint32_t nearest_bf16(float x)
{
    uint32_t below = bits_of(x) >> 16, above = below + 1;
    double down = fabs((double)x - (double)number_of(below << 16)),
           up = fabs((double)x - (double)number_of(above << 16));
    if (!isfinite(number_of(above << 16)))
        up = fabs((double)x) < 0x1.ffp127 ? INFINITY : 0;
    return down < up || (down == up && below % 2 == 0) ? below : above;
}

static uint32_t half_of(enum hash_projection projection, float x)
{
    return projection == HASH_BF16_DP ? nearest_bf16(x) : (uint32_t)(int32_t)nearbyint((double)x) & 0xffff;
}

static float squares_of(const float *x, size_t dim)
{
    float lane[16] = {0};
    for (size_t l = 0; l < 16; l++)
        for (size_t c = l; c < dim; c += 16)
            lane[l] = fmaf(x[c], x[c], lane[l]);
    float by8[8], by4[4];
    for (size_t l = 0; l < 8; l++)
        by8[l] = lane[l] + lane[l + 8];
    for (size_t l = 0; l < 4; l++)
        by4[l] = by8[l] + by8[l + 4];
    return (by4[0] + by4[2]) + (by4[1] + by4[3]);
}

static uint32_t half_at(const uint32_t *words, size_t c)
{
    return words[c / 2] >> (c % 2 * 16) & 0xffff;
}

static float flushed(float x, float least)
{
    return fabsf(x) < least ? 0 : x;
}

static bool bit_of(enum hash_projection projection, const uint32_t *row, const uint32_t *plane, size_t pairs)
{
    double whole = 0; /* exact: under 2^53 */
    float sum = 0;
    if (projection == HASH_INT8_DP) {
        whole = (double)(int32_t)plane[pairs * 16];
        for (size_t c = 0; c < 4 * pairs; c++)
            whole += (double)(uint8_t)(row[c / 4] >> (8 * (c % 4))) *
                     (double)(int8_t)(plane[c / 4 * 16] >> (8 * (c % 4)));
        return whole > 0;
    }
    for (size_t w = 0; w < pairs; w++)
        for (int high = 1; high >= 0; high--) {
            uint32_t a = row[w] >> (16 * high) & 0xffff, b = plane[w * 16] >> (16 * high) & 0xffff;
            if (projection == HASH_INT16_DP)
                whole += (double)(int16_t)a * (double)(int16_t)b;
            else
                sum = flushed(fmaf(flushed(number_of(a << 16), FLT_MIN),
                                   ldexpf(flushed(number_of(b << 16), FLT_MIN), 40), sum),
                              ldexpf(FLT_MIN, 40)); /* times 2^40: rounded to 24 bits, then flushed */
        }
    return projection == HASH_INT16_DP ? whole > 0 : sum > 0;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static void check_rows(const struct kernels *kernels, enum hash_projection projection, size_t n, size_t dim,
                       float size)
{
    char text[128];
    size_t ld_x = dim + 3, padded = (dim + 15) / 16 * 16, ld = padded / 2 + 1;
    float *x = size == 0 ? oddities(dim, n * ld_x - 3) : normals(dim, n * ld_x - 3),
          *squares = guard_floats(n);
    uint32_t *out = (uint32_t *)(void *)guard_floats(n * ld - 1);
    for (size_t i = 0; size != 0 && i < n * ld_x - 3; i++)
        x[i] *= size;
    for (size_t c = 0; c < dim && n > 1; c++)
        x[ld_x + c] = 0; /* the second row */
    kernels->hash.pack_rows(out, ld, squares, projection, x, ld_x, n, dim);
    of(text, "hash.pack_rows", kernels, n, dim);
    for (size_t i = 0; i < n; i++) {
        const float *row = x + i * ld_x;
        float want = squares_of(row, dim), scale = 1;
        check_same_bits(&squares[i], &want, sizeof want, text);
        if (projection == HASH_INT16_DP)
            scale = want > 0 ? 32767.0f / sqrtf(want) : 0;
        if (!isfinite(want))
            continue; /* unspecified */
        double length = 0;
        for (size_t c = 0; c < padded; c++) {
            uint32_t half = c < dim ? half_of(projection, row[c] * scale) : 0, got = half_at(out + i * ld, c);
            if (got != half)
                fail_msg("%s, projection %d: row %zu half %zu is %04x, want %04x", text, projection, i, c,
                         got, half);
            length += pow((int16_t)half, 2);
        }
        if (projection == HASH_INT16_DP &&
            want > 0) /* half a unit per coordinate, and the rounding of the scale */
            check_near(sqrt(length), 32767, 0.5 * sqrt((double)dim) + 1, "length in fixed point");
        uint32_t alone[WIDEST];
        float alone_squares;
        kernels->hash.pack_rows(alone, ld, &alone_squares, projection, row, ld_x, 1, dim);
        check_same_bits(alone, out + i * ld, padded / 2 * sizeof *out, "a row alone");
    }
    guard_free(x, n * ld_x - 3);
    guard_free(squares, n);
    guard_free((float *)(void *)out, n * ld - 1);
}

static void rows_are_rounded(void **state)
{
    (void)state;
    static const float sizes[] = {1, 1e-10f, 1e12f, 0};
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++)
        for (size_t p = 0; p < 2; p++)
            for (size_t s = 0; s < 4; s++)
                check_rows(kernels, dp[p], 3, widths[w], sizes[s]);
}

static int byte_at(const uint32_t *words, size_t step, size_t c)
{
    return (int)(words[c / 4 * step] >> (8 * (c % 4)) & 0xff);
}

static void check_byte_rows(const struct kernels *kernels, size_t n, size_t dim)
{
    char text[128];
    size_t ld_x = dim + 3, padded = (dim + 15) / 16 * 16, ld = padded / 4 + 1;
    float *x = normals(dim, n * ld_x - 3), *squares = guard_floats(n);
    uint32_t *out = (uint32_t *)(void *)guard_floats(n * ld - 1);
    for (size_t c = 0; c < dim && n > 1; c++)
        x[ld_x + c] = 0;
    kernels->hash.pack_rows(out, ld, squares, HASH_INT8_DP, x, ld_x, n, dim);
    of(text, "hash.pack_rows of bytes", kernels, n, dim);
    for (size_t i = 0; i < n; i++) {
        const float *row = x + i * ld_x;
        float want = squares_of(row, dim), most = 0;
        int largest = 0;
        check_same_bits(&squares[i], &want, sizeof want, text);
        for (size_t c = 0; c < dim; c++)
            most = fmaxf(most, fabsf(row[c]));
        for (size_t c = 0; c < padded; c++) {
            int byte = c < dim && most > 0 ? (int)nearbyint((double)(row[c] * (127.0f / most))) : 0;
            int got = byte_at(out + i * ld, 1, c) - 128;
            if (got != byte)
                fail_msg("%s: row %zu byte %zu is %d, want %d", text, i, c, got, byte);
            largest = abs(got) > largest ? abs(got) : largest;
        }
        assert_int_equal(largest, most > 0 ? 127 : 0);
        uint32_t alone[WIDEST];
        kernels->hash.pack_rows(alone, ld, &want, HASH_INT8_DP, row, ld_x, 1, dim);
        check_same_bits(alone, out + i * ld, padded / 4 * sizeof *out, "a row alone");
    }
    guard_free(x, n * ld_x - 3);
    guard_free(squares, n);
    guard_free((float *)(void *)out, n * ld - 1);
}

static void rows_become_bytes(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++)
        check_byte_rows(kernels, 3, widths[w]);
}

/* Ties between two numbers, of both signs and around zero: rounded to even. */
static void ties_go_to_even(void **state)
{
    (void)state;
    enum { DIM = 32 };
    float x[DIM], squares;
    uint32_t out[DIM / 2];
    for (uint32_t c = 0; c < DIM; c++)
        x[c] = number_of((c % 2 ? 0xbf800000u : 0x3f800000u) + (c << 14)); /* quarters of a bfloat16 step */
    FOR_EACH_TABLE(kernels)
    {
        kernels->hash.pack_rows(out, DIM / 2, &squares, HASH_BF16_DP, x, DIM, 1, DIM);
        for (size_t c = 0; c < DIM; c++)
            assert_int_equal(half_at(out, c), nearest_bf16(x[c]));
    }
    static const float sixteens[16] = {[0] = 32766.5f, [1] = 0.5f, [2] = 1.5f, [3] = -2.5f, [4] = -0.5f};
    float own = squares_of(sixteens, 16), scale = 32767.0f / sqrtf(own);
    FOR_EACH_TABLE(kernels)
    {
        kernels->hash.pack_rows(out, 8, &squares, HASH_INT16_DP, sixteens, 16, 1, 16);
        for (size_t c = 0; c < 5; c++)
            assert_int_equal(half_at(out, c), half_of(HASH_INT16_DP, sixteens[c] * scale));
    }
}

/* ---- planes -------------------------------------------------------------------------------------------- */

static void check_planes(const struct kernels *kernels, enum hash_projection projection, size_t count,
                         size_t dim)
{
    size_t pairs = (dim + 1) / 2, words = count * 16 * (projection == HASH_F32 ? dim : pairs);
    float *planes = normals(dim, count * dim * 16), *sign = guard_floats(dim);
    uint32_t permutation[WIDEST], *out = (uint32_t *)(void *)guard_floats(words);
    random_permutation(dim, permutation, dim);
    random_signs(dim, sign, dim);
    for (size_t i = 0; i < count * dim * 16; i++)
        planes[i] /= 8 * sqrtf((float)dim); /* certainly shorter than 1 */
    kernels->hash.pack_planes(out, projection, planes, count, dim, permutation, sign);
    for (size_t group = 0; group < count; group++)
        for (size_t c = 0; c < dim; c++)
            for (size_t lane = 0; lane < 16; lane++) {
                float turned = sign[c] * planes[(group * dim + permutation[c]) * 16 + lane];
                uint32_t got = out[(group * (projection == HASH_F32 ? dim : pairs) +
                                    (projection == HASH_F32 ? c : c / 2)) *
                                       16 +
                                   lane];
                uint32_t want = bits_of(turned);
                if (projection != HASH_F32) {
                    got = got >> (c % 2 * 16) & 0xffff;
                    want = half_of(projection, projection == HASH_INT16_DP ? turned * 32767.0f : turned);
                }
                if (got != want)
                    fail_msg("%s, projection %d, dim %zu: group %zu row %zu lane %zu is %x, want %x",
                             kernels->name, projection, dim, group, c, lane, got, want);
            }
    for (size_t group = 0; projection != HASH_F32 && dim % 2 == 1 && group < count; group++)
        for (size_t lane = 0; lane < 16; lane++)
            assert_int_equal(out[(group * pairs + pairs - 1) * 16 + lane] >> 16, 0);
    guard_free(planes, count * dim * 16);
    guard_free(sign, dim);
    guard_free((float *)(void *)out, words);
}

static void planes_are_turned_and_rounded(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++)
        for (int projection = HASH_F32; projection <= HASH_BF16_DP; projection++)
            check_planes(kernels, (enum hash_projection)projection, 3, widths[w]);
}

static void check_byte_planes(const struct kernels *kernels, size_t count, size_t dim)
{
    size_t rows = (dim + 3) / 4 + 1, words = count * 16 * rows;
    float *planes = normals(dim, count * dim * 16), *sign = guard_floats(dim);
    uint32_t permutation[WIDEST], *out = (uint32_t *)(void *)guard_floats(words);
    random_permutation(dim, permutation, dim);
    random_signs(dim, sign, dim);
    for (size_t c = 0; c < dim; c++)
        planes[c * 16 + 5] = 0; /* a lane without a hash */
    kernels->hash.pack_planes(out, HASH_INT8_DP, planes, count, dim, permutation, sign);
    for (size_t group = 0; group < count; group++)
        for (size_t lane = 0; lane < 16; lane++) {
            const float *from = planes + group * dim * 16 + lane;
            const uint32_t *got = out + group * rows * 16 + lane;
            float most = 0;
            int sum = 0;
            for (size_t c = 0; c < dim; c++)
                most = fmaxf(most, fabsf(from[c * 16]));
            for (size_t c = 0; c < 4 * (rows - 1); c++) {
                int byte = 0;
                if (c < dim && most > 0)
                    byte = (int)nearbyint((double)(from[permutation[c] * 16] * (sign[c] * (127.0f / most))));
                if ((int8_t)byte_at(got, 16, c) != byte)
                    fail_msg("%s, dim %zu: group %zu byte %zu lane %zu is %d, want %d", kernels->name, dim,
                             group, c, lane, (int8_t)byte_at(got, 16, c), byte);
                sum += byte;
            }
            assert_int_equal((int32_t)got[(rows - 1) * 16], -128 * sum);
        }
    guard_free(planes, count * dim * 16);
    guard_free(sign, dim);
    guard_free((float *)(void *)out, words);
}

static void planes_become_bytes(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++)
        check_byte_planes(kernels, 3, widths[w]);
}

/* ---- codes --------------------------------------------------------------------------------------------- */

enum words { ORDINARY, ODD_ROWS, ODD_PLANES };

/* A half of a bfloat16 word from noise. Ordinary: 16 magnitudes, so that every sum rounds. Odd: rows of
   denormals and of numbers about 2^-64, planes about 2^-64 and 2^62: products of all magnitudes from 2^-128
   on. Those of a denormal count as 0, though they would be as large as the rest. */
static uint32_t half_from(enum words kind, uint32_t noise)
{
    uint32_t sign_and_fraction = noise & 0x807f;
    bool second = noise & 0x0100;
    switch (kind) {
    case ORDINARY:
        return (noise & 0x87ff) | 0x3800;
    case ODD_ROWS:
        return sign_and_fraction | (second ? 0x1f80 : 0);
    default:
        return sign_and_fraction | (second ? 0x1f80 : 0x5e80);
    }
}

static uint32_t *words_of(uint64_t seed, size_t count, enum hash_projection projection, enum words kind)
{
    uint32_t *words = (uint32_t *)(void *)guard_floats(count);
    struct random random = random_open(seed);
    for (size_t i = 0; i < count; i++) {
        uint32_t low = random_next(&random), high = random_next(&random);
        if (projection == HASH_INT8_DP) { /* any bytes */
            low &= 0xffff;
            high &= 0xffff;
        } else if (projection == HASH_INT16_DP) { /* rows and planes have length at most 2^15 */
            low = (uint32_t)((int16_t)(low & 0xffff) / 16) & 0xffff;
            high = (uint32_t)((int16_t)(high & 0xffff) / 16) & 0xffff;
        } else {
            low = half_from(kind, low);
            high = half_from(kind, high);
        }
        words[i] = low | high << 16;
    }
    return words;
}

static void check_codes(const struct kernels *kernels, enum hash_projection projection, size_t n,
                        size_t pairs, size_t num_hashes, size_t bits, bool odd)
{
    size_t groups = (num_hashes + 15) / 16, ld = pairs + 1;
    size_t plane_words = pairs + (projection == HASH_INT8_DP), size = bits * groups * plane_words * 16;
    size_t words = (n * num_hashes + 1) / 2, rows = n == 0 ? 0 : n * ld - 1;
    uint32_t *x = words_of(n + pairs, rows, projection, odd ? ODD_ROWS : ORDINARY),
             *planes = words_of(bits + 100, size, projection, odd ? ODD_PLANES : ORDINARY);
    for (size_t w = 0; w < pairs && n > 2; w++)
        x[2 * ld + w] =
            w % 2 ? 0x80008000u * (projection == HASH_BF16_DP) : 0; /* zeros of both signs: code 0 */
    float *narrow = guard_floats(words), *wide = guard_floats(n * num_hashes);
    if (bits <= 16)
        kernels->hash.codes_dp((char *)narrow + (n * num_hashes % 2) * sizeof(uint16_t), false, projection, x,
                               ld, n, pairs, planes, num_hashes, bits);
    kernels->hash.codes_dp(wide, true, projection, x, ld, n, pairs, planes, num_hashes, bits);
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < num_hashes; h++) {
            uint32_t want = 0, got;
            for (size_t b = 0; b < bits; b++)
                want |= (uint32_t)bit_of(projection, x + i * ld,
                                         planes + (b * groups + h / 16) * plane_words * 16 + h % 16, pairs)
                        << b;
            memcpy(&got, wide + i * num_hashes + h, sizeof got);
            if (got != want)
                fail_msg("%s, projection %d, n %zu pairs %zu bits %zu odd %d: row %zu hash %zu has %x, "
                         "want %x",
                         kernels->name, projection, n, pairs, bits, odd, i, h, got, want);
            if (bits <= 16) {
                uint16_t small;
                memcpy(&small, (char *)narrow + (n * num_hashes % 2 + i * num_hashes + h) * sizeof small,
                       sizeof small);
                assert_int_equal(small, want);
            }
        }
    guard_free((float *)(void *)x, rows);
    guard_free((float *)(void *)planes, size);
    guard_free(narrow, words);
    guard_free(wide, n * num_hashes);
}

static void codes_are_exact(void **state)
{
    (void)state;
    static const size_t tokens[] = {0, 1, 3, 7, 8, 9, 65, 130}, hashes[] = {1, 15, 16, 17, 33};
    FOR_EACH_TABLE(kernels)
    for (size_t p = 0; p < 3; p++) {
        for (size_t t = 0; t < 8; t++)
            for (size_t h = 0; h < 5; h++)
                check_codes(kernels, dp[p], tokens[t], 5, hashes[h], 4, t % 2 == 1);
        for (size_t bits = 1; bits <= 24; bits++)
            check_codes(kernels, dp[p], 9, 4, 16, bits, bits % 2 == 0);
        for (size_t w = 0; w < NUM_WIDTHS; w++)
            check_codes(kernels, dp[p], 40, (widths[w] + 1) / 2, 20, 5, w % 2 == 0);
    }
}

/* One long coordinate on both sides: the largest product in fixed point, of either sign. */
static void the_longest_rows_do_not_overflow(void **state)
{
    (void)state;
    enum { PAIRS = 8 };
    static uint32_t row[PAIRS], planes[PAIRS * 16];
    uint16_t codes[16];
    for (size_t h = 0; h < 16; h++)
        planes[h / 2 * 16 + h] = (h % 2 ? 0x8001u : 0x7fffu) << (h % 4 / 2 * 16);
    for (size_t w = 0; w < PAIRS; w++)
        row[w] = 0x7fff7fffu; /* longer than any real row by sqrt(16) */
    FOR_EACH_TABLE(kernels)
    {
        kernels->hash.codes_dp(codes, false, HASH_INT16_DP, row, PAIRS, 1, PAIRS, planes, 16, 1);
        for (size_t h = 0; h < 16; h++)
            assert_int_equal(codes[h], h % 2 == 0);
    }
    /* Bytes: the widest row, all 255, and planes of 127 and of -127 that start where they must. */
    enum { WORDS = HASH_INT8_MOST / 4 };
    uint32_t *bytes = malloc(WORDS * sizeof *bytes), *wide = malloc((WORDS + 1) * 16 * sizeof *wide);
    memset(bytes, 0xff, WORDS * sizeof *bytes);
    for (size_t h = 0; h < 16; h++) {
        int byte = h % 2 ? -127 : 127;
        for (size_t w = 0; w < WORDS; w++)
            wide[w * 16 + h] = 0x01010101u * ((uint32_t)byte & 0xff);
        wide[WORDS * 16 + h] = (uint32_t)(-128 * byte * HASH_INT8_MOST);
    }
    FOR_EACH_TABLE(kernels)
    {
        kernels->hash.codes_dp(codes, false, HASH_INT8_DP, bytes, WORDS, 1, WORDS, wide, 16, 1);
        for (size_t h = 0; h < 16; h++)
            assert_int_equal(codes[h], h % 2 == 0);
    }
    free(bytes), free(wide);
}

/* 2^-126 minus 2^-151, 2^-150 and 2^-149, rounded to 24 bits: the first is 2^-126 (a tie), the others are
   less. */
static void results_are_rounded_and_then_flushed(void **state)
{
    (void)state;
    static const struct {
        uint32_t low; /* -2^-88, -2^-87, -2^-86, for 2^-63 in the row */
        uint16_t code;
    } cases[] = {{0x9380, 1}, {0x9400, 0}, {0x9480, 0}};
    const uint32_t row[1] = {0x3f80u << 16 | 0x2000}; /* 1, 2^-63 */
    FOR_EACH_TABLE(kernels)
    for (size_t i = 0; i < 3; i++) {
        uint32_t planes[16];
        uint16_t codes[16];
        for (size_t lane = 0; lane < 16; lane++)
            planes[lane] = 0x0080u << 16 | cases[i].low; /* 2^-126, and the number */
        kernels->hash.codes_dp(codes, false, HASH_BF16_DP, row, 1, 1, 1, planes, 16, 1);
        for (size_t lane = 0; lane < 16; lane++)
            if (codes[lane] != cases[i].code)
                fail_msg("%s, case %zu: lane %zu is %d, want %d", kernels->name, i, lane, codes[lane],
                         cases[i].code);
    }
}

/* As in test_slots_hash.c: the last two words cancel the sum before them for one hash, in three pieces of 8
   bits, exactly in the order and with the roundings of the contract, so that bit must be 0. */
static void sums_are_in_the_order_of_the_contract(void **state)
{
    (void)state;
    enum { N = 200, PAIRS = 20, HASHES = 16 };
    uint32_t *x = words_of(1, N * PAIRS, HASH_BF16_DP, ORDINARY),
             *planes = words_of(2, PAIRS * HASHES, HASH_BF16_DP, ORDINARY);
    for (size_t h = 0; h < 2 * HASHES; h++)
        planes[(PAIRS - 2) * HASHES + h] = 0x3f803f80; /* 1 and 1 */
    for (size_t i = 0; i < N; i++) {
        float rest = 0;
        for (size_t w = 0; w < PAIRS - 2; w++) {
            uint32_t a = x[i * PAIRS + w], b = planes[w * HASHES + i % HASHES];
            rest = fmaf(number_of(a & 0xffff0000u), number_of(b & 0xffff0000u), rest);
            rest = fmaf(number_of(a << 16), number_of(b << 16), rest);
        }
        uint32_t piece[3];
        for (int p = 0; p < 3; p++) {
            piece[p] = bits_of(-rest) >> 16;
            rest += number_of(piece[p] << 16);
        }
        assert_true(rest == 0);
        x[i * PAIRS + PAIRS - 2] = piece[0] << 16 | piece[1];
        x[i * PAIRS + PAIRS - 1] = piece[2] << 16;
    }
    static uint16_t codes[N * HASHES];
    FOR_EACH_TABLE(kernels)
    {
        kernels->hash.codes_dp(codes, false, HASH_BF16_DP, x, PAIRS, N, PAIRS, planes, HASHES, 1);
        for (size_t i = 0; i < N; i++)
            assert_int_equal(codes[i * HASHES + i % HASHES], 0);
    }
    guard_free((float *)(void *)x, N * PAIRS);
    guard_free((float *)(void *)planes, PAIRS * HASHES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_rounded),
        cmocka_unit_test(rows_become_bytes),
        cmocka_unit_test(planes_become_bytes),
        cmocka_unit_test(ties_go_to_even),
        cmocka_unit_test(planes_are_turned_and_rounded),
        cmocka_unit_test(codes_are_exact),
        cmocka_unit_test(the_longest_rows_do_not_overflow),
        cmocka_unit_test(results_are_rounded_and_then_flushed),
        cmocka_unit_test(sums_are_in_the_order_of_the_contract),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
