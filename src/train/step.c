/* One training step.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/step.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "train/schedule.h"
#include "train/start/freeze.h"

/* ---- making and freeing ---- */

void stepper_close(struct stepper *s)
{
    struct host *host = s->host;
    session_close(host, &s->session);
    memory_free(host, s->trained);
    memory_free(host, s->outcomes);
    memory_free(host, s->sum_scratch);
    memory_free(host, s->more);
    memory_free(host, s->chunk_sums);
    memory_free(host, s->blocks);
    batches_free(host, &s->batches);
    dataset_free(host, &s->train);
    model_free(host, s->model);
}

static hashattn_status make_blocks(struct stepper *s)
{
    struct host *host = s->host;
    const struct train_options *options = s->options;
    size_t total = s->params->total, packed = s->params->packed_weights;
    void *block;
    TRY(memory_new_zeroed(host, size_sum(packed, size_product(total, 4)), sizeof(float),
                          "parameters, gradients, moments and packed weights", &block));
    s->blocks = block;
    s->values = s->blocks + packed;
    s->gradients = s->values + total;
    s->session.model = s->model;
    TRY(memory_new(host, optim_chunks(total), sizeof(double), "sums of chunks", &block));
    s->chunk_sums = block;
    size_t num_ranges;
    TRY(freeze_ranges(host, s->config->freeze, options->train_last, s->model, &s->trained, &num_ranges));
    s->own_losses_only = freeze_leaves_own_losses(s->model, s->trained, num_ranges);
    s->optim = (struct optim){.kernels = s->setup->kernels,
                              .pool = s->setup->pool,
                              .total = total,
                              .params = s->params,
                              .m = s->gradients + total,
                              .v = s->gradients + 2 * total,
                              .chunk_sums = s->chunk_sums,
                              .beta2 = options->beta2,
                              .epsilon = options->epsilon,
                              .decay = options->weight_decay,
                              .clip = options->clip,
                              .ranges = s->trained,
                              .num_ranges = num_ranges};
    return HASHATTN_OK;
}

static enum tree_precision gradient_precision(const struct stepper *s)
{
    return (enum tree_precision)s->options->gradient_precision;
}

/* The shards of this rank, and memory for their gradients. */
static hashattn_status make_shards(struct stepper *s)
{
    struct host *host = s->host;
    const struct comm *comm = &s->grid.data;
    size_t shards = (size_t)s->options->shards, total = s->params->total;
    size_t row = row_ranks_count(&s->grid.ranks);
    void *block;
    comm_span(comm, shards, &s->first_shard, &s->end_shard);
    size_t arrays = tree_most_nodes(shards, s->first_shard, s->end_shard);
    TRY(memory_new(host, size_product(arrays - 1, total), sizeof(float), "gradients of shards", &block));
    s->more = block;
    const struct comm_sum sum = {.comm = &s->grid.data, .leaves = shards, .precision = gradient_precision(s)};
    size_t streamed = comm_size(comm) == 1 ? 0 : sum_stream_scratch(&sum, total);
    TRY(memory_new(host, size_max(streamed, row_ranks_sum_scratch(row, total)), 1, "gradients of other ranks",
                   &s->sum_scratch));
    TRY(memory_new_zeroed(host, row * shards, sizeof *s->outcomes, "results of shards", &block));
    s->outcomes = block;
    return HASHATTN_OK;
}

/* Array number `index` of those that are added in the tree. */
static float *shard_gradients(const struct stepper *s, size_t index)
{
    return index == 0 ? s->gradients : s->more + (index - 1) * s->params->total;
}

/* The examples of a shard in each batch. */
static size_t examples_of(const struct stepper *s, size_t shard, size_t *first)
{
    size_t end;
    comm_span_of((int)shard, (int)s->options->shards, (size_t)s->options->batch, first, &end);
    return end - *first;
}

/* The results of a shard, on the rank of number `rank` among those that share sequences. */
static struct shard_outcome *outcome_of(const struct stepper *s, int rank, size_t shard)
{
    return s->outcomes + (size_t)rank * (size_t)s->options->shards + shard;
}

/* Packs this rank's rows of examples of a batch. */
static const struct packed_examples *pack(struct stepper *s, uint64_t batch, size_t first, size_t number)
{
    batches_get_part(&s->batches, batch, first, number);
    packing_cut(&s->batches.packed, &s->grid.ranks);
    return &s->batches.packed;
}

/* State shared by the micro-batches of a step. */
struct frame {
    struct stepper *stepper;
    int64_t step;
    double counts[TASK_OBJECTIVES]; /* sums of the weights of the targets over all micro-batches */
    struct tree_stack stack;        /* the shards so far, without the last one of this rank */
    bool agreeing;                  /* agree_on_sums has been called */
    hashattn_status agreed;         /* what it has returned */
    /* if several ranks share batches */
    struct comm_sum sum;
    float *nodes[TREE_NODES];
    struct sum_stream stream;
};

