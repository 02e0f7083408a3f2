/* lha whose rows ranks share, on 1 to 5 ranks: outputs, gradients, the own loss and its gradient are those of
   one process, to the bit where the lists do not depend on sums over ranks (balance 0); a rank's bits do not
   depend on its threads; the bytes are those of the formulas in lha_lists.h, lha_ranks.h and lha_loss.h; what
   cannot be shared is refused with its numbers. Bugs planted and caught: candidates with the numbers of their
   rank; those of the last rank left out; sums of balancing of one rank; shares and deviation of the rows of a
   rank; rows in the order of places, not of arrival; parts gathered for scattered; maxima and sums swapped;
   gradients of normed keys added as they are; delta for the sum of exponentials; rows of the token's number
   in place of those that arrived; own loss: the mean over the rows of a rank, groups of the first rows, all
   samples given by every rank, shares of a rank's keys only, sums of features of a rank, T of its queries;
   choices that are not exchanged. Covers: lha_lists.c, lha_ranks.c, lha_exchange.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/lha/lha_ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/attention_team.h"
#include "support/check.h"

/* settings: "name=value name=value". */
static void *options_from(const char *settings)
{
    const struct mechanism *lha = attention_find("lha");
    void *options = calloc(1, lha->options_size);
    struct host host;
    char text[300], *next = text;
    host_init(&host);
    options_preset(lha->options, options);
    snprintf(text, sizeof text, "%s", settings);
    for (char *word = strtok_r(next, " ", &next); word != NULL; word = strtok_r(next, " ", &next)) {
        char *value = strchr(word, '=');
        *value++ = '\0';
        check_status(&host, option_set(&host, lha->options, "lha", options, word, value), HASHATTN_OK, NULL);
    }
    return options;
}

static struct attention_case case_of(const void *options, bool causal, size_t first, size_t second)
{
    const char *why;
    struct attention_case problem = {.mechanism = attention_find("lha"),
                                     .options = options,
                                     .kernels = kernels_named(NULL, &why),
                                     .num_sequences = second > 0 ? 2 : 1,
                                     .num_heads = 2,
                                     .causal = causal,
                                     .head_dim = 16,
                                     .value_dim = 7,
                                     .call_key = 4};
    problem.queries[0] = problem.keys[0] = first;
    problem.queries[1] = problem.keys[1] = second;
    attention_case_fill(&problem, 11, false);
    return problem;
}

struct wanted {
    const float *values;
    size_t count;
    const char *name;
};

static void compare(const float *got, const struct wanted *want, double bound)
{
    if (bound == 0) {
        check_same_bits(got, want->values, want->count * sizeof(float), want->name);
        return;
    }
    for (size_t k = 0; k < want->count; k++)
        check_near((double)got[k], (double)want->values[k], bound, want->name);
}

/* The sum over the ranks. A share is rounded by up to 2^-23, all that is left of a gradient with one bucket,
   and a gradient is a mean of shares times numbers of size 1. */
static void check_own_loss(const struct attention_team *team, int ranks, const struct attention_result *one,
                           size_t params)
{
    double loss = 0, largest = 0;
    for (int rank = 0; rank < ranks; rank++)
        loss += team->auxiliary[rank];
    check_near(loss, one->auxiliary, 2e-5 * fabs(one->auxiliary) + 1e-7, "own loss");
    for (size_t k = 0; k < params; k++)
        largest = fmax(largest, fabs((double)one->auxiliary_dparams[k]));
    for (size_t k = 0; k < params; k++) {
        double sum = 0;
        for (int rank = 0; rank < ranks; rank++)
            sum += (double)team->auxiliary_dparams[rank][k];
        check_near(sum, (double)one->auxiliary_dparams[k], 1e-4 * largest + ldexp(1, -23),
                   "gradient of the own loss");
    }
}

