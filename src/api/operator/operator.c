/* The public operator: checks a problem and its arrays (operands.h) with the limits in the messages, converts
   it to offsets and passes it down in one call. If the mechanism checks rows for NaN and infinity while
   reading them, forward leaves that to it.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <string.h>

#include "api/floating.h"
#include "api/handles.h"
#include "api/operator/device_blocks.h"
#include "api/operator/operands.h"
#include "api/operator/operator_plan.h"
#include "api/operator/own_params.h"
#include "api/operator/saved_tag.h"
#include "api/operator/shared_call.h"
#include "api/versions/versions.h"
#include "attention/driver/row_range.h"
#include "base/memory.h"
#include "base/random.h"
#include "parts/tiles/double_attention.h"

hashattn_array hashattn_array_of_heads(void *data, size_t heads, size_t rows, size_t width)
{
    return (hashattn_array){data, heads * rows * width, width, rows * width};
}

hashattn_array hashattn_array_of_rows(void *data, size_t heads, size_t rows, size_t width)
{
    return (hashattn_array){data, rows * heads * width, heads * width, width};
}

void hashattn_bf16_round(const hashattn_context *context, const float *from, uint16_t *to, size_t count)
{
    context->kernels->bf16.round(to, count, from, count, 1, count);
}

void hashattn_bf16_widen(const hashattn_context *context, const uint16_t *from, float *to, size_t count)
{
    context->kernels->bf16.widen(to, count, from, count, 1, count);
}

void hashattn_problem_default_sized(hashattn_problem *problem, size_t struct_size)
{
    const hashattn_problem own = {.num_sequences = 1, .num_heads = 1};
    version_fill_options(problem, struct_size, &own, sizeof own);
}

size_t hashattn_shared_rows(const hashattn_context *context, size_t total_rows, size_t *first)
{
    size_t end;
    comm_span(&context->comm, total_rows, first, &end);
    return end - *first;
}

/* ---- from a problem to a call ------------------------------------------------------------------------ */

static hashattn_status check_offsets(struct host *host, const char *what, const size_t *offsets, size_t count)
{
    FAIL_IF(offsets[0] != 0, host, HASHATTN_INVALID, "%s[0] is %zu, it must be 0", what, offsets[0]);
    for (size_t s = 0; s < count; s++)
        FAIL_IF(offsets[s + 1] < offsets[s], host, HASHATTN_INVALID,
                "%s[%zu] is %zu, below %s[%zu] which is %zu", what, s + 1, offsets[s + 1], what, s,
                offsets[s]);
    FAIL_IF(offsets[count] > operand_most, host, HASHATTN_INVALID, "%s end at %zu, too many rows", what,
            offsets[count]);
    return HASHATTN_OK;
}

static hashattn_status check_problem(struct host *host, const hashattn_problem *p)
{
    FAIL_IF(p->element != HASHATTN_FLOAT32 && p->element != HASHATTN_BF16, host, HASHATTN_INVALID,
            "element is %d, allowed are HASHATTN_FLOAT32 and HASHATTN_BF16", (int)p->element);
    FAIL_IF(p->num_heads == 0, host, HASHATTN_INVALID, "num_heads is 0, at least 1 is needed");
    FAIL_IF(p->head_dim == 0, host, HASHATTN_INVALID, "head_dim is 0, at least 1 is needed");
    FAIL_IF(p->value_dim == 0, host, HASHATTN_INVALID, "value_dim is 0, at least 1 is needed");
    FAIL_IF((p->query_offsets == NULL) != (p->key_offsets == NULL), host, HASHATTN_INVALID,
            "query_offsets and key_offsets are given together or not at all");
    FAIL_IF(p->padded != 0 && p->query_offsets == NULL, host, HASHATTN_INVALID,
            "padded is %d without offsets, which give the lengths of the sequences", p->padded);
    FAIL_IF(p->num_sequences > operand_most, host, HASHATTN_INVALID, "num_sequences is %zu, too many",
            p->num_sequences);
    if (p->query_offsets != NULL) {
        TRY(check_offsets(host, "query_offsets", p->query_offsets, p->num_sequences));
        TRY(check_offsets(host, "key_offsets", p->key_offsets, p->num_sequences));
    } else {
        FAIL_IF(size_product(p->num_sequences, p->num_queries) > operand_most, host, HASHATTN_INVALID,
                "%zu sequences of %zu queries are too many rows", p->num_sequences, p->num_queries);
        FAIL_IF(size_product(p->num_sequences, p->num_keys) > operand_most, host, HASHATTN_INVALID,
                "%zu sequences of %zu keys are too many rows", p->num_sequences, p->num_keys);
    }
    return HASHATTN_OK;
}

