/* The driver of all mechanisms. It lays out a call's two memory blocks, cuts it into units of work
   (sequence, head), and runs them on the pool, most expensive first, so that the last unit to end is small.
   A unit that would otherwise finish last uses all threads before the remaining units start.
   A unit computes the same bits in any batch and with any number of threads: its saved memory has its own
   place, its random numbers their own key, its gradient of learned parameters its own slice, and slices are
   added in the order of the sequences. Cost beyond the mechanism: a pass over the mask, a sort of the
   sequences.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/driver/attention.h"

#include <assert.h>
#include <string.h>

#include "attention/driver/call_shape.h"
#include "attention/driver/kept.h"
#include "attention/driver/row_range.h"
#include "attention/driver/work_order.h"
#include "base/memory.h"
#include "base/random.h"
#include "parts/rows/elements.h"

/* ---- the plan ------------------------------------------------------------------------------------------ */

/* The contents of the caller's two blocks. One function makes it; with NULL for both blocks it only
   measures. */
struct plan {
    /* saved */
    void *shared;         /* result of `prepare` */
    unsigned char *saved; /* the whole block, for start[] */
    /* scratch */
    size_t *order;          /* (sequences) most expensive first */
    size_t *start;          /* (sequences + 1) start of the saved memory of a sequence's heads */
    double *losses;         /* (sequences, heads) */
    float *slices;          /* (sequences, heads, parameters) */
    unsigned char *workers; /* (threads, worker_bytes), or one spread unit */
    size_t worker_bytes;
    size_t num_spread; /* the first units of the order, each on all threads */
    size_t saved_bytes, scratch_bytes;
};

static size_t padded(size_t bytes)
{
    struct arena arena = arena_on(NULL);
    arena_take(&arena, bytes, 1);
    return arena.used;
}

/* The scratch of one unit, on shape->workers threads: copies of rows that cannot be read in place, because
   they are bfloat16 or between masked rows; then the mechanism's own. */
struct worker_memory {
    size_t *visible;
    float *query, *key, *value, *out, *dout, *dquery, *dkey, *dvalue; /* NULL: the caller's rows are used */
    void *mechanism;
    size_t bytes;
};

static struct worker_memory worker_memory(const struct attention_call *call,
                                          const struct problem_shape *shape, void *block)
{
    struct worker_memory memory = {0};
    struct arena arena = arena_on(block);
    if (call->causal)
        memory.visible = arena_take(&arena, shape->num_queries, sizeof *memory.visible);
    bool half = call->dtype == DTYPE_BFLOAT16;
    size_t queries = size_product(shape->num_queries, shape->head_dim);
    size_t outputs = size_product(shape->num_queries, shape->value_dim);
    size_t keys = size_product(shape->num_keys, shape->head_dim);
    size_t values = size_product(shape->num_keys, shape->value_dim);
    if (half || call_masks_queries(call, shape)) {
        memory.query = arena_take(&arena, queries, sizeof(float));
        memory.out = arena_take(&arena, outputs, sizeof(float));
        memory.dout = arena_take(&arena, outputs, sizeof(float));
        memory.dquery = arena_take(&arena, queries, sizeof(float));
    }
    if (half || (call->key_mask != NULL && !call->mechanism->sees_mask)) {
        memory.key = arena_take(&arena, keys, sizeof(float));
        memory.value = arena_take(&arena, values, sizeof(float));
        memory.dkey = arena_take(&arena, keys, sizeof(float));
        memory.dvalue = arena_take(&arena, values, sizeof(float));
    }
    memory.mechanism = arena_take(&arena, call_scratch_size(call, shape), 1);
    memory.bytes = arena.used;
    return memory;
}