static struct model_batch batch_of(const struct stepper *s, const struct packed_examples *packed,
                                   const struct frame *frame)
{
    const struct train_options *options = s->options;
    struct model_batch batch = packed_batch(packed, s->setup->kernels, s->setup->pool, true);
    batch.random_key = random_key((uint64_t)options->seed, RANDOM_STEP, (uint64_t)frame->step);
    batch.counts = frame->counts;
    batch.examples = (size_t)options->batch * (size_t)options->accumulate;
    batch.training = true;
    batch.first_trained = s->optim.num_ranges == 0 ? 0 : s->trained[0].first;
    batch.own_losses_only = s->own_losses_only;
    batch.profile = s->setup->profile;
    return batch;
}

/* Allocates the memory of the shard with the most rows at once, so that a training that starts has enough
   memory to finish. */
static hashattn_status reserve(struct stepper *s)
{
    const struct train_options *options = s->options;
    uint64_t count = (uint64_t)options->steps * (uint64_t)options->accumulate;
    for (size_t shard = s->first_shard; shard < s->end_shard; shard++) {
        size_t first, number = examples_of(s, shard, &first);
        if (number == 0)
            continue;
        uint64_t largest = batches_largest(&s->batches, count, first, number);
        const struct model_batch batch = batch_of(s, pack(s, largest, first, number), &(struct frame){0});
        struct model_pass *pass;
        TRY(model_space_open(s->host, &s->session.space, s->model, &batch, NULL, &pass));
    }
    return HASHATTN_OK;
}

static hashattn_status check_warmup(struct host *host, const struct train_options *options)
{
    FAIL_IF(options->warmup > options->steps, host, HASHATTN_INVALID,
            "training: `warmup` is %lld, at most the %lld steps are allowed", (long long)options->warmup,
            (long long)options->steps);
    return HASHATTN_OK;
}

hashattn_status stepper_open(struct host *host, const struct train_setup *setup, struct run_config *config,
                             struct stepper *s)
{
    const struct train_options *options = &config->training;
    *s = (struct stepper){.host = host, .setup = setup, .config = config, .options = options};
    TRY(head_plan_check_backward(host, &config->model.plan));
    if (options->epochs <= 0)
        TRY(check_warmup(host, options));
    TRY(model_new(host, &config->model, &s->model));
    s->params = model_params(s->model);
    uint64_t seed = (uint64_t)options->seed;
    TRY(run_config_check_data(host, config));
    TRY(config->task->load(host, config->task_options, &config->facts, config->data, SPLIT_TRAIN, seed,
                           &s->train));
    TRY(evaluate_fit(host, s->model, &s->train));
    TRY(train_options_settle(host, &config->training, s->train.count));
    TRY(rank_grid_open(host, setup->comm, options->sequence_parallel, &s->grid));
    TRY(train_options_settle_shards(host, &config->training, setup->comm));
    TRY(check_warmup(host, options));
    TRY(batches_new(host, &s->train, (size_t)options->batch, seed, &s->batches));
    TRY(make_blocks(s));
    TRY(make_shards(s));
    return reserve(s);
}

/* ---- a step ---- */

static hashattn_status fail_not_finite(const struct stepper *s, const char *what, double value, int64_t step)
{
    return host_fail(
        s->host, HASHATTN_FAILED,
        "%s is %s in step %lld of %lld: try a lower `learning_rate` (the last saved state is kept)", what,
        isnan(value) ? "nan" : "infinite", (long long)step + 1, (long long)s->options->steps);
}

/* If one of the ranks that share sequences fails, all fail before any waits in a pass. */
static hashattn_status agree_on_rows(struct stepper *s, hashattn_status status)
{
    return comm_agree(s->host, &s->grid.row, status == HASHATTN_OK ? s->grid.ranks.status : status);
}

/* ---- the sum over shards and ranks ---- */

/* Adds elements [first, first + n) of the gradient of a shard, the next array of the stack, in the tree. */
static void join_shard(const struct stepper *s, struct tree_stack *stack, size_t shard, size_t first,
                       size_t n)
{
    struct pool *pool = s->setup->pool;
    tree_round(pool, shard_gradients(s, stack->depth) + first, n, gradient_precision(s));
    tree_push(stack, (struct tree_node){shard, 1});
    while (tree_join(stack))
        tree_add(pool, shard_gradients(s, stack->depth - 1) + first, shard_gradients(s, stack->depth) + first,
                 n, gradient_precision(s));
}

