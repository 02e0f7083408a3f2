/* The driver, with the test mechanism that uses every part of the interface: units of work, memory, random
   keys, parameters, the auxiliary loss, the order of work, the check. Bugs planted and caught: heads of a
   sequence sharing saved memory; slices summed for the first sequence only; a slice not cleared; sample
   ids left out of the key, or the place in the batch used for the id; shared memory laid over the first
   unit; the parameters of head 0 for all heads; the cheapest unit first, and ties in descending order; an
   empty unit's loss read; refuse called with all keys; the first unit of the order given to one thread
   instead of all; a pass over the heads of a call without rows. Covers: attention_check.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/driver/attention.h"
#include "base/random.h"
#include "support/attention_case.h"
#include "support/check.h"
#include "support/linear_mechanism.h"

/* ---- the test mechanism in double ---------------------------------------------------------------------- */

/* All inputs of a batch in one array, so that a finite difference is one loop. If `size` is set, every
   term enters by its absolute value: the result is the sum of the sizes of all terms, which rounding
   errors scale with. */
struct oracle {
    const struct attention_case *problem;
    const struct linear_options *options;
    bool size;
    size_t key, value, params, count; /* start of each array; queries start at 0 */
    double *x;
};

static struct oracle oracle_of(const struct attention_case *problem)
{
    size_t heads = problem->num_heads;
    size_t queries = attention_case_rows(problem->queries, problem->num_sequences) * heads;
    size_t keys = attention_case_rows(problem->keys, problem->num_sequences) * heads;
    struct oracle oracle = {.problem = problem, .options = problem->options};
    oracle.key = queries * problem->head_dim;
    oracle.value = oracle.key + keys * problem->head_dim;
    oracle.params = oracle.value + keys * problem->value_dim;
    size_t per_head = attention_case_params(problem);
    oracle.count = oracle.params + heads * per_head;
    oracle.x = calloc(oracle.count + 1, sizeof *oracle.x);
    assert_non_null(oracle.x);
    for (size_t i = 0; i < oracle.count; i++)
        oracle.x[i] = i < oracle.key      ? (double)problem->query[i]
                      : i < oracle.value  ? (double)problem->key[i - oracle.key]
                      : i < oracle.params ? (double)problem->value[i - oracle.value]
                                          : (double)problem->params[i - oracle.params];
    return oracle;
}

static double sized(const struct oracle *oracle, double x)
{
    return oracle->size ? fabs(x) : x;
}

/* Feature r of the row x of one head. */
static double feature(const struct oracle *oracle, const float *signs, size_t head, size_t r, size_t x)
{
    size_t d = oracle->problem->head_dim, features = (size_t)oracle->options->features;
    const double *project =
        oracle->x + oracle->params + head * (features * d + oracle->problem->value_dim) + r * d;
    double sum = 0;
    for (size_t c = 0; c < d; c++)
        sum += sized(oracle, project[c] * (double)signs[c] * oracle->x[x + c]);
    return sum;
}