static struct plan plan_of(const struct attention_call *call, void *saved, void *scratch)
{
    const struct mechanism *mechanism = call->mechanism;
    struct plan plan = {.saved = saved};
    if (!call_has_rows(call))
        return plan;
    struct arena keep = arena_on(saved), work = arena_on(scratch);
    const struct preparation_facet *preparation = mechanism->preparation;
    if (preparation != NULL)
        plan.shared = arena_take(&keep, preparation->shared_size(call->options, call->head_dim), 1);
    size_t units = size_product(call->num_sequences, call->num_heads), spread_bytes = 0;
    plan.num_spread = work_order_spread(call);
    plan.order = arena_take(&work, call->num_sequences, sizeof *plan.order);
    plan.start = arena_take(&work, size_sum(call->num_sequences, 1), sizeof *plan.start);
    if (mechanism->own_loss != NULL)
        plan.losses = arena_take(&work, units, sizeof *plan.losses);
    plan.slices = arena_take(&work, size_product(units, call_param_count(call)), sizeof *plan.slices);
    for (size_t s = 0; s < call->num_sequences; s++) {
        struct problem_shape shape = call_shape(call, s);
        if (plan.start != NULL)
            plan.start[s] = keep.used;
        arena_take(&keep, call->num_heads, padded(call_saved_size(call, &shape)));
        size_t bytes = worker_memory(call, &shape, NULL).bytes;
        if (bytes > plan.worker_bytes)
            plan.worker_bytes = bytes;
        shape.workers = (size_t)pool_threads(call->pool);
        bytes = plan.num_spread == 0 ? 0 : worker_memory(call, &shape, NULL).bytes;
        if (bytes > spread_bytes)
            spread_bytes = bytes;
    }
    if (plan.start != NULL)
        plan.start[call->num_sequences] = keep.used;
    size_t threads = (size_t)pool_threads(call->pool);
    size_t worker_area = plan.num_spread == units ? 0 : size_product(threads, plan.worker_bytes);
    if (spread_bytes > worker_area)
        worker_area = spread_bytes;
    if (preparation != NULL) { /* not needed after the first unit starts */
        size_t bytes = preparation->scratch_size(call->options, call->head_dim, threads);
        worker_area = bytes > worker_area ? bytes : worker_area;
    }
    plan.workers = arena_take(&work, worker_area, 1);
    plan.saved_bytes = keep.used;
    plan.scratch_bytes = work.used;
    return plan;
}

size_t attention_saved_size(const struct attention_call *call)
{
    return plan_of(call, NULL, NULL).saved_bytes;
}

size_t attention_scratch_size(const struct attention_call *call)
{
    return plan_of(call, NULL, NULL).scratch_bytes;
}

/* ---- units of work ------------------------------------------------------------------------------------- */

enum pass { FORWARD, BACKWARD, AUXILIARY, INSPECTION };

struct run {
    const struct attention_call *call;
    struct plan plan;
    enum pass pass;
    size_t param_count;
    struct packed out, dout, dquery, dkey, dvalue;
    void (*unit)(const struct run *run, size_t index, int worker);
    float *dparams; /* NULL: not wanted */
    struct inspection *inspections;
};

struct unit {
    size_t sequence, head;
    bool empty; /* no query meets a key: the output is 0 and nothing has a gradient */
    struct problem problem;
    struct view out, dout;
    struct problem_gradients gradients;
    /* The caller's rows that copied rows are written back to; `data` NULL: the mechanism wrote in place. */
    struct view own_out, own_dquery, own_dkey, own_dvalue;
    const uint8_t *gathered;         /* mask of the keys that were gathered; NULL: all */
    const uint8_t *gathered_queries; /* the same for queries, outputs and their gradients */
};

/* A sequence with a global index has it in its key. Without (in evaluation), all sequences use the same
   key. */
static uint64_t unit_key(const struct attention_call *call, size_t sequence, size_t head)
{
    uint64_t key = call->call_key;
    if (call->sample_ids != NULL)
        key = random_key(key, RANDOM_SAMPLE, call->sample_ids[sequence]);
    return random_key(key, RANDOM_HEAD, call->first_head + head);
}

static struct weight_dropout dropout_of_unit(const struct attention_call *call, size_t sequence, size_t head)
{
    struct weight_dropout dropout = {.threshold = call->drop_threshold, .scale = call->drop_scale};
    if (call->drop_threshold > 0)
        dropout.key = random_key(unit_key(call, sequence, head), RANDOM_DROPOUT, 0);
    return dropout;
}

