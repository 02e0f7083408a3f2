/* The slots of stage layers on every table, but for dropout and gelu_again with it: test_slots_dropout.c.
   Bugs planted and caught: missing lanes in the variance; epsilon outside the root; rows beyond the last; an
   odd last row counted twice; dgain without the normalised x; dx overwritten; the term of the variance
   dropped; exp of a rounded square; a wrong coefficient of the normal tail, or the wrong side of it; phi
   without 1 / sqrt(2 pi); infinity times 0; the value in place of the slope; a convolution shifted by one,
   with the taps of the edge wrong, or falling; decay without the rate; epsilon under the root; beta1 for
   beta2; rows of a bias beyond the first eight left out; a missing correction or scale of the gradient;
   listed rows of plain_norm taken in order, or as if they were adjacent.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/slots.h"

#define PI 3.14159265358979323846

static void check_layer_norm(const struct kernels *kernels, size_t n, size_t dim)
{
    char text[128];
    size_t size = n * dim;
    float *x = normals(1, size), *gain = normals(2, dim), *bias = normals(3, dim), *y = guard_floats(size);
    float *mean_rstd = guard_floats(2 * n), *dy = normals(4, size), *dx = normals(5, size);
    float *dgain = normals(6, dim), *dbias = normals(7, dim);
    for (size_t i = 0; i < size; i++)
        x[i] = 3 * x[i] + 2;
    float *dx_before = copy_of(dx, size), *dgain_before = copy_of(dgain, dim),
          *dbias_before = copy_of(dbias, dim);
    kernels->layers.norm(y, mean_rstd, x, gain, bias, n, dim, 1e-2f);
    kernels->layers.norm_backward(dx, dgain, dbias, dy, x, mean_rstd, gain, n, dim);
    of(text, "layers.norm", kernels, n, dim);
    double most = 20, d = (double)dim; /* bounds |x| and |x - mean| below */
    for (size_t i = 0; i < n; i++) {
        double mean = 0, variance = 0, g_sum = 0, gh_sum = 0, g_size = 0;
        for (size_t c = 0; c < dim; c++)
            mean += (double)x[i * dim + c] / d;
        for (size_t c = 0; c < dim; c++)
            variance += ((double)x[i * dim + c] - mean) * ((double)x[i * dim + c] - mean) / d;
        double rstd = 1 / sqrt(variance + (double)1e-2f);
        /* The mean is off by up to dim roundings; so is the variance, relatively, and its root by half
           that. */
        double room_mean = (d + 2) * ROUNDING * most,
               room_rstd = (d + 8) * ROUNDING * rstd + room_mean * room_mean;
        check_near((double)mean_rstd[2 * i], mean, room_mean, text);
        check_near((double)mean_rstd[2 * i + 1], rstd, room_rstd, text);
        double room_hat = room_mean * rstd + most * room_rstd + 4 * ROUNDING * most * rstd;
        for (size_t c = 0; c < dim; c++) {
            double hat = ((double)x[i * dim + c] - mean) * rstd,
                   g = (double)dy[i * dim + c] * (double)gain[c];
            double want = hat * (double)gain[c] + (double)bias[c];
            check_near((double)y[i * dim + c], want,
                       room_hat * fabs((double)gain[c]) + 2 * ROUNDING * (fabs(want) + 1), text);
            g_sum += g;
            gh_sum += g * hat;
            g_size += fabs(g) * (1 + fabs(hat));
        }
        for (size_t c = 0; c < dim; c++) {
            double hat = ((double)x[i * dim + c] - mean) * rstd,
                   g = (double)dy[i * dim + c] * (double)gain[c];
            double want = (double)dx_before[i * dim + c] + rstd * (g - g_sum / d - hat * gh_sum / d);
            double room = (d + 12) * ROUNDING * rstd * (g_size * (1 + fabs(hat)) + fabs(g)) +
                          room_hat * rstd * g_size * (2 + fabs(hat)) + 4 * ROUNDING * (1 + fabs(want));
            check_near((double)dx[i * dim + c], want, room, "dx of layers.norm");
        }
    }
    for (size_t c = 0; c < dim; c++) {
        double want_gain = (double)dgain_before[c], want_bias = (double)dbias_before[c], sizes = 0;
        for (size_t i = 0; i < n; i++) {
            double hat = ((double)x[i * dim + c] - (double)mean_rstd[2 * i]) * (double)mean_rstd[2 * i + 1];
            want_gain += (double)dy[i * dim + c] * hat;
            want_bias += (double)dy[i * dim + c];
            sizes += fabs((double)dy[i * dim + c]) * (fabs(hat) + 1);
        }
        double room = ((double)n + 4) * ROUNDING * (sizes + 4 + fabs((double)dgain_before[c]));
        check_near((double)dgain[c], want_gain, room, "dgain");
        check_near((double)dbias[c], want_bias, room, "dbias");
    }
    float *alone = guard_floats(dim), moments[2];
    for (size_t i = 0; i < n; i++) {
        kernels->layers.norm(alone, moments, x + i * dim, gain, bias, 1, dim, 1e-2f);
        check_same_bits(alone, y + i * dim, dim * sizeof *y, "a row alone");
    }
    guard_free(alone, dim);
    guard_free(x, size);
    guard_free(gain, dim);
    guard_free(bias, dim);
    guard_free(y, size);
    guard_free(mean_rstd, 2 * n);
    guard_free(dy, size);
    guard_free(dx, size);
    guard_free(dgain, dim);
    guard_free(dbias, dim);
    guard_free(dx_before, size);
    guard_free(dgain_before, dim);
    guard_free(dbias_before, dim);
}