/* out: (query rows, heads, value_dim), or NULL. Returns sum <dout, out>, and the auxiliary loss in *loss. */
static double oracle_forward(const struct oracle *oracle, double *out, double *loss)
{
    const struct attention_case *problem = oracle->problem;
    size_t heads = problem->num_heads, d = problem->head_dim, d_v = problem->value_dim;
    size_t features = (size_t)oracle->options->features, query_row = 0, key_row = 0;
    double total = 0;
    *loss = 0;
    for (size_t s = 0; s < problem->num_sequences; s++) {
        for (size_t h = 0; h < heads; h++) {
            uint64_t key = problem->call_key;
            if (problem->sample_ids != NULL)
                key = random_key(key, RANDOM_SAMPLE, problem->sample_ids[s]);
            key = random_key(key, RANDOM_HEAD, h);
            float signs[64], shared[64];
            random_signs(random_key(key, RANDOM_TURN, 0), signs, d);
            random_signs(random_key(problem->call_key, RANDOM_PLANES, 0), shared, d);
            for (size_t c = 0; c < d; c++)
                signs[c] *= shared[c];
            const double *gain = oracle->x + oracle->params + h * (features * d + d_v) + features * d;
            size_t kept = 0;
            for (size_t j = 0; j < problem->keys[s]; j++)
                kept += problem->key_mask == NULL || problem->key_mask[key_row + j];
            for (size_t i = 0; i < problem->queries[s]; i++) {
                size_t query_at = ((query_row + i) * heads + h);
                double x[64] = {0};
                size_t met = 0;
                for (size_t j = 0; j < problem->keys[s] && !(problem->causal && j > i); j++) {
                    if (problem->key_mask != NULL && !problem->key_mask[key_row + j])
                        continue;
                    size_t key_at = ((key_row + j) * heads + h);
                    double dot = 0,
                           weight = oracle->options->weighting ? 1 + oracle->options->slope * (double)j : 1;
                    for (size_t r = 0; r < features; r++)
                        dot += feature(oracle, signs, h, r, query_at * d) *
                               feature(oracle, signs, h, r, oracle->key + key_at * d);
                    for (size_t c = 0; c < d_v; c++)
                        x[c] += sized(oracle, weight * dot * oracle->x[oracle->value + key_at * d_v + c]);
                    met++;
                }
                for (size_t c = 0; c < d_v; c++) {
                    double y = gain[c] * x[c] / (oracle->options->average && met > 0 ? (double)met : 1);
                    if (out != NULL)
                        out[query_at * d_v + c] = sized(oracle, y);
                    total += sized(oracle, y * (double)problem->dout[query_at * d_v + c]);
                }
                for (size_t r = 0; r < features && kept > 0; r++)
                    *loss += 0.5 * pow(feature(oracle, signs, h, r, query_at * d), 2);
            }
        }
        query_row += problem->queries[s];
        key_row += problem->keys[s];
    }
    return total;
}

/* The derivatives of both by input i. The function is a polynomial of degree at most 2 in each input, for
   which the central difference is exact. */
static void oracle_slope(struct oracle *oracle, size_t i, double *slope, double *loss_slope)
{
    double x = oracle->x[i], up, down, step = 0.5;
    /* With absolute values, differentiate where the function is smooth. */
    if (oracle->size)
        oracle->x[i] = x = fabs(x) + step;
    oracle->x[i] = x + step;
    double total = oracle_forward(oracle, NULL, &up);
    oracle->x[i] = x - step;
    total -= oracle_forward(oracle, NULL, &down);
    *slope = total / (2 * step);
    *loss_slope = (up - down) / (2 * step);
}

static void check_against_oracle(struct attention_case *problem)
{
    struct attention_result result = attention_case_run(problem);
    struct oracle oracle = oracle_of(problem);
    size_t heads = problem->num_heads, outs = result.query_rows * heads * problem->value_dim;
    double *want = calloc(2 * outs + 1, sizeof *want), loss, loss_size;
    assert_non_null(want);
    oracle_forward(&oracle, want, &loss);
    oracle.size = true;
    oracle_forward(&oracle, want + outs, &loss_size);
    /* Each term passes at most this many roundings: two dot products over d, sums over features, keys,
       queries, value columns and sequences, and a few factors. */
    double roundings = 2.0 * (double)problem->head_dim + (double)oracle.options->features +
                       (double)result.query_rows + (double)result.key_rows + (double)problem->value_dim + 16;
    double unit = roundings * FLT_EPSILON;
    for (size_t i = 0; i < outs; i++)
        check_near((double)result.out[i], want[i], unit * want[outs + i], "out");
    check_near(result.auxiliary, loss, unit * loss_size, "auxiliary loss");
    for (size_t i = 0; i < oracle.count; i++) {
        double slope, loss_slope, size, size_of_loss, x = oracle.x[i];
        oracle.size = false;
        oracle_slope(&oracle, i, &slope, &loss_slope);
        oracle.x[i] = x;
        oracle.size = true;
        oracle_slope(&oracle, i, &size, &size_of_loss);
        oracle.x[i] = x;
        float got = i < oracle.key      ? result.dquery[i]
                    : i < oracle.value  ? result.dkey[i - oracle.key]
                    : i < oracle.params ? result.dvalue[i - oracle.value]
                                        : result.dparams[i - oracle.params];
        double start = (double)problem->start;
        check_near((double)got, start + slope, unit * (size + fabs(start)), "gradient");
        if (i >= oracle.params)
            check_near((double)result.auxiliary_dparams[i - oracle.params], loss_slope, unit * size_of_loss,
                       "gradient of the auxiliary loss");
        else
            check_near(loss_slope, i < oracle.key ? loss_slope : 0, 0, "the loss depends on queries only");
    }
    free(want);
    free(oracle.x);
    attention_result_free(&result);
}

