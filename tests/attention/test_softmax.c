/* Exact attention against its definition in double precision, on every instruction set; and its own
   properties. Bugs planted and caught: scale 1/d; the result not rescaled when the maximum grows, or only
   when the first row's does; not divided by the sum; the sum without its logarithm, or always of the first
   group; the last tile treated as full; the keys or values of the second group read from the first; delta
   left out, or always of the first block; dS without the scale; dK of the last block only; dQ of the last
   tile only; P not transposed in dV; gradients written instead of added; causal: the query's own key
   unseen, sums of a partly seen tile not begun at 0, a tile skipped by the first query of its block; bf16:
   all threads rounding into the memory of the first.
   SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/driver/attention.h"
#include "base/random.h"
#include "oracle/oracle_softmax.h"
#include "support/attention_case.h"
#include "support/check.h"

/* The oracle's gradients are those of its own forward. */
static void the_oracle_is_its_own_derivative(void **state)
{
    (void)state;
    struct oracle_softmax o = oracle_softmax_new(3, 4, 2, 3);
    double *inputs[] = {o.query, o.key, o.value}, *gradients[] = {o.dquery, o.dkey, o.dvalue};
    size_t counts[] = {6, 8, 12};
    float x[12];
    for (size_t a = 0; a < 4; a++) {
        double *array = a < 3 ? inputs[a] : o.dout;
        size_t count = a < 3 ? counts[a] : 9;
        random_normals(1, 100 * a, x, count);
        for (size_t i = 0; i < count; i++)
            array[i] = (double)x[i];
    }
    for (size_t a = 0; a < 3; a++)
        for (size_t i = 0; i < counts[a]; i++) {
            /* Error of the central difference: step^2 / 6 times a third derivative of a few tens. */
            double before = inputs[a][i], step = 1e-4, want;
            inputs[a][i] = before + step;
            want = oracle_softmax_run(&o);
            inputs[a][i] = before - step;
            want = (want - oracle_softmax_run(&o)) / (2 * step);
            inputs[a][i] = before;
            oracle_softmax_run(&o);
            check_near(gradients[a][i], want, 1e-7, "gradient of the oracle");
        }
    oracle_softmax_free(&o);
}

/* ---- against the oracle -------------------------------------------------------------------------------- */

static struct attention_case one_head(size_t queries, size_t keys, size_t head_dim, size_t value_dim)
{
    return (struct attention_case){.mechanism = attention_find("softmax"),
                                   .num_sequences = 1,
                                   .num_heads = 1,
                                   .head_dim = head_dim,
                                   .value_dim = value_dim,
                                   .queries = {queries},
                                   .keys = {keys}};
}

static void to_double(double *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (double)from[i];
}

/* Without masked keys. */
static struct oracle_softmax oracle_of(const struct attention_case *problem)
{
    size_t n_q = problem->queries[0], n_k = problem->keys[0], d = problem->head_dim, d_v = problem->value_dim;
    struct oracle_softmax o = oracle_softmax_new(n_q, n_k, d, d_v);
    o.rounding = problem->precision == PRECISION_BF16 ? ldexp(1, -8) : 0; /* 8 bits, to nearest */
    if (problem->causal) {
        o.visible = malloc(n_q * sizeof *o.visible);
        for (size_t i = 0; i < n_q; i++)
            o.visible[i] = i + 1;
    }
    to_double(o.query, problem->query, n_q * d);
    to_double(o.key, problem->key, n_k * d);
    to_double(o.value, problem->value, n_k * d_v);
    to_double(o.dout, problem->dout, n_q * d_v);
    oracle_softmax_run(&o);
    return o;
}

static void check_array(const float *got, const double *want, const double *bound, size_t count, double start,
                        const char *what)
{
    for (size_t i = 0; i < count; i++)
        check_near((double)got[i], start + want[i],
                   bound[i] + 2 * FLT_EPSILON * (fabs(start) + fabs(want[i])), what);
}

/* With half of the keys masked, the first included, causal attention uses only the kept keys up to each
   query's own place. Calls the mechanism directly. */
