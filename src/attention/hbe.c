/* Hashing-based estimators (Charikar and Siminelakis 2017, "Hashing-based-estimators for kernel density in
   high dimensions"; the YOSO paper, section 2.3 (b)): from a query's bucket H_h of each of m hash tables one
   key j(h) is drawn, each equally likely,
     out_i = sum_h g_h v_j(h) / sum_h g_h,   g_h = w_ij(h) |H_h| / (m c_ij(h)),
     w_ij = exp(q_i.k_j / sqrt(d)),   c_ij = (1 - angle / pi)^tau.
   An empty bucket gives g_h = 0. Both sums are unbiased estimates of those over all keys; their ratio is
   biased (docs/MATH.md, section 8.1). A query with empty buckets only gives 0. At most m keys have a weight.
   Cost: hashing, and 2 m (d + d_v) operations per query: linear in n. Random: the planes, and the drawn keys.
   Forward only: nothing is saved.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/mechanism.h"
#include "parts/sampling/sampled_attention.h"

static const char *refuse(const void *options, const struct problem_shape *shape)
{
    return sampled_refuse(SAMPLE_DRAWS, options, shape);
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    return sampled_scratch_size(SAMPLE_DRAWS, options, shape);
}

static void forward(const struct problem *problem, struct view out)
{
    sampled_forward(SAMPLE_DRAWS, problem, out, NULL);
}

static const struct option_row options[] = {
    SAMPLE_OPTIONS("hash tables: a query uses one random key from its bucket of each"),
};

static const char *const departures[] = {
    "The output is a ratio of two estimated sums; there is no gradient.",
    NULL,
};

const struct mechanism mechanism_hbe = {
    .name = "hbe",
    .summary = "softmax estimated from one random key of each hash bucket of a query (Charikar and "
               "Siminelakis 2017), forward only",
    .departures = departures,
    .options = options,
    .options_size = sizeof(struct sample_options),
    .exact = false,
    .mixes = true,
    .range = {.bounded = true, .power = 0},
    .host = {refuse, sampled_saved_size, scratch_size, forward, NULL},
    .preparation =
        &(const struct preparation_facet){sampled_shared_size, sampled_prepare_size, sampled_prepare},
};