/* The norm of listed rows is that of the same rows, adjacent, with gain 1 and bias 0. */
static void plain_norm_is_of_listed_rows(void **state)
{
    (void)state;
    char text[128];
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++)
        for (int listed = 0; listed < 2; listed++) {
            size_t n = w % 20, dim = widths[w], ld = dim + 2, held = n + 5, size = held * ld - 2;
            float *x = normals(w, size), *rows = guard_floats(n * dim), *want = guard_floats(n * dim),
                  *y = guard_floats(n * dim), *moments = guard_floats(2 * n),
                  *want_moments = guard_floats(2 * n), *gain = guard_floats(dim), *bias = guard_floats(dim);
            uint32_t list[20] = {0};
            for (size_t c = 0; c < dim; c++) {
                gain[c] = 1;
                bias[c] = 0;
            }
            for (size_t i = 0; i < n; i++) {
                list[i] = (uint32_t)(listed ? i * 7 % held : i);
                memcpy(rows + i * dim, x + list[i] * ld, dim * sizeof *rows);
            }
            kernels->layers.norm(want, want_moments, rows, gain, bias, n, dim, 1e-3f);
            kernels->layers.plain_norm(y, moments, x, ld, listed ? list : NULL, n, dim, 1e-3f);
            of(text, "layers.plain_norm", kernels, n, dim);
            check_same_bits(moments, want_moments, 2 * n * sizeof *moments, text);
            for (size_t i = 0; i < n * dim; i++)
                check_near((double)y[i], (double)want[i], 0, text);
            guard_free(x, size);
            guard_free(rows, n * dim);
            guard_free(want, n * dim);
            guard_free(y, n * dim);
            guard_free(moments, 2 * n);
            guard_free(want_moments, 2 * n);
            guard_free(gain, dim);
            guard_free(bias, dim);
        }
}

static void layer_norm_and_its_gradient(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++)
        check_layer_norm(kernels, w % 5, widths[w]);
}