/* The checks of a problem whose rows ranks share. */
static hashattn_status check_shared(const hashattn_context *context, struct host *host,
                                    const hashattn_problem *p)
{
    size_t first, rows = hashattn_shared_rows(context, p->total_rows, &first);
    FAIL_IF(p->query_offsets != NULL || p->key_mask != NULL || p->element != HASHATTN_FLOAT32, host,
            HASHATTN_INVALID, "total_rows is %zu: sequences that ranks share have %s", p->total_rows,
            p->query_offsets != NULL ? "equal lengths, no offsets"
            : p->key_mask != NULL    ? "no key_mask"
                                     : "arrays of HASHATTN_FLOAT32");
    FAIL_IF(p->num_queries != rows || p->num_keys != rows, host, HASHATTN_INVALID,
            "total_rows is %zu, of which this rank holds %zu; num_queries is %zu and num_keys %zu",
            p->total_rows, rows, p->num_queries, p->num_keys);
    return HASHATTN_OK;
}

static bool has_rows(const hashattn_problem *p)
{
    if (p->query_offsets != NULL)
        return p->query_offsets[p->num_sequences] > 0 || p->key_offsets[p->num_sequences] > 0;
    return p->num_sequences > 0 && (p->num_queries > 0 || p->num_keys > 0);
}

/* True if the rows of all sequences follow one another. */
static bool is_packed(const hashattn_problem *p)
{
    return p->query_offsets != NULL && p->padded == 0;
}

/* Checks and copies the problem. If every sequence is empty, checks only one: there may be any number, and
   only the mechanism's refusal matters. */
static hashattn_status take_problem(struct host *host, const hashattn_problem *given, hashattn_problem *own)
{
    hashattn_problem_default(own);
    TRY(version_take(host, own, sizeof *own, given, first_sizes.problem, "problem"));
    TRY(check_problem(host, own));
    if (!has_rows(own)) {
        own->num_sequences = size_min(own->num_sequences, 1);
        own->num_queries = own->num_keys = 0;
    }
    return HASHATTN_OK;
}

/* Plans the call and describes it without arrays: enough for sizes and refusals. */
static hashattn_status describe(hashattn_attention *attention, const hashattn_problem *p,
                                struct attention_call *call)
{
    static const float undrawn = 0;
    struct host *host = &attention->context->host;
    const struct attention_plan *plan;
    if (p->total_rows > 0)
        TRY(check_shared(attention->context, host, p));
    FAIL_IF(p->total_rows > 0 && attention->context->device != NULL, host, HASHATTN_REFUSED,
            "total_rows is %zu: ranks share sequences on processors, not on devices", p->total_rows);
    if (has_rows(p))
        TRY(own_params_check(attention, p));
    TRY(operator_plan(attention, p, &plan));
    *call = (struct attention_call){
        .plan = plan,
        .query = {.width = p->head_dim, .row_stride = p->head_dim},
        .key = {.width = p->head_dim, .row_stride = p->head_dim},
        .value = {.width = p->value_dim, .row_stride = p->value_dim},
        .key_mask = p->key_mask,
        .call_key = random_key(p->seed, RANDOM_EVALUATION, 0),
        .sample_ids = p->sample_ids,
        .params = &undrawn, /* the check reads none, and drawing may take minutes */
    };
    return attention_check(host, call);
}

