/* Metrics on a data set. Examples are processed in order, packed without padding, `batch` at a time. Ranks
   share the batches; sums are added batch by batch in order, so the metrics do not depend on the ranks. Every
   sequence hashes with a key derived from (seed, layer) only, so a result does not depend on the other
   examples of its batch.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/evaluate.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "comm/row_ranks.h"
#include "train/packing.h"

/* ---- checking ----------------------------------------------------------------------------------------- */

/* Checks the target sets against their objectives. */
static hashattn_status check_targets(struct host *host, const struct model_config *config,
                                     const struct dataset *dataset)
{
    FAIL_IF(dataset->num_targets != config->num_objectives, host, HASHATTN_BAD_FILE,
            "the data have %zu kinds of targets, the model has %zu objectives", dataset->num_targets,
            config->num_objectives);
    for (size_t k = 0; k < dataset->num_targets; k++) {
        const struct target_set *set = &dataset->targets[k];
        const struct objective *objective = config->objectives[k].objective;
        FAIL_IF(set->kind == TARGETS_MASKED && dataset->masks.num_ids > (size_t)config->vocab_size, host,
                HASHATTN_BAD_FILE, "masking draws ids below %zu, the model takes 0 to %lld",
                dataset->masks.num_ids, (long long)config->vocab_size - 1);
        bool per_row = objective->place == TARGET_ROW, floats = objective->type == TARGET_FLOATS;
        FAIL_IF(per_row != (set->kind != TARGETS_EXAMPLE) || floats != (set->width > 0), host,
                HASHATTN_BAD_FILE, "the targets are %s per %s, the model's %s predicts %s per %s",
                set->width > 0 ? "floats" : "an id", set->kind == TARGETS_EXAMPLE ? "example" : "row",
                objective->name, floats ? "floats" : "an id", per_row ? "row" : "example");
        FAIL_IF(floats && set->width != (size_t)config->objectives[k].num_outputs, host, HASHATTN_BAD_FILE,
                "a target of %s has %zu floats, the model predicts %lld", objective->name, set->width,
                (long long)config->objectives[k].num_outputs);
    }
    return HASHATTN_OK;
}

/* Checks targets [first, first + count) of objective k, which are ids. */
static hashattn_status check_ids(struct host *host, const struct model_config *config,
                                 const struct dataset *dataset, size_t k, size_t example, size_t first,
                                 size_t count)
{
    const struct target_set *set = &dataset->targets[k];
    const struct model_objective *entry = &config->objectives[k];
    uint32_t least = (uint32_t)entry->first_output;
    for (size_t i = first; i < first + count; i++)
        FAIL_IF((set->weights == NULL || set->weights[i] != 0) &&
                    (set->ids[i] < least || set->ids[i] - least >= entry->num_outputs),
                host, HASHATTN_BAD_FILE, "example %zu has label number %u, %s has %lld labels from %u on",
                example, (unsigned)set->ids[i], entry->objective->name, (long long)entry->num_outputs,
                (unsigned)least);
    return HASHATTN_OK;
}

static hashattn_status check_sequence(struct host *host, const struct model_config *config,
                                      const struct dataset *dataset, size_t s, size_t example)
{
    size_t length = dataset_length(dataset, s), first = dataset->offsets[s], end = dataset->offsets[s + 1];
    FAIL_IF(length < 1 || length > (size_t)config->max_len, host, HASHATTN_BAD_FILE,
            "example %zu has %zu tokens, the model takes 1 to %lld", example, length,
            (long long)config->max_len);
    if (dataset->map.bytes != NULL) /* its reader has checked the rest */
        return HASHATTN_OK;
    for (size_t at = first; dataset->ids != NULL && at < end; at++)
        FAIL_IF(dataset->ids[at] >= config->vocab_size, host, HASHATTN_BAD_FILE,
                "example %zu has token id %u, the model takes 0 to %lld", example, (unsigned)dataset->ids[at],
                (long long)config->vocab_size - 1);
    for (size_t at = first; dataset->segmented && at < end; at++)
        FAIL_IF(dataset->segments[at] >= config->num_segments, host, HASHATTN_BAD_FILE,
                "example %zu has segment id %u, the model takes 0 to %lld", example,
                (unsigned)dataset->segments[at], (long long)config->num_segments - 1);
    for (size_t k = 0; k < dataset->num_targets; k++) {
        const struct target_set *set = &dataset->targets[k];
        if (set->width == 0 && set->kind == TARGETS_ROW)
            TRY(check_ids(host, config, dataset, k, example, first, length));
        for (size_t at = first + 1; set->kind == TARGETS_NEXT && at < end; at++)
            FAIL_IF(dataset->ids[at] < config->objectives[k].first_output, host, HASHATTN_BAD_FILE,
                    "example %zu has target id %u, %s predicts ids from %lld on", example,
                    (unsigned)dataset->ids[at], config->objectives[k].objective->name,
                    (long long)config->objectives[k].first_output);
    }
    return HASHATTN_OK;
}

