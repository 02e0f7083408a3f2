/* The public operator on sequences that ranks share (total_rows): outputs, gradients and the own loss are
   those of one process, a rank needs about its share of the memory, a failure of one rank is one of all, and
   what cannot be shared, and a rank that calls with other options, is refused with its numbers. Bugs planted
   and caught: ranks left out of the call; rows that no mechanism checks left unchecked; the rows of a span
   for those of a sequence; spans of any size; masks; calls not compared; the seed left out of the
   comparison. Covers: shared_call.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hashattn/hashattn.h"
#include "support/check.h"
#include "support/thread_ranks.h"

enum { BATCH = 2, HEADS = 2, ROWS = 300, D = 16, ALL = BATCH * HEADS * ROWS * D };
enum { PARAMS = 5120 }; /* room for the learned floats of local with relative positions, and of lha */

/* (batch, heads, rows, d) each. */
struct arrays {
    float query[ALL], key[ALL], value[ALL], out[ALL], dout[ALL], dquery[ALL], dkey[ALL], dvalue[ALL];
};

struct shared {
    const char *mechanism;
    struct arrays *whole; /* inputs, and what the ranks compute */
    size_t saved_bytes[MOST_RANKS], scratch_bytes[MOST_RANKS];
    double loss[MOST_RANKS];
    float dparams[MOST_RANKS][PARAMS]; /* of backward */
    size_t num_params;
    int bad_rank; /* -1: none; has a NaN among its queries, of dout if `in_dout` */
    int in_dout;
    hashattn_status status[MOST_RANKS];
    char message[MOST_RANKS][200];
};

static hashattn_context *context_of(struct comm *comm)
{
    hashattn_context_options options;
    hashattn_context_options_default(&options);
    hashattn_communicator peer = comm->peer;
    peer.struct_size = sizeof peer;
    options.threads = 1;
    options.communicator = comm_size(comm) > 1 ? &peer : NULL;
    hashattn_context *context;
    char message[200];
    rank_require(hashattn_context_new(&options, message, sizeof message, &context) == HASHATTN_OK);
    return context;
}

/* Rows of the span: from the whole to the part, or back. */
static void move(float *whole, float *part, size_t first, size_t rows, int back)
{
    for (size_t i = 0; i < BATCH * HEADS; i++) {
        float *there = whole + (i * ROWS + first) * D, *here = part + i * rows * D;
        memcpy(back ? there : here, back ? here : there, rows * D * sizeof(float));
    }
}

static void compute(struct comm *comm, void *argument)
{
    struct shared *shared = argument;
    int rank = comm_rank(comm);
    hashattn_context *context = context_of(comm);
    hashattn_attention *attention;
    hashattn_problem problem;
    struct arrays *part = calloc(1, sizeof *part);
    size_t first, rows = hashattn_shared_rows(context, ROWS, &first);
    rank_require(hashattn_attention_new(context, shared->mechanism, &attention) == HASHATTN_OK);
    if (strcmp(shared->mechanism, "local") == 0) { /* spans must have the rows that neighbours see */
        rank_require(hashattn_attention_set(attention, "block_size", "8") == HASHATTN_OK);
        rank_require(hashattn_attention_set(attention, "relative", "true") == HASHATTN_OK);
    }
    hashattn_tensor tensor = {.struct_size = sizeof tensor};
    for (size_t i = 0; hashattn_attention_tensor(attention, D, D, 0, i, &tensor); i++)
        if (rank == 0)
            shared->num_params += HEADS * tensor.rows * tensor.cols;
    for (size_t i = 0; i < PARAMS; i++)
        shared->dparams[rank][i] = NAN;
    hashattn_problem_default(&problem);
    problem.num_sequences = BATCH;
    problem.num_heads = HEADS;
    problem.num_queries = problem.num_keys = rows;
    problem.head_dim = problem.value_dim = D;
    problem.seed = 5;
    problem.total_rows = comm_size(comm) > 1 ? ROWS : 0;
    float *const all[] = {shared->whole->query, shared->whole->key,   shared->whole->value,
                          shared->whole->dout,  shared->whole->out,   shared->whole->dquery,
                          shared->whole->dkey,  shared->whole->dvalue};
    float *const own[] = {part->query, part->key,    part->value, part->dout,
                          part->out,   part->dquery, part->dkey,  part->dvalue};
    hashattn_array array[8];
    for (size_t i = 0; i < 8; i++) {
        if (i < 4)
            move(all[i], own[i], first, rows, 0);
        array[i] = hashattn_array_of_heads(own[i], HEADS, rows, D);
    }
    if (rank == shared->bad_rank)
        (shared->in_dout ? part->dout : part->query)[7] = NAN;
    rank_require(hashattn_attention_sizes(attention, &problem, &shared->saved_bytes[rank],
                                          &shared->scratch_bytes[rank]) == HASHATTN_OK);
    void *saved = aligned_alloc(64, shared->saved_bytes[rank] / 64 * 64 + 64),
         *scratch = aligned_alloc(64, shared->scratch_bytes[rank] / 64 * 64 + 64);
    hashattn_status status = hashattn_attention_forward(attention, &problem, &array[0], &array[1], &array[2],
                                                        &array[4], saved, scratch);
    if (status == HASHATTN_OK)
        status = hashattn_attention_own_loss(attention, &problem, &array[0], &array[1], &array[2],
                                             &shared->loss[rank], NULL, saved, scratch);
    if (status == HASHATTN_OK)
        status = hashattn_attention_backward_params(attention, &problem, &array[0], &array[1], &array[2],
                                                    &array[4], &array[3], &array[5], &array[6], &array[7],
                                                    shared->dparams[rank], saved, scratch);
    shared->status[rank] = status;
    snprintf(shared->message[rank], sizeof shared->message[rank], "%s", hashattn_context_message(context));
    for (size_t i = 4; i < 8; i++)
        move(all[i], own[i], first, rows, 1);
    hashattn_attention_free(attention);
    hashattn_context_free(context);
    free(saved);
    free(scratch);
    free(part);
}

