/* The oracle: plain loops over pairs.
   SPDX-License-Identifier: Apache-2.0 */
#include "oracle/oracle_yoso.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PI 3.14159265358979323846

static double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t c = 0; c < n; c++)
        sum += a[c] * b[c];
    return sum;
}

/* |a / |a| - sign * b / |b||, from the lengths. */
static double apart(const double *a, double a_length, const double *b, double b_length, double sign, size_t n)
{
    double sum = 0;
    for (size_t c = 0; c < n; c++) {
        double difference = a[c] / a_length - sign * b[c] / b_length;
        sum += difference * difference;
    }
    return sqrt(sum);
}

static double angle_of(const double *q, const double *k, size_t d)
{
    double q_length = sqrt(dot(q, q, d)), k_length = sqrt(dot(k, k, d));
    return 2 * atan2(apart(q, q_length, k, k_length, 1, d), apart(q, q_length, k, k_length, -1, d));
}

/* A vector shorter than 1e-12 counts as zero. */
static bool is_zero(const double *x, size_t d)
{
    return dot(x, x, d) < 1e-24;
}

double oracle_collision(const double *q, const double *k, size_t d)
{
    if (is_zero(q, d) || is_zero(k, d))
        return is_zero(q, d) && is_zero(k, d) ? 1 : 0.5;
    return 1 - angle_of(q, k, d) / PI;
}

/* Mapped rows are (q / M, sqrt(1 - |q|^2 / M^2), 0) and (k / M, 0, sqrt(1 - |k|^2 / M^2)): their cosine. */
static double mapped_cosine(const struct oracle_yoso *yoso, size_t i, size_t j)
{
    return dot(yoso->q + i * yoso->d, yoso->k + j * yoso->d, yoso->d) / (yoso->max_norm * yoso->max_norm);
}

double oracle_pair_collision(const struct oracle_yoso *yoso, size_t i, size_t j)
{
    if (yoso->max_norm > 0)
        return 1 - acos(fmax(-1, fmin(1, mapped_cosine(yoso, i, j)))) / PI;
    return oracle_collision(yoso->q + i * yoso->d, yoso->k + j * yoso->d, yoso->d);
}

static bool is_seen(const struct oracle_yoso *yoso, size_t i, size_t j)
{
    return yoso->visible == NULL || j < yoso->visible[i];
}

double oracle_weight(const struct oracle_yoso *yoso, size_t i, size_t j)
{
    if (!is_seen(yoso, i, j))
        return 0;
    if (yoso->num_hashes == 0)
        return pow(oracle_pair_collision(yoso, i, j), yoso->hash_bits);
    size_t meet = 0;
    for (size_t h = 0; h < yoso->num_hashes; h++)
        meet += yoso->query_codes[i * yoso->num_hashes + h] == yoso->key_codes[j * yoso->num_hashes + h];
    return (double)meet / (double)yoso->num_hashes;
}

static double weight_sum(const struct oracle_yoso *yoso, size_t i)
{
    double sum = 0;
    for (size_t j = 0; j < yoso->n_k; j++)
        sum += oracle_weight(yoso, i, j);
    return sum;
}

static void row_forward(const struct oracle_yoso *yoso, size_t i, double *x)
{
    memset(x, 0, yoso->d_v * sizeof *x);
    for (size_t j = 0; j < yoso->n_k; j++)
        for (size_t c = 0; c < yoso->d_v; c++)
            x[c] += oracle_weight(yoso, i, j) * yoso->v[j * yoso->d_v + c];
}

/* The divisor of a row; 0: the output is 0. */
static double divisor_of(const struct oracle_yoso *yoso, size_t i, const double *x)
{
    switch (yoso->normalize) {
    case ORACLE_L2:
        return sqrt(dot(x, x, yoso->d_v));
    case ORACLE_SUM:
        return weight_sum(yoso, i);
    case ORACLE_NONE:
        break;
    }
    return 1;
}

void oracle_yoso_forward(const struct oracle_yoso *yoso, double *x, double *y)
{
    double *row = malloc(yoso->d_v * sizeof *row);
    for (size_t i = 0; i < yoso->n_q; i++) {
        row_forward(yoso, i, row);
        double divisor = divisor_of(yoso, i, row);
        for (size_t c = 0; c < yoso->d_v; c++) {
            if (x != NULL)
                x[i * yoso->d_v + c] = row[c];
            if (y != NULL)
                y[i * yoso->d_v + c] = divisor > 0 ? row[c] / divisor : 0;
        }
    }
    free(row);
}

void oracle_yoso_dx(const struct oracle_yoso *yoso, const double *dy, double *dx, double *dsum)
{
    double *row = malloc(yoso->d_v * sizeof *row);
    for (size_t i = 0; i < yoso->n_q; i++) {
        const double *g = dy + i * yoso->d_v;
        row_forward(yoso, i, row);
        double divisor = divisor_of(yoso, i, row), along = dot(row, g, yoso->d_v);
        dsum[i] = 0;
        for (size_t c = 0; c < yoso->d_v; c++) {
            double *out = dx + i * yoso->d_v + c;
            *out = divisor > 0 ? g[c] / divisor : 0;
            if (yoso->normalize == ORACLE_L2 && divisor > 0)
                *out -= row[c] * along / (divisor * divisor * divisor);
        }
        if (yoso->normalize == ORACLE_SUM && divisor > 0)
            dsum[i] = -along / (divisor * divisor);
    }
    free(row);
}

