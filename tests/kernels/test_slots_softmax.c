/* The running softmax on every table: tile after tile against a softmax in double over the whole row, exp
   over its whole range, and the backward pieces. Bugs planted and caught: the missing lanes of a tail counted
   in the sum; zeros of a tail taken for scores in the maximum; the factor forgotten on row_sum, or upside
   down; the maximum of row 0 for all; row_max not kept; n ln 2 in one piece; a wrong coefficient of exp; exp
   of minus infinity not 0; a score of minus infinity made NaN; tiny results wrapped round; NaN lost; scale
   forgotten in softmax.gradient; divergence: a tail counted in its sum, a row without mass
   or with an infinite one given a slope, one that has no inverse made NaN, psi not divided by its sum;
   softmax.largest of the first row for all; softmax.exp without what it adds; softmax.below_largest: the
   largest of positive numbers alone, rows of adjacent columns, the spread about the largest, what is not
   finite kept.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/slots.h"

/* exp(scale (s - max)) in float32: the exponent is rounded twice (and once more in its pieces), which exp
   turns into a relative error of the same size; 2 roundings of the polynomial and 2 at the end. Below the
   smallest normal number any result passes. */
static double exp_error(double exponent)
{
    if (exponent == -INFINITY)
        return 0;
    return (3 * fabs(exponent) + 4) * ROUNDING * exp(exponent) + (double)FLT_MIN;
}

static void check_steps(const struct kernels *kernels, size_t rows, size_t cols, float scale, float offset)
{
    enum { TILES = 3 };
    char text[128];
    size_t ld = cols + 1, size = rows * ld - 1;
    float *raw[TILES], *max = guard_floats(rows), *sum = guard_floats(rows), *factor = guard_floats(rows);
    for (size_t i = 0; i < rows; i++) {
        max[i] = -INFINITY;
        sum[i] = 0;
    }
    of(text, "softmax.step", kernels, rows, cols);
    double want_max[64], want_sum[64], room[64];
    for (size_t i = 0; i < rows; i++) {
        want_max[i] = -INFINITY;
        want_sum[i] = room[i] = 0;
    }
    for (int t = 0; t < TILES; t++) {
        raw[t] = normals((uint64_t)t + cols, size);
        for (size_t i = 0; i < size; i++)
            raw[t][i] = raw[t][i] * 5 + offset; /* all well below 0: a zero would be the maximum */
        /* Masked pairs: all but one of the first tile, all of a later one. */
        for (size_t i = 0; i < rows; i += 3)
            for (size_t j = t == 0 ? 1 : 0; j < cols && t < 2; j++)
                raw[t][i * ld + j] = -INFINITY;
        float *s = copy_of(raw[t], size), *alone = copy_of(raw[t], size);
        float *max_alone = copy_of(max, rows), *sum_alone = copy_of(sum, rows),
              *factor_alone = guard_floats(rows);
        kernels->softmax.step(s, ld, rows, cols, scale, max, sum, factor);
        for (size_t i = 0; i < rows; i++) {
            double before = want_max[i], total = 0, error = 0;
            for (size_t j = 0; j < cols; j++)
                want_max[i] = fmax(want_max[i], (double)raw[t][i * ld + j]);
            check_near((double)max[i], want_max[i], 0, text);
            double down = (double)scale * (before - want_max[i]), change = exp(down);
            check_near((double)factor[i], change, exp_error(down), text);
            for (size_t j = 0; j < cols; j++) {
                double exponent = (double)scale * ((double)raw[t][i * ld + j] - want_max[i]);
                check_near((double)s[i * ld + j], exp(exponent), exp_error(exponent), text);
                total += exp(exponent);
                error += exp_error(exponent);
            }
            room[i] = room[i] * change + error + exp_error(down) * want_sum[i];
            want_sum[i] = want_sum[i] * change + total;
            room[i] += ((double)cols + 2) * ROUNDING * want_sum[i];
            check_near((double)sum[i], want_sum[i], room[i], text);
            kernels->softmax.step(alone + i * ld, ld, 1, cols, scale, max_alone + i, sum_alone + i,
                                  factor_alone + i);
        }
        check_same_bits(alone, s, size * sizeof *s, "the rows one by one");
        check_same_bits(sum_alone, sum, rows * sizeof *sum, "their sums");
        check_same_bits(factor_alone, factor, rows * sizeof *sum, "their factors");
        guard_free(s, size);
        guard_free(alone, size);
        guard_free(max_alone, rows);
        guard_free(sum_alone, rows);
        guard_free(factor_alone, rows);
    }
    for (int t = 0; t < TILES; t++)
        guard_free(raw[t], size);
    guard_free(max, rows);
    guard_free(sum, rows);
    guard_free(factor, rows);
}