static void check_uneven(const struct kernels *kernels, size_t n_q, size_t n_k, size_t d, size_t d_v)
{
    struct attention_case data = one_head(n_q, n_k, d, d_v);
    attention_case_fill(&data, n_q, false);
    size_t *visible = malloc(n_q * sizeof *visible);
    for (size_t i = 0, seen = 0; i < n_q; i++) {
        seen += i % 3 == 1 ? 1 + n_k / n_q : 0;
        visible[i] = seen = seen < n_k ? seen : n_k;
    }
    struct oracle_softmax o = oracle_of(&data);
    o.visible = visible;
    oracle_softmax_run(&o);
    struct problem problem = {
        .kernels = kernels,
        .shape = {.num_queries = n_q,
                  .num_keys = n_k,
                  .head_dim = d,
                  .value_dim = d_v,
                  .causal = true,
                  .workers = 1},
        .query = view_of(data.query, n_q, d),
        .key = view_of(data.key, n_k, d),
        .value = view_of(data.value, n_k, d_v),
        .visible = visible,
    };
    size_t saved = data.mechanism->host.saved_size(NULL, &problem.shape) / sizeof(float),
           scratch = data.mechanism->host.scratch_size(NULL, &problem.shape) / sizeof(float);
    float *out = guard_floats(n_q * d_v), *dquery = guard_floats(n_q * d), *dkey = guard_floats(n_k * d),
          *dvalue = guard_floats(n_k * d_v);
    problem.saved = guard_floats(saved);
    problem.scratch = guard_floats(scratch);
    memset(problem.scratch, 0xff, scratch * sizeof(float));
    memset(dquery, 0, n_q * d * sizeof(float));
    memset(dkey, 0, n_k * d * sizeof(float));
    memset(dvalue, 0, n_k * d_v * sizeof(float));
    struct view y = view_of(out, n_q, d_v), g = view_of(data.dout, n_q, d_v);
    data.mechanism->host.forward(&problem, y);
    memset(problem.scratch, 0xff, scratch * sizeof(float));
    data.mechanism->host.backward(&problem, y, g,
                                  &(struct problem_gradients){.query = view_of(dquery, n_q, d),
                                                              .key = view_of(dkey, n_k, d),
                                                              .value = view_of(dvalue, n_k, d_v)});
    check_array(out, o.out, o.out_bound, n_q * d_v, 0, "out");
    check_array(dquery, o.dquery, o.dquery_bound, n_q * d, 0, "dquery");
    check_array(dkey, o.dkey, o.dkey_bound, n_k * d, 0, "dkey");
    check_array(dvalue, o.dvalue, o.dvalue_bound, n_k * d_v, 0, "dvalue");
    guard_free(problem.saved, saved);
    guard_free(problem.scratch, scratch);
    guard_free(out, n_q * d_v);
    guard_free(dquery, n_q * d);
    guard_free(dkey, n_k * d);
    guard_free(dvalue, n_k * d_v);
    oracle_softmax_free(&o);
    attention_case_free(&data);
}

static void uneven_steps_are_the_definition(void **state)
{
    (void)state;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        check_uneven(*kernels, 1, 3, 2, 2);
        check_uneven(*kernels, 7, 2, 5, 3);
        check_uneven(*kernels, 330, 110, 8, 4);
        check_uneven(*kernels, 200, 700, 4, 3);
        check_uneven(*kernels, 1100, 370, 3, 2);
    }
}

static void check_against_oracle(struct attention_case *problem)
{
    struct oracle_softmax o = oracle_of(problem);
    problem->start = 0.25f;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        problem->kernels = *kernels;
        struct attention_result result = attention_case_run(problem);
        check_array(result.out, o.out, o.out_bound, o.n_q * o.d_v, 0, "out");
        check_array(result.dquery, o.dquery, o.dquery_bound, o.n_q * o.d, 0.25, "dquery");
        check_array(result.dkey, o.dkey, o.dkey_bound, o.n_k * o.d, 0.25, "dkey");
        check_array(result.dvalue, o.dvalue, o.dvalue_bound, o.n_k * o.d_v, 0.25, "dvalue");
        attention_result_free(&result);
    }
    oracle_softmax_free(&o);
}