/* Four sequences, one without queries, one without keys. */
static struct attention_case linear_case(const struct linear_options *options)
{
    return (struct attention_case){
        .mechanism = &linear_mechanism,
        .options = options,
        .num_sequences = 4,
        .num_heads = 2,
        .head_dim = 3,
        .value_dim = 2,
        .queries = {3, 0, 2, 1},
        .keys = {2, 3, 4, 0},
        .call_key = 77,
        .start = 0.5f,
    };
}

static const struct linear_options plain = {.features = 2, .slope = 0.25};

static void linear_is_its_formula_and_its_gradients(void **state)
{
    (void)state;
    static const uint64_t ids[] = {9, 4, 1000000, 2};
    for (int form = 0; form < 32; form++) {
        struct linear_options options = plain;
        options.weighting = form & 1;
        options.average = form >> 1 & 1;
        struct attention_case problem = linear_case(&options);
        problem.causal = form >> 2 & 1;
        problem.sample_ids = form >> 3 & 1 ? ids : NULL;
        problem.layout = (enum layout)(form % 4);
        if (problem.causal)
            memcpy(problem.keys, problem.queries, sizeof problem.keys);
        attention_case_fill(&problem, 5, form >> 4 & 1);
        if (problem.key_mask != NULL)
            problem.key_mask[0] = problem.key_mask[3] = 0;
        check_against_oracle(&problem);
        attention_case_free(&problem);
    }
}

/* ---- keys and order ------------------------------------------------------------------------------- */

static void chance_follows_the_sample_or_is_the_same_for_all(void **state)
{
    (void)state;
    struct linear_options options = plain;
    struct attention_case problem = {.mechanism = &linear_mechanism,
                                     .options = &options,
                                     .num_sequences = 2,
                                     .num_heads = 1,
                                     .head_dim = 20,
                                     .value_dim = 3,
                                     .queries = {4, 4},
                                     .keys = {4, 4}};
    attention_case_fill(&problem, 8, false);
    struct attention_case twice = problem;
    attention_case_fill(&twice, 8, false);
    attention_case_take_sequence(&twice, 1, &problem, 0);
    struct attention_result alike = attention_case_run(&twice);
    check_same_bits(alike.out, alike.out + 12, 12 * sizeof(float), "evaluation hashes alike");
    static const uint64_t ids[] = {0, 1};
    twice.sample_ids = ids;
    struct attention_result sampled = attention_case_run(&twice);
    assert_memory_not_equal(sampled.out, sampled.out + 12, 12 * sizeof(float));
    assert_memory_not_equal(sampled.out, alike.out, 12 * sizeof(float));
    attention_result_free(&alike);
    attention_result_free(&sampled);
    attention_case_free(&problem);
    attention_case_free(&twice);
}

/* A mechanism that records its units: the first number of the unit's value. */
static float seen[64];
static size_t num_seen;

static void note(const struct problem *problem, struct view out)
{
    (void)out;
    seen[num_seen++] = *(const float *)problem->value.data;
}