static void steps_make_a_softmax(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++) {
        check_steps(kernels, 1 + w % 5, widths[w], 0.125f, -300.0f);
        check_steps(kernels, 1 + 3 * w, widths[w], 1.0f, 40.0f);
    }
}

static void check_again(const struct kernels *kernels, size_t rows, size_t cols)
{
    char text[128];
    size_t ld = cols + 1, size = rows * ld - 1;
    float *s = normals(1, size), *p = normals(2, size), *max = normals(3, rows), *log_sum = normals(4, rows);
    for (size_t i = 0; i < size; i++)
        s[i] *= 10;
    for (size_t i = 0; i < rows; i++) {
        max[i] += 5;
        log_sum[i] += 2;
    }
    s[size - 1] = s[0] = -INFINITY;
    float *raw = copy_of(s, size), *dp = copy_of(p, size);
    kernels->softmax.again(s, ld, rows, cols, 0.7f, max, log_sum);
    kernels->softmax.gradient(dp, ld, s, ld, rows, cols, 0.7f, max);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            size_t at = i * ld + j;
            double below = (double)0.7f * ((double)raw[at] - (double)max[i]),
                   exponent = below - (double)log_sum[i];
            check_near((double)s[at], exp(exponent),
                       exp_error(exponent) +
                           (raw[at] > -INFINITY ? fabs(below) * ROUNDING * exp(exponent) : 0),
                       of(text, "softmax.again", kernels, rows, cols));
            double want = (double)0.7f * (double)s[at] * ((double)p[at] - (double)max[i]);
            check_near((double)dp[at], want, 4 * ROUNDING * fabs(want) + 1e-44,
                       of(text, "softmax.gradient", kernels, rows, cols));
        }
    guard_free(s, size);
    guard_free(p, size);
    guard_free(raw, size);
    guard_free(dp, size);
    guard_free(max, rows);
    guard_free(log_sum, rows);
}

static void backward_pieces_agree(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++)
        check_again(kernels, 1 + w % 4, widths[w]);
}

/* exp itself, through softmax.again with scale 1 and zeros: within 2 ulp over its whole range. */
static void exp_is_within_two_ulp(void **state)
{
    (void)state;
    enum { N = 20000 };
    static float x[N], y[N];
    for (int i = 0; i < N; i++)
        x[i] = y[i] = -87.0f + 175.0f * (float)i / N;
    const float zero = 0;
    FOR_EACH_TABLE(kernels)
    {
        memcpy(y, x, sizeof y);
        kernels->softmax.again(y, N, 1, N, 1.0f, &zero, &zero);
        for (int i = 0; i < N; i++) {
            double want = exp((double)x[i]);
            double ulp = (double)(nextafterf((float)want, INFINITY) - (float)want);
            check_near((double)y[i], want, 2 * ulp, kernels->name);
        }
        float far[3] = {-200.0f, -1e30f, -110.0f};
        kernels->softmax.again(far, 3, 1, 3, 1.0f, &zero, &zero);
        for (int i = 0; i < 3; i++)
            check_near((double)far[i], 0, 0, kernels->name);
        float nan[1] = {NAN};
        kernels->softmax.again(nan, 1, 1, 1, 1.0f, &zero, &zero);
        assert_true(isnan(nan[0]));
    }
}

/* Scores of any size: a factor that is not a power of two rounds their product, so rounded and unrounded
   products must not be compared. The first two columns are the largest and equal, the rest a little lower. */
static void check_large_scores(const struct kernels *kernels, size_t cols, float size)
{
    char text[128];
    const float scale = (float)(1 / sqrt(32)), before = -FLT_MAX;
    float *s = guard_floats(cols), *raw, max = before, sum = 0, factor, total = 0;
    for (size_t j = 0; j < cols; j++)
        s[j] = j < 2 ? size : nextafterf(size, -INFINITY);
    raw = copy_of(s, cols);
    kernels->softmax.step(s, cols, 1, cols, scale, &max, &sum, &factor);
    of(text, "softmax.step", kernels, 1, cols);
    check_near((double)max, (double)size, 0, text);
    check_near((double)s[0], 1, 0, text);
    check_near((double)s[cols - 1],
               cols > 2 ? exp((double)scale * ((double)raw[cols - 1] - (double)size)) : 1, 8 * ROUNDING,
               text);
    float log_sum = logf(sum);
    kernels->softmax.again(raw, cols, 1, cols, scale, &max, &log_sum);
    of(text, "softmax.again", kernels, 1, cols);
    for (size_t j = 0; j < cols; j++) {
        assert_true(raw[j] <= 1 && raw[j] >= 0);
        total += raw[j];
    }
    check_near((double)total, 1, ((double)cols + 8) * ROUNDING, text);
    guard_free(s, cols);
    guard_free(raw, cols);
}