hashattn_status evaluate_fit(struct host *host, struct model *model, const struct dataset *dataset)
{
    const struct model_config *config = model_config_of(model);
    size_t each = dataset->pairs ? 2 : 1, longest = 0;
    FAIL_IF(dataset->pairs != config->pairs, host, HASHATTN_BAD_FILE,
            "an example is %zu sequence%s, the model takes %d", each, each == 1 ? "" : "s",
            config->pairs ? 2 : 1);
    FAIL_IF(dataset->row_width != (size_t)config->row_width, host, HASHATTN_BAD_FILE,
            "a row of the data has %zu floats, the model takes %lld (0: rows are ids)", dataset->row_width,
            (long long)config->row_width);
    FAIL_IF(dataset->segmented && config->num_segments == 0, host, HASHATTN_BAD_FILE,
            "the data have segments, the model takes none");
    FAIL_IF(dataset->map.bytes != NULL && dataset->segmented && config->num_segments < 2, host,
            HASHATTN_BAD_FILE, "the data have segments 0 and 1, the model takes %lld",
            (long long)config->num_segments);
    TRY(check_targets(host, config, dataset));
    for (size_t s = 0; s < dataset_sequences(dataset); s++) {
        TRY(check_sequence(host, config, dataset, s, s / each));
        longest = size_max(longest, dataset_length(dataset, s));
    }
    for (size_t k = 0; k < dataset->num_targets; k++)
        for (size_t i = 0; dataset->targets[k].kind == TARGETS_EXAMPLE && dataset->targets[k].width == 0 &&
                           i < dataset->count;
             i++)
            TRY(check_ids(host, config, dataset, k, i, i, 1));
    return model_fit(host, model, longest);
}

/* ---- evaluating --------------------------------------------------------------------------------------- */

/* What one batch adds to the metrics. */
struct batch_outcome {
    double sums[MODEL_SUMS];
    uint64_t tokens;
};

/* One evaluation and what it allocates. Ranks share the batches. */
struct evaluating {
    struct host *host;
    const struct train_setup *setup;
    struct session *session;
    const struct model *model; /* of the session */
    const struct dataset *dataset;
    const uint32_t *examples; /* (count) that are evaluated; NULL: the first */
    size_t count, batch, num_batches;
    uint64_t seed;
    double start;
    struct packed_examples packed;
    void *counts;                /* model_baselines_size */
    float *kept;                 /* (count, model_outputs), for overall metrics; or NULL */
    float *outputs;              /* the caller's, or `kept` */
    double *sums;                /* (num_batches, MODEL_SUMS) the caller's; or NULL */
    struct batch_outcome *found; /* (ranks that share sequences, num_batches) */
    size_t confused;             /* classes, 0: no confusion */
    size_t labels;               /* that are counted; 0: none */
    size_t *tallies; /* (ranks, num_tallies) confusion (confused, confused) and counts of labels */
    struct rank_grid grid;
};

/* What batch `index` adds, on the rank of number `rank` among those that share sequences. */
static struct batch_outcome *found_of(const struct evaluating *e, int rank, size_t index)
{
    return e->found + (size_t)rank * e->num_batches + index;
}

static size_t num_tallies(const struct evaluating *e)
{
    return e->confused * e->confused + e->labels * LABEL_COUNTS;
}

static size_t *confusion_of(const struct evaluating *e, int rank)
{
    return e->tallies + (size_t)rank * num_tallies(e);
}

static size_t *label_counts_of(const struct evaluating *e, int rank)
{
    return confusion_of(e, rank) + e->confused * e->confused;
}

static void evaluating_free(struct evaluating *e)
{
    memory_free(e->host, e->tallies);
    memory_free(e->host, e->found);
    memory_free(e->host, e->kept);
    memory_free(e->host, e->counts);
    packed_examples_free(e->host, &e->packed);
}

