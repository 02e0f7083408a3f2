/* The slots of stage decode on every table: bits of scores against a plain loop over rows and 4-bit digits,
   for every even number of bytes; importance and sums against double; samples against a plain loop, with
   certain rows and chances from 0 to the largest; products and sums of scattered rows against double.
   Planted and caught: every second pair of code bytes left out; a borrow of the lower bytes shifted by 7;
   rows of a lane in reverse; the scales of rows 16 further; importance above 2^100; none cut off below
   2^-126; sums of what is above; a running sum that starts anew in each lane, or steps of half a chance; x
   equal to the bound left to chance; a shift of the prefix sums by 3; AVX2 prefixes without the lower half,
   and comparisons of signed numbers; a row behind the last read, or written; squares of the first weights
   alone; sums that replace what was there.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/slots.h"

enum { QUERIES = 6, LD = DECODE_BLOCK + 5 };

static void check_scores(const struct kernels *kernels, size_t bytes, uint64_t seed)
{
    char text[128];
    uint8_t digits[2 * DECODE_MOST_BYTES][DECODE_BLOCK], codes[DECODE_MOST_BYTES * DECODE_BLOCK];
    static uint8_t tables[QUERIES][2 * DECODE_MOST_BYTES * DECODE_TABLE];
    struct decode_query query[QUERIES];
    float *numbers = normals(seed + 3, 3 * QUERIES), *scales = normals(seed, DECODE_BLOCK);
    float *out = normals(seed + 1, QUERIES * LD);
    float *alone = normals(seed + 2, LD), after = out[DECODE_BLOCK];
    float *room = guard_floats(DECODE_BLOCK / 2);
    bf16 *scale = (bf16 *)(void *)room;
    struct random random = random_open(random_key(seed, RANDOM_BENCH, 1));
    for (size_t g = 0; g < 2 * bytes; g++)
        for (size_t r = 0; r < DECODE_BLOCK; r++)
            digits[g][r] = (uint8_t)random_below(&random, 16);
    for (size_t b = 0; b < bytes; b++)
        for (size_t r = 0; r < DECODE_BLOCK; r++)
            codes[b * DECODE_BLOCK + r % 16 * 4 + r / 16] =
                (uint8_t)(digits[2 * b][r] | digits[2 * b + 1][r] << 4);
    for (size_t i = 0; i < QUERIES; i++) {
        for (size_t t = 0; t < 2 * bytes * DECODE_TABLE; t++)
            tables[i][t] = t % DECODE_TABLE >= 16 ? tables[i][t - 16]
                           : seed % 2 == 0        ? DECODE_LARGEST_ENTRY
                                                  : (uint8_t)random_below(&random, DECODE_LARGEST_ENTRY + 1);
        query[i] = (struct decode_query){tables[i], numbers[3 * i], numbers[3 * i + 1], numbers[3 * i + 2]};
    }
    kernels->bf16.round(scale, DECODE_BLOCK, scales, DECODE_BLOCK, 1, DECODE_BLOCK);
    kernels->bf16.widen(scales, DECODE_BLOCK, scale, DECODE_BLOCK, 1, DECODE_BLOCK);
    of(text, "decode.scores", kernels, bytes, seed);
    kernels->decode.scores(out, LD, codes, scale, bytes, query, QUERIES);
    kernels->decode.scores(alone, LD, codes, scale, bytes, query + 1, 1);
    check_same_bits(alone, out + LD, DECODE_BLOCK * sizeof *out, text);
    assert_true(out[DECODE_BLOCK] == after);
    for (size_t i = 0; i < QUERIES; i++)
        for (size_t r = 0; r < DECODE_BLOCK; r++) {
            unsigned sum = 0;
            for (size_t g = 0; g < 2 * bytes; g++)
                sum += tables[i][DECODE_TABLE * g + digits[g][r]];
            float want = fmaf(scales[r], fmaf(query[i].step, (float)sum, query[i].least), query[i].base);
            check_same_bits(&out[i * LD + r], &want, sizeof want, text);
        }
    guard_free(room, DECODE_BLOCK / 2);
    guard_free(scales, DECODE_BLOCK);
    guard_free(out, QUERIES * LD);
    guard_free(alone, LD);
    guard_free(numbers, 3 * QUERIES);
}

static void scores(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    for (size_t bytes = 2; bytes <= DECODE_MOST_BYTES; bytes += 2)
        for (uint64_t seed = 0; seed < 3; seed++)
            check_scores(kernels, bytes, seed);
}

/* 2^y in straight pieces. */
static double power(double y)
{
    double whole = floor(y);
    return y < -126 ? 0 : ldexp(1 + y - whole, (int)whole);
}

