/* Draws the planes and hashes the rows as the mechanism does, so that the oracle samples the same keys.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/sample_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"
#include "support/group_case.h"
#include "support/kernel_case.h"

static void *block_of(size_t bytes)
{
    void *block = aligned_alloc(MEMORY_ALIGNMENT,
                                size_sum(bytes, 2 * MEMORY_ALIGNMENT) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT);
    assert_non_null(block);
    return block;
}

static const struct kernels *best(void)
{
    return kernels_named(NULL, &(const char *){0});
}

float *sample_case_planes(const struct yoso_options *hashing, uint64_t key, size_t d)
{
    struct planes_form form = hasher_form(hashing, d);
    float *planes = block_of(planes_count(&form) * sizeof *planes),
          *work = block_of(planes_work_size(&form, 1));
    planes_draw(best(), NULL, &form, key, planes, work);
    free(work);
    return planes;
}

uint32_t *sample_case_codes(const struct yoso_options *hashing, const float *planes, uint64_t random_key,
                            const float *x, size_t n, size_t d)
{
    struct hasher hasher;
    struct arena arena = arena_on(NULL);
    struct hashing of = hashing_of(hashing);
    size_t count = n * of.num_hashes;
    hasher_init(&hasher, &arena, hashing, d, 1);
    void *block = block_of(arena.used), *stored = block_of(codes_size(&of, n));
    uint32_t *codes = malloc(count * sizeof *codes);
    assert_non_null(codes);
    arena = arena_on(block);
    hasher_init(&hasher, &arena, hashing, d, 1);
    hasher.planes = block_of(hasher_planes(hashing, d) * sizeof(float));
    hasher_turn(best(), &hasher, planes, random_key);
    assert_true(hasher_codes(best(), NULL, &hasher, view_of(x, n, d), view_of(x, 0, d), stored, NULL));
    for (size_t i = 0; i < count; i++)
        codes[i] = of.hash_bits > 16 ? ((const uint32_t *)stored)[i] : ((const uint16_t *)stored)[i];
    free(hasher.planes);
    free(stored);
    free(block);
    return codes;
}

void sample_case_check(const char *mechanism, const char *settings, size_t n_q, size_t n_k, size_t d,
                       size_t d_v, bool causal, void (*edit)(struct attention_case *data))
{
    struct sample_options *options = group_case_options(mechanism, settings);
    struct attention_case data = kernel_case_new(mechanism, options, n_q, n_k, d, d_v, causal);
    if (edit != NULL)
        edit(&data);
    struct yoso_options hashing = sampled_hashing(options);
    uint64_t head_key = random_key(data.call_key, RANDOM_HEAD, 0);
    float *planes = sample_case_planes(&hashing, data.call_key, d);
    uint32_t *query_codes = sample_case_codes(&hashing, planes, head_key, data.query, n_q, d),
             *key_codes = sample_case_codes(&hashing, planes, head_key, data.key, n_k, d);
    struct oracle_samples oracle = {.n_q = n_q,
                                    .n_k = n_k,
                                    .d = d,
                                    .d_v = d_v,
                                    .num_hashes = (size_t)options->num_hashes,
                                    .hash_bits = (size_t)options->hash_bits,
                                    .query = data.query,
                                    .key = data.key,
                                    .value = data.value,
                                    .query_codes = query_codes,
                                    .key_codes = key_codes,
                                    .causal = causal,
                                    .draws = strcmp(mechanism, "hbe") == 0,
                                    .random_key = head_key};
    double *out = malloc(n_q * d_v * sizeof *out), *mass = malloc(n_q * sizeof *mass), largest = 0;
    oracle_samples_run(&oracle, out, mass);
    for (size_t i = 0; i < n_k * d_v; i++)
        largest = fmax(largest, fabs((double)data.value[i]));
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        data.kernels = *kernels;
        struct attention_result result = attention_case_run(&data);
        /* A squared difference of unit rows has an error of about 2e-7. At the bound of near pairs it is
           2e-3, so the angle has one of 2e-6, and its power 24 one of 2e-5. */
        for (size_t i = 0; i < n_q * d_v; i++)
            check_near((double)result.out[i], out[i], 5e-5 * largest, "out");
        attention_result_free(&result);
    }
    free(out);
    free(mass);
    free(planes);
    free(query_codes);
    free(key_codes);
    free(options);
    attention_case_free(&data);
}
