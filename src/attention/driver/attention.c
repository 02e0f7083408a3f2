/* The driver of all mechanisms. It cuts a call into units of work (sequence, head), and runs them on the pool
   in the order of the plan, most expensive first, so that the last unit to end is small.
   A unit that would otherwise finish last uses all threads before the remaining units start.
   A unit computes the same bits in any batch and with any number of threads: its saved memory has its own
   place, its random numbers their own key, its gradient of learned parameters its own slice, and slices are
   added in the order of the sequences. Cost beyond the mechanism: a pass over the mask.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/driver/attention.h"

#include <assert.h>
#include <string.h>

#include "attention/driver/kept.h"
#include "attention/driver/row_range.h"
#include "base/random.h"
#include "parts/rows/elements.h"

/* ---- units of work ------------------------------------------------------------------------------------- */

enum pass { FORWARD, BACKWARD, AUXILIARY, INSPECTION };

struct run {
    const struct attention_call *call;
    const struct attention_plan *plan;
    const struct attention_shape *shape; /* of the plan */
    struct call_memory memory;
    enum pass pass;
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

static struct weight_dropout dropout_of_unit(const struct attention_call *call, size_t sequence, size_t head)
{
    struct weight_dropout dropout = {.threshold = call->drop_threshold, .scale = call->drop_scale};
    if (call->drop_threshold > 0)
        dropout.key = random_key(call_unit_key(call, sequence, head), RANDOM_DROPOUT, 0);
    return dropout;
}

/* One side of a problem, queries or keys, as its mechanism sees it. */
struct side {
    const struct attention_shape *shape;
    const size_t *offsets;
    size_t sequence, head;
    const uint8_t *mask; /* mask of the rows that are gathered; NULL: all */
    struct kept kept;
    bool moves; /* rows are gathered or widened */
};

static struct view see(const struct side *side, const struct packed *rows, float *block)
{
    struct view stored = call_head(side->shape, rows, side->offsets, side->sequence, side->head);
    if (side->moves)
        return kept_gather(side->shape->kernels, stored, side->mask, side->kept, block);
    stored.rows = side->kept.count;
    return stored;
}

/* The same for rows that are added to: *own is set to the rows they are written back to. */
static struct view see_written(const struct side *side, const struct packed *rows, float *block,
                               struct view *own)
{
    if (side->moves)
        *own = call_head(side->shape, rows, side->offsets, side->sequence, side->head);
    return see(side, rows, block);
}

/* The views of a unit that is not empty. mask: of the keys hidden from its mechanism, and of the queries too
   if masks_queries. */
static void see_rows(const struct run *run, struct unit *unit, const uint8_t *mask, struct kept kept,
                     const struct worker_memory *memory)
{
    const struct attention_call *call = run->call;
    const struct attention_shape *shape = run->shape;
    struct problem *problem = &unit->problem;
    struct problem_gradients *gradients = &unit->gradients;
    const struct hashing_facet *hashing = shape->mechanism->hashing;
    bool reads = run->pass == FORWARD && hashing != NULL && hashing->reads_bf16(shape->options);
    bool half = shape->dtype == DTYPE_BFLOAT16 && !reads; /* to be widened */
    struct side queries = {.shape = shape,
                           .offsets = shape->query_offsets,
                           .sequence = unit->sequence,
                           .head = unit->head,
                           .mask = unit->gathered_queries,
                           .kept = kept_count(unit->gathered_queries, problem->shape.num_queries)};
    queries.moves = half || !queries.kept.prefix;
    struct side keys = queries;
    keys.offsets = shape->key_offsets;
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
        unit->own_out = call_head(shape, &run->out, shape->query_offsets, unit->sequence, unit->head);
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

/* The saved memory of a head of a sequence; NULL if it has none. */
static void *saved_of(const struct run *run, size_t sequence, size_t head)
{
    const size_t *start = run->plan->start + sequence;
    size_t bytes = (start[1] - start[0]) / run->shape->num_heads;
    return bytes == 0 ? NULL : (unsigned char *)run->call->saved + start[0] + head * bytes;
}

static struct unit open_unit(const struct run *run, size_t index, int worker)
{
    const struct attention_call *call = run->call;
    const struct attention_plan *plan = run->plan;
    const struct attention_shape *shape = run->shape;
    size_t sequence = plan->order[index / shape->num_heads], head = index % shape->num_heads;
    struct problem_shape of = shape_of_sequence(shape, sequence);
    bool spread = index < plan->num_spread;
    if (spread)
        of.workers = (size_t)pool_threads(shape->pool);
    struct worker_memory memory = worker_memory(
        shape, &of,
        run->memory.workers == NULL ? NULL : run->memory.workers + (size_t)worker * plan->worker_bytes);
    struct unit unit = {.sequence = sequence, .head = head};
    unit.problem = (struct problem){
        .kernels = shape->kernels,
        .shape = of,
        .options = shape->options,
        .random_key = call_unit_key(call, sequence, head),
        .shared = plan->shared_bytes == 0 ? NULL : call->saved,
        .params = plan->param_count == 0 ? NULL : call->params + head * plan->param_count,
        .saved = saved_of(run, sequence, head),
        .scratch = memory.mechanism,
        .pool = spread ? shape->pool : NULL,
        .out_of_range = call->out_of_range,
        .large = call->large,
        .dropout = dropout_of_unit(call, sequence, head),
        .ranks = shape->ranks,
    };
    if (run->dparams != NULL) {
        unit.gradients.params = run->memory.slices + (sequence * shape->num_heads + head) * plan->param_count;
        memset(unit.gradients.params, 0, plan->param_count * sizeof(float));
    }
    const uint8_t *mask = call_mask(call, sequence);
    struct kept kept = kept_count(mask, of.num_keys);
    unit.empty = of.num_queries == 0 || kept.count == 0;
    if (shape->mechanism->sees_mask) {
        unit.problem.key_mask = mask;
        mask = NULL;
        kept = kept_count(NULL, of.num_keys);
    }
    if (shape_masks_queries(shape, &of))
        unit.gathered_queries = mask;
    if (shape->causal) {
        bool same = unit.gathered_queries != NULL;
        kept_visible(same ? NULL : mask, same ? kept.count : of.num_queries, memory.visible);
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
        kept_put_back(run->shape->kernels, rows, mask, own);
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
    if (call->out_of_range == NULL || (call->plan->shape.mechanism->hashing != NULL && !unit->empty))
        return true;
    struct row_range found = row_range_unit(call, unit->sequence, unit->head, unit->problem.pool);
    unit->problem.large |= found.large;
    if (!found.allowed)
        atomic_store_explicit(call->out_of_range, true, memory_order_relaxed);
    return found.allowed;
}

static void forward_unit(const struct run *run, size_t index, int worker)
{
    const struct attention_shape *shape = run->shape;
    struct unit unit = open_unit(run, index, worker);
    if (unit.empty || unit.gathered_queries != NULL)
        write_zeros(call_head(shape, &run->out, shape->query_offsets, unit.sequence, unit.head));
    if (!check_unit(run->call, &unit) || unit.empty)
        return;
    shape_implementation(shape)->forward(&unit.problem, unit.out);
    put_back(run, unit.out, unit.gathered_queries, unit.own_out);
}

static void backward_unit(const struct run *run, size_t index, int worker)
{
    struct unit unit = open_unit(run, index, worker);
    if (unit.empty)
        return;
    shape_implementation(run->shape)->backward(&unit.problem, unit.out, unit.dout, &unit.gradients);
    put_back(run, unit.gradients.query, unit.gathered_queries, unit.own_dquery);
    put_back(run, unit.gradients.key, unit.gathered, unit.own_dkey);
    put_back(run, unit.gradients.value, unit.gathered, unit.own_dvalue);
}

static void auxiliary_unit(const struct run *run, size_t index, int worker)
{
    struct unit unit = open_unit(run, index, worker);
    run->memory.losses[unit.sequence * run->shape->num_heads + unit.head] =
        unit.empty ? 0 : run->shape->mechanism->own_loss->compute(&unit.problem, &unit.gradients);
}

static void inspect_unit(const struct run *run, size_t index, int worker)
{
    struct unit unit = open_unit(run, index, worker);
    struct inspection *inspection = &run->inspections[unit.sequence * run->shape->num_heads + unit.head];
    const struct inspection_facet *facet = run->shape->mechanism->inspection;
    if (unit.empty)
        inspection_clear(inspection, facet->num_groups(run->shape->options));
    else
        facet->inspect(&unit.problem, inspection);
}

/* dparams of one head += the slices of its sequences, in their order. */
static void add_slices(void *argument, size_t head, int worker)
{
    (void)worker;
    const struct run *run = argument;
    const struct attention_shape *shape = run->shape;
    size_t count = run->plan->param_count;
    for (size_t s = 0; s < shape->num_sequences; s++)
        shape->kernels->rows.axpy(run->dparams + head * count, 1,
                                  run->memory.slices + (s * shape->num_heads + head) * count, count);
}

/* A unit on one thread. */
static void run_unit(void *argument, size_t index, int worker)
{
    const struct run *run = argument;
    run->unit(run, run->plan->num_spread + index, worker);
}

static struct run open_run(const struct attention_call *call, enum pass pass)
{
    return (struct run){.call = call,
                        .plan = call->plan,
                        .shape = &call->plan->shape,
                        .memory = call_memory(call->plan, call->scratch),
                        .pass = pass};
}

static void run_units(struct run *run, void (*unit)(const struct run *, size_t, int))
{
    const struct attention_shape *shape = run->shape;
    run->unit = unit;
    for (size_t index = 0; index < run->plan->num_spread; index++)
        unit(run, index, 0);
    pool_run(shape->pool, run_unit, run, shape->num_sequences * shape->num_heads - run->plan->num_spread);
    if (run->dparams != NULL)
        pool_run(shape->pool, add_slices, run, shape->num_heads);
}

void attention_forward(const struct attention_call *call, struct packed out)
{
    const struct attention_shape *shape = &call->plan->shape;
    assert(out.width == shape->value_dim);
    if (!shape_has_rows(shape))
        return;
    struct run run = open_run(call, FORWARD);
    run.out = out;
    const struct preparation preparation = {.kernels = shape->kernels,
                                            .options = shape->options,
                                            .head_dim = shape->head_dim,
                                            .call_key = call->call_key,
                                            .pool = shape->pool,
                                            .shared = call->saved,
                                            .scratch = run.memory.workers};
    if (shape->mechanism->preparation != NULL)
        shape->mechanism->preparation->prepare(&preparation);
    run_units(&run, forward_unit);
}

void attention_backward(const struct attention_call *call, struct packed out, struct packed dout,
                        struct packed dquery, struct packed dkey, struct packed dvalue, float *dparams)
{
    const struct attention_shape *shape = &call->plan->shape;
    assert(dout.width == shape->value_dim && dvalue.width == shape->value_dim);
    assert(dquery.width == shape->head_dim && dkey.width == shape->head_dim);
    if (!shape_has_rows(shape))
        return;
    struct run run = open_run(call, BACKWARD);
    run.out = out;
    run.dout = dout;
    run.dquery = dquery;
    run.dkey = dkey;
    run.dvalue = dvalue;
    run.dparams = run.plan->param_count == 0 ? NULL : dparams;
    run_units(&run, backward_unit);
}

double attention_auxiliary(const struct attention_call *call, float *dparams)
{
    const struct attention_shape *shape = &call->plan->shape;
    if (shape->mechanism->own_loss == NULL || !shape_has_rows(shape))
        return 0;
    struct run run = open_run(call, AUXILIARY);
    run.dparams = run.plan->param_count == 0 ? NULL : dparams;
    run_units(&run, auxiliary_unit);
    double loss = 0;
    for (size_t i = 0; i < shape->num_sequences * shape->num_heads; i++)
        loss += run.memory.losses[i];
    return loss;
}

void attention_inspect(const struct attention_call *call, struct inspection *inspections)
{
    const struct attention_shape *shape = &call->plan->shape;
    assert(shape->inspects && shape->mechanism->inspection != NULL);
    if (!shape_has_rows(shape))
        return;
    struct run run = open_run(call, INSPECTION);
    run.inspections = inspections;
    run_units(&run, inspect_unit);
}