static void large_scores_weigh_one_in_all(void **state)
{
    (void)state;
    static const float sizes[] = {1e4f, 1e8f, 1e10f, 1e20f, 1e36f, -1e4f, -1e10f, -1e36f};
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            check_large_scores(kernels, widths[w], sizes[i]);
}

/* The exponent of the largest score is 0 even if the factor rounds. */
static void exponentials_of_large_numbers_are_at_most_one(void **state)
{
    (void)state;
    const float scale = (float)(1 / sqrt(32));
    FOR_EACH_TABLE(kernels)
    for (float size = 1e3f; size < 1e30f; size *= 7.3f) {
        float x[2] = {size, -size}, shift = scale * size;
        kernels->softmax.exp(x, 2, x, 2, 1, 2, scale, &shift, 0);
        assert_true(x[0] == 1 && x[1] == 0);
    }
}

static void check_divergence(const struct kernels *kernels, size_t rows, size_t cols)
{
    char text[128];
    of(text, "divergence", kernels, rows, cols);
    float *psi = normals(1, rows * cols), *z = normals(2, rows * cols), *dz = guard_floats(rows * cols),
          *kl = guard_floats(rows);
    for (size_t i = 0; i < rows; i++) {
        double sum = 0;
        for (size_t c = 0; c < cols; c++) {
            z[i * cols + c] = 3 * z[i * cols + c] - 20;
            psi[i * cols + c] = (i + c) % 4 == 1 && cols > 2 ? 0 : expf(2 * psi[i * cols + c]);
            sum += (double)psi[i * cols + c];
        }
        for (size_t c = 0; c < cols; c++)
            psi[i * cols + c] = i % 5 == 3 ? 0 : (float)((double)psi[i * cols + c] / sum);
    }
    /* Any multiple of a row gives the same result; a sum that overflows or has no inverse gives 0. */
    float *many = copy_of(psi, rows * cols);
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < cols; c++)
            many[i * cols + c] =
                i == 4 ? INFINITY : ldexpf(psi[i * cols + c], i == 2 ? -140 : 3 * (int)i - 9);

    kernels->softmax.divergence(kl, dz, many, z, rows, cols, 0.25f);
    for (size_t i = 0; i < rows; i++) {
        bool none = i % 5 == 3 || i == 4 || i == 2;
        double largest = -INFINITY, sum = 0, want = 0, room = 0;
        for (size_t c = 0; c < cols; c++)
            largest = fmax(largest, (double)z[i * cols + c]);
        for (size_t c = 0; c < cols; c++)
            sum += exp((double)z[i * cols + c] - largest);
        for (size_t c = 0; c < cols; c++) {
            double log_p = (double)z[i * cols + c] - largest - log(sum), target = (double)psi[i * cols + c];
            double log_psi = target > 0 ? log(target) : 0;
            want += target > 0 ? target * (log_psi - log_p) : 0;
            /* Logarithms are accurate to a few roundings of themselves and of their arguments; plus the sum
               of cols terms. */
            room += target * ((double)cols + 12) * ROUNDING * (fabs(log_psi) + fabs(log_p) + 2);
            double slope = none ? 0 : 0.25 * (exp(log_p) - target);
            check_near((double)dz[i * cols + c], slope,
                       ((double)cols + 12 + 2 * fabs(log_p)) * ROUNDING * (exp(log_p) + target) +
                           (double)FLT_MIN,
                       text);
        }
        check_near((double)kl[i], none ? 0 : want, room, text);
    }
    float *alone = guard_floats(cols), one;
    kernels->softmax.divergence(&one, alone, many + (rows - 1) * cols, z + (rows - 1) * cols, 1, cols, 0.25f);
    check_same_bits(alone, dz + (rows - 1) * cols, cols * sizeof *alone, text);
    check_same_bits(&one, kl + rows - 1, sizeof one, text);
    memcpy(alone, z, cols * sizeof *alone); /* in place */
    kernels->softmax.divergence(&one, alone, many, alone, 1, cols, 0.25f);
    check_same_bits(alone, dz, cols * sizeof *alone, text);
    guard_free(psi, rows * cols);
    guard_free(many, rows * cols);
    guard_free(z, rows * cols);
    guard_free(dz, rows * cols);
    guard_free(kl, rows);
    guard_free(alone, cols);
}