static void open_stream(struct frame *frame)
{
    struct stepper *s = frame->stepper;
    struct tree_node unused[TREE_NODES];
    size_t shards = (size_t)s->options->shards;
    size_t count = tree_nodes(shards, s->first_shard, s->end_shard, unused);
    if (comm_size(&s->grid.data) == 1)
        return;
    for (size_t i = 0; i < count; i++)
        frame->nodes[i] = shard_gradients(s, i);
    frame->sum = (struct comm_sum){.comm = &s->grid.data,
                                   .pool = s->setup->pool,
                                   .leaves = shards,
                                   .precision = gradient_precision(s),
                                   .nodes = frame->nodes,
                                   .sum = s->gradients};
    sum_stream_open(s->host, &frame->sum, s->params->total, s->sum_scratch, &frame->stream);
}

/* The gradient of this rank's last shard is known from an element on: sends the ranges that begin there. */
static void send_known(void *argument, size_t from)
{
    struct frame *frame = argument;
    const struct stepper *s = frame->stepper;
    size_t first, n;
    while (sum_stream_next(&frame->stream, &first, &n) && first >= from) {
        struct tree_stack stack = frame->stack;
        join_shard(s, &stack, s->end_shard - 1, first, n);
        profile_lap(s->setup->profile, PROFILE_SUMS);
        sum_stream_begin(&frame->stream);
        profile_lap(s->setup->profile, PROFILE_RANKS);
    }
}

static void move_messages(void *argument)
{
    struct frame *frame = argument;
    sum_stream_poll(&frame->stream);
}

/* ---- the shards of a rank ---- */

/* If one rank fails, all fail before they wait for gradients. Once in a step. */
static hashattn_status agree_on_sums(struct stepper *s, struct frame *frame, hashattn_status status)
{
    frame->agreeing = true;
    frame->agreed = comm_agree(s->host, s->setup->comm, status);
    return frame->agreed;
}

/* A shard of micro-batch number `part` of the step: its part of the loss, and of the gradient, which it
   adds. last: of this rank, so that the sum over ranks begins in its backward pass. */
static hashattn_status run_part(struct stepper *s, struct frame *frame, size_t shard, int64_t part, bool last,
                                float *gradients)
{
    struct shard_outcome *outcome = outcome_of(s, comm_rank(&s->grid.row), shard);
    size_t first, number = examples_of(s, shard, &first);
    uint64_t step = (uint64_t)(frame->step * s->options->accumulate + part);
    const struct backward_listener listener = {send_known, move_messages, frame};
    if (number == 0)
        return HASHATTN_OK;
    struct model_batch batch = batch_of(s, pack(s, step, first, number), frame);
    struct model_pass *pass;
    TRY(agree_on_rows(
        s, model_space_open(s->host, &s->session.space, s->model, &batch, s->session.values, &pass)));
    profile_lap(batch.profile, PROFILE_DATA);
    double loss = model_forward(pass);
    TRY(agree_on_rows(s, isfinite(loss) ? HASHATTN_OK : fail_not_finite(s, "the loss", loss, frame->step)));
    bool sends = last && comm_size(&s->grid.data) > 1;
    if (sends) {
        TRY(agree_on_sums(s, frame, HASHATTN_OK));
        profile_lap(batch.profile, PROFILE_RANKS);
    }
    model_backward(pass, gradients, sends ? &listener : NULL);
    model_count(pass, outcome->sums);
    outcome->saved_bytes = size_max(outcome->saved_bytes, model_saved_bytes(s->session.space.made));
    outcome->tokens += model_batch_rows(&batch);
    outcome->loss += loss;
    profile_lap(batch.profile, PROFILE_HEAD);
    return s->grid.ranks.status;
}

/* All micro-batches of this rank's shards. Leaves the gradients of tree_nodes of the shards in the arrays,
   but the last shard is added only where it has been sent. */
static hashattn_status run_shards(struct stepper *s, struct frame *frame)
{
    size_t total = s->params->total;
    frame->stack.leaves = (size_t)s->options->shards;
    for (size_t shard = s->first_shard; shard < s->end_shard; shard++) {
        bool last = shard + 1 == s->end_shard;
        float *gradients = shard_gradients(s, frame->stack.depth);
        if (total > 0)
            memset(gradients, 0, total * sizeof *gradients);
        *outcome_of(s, comm_rank(&s->grid.row), shard) = (struct shard_outcome){0};
        profile_lap(s->setup->profile, PROFILE_SUMS);
        for (int64_t part = 0; part < s->options->accumulate; part++)
            TRY(run_part(s, frame, shard, part, last && part + 1 == s->options->accumulate, gradients));
        if (!last)
            join_shard(s, &frame->stack, shard, 0, total);
        profile_lap(s->setup->profile, PROFILE_SUMS);
    }
    return HASHATTN_OK;
}