static void gelu_is_within_four_ulp(void **state)
{
    (void)state;
    enum { N = 40003 };
    float *x = guard_floats(N), *y = guard_floats(N), *again = guard_floats(N), *slope = guard_floats(N);
    for (int i = 0; i < N; i++)
        x[i] = -16.0f + 32.0f * (float)i / N;
    FOR_EACH_TABLE(kernels)
    {
        kernels->layers.gelu(y, x, N);
        kernels->layers.gelu_again(again, slope, x, N, 0, 0, 0, 1);
        check_same_bits(again, y, N * sizeof *y, "again");
        for (int i = 0; i < N; i++) {
            double t = (double)x[i], tail = 0.5 * erfc(-t / sqrt(2)), want = t * tail;
            float size = fmaxf(fabsf((float)want), 1e-3f);
            check_near((double)y[i], want, 4 * (double)(nextafterf(size, INFINITY) - size), kernels->name);
            double steep = tail + t * exp(-t * t / 2) / sqrt(2 * PI);
            check_near((double)slope[i], steep,
                       8 * ROUNDING * (tail + fabs(t) * exp(-t * t / 2)) + 32 * (double)FLT_MIN, "slope");
        }
        /* In place, at any alignment, and for values past the range. */
        float *place = copy_of(x, N);
        kernels->layers.gelu(place + 1, place + 1, N - 1);
        check_same_bits(place + 1, y + 1, (N - 1) * sizeof *y, "in place");
        guard_free(place, N);
        float far[5] = {INFINITY, -1e30f, 3e38f, -0.0f, NAN}, out[5], steep[5];
        kernels->layers.gelu(out, far, 5);
        assert_true(out[0] == INFINITY && out[1] == 0 && out[2] == 3e38f && out[3] == 0 && isnan(out[4]));
        kernels->layers.gelu_again(far, steep, far, 5, 0, 0, 0, 1);
        check_same_bits(far, out, sizeof out, "again, beyond all sizes and in place");
        assert_true(steep[1] == 0 && steep[2] == 1 && steep[3] == 0.5f && isnan(steep[4]));
    }
    guard_free(x, N);
    guard_free(y, N);
    guard_free(again, N);
    guard_free(slope, N);
}

static void biases_are_exact(void **state)
{
    (void)state;
    char text[128];
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++) {
        size_t n = w % 6, dim = widths[w], size = n * dim;
        float *y = oddities(2, size), *bias = oddities(3, dim), *want = copy_of(y, size);
        kernels->layers.add_bias(y, dim, bias, n, dim);
        for (size_t i = 0; i < size; i++)
            want[i] += bias[i % dim];
        check_same_bits(y, want, size * sizeof *y, of(text, "layers.add_bias", kernels, n, dim));
        if (n > 1 && dim > 1) { /* all columns but the last */
            kernels->layers.add_bias(y, dim, bias, n, dim - 1);
            for (size_t i = 0; i < size; i++)
                want[i] += i % dim < dim - 1 ? bias[i % dim] : 0;
            check_same_bits(y, want, size * sizeof *y, of(text, "layers.add_bias beside", kernels, n, dim));
        }
        float *dbias = copy_of(bias, dim);
        kernels->layers.add_bias_backward(dbias, y, n, dim);
        for (size_t i = 0; i < size; i++)
            bias[i % dim] += y[i];
        check_same_bits(dbias, bias, dim * sizeof *y, of(text, "layers.add_bias_backward", kernels, n, dim));
        guard_free(y, size);
        guard_free(bias, dim);
        guard_free(want, size);
        guard_free(dbias, dim);
    }
}

/* More rows than are summed in registers at a time, in widths around the number of columns that are. */
static void bias_gradients_of_many_rows_are_exact(void **state)
{
    (void)state;
    char text[128];
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++)
        for (size_t n = 7; n < 28; n += 5) {
            size_t dim = widths[w];
            float *dy = oddities(1, n * dim), *want = oddities(2, dim), *dbias = copy_of(want, dim);
            kernels->layers.add_bias_backward(dbias, dy, n, dim);
            for (size_t i = 0; i < n * dim; i++)
                want[i % dim] += dy[i];
            check_same_bits(dbias, want, dim * sizeof *want,
                            of(text, "layers.add_bias_backward", kernels, n, dim));
            guard_free(dy, n * dim);
            guard_free(want, dim);
            guard_free(dbias, dim);
        }
}