/* Bytes of the caller's `saved`. */
static size_t saved_bytes_of(const struct attention_plan *plan)
{
    return plan->saved_bytes == 0 ? 0 : size_sum(plan->saved_bytes, SAVED_TAG_BYTES);
}

hashattn_status hashattn_attention_sizes(hashattn_attention *attention, const hashattn_problem *problem,
                                         size_t *saved_bytes, size_t *scratch_bytes)
{
    FLOATING_DEFAULT;
    if (attention == NULL)
        return HASHATTN_INVALID;
    struct host *host = &attention->context->host;
    hashattn_problem own;
    struct attention_call call;
    FAIL_IF(saved_bytes == NULL || scratch_bytes == NULL, host, HASHATTN_INVALID, "%s is NULL",
            saved_bytes == NULL ? "saved_bytes" : "scratch_bytes");
    TRY(take_problem(host, problem, &own));
    TRY(describe(attention, &own, &call)); /* the plan refuses sizes that cannot be counted */
    *saved_bytes = saved_bytes_of(call.plan);
    *scratch_bytes = call.plan->scratch_bytes;
    return HASHATTN_OK;
}

/* ---- forward and backward ------------------------------------------------------------------------------ */

/* The blocks of a call, and those that it allocates because the caller passed none. */
struct blocks {
    void *saved, *scratch, *own_saved, *own_scratch;
    void *tag; /* in front of `saved`; NULL: the mechanism saves nothing */
    fenv_t callers;
};

static hashattn_status check_block(struct host *host, const char *name, const void *block)
{
    FAIL_IF((uintptr_t)block % MEMORY_ALIGNMENT != 0, host, HASHATTN_INVALID, "%s is not aligned to %d bytes",
            name, MEMORY_ALIGNMENT);
    return HASHATTN_OK;
}

/* Checks the problem, plans and describes the call, finds the blocks and draws learned parameters. close_call
   follows in any case. */
static hashattn_status open_call(hashattn_attention *attention, const hashattn_problem *problem,
                                 hashattn_problem *own, struct blocks *blocks, struct attention_call *call)
{
    struct host *host = &attention->context->host;
    blocks->callers = floating_begin();
    TRY(take_problem(host, problem, own));
    TRY(check_block(host, "saved", blocks->saved));
    TRY(check_block(host, "scratch", blocks->scratch));
    TRY(describe(attention, own, call));
    if (attention->context->device != NULL)
        return HASHATTN_OK; /* device_blocks.h has its blocks */
    if (blocks->saved == NULL) {
        TRY(memory_new(host, 1, saved_bytes_of(call->plan), "what attention saves", &blocks->own_saved));
        blocks->saved = blocks->own_saved;
    }
    if (blocks->scratch == NULL) {
        TRY(memory_new(host, 1, call->plan->scratch_bytes, "attention's scratch", &blocks->own_scratch));
        blocks->scratch = blocks->own_scratch;
    }
    if (has_rows(own))
        TRY(own_params_for(attention, own));
    call->params = attention->params;
    if (call->plan->saved_bytes > 0) {
        blocks->tag = blocks->saved;
        blocks->saved = (unsigned char *)blocks->saved + SAVED_TAG_BYTES;
    }
    call->saved = blocks->saved;
    call->scratch = blocks->scratch;
    return HASHATTN_OK;
}

/* The checks of a block that forward has filled. `user`: the pass that needs it. A device compares the tag.
 */
static hashattn_status check_saved(struct host *host, const struct attention_call *call,
                                   const struct blocks *blocks, const char *user)
{
    bool none = call->plan->shape.device != NULL && blocks->saved == NULL && call->plan->saved_bytes > 0;
    FAIL_IF(blocks->own_saved != NULL || none, host, HASHATTN_INVALID,
            "saved is NULL: %s needs what forward saved", user);
    return blocks->tag == NULL ? HASHATTN_OK : saved_tag_check(host, call, blocks->tag);
}

