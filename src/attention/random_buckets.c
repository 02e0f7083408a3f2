/* Attention inside buckets that are drawn, the control of lha without content (row (a) of table 1 in Sun et
   al. 2022): a token's scores for the buckets are standard normals that depend on its place alone, queries
   and keys apart, or one score for both with joint and causal problems; all else as in lha
   (parts/groups/bucketed.h). Random: the scores, once per head and call. Saved: index lists and two floats a
   query. Cost: (n_q + n_k) B normals, then 2 (d + d_v) operations a pair in a bucket, about 2 / B of all
   pairs. SPDX-License-Identifier: Apache-2.0 */
#include "attention/in_buckets.h"
#include "base/random.h"

static const char *refuse(const void *options, const struct problem_shape *shape)
{
    return in_buckets_refuse(options, shape);
}

static size_t saved_size(const void *options, const struct problem_shape *shape)
{
    struct bucketed bucketed = in_buckets(options, shape);
    return bucketed_saved_size(&bucketed);
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    struct bucketed bucketed = in_buckets(options, shape);
    return bucketed_scratch_size(&bucketed);
}

static void score(const void *argument, enum bucketed_side side, size_t first, size_t count, float *z,
                  int worker)
{
    (void)worker;
    const struct problem *problem = argument;
    size_t buckets = (size_t)((const struct bucketing_options *)problem->options)->num_buckets;
    random_normals(random_key(problem->random_key, RANDOM_BUCKETS, side), first * buckets, z,
                   count * buckets);
}

static struct bucketed open_bucketed(const struct problem *problem)
{
    struct bucketed bucketed = in_buckets_open(problem->options, problem);
    bucketed.score = score;
    bucketed.argument = problem;
    bucketed.scratch = problem->scratch;
    return bucketed;
}

static void forward(const struct problem *problem, struct view out)
{
    struct bucketed bucketed = open_bucketed(problem);
    bucketed_forward(&bucketed, out);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct bucketed bucketed = in_buckets_open(problem->options, problem);
    bucketed.scratch = problem->scratch;
    in_buckets_backward(&bucketed, out, dout, gradients);
}

static size_t inspect_size(const void *options, const struct problem_shape *shape)
{
    struct bucketed bucketed = in_buckets(options, shape);
    return in_buckets_inspect_size(&bucketed, scratch_size(options, shape));
}

static void inspect(const struct problem *problem, struct inspection *inspection)
{
    struct bucketed bucketed = open_bucketed(problem);
    in_buckets_inspect(&bucketed, problem, scratch_size(problem->options, &problem->shape), inspection);
}

static const struct option_row options[] = {BUCKETING_ROWS, {.name = NULL}};

const struct mechanism mechanism_random = {
    .name = "random",
    .summary = "softmax attention inside balanced random buckets: a control for lha",
    .options = options,
    .options_size = sizeof(struct bucketing_options),
    .exact = false,
    .mixes = true,
    .competes = true,
    .refuse = refuse,
    .saved_size = saved_size,
    .scratch_size = scratch_size,
    .forward = forward,
    .backward = backward,
    .inspection = &(const struct inspection_facet){in_buckets_count, inspect_size, inspect},
};
