/* Attention whose rows ranks share, through the driver: several sequences and heads, 2 to 4 ranks with one
   and two threads each. softmax is compared with its definition in double precision, the others with one
   process. A rank's bits do not depend on its threads. Shapes and mechanisms that cannot be shared are
   refused by name. Bugs planted and caught: outputs of the last group of keys only; outputs merged without
   the sums, or without the maxima; the sum of the last group kept for backward; gradients of keys that stay a
   rank behind; units in the order of this rank's lengths; causal: keys of later ranks seen; keys of earlier
   ranks cut as the own.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/driver/attention.h"
#include "oracle/oracle_softmax.h"
#include "support/attention_team.h"
#include "support/check.h"

static struct attention_case several(const char *mechanism, const void *options, bool causal,
                                     const size_t *lengths)
{
    struct attention_case problem = {.mechanism = attention_find(mechanism),
                                     .options = options,
                                     .num_sequences = 4,
                                     .num_heads = 3,
                                     .causal = causal,
                                     .head_dim = 9,
                                     .value_dim = 5,
                                     .call_key = 4};
    for (size_t s = 0; s < problem.num_sequences; s++)
        problem.queries[s] = problem.keys[s] = lengths[s];
    const char *why;
    problem.kernels = kernels_named(NULL, &why);
    attention_case_fill(&problem, 11, false);
    return problem;
}

/* 5 and 6: the order of lengths differs on the ranks. */
static const size_t any[] = {5, 130, 6, 47}, longer[] = {36, 130, 37, 57};

static void check_against_one(const char *mechanism, const void *options, bool causal, const size_t *lengths,
                              double bound)
{
    struct attention_case problem = several(mechanism, options, causal, lengths);
    size_t params = problem.num_heads * attention_case_params(&problem);
    struct attention_result one = attention_case_run(&problem);
    size_t rows = attention_case_rows(problem.keys, problem.num_sequences) * problem.num_heads;
    for (int ranks = 2; ranks <= 4; ranks++) {
        struct attention_team alone = attention_team_of(&problem, ranks, 1),
                              together = attention_team_of(&problem, ranks, 2);
        const float *got[] = {alone.result.out, alone.result.dquery, alone.result.dkey, alone.result.dvalue};
        const float *again[] = {together.result.out, together.result.dquery, together.result.dkey,
                                together.result.dvalue};
        const float *want[] = {one.out, one.dquery, one.dkey, one.dvalue};
        static const char *const names[] = {"out", "dquery", "dkey", "dvalue"};
        for (size_t i = 0; i < 4; i++) {
            size_t count = rows * (i == 1 || i == 2 ? problem.head_dim : problem.value_dim);
            check_same_bits(got[i], again[i], count * sizeof(float), "two threads");
            for (size_t k = 0; k < count; k++)
                check_near((double)got[i][k], (double)want[i][k], bound, names[i]);
        }
        for (size_t k = 0; k < params; k++) {
            double sum = 0;
            for (int rank = 0; rank < ranks; rank++) {
                sum += (double)alone.dparams[rank][k];
                check_near((double)alone.dparams[rank][k], (double)together.dparams[rank][k], 0, "dparams");
            }
            check_near(sum, (double)one.dparams[k], bound * 10, "sum of dparams");
        }
        attention_team_free(&alone);
        attention_team_free(&together);
    }
    attention_result_free(&one);
    attention_case_free(&problem);
}

static void ranks_compute_what_one_process_does(void **state)
{
    (void)state;
    const struct mechanism *yoso = attention_find("yoso");
    void *options = calloc(1, yoso->options_size);
    options_preset(yoso->options, options);
    check_against_one("softmax", NULL, false, any, 4e-6);
    check_against_one("softmax", NULL, true, any, 4e-6);
    check_against_one("none", NULL, false, any, 0);
    check_against_one("yoso", options, false, any, 4e-5);
    check_against_one("yoso", options, true, any, 4e-5);
    free(options);
}

static void local_attention_meets_its_neighbours(void **state)
{
    (void)state;
    const struct mechanism *local = attention_find("local");
    for (int form = 0; form < 8; form++) {
        void *options = calloc(1, local->options_size);
        struct host host;
        host_init(&host);
        options_preset(local->options, options);
        /* 9 rows of 36 on 4 ranks are just enough for blocks of 5. */
        const char *block = form < 4 ? (form % 2 == 1 ? "3" : "5") : form < 6 ? "1" : "2";
        check_status(&host, option_set(&host, local->options, "local", options, "block_size", block),
                     HASHATTN_OK, NULL);
        if (form / 2 % 2 == 1)
            check_status(&host, option_set(&host, local->options, "local", options, "relative", "true"),
                         HASHATTN_OK, NULL);
        check_against_one("local", options, form % 2 == 1, longer, 2e-5);
        free(options);
    }
}