/* INVALID if ranks share the rows and float32 could overflow: mechanisms then compute in double, of a whole
   sequence only. */
static hashattn_status check_large(struct host *host, struct attention_call *call)
{
    FAIL_IF(call->plan->shape.ranks != NULL && call->large, host, HASHATTN_INVALID,
            "an input has a sum of squares of %g or more; sequences that ranks share must stay below",
            (double)DOUBLE_SQUARES);
    return HASHATTN_OK;
}

/* The status of the exchanges of ranks that share the rows. */
static hashattn_status status_of_ranks(const struct attention_call *call)
{
    const struct row_ranks *ranks = call->plan->shape.ranks;
    return ranks == NULL ? HASHATTN_OK : ranks->status;
}

static void close_call(struct host *host, const struct blocks *blocks)
{
    memory_free(host, blocks->own_scratch);
    memory_free(host, blocks->own_saved);
    floating_end(&blocks->callers);
}

/* The arrays of forward: query, key, value and out. Numbers are checked by attention_forward, which then
   needs call->out_of_range; here if ranks share them, or if their lengths are limited. */
static hashattn_status check_forward(struct host *host, const hashattn_problem *own,
                                     struct attention_call *call, struct operand *arrays,
                                     atomic_bool *out_of_range)
{
    enum { INPUTS = 3 };
    for (size_t a = 0; a < INPUTS + 1; a++)
        TRY(operand_check(host, call, is_packed(own), &arrays[a]));
    TRY(operands_check_separate(host, call, arrays, INPUTS + 1));
    if (!has_rows(own))
        return HASHATTN_OK;
    TRY(operands_check_mask(host, call));
    call->query = arrays[0].packed;
    call->key = arrays[1].packed;
    call->value = arrays[2].packed;
    if (call->plan->shape.device != NULL)
        return HASHATTN_OK; /* which checks the numbers itself */
    if (call->plan->shape.ranks == NULL && operand_norm_limit(call) == 0) {
        call->out_of_range = out_of_range;
        return HASHATTN_OK;
    }
    TRY(row_range_check(host, call, NULL, NULL));
    TRY(check_large(host, call));
    TRY(operand_check_lengths(host, call, &arrays[0]));
    return operand_check_lengths(host, call, &arrays[1]);
}

static hashattn_status forward_on_device(hashattn_attention *attention, const struct attention_call *call,
                                         const struct blocks *given, struct packed out)
{
    struct device_own own;
    struct device_blocks blocks;
    hashattn_status status = device_blocks_open(attention, call, saved_bytes_of(call->plan), given->saved,
                                                given->scratch, &own, &blocks);
    if (status == HASHATTN_OK)
        status = attention_device_forward(&attention->context->host, call, &blocks, out);
    return device_blocks_close(attention, &own, status);
}