static hashattn_status evaluating_new(struct evaluating *e)
{
    struct host *host = e->host;
    const struct model *model = e->model;
    bool keeps = model_num_overall(model) > 0 && e->outputs == NULL;
    void *block;
    TRY(packed_examples_new(host, e->dataset, e->batch, &e->packed));
    TRY(memory_new_zeroed(host, model_baselines_size(model), 1, "counts of targets", &e->counts));
    TRY(memory_new(host, keeps ? size_product(e->count, model_outputs(model)) : 0, sizeof(float),
                   "predictions", &block));
    e->kept = block;
    e->outputs = e->outputs == NULL ? e->kept : e->outputs;
    TRY(memory_new_zeroed(host, size_product(row_ranks_count(&e->grid.ranks), e->num_batches),
                          sizeof *e->found, "results of batches", &block));
    e->found = block;
    e->confused = model_confused(model);
    e->labels = model_labels(model);
    TRY(memory_new_zeroed(host, (size_t)comm_size(e->setup->comm) * num_tallies(e), sizeof *e->tallies,
                          "counts of labels", &block));
    e->tallies = block;
    return HASHATTN_OK;
}

/* Calls the callback between two batches, which may stop the evaluation. */
static hashattn_status ask(const struct evaluating *e, size_t done, const double *sums, size_t tokens)
{
    const struct train_setup *setup = e->setup;
    double values[MODEL_METRICS], seconds = clock_seconds() - e->start;
    model_metrics(e->model, sums, values);
    const struct train_event event = {.step = (int64_t)done,
                                      .steps = (int64_t)e->count,
                                      .model = e->model,
                                      .train = values,
                                      .tokens_per_second = seconds > 0 ? (double)tokens / seconds : 0,
                                      .seconds = seconds};
    FAIL_IF(setup->callback != NULL && setup->callback(setup->user, &event), e->host, HASHATTN_INTERRUPTED,
            "stopped after %zu of %zu examples", done, e->count);
    return HASHATTN_OK;
}

/* If one of the ranks that share sequences fails, all fail before any waits in a pass. */
static hashattn_status agree_on_rows(struct evaluating *e, hashattn_status status)
{
    return comm_agree(e->host, &e->grid.row, status == HASHATTN_OK ? e->grid.ranks.status : status);
}

/* Forward of the packed batch. */
static hashattn_status run_batch(struct evaluating *e, const struct model_batch *batch, size_t index)
{
    struct batch_outcome *found = found_of(e, comm_rank(&e->grid.row), index);
    struct model_pass *pass;
    TRY(agree_on_rows(
        e, model_space_open(e->host, &e->session->space, e->model, batch, e->session->values, &pass)));
    model_forward(pass);
    model_count(pass, found->sums);
    found->tokens = model_batch_rows(batch);
    if (e->confused > 0)
        model_confuse(pass, confusion_of(e, comm_rank(e->setup->comm)));
    if (e->labels > 0)
        model_count_labels(pass, label_counts_of(e, comm_rank(e->setup->comm)));
    if (e->outputs != NULL)
        model_predict(pass, e->outputs + index * e->batch * model_outputs(e->model));
    return HASHATTN_OK;
}

static void add_sums(double *sums, const double *more)
{
    for (size_t i = 0; i < MODEL_SUMS; i++)
        sums[i] += more[i];
}

static void pack_batch(struct evaluating *e, size_t from, size_t n)
{
    packing_begin(&e->packed);
    for (size_t i = from; i < from + n; i++) {
        size_t example = e->examples == NULL ? i : e->examples[i];
        packing_add(&e->packed, e->dataset, example, example);
    }
    packing_end(&e->packed);
}

/* This rank's span of the batches. Baselines count the targets of all: that takes only packing. */
static hashattn_status run_span(struct evaluating *e)
{
    double sums[MODEL_SUMS] = {0}; /* of this rank so far */
    size_t first, end, done = 0, tokens = 0;
    comm_span(&e->grid.data, e->num_batches, &first, &end);
    for (size_t index = 0; index < e->num_batches; index++) {
        size_t from = index * e->batch, n = size_min(e->count - from, e->batch);
        pack_batch(e, from, n);
        struct model_batch batch = packed_batch(&e->packed, e->setup->kernels, e->setup->pool, true);
        model_baseline_count(e->model, &batch, e->counts);
        if (index < first || index >= end)
            continue;
        packing_cut(&e->packed, &e->grid.ranks);
        batch = packed_batch(&e->packed, e->setup->kernels, e->setup->pool, true);
        batch.sample_ids = NULL; /* the same hashing for every sequence */
        batch.random_key = random_key(e->seed, RANDOM_EVALUATION, 0);
        TRY(run_batch(e, &batch, index));
        const struct batch_outcome *found = found_of(e, comm_rank(&e->grid.row), index);
        add_sums(sums, found->sums);
        done += n, tokens += found->tokens;
        TRY(agree_on_rows(e, ask(e, done, sums, tokens)));
    }
    return HASHATTN_OK;
}