static void the_most_expensive_units_come_first(void **state)
{
    (void)state;
    struct mechanism noting = *attention_find("softmax");
    noting.host.forward = note;
    struct pool *pool;
    struct host host;
    host_init(&host);
    check_status(&host, pool_new(&host, 1, &pool), HASHATTN_OK, NULL);
    /* Costs n_q n_k: 6, 12, 12, 0, 10, 1, 12; without the product 5, 8, 13, 5, 7, 2, 7. */
    struct attention_case problem = {.mechanism = &noting,
                                     .num_sequences = 7,
                                     .num_heads = 2,
                                     .head_dim = 1,
                                     .value_dim = 1,
                                     .queries = {2, 6, 1, 0, 2, 1, 3},
                                     .keys = {3, 2, 12, 5, 5, 1, 4}};
    static const int by_product[] = {1, 2, 6, 4, 0, 5}, by_sum[] = {2, 1, 4, 6, 0, 5};
    attention_case_fill(&problem, 1, false);
    for (size_t s = 0; s < 7; s++)
        for (size_t i = 0; i < problem.keys[s]; i++)
            for (size_t h = 0; h < 2; h++)
                problem.value[(attention_case_rows(problem.keys, s) + i) * 2 + h] = (float)(10 * s + h);
    for (int linear = 0; linear < 2; linear++) {
        noting.quadratic = !linear;
        size_t offsets[2 * (CASE_SEQUENCES + 1)];
        struct case_call made = attention_case_call(&problem, pool, offsets);
        check_status(&host, case_plan(&host, &made), HASHATTN_OK, NULL);
        size_t saved_floats = made.plan.saved_bytes / 4, scratch_floats = made.plan.scratch_bytes / 4;
        float *saved = guard_floats(saved_floats), *scratch = guard_floats(scratch_floats), out[2 * 15];
        num_seen = 0;
        made.call.saved = saved;
        made.call.scratch = scratch;
        attention_forward(&made.call,
                          (struct packed){.data = out, .width = 1, .row_stride = 2, .head_stride = 1});
        assert_int_equal(num_seen, 12);
        for (int i = 0; i < 12; i++)
            assert_true(seen[i] == (float)(10 * (linear ? by_sum : by_product)[i / 2] + i % 2));
        guard_free(saved, saved_floats);
        guard_free(scratch, scratch_floats);
    }
    attention_case_free(&problem);
    pool_free(&host, pool);
}

/* ---- units that use all threads ------------------------------------------------------------------------ */

static atomic_size_t num_alone, num_side_by_side;

static void note_threads(const struct problem *problem, struct view out)
{
    (void)out;
    size_t threads = (size_t)pool_threads(problem->pool);
    assert_true(problem->shape.workers == threads);
    atomic_fetch_add(threads > 1 ? &num_alone : &num_side_by_side, 1);
}

static size_t no_bytes(const void *options, const struct problem_shape *shape)
{
    (void)options;
    (void)shape;
    return 0;
}

