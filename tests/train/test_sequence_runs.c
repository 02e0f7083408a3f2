/* Training and evaluating with sequence_parallel: ranks, as threads, that share the rows of every sequence.
   The gradient of a step is that of one process up to rounding, with dropout, for every pooling; runs have
   the same bits for any number of ranks and threads with the same sequence_parallel, and resume; failures of
   one rank end all; what cannot be shared is refused before anything is written. Bugs planted and caught:
   positions counted from the first row of the span; dropout of weights by the number of a bucket among those
   of the rank; pooling by the rows of the span, or the first row of every span; the head's gradient of every
   rank; targets of examples counted by all ranks; gradients not summed over the ranks of a row, or in another
   order on a larger grid; batches not cut in evaluations; predictions of the first rank only; the own loss
   counted once per rank; a rank that fails between two passes and leaves the others waiting.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "support/check.h"
#include "support/train_team.h"
#include "support/trainer_case.h"
#include "train/step.h"

/* ---- one step ------------------------------------------------------------------------------------------ */

struct step_team {
    struct team *team;
    float *gradients[MOST_RANKS];
    double loss[MOST_RANKS], sums[MOST_RANKS][MODEL_SUMS];
    size_t total, tokens[MOST_RANKS];
};

static void one_step(struct comm *comm, void *argument)
{
    const char *why;
    struct step_team *steps = argument;
    int rank = comm_rank(comm);
    struct small_run *member = &steps->team->members[rank];
    struct train_setup setup = {.kernels = kernels_named("auto", &why), .comm = comm};
    struct stepper stepper;
    struct step_outcome outcome;
    rank_require(pool_new(&member->host, 1, &setup.pool) == HASHATTN_OK);
    rank_require(stepper_open(&member->host, &setup, &member->config, &stepper) == HASHATTN_OK);
    params_start(stepper.params, 1, stepper.values);
    rank_require(stepper_run(&stepper, 0, steps->sums[rank], &outcome) == HASHATTN_OK);
    size_t bytes = stepper.params->total * sizeof(float);
    steps->gradients[rank] = malloc(bytes);
    memcpy(steps->gradients[rank], stepper.gradients, bytes);
    if (rank == 0)
        steps->total = stepper.params->total;
    steps->loss[rank] = outcome.loss;
    steps->tokens[rank] = outcome.tokens;
    stepper_close(&stepper);
    pool_free(&member->host, setup.pool);
}

static struct step_team step_of(struct team *team, int size)
{
    struct step_team steps = {.team = team};
    assert_string_equal(run_ranks(size, 60, one_step, &steps), "");
    for (int rank = 1; rank < size; rank++) {
        check_same_bits(steps.gradients[rank], steps.gradients[0], steps.total * sizeof(float), "all ranks");
        assert_true(steps.loss[rank] == steps.loss[0] && steps.tokens[rank] == steps.tokens[0]);
        check_same_bits(steps.sums[rank], steps.sums[0], sizeof steps.sums[0], "sums");
    }
    return steps;
}

static void free_step(struct step_team *steps)
{
    for (int rank = 0; rank < MOST_RANKS; rank++)
        free(steps->gradients[rank]);
}

static bool extra_options;      /* attention_dropout and layered positions */
static const char *frozen = ""; /* parameters that are not trained */

static void check_steps(const char *mechanism, const char *pooling, const char *causal, const char *taps)
{
    struct team team;
    team_init(&team, mechanism);
    team_set(&team, "pooling", pooling);
    team_set(&team, "causal", causal);
    team_set(&team, "conv_window", taps);
    team_set(&team, "layers", "2");
    team_set(&team, "clip", "0");
    for (int rank = 0; rank < MOST_RANKS; rank++)
        strcpy(team.members[rank].config.freeze, frozen);
    if (extra_options) {
        team_set(&team, "attention_dropout", "0.3");
        team_set(&team, "positions", "layered");
    }
    if (strcmp(mechanism, "local") == 0)
        team_set(&team, "block_size", "1");
    struct step_team one = step_of(&team, 1);
    double norm = 0;
    for (size_t i = 0; i < one.total; i++)
        norm += (double)one.gradients[0][i] * (double)one.gradients[0][i];
    norm = sqrt(norm);
    assert_true(norm > 1e-3);
    for (int size = 2; size <= 5; size++) {
        char number[8];
        snprintf(number, sizeof number, "%d", size);
        team_set(&team, "sequence_parallel", number);
        struct step_team steps = step_of(&team, size);
        check_near(steps.loss[0], one.loss[0], 2e-5, "loss");
        assert_int_equal(steps.tokens[0], one.tokens[0]);
        for (size_t i = 1; i < 3; i++) /* correct and count */
            check_near(steps.sums[0][i], one.sums[0][i], 0, "sums");
        for (size_t i = 0; i < MODEL_SUMS; i++) /* those of lha's own loss are the last */
            check_near(steps.sums[0][i], one.sums[0][i], 1e-4 * fabs(one.sums[0][i]), "any sum");
        for (size_t i = 0; i < one.total; i++)
            check_near((double)steps.gradients[0][i], (double)one.gradients[0][i], 2e-5 * norm, mechanism);
        free_step(&steps);
    }
    free_step(&one);
    team_free(&team);
}