/* The bounds hold for any order of the sums; merging rounds a few times more. */
static void softmax_is_exact(void **state)
{
    (void)state;
    static const size_t lengths[] = {4, 33, 200, 401};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int ranks = 2; ranks <= 4; ranks++) {
            size_t n = lengths[i], d = 16, d_v = 7;
            const char *why;
            struct attention_case problem = attention_case_of_head("softmax", NULL, 0, n, n, d, d_v);
            problem.kernels = kernels_named(NULL, &why);
            problem.causal = i % 2 == 1;
            attention_case_fill(&problem, 3, false);
            for (size_t k = 0; k < n * d; k++) /* maxima that differ between groups of keys */
                problem.key[k] *= k < n * d / 2 ? 1 : 6;
            struct oracle_softmax o = oracle_softmax_new(n, n, d, d_v);
            for (size_t k = 0; k < n * d; k++) {
                o.query[k] = (double)problem.query[k];
                o.key[k] = (double)problem.key[k];
            }
            for (size_t k = 0; k < n * d_v; k++) {
                o.value[k] = (double)problem.value[k];
                o.dout[k] = (double)problem.dout[k];
            }
            o.visible = problem.causal ? malloc(n * sizeof *o.visible) : NULL;
            for (size_t k = 0; problem.causal && k < n; k++)
                o.visible[k] = k + 1;
            oracle_softmax_run(&o);
            struct attention_team team = attention_team_of(&problem, ranks, 1);
            for (size_t k = 0; k < n * d; k++) {
                check_near((double)team.result.dquery[k], o.dquery[k], 2 * o.dquery_bound[k], "dquery");
                check_near((double)team.result.dkey[k], o.dkey[k], 2 * o.dkey_bound[k], "dkey");
            }
            for (size_t k = 0; k < n * d_v; k++) {
                check_near((double)team.result.out[k], o.out[k], 2 * o.out_bound[k], "out");
                check_near((double)team.result.dvalue[k], o.dvalue[k], 2 * o.dvalue_bound[k], "dvalue");
            }
            attention_team_free(&team);
            oracle_softmax_free(&o);
            attention_case_free(&problem);
        }
}

/* The formula in the head of softmax.c: all lengths here are whole cache lines. */
static void softmax_sends_the_bytes_of_its_formula(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        struct attention_case problem = attention_case_of_head("softmax", NULL, 0, 64, 64, 16, 32);
        const char *why;
        problem.kernels = kernels_named(NULL, &why);
        attention_case_fill(&problem, 3, false);
        struct attention_team team = attention_team_of(&problem, ranks, 1);
        size_t rows = 64 / (size_t)ranks, steps = (size_t)ranks - 1 + 2 * (size_t)ranks - 1;
        assert_int_equal(team.bytes_sent, steps * rows * (16 + 32) * sizeof(float));
        attention_team_free(&team);
        attention_case_free(&problem);
    }
}

static void refuse(struct comm *comm, void *argument)
{
    (void)argument;
    struct host host;
    size_t offsets[] = {0, 1, 3}, totals[] = {2, 6};
    host_init(&host);
    struct row_ranks ranks = {.host = &host, .comm = comm};
    struct attention_shape shape = {.kernels = kernels_all()[0],
                                    .mechanism = attention_find("linear"),
                                    .num_sequences = 2,
                                    .num_heads = 1,
                                    .head_dim = 4,
                                    .value_dim = 4,
                                    .query_offsets = offsets,
                                    .key_offsets = offsets,
                                    .ranks = &ranks,
                                    .totals = totals};
    void *options = calloc(1, shape.mechanism->options_size + 1);
    options_preset(shape.mechanism->options, options);
    shape.options = options;
    totals[0] = 3;
    rank_require(attention_check_shapes(&host, &shape, NULL) == HASHATTN_REFUSED);
    rank_require(strstr(host.message, "linear cannot share a sequence among 3 ranks; those that can: ") !=
                 NULL);
    rank_require(strstr(host.message, "softmax") != NULL && strstr(host.message, "yoso") != NULL &&
                 strstr(host.message, "none") != NULL);
    free(options);
    shape.mechanism = attention_find("softmax");
    rank_require(attention_check_shapes(&host, &shape, NULL) == HASHATTN_OK);
    totals[1] = 2;
    rank_require(attention_check_shapes(&host, &shape, NULL) == HASHATTN_REFUSED);
    rank_require(strstr(host.message, "sequence 1 has 2 rows, too few for 3 ranks") != NULL);
}

static void what_cannot_be_shared_is_refused(void **state)
{
    (void)state;
    assert_string_equal(run_ranks(3, 60, refuse, NULL), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_compute_what_one_process_does),
        cmocka_unit_test(local_attention_meets_its_neighbours),
        cmocka_unit_test(softmax_is_exact),
        cmocka_unit_test(softmax_sends_the_bytes_of_its_formula),
        cmocka_unit_test(what_cannot_be_shared_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
