/* One unit of work per (sequence, head), on the pool. All memory is made at the start.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/generation/held.h"

#include <assert.h>
#include <string.h>

#include "attention/driver/stream.h"
#include "base/memory.h"
#include "base/random.h"

enum { CHUNK = 256 }; /* keys that a state absorbs at a time */

struct held {
    struct host *host; /* for the messages of calls that cannot fail */
    struct held_shape shape;
    enum held_kind kind;
    size_t heads, dim; /* dim: of a head */
    size_t count;      /* tokens so far */
    float *own;        /* (heads, own_count) parameters; or NULL */
    /* HELD_STATE */
    struct stream stream, absorbing; /* token by token; keys only */
    unsigned char *states;           /* (sequences, heads) */
    size_t state_bytes;
    /* HELD_KEYS */
    float *keys, *values; /* (sequences, heads, context, dim) */
    size_t saved_bytes;
    /* (threads), scratch_bytes each */
    unsigned char *scratch;
    size_t scratch_bytes;
};

enum held_kind held_kind(const struct mechanism *mechanism, const void *options)
{
    if (mechanism->stream != NULL)
        return HELD_STATE;
    return mechanism->last_keys != NULL && mechanism->last_keys(options, 1) > 0 ? HELD_KEYS : HELD_NOTHING;
}

/* ---- making ------------------------------------------------------------------------------------------- */

static struct problem_shape shape_of(const struct held *held, size_t keys)
{
    return (struct problem_shape){.num_queries = 1,
                                  .num_keys = keys,
                                  .head_dim = held->dim,
                                  .value_dim = held->dim,
                                  .max_len = held->shape.attention->max_len,
                                  .causal = true,
                                  .precision = held->shape.attention->precision,
                                  .workers = 1};
}

static uint64_t key_of(const struct held *held, size_t head)
{
    return random_key(held->shape.call_key, RANDOM_HEAD, held->shape.mixing->first_head + head);
}

static struct stream stream_of(const struct held *held, size_t head, bool causal)
{
    struct stream stream = causal ? held->stream : held->absorbing;
    stream.random_key = key_of(held, head);
    stream.params = held->own == NULL ? NULL : held->own + head * held->shape.mixing->own_count;
    return stream;
}

static size_t units_of(const struct held *held)
{
    return size_product(held->shape.sequences, held->heads);
}

static hashattn_status take(struct host *host, size_t count, size_t size, const char *what, void *array)
{
    size_t bytes = size_product(count, size);
    FAIL_IF(bytes > memory_of_machine(), host, HASHATTN_NO_MEMORY, "%s need %zu bytes, this machine has %zu",
            what, bytes, memory_of_machine());
    return memory_new(host, count, size, what, array);
}

static hashattn_status make_states(struct host *host, struct held *held)
{
    const struct held_shape *shape = &held->shape;
    const struct head_group *group = &shape->mixing->group;
    void *block;
    held->stream = (struct stream){
        .kernels = shape->kernels,
        .mechanism = group->mechanism,
        .options = group->options,
        .head_dim = held->dim,
        .value_dim = held->dim,
        .causal = true,
        .chunk_rows = 1,
        .call_key = shape->call_key,
    };
    held->absorbing = held->stream;
    held->absorbing.causal = false;
    held->absorbing.chunk_rows = CHUNK;
    TRY(stream_check(host, &held->stream));
    held->state_bytes = stream_state_size(&held->stream);
    assert(held->state_bytes == stream_state_size(&held->absorbing));
    held->scratch_bytes = size_max(stream_scratch_size(&held->stream), stream_scratch_size(&held->absorbing));
    TRY(take(host, units_of(held), held->state_bytes, "the states of heads", &block));
    held->states = block;
    return HASHATTN_OK;
}