static void check_ranks(const char *settings, bool causal, size_t first, size_t second, double bound)
{
    static const int sizes[] = {2, 3, 5};
    void *options = options_from(settings);
    struct attention_case problem = case_of(options, causal, first, second);
    struct attention_result one = attention_case_run(&problem);
    size_t rows = (first + second) * problem.num_heads, params = problem.num_heads * one.param_count;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct attention_team alone = attention_team_of(&problem, sizes[i], 1),
                              together = attention_team_of(&problem, sizes[i], 2);
        const float *got[] = {alone.result.out, alone.result.dquery, alone.result.dkey, alone.result.dvalue};
        const float *again[] = {together.result.out, together.result.dquery, together.result.dkey,
                                together.result.dvalue};
        const struct wanted want[] = {{one.out, rows * 7, "out"},
                                      {one.dquery, rows * 16, "dquery"},
                                      {one.dkey, rows * 16, "dkey"},
                                      {one.dvalue, rows * 7, "dvalue"}};
        for (size_t k = 0; k < 4; k++) {
            check_same_bits(got[k], again[k], want[k].count * sizeof(float), "two threads");
            compare(got[k], &want[k], bound);
        }
        for (int rank = 0; rank < sizes[i]; rank++)
            check_same_bits(alone.auxiliary_dparams[rank], together.auxiliary_dparams[rank],
                            params * sizeof(float), "own loss on two threads");
        check_own_loss(&alone, sizes[i], &one, params);
        attention_team_free(&alone);
        attention_team_free(&together);
    }
    attention_result_free(&one);
    attention_case_free(&problem);
    free(options);
}

static void has_the_bits_of_one_process(void **state)
{
    (void)state;
    check_ranks("num_buckets=4 balance=0", false, 130, 47, 0);
    check_ranks("num_buckets=4 balance=0", false, 5, 6, 0);
    check_ranks("num_buckets=3 balance=0 mode=paper", false, 130, 47, 0);
    check_ranks("num_buckets=2 balance=0 rounds=3 joint=true", false, 97, 0, 0);
    check_ranks("num_buckets=7 balance=0 hash=mlp hash_width=5", false, 61, 0, 0);
    check_ranks("num_buckets=1 balance=0", false, 40, 0, 0);
}

static void balanced_lists_are_those_of_one_process(void **state)
{
    (void)state;
    check_ranks("num_buckets=4", false, 130, 47, 1e-5);
    check_ranks("num_buckets=5 balance=1 mode=paper", false, 211, 0, 1e-5);
    check_ranks("num_buckets=4 balance=2 rounds=2", false, 140, 0, 1e-5);
}

static void causal_lists_too(void **state)
{
    (void)state;
    check_ranks("num_buckets=4", true, 130, 47, 0);
    check_ranks("num_buckets=3 rounds=2 mode=paper", true, 90, 0, 0);
    check_ranks("num_buckets=4 membership=whole balance=0", true, 130, 0, 0);
    check_ranks("num_buckets=4 membership=whole", true, 121, 0, 1e-5);
}

static void so_do_the_targets(void **state)
{
    (void)state;
    check_ranks("num_buckets=4 samples_per_bucket=9", false, 130, 47, 1e-5);
    check_ranks("num_buckets=4 samples_per_bucket=1000 mode=paper", false, 65, 0, 1e-5);
    check_ranks("num_buckets=4 targets=features num_features=24", false, 130, 0, 1e-5);
    check_ranks("num_buckets=4 targets=features num_features=24 mode=paper both_signs=true", false, 90, 0,
                1e-5);
    check_ranks("num_buckets=4 samples_per_bucket=2 joint=true", false, 90, 0, 1e-5);
}

/* ---- bytes --------------------------------------------------------------------------------------------- */

/* What a rank sends: communicator of a rank that only counts. */
static struct comm rank_of(int rank, int ranks)
{
    struct comm comm = comm_self();
    comm.peer.rank = rank;
    comm.peer.size = ranks;
    return comm;
}

