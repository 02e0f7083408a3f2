/* Every query compares its code with those of all keys, hash by hash: quadratic, without tables.
   SPDX-License-Identifier: Apache-2.0 */
#include "oracle/oracle_samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

static double dot(const float *a, const float *b, size_t d)
{
    double sum = 0;
    for (size_t c = 0; c < d; c++)
        sum += (double)a[c] * (double)b[c];
    return sum;
}

double oracle_sample_weight(const float *a, const float *b, size_t d)
{
    return exp(dot(a, b, d) / sqrt((double)d));
}

double oracle_sample_chance(const float *a, const float *b, size_t d, size_t bits)
{
    double of_a = sqrt(dot(a, a, d)), of_b = sqrt(dot(b, b, d)), apart = 0, along = 0;
    if (of_a == 0 && of_b == 0)
        return 1;
    if (of_a == 0 || of_b == 0)
        return pow(0.5, (double)bits);
    for (size_t c = 0; c < d; c++) {
        apart += pow((double)a[c] / of_a - (double)b[c] / of_b, 2);
        along += pow((double)a[c] / of_a + (double)b[c] / of_b, 2);
    }
    return pow(1 - 2 * atan2(sqrt(apart), sqrt(along)) / acos(-1), (double)bits);
}

/* g_ij of the formulas: 0 for a key outside the sample. */
static void weigh(const struct oracle_samples *o, size_t i, double *weight)
{
    size_t seen = o->causal ? i + 1 : o->n_k;
    double m = (double)o->num_hashes;
    memset(weight, 0, o->n_k * sizeof *weight);
    for (size_t hash = 0; hash < o->num_hashes; hash++) {
        size_t met = 0, at = 0;
        uint32_t words[4], code = o->query_codes[i * o->num_hashes + hash];
        for (size_t j = 0; j < seen; j++)
            met += o->key_codes[j * o->num_hashes + hash] == code;
        random_words(random_key(o->random_key, RANDOM_DRAWS, i), hash / 4, words);
        size_t drawn = (size_t)((double)words[hash % 4] / 4294967296.0 * (double)met);
        for (size_t j = 0; j < seen; j++) {
            if (o->key_codes[j * o->num_hashes + hash] != code)
                continue;
            double c = oracle_sample_chance(o->query + i * o->d, o->key + j * o->d, o->d, o->hash_bits);
            if (!o->draws)
                weight[j] = 1 / (1 - pow(1 - c, m));
            else if (at == drawn)
                weight[j] += (double)met / (m * c);
            at++;
        }
    }
}

void oracle_samples_run(const struct oracle_samples *o, double *out, double *mass)
{
    double *weight = malloc((o->n_k + 1) * sizeof *weight);
    memset(out, 0, o->n_q * o->d_v * sizeof *out);
    for (size_t i = 0; i < o->n_q; i++) {
        weigh(o, i, weight);
        mass[i] = 0;
        for (size_t j = 0; j < o->n_k; j++) {
            double w = weight[j] * oracle_sample_weight(o->query + i * o->d, o->key + j * o->d, o->d);
            mass[i] += w;
            for (size_t c = 0; c < o->d_v; c++)
                out[i * o->d_v + c] += w * (double)o->value[j * o->d_v + c];
        }
        for (size_t c = 0; mass[i] > 0 && c < o->d_v; c++)
            out[i * o->d_v + c] /= mass[i];
    }
    free(weight);
}