static void units_that_are_spread_have_all_threads(void **state)
{
    (void)state;
    static const struct {
        int threads;
        size_t heads, spread, lengths[6];
    } settings[] = {
        {2, 3, 1, {4096}},
        {4, 3, 3, {4096}},
        {2, 12, 0, {4096}},
        {2, 1, 1, {500, 65536, 400, 300, 300, 200}},
        {4, 1, 3, {65536, 10000, 10000, 10, 10, 10}},
    };
    struct mechanism noting = *attention_find("softmax");
    noting.host.forward = note_threads;
    noting.quadratic = false;
    noting.host.saved_size = noting.host.scratch_size = no_bytes;
    struct host host;
    host_init(&host);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        size_t offsets[7] = {0}, sequences = 0;
        while (sequences < 6 && settings[i].lengths[sequences] > 0) {
            offsets[sequences + 1] = offsets[sequences] + settings[i].lengths[sequences];
            sequences++;
        }
        struct pool *pool;
        check_status(&host, pool_new(&host, settings[i].threads, &pool), HASHATTN_OK, NULL);
        float *data = calloc(offsets[sequences] * settings[i].heads, sizeof *data);
        struct packed rows = {.data = data, .width = 1, .row_stride = settings[i].heads, .head_stride = 1};
        struct case_call made = {.shape = {.kernels = kernels_named("ref", &(const char *){0}),
                                           .pool = pool,
                                           .mechanism = &noting,
                                           .num_sequences = sequences,
                                           .num_heads = settings[i].heads,
                                           .head_dim = 1,
                                           .value_dim = 1,
                                           .query_offsets = offsets,
                                           .key_offsets = offsets},
                                 .call = {.query = rows, .key = rows, .value = rows}};
        check_status(&host, case_plan(&host, &made), HASHATTN_OK, NULL);
        void *scratch = aligned_alloc(64, made.plan.scratch_bytes + 64);
        num_alone = num_side_by_side = 0;
        made.call.scratch = scratch;
        attention_forward(&made.call, rows);
        if (num_alone != settings[i].spread)
            fail_msg("setting %zu: %zu units are spread, not %zu", i, (size_t)num_alone, settings[i].spread);
        assert_int_equal(num_alone + num_side_by_side, sequences * settings[i].heads);
        free(data), free(scratch);
        pool_free(&host, pool);
    }
}

/* ---- the check ----------------------------------------------------------------------------------------- */

static const char *refuse_nothing(const void *options, const struct problem_shape *shape)
{
    (void)options;
    (void)shape;
    return NULL;
}

static void refusals_name_the_numbers(void **state)
{
    (void)state;
    struct linear_options options = plain;
    struct attention_case problem = linear_case(&options);
    attention_case_fill(&problem, 9, true);
    struct host host;
    struct pool *pool;
    host_init(&host);
    check_status(&host, pool_new(&host, 1, &pool), HASHATTN_OK, NULL);
    size_t offsets[2 * (CASE_SEQUENCES + 1)];
    struct case_call good = attention_case_call(&problem, pool, offsets), made = good;
    check_status(&host, case_plan(&host, &made), HASHATTN_OK, NULL);

    made.shape.num_heads = 0;
    check_status(&host, case_plan(&host, &made), HASHATTN_INVALID,
                 "num_heads is 0, head_dim 3, value_dim 2; each must be at least 1");
    made = good;
    made.shape.head_dim = 0;
    check_status(&host, case_plan(&host, &made), HASHATTN_INVALID, "head_dim 0");
    made = good;
    made.shape.value_dim = 0;
    check_status(&host, case_plan(&host, &made), HASHATTN_INVALID, "value_dim 0");
    made = good;
    made.call.query.width = 4;
    check_status(&host, case_plan(&host, &made), HASHATTN_INVALID, "query has width 4, 3 is needed");
    made = good;
    made.call.key.row_stride = 2;
    check_status(&host, case_plan(&host, &made), HASHATTN_INVALID,
                 "key has rows of width 3 that are only 2 apart");
    made = good;
    made.call.key.width = 5;
    check_status(&host, case_plan(&host, &made), HASHATTN_INVALID, "key has width 5, 3 is needed");
    made = good;
    made.call.value.width = 9;
    check_status(&host, case_plan(&host, &made), HASHATTN_INVALID, "value has width 9, 2 is needed");
    made = good;
    made.call.query.row_stride = made.call.query.width; /* rows may follow each other */
    check_status(&host, case_plan(&host, &made), HASHATTN_OK, NULL);
    for (size_t rows = 1; rows <= 2; rows++) { /* and a single one has no stride */
        const size_t few[] = {0, rows};
        made = good;
        made.shape.num_sequences = 1;
        made.shape.query_offsets = made.shape.key_offsets = few;
        made.call.value.row_stride = 1;
        check_status(&host, case_plan(&host, &made), rows == 1 ? HASHATTN_OK : HASHATTN_INVALID,
                     rows == 1 ? NULL : "value has rows of width 2 that are only 1 apart");
    }
    made = good;
    made.call.params = NULL;
    check_status(&host, case_plan(&host, &made), HASHATTN_INVALID,
                 "linear needs 8 learned parameters per head, none were given");
    made = good;
    made.shape.causal = true;
    check_status(&host, case_plan(&host, &made), HASHATTN_INVALID,
                 "sequence 0 has 3 queries and 2 keys; causal attention needs equal numbers");
    made = good;
    made.shape.mechanism = attention_find("none");
    check_status(&host, case_plan(&host, &made), HASHATTN_REFUSED,
                 "none: output = value needs as many queries as keys (sequence 0: 3 queries, 2 keys");
    made = good;
    options.weighting = 1;
    made.shape.mechanism = &blind_mechanism;
    check_status(&host, case_plan(&host, &made), HASHATTN_REFUSED, "blind: does not see positions");
    attention_case_free(&problem);
    pool_free(&host, pool);
}