/* Normals; if operands are rounded, normals that rounding does not change. */
static void fill(struct attention_case *problem, uint64_t seed)
{
    attention_case_fill(problem, seed, false);
    const struct kernels *kernels = kernels_all()[0];
    size_t n_q = problem->queries[0], n_k = problem->keys[0], d = problem->head_dim, d_v = problem->value_dim;
    float *arrays[] = {problem->query, problem->key, problem->value, problem->dout};
    size_t counts[] = {n_q * d, n_k * d, n_k * d_v, n_q * d_v};
    for (size_t a = 0; a < 4 && problem->precision == PRECISION_BF16; a++) {
        bf16 *half = malloc(counts[a] * sizeof *half);
        kernels->bf16.round(half, counts[a], arrays[a], counts[a], 1, counts[a]);
        kernels->bf16.widen(arrays[a], counts[a], half, counts[a], 1, counts[a]);
        free(half);
    }
}

static void check_shape(const size_t shape[4], uint64_t seed, enum precision precision)
{
    for (int causal = 0; causal < 2; causal++) {
        struct attention_case problem = one_head(shape[0], causal ? shape[0] : shape[1], shape[2], shape[3]);
        problem.precision = precision;
        problem.causal = causal;
        fill(&problem, seed);
        check_against_oracle(&problem);
        attention_case_free(&problem);
    }
}

static void every_shape_is_the_definition(void **state)
{
    (void)state;
    /* One row; one less and one more than a block of queries (96) and a tile of keys (128); more than a
       group of queries (960) and of keys (512). */
    static const size_t shapes[][4] = {
        {1, 1, 1, 1},     {1, 7, 3, 2},     {7, 1, 2, 5},     {95, 127, 16, 8}, {96, 128, 64, 64},
        {97, 129, 5, 17}, {961, 130, 4, 3}, {100, 641, 8, 4}, {33, 200, 80, 1}, {64, 64, 33, 31},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_shape(shapes[i], i, PRECISION_FLOAT32);
        check_shape(shapes[i], i, PRECISION_BF16);
    }
}

static void large_scores_neither_overflow_nor_lose_the_sum(void **state)
{
    (void)state;
    /* Scores about 80 and about 10,000 apart; ascending along the keys, so that every tile has a new
       maximum, and descending. */
    static const float sizes[] = {40, 10000};
    for (size_t i = 0; i < 2; i++)
        for (int falling = 0; falling < 2; falling++) {
            struct attention_case problem = one_head(100, 300, 4, 3);
            attention_case_fill(&problem, 11, false);
            for (size_t j = 0; j < 300; j++)
                problem.key[4 * (falling ? 299 - j : j)] = sizes[i] * ((float)j / 150 - 1);
            for (size_t q = 0; q < 100; q++)
                problem.query[4 * q] = q % 2 == 0 ? 2 : -2;
            check_against_oracle(&problem);
            struct attention_result result = attention_case_run(&problem);
            for (size_t c = 0; c < 100 * 3; c++)
                assert_true(isfinite(result.out[c]));
            for (size_t c = 0; c < 300 * 4; c++)
                assert_true(isfinite(result.dkey[c]));
            attention_result_free(&result);
            attention_case_free(&problem);
        }
}

/* ---- properties ---------------------------------------------------------------------------------------- */

static void values_of_one_give_one(void **state)
{
    (void)state;
    struct attention_case problem = one_head(100, 300, 16, 2);
    attention_case_fill(&problem, 12, false);
    for (size_t i = 0; i < 600; i++)
        problem.value[i] = 1;
    struct oracle_softmax o = oracle_of(&problem);
    struct attention_result result = attention_case_run(&problem);
    for (size_t i = 0; i < 200; i++)
        check_near((double)result.out[i], 1, o.out_bound[i], "a mean of ones");
    oracle_softmax_free(&o);
    attention_result_free(&result);
    attention_case_free(&problem);
}

static void the_order_of_keys_changes_rounding_only(void **state)
{
    (void)state;
    struct attention_case problem = one_head(40, 150, 8, 3), turned = problem;
    attention_case_fill(&problem, 13, false);
    attention_case_fill(&turned, 13, false);
    uint32_t order[150];
    random_permutation(14, order, 150);
    for (size_t j = 0; j < 150; j++) {
        memcpy(turned.key + j * 8, problem.key + order[j] * 8, 8 * sizeof(float));
        memcpy(turned.value + j * 3, problem.value + order[j] * 3, 3 * sizeof(float));
    }
    struct oracle_softmax o = oracle_of(&problem);
    struct attention_result a = attention_case_run(&problem), b = attention_case_run(&turned);
    for (size_t i = 0; i < 40 * 3; i++)
        check_near((double)b.out[i], (double)a.out[i], 2 * o.out_bound[i], "out");
    for (size_t i = 0; i < 40 * 8; i++)
        check_near((double)b.dquery[i], (double)a.dquery[i], 2 * o.dquery_bound[i], "dquery");
    for (size_t j = 0; j < 150; j++)
        for (size_t c = 0; c < 8; c++)
            check_near((double)b.dkey[j * 8 + c], (double)a.dkey[order[j] * 8 + c],
                       2 * o.dkey_bound[order[j] * 8 + c], "dkey");
    oracle_softmax_free(&o);
    attention_result_free(&a);
    attention_result_free(&b);
    attention_case_free(&problem);
    attention_case_free(&turned);
}

