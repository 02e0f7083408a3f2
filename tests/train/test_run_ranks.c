/* Training on several ranks, which are threads with a communicator of their own: the same files for any
   number of ranks and threads, resuming on another number, evaluation, stops, and every rank's failures.
   Bugs planted and caught: a shard's gradient that begins with that of the shard before; examples of a shard
   cut at another place on some ranks; the values of step 0 not those of rank 0; a rank other than 0 that
   saves; a stop that only the asking rank obeys; predictions of other ranks missing; a rank with other
   options that is not refused; a rank that fails and leaves the others waiting; shards of an old run taken
   for 8; a range that is sent before backward has finished it; a last shard that is added twice;
   gradients that are rounded only when they are sent, or not in leaves; models that are evaluated without a
   comparison of their parameters.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/run_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "support/check.h"
#include "support/thread_ranks.h"
#include "support/train_team.h"
#include "support/trainer_case.h"

static void check_ranks_change_no_bit(const char *mechanism)
{
    static const int sizes[] = {2, 3, 4, 8};
    struct team team;
    team_init(&team, mechanism);
    assert_int_equal(train_team(&team, 1, "one", false), HASHATTN_OK);
    for (int i = 0; i < 4; i++) {
        char name[8];
        snprintf(name, sizeof name, "of%d", sizes[i]);
        team.threads = i == 0 ? 3 : 1;
        assert_int_equal(train_team(&team, sizes[i], name, false), HASHATTN_OK);
        team_check_same(&team, "one", name);
    }
    team_free(&team);
}

static void ranks_and_threads_change_no_bit(void **state)
{
    (void)state;
    check_ranks_change_no_bit("yoso");
}

/* With learned tensors and a loss of its own. */
static void nor_do_they_for_a_mechanism_that_learns(void **state)
{
    (void)state;
    check_ranks_change_no_bit("lha");
}

/* Sums of several ranges (comm/sum_stream.h), which begin during backward. */
static void nor_do_they_for_a_larger_model(void **state)
{
    (void)state;
    static const int sizes[] = {2, 3, 4, 8};
    struct team team;
    team_init(&team, "lha");
    team_set(&team, "layers", "3");
    team_set(&team, "dim", "64");
    team_set(&team, "ffn", "384");
    team_set(&team, "steps", "2");
    team_set(&team, "warmup", "1");
    assert_int_equal(train_team(&team, 1, "one", false), HASHATTN_OK);
    for (int i = 0; i < 4; i++) {
        char name[8];
        snprintf(name, sizeof name, "of%d", sizes[i]);
        assert_int_equal(train_team(&team, sizes[i], name, false), HASHATTN_OK);
        team_check_same(&team, "one", name);
    }
    team_free(&team);
}

/* With gradients of 16 bits, also when a run resumes on other ranks; a run of ranks sends half of the
   bytes. */
static void nor_with_bf16_gradients(void **state)
{
    (void)state;
    static const int sizes[] = {2, 3, 4, 8};
    struct team team;
    uint64_t sent[2];
    team_init(&team, "yoso");
    for (int precision = 0; precision < 2; precision++) {
        team_set(&team, "gradient_precision", precision == 0 ? "float32" : "bf16");
        assert_int_equal(train_team(&team, 2, precision == 0 ? "float" : "short", false), HASHATTN_OK);
        sent[precision] = team.bytes_sent[1];
    }
    assert_int_equal(train_team(&team, 1, "one", false), HASHATTN_OK);
    for (int i = 0; i < 4; i++) {
        char name[8];
        snprintf(name, sizeof name, "of%d", sizes[i]);
        assert_int_equal(train_team(&team, sizes[i], name, false), HASHATTN_OK);
        team_check_same(&team, "one", name);
    }
    team.stopper = 2;
    assert_int_equal(train_team(&team, 4, "parts", false), HASHATTN_INTERRUPTED);
    team.stopper = -1;
    assert_int_equal(train_team(&team, 3, "parts", true), HASHATTN_OK);
    team_check_same(&team, "one", "parts");
    struct model *model;
    check_status(&team.members[0].host,
                 model_new(&team.members[0].host, &team.members[0].config.model, &model), HASHATTN_OK, NULL);
    /* Per step 2 P bytes less for P floats: half of 8 P (R - 1) / R. */
    assert_true(sent[0] - sent[1] == 10 * 2 * (uint64_t)model_params(model)->total);
    model_free(&team.members[0].host, model);
    team_free(&team);
}