hashattn_status hashattn_attention_forward(hashattn_attention *attention, const hashattn_problem *problem,
                                           const hashattn_array *query, const hashattn_array *key,
                                           const hashattn_array *value, const hashattn_array *out,
                                           void *saved, void *scratch)
{
    if (attention == NULL)
        return HASHATTN_INVALID;
    struct host *host = &attention->context->host;
    struct blocks blocks = {.saved = saved, .scratch = scratch};
    hashattn_problem own = {.total_rows = 0};
    struct attention_call call;
    hashattn_status status = open_call(attention, problem, &own, &blocks, &call);
    atomic_bool out_of_range = false;
    enum { INPUTS = 3 };
    struct operand arrays[INPUTS + 1] = {
        {.name = "query", .given = query, .width = own.head_dim},
        {.name = "key", .given = key, .width = own.head_dim, .of_keys = true},
        {.name = "value", .given = value, .width = own.value_dim, .of_keys = true},
        {.name = "out", .given = out, .width = own.value_dim, .written = true},
    };
    if (status == HASHATTN_OK)
        status = check_forward(host, &own, &call, arrays, &out_of_range);
    TRY_DONE(shared_call_agree(attention, &own, "forward", status));
    if (!has_rows(&own))
        goto done;
    if (call.plan->shape.device != NULL) {
        status = forward_on_device(attention, &call, &blocks, arrays[INPUTS].packed);
        goto done;
    }
    if (blocks.tag != NULL)
        saved_tag_clear(blocks.tag);
    attention_forward(&call, arrays[INPUTS].packed);
    status = status_of_ranks(&call);
    if (atomic_load(&out_of_range))
        status = row_range_fail(host, &call);
    if (status == HASHATTN_OK && blocks.tag != NULL)
        saved_tag_write(&call, blocks.tag);
done:
    close_call(host, &blocks);
    return status;
}

static size_t bytes_of_params(const struct attention_call *call)
{
    size_t floats = size_product(call->plan->shape.num_heads, call->plan->param_count);
    return size_product(floats, sizeof(float));
}

/* dparams, unless it is NULL or the mechanism learns nothing, = 0. */
static void clear_params(const struct attention_call *call, float *dparams)
{
    size_t bytes = bytes_of_params(call);
    if (dparams != NULL && bytes > 0)
        memset(dparams, 0, bytes);
}

/* arrays: those of hashattn_attention_backward_params. */
static hashattn_status backward_on_device(hashattn_attention *attention, const struct attention_call *call,
                                          const struct blocks *given, const struct operand *arrays)
{
    struct device_own own;
    struct device_blocks blocks;
    hashattn_status status = device_blocks_open(attention, call, saved_bytes_of(call->plan), given->saved,
                                                given->scratch, &own, &blocks);
    if (status == HASHATTN_OK)
        status =
            attention_device_backward(&attention->context->host, call, &blocks, arrays[4].packed,
                                      arrays[0].packed, arrays[5].packed, arrays[6].packed, arrays[7].packed);
    return device_blocks_close(attention, &own, status);
}

hashattn_status hashattn_attention_backward(hashattn_attention *attention, const hashattn_problem *problem,
                                            const hashattn_array *query, const hashattn_array *key,
                                            const hashattn_array *value, const hashattn_array *out,
                                            const hashattn_array *dout, const hashattn_array *dquery,
                                            const hashattn_array *dkey, const hashattn_array *dvalue,
                                            void *saved, void *scratch)
{
    return hashattn_attention_backward_params(attention, problem, query, key, value, out, dout, dquery, dkey,
                                              dvalue, NULL, saved, scratch);
}

