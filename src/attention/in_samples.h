/* What mechanisms that sample keys from hash tables share: their options, sizes and preparation, from
   parts/sampling/sampled_attention.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_IN_SAMPLES_H
#define ATTENTION_IN_SAMPLES_H

#include "attention/mechanism.h"
#include "parts/sampling/sampled_attention.h"

struct sample_options {
    int64_t num_hashes, hash_bits; /* m, tau */
};

#define SAMPLE_OPTIONS(num_hashes_help)                                                                      \
    {"num_hashes", OPTION_INT,     offsetof(struct sample_options, num_hashes), 32, 1, 4096,                 \
     NULL,         num_hashes_help},                                                                         \
        {"hash_bits",                                                                                        \
         OPTION_INT,                                                                                         \
         offsetof(struct sample_options, hash_bits),                                                         \
         8,                                                                                                  \
         1,                                                                                                  \
         24,                                                                                                 \
         NULL,                                                                                               \
         "bits per hash: vectors at angle a collide with probability (1 - a/pi)^hash_bits"},                 \
    {                                                                                                        \
        .name = NULL                                                                                         \
    }

static inline struct yoso_options in_samples_hashing(const void *options)
{
    const struct sample_options *own = options;
    return sampled_hashing(own->num_hashes, own->hash_bits);
}

/* The part that sizes depend on. */
static inline struct sampled_attention in_samples(enum sampling sampling, const void *options,
                                                  const struct problem_shape *shape)
{
    return (struct sampled_attention){
        .sampling = sampling,
        .hashing = in_samples_hashing(options),
        .num_queries = shape->num_queries,
        .num_keys = shape->num_keys,
        .dim = shape->head_dim,
        .value_dim = shape->value_dim,
        .workers = shape->workers,
    };
}

static inline size_t in_samples_scratch_size(enum sampling sampling, const void *options,
                                             const struct problem_shape *shape)
{
    struct sampled_attention a = in_samples(sampling, options, shape);
    return sampled_attention_scratch_size(&a);
}

/* Nothing is kept for a backward pass. */
static inline size_t in_samples_saved_size(const void *options, const struct problem_shape *shape)
{
    (void)options;
    (void)shape;
    return 0;
}

static inline void in_samples_forward(enum sampling sampling, const struct problem *problem, struct view out)
{
    struct sampled_attention a = in_samples(sampling, problem->options, &problem->shape);
    a.kernels = problem->kernels;
    a.pool = problem->pool;
    a.query = problem->query;
    a.key = problem->key;
    a.value = problem->value;
    a.visible = problem->visible;
    a.planes = problem->shared;
    a.random_key = problem->random_key;
    sampled_attention_forward(&a, out, problem->scratch);
}

static inline const char *in_samples_refuse(enum sampling sampling, const void *options,
                                            const struct problem_shape *shape)
{
    const size_t most_bytes = (size_t)1 << 40;
    if (shape->num_queries > UINT32_MAX / 2 || shape->num_keys > UINT32_MAX / 2)
        return "rows are numbered with 32 bits: at most 2147483647 queries and keys";
    if (shape->head_dim > 1 << 24) /* beyond this, fixed point has no bits left for a coordinate */
        return "vectors of at most 16777216 numbers are hashed";
    if (in_samples_scratch_size(sampling, options, shape) > most_bytes)
        return "one head would need more than 1099511627776 bytes";
    return NULL;
}

/* ---- planes: once per call ----------------------------------------------------------------------------- */

static inline size_t in_samples_shared_size(const void *options, size_t head_dim)
{
    struct yoso_options hashing = in_samples_hashing(options);
    struct planes_form form = hasher_form(&hashing, head_dim);
    return size_product(planes_count(&form), sizeof(float));
}

static inline size_t in_samples_prepare_size(const void *options, size_t head_dim, size_t workers)
{
    struct yoso_options hashing = in_samples_hashing(options);
    struct planes_form form = hasher_form(&hashing, head_dim);
    return planes_work_size(&form, workers);
}

static inline void in_samples_prepare(const struct preparation *preparation)
{
    struct yoso_options hashing = in_samples_hashing(preparation->options);
    struct planes_form form = hasher_form(&hashing, preparation->head_dim);
    planes_draw(preparation->kernels, preparation->pool, &form, preparation->call_key, preparation->shared,
                preparation->scratch);
}

#endif