/* refuse gets the shape that the mechanism will run with: only the kept keys if it does not see the mask. */
static const char *refuse_two_keys(const void *options, const struct problem_shape *shape)
{
    (void)options;
    return shape->num_keys == 2 ? "dislikes two keys" : NULL;
}

static void sizes_that_overflow_and_kept_shapes_are_seen(void **state)
{
    (void)state;
    struct host host;
    struct pool *pool;
    host_init(&host);
    check_status(&host, pool_new(&host, 2, &pool), HASHATTN_OK, NULL);
    struct linear_options options = plain;
    struct mechanism picky = blind_mechanism;
    picky.host.refuse = refuse_two_keys;
    struct attention_case problem = linear_case(&options);
    problem.mechanism = &picky;
    problem.keys[0] = 3;
    attention_case_fill(&problem, 1, true);
    size_t offsets[2 * (CASE_SEQUENCES + 1)];
    struct case_call made = attention_case_call(&problem, pool, offsets);
    check_status(&host, case_plan(&host, &made), HASHATTN_OK, NULL);
    problem.keys[1] = 2; /* every sequence is checked, not only the first */
    attention_case_free(&problem);
    attention_case_fill(&problem, 1, true);
    made = attention_case_call(&problem, pool, offsets);
    check_status(&host, case_plan(&host, &made), HASHATTN_REFUSED, "(sequence 1: ");
    problem.keys[1] = 5;
    attention_case_free(&problem);
    attention_case_fill(&problem, 1, true);
    made = attention_case_call(&problem, pool, offsets);
    check_status(&host, case_plan(&host, &made), HASHATTN_OK, NULL);
    problem.key_mask[1] = 0;
    check_status(&host, case_plan(&host, &made), HASHATTN_REFUSED,
                 "blind: dislikes two keys (sequence 0: 3 queries, 2 keys, head_dim 3)");

    picky.host.refuse = refuse_nothing;
    made.call.key_mask = NULL;
    made.shape.masked = false;
    made.shape.num_heads = SIZE_MAX / 1000;
    check_status(&host, case_plan(&host, &made), HASHATTN_NO_MEMORY, "more bytes than can be counted");
    char want[200];
    snprintf(want, sizeof want,
             "blind on %zu queries, %zu keys, %zu heads needs more bytes than can be counted (%zu saved, %zu "
             "scratch)",
             made.shape.query_offsets[made.shape.num_sequences],
             made.shape.key_offsets[made.shape.num_sequences], made.shape.num_heads, made.plan.saved_bytes,
             made.plan.scratch_bytes);
    check_status(&host, case_plan(&host, &made), HASHATTN_NO_MEMORY, want);
    made.shape.num_heads = 2;
    size_t far[2] = {0, SIZE_MAX / 8};
    made.shape.num_sequences = 1;
    made.shape.query_offsets = made.shape.key_offsets = far;
    check_status(&host, case_plan(&host, &made), HASHATTN_NO_MEMORY, "more bytes than can be counted");
    attention_case_free(&problem);
    pool_free(&host, pool);
}

