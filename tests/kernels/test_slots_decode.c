/* Scores from codes and sums of parts on every table: bits of scores against a plain loop over rows and
   4-bit digits, for every number of bytes; sums against double.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/slots.h"

enum { QUERIES = 3, LD = DECODE_BLOCK + 5 };

static void check_scores(const struct kernels *kernels, size_t bytes, uint64_t seed)
{
    char text[128];
    uint8_t digits[2 * DECODE_MOST_BYTES][DECODE_BLOCK], codes[DECODE_MOST_BYTES * DECODE_BLOCK];
    uint8_t tables[QUERIES][2 * DECODE_MOST_BYTES * 16];
    struct decode_query query[QUERIES];
    float *scale = normals(seed, DECODE_BLOCK), *out = normals(seed + 1, QUERIES * LD);
    float *alone = normals(seed + 2, LD), *numbers = normals(seed + 3, 3 * QUERIES),
          after = out[DECODE_BLOCK];
    struct random random = random_open(random_key(seed, RANDOM_BENCH, 1));
    for (size_t g = 0; g < 2 * bytes; g++)
        for (size_t r = 0; r < DECODE_BLOCK; r++)
            digits[g][r] = (uint8_t)random_below(&random, 16);
    for (size_t b = 0; b < bytes; b++)
        for (size_t r = 0; r < DECODE_BLOCK; r++)
            codes[b * DECODE_BLOCK + r % 16 * 4 + r / 16] =
                (uint8_t)(digits[2 * b][r] | digits[2 * b + 1][r] << 4);
    for (size_t i = 0; i < QUERIES; i++) {
        for (size_t t = 0; t < 32 * bytes; t++)
            tables[i][t] = seed % 2 == 0 ? 127 : (uint8_t)random_below(&random, 128);
        query[i] = (struct decode_query){tables[i], numbers[3 * i], numbers[3 * i + 1], numbers[3 * i + 2]};
    }
    of(text, "decode.scores", kernels, bytes, seed);
    kernels->decode.scores(out, LD, codes, scale, bytes, query, QUERIES);
    kernels->decode.scores(alone, LD, codes, scale, bytes, query + 1, 1);
    check_same_bits(alone, out + LD, DECODE_BLOCK * sizeof *out, text);
    assert_true(out[DECODE_BLOCK] == after);
    for (size_t i = 0; i < QUERIES; i++)
        for (size_t r = 0; r < DECODE_BLOCK; r++) {
            unsigned sum = 0;
            for (size_t g = 0; g < 2 * bytes; g++)
                sum += tables[i][16 * g + digits[g][r]];
            float want = fmaf(scale[r], fmaf(query[i].step, (float)sum, query[i].least), query[i].base);
            check_same_bits(&out[i * LD + r], &want, sizeof want, text);
        }
    guard_free(scale, DECODE_BLOCK);
    guard_free(out, QUERIES * LD);
    guard_free(alone, LD);
    guard_free(numbers, 3 * QUERIES);
}

static void scores(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    for (size_t bytes = 1; bytes <= DECODE_MOST_BYTES; bytes++)
        for (uint64_t seed = 0; seed < 3; seed++)
            check_scores(kernels, bytes, seed);
}

static void part_sums(void **state)
{
    (void)state;
    char text[128];
    FOR_EACH_TABLE(kernels)
    for (size_t parts = 1; parts < 40; parts += 6) {
        float *x = normals(parts, parts * DECODE_PART), *sums = guard_floats(parts);
        for (int bounded = 0; bounded < 2; bounded++) {
            float bound = bounded ? 0.5f : INFINITY;
            kernels->decode.part_sums(sums, x, parts, bound);
            for (size_t i = 0; i < parts; i++) {
                double sum = 0, terms = 0;
                for (size_t j = 0; j < DECODE_PART; j++) {
                    double term = fmin((double)x[i * DECODE_PART + j], (double)bound);
                    sum += term;
                    terms += fabs(term);
                }
                check_near((double)sums[i], sum, DECODE_PART * ROUNDING * terms,
                           of(text, "decode.part_sums", kernels, parts, i));
            }
        }
        guard_free(x, parts * DECODE_PART);
        guard_free(sums, parts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores),
        cmocka_unit_test(part_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
