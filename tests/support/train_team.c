/* Ranks are threads of this process (support/thread_ranks.h), so a test sees the state of all of them.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/train_team.h"
#include "support/evaluate_once.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "support/check.h"
#include "support/trainer_case.h"
#include "train/step.h"

void team_init(struct team *team, const char *mechanism)
{
    memset(team, 0, sizeof *team);
    team->threads = 1;
    team->stopper = team->poor = -1;
    for (int rank = 0; rank < MOST_RANKS; rank++) {
        struct small_run *member = &team->members[rank];
        small_run_init(member, mechanism, 24, 3);
        strcpy(member->config.data, team->members[0].data);
        small_run_set(member, "shards", "8");
        small_run_set(member, "batch", "11");
        small_run_set(member, "accumulate", "2");
    }
}

void team_free(struct team *team)
{
    for (int rank = 0; rank < MOST_RANKS; rank++)
        small_run_free(&team->members[rank]);
}

void team_set(struct team *team, const char *name, const char *value)
{
    for (int rank = 0; rank < MOST_RANKS; rank++)
        small_run_set(&team->members[rank], name, value);
}

struct seen {
    bool stops;
    int64_t last;
};

static bool look(void *user, const struct train_event *event)
{
    struct seen *seen = user;
    seen->last = event->step;
    return seen->stops && event->step == 5;
}

void team_work(struct comm *comm, void *argument)
{
    const char *why;
    struct team *team = argument;
    int rank = comm_rank(comm);
    struct small_run *member = &team->members[rank];
    struct failing_host poor;
    struct host *host = &member->host;
    struct seen seen = {.stops = rank == team->stopper};
    struct train_setup setup = {
        .kernels = kernels_named("auto", &why), .comm = comm, .callback = look, .user = &seen};
    rank_require(pool_new(host, team->threads, &setup.pool) == HASHATTN_OK);
    if (rank == team->poor) {
        failing_host_init(&poor, team->until);
        host = &poor.host;
    }
    team->status[rank] = team->resume ? train_resume(host, &setup, team->run, 0)
                                      : train_run(host, &setup, &member->config, team->run);
    if (rank == team->poor)
        memcpy(member->host.message, poor.host.message, sizeof poor.host.message);
    rank_require(rank != team->poor || poor.outstanding == 0);
    pool_free(&member->host, setup.pool);
    team->last_step[rank] = seen.last;
    team->bytes_sent[rank] = comm->bytes_sent;
}

hashattn_status train_team(struct team *team, int size, const char *name, bool resume)
{
    char run[80];
    small_run_path(&team->members[0], name, run);
    team->run = run;
    team->size = size;
    team->resume = resume;
    const char *sentence = run_ranks(size, 60, team_work, team);
    assert_string_equal(sentence, "");
    for (int rank = 1; rank < size; rank++) {
        assert_int_equal(team->status[rank], team->status[0]);
        if (team->status[0] != HASHATTN_OK)
            assert_string_equal(team->members[rank].host.message, team->members[0].host.message);
    }
    return team->status[0];
}

void team_path(const struct team *team, const char *name, char path[80])
{
    small_run_path(&team->members[0], name, path);
}

void team_check_same(struct team *team, const char *one, const char *other)
{
    char a[80], b[80];
    team_path(team, one, a);
    team_path(team, other, b);
    check_same_run(&team->members[0].host, a, b);
    check_same_file(a, b, "config.json");
}

void team_step_to_nowhere(struct comm *comm, void *argument)
{
    const char *why;
    struct team *team = argument;
    int rank = comm_rank(comm);
    struct small_run *member = &team->members[rank];
    struct train_setup setup = {.kernels = kernels_named("auto", &why), .comm = comm};
    struct stepper stepper;
    struct step_outcome outcome;
    double sums[MODEL_SUMS] = {0};
    rank_require(pool_new(&member->host, 1, &setup.pool) == HASHATTN_OK);
    rank_require(stepper_open(&member->host, &setup, &member->config, &stepper) == HASHATTN_OK);
    params_start(stepper.params, 1, stepper.values);
    for (size_t i = 0; rank == 1 && i < stepper.params->total; i++)
        stepper.values[i] = NAN;
    team->status[rank] = stepper_run(&stepper, 0, sums, &outcome);
    stepper_close(&stepper);
    pool_free(&member->host, setup.pool);
}

void exam_work(struct comm *comm, void *argument)
{
    const char *why;
    struct exam *exam = argument;
    struct host host;
    struct model *model;
    void *values;
    int rank = comm_rank(comm);
    host_init(&host);
    struct train_setup setup = {
        .kernels = kernels_named("auto", &why), .comm = comm, .sequence_parallel = exam->shared};
    rank_require(pool_new(&host, 1, &setup.pool) == HASHATTN_OK);
    rank_require(model_new(&host, &exam->small->config.model, &model) == HASHATTN_OK);
    const struct params *params = model_params(model);
    rank_require(memory_new_zeroed(&host, params->total, sizeof(float), "values", &values) == HASHATTN_OK);
    params_start(params, 1, values);
    rank_require(evaluate_once(&host, &setup, model, values, exam->dataset, exam->batch, 9,
                               exam->outputs[rank], &exam->found[rank]) == HASHATTN_OK);
    memory_free(&host, values);
    model_free(&host, model);
    pool_free(&host, setup.pool);
}