static void importance(void **state)
{
    (void)state;
    char text[128];
    FOR_EACH_TABLE(kernels)
    for (size_t rows = 1; rows <= 5; rows++)
        for (size_t n = DECODE_BLOCK; n <= 5 * DECODE_BLOCK; n += 2 * DECODE_BLOCK) {
            size_t ld = n + 3;
            float *x = normals(rows + n, rows * ld), *out = guard_floats(n), shift[5];
            const float factor = 9;
            double all = 0;
            for (size_t i = 0; i < rows; i++) {
                shift[i] = (float)i * -3 - 1;
                x[i * ld] = -INFINITY;
                x[i * ld + 1] = 40; /* above 100 */
                x[i * ld + 2] = -40;
                x[i * ld + 3] = 0; /* a whole power of 2 */
            }
            double sum = kernels->decode.importance(out, x, ld, rows, n, factor, shift);
            for (size_t j = 0; j < n; j++) {
                double want = 0;
                for (size_t i = 0; i < rows; i++)
                    want += power(fmin(100, (double)x[i * ld + j] * (double)factor + (double)shift[i]));
                check_near((double)out[j], want, 0x1p-14 * want,
                           of(text, "decode.importance", kernels, rows, j));
                all += (double)out[j];
            }
            assert_true(out[0] == 0 && out[2] == 0);
            check_near(sum, all, (double)n * ROUNDING * all,
                       of(text, "decode.importance, sum", kernels, rows, n));
            /* In place. */
            double again = kernels->decode.importance(x, x, ld, 1, n, factor, shift);
            kernels->decode.importance(out, x + (rows - 1) * ld, ld, 1, n, 0, shift);
            assert_true(again > 0 && (rows == 1 || out[1] == 0.5f));
            guard_free(x, rows * ld);
            guard_free(out, n);
        }
}

static void sums_below(void **state)
{
    (void)state;
    char text[128];
    FOR_EACH_TABLE(kernels)
    for (size_t n = DECODE_BLOCK; n < 10000; n = 3 * n + DECODE_BLOCK) {
        float *x = normals(n, n);
        for (int bounded = 0; bounded < 2; bounded++) {
            float bound = bounded ? x[n / 2] : INFINITY; /* equal counts as below */
            double sum = 0, terms = 0;
            for (size_t j = 0; j < n; j++)
                if (x[j] <= bound) {
                    sum += (double)x[j];
                    terms += fabs((double)x[j]);
                }
            check_near(kernels->decode.sum_below(x, n, bound), sum, 80 * ROUNDING * terms,
                       of(text, "decode.sum_below", kernels, n, (size_t)bounded));
        }
        guard_free(x, n);
    }
}

static void samples(void **state)
{
    (void)state;
    char text[128];
    FOR_EACH_TABLE(kernels)
    for (size_t n = DECODE_BLOCK; n <= 9 * DECODE_BLOCK; n += 4 * DECODE_BLOCK)
        for (uint32_t seed = 0; seed < 12; seed++) {
            static uint32_t row[9 * DECODE_BLOCK], want[9 * DECODE_BLOCK];
            float *x = normals(seed, n), bound = seed < 6 ? 0.7f : 3e-20f * (float)(seed + 1);
            float factor = (float)DECODE_MOST_CHANCE / bound;
            size_t expected = 0;
            uint32_t start = seed * 0x9e3779b9u, sum = start;
            for (size_t j = 0; j < n; j++) {
                x[j] = bound * fabsf(x[j]) * (seed % 3 == 0 ? 1 : 0.2f);
                x[j] = j % 9 == 4 ? 0 : j % 31 == 7 ? bound : j % 31 == 8 ? nextafterf(bound, 0) : x[j];
                uint64_t step = x[j] >= bound ? 0 : 2 * (uint64_t)decode_chance(x[j], factor);
                assert_true(step < (uint64_t)1 << 32 && (x[j] == 0) == (step == 0 && x[j] < bound));
                if (x[j] >= bound || sum + step >= (uint64_t)1 << 32)
                    want[expected++] = (uint32_t)j;
                sum += (uint32_t)step;
            }
            size_t count = kernels->decode.sample(row, x, n, bound, factor, start);
            of(text, "decode.sample", kernels, n, seed);
            assert_int_equal(count, expected);
            check_same_bits(row, want, count * sizeof *row, text);
            guard_free(x, n);
        }
}

enum { MOST_ROWS = 23, WEIGHTS = 6 };

/* Rows in any order at the ends of buffers, with `cols` elements. */
struct scattered {
    float *place[MOST_ROWS];
    const unsigned char *row[MOST_ROWS];
    double element[MOST_ROWS][WIDEST];
    struct decode_rows rows;
};