/* Of one shard, the gradient is the plain sum of one process. */
static void shards_matter_and_ranks_need_them(void **state)
{
    (void)state;
    struct team team;
    char a[80], b[80];
    size_t size_a, size_b;
    team_init(&team, "softmax");
    assert_int_equal(train_team(&team, 1, "eight", false), HASHATTN_OK);
    team_set(&team, "shards", "1");
    assert_int_equal(train_team(&team, 1, "single", false), HASHATTN_OK);
    team_path(&team, "eight", a);
    team_path(&team, "single", b);
    char *first = small_run_read(a, "last.safetensors", &size_a);
    char *second = small_run_read(b, "last.safetensors", &size_b);
    assert_true(size_a == size_b && memcmp(first, second, size_a) != 0);
    free(first), free(second);
    assert_int_equal(train_team(&team, 3, "refused", false), HASHATTN_INVALID);
    assert_non_null(strstr(team.members[2].host.message, "a batch has 1 shards, too few for 3 ranks"));
    team_path(&team, "refused", a);
    assert_true(access(a, F_OK) != 0);
    team_free(&team);
}

/* With a communicator, 0 means eight, even on one rank; without one it means one, as for runs of before. */
static void zero_shards_are_settled(void **state)
{
    (void)state;
    struct team team;
    struct json *root;
    char path[80], file[120];
    int64_t shards;
    team_init(&team, "none");
    team_set(&team, "shards", "0");
    team_set(&team, "steps", "3");
    assert_int_equal(train_team(&team, 1, "with", false), HASHATTN_OK);
    struct watcher watcher = {.stop_at = -1};
    team_path(&team, "without", path);
    struct host *host = &team.members[1].host;
    small_run_set(&team.members[1], "shards", "0");
    assert_int_equal(train(&team.members[1], path, 1, &watcher, false), HASHATTN_OK);
    for (int i = 0; i < 2; i++) {
        team_path(&team, i == 0 ? "with" : "without", path);
        snprintf(file, sizeof file, "%s/config.json", path);
        check_status(host, json_read_file(host, file, &root), HASHATTN_OK, NULL);
        check_status(host, json_get_int(host, root, "training.shards", 0, 99, &shards), HASHATTN_OK, NULL);
        assert_int_equal(shards, i == 0 ? 8 : 1);
        json_free(root);
    }
    team_free(&team);
}

/* A config.json without the member. */
static void runs_of_before_have_one_shard(void **state)
{
    (void)state;
    struct small_run small;
    struct run_config read;
    char *text;
    size_t size;
    small_run_init(&small, "softmax", 24, 3);
    small_run_set(&small, "shards", "8");
    check_status(&small.host, run_config_text(&small.host, &small.config, &text, &size), HASHATTN_OK, NULL);
    check_status(&small.host, run_config_parse(&small.host, text, size, &read), HASHATTN_OK, NULL);
    assert_int_equal(read.training.shards, 8);
    run_config_free(&small.host, &read);
    char *line = strstr(text, "\"shards\": 8,"), *end = strchr(line, ',') + 1;
    memmove(line, end, strlen(end) + 1);
    check_status(&small.host, run_config_parse(&small.host, text, strlen(text), &read), HASHATTN_OK, NULL);
    assert_int_equal(read.training.shards, 1);
    run_config_free(&small.host, &read);
    memory_free(&small.host, text);
    small_run_free(&small);
}

