/* The interface of objectives: an objective that the library does not have, with rows of floats in and out,
   weights, and a second loss, is trained, saved, resumed bit for bit and evaluated, and its gradients are
   right. It takes a file and a row in the table (seam_tables.c), nothing else.
   Planted and caught: the gradient of the second objective written over that of the first; the weight of an
   objective left out; the second divided by the counts of the first; row targets packed from the first row of
   the data; target weights not packed, or not counted over the step; the projection's gradient left out of
   the first stage; a sum not saved in trainer.json; the sums of one objective under the names of another; an
   objective without a baseline that is not passed over; ranks: targets of rows that are not cut, sums of rows
   of the first rank only. Covers: model.c
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "support/check.h"
#include "support/layers.h"
#include "support/small_run.h"
#include "support/test_pass.h"
#include "support/thread_ranks.h"
#include "support/waves_task.h"
#include "train/packing.h"
#include "train/step.h"

/* A small run whose task is waves: its options, facts and model. */
static void open_waves(struct small_run *small, const char *mechanism)
{
    small_run_init(small, mechanism, 16, 4);
    struct host *host = &small->host;
    struct run_config *config = &small->config;
    static struct {
        int64_t examples;
    } options = {30};
    task_facts_free(host, &config->facts);
    memory_free(host, config->task_options);
    config->task = task_find("waves");
    assert_ptr_equal(config->task, &task_waves);
    void *block;
    check_status(host, memory_new(host, 1, sizeof options, "options", &block), HASHATTN_OK, NULL);
    memcpy(block, &options, sizeof options);
    config->task_options = block;
    check_status(host, config->task->facts(host, block, small->data, NULL, &config->facts), HASHATTN_OK,
                 NULL);
    check_status(host, run_config_take_facts(host, config), HASHATTN_OK, NULL);
}

/* ---- training ---- */

struct watcher {
    int64_t stop_at;
    size_t evaluations;
    double first_loss, last_loss, last_error, last_accuracy;
};

static size_t index_of(const struct model *model, const char *name)
{
    for (size_t i = 0; i < model_num_metrics(model); i++)
        if (strcmp(model_metric(model, i)->name, name) == 0)
            return i;
    fail_msg("no metric %s", name);
    return 0;
}

static bool watch(void *user, const struct train_event *event)
{
    struct watcher *watcher = user;
    if (event->valid != NULL) {
        watcher->last_loss = event->valid[index_of(event->model, "follow.loss")];
        watcher->last_error = event->valid[index_of(event->model, "follow.error")];
        watcher->last_accuracy = event->valid[index_of(event->model, "classify.accuracy")];
        if (watcher->evaluations++ == 0)
            watcher->first_loss = watcher->last_loss;
    }
    return event->step == watcher->stop_at;
}

static struct train_setup setup_of(struct watcher *watcher, struct pool *pool)
{
    return (struct train_setup){
        .kernels = kernels_all()[0], .pool = pool, .callback = watch, .user = watcher};
}

static void check_same_file(const char *a, const char *b, const char *name)
{
    size_t sizes[2];
    char *bytes[] = {small_run_read(a, name, &sizes[0]), small_run_read(b, name, &sizes[1])};
    assert_int_equal(sizes[0], sizes[1]);
    check_same_bits(bytes[0], bytes[1], sizes[0], name);
    free(bytes[0]);
    free(bytes[1]);
}

/* The means of the n'th evaluation in a log, counted from 0, as text. */
static char *means_of(const char *run, int n)
{
    size_t size;
    char *log = small_run_read(run, "log.jsonl", &size), *at = log;
    for (int i = 0; i <= n && at != NULL; i++)
        at = strstr(at + 1, "\"mean_follow.loss\"");
    assert_non_null(at);
    char *means = strndup(at, (size_t)(strstr(at, "\"valid_") - at));
    free(log);
    return means;
}

