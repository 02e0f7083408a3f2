/* LSH samplers (Spring and Shrivastava 2017, "A new unbiased and efficient class of LSH-based samplers and
   estimators for partition function computation in log-linear models"; the YOSO paper, section 2.3 (a)): a
   query uses the union S of the keys in its buckets of m hash tables, each weighted by the inverse of the
   probability to be in it,
     out_i = sum_{j in S} w_ij / P_ij v_j / sum_{j in S} w_ij / P_ij,   w_ij = exp(q_i.k_j / sqrt(d)),
     P_ij = 1 - (1 - c_ij)^m,   c_ij = (1 - angle / pi)^tau.
   Both sums are unbiased estimates of those over all keys; their ratio is biased (docs/MATH.md, section 8.1).
   A query without a collision gives 0. The YOSO paper prints 1 / |S| and c instead of P: 1 / |S| cancels in
   the ratio, and only P makes the sums unbiased. Cost: hashing, and 2 (d + d_v) operations per key of S,
   which is about n m / 2^tau keys of independent vectors: linear in n only if tau grows with log n. Random:
   the planes. Forward only: nothing is saved.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/mechanism.h"
#include "parts/sampling/sampled_attention.h"

static const char *refuse(const void *options, const struct problem_shape *shape)
{
    return sampled_refuse(SAMPLE_UNION, options, shape);
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    return sampled_scratch_size(SAMPLE_UNION, options, shape);
}

static void forward(const struct problem *problem, struct view out)
{
    sampled_forward(SAMPLE_UNION, problem, out, NULL);
}

static const struct option_row options[] = {
    SAMPLE_OPTIONS("hash tables: a query uses the keys in its bucket of each"),
};

static const char *const departures[] = {
    "A key is divided by its probability to be found in any table, as in the paper of Spring and "
    "Shrivastava.",
    "The output is a ratio of two estimated sums; there is no gradient.",
    NULL,
};

const struct mechanism mechanism_lss = {
    .name = "lss",
    .summary = "softmax over the keys of a query's hash buckets by importance sampling (Spring and "
               "Shrivastava 2017), forward only",
    .departures = departures,
    .options = options,
    .options_size = sizeof(struct sample_options),
    .exact = false,
    .quadratic = true,
    .mixes = true,
    .range = {.bounded = true, .power = 0},
    .host = {refuse, sampled_saved_size, scratch_size, forward, NULL},
    .preparation =
        &(const struct preparation_facet){sampled_shared_size, sampled_prepare_size, sampled_prepare},
};