static void a_step_is_that_of_one_process(void **state)
{
    (void)state;
    check_steps("softmax", "first", "false", "0");
    check_steps("softmax", "mean", "false", "0");
    check_steps("softmax", "mean", "true", "0");
    check_steps("softmax", "mean-padded", "false", "0");
    check_steps("yoso", "first", "false", "0");
    check_steps("yoso", "mean", "true", "0");
    check_steps("none", "mean", "false", "0");
    check_steps("lha", "mean", "false", "0");
    check_steps("lha", "first", "true", "0");
    check_steps("softmax", "first", "false", "9");
}

/* Ranks draw what one process draws, for pairs of rows of different ranks too; positions of layers are those
   in the whole sequence. */
static void attention_dropout_and_layered_positions_are_those_of_one_process(void **state)
{
    (void)state;
    extra_options = true;
    check_steps("softmax", "mean", "false", "0");
    check_steps("softmax", "mean", "true", "0");
    check_steps("local", "mean", "false", "0");
    check_steps("local", "mean", "true", "0");
    check_steps("lha", "mean", "false", "0");
    check_steps("lha", "mean", "true", "0");
    extra_options = false;
}

/* ---- runs ---------------------------------------------------------------------------------------------- */

static void check_runs(const char *mechanism)
{
    struct team team;
    team_init(&team, mechanism);
    team_set(&team, "sequence_parallel", "2");
    assert_int_equal(train_team(&team, 2, "two", false), HASHATTN_OK);
    team.threads = 2;
    assert_int_equal(train_team(&team, 2, "threads", false), HASHATTN_OK);
    team_check_same(&team, "two", "threads");
    team.threads = 1;
    assert_int_equal(train_team(&team, 4, "four", false), HASHATTN_OK);
    team_check_same(&team, "two", "four");
    team.stopper = 3;
    assert_int_equal(train_team(&team, 4, "parts", false), HASHATTN_INTERRUPTED);
    team.stopper = -1;
    assert_int_equal(train_team(&team, 3, "parts", true), HASHATTN_INVALID);
    assert_non_null(strstr(team.members[0].host.message, "sequence_parallel is 2 and the number of ranks 3"));
    assert_int_equal(train_team(&team, 2, "parts", true), HASHATTN_OK);
    team_check_same(&team, "two", "parts");
    team_free(&team);
}

static void runs_have_the_same_bits_and_resume(void **state)
{
    (void)state;
    check_runs("yoso");
    check_runs("softmax");
    check_runs("lha");
}

static void the_number_is_recorded(void **state)
{
    (void)state;
    struct team team;
    struct json *root;
    char path[80], file[120];
    int64_t shared;
    team_init(&team, "softmax");
    team_set(&team, "steps", "1");
    team_set(&team, "warmup", "1");
    team_set(&team, "sequence_parallel", "2");
    assert_int_equal(train_team(&team, 2, "two", false), HASHATTN_OK);
    team_path(&team, "two", path);
    snprintf(file, sizeof file, "%s/config.json", path);
    check_status(&team.members[0].host, json_read_file(&team.members[0].host, file, &root), HASHATTN_OK,
                 NULL);
    check_status(&team.members[0].host,
                 json_get_int(&team.members[0].host, root, "training.sequence_parallel", 0, 99, &shared),
                 HASHATTN_OK, NULL);
    assert_int_equal(shared, 2);
    json_free(root);
    team_free(&team);
}

/* ---- failures ------------------------------------------------------------------------------------------ */

/* Every n-th allocation of rank 1 fails, and all ranks return. */
static void a_rank_without_memory_ends_all(void **state)
{
    (void)state;
    struct team team;
    char path[80];
    int failures = 0;
    team_init(&team, "softmax");
    team_set(&team, "steps", "1");
    team_set(&team, "warmup", "1");
    team_set(&team, "eval_every", "1");
    team_set(&team, "shards", "2");
    team_set(&team, "sequence_parallel", "2");
    team.poor = 1;
    for (team.until = 30; team.until < 2000; team.until++) {
        char run[80];
        small_run_path(&team.members[0], "poor", run);
        team.run = run;
        assert_string_equal(run_ranks(2, 60, team_work, &team), "");
        team_path(&team, "poor", path);
        if (team.status[1] == HASHATTN_OK)
            break;
        failures++;
        assert_int_equal(team.status[1], HASHATTN_NO_MEMORY);
        assert_int_equal(team.status[0], HASHATTN_NO_MEMORY);
        if (strncmp(team.members[0].host.message, "rank 1: ", 8) != 0 ||
            strstr(team.members[0].host.message, "no memory for ") == NULL)
            fail_msg("%ld: %s", team.until, team.members[0].host.message);
        small_run_remove(path);
    }
    assert_true(failures > 10 && team.status[0] == HASHATTN_OK);
    team_free(&team);
}