static hashattn_status make_keys(struct host *host, struct held *held)
{
    const struct held_shape *shape = &held->shape;
    const struct head_group *group = &shape->mixing->group;
    const struct implementation *forward = &group->mechanism->host;
    /* The most keys at once may be before the end of the context (local). */
    const struct problem_shape most = shape_of(held, shape->context);
    const struct problem_shape last =
        shape_of(held, group->mechanism->last_keys(group->options, shape->context));
    const char *why = implementation_refuses(forward, group->options, &last);
    char sentence[200] = "";
    void *block;
    if (why != NULL)
        options_fill(group->mechanism->options, group->options, why, sentence, sizeof sentence);
    FAIL_IF(why != NULL, host, HASHATTN_REFUSED, "%s: %s (with a context of %zu tokens)",
            group->mechanism->name, sentence, shape->context);
    assert(group->mechanism->preparation == NULL);
    held->saved_bytes = forward->saved_size(group->options, &most);
    held->scratch_bytes = size_sum(held->saved_bytes, MEMORY_ALIGNMENT);
    held->saved_bytes = held->scratch_bytes / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
    held->scratch_bytes = size_sum(held->saved_bytes, forward->scratch_size(group->options, &most));
    size_t rows = size_product(units_of(held), shape->context);
    TRY(take(host, rows, held->dim * sizeof(float), "the keys of a context", &block));
    held->keys = block;
    TRY(take(host, rows, held->dim * sizeof(float), "the values of a context", &block));
    held->values = block;
    return HASHATTN_OK;
}

