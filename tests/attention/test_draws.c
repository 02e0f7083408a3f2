/* What is random, of every mechanism: whether equal heads, equal sequences of a training step and equal calls
   with other seeds have other outputs. Sentences of the table `departures` of docs/results rest on this, such
   as "planes are shared by the heads". Bugs planted and caught: planes of clustered, or samples of
   probsparse, that no seed changes; heads, or sequences of a training step, with one key; a mechanism that
   is not in the list.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "attention/driver/attention.h"
#include "support/attention_case.h"
#include "support/check.h"

/* Long enough for the default options to leave pairs out: 11 blocks of 64. */
enum { ROWS = 650, DIM = 16, HEADS = 2, SEQUENCES = 2 };

enum draws {
    NOTHING,     /* an output depends on no seed */
    OF_THE_CALL, /* the same draw for all heads and sequences */
    OF_A_HEAD, /* a draw for each head and, in training, for each sequence; in evaluation sequences are alike
                */
};

static const struct {
    const char *mechanism;
    enum draws draws;
} expected[] = {
    {"softmax", NOTHING},    {"none", NOTHING},       {"yoso", OF_A_HEAD},      {"yoso-e", NOTHING},
    {"lha", NOTHING}, /* the sample is of its own loss only */
    {"lsh", OF_A_HEAD},      {"random", OF_A_HEAD},   {"local", NOTHING},       {"linear", NOTHING},
    {"smyrf", OF_A_HEAD},    {"reformer", OF_A_HEAD}, {"routing", NOTHING},     {"probsparse", OF_A_HEAD},
    {"nystrom", NOTHING},    {"linformer", NOTHING},  {"clustered", OF_A_HEAD}, {"synthesizer", NOTHING},
    {"longformer", NOTHING}, {"bigbird", OF_A_HEAD},  {"sparse", NOTHING},      {"sinkhorn", NOTHING},
    {"race", OF_THE_CALL},   {"lss", OF_A_HEAD},      {"hbe", OF_A_HEAD},       {"performer", OF_THE_CALL},
    {"rfa", OF_THE_CALL},
};

static enum draws expected_of(const char *mechanism)
{
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (strcmp(expected[i].mechanism, mechanism) == 0)
            return expected[i].draws;
    fail_msg("%s is not in the list", mechanism);
    return NOTHING;
}

/* All heads of all sequences get the rows of the first. */
static void make_equal(float *rows)
{
    for (size_t row = 0; row < SEQUENCES * ROWS; row++)
        for (size_t head = 0; head < HEADS; head++)
            memmove(rows + (row * HEADS + head) * DIM, rows + row % ROWS * HEADS * DIM, DIM * sizeof *rows);
}

/* The outputs of a head of a sequence are those of the first head of the first one. */
static bool is_first(const float *out, const float *first, size_t sequence, size_t head)
{
    bool same = true;
    for (size_t row = 0; row < ROWS; row++)
        same = same && memcmp(out + ((sequence * ROWS + row) * HEADS + head) * DIM, first + row * HEADS * DIM,
                              DIM * sizeof *out) == 0;
    return same;
}

static struct attention_result run(struct attention_case *problem, uint64_t call_key,
                                   const uint64_t *sample_ids)
{
    problem->call_key = call_key;
    problem->sample_ids = sample_ids;
    return attention_case_run(problem);
}

static void check_draws(const struct mechanism *mechanism, const struct kernels *kernels)
{
    static const uint64_t samples[SEQUENCES] = {5, 9};
    enum draws draws = expected_of(mechanism->name);
    void *options = calloc(1, mechanism->options_size + 1);
    assert_non_null(options);
    options_preset(mechanism->options, options);
    struct attention_case problem = {
        .mechanism = mechanism,
        .options = options,
        .kernels = kernels,
        .num_sequences = SEQUENCES,
        .num_heads = HEADS,
        .head_dim = DIM,
        .value_dim = DIM,
        .max_len = ROWS,
        .queries = {ROWS, ROWS},
        .keys = {ROWS, ROWS},
    };
    attention_case_fill(&problem, 3, false);
    make_equal(problem.query);
    make_equal(problem.key);
    make_equal(problem.value);
    size_t params = attention_case_params(&problem);
    if (params > 0)
        memcpy(problem.params + params, problem.params, params * sizeof(float));
    struct attention_result evaluated = run(&problem, 123, NULL), trained = run(&problem, 123, samples),
                            other = run(&problem, 124, NULL);
    const struct {
        bool same, want;
        const char *what;
    } checks[] = {
        {is_first(evaluated.out, evaluated.out, 0, 1), draws != OF_A_HEAD, "heads"},
        {is_first(evaluated.out, evaluated.out, 1, 0), true, "sequences in evaluation"},
        {is_first(trained.out, trained.out, 1, 0), draws != OF_A_HEAD, "sequences in training"},
        {is_first(other.out, evaluated.out, 0, 0), draws == NOTHING, "calls with other seeds"},
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (checks[i].same != checks[i].want)
            fail_msg("%s: equal %s have %s outputs", mechanism->name, checks[i].what,
                     checks[i].same ? "the same" : "other");
    attention_result_free(&evaluated);
    attention_result_free(&trained);
    attention_result_free(&other);
    attention_case_free(&problem);
    free(options);
}

static void each_mechanism_draws_what_it_says(void **state)
{
    (void)state;
    const struct kernels *const *fastest = kernels_all();
    while (fastest[1] != NULL)
        fastest++;
    for (const struct mechanism *const *row = attention_mechanisms(); *row != NULL; row++)
        check_draws(*row, *fastest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_mechanism_draws_what_it_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