/* One side of a problem, queries or keys, as its mechanism sees it. */
struct side {
    const struct attention_call *call;
    const size_t *offsets;
    size_t sequence, head;
    const uint8_t *mask; /* mask of the rows that are gathered; NULL: all */
    struct kept kept;
    bool moves; /* rows are gathered or widened */
};

static struct view see(const struct side *side, const struct packed *rows, float *block)
{
    struct view stored = call_head(side->call, rows, side->offsets, side->sequence, side->head);
    if (side->moves)
        return kept_gather(side->call->kernels, stored, side->mask, side->kept, block);
    stored.rows = side->kept.count;
    return stored;
}

/* The same for rows that are added to: *own is set to the rows they are written back to. */
static struct view see_written(const struct side *side, const struct packed *rows, float *block,
                               struct view *own)
{
    if (side->moves)
        *own = call_head(side->call, rows, side->offsets, side->sequence, side->head);
    return see(side, rows, block);
}

/* The views of a unit that is not empty. mask: of the keys hidden from its mechanism, and of the queries too
   if masks_queries. */
static void see_rows(const struct run *run, struct unit *unit, const uint8_t *mask, struct kept kept,
                     const struct worker_memory *memory)
{
    const struct attention_call *call = run->call;
    struct problem *problem = &unit->problem;
    struct problem_gradients *gradients = &unit->gradients;
    bool (*reads_bf16)(const void *) = call->mechanism->reads_bf16;
    bool reads = run->pass == FORWARD && reads_bf16 != NULL && reads_bf16(call->options);
    bool half = call->dtype == DTYPE_BFLOAT16 && !reads; /* to be widened */
    struct side queries = {.call = call,
                           .offsets = call->query_offsets,
                           .sequence = unit->sequence,
                           .head = unit->head,
                           .mask = unit->gathered_queries,
                           .kept = kept_count(unit->gathered_queries, problem->shape.num_queries)};
    queries.moves = half || !queries.kept.prefix;
    struct side keys = queries;
    keys.offsets = call->key_offsets;
    keys.mask = mask;
    keys.kept = kept;
    keys.moves = half || !kept.prefix;
    problem->shape.num_keys = kept.count;
    problem->shape.num_queries = queries.kept.count;
    problem->query = see(&queries, &call->query, memory->query);
    problem->key = see(&keys, &call->key, memory->key);
    problem->value = see(&keys, &call->value, memory->value);
    unit->gathered = mask;
    if (run->pass == FORWARD && queries.moves) { /* written whole, not read */
        unit->own_out = call_head(call, &run->out, call->query_offsets, unit->sequence, unit->head);
        unit->out = view_of(memory->out, queries.kept.count, run->out.width);
    } else if (run->pass == FORWARD || run->pass == BACKWARD) {
        unit->out = see(&queries, &run->out, memory->out);
    }
    if (run->pass != BACKWARD)
        return;
    unit->dout = see(&queries, &run->dout, memory->dout);
    gradients->query = see_written(&queries, &run->dquery, memory->dquery, &unit->own_dquery);
    gradients->key = see_written(&keys, &run->dkey, memory->dkey, &unit->own_dkey);
    gradients->value = see_written(&keys, &run->dvalue, memory->dvalue, &unit->own_dvalue);
}