static void convolve_is_exact(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 1, 2, 3, 7, 40}, taps[] = {1, 3, 5, 33};
    char text[128];
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++)
        for (size_t l = 0; l < 6; l++) {
            size_t n = lengths[l], dim = widths[w], ld = dim + 1, t = taps[(w + l) % 4];
            size_t size = n == 0 ? 0 : n * ld - 1;
            float *x = oddities(1, size), *y = oddities(2, size), *filter = normals(3, t),
                  *want = copy_of(y, size);
            kernels->layers.convolve(y, ld, x, ld, filter, t, n, dim);
            for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < t; k++) {
                    ptrdiff_t from = (ptrdiff_t)(i + k) - (ptrdiff_t)(t / 2);
                    for (size_t c = 0; c < dim && from >= 0 && from < (ptrdiff_t)n; c++)
                        want[i * ld + c] = fmaf(filter[k], x[(size_t)from * ld + c], want[i * ld + c]);
                }
            check_same_bits(y, want, size * sizeof *y, of(text, "convolve", kernels, n * 100 + t, dim));
            guard_free(x, size);
            guard_free(y, size);
            guard_free(filter, t);
            guard_free(want, size);
        }
}

static void check_adamw(const struct kernels *kernels, size_t n, const struct adamw *step)
{
    float *w = normals(1, n), *m = normals(2, n), *v = normals(3, n), *g = normals(4, n);
    for (size_t i = 0; i < n; i++)
        v[i] = i % 5 == 0 ? 0 : v[i] * v[i];
    float *w0 = copy_of(w, n), *m0 = copy_of(m, n), *v0 = copy_of(v, n);
    kernels->layers.adamw(w, m, v, g, n, step);
    for (size_t i = 0; i < n; i++) {
        double gradient = (double)g[i] * (double)step->gradient_scale;
        double first = (double)step->beta1 * (double)m0[i] + (1 - (double)step->beta1) * gradient;
        double second = (double)step->beta2 * (double)v0[i] + (1 - (double)step->beta2) * gradient * gradient;
        double moved = (double)step->rate * (first / (double)step->correction1) /
                       (sqrt(second / (double)step->correction2) + (double)step->epsilon);
        double want = (double)w0[i] * (1 - (double)step->rate * (double)step->decay) - moved;
        /* 1 - beta is rounded by an eps of 1; relative to 1 - beta. */
        double beta1 = (1 - (double)step->beta1), beta2 = (1 - (double)step->beta2);
        double room1 = 4 * ROUNDING * (fabs((double)m0[i]) + (beta1 + 1) * fabs(gradient));
        double room2 = 5 * ROUNDING * (second + gradient * gradient * (1 + beta2));
        check_near((double)m[i], first, room1, "first moment");
        check_near((double)v[i], second, room2, "second moment");
        double relative = second > 0 ? room2 / second : 0;
        check_near((double)w[i], want,
                   fabs(moved) * (10 * ROUNDING + relative) + 3 * ROUNDING * fabs((double)w0[i]) +
                       (double)step->rate * room1 / (double)step->correction1 /
                           (sqrt(second / (double)step->correction2) + (double)step->epsilon),
                   "weight");
    }
    guard_free(w, n);
    guard_free(m, n);
    guard_free(v, n);
    guard_free(g, n);
    guard_free(w0, n);
    guard_free(m0, n);
    guard_free(v0, n);
}

static void adamw_takes_its_step(void **state)
{
    (void)state;
    const struct adamw first = {1e-3f, 0.9f, 0.999f, 1e-6f, 0.01f, 0.1f, 0.001f, 0.5f};
    const struct adamw later = {0.1f, 0.85f, 0.98f, 1e-2f, 0.3f, 0.7f, 0.9f, 1.0f};
    FOR_EACH_TABLE(kernels)
    for (size_t n = 0; n < 40; n++) {
        check_adamw(kernels, n, &first);
        check_adamw(kernels, n, &later);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_norm_and_its_gradient),
        cmocka_unit_test(plain_norm_is_of_listed_rows),
        cmocka_unit_test(gelu_is_within_four_ulp),
        cmocka_unit_test(biases_are_exact),
        cmocka_unit_test(bias_gradients_of_many_rows_are_exact),
        cmocka_unit_test(convolve_is_exact),
        cmocka_unit_test(adamw_takes_its_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