/* The first sequence that is refused is named, whether or not those beside it have its shape. */
static void every_shape_is_checked(void **state)
{
    (void)state;
    enum { COUNT = 4 };
    struct host host;
    struct linear_options options = plain;
    struct mechanism picky = blind_mechanism;
    picky.host.refuse = refuse_two_keys;
    host_init(&host);
    for (size_t first = 0; first < COUNT; first++)
        for (size_t end = first + 1; end <= COUNT; end++) {
            char want[80];
            size_t threes[COUNT + 1] = {0}, keys[COUNT + 1] = {0};
            for (size_t s = 0; s < COUNT; s++) {
                threes[s + 1] = threes[s] + 3;
                keys[s + 1] = keys[s] + (s >= first && s < end ? 2 : 3);
            }
            struct attention_shape shape = {.mechanism = &picky,
                                            .options = &options,
                                            .num_sequences = COUNT,
                                            .num_heads = 1,
                                            .head_dim = 5,
                                            .value_dim = 5,
                                            .query_offsets = threes,
                                            .key_offsets = keys};
            snprintf(want, sizeof want,
                     "blind: dislikes two keys (sequence %zu: 3 queries, 2 keys, head_dim 5)", first);
            check_status(&host, attention_check_shapes(&host, &shape, NULL), HASHATTN_REFUSED, want);
            shape.query_offsets = keys;
            shape.key_offsets = threes;
            check_status(&host, attention_check_shapes(&host, &shape, NULL), HASHATTN_OK, NULL);
            shape.causal = true;
            snprintf(want, sizeof want, "sequence %zu has 2 queries and 3 keys; causal", first);
            check_status(&host, attention_check_shapes(&host, &shape, NULL), HASHATTN_INVALID, want);
        }
}

/* Nothing is read, drawn or run: the call has no memory for it. */
static void a_call_without_rows_needs_nothing(void **state)
{
    (void)state;
    struct host host;
    struct pool *pool;
    host_init(&host);
    check_status(&host, pool_new(&host, 2, &pool), HASHATTN_OK, NULL);
    struct linear_options options = plain;
    struct attention_case problem = linear_case(&options);
    for (size_t s = 0; s < problem.num_sequences; s++)
        problem.queries[s] = problem.keys[s] = 0;
    attention_case_fill(&problem, 1, false);
    size_t offsets[2 * (CASE_SEQUENCES + 1)];
    struct case_call made = attention_case_call(&problem, pool, offsets);
    made.shape.num_heads = (size_t)1 << 50;
    made.call.params = NULL;
    check_status(&host, case_plan(&host, &made), HASHATTN_OK, NULL);
    assert_int_equal(made.plan.saved_bytes, 0);
    assert_int_equal(made.plan.scratch_bytes, 0);
    const struct attention_call call = made.call;
    const struct packed keys = {.width = made.shape.head_dim}, values = {.width = made.shape.value_dim};
    attention_forward(&call, values);
    attention_backward(&call, values, values, keys, keys, values, NULL);
    assert_true(attention_auxiliary(&call, NULL) == 0);
    attention_case_free(&problem);
    pool_free(&host, pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_is_its_formula_and_its_gradients),
        cmocka_unit_test(chance_follows_the_sample_or_is_the_same_for_all),
        cmocka_unit_test(the_most_expensive_units_come_first),
        cmocka_unit_test(units_that_are_spread_have_all_threads),
        cmocka_unit_test(refusals_name_the_numbers),
        cmocka_unit_test(every_shape_is_checked),
        cmocka_unit_test(sizes_that_overflow_and_kept_shapes_are_seen),
        cmocka_unit_test(a_call_without_rows_needs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
