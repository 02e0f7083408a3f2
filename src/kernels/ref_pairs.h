/* The slots of stage pairs as plain loops. Included by ref.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_REF_PAIRS_H
#define KERNELS_REF_PAIRS_H

#include <math.h>
#include <string.h>

#include "kernels/ref_math.h"
#include "kernels/slots_pairs.h"

/* hash_bits / (p pi s), from differences and sums of the rows, and the sign of the dot product. */
static double tangent_weight(const float *q, const float *k, size_t dim, unsigned hash_bits,
                             double least_sine, double *sigma)
{
    double u2 = 0, v2 = 0;
    for (size_t c = 0; c < dim; c++) {
        u2 += ((double)q[c] - (double)k[c]) * ((double)q[c] - (double)k[c]);
        v2 += ((double)q[c] + (double)k[c]) * ((double)q[c] + (double)k[c]);
    }
    double u = sqrt(u2), v = sqrt(v2), p = 1 - 2 * atan2(u, v) / PI, s = u * v / 2;
    *sigma = v >= u ? 1 : -1;
    s = fmax(s, least_sine);
    return s > 0 && p > 0 ? hash_bits / (p * PI * s) : 0;
}

/* hash_bits p^(hash_bits - 1) / (pi s) at PAIR_SHRINK times the cosine. */
static double shrunk_weight(const float *q, const float *k, size_t dim, unsigned hash_bits)
{
    double dot = 0;
    for (size_t c = 0; c < dim; c++)
        dot += (double)q[c] * (double)k[c];
    double x = (double)PAIR_SHRINK * dot, p = 1 - acos(x) / PI;
    return hash_bits * pow(p, hash_bits - 1.0) / (PI * sqrt(1 - x * x));
}

static void pairs_equal_codes(float *times, size_t ld, const void *query_codes, const void *key_codes,
                              bool wide, size_t num_hashes, const float *of_count, const uint32_t *queries,
                              size_t num_queries, const uint32_t *keys, size_t num_keys)
{
    for (size_t i = 0; i < num_queries; i++)
        for (size_t j = 0; j < num_keys; j++) {
            size_t count = 0;
            for (size_t h = 0; h < num_hashes; h++)
                count += code_at(query_codes, wide, queries[i] * num_hashes + h) ==
                         code_at(key_codes, wide, keys[j] * num_hashes + h);
            times[i * ld + j] = of_count[count];
        }
}

static void pairs_bucket(const struct bucket_pairs *bucket)
{
    for (size_t i = 0; i < bucket->num_queries; i++) {
        size_t row = bucket->queries[i];
        const float *q = bucket->query + row * bucket->ld_query, *g = bucket->dout + row * bucket->ld_dout;
        float *dq = bucket->dquery + row * bucket->ld_query;
        for (size_t j = 0; j < bucket->num_keys; j++) {
            size_t column = bucket->keys[j];
            const float *k = bucket->key + column * bucket->ld_key;
            const float *value = bucket->value + column * bucket->ld_value;
            float *dk = bucket->dkey + column * bucket->ld_key;
            double score = bucket->bias == NULL ? 0 : (double)bucket->bias[row], sigma = 0;
            for (size_t c = 0; c < bucket->value_dim; c++)
                score += (double)g[c] * (double)value[c];
            double w = (double)bucket->scale * score;
            if (bucket->times != NULL)
                w *= (double)bucket->times[i * bucket->ld_times + j];
            if (bucket->weight == PAIR_TANGENT)
                w *= tangent_weight(q, k, bucket->dim, bucket->hash_bits, 0, &sigma);
            if (bucket->weight == PAIR_FLOORED) {
                w *= tangent_weight(q, k, bucket->dim, bucket->hash_bits, (double)PAIR_LEAST_SINE, &sigma);
                sigma = 0;
            }
            if (bucket->weight == PAIR_SHRUNK)
                w *= shrunk_weight(q, k, bucket->dim, bucket->hash_bits);
            for (size_t c = 0; c < bucket->dim; c++) {
                dq[c] += (float)(w * ((double)k[c] - sigma * (double)q[c]));
                dk[c] += (float)(w * ((double)q[c] - sigma * (double)k[c]));
            }
        }
    }
}

static void pairs_bucket_list(const struct bucket_pairs *rows, const struct bucket *list, size_t count)
{
    struct bucket_pairs bucket = *rows;
    bucket.times = NULL;
    for (const struct bucket *b = list; b < list + count; b++) {
        bucket.queries = rows->queries + b->first_query;
        bucket.num_queries = b->num_queries;
        bucket.keys = rows->keys + b->first_key;
        bucket.num_keys = b->num_keys;
        pairs_bucket(&bucket);
    }
}

/* The sum that row `to` of a bucket receives in column c; from the last one on if some are not visible to it.
 */
static float bucket_sum(const struct bucket_sums *sums, const struct bucket *b, uint32_t to, size_t c)
{
    const uint32_t *from = sums->to_queries ? sums->keys + b->first_key : sums->queries + b->first_query;
    size_t count = sums->to_queries ? b->num_keys : b->num_queries;
    bool backwards = sums->visible != NULL && !sums->to_queries;
    float sum = 0;
    for (size_t k = 0; k < count; k++) {
        uint32_t row = from[backwards ? count - 1 - k : k];
        if (sums->visible == NULL || (sums->to_queries ? row < sums->visible[to] : to < sums->visible[row]))
            sum += sums->values[row * sums->ld_values + c];
    }
    return sum;
}

static void pairs_bucket_sums(const struct bucket_sums *sums)
{
    for (const struct bucket *b = sums->buckets; b < sums->buckets + sums->count; b++) {
        const uint32_t *to = sums->to_queries ? sums->queries + b->first_query : sums->keys + b->first_key;
        for (size_t k = 0; k < (sums->to_queries ? b->num_queries : b->num_keys); k++)
            for (size_t c = 0; c < sums->dim; c++)
                sums->out[to[k] * sums->ld_out + c] += bucket_sum(sums, b, to[k], c);
    }
}

#define REF_PAIRS                                                                                            \
    .pairs.equal_codes = pairs_equal_codes, .pairs.bucket = pairs_bucket,                                    \
    .pairs.bucket_list = pairs_bucket_list, .pairs.bucket_sums = pairs_bucket_sums

#endif