static uint64_t bytes_of_lists(int ranks, const struct grouped *grouped, size_t n)
{
    const struct comm first = rank_of(0, ranks);
    size_t rows = row_ranks_rows(&(struct row_ranks){.comm = (struct comm *)&first}, 0, n), own, at;
    size_t lists = grouped_lists(grouped), c = capacity_of(&grouped->capacity, n), shared = (size_t)ranks - 1;
    comm_span_of(0, ranks, lists, &at, &own);
    if (grouped->by_token)
        return 4 * shared * rows * grouped->rounds;
    uint64_t bytes = 8 * (lists - own) * size_min(rows, c) + 4 * shared * own * c;
    uint64_t group_sums =
        grouped->balance * comm_sum_bytes(&first, (size_t)ranks, grouped->capacity.num_groups);
    uint64_t spread = grouped->balance > 0 ? comm_sum_bytes(&first, (size_t)ranks, 1) : 0;
    return bytes + grouped->rounds * (group_sums + spread);
}

/* p and e of lha_ranks.h for rank 0: places of its rows in others' lists, and of others' rows in its own. */
static void count_places(int ranks, const struct members *lists, size_t n, uint64_t *p, uint64_t *e)
{
    size_t first, end, at, own;
    comm_span_of(0, ranks, n, &first, &end);
    comm_span_of(0, ranks, lists->num_groups, &at, &own);
    *p = *e = 0;
    for (size_t list = 0; list < lists->num_groups; list++)
        for (size_t k = lists->start[list]; k < lists->start[list + 1]; k++) {
            *p += list >= own && lists->list[k] < end;
            *e += list < own && lists->list[k] >= end;
        }
}

static struct members lists_of_one_process(const struct attention_case *problem, struct members *keys)
{
    size_t n = problem->keys[0];
    struct problem_shape shape = {.num_queries = n,
                                  .num_keys = n,
                                  .head_dim = problem->head_dim,
                                  .value_dim = problem->value_dim,
                                  .workers = 1,
                                  .causal = problem->causal};
    struct problem whole = {.kernels = problem->kernels,
                            .shape = shape,
                            .options = problem->options,
                            .query = view_of(problem->query, n, problem->head_dim),
                            .key = view_of(problem->key, n, problem->head_dim),
                            .value = view_of(problem->value, n, problem->value_dim),
                            .params = problem->params};
    size_t *visible = malloc(n * sizeof *visible);
    for (size_t i = 0; i < n; i++)
        visible[i] = i + 1;
    whole.visible = problem->causal ? visible : NULL;
    whole.saved = malloc(problem->mechanism->host.saved_size(problem->options, &shape));
    whole.scratch = malloc(problem->mechanism->host.scratch_size(problem->options, &shape));
    float *out = malloc(n * problem->value_dim * sizeof *out);
    problem->mechanism->host.forward(&whole, view_of(out, n, problem->value_dim));
    struct grouped grouped = grouping_of(problem->options, &shape);
    struct grouped_saved saved = grouped_saved_on(&shape, &grouped, whole.saved);
    *keys = saved.keys;
    free(out);
    free(visible);
    free(whole.scratch);
    return saved.queries; /* in whole.saved, freed by the caller as start */
}