/* Adds the results of the shards of all ranks, in order. */
static void add_outcomes(const struct stepper *s, double *sums, struct step_outcome *outcome)
{
    size_t num_sums = model_num_sums(s->model), row = row_ranks_count(&s->grid.ranks);
    for (size_t i = 0; i < row * (size_t)s->options->shards; i++) {
        const struct shard_outcome *of = &s->outcomes[i];
        outcome->loss += of->loss;
        outcome->tokens += of->tokens;
        outcome->saved_bytes = size_max(outcome->saved_bytes, of->saved_bytes);
        for (size_t k = 0; k < num_sums; k++)
            sums[k] += of->sums[k];
    }
}

/* What the passes have left to do of the sum of the gradients of all shards. */
static hashattn_status add_gradients(struct stepper *s, struct frame *frame)
{
    size_t total = s->params->total;
    if (comm_size(&s->grid.data) == 1) {
        join_shard(s, &frame->stack, s->end_shard - 1, 0, total);
        profile_lap(s->setup->profile, PROFILE_SUMS);
    } else {
        send_known(frame, 0);
        TRY(sum_stream_end(&frame->stream));
    }
    if (comm_size(&s->grid.row) == 1)
        return HASHATTN_OK;
    row_ranks_sum(&s->grid.ranks, s->setup->pool, s->gradients, total, s->sum_scratch);
    return comm_agree(s->host, s->setup->comm, s->grid.ranks.status);
}

/* Gradients and outcomes of all shards. After all ranks have agreed, they send everything, even if a rank of
   their row has failed since. */
static hashattn_status reduce(struct stepper *s, struct frame *frame, hashattn_status status)
{
    struct comm *data = &s->grid.data, *row = &s->grid.row;
    size_t bytes = (size_t)s->options->shards * sizeof *s->outcomes;
    TRY(frame->agreeing ? frame->agreed : agree_on_sums(s, frame, status));
    TRY(add_gradients(s, frame));
    TRY(comm_gather(s->host, data, outcome_of(s, comm_rank(row), 0), bytes, sizeof *s->outcomes));
    TRY(comm_gather(s->host, row, s->outcomes, (size_t)comm_size(row) * bytes, bytes));
    if (comm_size(s->setup->comm) > 1)
        profile_lap(s->setup->profile, PROFILE_RANKS);
    return HASHATTN_OK;
}

void stepper_pack(struct stepper *s)
{
    const struct train_setup *setup = s->setup;
    bool packed = s->session.values != NULL;
    if (packed)
        params_repack(s->params, setup->kernels, setup->pool, s->trained, s->optim.num_ranges, s->values);
    else
        s->session.values = params_pack(s->params, setup->kernels, setup->pool, s->values, true, s->blocks);
}

hashattn_status stepper_run(struct stepper *s, int64_t step, double *sums, struct step_outcome *outcome)
{
    const struct train_options *options = s->options;
    double counted[MODEL_SUMS]; /* sums of this step, dropped if it fails */
    size_t num_sums = model_num_sums(s->model);
    memcpy(counted, sums, num_sums * sizeof *sums);
    *outcome = (struct step_outcome){0};
    profile_begin(s->setup->profile);
    uint64_t accumulate = (uint64_t)options->accumulate;
    struct frame frame = {.stepper = s, .step = step};
    stepper_pack(s);
    profile_lap(s->setup->profile, PROFILE_LAYING);
    batches_counts(&s->batches, (uint64_t)step * accumulate, accumulate, frame.counts);
    open_stream(&frame);
    TRY(reduce(s, &frame, run_shards(s, &frame)));
    add_outcomes(s, counted, outcome);
    outcome->norm = optim_norm(&s->optim, s->gradients);
    if (!isfinite(outcome->norm))
        return fail_not_finite(s, "the norm of the gradient", outcome->norm, step);
    const struct schedule schedule = {.kind = (enum schedule_kind)options->schedule,
                                      .steps = options->steps,
                                      .warmup = options->warmup,
                                      .peak = options->learning_rate,
                                      .beta1 = options->beta1,
                                      .cycle_beta1 = options->cycle_momentum != 0,
                                      .batch = options->batch * options->accumulate,
                                      .epoch = (int64_t)s->train.count};
    struct schedule_point point = schedule_at(&schedule, step);
    optim_step(&s->optim, s->values, s->gradients, outcome->norm, step + 1, point.rate, point.beta1);
    outcome->rate = point.rate;
    memcpy(sums, counted, num_sums * sizeof *sums);
    profile_lap(s->setup->profile, PROFILE_OPTIMISER);
    return HASHATTN_OK;
}