/* Stopped in the middle of two evaluations and resumed from the files; the config too is read back. */
static void it_is_trained_saved_resumed_and_evaluated(void **state)
{
    (void)state;
    struct small_run small;
    struct pool *pool;
    char parted[80];
    open_waves(&small, "softmax");
    small_run_set(&small, "steps", "40");
    small_run_set(&small, "accumulate", "2");
    small_run_set(&small, "eval_examples", "30");
    small_run_path(&small, "parted", parted);
    check_status(&small.host, pool_new(&small.host, 2, &pool), HASHATTN_OK, NULL);

    struct watcher whole = {.stop_at = -1}, part = {.stop_at = 6}, rest = {.stop_at = -1};
    struct train_setup setup = setup_of(&whole, pool);
    check_status(&small.host, train_run(&small.host, &setup, &small.config, small.run), HASHATTN_OK, NULL);
    assert_true(whole.evaluations == 10 && whole.last_loss < 0.5 * whole.first_loss);
    assert_true(whole.last_error > 0 && whole.last_accuracy >= 0 && whole.last_accuracy <= 1);

    setup = setup_of(&part, pool);
    check_status(&small.host, train_run(&small.host, &setup, &small.config, parted), HASHATTN_INTERRUPTED,
                 NULL);
    setup = setup_of(&rest, pool);
    check_status(&small.host, train_resume(&small.host, &setup, parted, 0), HASHATTN_OK, NULL);
    static const char *const files[] = {"last.safetensors", "optimizer.safetensors", "model.safetensors"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        check_same_file(small.run, parted, files[i]);
    assert_true(rest.last_loss == whole.last_loss && rest.last_accuracy == whole.last_accuracy);
    char *want = means_of(small.run, 1), *got = means_of(parted, 1); /* of steps before and after the stop */
    assert_string_equal(want, got);
    assert_non_null(strstr(want, "mean_follow.error"));
    free(want);
    free(got);

    struct run_config loaded;
    check_status(&small.host, run_config_load(&small.host, parted, &loaded), HASHATTN_OK, NULL);
    assert_int_equal(loaded.model.num_objectives, 2);
    check_near(loaded.model.objectives[1].weight, 0.5, 0, "weight of the second objective");
    assert_true(loaded.model.row_width == 3 && loaded.model.num_segments == 2 &&
                loaded.model.vocab_size == 0);
    run_config_free(&small.host, &loaded);
    pool_free(&small.host, pool);
    small_run_free(&small);
}

/* ---- ranks --------------------------------------------------------------------------------------------- */

/* The gradient and outcome of a step, of rank 0. */
struct shared_step {
    struct small_run members[4];
    float *gradients;
    size_t total;
    double loss, sums[MODEL_SUMS];
};

static void step_on_ranks(struct comm *comm, void *argument)
{
    struct shared_step *shared = argument;
    struct small_run *member = &shared->members[comm_rank(comm)];
    const struct train_setup setup = {.kernels = kernels_all()[0], .comm = comm};
    struct stepper stepper;
    struct step_outcome outcome;
    double sums[MODEL_SUMS] = {0};
    rank_require(stepper_open(&member->host, &setup, &member->config, &stepper) == HASHATTN_OK);
    params_start(stepper.params, 1, stepper.values);
    rank_require(stepper_run(&stepper, 0, sums, &outcome) == HASHATTN_OK);
    if (comm_rank(comm) == 0) {
        shared->total = stepper.params->total;
        shared->gradients = malloc(shared->total * sizeof(float));
        memcpy(shared->gradients, stepper.gradients, shared->total * sizeof(float));
        shared->loss = outcome.loss;
        memcpy(shared->sums, sums, sizeof sums);
    }
    stepper_close(&stepper);
}

/* Rows of floats, segments, targets of rows and their weights are cut as the rows are. */
static void ranks_share_the_rows(void **state)
{
    (void)state;
    struct shared_step *one = calloc(1, sizeof *one);
    for (int size = 1; size <= 4; size++) {
        struct shared_step *shared = calloc(1, sizeof *shared);
        char number[2] = {(char)('0' + size), '\0'};
        for (int rank = 0; rank < size; rank++) {
            open_waves(&shared->members[rank], "softmax");
            small_run_set(&shared->members[rank], "sequence_parallel", number);
            small_run_set(&shared->members[rank], "shards", "2");
        }
        assert_string_equal(run_ranks(size, 60, step_on_ranks, shared), "");
        for (int rank = 0; rank < size; rank++)
            small_run_free(&shared->members[rank]);
        if (size == 1) {
            free(one);
            one = shared;
            continue;
        }
        double norm = 0;
        for (size_t i = 0; i < one->total; i++)
            norm += (double)one->gradients[i] * (double)one->gradients[i];
        for (size_t i = 0; i < one->total; i++)
            check_near((double)shared->gradients[i], (double)one->gradients[i], 2e-5 * sqrt(norm),
                       "gradient");
        for (size_t i = 0; i < MODEL_SUMS; i++)
            check_near(shared->sums[i], one->sums[i], 1e-4 * (1 + fabs(one->sums[i])), "sums");
        check_near(shared->loss, one->loss, 2e-5, "loss");
        free(shared->gradients);
        free(shared);
    }
    free(one->gradients);
    free(one);
}

/* The log and trainer.json prefix metrics and sums with the names of their two objectives. */
static void names_say_which_objective(void **state)
{
    (void)state;
    struct small_run small;
    struct pool *pool;
    size_t size;
    open_waves(&small, "none");
    small_run_set(&small, "save_every", "3");
    check_status(&small.host, pool_new(&small.host, 1, &pool), HASHATTN_OK, NULL);
    struct watcher watcher = {.stop_at = 6};
    const struct train_setup setup = setup_of(&watcher, pool);
    check_status(&small.host, train_run(&small.host, &setup, &small.config, small.run), HASHATTN_INTERRUPTED,
                 NULL);
    char *log = small_run_read(small.run, "log.jsonl", &size);
    assert_non_null(strstr(log, "\"valid_follow.error\""));
    assert_non_null(strstr(log, "\"valid_classify.majority\""));
    free(log);
    char *trainer = small_run_read(small.run, "trainer.json", &size);
    assert_non_null(strstr(trainer, "\"follow.error\""));
    assert_non_null(strstr(trainer, "\"classify.correct\""));
    assert_non_null(strstr(trainer, "\"best_follow.loss\""));
    free(trainer);
    pool_free(&small.host, pool);
    small_run_free(&small);
}

/* ---- the gradient of everything ---- */

struct gradient_test {
    struct small_run small;
    struct layer_test base;
    struct model *model;
    struct dataset data;
    struct packed_examples packed;
    struct model_batch batch;
    struct test_pass pass;
};

static double loss_of(struct gradient_test *t)
{
    test_pass_open(&t->pass, &t->base.host, t->model, &t->batch, layer_test_pack(&t->base, true));
    return model_forward(t->pass.pass);
}

static void open_gradient(struct gradient_test *t, int norm, double second_weight)
{
    open_waves(&t->small, "softmax");
    small_run_set(&t->small, "dropout", "0.1");
    small_run_set(&t->small, "norm", norm == 0 ? "pre" : "post");
    t->small.config.model.objectives[1].weight = second_weight;
    layer_test_open(&t->base, 2);
    struct host *host = &t->base.host;
    check_status(host, model_new(host, &t->small.config.model, &t->model), HASHATTN_OK, NULL);
    assert_int_equal(model_num_baselines(t->model), 1); /* `follow` has none */
    t->base.params = *model_params(t->model);
    layer_test_start(&t->base, 4);
    small_run_load(&t->small, SPLIT_TRAIN, &t->data);
    check_status(host, packed_examples_new(host, &t->data, 12, &t->packed), HASHATTN_OK, NULL);
    packing_range(&t->packed, &t->data, 3, 12);
    t->batch = packed_batch(&t->packed, t->base.kernels, t->base.pool, true);
    t->batch.training = true;
    t->batch.random_key = 5;
}

static void close_gradient(struct gradient_test *t)
{
    struct host *host = &t->base.host;
    memset(&t->base.params, 0, sizeof t->base.params); /* the model's */
    model_free(host, t->model);
    packed_examples_free(host, &t->packed);
    dataset_free(&t->small.host, &t->data);
    layer_test_close(&t->base);
    small_run_free(&t->small);
    test_pass_close(&t->pass);
}

/* One random direction per tensor, by fourth-order differences of the float loss; the error of a loss is the
   rounding of a few rows. */
static void the_gradient_of_all_is_right(void **state)
{
    (void)state;
    for (int norm = 0; norm < 2; norm++) {
        struct gradient_test t = {.pass = {.plan = NULL}};
        open_gradient(&t, norm, 0.5);
        double loss = loss_of(&t);
        model_backward(t.pass.pass, t.base.gradients, NULL);
        for (size_t i = 0; i < t.base.params.num_rows; i++) {
            const struct param *row = &t.base.params.rows[i];
            float *direction = new_normals(i, row->count, 1 / sqrt((double)row->count));
            double got = 0, step = 0.02, side[4];
            static const double places[4] = {-2, -1, 1, 2};
            for (size_t k = 0; k < row->count; k++)
                got += (double)direction[k] * (double)t.base.gradients[row->offset + k];
            for (int p = 0; p < 4; p++) {
                for (size_t k = 0; k < row->count; k++)
                    t.base.values[row->offset + k] =
                        (float)(t.base.exact[row->offset + k] + places[p] * step * (double)direction[k]);
                side[p] = loss_of(&t);
            }
            for (size_t k = 0; k < row->count; k++)
                t.base.values[row->offset + k] = (float)t.base.exact[row->offset + k];
            double want = (8 * (side[2] - side[1]) - (side[3] - side[0])) / (12 * step);
            check_near(got, want, 60 * EPSILON * (1 + loss) / step + 1e-3 * fabs(want), row->name);
            free(direction);
        }
        close_gradient(&t);
    }
}

/* The loss is the weighted sum of the two: three points on the line show the weight. */
static void losses_are_weighed(void **state)
{
    (void)state;
    double losses[3];
    for (int i = 0; i < 3; i++) {
        struct gradient_test t = {.pass = {.plan = NULL}};
        open_gradient(&t, 0, 0.5 * (i + 1));
        losses[i] = loss_of(&t);
        close_gradient(&t);
    }
    check_near(losses[2] - losses[1], losses[1] - losses[0], 1e-9, "steps of the weight");
    assert_true(losses[1] - losses[0] > 0.1);
}

/* A row of weight 0 has no target: another value there changes no bit; in other rows it does. */
static void weight_zero_is_not_asked(void **state)
{
    (void)state;
    struct gradient_test t = {.pass = {.plan = NULL}};
    open_gradient(&t, 0, 0.5);
    double loss = loss_of(&t), sums[MODEL_SUMS] = {0}, again[MODEL_SUMS] = {0};
    model_count(t.pass.pass, sums);
    size_t moved[2] = {0, 0};
    for (size_t r = 0; r < t.batch.offsets[12]; r++)
        if (t.packed.data.targets[0].weights[r] == 0) {
            t.packed.data.targets[0].floats[2 * r] += 3;
            moved[0]++;
        }
    double unasked = loss_of(&t);
    model_count(t.pass.pass, again);
    check_same_bits(&loss, &unasked, sizeof loss, "loss");
    check_same_bits(sums, again, sizeof sums, "sums");
    for (size_t r = 0; r < t.batch.offsets[12] && moved[1] == 0; r++)
        if (t.packed.data.targets[0].weights[r] != 0) {
            t.packed.data.targets[0].floats[2 * r] += 3;
            moved[1]++;
        }
    assert_true(moved[0] > 0 && moved[1] > 0 && loss_of(&t) > loss);
    close_gradient(&t);
}

/* Two micro-batches with the counts of both: their losses and gradients add up to those of the whole. */
static void parts_add_up_to_the_whole(void **state)
{
    (void)state;
    struct gradient_test t = {.pass = {.plan = NULL}};
    open_gradient(&t, 0, 0.5);
    double whole = loss_of(&t), sum = 0, counts[2] = {0, 12};
    model_backward(t.pass.pass, t.base.gradients, NULL);
    size_t total = t.base.params.total;
    double *want = new_doubles(t.base.gradients, total);
    memset(t.base.gradients, 0, total * sizeof(float));
    for (size_t r = 0; r < t.batch.offsets[12]; r++)
        counts[0] += (double)t.packed.data.targets[0].weights[r];
    for (size_t part = 0; part < 2; part++) {
        packing_range(&t.packed, &t.data, part == 0 ? 3 : 10, part == 0 ? 7 : 5);
        t.batch = packed_batch(&t.packed, t.base.kernels, t.base.pool, true);
        t.batch.training = true;
        t.batch.random_key = 5;
        t.batch.counts = counts;
        t.batch.examples = 12;
        sum += loss_of(&t);
        model_backward(t.pass.pass, t.base.gradients, NULL);
    }
    check_near(sum, whole, 100 * EPSILON * whole, "loss");
    for (size_t i = 0; i < total; i++)
        check_near((double)t.base.gradients[i], want[i], 3e-6, "gradient");
    free(want);
    close_gradient(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_trained_saved_resumed_and_evaluated),
        cmocka_unit_test(names_say_which_objective),
        cmocka_unit_test(ranks_share_the_rows),
        cmocka_unit_test(the_gradient_of_all_is_right),
        cmocka_unit_test(losses_are_weighed),
        cmocka_unit_test(weight_zero_is_not_asked),
        cmocka_unit_test(parts_add_up_to_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