static struct arrays *inputs(void)
{
    struct arrays *arrays = calloc(1, sizeof *arrays);
    hashattn_fill_normal(1, 0, arrays->query, ALL);
    hashattn_fill_normal(1, 1, arrays->key, ALL);
    hashattn_fill_normal(1, 2, arrays->value, ALL);
    hashattn_fill_normal(1, 3, arrays->dout, ALL);
    return arrays;
}

static void run(struct shared *shared, int ranks)
{
    assert_string_equal(run_ranks(ranks, 60, compute, shared), "");
}

static void ranks_compute_what_one_process_does(void **state)
{
    (void)state;
    static const char *const names[] = {"yoso", "lha", "softmax", "local", "none"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct shared one = {.mechanism = names[i], .whole = inputs(), .bad_rank = -1};
        run(&one, 1);
        assert_int_equal(one.status[0], HASHATTN_OK);
        for (int ranks = 2; ranks <= 4; ranks += 2) {
            struct shared several = {.mechanism = names[i], .whole = inputs(), .bad_rank = -1};
            run(&several, ranks);
            double loss = 0, largest = 0;
            for (int rank = 0; rank < ranks; rank++) {
                assert_int_equal(several.status[rank], HASHATTN_OK);
                loss += several.loss[rank];
            }
            check_near(loss, one.loss[0], 1e-4 * fabs(one.loss[0]), "own loss");
            const float *want[] = {one.whole->out, one.whole->dquery, one.whole->dkey, one.whole->dvalue},
                        *got[] = {several.whole->out, several.whole->dquery, several.whole->dkey,
                                  several.whole->dvalue};
            for (size_t k = 0; k < 4 * (size_t)ALL; k++)
                check_near((double)got[k / ALL][k % ALL], (double)want[k / ALL][k % ALL], 5e-5, names[i]);
            assert_true(one.num_params <= PARAMS && several.num_params == one.num_params);
            for (size_t k = 0; k < one.num_params; k++) {
                double sum = 0;
                for (int rank = 0; rank < ranks; rank++)
                    sum += (double)several.dparams[rank][k];
                check_near(sum, (double)one.dparams[0][k], 2e-4, "dparams");
                largest = fmax(largest, fabs(sum));
            }
            assert_true(largest > 1 || strcmp(names[i], "local") != 0);
            free(several.whole);
        }
        free(one.whole);
    }
}

static void a_rank_saves_its_share(void **state)
{
    (void)state;
    struct shared one = {.mechanism = "yoso", .whole = inputs(), .bad_rank = -1}, two = one;
    run(&one, 1);
    run(&two, 2);
    for (int rank = 0; rank < 2; rank++)
        assert_true(two.saved_bytes[rank] < one.saved_bytes[0]);
    free(one.whole);
}

static void a_failure_of_one_is_one_of_all(void **state)
{
    (void)state;
    for (int in_dout = 0; in_dout < 2; in_dout++) {
        struct shared shared = {.mechanism = "yoso", .whole = inputs(), .bad_rank = 1, .in_dout = in_dout};
        run(&shared, 3);
        for (int rank = 0; rank < 3; rank++) {
            assert_int_equal(shared.status[rank], HASHATTN_INVALID);
            assert_non_null(
                strstr(shared.message[rank], in_dout ? "rank 1: dout is nan" : "rank 1: query is nan"));
        }
        free(shared.whole);
    }
}

struct other {
    int changed; /* what rank 1 has otherwise */
    hashattn_status status[2];
    char message[2][200];
};