static struct unit open_unit(const struct run *run, size_t index, int worker)
{
    const struct attention_call *call = run->call;
    size_t sequence = run->plan.order[index / call->num_heads], head = index % call->num_heads;
    const size_t *start = run->plan.start + sequence;
    struct problem_shape shape = call_shape(call, sequence);
    bool spread = index < run->plan.num_spread;
    if (spread)
        shape.workers = (size_t)pool_threads(call->pool);
    struct worker_memory memory = worker_memory(
        call, &shape,
        run->plan.workers == NULL ? NULL : run->plan.workers + (size_t)worker * run->plan.worker_bytes);
    struct unit unit = {.sequence = sequence, .head = head};
    unit.problem = (struct problem){
        .kernels = call->kernels,
        .shape = shape,
        .options = call->options,
        .random_key = unit_key(call, sequence, head),
        .shared = run->plan.shared,
        .params = run->param_count == 0 ? NULL : call->params + head * run->param_count,
        .saved = start[1] == start[0]
                     ? NULL
                     : run->plan.saved + start[0] + head * ((start[1] - start[0]) / call->num_heads),
        .scratch = memory.mechanism,
        .pool = spread ? call->pool : NULL,
        .out_of_range = call->out_of_range,
        .large = call->large,
        .dropout = dropout_of_unit(call, sequence, head),
        .ranks = call->ranks,
    };
    if (run->dparams != NULL) {
        unit.gradients.params = run->plan.slices + (sequence * call->num_heads + head) * run->param_count;
        memset(unit.gradients.params, 0, run->param_count * sizeof(float));
    }
    const uint8_t *mask = call_mask(call, sequence);
    struct kept kept = kept_count(mask, shape.num_keys);
    unit.empty = shape.num_queries == 0 || kept.count == 0;
    if (call->mechanism->sees_mask) {
        unit.problem.key_mask = mask;
        mask = NULL;
        kept = kept_count(NULL, shape.num_keys);
    }
    if (call_masks_queries(call, &shape))
        unit.gathered_queries = mask;
    if (call->causal) {
        bool same = unit.gathered_queries != NULL;
        kept_visible(same ? NULL : mask, same ? kept.count : shape.num_queries, memory.visible);
        unit.problem.visible = memory.visible;
    }
    if (!unit.empty)
        see_rows(run, &unit, mask, kept, &memory);
    return unit;
}

/* Writes copied rows back. */
static void put_back(const struct run *run, struct view rows, const uint8_t *mask, struct view own)
{
    if (own.data != NULL)
        kept_put_back(run->call->kernels, rows, mask, own);
}

static void write_zeros(struct view rows)
{
    size_t bytes = element_bytes(rows.dtype);
    for (size_t i = 0; i < rows.rows; i++)
        memset((unsigned char *)rows.data + i * rows.stride * bytes, 0, rows.cols * bytes);
}

/* False, and *out_of_range is set, if the unit has a number out of range that its mechanism does not find. */
static bool check_unit(const struct attention_call *call, struct unit *unit)
{
    if (call->out_of_range == NULL || (call->mechanism->checks_rows && !unit->empty))
        return true;
    struct row_range found = row_range_unit(call, unit->sequence, unit->head, unit->problem.pool);
    unit->problem.large |= found.large;
    if (!found.allowed)
        atomic_store_explicit(call->out_of_range, true, memory_order_relaxed);
    return found.allowed;
}

static void forward_unit(const struct run *run, size_t index, int worker)
{
    const struct attention_call *call = run->call;
    struct unit unit = open_unit(run, index, worker);
    if (unit.empty || unit.gathered_queries != NULL)
        write_zeros(call_head(call, &run->out, call->query_offsets, unit.sequence, unit.head));
    if (!check_unit(call, &unit) || unit.empty)
        return;
    const struct sequence_parallel_facet *across = call_across(call);
    (across != NULL ? across->forward : call->mechanism->forward)(&unit.problem, unit.out);
    put_back(run, unit.out, unit.gathered_queries, unit.own_out);
}

static void backward_unit(const struct run *run, size_t index, int worker)
{
    struct unit unit = open_unit(run, index, worker);
    if (unit.empty)
        return;
    const struct sequence_parallel_facet *across = call_across(run->call);
    (across != NULL ? across->backward : run->call->mechanism->backward)(&unit.problem, unit.out, unit.dout,
                                                                         &unit.gradients);
    put_back(run, unit.gradients.query, unit.gathered_queries, unit.own_dquery);
    put_back(run, unit.gradients.key, unit.gathered, unit.own_dkey);
    put_back(run, unit.gradients.value, unit.gathered, unit.own_dvalue);
}

static void auxiliary_unit(const struct run *run, size_t index, int worker)
{
    struct unit unit = open_unit(run, index, worker);
    run->plan.losses[unit.sequence * run->call->num_heads + unit.head] =
        unit.empty ? 0 : run->call->mechanism->own_loss->compute(&unit.problem, &unit.gradients);
}

