/* A cache beside a plain copy of its rows.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/cache_case.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

struct kv_options cache_case_options(void)
{
    return (struct kv_options){.num_sequences = 1,
                               .num_heads = 4,
                               .kv_heads = 2,
                               .head_dim = 64,
                               .dtype = DTYPE_FLOAT32,
                               .scale = 0.125f,
                               .window_step = 1,
                               .bits = 128,
                               .budget = 0.05,
                               .first_rows = 4,
                               .last_rows = 32,
                               .sharpness = 0.8f};
}

static size_t row_size(const struct cache_case *c)
{
    return c->cache.options.kv_heads * c->cache.options.head_dim;
}

void cache_case_new(struct cache_case *c, const char *isa, int threads, const char *mechanism,
                    const struct kv_options *options)
{
    const char *why;
    const struct kernels *kernels = kernels_named(isa, &why);
    memset(c, 0, sizeof *c);
    failing_host_init(&c->host, -1);
    check_status(&c->host.host, pool_new(&c->host.host, threads, &c->pool), HASHATTN_OK, NULL);
    check_status(
        &c->host.host,
        kv_cache_new(&c->host.host, kernels, c->pool, kv_mechanism_find(mechanism), options, &c->cache),
        HASHATTN_OK, NULL);
    for (size_t s = 0; s < CACHE_SEQUENCES; s++) {
        c->key[s] = calloc(CACHE_ROWS * row_size(c), sizeof(float));
        c->value[s] = calloc(CACHE_ROWS * row_size(c), sizeof(float));
    }
}

void cache_case_free(struct cache_case *c)
{
    kv_cache_free(&c->cache);
    pool_free(&c->host.host, c->pool);
    assert_int_equal(c->host.outstanding, 0);
    for (size_t s = 0; s < CACHE_SEQUENCES; s++) {
        free(c->key[s]);
        free(c->value[s]);
    }
}

/* `count` normals, rounded if the cache rounds. */
static float *numbers(struct cache_case *c, size_t count)
{
    float *x = malloc((count + 1) * sizeof *x);
    random_normals(random_key(7, RANDOM_BENCH, c->drawn++), 0, x, count);
    bf16 *rounded = malloc((count + 1) * sizeof *rounded);
    if (c->cache.options.dtype == DTYPE_BFLOAT16) {
        c->cache.kernels->bf16.round(rounded, count, x, count, 1, count);
        c->cache.kernels->bf16.widen(x, count, rounded, count, 1, count);
    }
    free(rounded);
    return x;
}

void cache_case_append(struct cache_case *c, size_t rows, const uint8_t *mask)
{
    size_t size = row_size(c), d = c->cache.options.head_dim;
    float *key = numbers(c, c->cache.pages.num_sequences * rows * size);
    float *value = numbers(c, c->cache.pages.num_sequences * rows * size);
    struct kv_rows keys = {key, DTYPE_FLOAT32, rows * size, size, d}, values = keys;
    values.data = value;
    for (size_t s = 0; s < c->cache.pages.num_sequences; s++)
        for (size_t r = 0; r < rows; r++) {
            if (mask != NULL && mask[s * rows + r] == 0) {
                key[(s * rows + r) * size] = NAN;
                continue;
            }
            memcpy(c->key[s] + c->length[s] * size, key + (s * rows + r) * size, size * sizeof *key);
            memcpy(c->value[s] + c->length[s]++ * size, value + (s * rows + r) * size, size * sizeof *key);
        }
    check_status(&c->host.host, kv_cache_append(&c->cache, rows, keys, values, mask), HASHATTN_OK, NULL);
    free(key);
    free(value);
}

void cache_case_truncate(struct cache_case *c, size_t sequence, size_t length)
{
    kv_cache_truncate(&c->cache, sequence, length);
    c->length[sequence] = length;
}