/* dq += w d cos(q, k) / dq = w (k/|k| - cos q/|q|) / |q|. */
static void add_cosine(double *dq, const double *q, const double *k, double w, size_t d)
{
    if (is_zero(q, d) || is_zero(k, d))
        return;
    double q_length = sqrt(dot(q, q, d)), k_length = sqrt(dot(k, k, d));
    double cosine = dot(q, k, d) / (q_length * k_length);
    for (size_t c = 0; c < d; c++)
        dq[c] += w * (k[c] / k_length - cosine * q[c] / q_length) / q_length;
}

/* The weight of pair (i, j) times the derivative by its cosine. */
static double steep_weight(const struct oracle_yoso *yoso, enum oracle_gradient gradient, size_t i, size_t j)
{
    double weight = oracle_weight(yoso, i, j), p = oracle_pair_collision(yoso, i, j), tau = yoso->hash_bits;
    double sine = sin(PI * (1 - p)); /* of the angle; d acos(x)/dx = -1 / sine */
    if (gradient == ORACLE_LOWER)
        return weight * tau / 2;
    if (gradient == ORACLE_TRUE && yoso->max_norm > 0) /* a real pole: 1 - x^2 is at least 1e-4 */
        return p > 0 ? weight * tau / (p * PI * fmax(sine, 0.01)) : 0;
    if (gradient == ORACLE_TRUE)
        return p > 0 && p < 1 && sine > 0 ? weight * tau / (p * PI * sine) : 0;
    double chosen = weight > 0 ? 1 : 0;
    if (yoso->num_hashes == 0)
        chosen = 1 - pow(1 - weight, (double)yoso->chosen_hashes);
    double x = 0.99 * cos(PI * (1 - p));
    return chosen * tau * pow(1 - acos(x) / PI, tau - 1) / (PI * sqrt(1 - x * x));
}

void oracle_yoso_backward(const struct oracle_yoso *yoso, enum oracle_gradient gradient, const double *dy,
                          double *dq, double *dk, double *dv)
{
    size_t d = yoso->d, d_v = yoso->d_v;
    double *dx = malloc(yoso->n_q * d_v * sizeof *dx), *dsum = malloc(yoso->n_q * sizeof *dsum);
    oracle_yoso_dx(yoso, dy, dx, dsum);
    memset(dq, 0, yoso->n_q * d * sizeof *dq);
    memset(dk, 0, yoso->n_k * d * sizeof *dk);
    memset(dv, 0, yoso->n_k * d_v * sizeof *dv);
    for (size_t i = 0; i < yoso->n_q; i++)
        for (size_t j = 0; j < yoso->n_k; j++) {
            const double *q = yoso->q + i * d, *k = yoso->k + j * d, *v = yoso->v + j * d_v;
            double weight = oracle_weight(yoso, i, j);
            for (size_t c = 0; c < d_v; c++)
                dv[j * d_v + c] += weight * dx[i * d_v + c];
            double w = (dot(dx + i * d_v, v, d_v) + dsum[i]) * steep_weight(yoso, gradient, i, j);
            for (size_t c = 0; yoso->max_norm > 0 && c < d; c++) {
                dq[i * d + c] += w * k[c] / (yoso->max_norm * yoso->max_norm);
                dk[j * d + c] += w * q[c] / (yoso->max_norm * yoso->max_norm);
            }
            if (yoso->max_norm > 0)
                continue;
            add_cosine(dq + i * d, q, k, w, d);
            add_cosine(dk + j * d, k, q, w, d);
        }
    free(dx);
    free(dsum);
}

/* Integral of (tau / 2) (1 - acos(t) / pi)^tau from 0 to x = cos a. With t = cos b, dt = -sin b db the
   integrand is smooth in b, and Simpson's rule with 400 steps has an error of 1e-12. */
static double lower_integral(double x, double tau)
{
    enum { STEPS = 400 };
    double from = PI / 2, to = acos(fmax(-1, fmin(1, x))), sum = 0;
    for (int s = 0; s <= STEPS; s++) {
        double b = from + (to - from) * s / STEPS;
        double term = tau / 2 * pow(1 - b / PI, tau) * -sin(b);
        sum += term * (s == 0 || s == STEPS ? 1 : s % 2 == 1 ? 4 : 2);
    }
    return sum * (to - from) / (3.0 * STEPS);
}

double oracle_yoso_lower_partner(const struct oracle_yoso *yoso, const double *dx, const double *dsum)
{
    size_t d = yoso->d, d_v = yoso->d_v;
    double total = 0;
    for (size_t i = 0; i < yoso->n_q; i++)
        for (size_t j = 0; j < yoso->n_k; j++) {
            const double *q = yoso->q + i * d, *k = yoso->k + j * d;
            double score = dot(dx + i * d_v, yoso->v + j * d_v, d_v) + dsum[i];
            if (is_seen(yoso, i, j) && yoso->max_norm > 0)
                total += score * lower_integral(mapped_cosine(yoso, i, j), yoso->hash_bits);
            else if (is_seen(yoso, i, j) && !is_zero(q, d) && !is_zero(k, d))
                total += score * lower_integral(cos(angle_of(q, k, d)), yoso->hash_bits);
        }
    return total;
}