/* The targets of the evaluated examples: `size` bytes each. *own: what was allocated. */
static hashattn_status take_targets(const struct evaluating *e, const void *all, size_t size, void **own,
                                    const void **taken)
{
    *taken = all;
    if (all == NULL || e->examples == NULL)
        return HASHATTN_OK;
    TRY(memory_new(e->host, e->count, size, "targets of an evaluation", own));
    for (size_t i = 0; i < e->count; i++)
        memcpy((char *)*own + i * size, (const char *)all + e->examples[i] * size, size);
    *taken = *own;
    return HASHATTN_OK;
}

/* The floats of the targets of the evaluated examples. */
static hashattn_status take_floats(const struct evaluating *e, const struct target_set *set, void **own,
                                   const void **taken)
{
    if (!set->sparse)
        return take_targets(e, set->floats, set->width * sizeof *set->floats, own, taken);
    TRY(memory_new(e->host, e->count, size_product(set->width, sizeof(float)), "targets of an evaluation",
                   own));
    for (size_t i = 0; i < e->count; i++)
        target_read(set, e->examples == NULL ? i : e->examples[i], (float *)*own + i * set->width);
    *taken = *own;
    return HASHATTN_OK;
}

static hashattn_status overall_metrics(struct evaluating *e, double *values)
{
    const struct dataset *dataset = e->dataset;
    struct targets targets[TASK_OBJECTIVES] = {{NULL, NULL, NULL}};
    void *own[3 * TASK_OBJECTIVES] = {NULL};
    hashattn_status status = HASHATTN_OK;
    if (model_num_overall(e->model) == 0)
        return HASHATTN_OK;
    for (size_t k = 0; k < dataset->num_targets && status == HASHATTN_OK; k++) {
        const struct target_set *set = &dataset->targets[k];
        const void *ids = NULL, *floats = NULL, *weights = NULL;
        if (set->kind != TARGETS_EXAMPLE)
            continue; /* overall metrics are of objectives of examples */
        TRY_DONE(take_targets(e, set->ids, sizeof *set->ids, &own[3 * k], &ids));
        TRY_DONE(take_floats(e, set, &own[3 * k + 1], &floats));
        TRY_DONE(take_targets(e, set->weights, sizeof *set->weights, &own[3 * k + 2], &weights));
        targets[k] = (struct targets){.ids = ids, .floats = floats, .weights = weights};
    }
    status = model_overall(e->host, e->model, targets, e->outputs, e->count, values);
done:
    for (size_t i = 0; i < 3 * TASK_OBJECTIVES; i++)
        memory_free(e->host, own[i]);
    return status;
}

/* Results and predictions of all ranks. */
static hashattn_status gather_spans(struct evaluating *e)
{
    struct comm *comm = e->setup->comm, *data = &e->grid.data, *across = &e->grid.row;
    size_t row = model_outputs(e->model) * sizeof *e->outputs, counts = num_tallies(e) * sizeof *e->tallies,
           bytes = e->num_batches * sizeof *e->found;
    TRY(comm_gather(e->host, data, found_of(e, comm_rank(across), 0), bytes, sizeof *e->found));
    TRY(comm_gather(e->host, across, e->found, (size_t)comm_size(across) * bytes, bytes));
    for (size_t i = e->num_batches; i < row_ranks_count(&e->grid.ranks) * e->num_batches; i++) {
        add_sums(e->found[i % e->num_batches].sums, e->found[i].sums);
        e->found[i % e->num_batches].tokens += e->found[i].tokens;
    }
    if (counts > 0)
        TRY(comm_gather(e->host, comm, e->tallies, (size_t)comm_size(comm) * counts, counts));
    if (e->outputs == NULL || row == 0)
        return HASHATTN_OK;
    return comm_gather(e->host, data, e->outputs, e->count * row, e->batch * row);
}