static void check_exp_rows(const struct kernels *kernels, size_t rows, size_t cols)
{
    char text[128];
    size_t ld = cols + 1, size = rows * ld - 1;
    float *x = normals(1, size), *y = guard_floats(size), *shift = normals(2, rows),
          *most = guard_floats(rows);
    for (size_t i = 0; i < size; i++)
        x[i] = 10 * x[i] - 60; /* below the zeros of missing lanes */
    kernels->softmax.largest(most, x, ld, rows, cols);
    for (size_t i = 0; i < rows; i++) {
        float largest = -INFINITY;
        for (size_t j = 0; j < cols; j++)
            largest = fmaxf(largest, x[i * ld + j]);
        check_near((double)most[i], (double)largest, 0, of(text, "softmax.largest", kernels, rows, cols));
        shift[i] += 0.3f * largest;
    }
    for (size_t i = 0; i < size; i++)
        y[i] = 77;
    of(text, "softmax.exp", kernels, rows, cols);
    kernels->softmax.exp(y, ld, x, ld, rows, cols, 0.3f, shift, 0.5f);
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < cols; j++) {
            double exponent = (double)(0.3f * x[i * ld + j]) - (double)shift[i], want = exp(exponent) + 0.5;
            check_near((double)y[i * ld + j], want, exp_error(exponent) + 2 * ROUNDING * want, text);
        }
        assert_true(i + 1 == rows || y[i * ld + cols] == 77);
    }
    kernels->softmax.exp(x, ld, x, ld, rows, cols, 0.3f, shift, 0.5f); /* in place */
    for (size_t i = 0; i < rows; i++)
        check_same_bits(x + i * ld, y + i * ld, cols * sizeof *x, text);
    guard_free(x, size);
    guard_free(y, size);
    guard_free(shift, rows);
    guard_free(most, rows);
}

static void exponentials_and_their_largest(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++)
        check_exp_rows(kernels, 1 + 5 * w, widths[w]);
}

static void check_below_largest(const struct kernels *kernels, size_t rows, size_t cols)
{
    char text[128];
    of(text, "softmax.below_largest", kernels, rows, cols);
    size_t ld = cols + 3, size = rows * ld - 3;
    float *x = normals(3, size), *got = guard_floats(size), *spread = guard_floats(cols);
    for (size_t i = 0; i < size; i++)
        x[i] = 2 * x[i] - 30;
    if (cols > 3) {
        x[(rows - 1) * ld + 1] = NAN;
        x[2] = INFINITY;
        x[rows / 2 * ld + 3] = -INFINITY;
    }
    memcpy(got, x, size * sizeof *x);
    kernels->softmax.below_largest(got, ld, spread, rows, cols);
    for (size_t c = 0; c < cols; c++) {
        double mean = 0, squares = 0;
        float largest = -INFINITY;
        for (size_t i = 0; i < rows; i++) {
            mean += (double)x[i * ld + c] / (double)rows;
            largest = fmaxf(largest, x[i * ld + c]);
        }
        for (size_t i = 0; i < rows; i++) {
            squares += ((double)x[i * ld + c] - mean) * ((double)x[i * ld + c] - mean);
            if (isfinite(mean))
                assert_true(got[i * ld + c] == x[i * ld + c] - largest);
            else
                assert_true(got[i * ld + c] == -INFINITY);
        }
        /* The mean of numbers near 30 is off by a few of their roundings, and so is each difference. */
        double off = ((double)rows + 4) * ROUNDING * 40;
        if (isfinite(mean))
            check_near((double)spread[c], squares,
                       2 * off * sqrt((double)rows * squares) + (double)rows * off * off, text);
        else
            assert_true(spread[c] == 0);
    }
    for (size_t i = 0; i + 1 < rows; i++) /* the gaps between rows are unchanged */
        check_same_bits(got + i * ld + cols, x + i * ld + cols, 3 * sizeof *x, text);
    float *alone = guard_floats(rows), one;
    for (size_t i = 0; i < rows; i++)
        alone[i] = x[i * ld + cols - 1];
    kernels->softmax.below_largest(alone, 1, &one, rows, 1);
    for (size_t i = 0; i < rows; i++)
        check_same_bits(alone + i, got + i * ld + cols - 1, sizeof *alone, text);
    check_same_bits(&one, spread + cols - 1, sizeof one, text);
    guard_free(x, size);
    guard_free(got, size);
    guard_free(spread, cols);
    guard_free(alone, rows);
}

static void scores_below_the_largest(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++)
        for (size_t rows = 1; rows <= 9; rows += 4)
            check_below_largest(kernels, rows, widths[w]);
}

static void divergence_and_its_slope(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++)
        check_divergence(kernels, 9, widths[w]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(divergence_and_its_slope),
        cmocka_unit_test(exponentials_and_their_largest),
        cmocka_unit_test(scores_below_the_largest),
        cmocka_unit_test(steps_make_a_softmax),
        cmocka_unit_test(backward_pieces_agree),
        cmocka_unit_test(exp_is_within_two_ulp),
        cmocka_unit_test(large_scores_weigh_one_in_all),
        cmocka_unit_test(exponentials_of_large_numbers_are_at_most_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