static void inspect_unit(const struct run *run, size_t index, int worker)
{
    struct unit unit = open_unit(run, index, worker);
    struct inspection *inspection = &run->inspections[unit.sequence * run->call->num_heads + unit.head];
    const struct inspection_facet *facet = run->call->mechanism->inspection;
    if (unit.empty)
        inspection_clear(inspection, facet->num_groups(run->call->options));
    else
        facet->inspect(&unit.problem, inspection);
}

/* dparams of one head += the slices of its sequences, in their order. */
static void add_slices(void *argument, size_t head, int worker)
{
    (void)worker;
    const struct run *run = argument;
    const struct attention_call *call = run->call;
    for (size_t s = 0; s < call->num_sequences; s++)
        call->kernels->rows.axpy(run->dparams + head * run->param_count, 1,
                                 run->plan.slices + (s * call->num_heads + head) * run->param_count,
                                 run->param_count);
}

/* A unit on one thread. */
static void run_unit(void *argument, size_t index, int worker)
{
    const struct run *run = argument;
    run->unit(run, run->plan.num_spread + index, worker);
}

static void run_units(struct run *run, void (*unit)(const struct run *, size_t, int))
{
    const struct attention_call *call = run->call;
    run->unit = unit;
    work_order_sort(call, run->plan.order);
    for (size_t index = 0; index < run->plan.num_spread; index++)
        unit(run, index, 0);
    pool_run(call->pool, run_unit, run, call->num_sequences * call->num_heads - run->plan.num_spread);
    if (run->dparams != NULL)
        pool_run(call->pool, add_slices, run, call->num_heads);
}

void attention_forward(const struct attention_call *call, struct packed out, void *saved, void *scratch)
{
    struct run run = {.call = call,
                      .plan = plan_of(call, saved, scratch),
                      .pass = FORWARD,
                      .param_count = call_param_count(call),
                      .out = out};
    assert(out.width == call->value_dim);
    if (!call_has_rows(call))
        return;
    const struct preparation preparation = {.kernels = call->kernels,
                                            .options = call->options,
                                            .head_dim = call->head_dim,
                                            .call_key = call->call_key,
                                            .pool = call->pool,
                                            .shared = run.plan.shared,
                                            .scratch = run.plan.workers};
    if (call->mechanism->preparation != NULL)
        call->mechanism->preparation->prepare(&preparation);
    run_units(&run, forward_unit);
}

void attention_backward(const struct attention_call *call, struct packed out, struct packed dout,
                        struct packed dquery, struct packed dkey, struct packed dvalue, float *dparams,
                        void *saved, void *scratch)
{
    struct run run = {.call = call,
                      .plan = plan_of(call, saved, scratch),
                      .pass = BACKWARD,
                      .param_count = call_param_count(call),
                      .out = out,
                      .dout = dout,
                      .dquery = dquery,
                      .dkey = dkey,
                      .dvalue = dvalue};
    assert(dout.width == call->value_dim && dvalue.width == call->value_dim);
    assert(dquery.width == call->head_dim && dkey.width == call->head_dim);
    if (!call_has_rows(call))
        return;
    run.dparams = run.param_count == 0 ? NULL : dparams;
    run_units(&run, backward_unit);
}

double attention_auxiliary(const struct attention_call *call, float *dparams, void *saved, void *scratch)
{
    if (call->mechanism->own_loss == NULL || !call_has_rows(call))
        return 0;
    struct run run = {.call = call,
                      .plan = plan_of(call, saved, scratch),
                      .pass = AUXILIARY,
                      .param_count = call_param_count(call)};
    run.dparams = run.param_count == 0 ? NULL : dparams;
    run_units(&run, auxiliary_unit);
    double loss = 0;
    for (size_t i = 0; i < call->num_sequences * call->num_heads; i++)
        loss += run.plan.losses[i];
    return loss;
}

void attention_inspect(const struct attention_call *call, struct inspection *inspections, void *saved,
                       void *scratch)
{
    struct run run = {.call = call,
                      .plan = plan_of(call, saved, scratch),
                      .pass = INSPECTION,
                      .param_count = call_param_count(call),
                      .inspections = inspections};
    assert(call->inspects && call->mechanism->inspection != NULL);
    run_units(&run, inspect_unit);
}