/* Rank 1 calls forward with one thing changed. */
static void call_otherwise(struct comm *comm, void *argument)
{
    struct other *other = argument;
    int rank = comm_rank(comm), changed = rank == 1 ? other->changed : 0;
    hashattn_context *context = context_of(comm);
    hashattn_attention *attention;
    hashattn_problem problem;
    size_t first;
    float *data = calloc(8, ALL * sizeof *data);
    hashattn_fill_normal(1, 0, data, 8 * (size_t)ALL);
    rank_require(hashattn_attention_new(context, changed == 1 ? "softmax" : "yoso", &attention) ==
                 HASHATTN_OK);
    if (changed == 2)
        rank_require(hashattn_attention_set(attention, "num_hashes", "31") == HASHATTN_OK);
    hashattn_problem_default(&problem);
    problem.num_heads = changed == 3 ? 1 : 2;
    problem.head_dim = D;
    problem.value_dim = changed == 4 ? D / 2 : D;
    problem.causal = changed == 5;
    problem.seed = changed == 6;
    problem.total_rows = changed == 7 ? ROWS + 1 : ROWS; /* rank 1 of 2 has half of both */
    problem.num_queries = problem.num_keys = hashattn_shared_rows(context, problem.total_rows, &first);
    hashattn_array array[8];
    for (size_t i = 0; i < 8; i++)
        array[i] = hashattn_array_of_heads(data + i * ALL, problem.num_heads, problem.num_queries,
                                           i == 2 || i == 3 ? problem.value_dim : D);
    other->status[rank] = hashattn_attention_forward(attention, &problem, &array[0], &array[1], &array[2],
                                                     &array[3], NULL, NULL);
    snprintf(other->message[rank], sizeof other->message[rank], "%s", hashattn_context_message(context));
    hashattn_attention_free(attention);
    hashattn_context_free(context);
    free(data);
}

static void ranks_that_call_otherwise_are_refused(void **state)
{
    (void)state;
    static const char *const said[] = {"'attention: softmax' here, 'attention: yoso' there",
                                       "'num_hashes: 31' here, 'num_hashes: 32' there",
                                       "'heads: 1' here, 'heads: 2' there",
                                       "'value_dim: 8' here, 'value_dim: 16' there",
                                       "'causal: 1' here, 'causal: 0' there",
                                       "'seed: 1' here, 'seed: 0' there",
                                       "'rows of a sequence: 301' here, 'rows of a sequence: 300' there"};
    for (int changed = 0; changed <= 7; changed++) {
        struct other other = {.changed = changed};
        assert_string_equal(run_ranks(2, 5, call_otherwise, &other), "");
        for (int rank = 0; rank < 2; rank++) {
            assert_int_equal(other.status[rank], changed == 0 ? HASHATTN_OK : HASHATTN_INVALID);
            if (changed > 0)
                assert_non_null(strstr(other.message[rank], said[changed - 1]));
        }
    }
}

static void refuse(struct comm *comm, void *argument)
{
    (void)argument;
    hashattn_context *context = context_of(comm);
    hashattn_attention *attention, *linear;
    hashattn_problem problem;
    size_t first, saved, scratch;
    uint8_t mask[8] = {1};
    rank_require(hashattn_attention_new(context, "yoso", &attention) == HASHATTN_OK);
    rank_require(hashattn_attention_new(context, "linear", &linear) == HASHATTN_OK);
    hashattn_problem_default(&problem);
    problem.head_dim = problem.value_dim = 4;
    problem.total_rows = 9;
    problem.num_queries = problem.num_keys = hashattn_shared_rows(context, 9, &first);
    rank_require(first == (comm_rank(comm) == 0 ? 0 : 5));
    rank_require(hashattn_attention_sizes(attention, &problem, &saved, &scratch) == HASHATTN_OK);
    rank_require(hashattn_attention_sizes(linear, &problem, &saved, &scratch) == HASHATTN_REFUSED);
    rank_require(strstr(hashattn_context_message(context), "linear cannot share a sequence") != NULL);
    problem.num_queries++;
    rank_require(hashattn_attention_sizes(attention, &problem, &saved, &scratch) == HASHATTN_INVALID);
    rank_require(strstr(hashattn_context_message(context), "total_rows is 9, of which this rank holds") !=
                 NULL);
    problem.num_queries--;
    problem.key_mask = mask;
    rank_require(hashattn_attention_sizes(attention, &problem, &saved, &scratch) == HASHATTN_INVALID);
    rank_require(strstr(hashattn_context_message(context), "no key_mask") != NULL);
    problem.key_mask = NULL;
    problem.element = HASHATTN_BF16;
    rank_require(hashattn_attention_sizes(attention, &problem, &saved, &scratch) == HASHATTN_INVALID);
    hashattn_attention_free(attention);
    hashattn_attention_free(linear);
    hashattn_context_free(context);
}

static void what_cannot_be_shared_is_refused(void **state)
{
    (void)state;
    assert_string_equal(run_ranks(2, 60, refuse, NULL), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_compute_what_one_process_does),
        cmocka_unit_test(a_rank_saves_its_share),
        cmocka_unit_test(a_failure_of_one_is_one_of_all),
        cmocka_unit_test(ranks_that_call_otherwise_are_refused),
        cmocka_unit_test(what_cannot_be_shared_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