static void scatter(struct scattered *s, size_t count, size_t cols, enum dtype dtype)
{
    for (size_t r = 0; r < count; r++) {
        size_t floats = dtype == DTYPE_FLOAT32 ? cols : (cols + 1) / 2;
        float *numbers = normals(100 * cols + r, cols);
        s->place[r] = guard_floats(floats);
        unsigned char *row =
            (unsigned char *)(s->place[r] + floats) - cols * (dtype == DTYPE_FLOAT32 ? 4 : 2);
        for (size_t c = 0; c < cols; c++) {
            uint32_t bits;
            memcpy(&bits, &numbers[c], sizeof bits);
            bf16 upper = (bf16)(bits >> 16);
            bits = dtype == DTYPE_FLOAT32 ? bits : (uint32_t)upper << 16;
            memcpy(&numbers[c], &bits, sizeof bits);
            s->element[r][c] = (double)numbers[c];
            if (dtype == DTYPE_BFLOAT16)
                memcpy(row + 2 * c, &upper, sizeof upper);
        }
        if (dtype == DTYPE_FLOAT32)
            memcpy(row, numbers, cols * sizeof *numbers);
        s->row[r] = row;
        guard_free(numbers, cols);
    }
    s->rows =
        (struct decode_rows){.row = s->row, .count = count, .cols = cols, .dtype = dtype, .ahead = 2 * cols};
}

static void gather_up(struct scattered *s)
{
    for (size_t r = 0; r < s->rows.count; r++)
        guard_free(s->place[r], s->rows.dtype == DTYPE_FLOAT32 ? s->rows.cols : (s->rows.cols + 1) / 2);
}

static void check_rows(const struct kernels *kernels, size_t count, size_t cols, enum dtype dtype)
{
    static struct scattered s;
    char text[128];
    size_t ld = count + 2;
    scatter(&s, count, cols, dtype);
    float *query = normals(cols, WEIGHTS * cols), *dots = normals(1, WEIGHTS * ld);
    float *weight = normals(2, WEIGHTS * ld), *sums = normals(3, WEIGHTS * cols), squares[WEIGHTS];
    float *before = copy_of(sums, WEIGHTS * cols), after = dots[count];
    for (size_t i = 0; i < WEIGHTS; i++)
        squares[i] = (float)i;
    kernels->decode.row_dots(dots, ld, &s.rows, query, WEIGHTS);
    kernels->decode.row_sums(sums, squares, weight, ld, WEIGHTS, &s.rows);
    assert_true(dots[count] == after);
    for (size_t i = 0; i < WEIGHTS; i++) {
        double square = (double)i, of_squares = square;
        for (size_t r = 0; r < count; r++) {
            double dot = 0, terms = 0;
            for (size_t c = 0; c < cols; c++) {
                dot += (double)query[i * cols + c] * s.element[r][c];
                terms += fabs((double)query[i * cols + c] * s.element[r][c]);
                square += (double)weight[i * ld + r] * s.element[r][c] * s.element[r][c];
                of_squares += fabs((double)weight[i * ld + r]) * s.element[r][c] * s.element[r][c];
            }
            check_near((double)dots[i * ld + r], dot, (double)(cols + 1) * ROUNDING * terms,
                       of(text, "decode.row_dots", kernels, count, cols));
        }
        check_near((double)squares[i], square, (double)(count + cols + 8) * ROUNDING * of_squares,
                   of(text, "decode.row_sums, squares", kernels, count, cols));
        for (size_t c = 0; c < cols; c++) {
            double sum = (double)before[i * cols + c], terms = fabs(sum);
            for (size_t r = 0; r < count; r++) {
                sum += (double)weight[i * ld + r] * s.element[r][c];
                terms += fabs((double)weight[i * ld + r] * s.element[r][c]);
            }
            check_near((double)sums[i * cols + c], sum, (double)(count + 2) * ROUNDING * terms,
                       of(text, "decode.row_sums", kernels, count, cols));
        }
    }
    memcpy(sums, before, WEIGHTS * cols * sizeof *sums);
    kernels->decode.row_sums(sums, NULL, weight, ld, 1, &s.rows);
    check_same_bits(sums + cols, before + cols, cols * sizeof *sums, "a row without weights");
    guard_free(query, WEIGHTS * cols);
    guard_free(dots, WEIGHTS * ld);
    guard_free(weight, WEIGHTS * ld);
    guard_free(sums, WEIGHTS * cols);
    guard_free(before, WEIGHTS * cols);
    gather_up(&s);
}

static void scattered_rows(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    for (size_t count = 1; count <= MOST_ROWS; count += 1 + count / 4)
        for (size_t w = 0; w < NUM_WIDTHS; w++) {
            check_rows(kernels, count, widths[w], DTYPE_FLOAT32);
            check_rows(kernels, count, widths[w], DTYPE_BFLOAT16);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores),  cmocka_unit_test(importance),     cmocka_unit_test(sums_below),
        cmocka_unit_test(samples), cmocka_unit_test(scattered_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