static void check_bytes(const char *settings, bool causal, int ranks, size_t n)
{
    void *options = options_from(settings);
    struct attention_case problem = case_of(options, causal, n, 0);
    problem.num_heads = 1;
    struct members keys, queries = lists_of_one_process(&problem, &keys);
    struct problem_shape shape = {
        .num_queries = n, .num_keys = n, .head_dim = 16, .value_dim = 7, .causal = causal};
    struct grouped grouped = grouping_of(options, &shape);
    uint64_t p_q, p_k, e_q, e_k, d = 16, d_v = 7;
    count_places(ranks, &queries, n, &p_q, &e_q);
    count_places(ranks, &keys, n, &p_k, &e_k);
    uint64_t lists = bytes_of_lists(ranks, &grouped, n), bytes = lists * (grouped.joint ? 1 : 2);
    bytes += 4 * (p_q * d + p_k * (d + d_v) + e_q * (d_v + 2));
    bytes += 4 * (p_q * (d + d_v + 3) + p_k * (d + d_v) + e_q * d + e_k * (d + d_v));
    struct attention_team team = attention_team_of(&problem, ranks, 1);
    assert_int_equal(team.bytes_sent, bytes);
    /* The own loss, with sampled targets. */
    const struct comm first = rank_of(0, ranks);
    const struct lha_options *lha = options;
    size_t samples = size_min((size_t)lha->samples_per_group * grouped.capacity.num_groups, n),
           size = (size_t)ranks;
    size_t here, at;
    comm_span_of(0, ranks, n, &at, &here);
    assert_true(n % samples == 0 && here % (n / samples) == 0); /* stretches end where spans do */
    uint64_t loss = 4 * (size - 1) * d * (here / (n / samples)) + 4 * (size - 1) * samples +
                    comm_sum_bytes(&first, size, samples) +
                    comm_sum_bytes(&first, size, samples * grouped_lists(&grouped));
    if (lha->grouping.mode == MODE_PAPER) {
        struct grouped choosing = grouped;
        choosing.by_token = true;
        size_t spread = grouped.balance > 0 ? comm_sum_bytes(&first, size, 1) : 0;
        loss += (grouped.joint ? 1 : 2) *
                (bytes_of_lists(ranks, &choosing, n) +
                 grouped.rounds *
                     (spread + grouped.balance * comm_sum_bytes(&first, size, grouped.capacity.num_groups)));
    }
    assert_int_equal(team.auxiliary_bytes, loss);
    attention_team_free(&team);
    attention_case_free(&problem);
    free(queries.start);
    free(options);
}

static void sends_the_bytes_of_its_formulas(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        check_bytes("num_buckets=8 balance=0 samples_per_bucket=4", false, ranks, 256);
        check_bytes("num_buckets=8 samples_per_bucket=4", false, ranks, 256);
        check_bytes("num_buckets=4 samples_per_bucket=8 rounds=2 joint=true", false, ranks, 128);
        check_bytes("num_buckets=4 samples_per_bucket=8 mode=paper", false, ranks, 128);
        check_bytes("num_buckets=4 samples_per_bucket=8 mode=paper", true, ranks, 128);
    }
}

static void says_what_it_cannot_do(void **state)
{
    (void)state;
    struct problem_shape shape = {.num_queries = 4,
                                  .num_keys = 4,
                                  .head_dim = 4,
                                  .value_dim = 4,
                                  .workers = 1,
                                  .ranks = 2,
                                  .total_rows = 8};
    static const char *const refused[] = {"partition=true", "targets=exact"}, *const words[] = {
                                                                                  "{num_buckets}",
                                                                                  "{samples_per_bucket}"};
    for (size_t i = 0; i < 2; i++) {
        void *options = options_from(refused[i]);
        assert_non_null(strstr(lha_ranks_refuse(options, &shape), words[i]));
        free(options);
    }
    void *fine = options_from("targets=exact hash_loss=0"),
         *many = options_from("num_buckets=4096 rounds=64");
    assert_null(lha_ranks_refuse(fine, &shape));
    assert_null(lha_ranks_refuse(many, &shape));
    shape.total_rows = (size_t)1 << 36; /* the rows here are few, the places of all too many */
    assert_non_null(strstr(lha_ranks_refuse(many, &shape), "2^32"));
    free(fine);
    free(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_bits_of_one_process),
        cmocka_unit_test(balanced_lists_are_those_of_one_process),
        cmocka_unit_test(causal_lists_too),
        cmocka_unit_test(so_do_the_targets),
        cmocka_unit_test(sends_the_bytes_of_its_formulas),
        cmocka_unit_test(says_what_it_cannot_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