hashattn_status hashattn_attention_backward_params(hashattn_attention *attention,
                                                   const hashattn_problem *problem,
                                                   const hashattn_array *query, const hashattn_array *key,
                                                   const hashattn_array *value, const hashattn_array *out,
                                                   const hashattn_array *dout, const hashattn_array *dquery,
                                                   const hashattn_array *dkey, const hashattn_array *dvalue,
                                                   float *dparams, void *saved, void *scratch)
{
    if (attention == NULL)
        return HASHATTN_INVALID;
    struct host *host = &attention->context->host;
    TRY(attention_check_backward(host, attention->mechanism));
    struct blocks blocks = {.saved = saved, .scratch = scratch};
    hashattn_problem own = {.total_rows = 0};
    struct attention_call call;
    hashattn_status status = open_call(attention, problem, &own, &blocks, &call);
    if (status == HASHATTN_OK)
        status = check_saved(host, &call, &blocks, "backward");
    struct operand arrays[] = {
        {.name = "dout", .given = dout, .width = own.value_dim},
        {.name = "query", .given = query, .width = own.head_dim},
        {.name = "key", .given = key, .width = own.head_dim, .of_keys = true},
        {.name = "value", .given = value, .width = own.value_dim, .of_keys = true},
        {.name = "out", .given = out, .width = own.value_dim},
        {.name = "dquery", .given = dquery, .width = own.head_dim, .written = true},
        {.name = "dkey", .given = dkey, .width = own.head_dim, .of_keys = true, .written = true},
        {.name = "dvalue", .given = dvalue, .width = own.value_dim, .of_keys = true, .written = true},
    };
    for (size_t a = 0; a < 8 && status == HASHATTN_OK; a++)
        status = operand_check(host, &call, is_packed(&own), &arrays[a]);
    if (status == HASHATTN_OK)
        status = operands_check_separate(host, &call, arrays, 8);
    if (status == HASHATTN_OK)
        status = operands_check_outside(host, &call, arrays, 8, "dparams", dparams, bytes_of_params(&call));
    call.query = arrays[1].packed;
    call.key = arrays[2].packed;
    call.value = arrays[3].packed;
    bool on_device = attention->context->device != NULL;
    if (status == HASHATTN_OK && has_rows(&own) && !on_device)
        status = row_range_check(host, &call, &arrays[0].packed, NULL);
    if (status == HASHATTN_OK)
        status = check_large(host, &call);
    TRY_DONE(shared_call_agree(attention, &own, "backward", status));
    clear_params(&call, dparams);
    if (!has_rows(&own))
        goto done;
    if (on_device) {
        status = backward_on_device(attention, &call, &blocks, arrays);
        goto done;
    }
    operands_clear(&call, &arrays[5], 3);
    attention_backward(&call, arrays[4].packed, arrays[0].packed, arrays[5].packed, arrays[6].packed,
                       arrays[7].packed, dparams);
    status = status_of_ranks(&call);
done:
    close_call(host, &blocks);
    return status;
}

hashattn_status hashattn_attention_own_loss(hashattn_attention *attention, const hashattn_problem *problem,
                                            const hashattn_array *query, const hashattn_array *key,
                                            const hashattn_array *value, double *loss, float *dparams,
                                            void *saved, void *scratch)
{
    if (attention == NULL)
        return HASHATTN_INVALID;
    struct host *host = &attention->context->host;
    FAIL_IF(attention->context->device != NULL, host, HASHATTN_REFUSED,
            "losses of mechanisms are computed on the processor, not on a device");
    struct blocks blocks = {.saved = saved, .scratch = scratch};
    hashattn_problem own = {.total_rows = 0};
    struct attention_call call;
    hashattn_status status = open_call(attention, problem, &own, &blocks, &call);
    if (status == HASHATTN_OK && loss == NULL)
        status = host_fail(host, HASHATTN_INVALID, "loss is NULL");
    if (status == HASHATTN_OK)
        status = check_saved(host, &call, &blocks, "the loss");
    struct operand arrays[] = {
        {.name = "query", .given = query, .width = own.head_dim},
        {.name = "key", .given = key, .width = own.head_dim, .of_keys = true},
        {.name = "value", .given = value, .width = own.value_dim, .of_keys = true},
    };
    for (size_t a = 0; a < 3 && status == HASHATTN_OK; a++)
        status = operand_check(host, &call, is_packed(&own), &arrays[a]);
    if (status == HASHATTN_OK)
        status = operands_check_outside(host, &call, arrays, 3, "dparams", dparams, bytes_of_params(&call));
    call.query = arrays[0].packed;
    call.key = arrays[1].packed;
    call.value = arrays[2].packed;
    if (status == HASHATTN_OK && has_rows(&own) && attention->mechanism->own_loss != NULL)
        status = row_range_check_loss(host, &call);
    TRY_DONE(shared_call_agree(attention, &own, "the loss of a mechanism", status));
    clear_params(&call, dparams);
    *loss = attention_auxiliary(&call, dparams);
    status = status_of_ranks(&call);
done:
    close_call(host, &blocks);
    return status;
}