static void a_loss_that_is_not_finite_ends_all_ranks(void **state)
{
    (void)state;
    struct team team;
    team_init(&team, "softmax");
    team_set(&team, "sequence_parallel", "2");
    assert_string_equal(run_ranks(4, 5, team_step_to_nowhere, &team), "");
    for (int rank = 0; rank < 4; rank++) {
        assert_int_equal(team.status[rank], HASHATTN_FAILED);
        if (strstr(team.members[rank].host.message, ": the loss is nan in step 1 of 10") == NULL)
            fail_msg("%s", team.members[rank].host.message);
    }
    team_free(&team);
}

static void check_refused(struct team *team, const char *part)
{
    char path[80];
    assert_true(train_team(team, 2, "refused", false) != HASHATTN_OK);
    if (strstr(team->members[1].host.message, part) == NULL)
        fail_msg("%s", team->members[1].host.message);
    team_path(team, "refused", path);
    assert_true(access(path, F_OK) != 0);
    team_free(team);
}

static void what_cannot_be_shared_is_refused_first(void **state)
{
    (void)state;
    struct team team;
    team_init(&team, "linear");
    team_set(&team, "sequence_parallel", "2");
    check_refused(&team, "linear cannot share a sequence among 2 ranks");
    team_init(&team, "softmax");
    team_set(&team, "sequence_parallel", "2");
    team_set(&team, "conv_window", "27");
    check_refused(&team,
                  "sequence 0 has 24 rows, too few for conv_window 27 and sequence_parallel 2: each rank "
                  "needs at least 13");
    team_init(&team, "yoso");
    team_set(&team, "sequence_parallel", "2");
    team_set(&team, "max_partners", "3");
    team_set(&team, "gradient", "true");
    check_refused(&team, "max_partners is 3");
}

/* ---- evaluation ---------------------------------------------------------------------------------------- */

static void evaluations_are_those_of_one_process(void **state)
{
    (void)state;
    static const int sizes[][2] = {{1, 1}, {2, 2}, {3, 3}, {4, 2}, {6, 3}};
    struct small_run small;
    struct dataset dataset;
    small_run_init(&small, "yoso", 24, 3);
    small_run_load(&small, SPLIT_TRAIN, &dataset);
    size_t classes = (size_t)small.config.model.objectives[0].num_outputs, count = 40 * classes;
    double *want = calloc(count, sizeof *want);
    struct evaluation first = {0};
    for (int i = 0; i < 5; i++) {
        struct exam exam = {.small = &small, .dataset = &dataset, .batch = 7, .shared = sizes[i][1]};
        for (int rank = 0; rank < sizes[i][0]; rank++)
            exam.outputs[rank] = calloc(count, sizeof(float));
        assert_string_equal(run_ranks(sizes[i][0], 60, exam_work, &exam), "");
        for (size_t k = 0; i == 0 && k < count; k++)
            want[k] = (double)exam.outputs[0][k];
        if (i == 0)
            first = exam.found[0];
        for (int rank = 0; rank < sizes[i][0]; rank++) {
            const struct evaluation *found = &exam.found[rank];
            check_near_all(exam.outputs[rank], want, count, 1e-5, "predictions");
            check_near(found->metrics[0], first.metrics[0], 0, "accuracy");
            check_near(found->baselines[0], first.baselines[0], 0, "majority");
            assert_true(found->examples == 40 && found->tokens == 40 * 24 && found->confused == classes);
            check_same_bits(found->confusion, first.confusion, sizeof first.confusion, "confusion");
            assert_int_equal(found->labels, classes);
            check_same_bits(found->label_counts, first.label_counts, sizeof first.label_counts, "labels");
            free(exam.outputs[rank]);
        }
    }
    free(want);
    dataset_free(&small.host, &dataset);
    small_run_free(&small);
}

/* Backward then computes nothing else, and exchanges no gradients of rows. */
static void own_losses_alone_are_those_of_one_process(void **state)
{
    (void)state;
    frozen = "all-but-own";
    check_steps("lha", "mean", "false", "0");
    check_steps("lha", "first", "true", "0");
    frozen = "";
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_that_of_one_process),
        cmocka_unit_test(attention_dropout_and_layered_positions_are_those_of_one_process),
        cmocka_unit_test(own_losses_alone_are_those_of_one_process),
        cmocka_unit_test(runs_have_the_same_bits_and_resume),
        cmocka_unit_test(the_number_is_recorded),
        cmocka_unit_test(a_rank_without_memory_ends_all),
        cmocka_unit_test(a_loss_that_is_not_finite_ends_all_ranks),
        cmocka_unit_test(what_cannot_be_shared_is_refused_first),
        cmocka_unit_test(evaluations_are_those_of_one_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
