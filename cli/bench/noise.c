/* The model of the error.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/noise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t noise_queries(const struct bench_arrays *arrays)
{
    return arrays->queries < NOISE_QUERIES ? arrays->queries : NOISE_QUERIES;
}

static double dot(const float *a, const float *b, size_t width)
{
    double sum = 0;
    for (size_t c = 0; c < width; c++)
        sum += (double)a[c] * b[c];
    return sum;
}

/* p_j = 1 - angle / pi for one query and every key. Two zero vectors agree in every bit; a zero and another
   vector agree in half of the bits. */
static void agreement(const float *query, const float *keys, const double *key_squares, size_t num_keys,
                      size_t d, double *p)
{
    double squares = dot(query, query, d);
    for (size_t j = 0; j < num_keys; j++) {
        double product = squares * key_squares[j];
        double cosine = product > 0 ? dot(query, keys + j * d, d) / sqrt(product) : 0;
        cosine = squares == 0 && key_squares[j] == 0 ? 1 : fmax(-1, fmin(1, cosine));
        p[j] = 1 - acos(cosine) / M_PI;
    }
}

/* The noise of one query. x is scratch memory for d_v numbers. */
static struct noise noise_of(const float *values, const double *value_squares, const double *p, long bits,
                             size_t num_keys, size_t width, double *x)
{
    memset(x, 0, width * sizeof *x);
    for (size_t j = 0; j < num_keys; j++) {
        double weight = pow(p[j], (double)bits);
        for (size_t c = 0; c < width; c++)
            x[c] += weight * values[j * width + c];
    }
    double squares = 0;
    struct noise noise = {0, 0};
    for (size_t c = 0; c < width; c++)
        squares += x[c] * x[c];
    if (!(squares > 0))
        return (struct noise){INFINITY, 0};
    for (size_t j = 0; j < num_keys; j++) {
        double weight = pow(p[j], (double)bits), along = 0;
        for (size_t c = 0; c < width; c++)
            along += x[c] * values[j * width + c];
        double across = fmax(0, value_squares[j] - along * along / squares) / squares;
        noise.variance += weight * (1 - weight) * across;
        noise.covariance += pow(p[j], (double)(2 * bits - 1)) * (1 - p[j]) * across;
    }
    return noise;
}

int noise_of_one_hash(const struct bench_arrays *arrays, long least, long most, struct noise *noise)
{
    size_t n = arrays->keys, d = arrays->head_dim, width = arrays->value_dim, queries = noise_queries(arrays);
    double *block = malloc((3 * n + width) * sizeof *block);
    if (block == NULL)
        return tool_fail(EXIT_RESOURCE, "no memory for the model of %zu keys", n);
    double *p = block, *key_squares = p + n, *value_squares = key_squares + n, *x = value_squares + n;
    for (size_t h = 0; h < arrays->heads; h++) {
        const float *keys = arrays->key + h * n * d, *values = arrays->value + h * n * width;
        for (size_t j = 0; j < n; j++) {
            key_squares[j] = dot(keys + j * d, keys + j * d, d);
            value_squares[j] = dot(values + j * width, values + j * width, width);
        }
        for (size_t i = 0; i < queries; i++) {
            size_t row = h * arrays->queries + i * (arrays->queries / queries);
            agreement(arrays->query + row * d, keys, key_squares, n, d, p);
            for (long bits = least; bits <= most; bits++)
                noise[(size_t)(bits - least) * arrays->heads * queries + h * queries + i] =
                    noise_of(values, value_squares, p, bits, n, width, x);
        }
    }
    free(block);
    return EXIT_GOOD;
}

/* Ordered pairs of m hashes that share a plane (docs/MATH.md, section 3.4). */
static double sharing_pairs(size_t m, long bits, size_t r)
{
    if (r == 0)
        return 0;
    double k = (double)(m / r), s = (double)(m % r);
    return (double)bits * ((double)r * k * (k - 1) + 2 * s * k);
}

double noise_angle(const struct noise *noise, size_t count, size_t m, long bits, size_t r)
{
    double sum = 0, pairs = sharing_pairs(m, bits, r) / (double)m;
    for (size_t i = 0; i < count; i++)
        sum += atan(sqrt((noise[i].variance + pairs * noise[i].covariance) / (double)m));
    return count == 0 ? NAN : sum / (double)count;
}