static void the_output_is_linear_in_the_values(void **state)
{
    (void)state;
    struct attention_case problem = one_head(40, 150, 8, 3), other = problem, sum = problem;
    attention_case_fill(&problem, 15, false);
    attention_case_fill(&other, 15, false);
    attention_case_fill(&sum, 15, false);
    random_normals(16, 0, other.value, 150 * 3);
    for (size_t i = 0; i < 150 * 3; i++)
        sum.value[i] = 2 * problem.value[i] - 0.5f * other.value[i];
    struct oracle_softmax o = oracle_of(&problem), p = oracle_of(&other), s = oracle_of(&sum);
    struct attention_result a = attention_case_run(&problem), b = attention_case_run(&other),
                            c = attention_case_run(&sum);
    for (size_t i = 0; i < 40 * 3; i++)
        check_near((double)c.out[i], 2 * (double)a.out[i] - 0.5 * (double)b.out[i],
                   s.out_bound[i] + 2 * o.out_bound[i] + 0.5 * p.out_bound[i], "out");
    oracle_softmax_free(&o);
    oracle_softmax_free(&p);
    oracle_softmax_free(&s);
    attention_result_free(&a);
    attention_result_free(&b);
    attention_result_free(&c);
    attention_case_free(&problem);
    attention_case_free(&other);
    attention_case_free(&sum);
}

/* Groups of queries and of keys in parallel, each thread with its own tiles. */
static void threads_do_not_change_a_bit_in_bf16(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        struct attention_case problem = one_head(2311, causal ? 2311 : 1931, 19, 41);
        problem.kernels = kernels_named(NULL, &(const char *){0});
        problem.precision = PRECISION_BF16;
        problem.causal = causal;
        attention_case_fill(&problem, 17, false);
        struct attention_result one = attention_case_run(&problem);
        for (problem.threads = 2; problem.threads < 16; problem.threads += 3) {
            struct attention_result many = attention_case_run(&problem);
            attention_case_same_bits(&one, &many, &problem, "softmax in bf16");
            attention_result_free(&many);
        }
        attention_result_free(&one);
        attention_case_free(&problem);
    }
}

static void memory_is_linear_and_small(void **state)
{
    (void)state;
    const struct mechanism *softmax = attention_find("softmax");
    struct problem_shape shape = {
        .num_queries = 4096, .num_keys = 4096, .head_dim = 64, .value_dim = 64, .workers = 1};
    assert_int_equal(softmax->host.saved_size(NULL, &shape), 2 * 4096 * sizeof(float));
    size_t scratch = softmax->host.scratch_size(NULL, &shape);
    shape.num_queries = shape.num_keys = 8192;
    assert_int_equal(softmax->host.scratch_size(NULL, &shape), scratch + 4096 * sizeof(float));
    assert_true(scratch < 1 << 20);
    shape.precision = PRECISION_BF16;
    assert_true(softmax->host.scratch_size(NULL, &shape) <= scratch + 4096 * sizeof(float) + (192 << 10));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oracle_is_its_own_derivative),
        cmocka_unit_test(every_shape_is_the_definition),
        cmocka_unit_test(uneven_steps_are_the_definition),
        cmocka_unit_test(large_scores_neither_overflow_nor_lose_the_sum),
        cmocka_unit_test(values_of_one_give_one),
        cmocka_unit_test(the_order_of_keys_changes_rounding_only),
        cmocka_unit_test(the_output_is_linear_in_the_values),
        cmocka_unit_test(threads_do_not_change_a_bit_in_bf16),
        cmocka_unit_test(memory_is_linear_and_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
