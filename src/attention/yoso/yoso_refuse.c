/* Combinations of options, and shapes, that yoso cannot compute. The rows of the options have the range of
   each (parts/hashing/yoso_options.c).
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/yoso/yoso_refuse.h"

#include "attention/yoso/yoso_memory.h"
#include "parts/hashing/hadamard.h"
#include "parts/hashing/unit_map.h"

/* r prime and >= tau: two hashes then share at most one plane (docs/MATH.md, section 3.4). */
static const char *refuse_pool(const struct yoso_options *options)
{
    int64_t r = options->plane_pool, divisor = 2;
    while (divisor * divisor <= r && r % divisor != 0)
        divisor++;
    if (r == 0)
        return NULL;
    if (r == 1 || divisor * divisor <= r)
        return "`plane_pool` is {plane_pool}; it must be a prime number, or 0 to share no planes";
    if (r < options->hash_bits)
        return "`plane_pool` is {plane_pool}; it must be at least `hash_bits`, which is {hash_bits}";
    if (r * r < options->num_hashes)
        return "`plane_pool` {plane_pool} is too small for `num_hashes` {num_hashes}: a pool of r makes r^2 "
               "hashes";
    if (options->planes == PLANES_HADAMARD_PAPER)
        return "`planes` hadamard-paper cannot be shared: `plane_pool` is {plane_pool} and must be 0";
    return NULL;
}

const char *yoso_refuse(const void *of, const struct problem_shape *shape)
{
    const struct yoso_options *options = of;
    const size_t most_bytes = (size_t)1 << 40;
    const char *pool = refuse_pool(options);
    if (pool != NULL)
        return pool;
    if (options->gradient == YOSO_GRADIENT_TRUE && options->hash_bits < 2)
        return "`gradient` true needs `hash_bits` of at least 2: with 1 its variance is unbounded";
    if (options->gradient == YOSO_GRADIENT_LOWER && options->max_partners > 0)
        return "`max_partners` needs `gradient` true or released: lower is cheap in full buckets without it";
    if (options->gradient == YOSO_GRADIENT_RELEASED && options->gradient_hashes > 0)
        return "`gradient_hashes` is {gradient_hashes}; it must be 0 with `gradient` released, which counts "
               "a pair once for all hashes";
    if (options->gradient_hashes > options->num_hashes)
        return "`gradient_hashes` is {gradient_hashes}; it must be at most `num_hashes`, which is "
               "{num_hashes}";
    if (!unit_map_is_l2(options) && options->max_norm <= 0 && (shape->causal || shape->streamed))
        return "`map` neyshabur needs `max_norm` if later rows are unknown: causal and in chunks";
    if (hadamard_is(options->planes) && (shape->head_dim < 32 || shape->head_dim > 4096))
        return "`planes` hadamard and hadamard-paper need a head_dim of 32 to 4096: smaller ones hash with "
               "bias";
    if (hadamard_is(options->planes) && options->projection != HASH_AUTO && options->projection != HASH_F32 &&
        options->projection != HASH_INT16_DP)
        return "`planes` hadamard and hadamard-paper are transforms in float32 or 16-bit fixed point: "
               "`projection` f32, int16-dp or auto";
    if (shape->num_queries > UINT32_MAX / 2 || shape->num_keys > UINT32_MAX / 2)
        return "yoso numbers rows with 32 bits: at most 2147483647 queries and keys";
    if (yoso_saved_size(options, shape) > most_bytes || yoso_scratch_size(options, shape) > most_bytes ||
        yoso_planes_size(options, shape->head_dim) > most_bytes ||
        yoso_planes_work_size(options, shape->head_dim, shape->workers) > most_bytes)
        return "yoso would need more than 1099511627776 bytes for one head";
    if (options->projection == HASH_INT8_DP && unit_map_width(options, shape->head_dim) > HASH_INT8_MOST)
        return "`projection` int8-dp hashes vectors of at most 32768 numbers";
    if (shape->head_dim > 1 << 24) /* beyond this, fixed point has no bits left for a coordinate */
        return "yoso hashes vectors of at most 16777216 numbers";
    return NULL;
}