static void a_run_resumes_on_other_ranks(void **state)
{
    (void)state;
    struct team team;
    team_init(&team, "yoso");
    assert_int_equal(train_team(&team, 1, "whole", false), HASHATTN_OK);
    team.stopper = 2;
    assert_int_equal(train_team(&team, 4, "parts", false), HASHATTN_INTERRUPTED);
    for (int rank = 0; rank < 4; rank++) /* all stop after the same step */
        assert_int_equal(team.last_step[rank], 5);
    team.stopper = -1;
    assert_int_equal(train_team(&team, 3, "parts", true), HASHATTN_OK);
    team_check_same(&team, "whole", "parts");
    team_free(&team);
}

static void a_rank_with_other_options_or_data_is_refused(void **state)
{
    (void)state;
    struct team team;
    char path[80];
    team_init(&team, "softmax");
    small_run_set(&team.members[1], "learning_rate", "0.02");
    assert_int_equal(train_team(&team, 2, "refused", false), HASHATTN_INVALID);
    assert_string_equal(
        team.members[0].host.message,
        "rank 1: it differs from rank 0: '\"learning_rate\": 0.02,' here, '\"learning_rate\": "
        "0.01,' there");
    small_run_set(&team.members[1], "learning_rate", "0.01");
    /* Data at the same path of another machine: here, a set that rank 1 finds at another path. */
    strcpy(team.members[1].config.data, team.members[1].data);
    static const size_t counts[SPLIT_COUNT] = {41, 12, 7};
    small_run_generate(&team.members[1], counts, 3);
    assert_int_equal(train_team(&team, 2, "refused", false), HASHATTN_INVALID);
    assert_non_null(strstr(team.members[0].host.message, "rank 1: it differs from rank 0: '\"data\": "));
    team_path(&team, "refused", path);
    assert_true(access(path, F_OK) != 0);
    team_free(&team);
}

static void compare_data(struct comm *comm, void *argument)
{
    struct team *team = argument;
    struct small_run *member = &team->members[comm_rank(comm)];
    struct train_state state = {.train = {40, 960, 7}, .valid = {12, 288, 8}};
    state.valid.hash += comm_rank(comm) == 1;
    team->status[comm_rank(comm)] = ranks_check(&member->host, comm, &member->config, &state);
}

struct models {
    struct team *team;
    int changed; /* of rank 1: 1 a parameter, 2 the seed */
};

static void compare_models(struct comm *comm, void *argument)
{
    struct models *models = argument;
    int rank = comm_rank(comm), changed = rank == 1 ? models->changed : 0;
    struct small_run *member = &models->team->members[rank];
    const float values[3] = {1, 2, changed == 1 ? 3.5f : 3};
    models->team->status[rank] =
        ranks_check_model(&member->host, comm, &member->config, values, 3, changed == 2 ? 6 : 5);
}

static void models_are_compared_before_an_evaluation(void **state)
{
    (void)state;
    static const char *const said[] = {"", "rank 1: it differs from rank 0: 'parameters: 3, hash ",
                                       "rank 1: it differs from rank 0: 'seed: 6' here, 'seed: 5' there"};
    struct team team;
    team_init(&team, "softmax");
    for (int changed = 0; changed < 3; changed++) {
        struct models models = {&team, changed};
        assert_string_equal(run_ranks(2, 60, compare_models, &models), "");
        for (int rank = 0; rank < 2; rank++) {
            assert_int_equal(team.status[rank], changed == 0 ? HASHATTN_OK : HASHATTN_INVALID);
            if (changed > 0)
                assert_non_null(strstr(team.members[rank].host.message, said[changed]));
        }
    }
    team_free(&team);
}

static void data_are_compared_by_their_hash(void **state)
{
    (void)state;
    struct team team;
    team_init(&team, "softmax");
    assert_string_equal(run_ranks(2, 60, compare_data, &team), "");
    assert_int_equal(team.status[0], HASHATTN_INVALID);
    assert_string_equal(team.members[1].host.message,
                        "rank 1: it differs from rank 0: 'validation set: 12 examples, 288 tokens, hash "
                        "0000000000000009' here, 'validation set: 12 examples, 288 tokens, hash "
                        "0000000000000008' there");
    team_free(&team);
}