void cache_case_reorder(struct cache_case *c, const size_t *from, size_t count)
{
    struct cache_case old = *c;
    size_t bytes = CACHE_ROWS * row_size(c) * sizeof(float);
    check_status(&c->host.host, kv_cache_reorder(&c->cache, from, count), HASHATTN_OK, NULL);
    for (size_t s = 0; s < CACHE_SEQUENCES; s++) {
        size_t source = s < count ? from[s] : s;
        c->key[s] = memcpy(malloc(bytes), old.key[source], bytes);
        c->value[s] = memcpy(malloc(bytes), old.value[source], bytes);
        c->length[s] = old.length[source];
    }
    for (size_t s = 0; s < CACHE_SEQUENCES; s++) {
        free(old.key[s]);
        free(old.value[s]);
    }
}

float *cache_case_query(struct cache_case *c, size_t rows)
{
    const struct kv_options *options = &c->cache.options;
    return numbers(c, c->cache.pages.num_sequences * options->num_heads * rows * options->head_dim);
}

float *cache_case_attend(struct cache_case *c, size_t rows, const float *query)
{
    const struct kv_options *options = &c->cache.options;
    size_t d = options->head_dim, all = c->cache.pages.num_sequences * options->num_heads * rows * d;
    float *out = malloc((all + 1) * sizeof *out);
    struct kv_rows queries = {(void *)(uintptr_t)query, DTYPE_FLOAT32, options->num_heads * rows * d, d,
                              rows * d};
    struct kv_rows outs = queries;
    outs.data = out;
    check_status(&c->host.host, kv_cache_attend(&c->cache, rows, queries, outs), HASHATTN_OK, NULL);
    return out;
}

/* One query row over the rows [first, last] of a head. */
static void exact_row(const struct cache_case *c, size_t s, size_t h, size_t first, size_t last,
                      const float *query, double *out, double *bound)
{
    const struct kv_options *options = &c->cache.options;
    size_t d = options->head_dim, kv = h / (options->num_heads / options->kv_heads), size = row_size(c);
    double *score = malloc((last + 1) * sizeof *score), most = -INFINITY, sum = 0, largest = 0, longest = 0;
    for (size_t j = first; j <= last; j++) {
        const float *key = c->key[s] + j * size + kv * d;
        double dot = 0, terms = 0;
        for (size_t k = 0; k < d; k++) {
            dot += (double)query[k] * key[k];
            terms += fabs((double)query[k] * key[k]);
        }
        score[j] = options->scale * dot;
        longest = fmax(longest, options->scale * terms);
        most = fmax(most, score[j]);
    }
    for (size_t j = first; j <= last; j++) {
        double weight = exp(score[j] - most);
        sum += weight;
        for (size_t k = 0; k < d; k++) {
            double value = c->value[s][j * size + kv * d + k];
            out[k] += weight * value;
            largest = fmax(largest, fabs(value));
        }
    }
    for (size_t k = 0; k < d; k++)
        out[k] /= sum;
    free(score);
    /* A score is off by (d + 3) roundings of its terms, which changes the ratio of weights by twice that; a
       sum of n weights by as many roundings as it has steps, a few hundred; a rounded weight by 2^-9. */
    double rounding = 0.5 * FLT_EPSILON, weights = 2 * ((double)d + 3) * longest * rounding + 600 * rounding;
    if (options->dtype == DTYPE_BFLOAT16)
        weights += 0x1p-9;
    *bound = fmax(*bound, weights * largest);
}

double *cache_case_exact(struct cache_case *c, size_t rows, const float *query, double *bound)
{
    const struct kv_options *options = &c->cache.options;
    size_t d = options->head_dim, heads = options->num_heads;
    double *out = calloc(c->cache.pages.num_sequences * heads * rows * d + 1, sizeof *out);
    *bound = 0;
    for (size_t s = 0; s < c->cache.pages.num_sequences; s++)
        for (size_t h = 0; h < heads; h++)
            for (size_t r = rows > c->length[s] ? rows - c->length[s] : 0; r < rows; r++) {
                size_t at = ((s * heads + h) * rows + r) * d, position = c->length[s] + r - rows;
                size_t step = options->window_step, end = (position / step + 1) * step;
                size_t first = options->window > 0 && end > options->window ? end - options->window : 0;
                exact_row(c, s, h, first, position, query + at, out + at, bound);
            }
    return out;
}