static hashattn_status make(struct host *host, struct held *held)
{
    const struct mixing *mixing = held->shape.mixing;
    void *block;
    if (mixing->own_count > 0) {
        TRY(memory_new(host, size_product(held->heads, mixing->own_count), sizeof(float),
                       "a mechanism's own parameters", &block));
        held->own = block;
        mixing_gather_own(mixing, held->shape.values, held->own);
    }
    TRY(held->kind == HELD_STATE ? make_states(host, held) : make_keys(host, held));
    held->scratch_bytes = size_product(size_sum(held->scratch_bytes, MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT,
                                       MEMORY_ALIGNMENT);
    TRY(memory_new(host, (size_t)pool_threads(held->shape.pool), held->scratch_bytes, "scratch of heads",
                   &block));
    held->scratch = block;
    held_clear(held);
    return HASHATTN_OK;
}

hashattn_status held_new(struct host *host, const struct held_shape *shape, struct held **out)
{
    const struct head_group *group = &shape->mixing->group;
    void *block;
    *out = NULL;
    TRY(memory_new_zeroed(host, 1, sizeof **out, "what heads hold", &block));
    struct held *held = block;
    held->host = host;
    held->shape = *shape;
    held->kind = held_kind(group->mechanism, group->options);
    held->heads = group->heads;
    held->dim = shape->attention->head_dim;
    assert(held->kind != HELD_NOTHING && shape->sequences > 0);
    hashattn_status status = make(host, held);
    if (status != HASHATTN_OK)
        held_free(host, held);
    else
        *out = held;
    return status;
}

void held_free(struct host *host, struct held *held)
{
    if (held == NULL)
        return;
    memory_free(host, held->scratch);
    memory_free(host, held->values);
    memory_free(host, held->keys);
    memory_free(host, held->states);
    memory_free(host, held->own);
    memory_free(host, held);
}

void held_clear(struct held *held)
{
    held->count = 0;
    for (size_t unit = 0; held->kind == HELD_STATE && unit < units_of(held); unit++) {
        const struct stream stream = stream_of(held, unit % held->heads, true);
        stream_open(&stream, held->states + unit * held->state_bytes, held->scratch);
    }
}

/* ---- the tokens of a prompt --------------------------------------------------------------------------- */

static float *row_of(const struct held *held, float *rows, size_t unit, size_t token)
{
    return rows + (unit * held->shape.context + token) * held->dim;
}

struct absorption {
    struct held *held;
    const struct attention_call *call;
    size_t rows;
};

/* The rows of one head in a call. */
static struct view rows_of_call(const struct packed *packed, size_t head, size_t first, size_t rows)
{
    float *data = packed->data;
    return (struct view){.data = data + first * packed->row_stride + head * packed->head_stride,
                         .rows = rows,
                         .cols = packed->width,
                         .stride = packed->row_stride};
}

static void absorb_head(void *argument, size_t head, int worker)
{
    const struct absorption *a = argument;
    struct held *held = a->held;
    unsigned char *scratch = held->scratch + (size_t)worker * held->scratch_bytes;
    if (held->kind == HELD_KEYS) {
        struct view key = rows_of_call(&a->call->key, head, 0, a->rows);
        struct view value = rows_of_call(&a->call->value, head, 0, a->rows);
        for (size_t i = 0; i < a->rows; i++) {
            memcpy(row_of(held, held->keys, head, held->count + i), view_row(key, i),
                   held->dim * sizeof(float));
            memcpy(row_of(held, held->values, head, held->count + i), view_row(value, i),
                   held->dim * sizeof(float));
        }
        return;
    }
    const struct stream stream = stream_of(held, head, false);
    for (size_t first = 0; first < a->rows; first += CHUNK) {
        size_t rows = size_min(a->rows - first, CHUNK);
        const struct stream_chunk chunk = {.key = rows_of_call(&a->call->key, head, first, rows),
                                           .value = rows_of_call(&a->call->value, head, first, rows)};
        /* The shapes are right, so it cannot fail. */
        stream_absorb_chunk(held->host, &stream, held->count + first, &chunk,
                            held->states + head * held->state_bytes, scratch);
    }
}

void held_absorb(struct held *held, const struct attention_call *call)
{
    struct absorption a = {held, call, call->plan->shape.key_offsets[1]};
    assert(call->plan->shape.num_sequences == 1 && held->count + a.rows <= held->shape.context);
    pool_run(held->shape.pool, absorb_head, &a, held->heads);
    held->count += a.rows;
}

void held_spread(struct held *held)
{
    for (size_t unit = held->heads; unit < units_of(held); unit++) {
        size_t from = unit % held->heads, bytes = held->count * held->dim * sizeof(float);
        if (held->kind == HELD_STATE) {
            memcpy(held->states + unit * held->state_bytes, held->states + from * held->state_bytes,
                   held->state_bytes);
            continue;
        }
        memcpy(row_of(held, held->keys, unit, 0), row_of(held, held->keys, from, 0), bytes);
        memcpy(row_of(held, held->values, unit, 0), row_of(held, held->values, from, 0), bytes);
    }
}

/* ---- one token ---------------------------------------------------------------------------------------- */

struct token {
    struct held *held;
    const float *query, *key, *value;
    float *out;
};

static void state_head(const struct token *token, size_t unit, size_t at, unsigned char *scratch)
{
    struct held *held = token->held;
    const struct stream stream = stream_of(held, unit % held->heads, true);
    const struct stream_chunk chunk = {
        .query = view_of(token->query + at, 1, held->dim),
        .key = view_of(token->key + at, 1, held->dim),
        .value = view_of(token->value + at, 1, held->dim),
        .out = view_of(token->out + at, 1, held->dim),
    };
    stream_read_chunk(held->host, &stream, held->count, &chunk, held->states + unit * held->state_bytes,
                      scratch);
}

static void keys_head(const struct token *token, size_t unit, size_t at, unsigned char *scratch)
{
    struct held *held = token->held;
    const struct head_group *group = &held->shape.mixing->group;
    size_t head = unit % held->heads, n = held->count + 1, bytes = held->dim * sizeof(float);
    size_t seen = group->mechanism->last_keys(group->options, n);
    memcpy(row_of(held, held->keys, unit, n - 1), token->key + at, bytes);
    memcpy(row_of(held, held->values, unit, n - 1), token->value + at, bytes);
    const struct problem problem = {
        .kernels = held->shape.kernels,
        .shape = shape_of(held, seen),
        .options = group->options,
        .query = view_of(token->query + at, 1, held->dim),
        .key = view_of(row_of(held, held->keys, unit, n - seen), seen, held->dim),
        .value = view_of(row_of(held, held->values, unit, n - seen), seen, held->dim),
        .visible = &seen,
        .random_key = key_of(held, head),
        .params = held->own == NULL ? NULL : held->own + head * held->shape.mixing->own_count,
        .saved = scratch,
        .scratch = scratch + held->saved_bytes,
    };
    group->mechanism->host.forward(&problem, view_of(token->out + at, 1, held->dim));
}

static void mix_head(void *argument, size_t unit, int worker)
{
    const struct token *token = argument;
    const struct held *held = token->held;
    unsigned char *scratch = held->scratch + (size_t)worker * held->scratch_bytes;
    size_t head = held->shape.mixing->first_head + unit % held->heads;
    size_t at = unit / held->heads * held->shape.attention->dim + head * held->dim;
    if (held->kind == HELD_STATE)
        state_head(token, unit, at, scratch);
    else
        keys_head(token, unit, at, scratch);
}

void held_mix(struct held *held, const float *query, const float *key, const float *value, float *out)
{
    struct token token = {held, query, key, value, out};
    assert(held->count < held->shape.context);
    pool_run(held->shape.pool, mix_head, &token, units_of(held));
    held->count++;
}