/* Every n-th allocation of rank 1 fails. All ranks return, and what was saved can be resumed. */
static void a_rank_without_memory_ends_all(void **state)
{
    (void)state;
    struct team team;
    char path[80];
    int failures = 0;
    team_init(&team, "softmax");
    team_set(&team, "steps", "2");
    team_set(&team, "warmup", "1");
    team_set(&team, "eval_every", "2");
    team.poor = 1;
    for (team.until = 0; team.until < 2000; team.until += team.until < 40 ? 1 : 3) {
        char run[80];
        small_run_path(&team.members[0], "poor", run);
        team.run = run;
        team.resume = false;
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
        if (access(path, F_OK) == 0) {
            struct watcher watcher = {.stop_at = -1};
            assert_int_equal(train(&team.members[2], path, 1, &watcher, true), HASHATTN_OK);
        }
        small_run_remove(path);
    }
    assert_true(failures > 30 && team.status[0] == HASHATTN_OK);
    team_free(&team);
}

static void a_loss_that_is_not_finite_ends_all_ranks(void **state)
{
    (void)state;
    struct team team;
    team_init(&team, "softmax");
    assert_string_equal(run_ranks(3, 5, team_step_to_nowhere, &team), "");
    for (int rank = 0; rank < 3; rank++) {
        assert_int_equal(team.status[rank], HASHATTN_FAILED);
        if (strncmp(team.members[rank].host.message, "rank 1: the loss is nan in step 1 of 10", 39) != 0)
            fail_msg("%s", team.members[rank].host.message);
    }
    team_free(&team);
}

/* ---- evaluation ---- */

static void ranks_change_no_bit_of_an_evaluation(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 8};
    struct small_run small;
    struct dataset dataset;
    small_run_init(&small, "yoso", 24, 3);
    small_run_load(&small, SPLIT_TRAIN, &dataset);
    size_t classes = (size_t)small.config.model.objectives[0].num_outputs,
           bytes = 40 * classes * sizeof(float);
    struct exam first = {0};
    for (int i = 0; i < 4; i++) {
        struct exam exam = {.small = &small, .dataset = &dataset, .batch = 5};
        for (int rank = 0; rank < sizes[i]; rank++)
            exam.outputs[rank] = calloc(1, bytes);
        assert_string_equal(run_ranks(sizes[i], 60, exam_work, &exam), "");
        if (i == 0)
            first = exam;
        for (int rank = 0; rank < sizes[i]; rank++) {
            const struct evaluation *a = &first.found[0], *b = &exam.found[rank];
            check_same_bits(exam.outputs[rank], first.outputs[0], bytes, "predictions");
            check_same_bits(a->metrics, b->metrics, 2 * sizeof *a->metrics, "metrics");
            check_same_bits(a->baselines, b->baselines, sizeof *a->baselines, "baselines");
            assert_true(a->examples == b->examples && a->tokens == b->tokens && a->tokens == 40 * 24);
            if (i > 0)
                free(exam.outputs[rank]);
        }
    }
    free(first.outputs[0]);
    dataset_free(&small.host, &dataset);
    small_run_free(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_and_threads_change_no_bit),
        cmocka_unit_test(nor_do_they_for_a_mechanism_that_learns),
        cmocka_unit_test(nor_do_they_for_a_larger_model),
        cmocka_unit_test(nor_with_bf16_gradients),
        cmocka_unit_test(shards_matter_and_ranks_need_them),
        cmocka_unit_test(zero_shards_are_settled),
        cmocka_unit_test(runs_of_before_have_one_shard),
        cmocka_unit_test(a_run_resumes_on_other_ranks),
        cmocka_unit_test(a_rank_with_other_options_or_data_is_refused),
        cmocka_unit_test(models_are_compared_before_an_evaluation),
        cmocka_unit_test(data_are_compared_by_their_hash),
        cmocka_unit_test(a_rank_without_memory_ends_all),
        cmocka_unit_test(a_loss_that_is_not_finite_ends_all_ranks),
        cmocka_unit_test(ranks_change_no_bit_of_an_evaluation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