/* The metrics, from sums of batches in order. */
static hashattn_status conclude(struct evaluating *e, struct evaluation *result)
{
    double sums[MODEL_SUMS] = {0};
    size_t tokens = 0;
    TRY(gather_spans(e));
    for (size_t i = 0; i < e->num_batches; i++) {
        if (e->sums != NULL)
            memcpy(e->sums + i * MODEL_SUMS, e->found[i].sums, sizeof sums);
        add_sums(sums, e->found[i].sums);
        tokens += e->found[i].tokens;
    }
    double seconds = clock_seconds() - e->start;
    *result = (struct evaluation){.examples = e->count,
                                  .num_cut = e->dataset->num_cut,
                                  .tokens = tokens,
                                  .num_unknown = e->dataset->num_unknown,
                                  .seconds = seconds,
                                  .tokens_per_second = seconds > 0 ? (double)tokens / seconds : 0,
                                  .confused = e->confused,
                                  .labels = e->labels};
    for (int rank = 0; rank < comm_size(e->setup->comm); rank++) {
        for (size_t i = 0; i < e->confused * e->confused; i++)
            result->confusion[i] += confusion_of(e, rank)[i];
        for (size_t i = 0; i < e->labels * LABEL_COUNTS; i++)
            result->label_counts[i] += label_counts_of(e, rank)[i];
    }
    model_metrics(e->model, sums, result->metrics);
    TRY(comm_agree(e->host, e->setup->comm, overall_metrics(e, result->metrics)));
    model_baselines(e->model, e->counts, result->baselines);
    return HASHATTN_OK;
}

/* Fills the rest of *e, evaluates, and frees what it allocated. */
static hashattn_status run_all(struct evaluating *e, struct evaluation *result)
{
    e->model = e->session->model;
    e->batch = size_min(e->batch, e->count);
    e->num_batches = e->batch == 0 ? 0 : (e->count + e->batch - 1) / e->batch;
    e->start = clock_seconds();
    int64_t shared = e->setup->sequence_parallel;
    TRY(rank_grid_open(e->host, e->setup->comm, shared == 0 ? 1 : shared, &e->grid));
    hashattn_status status = agree_on_rows(e, evaluating_new(e));
    if (status == HASHATTN_OK)
        status = run_span(e);
    status = comm_agree(e->host, e->setup->comm, status);
    if (status == HASHATTN_OK)
        status = conclude(e, result);
    evaluating_free(e);
    return status;
}

hashattn_status evaluate_open(struct host *host, const struct train_setup *setup, struct model *model,
                              const float *values, struct session *session)
{
    bool open = session->model != NULL;
    hashattn_status status =
        comm_agree(host, setup->comm, open ? HASHATTN_OK : session_open(host, model, session));
    if (!open && status == HASHATTN_OK)
        session_pack(session, setup->kernels, setup->pool, values);
    else if (!open)
        session_close(host, session);
    return status;
}

hashattn_status evaluate_within(struct host *host, const struct train_setup *setup, struct session *session,
                                const struct dataset *dataset, const uint32_t *examples, size_t count,
                                size_t batch, uint64_t seed, float *outputs, struct evaluation *result)
{
    struct evaluating e = {.host = host,
                           .setup = setup,
                           .session = session,
                           .dataset = dataset,
                           .examples = examples,
                           .count = count,
                           .batch = batch,
                           .seed = seed,
                           .outputs = outputs};
    return run_all(&e, result);
}

hashattn_status evaluate(struct host *host, const struct train_setup *setup, struct session *session,
                         const struct dataset *dataset, size_t batch, uint64_t seed, float *outputs,
                         struct evaluation *result)
{
    TRY(comm_agree(host, setup->comm, evaluate_fit(host, session->model, dataset)));
    return evaluate_within(host, setup, session, dataset, NULL, dataset->count, batch, seed, outputs, result);
}

hashattn_status evaluate_examples(struct host *host, const struct train_setup *setup, struct session *session,
                                  const struct dataset *dataset, uint64_t seed, double *sums,
                                  struct evaluation *result)
{
    struct evaluating e = {.host = host,
                           .setup = setup,
                           .session = session,
                           .dataset = dataset,
                           .count = dataset->count,
                           .batch = 1,
                           .seed = seed,
                           .sums = sums};
    TRY(comm_agree(host, setup->comm, evaluate_fit(host, session->model, dataset)));
    return run_all(&e, result);
}
