/* States and rows: one unit of work per (sequence, head), on the pool. A cache spreads its own work. During a
   prompt a cache has one sequence, whose pages the others share afterwards.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/generation/held.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "attention/driver/stream.h"
#include "base/memory.h"
#include "base/random.h"
#include "decoding/kv_cache.h"
#include "nn/few_rows.h"

enum { CHUNK = 256 }; /* keys that a state absorbs at a time */

struct held {
    struct host *host;
    struct held_shape shape;
    enum held_kind kind;
    size_t heads, dim; /* dim: of a head */
    size_t count;      /* tokens so far */
    float *own;        /* (heads, own_count) parameters; or NULL */
    /* HELD_STATE */
    struct stream stream, absorbing; /* token by token; keys only */
    unsigned char *states;           /* (sequences, heads) */
    size_t state_bytes;
    unsigned char *scratch; /* (threads) */
    size_t scratch_bytes;
    /* HELD_KEYS */
    bool caches; /* the cache is open */
    struct kv_cache cache;
};

static bool windowed(const struct mechanism *mechanism, const void *options, size_t *window, size_t *step)
{
    return mechanism->softmax_window != NULL && mechanism->softmax_window(options, window, step);
}

enum held_kind held_kind(const struct mechanism *mechanism, const void *options, size_t head_dim)
{
    size_t window, step;
    if (mechanism->stream != NULL)
        return HELD_STATE;
    if (head_dim <= KV_WIDEST && windowed(mechanism, options, &window, &step))
        return HELD_KEYS;
    return mechanism->mixes ? HELD_NOTHING : HELD_ROW;
}

static size_t units_of(const struct held *held)
{
    return size_product(held->shape.sequences, held->heads);
}

/* ---- making ------------------------------------------------------------------------------------------- */

static struct stream stream_of(const struct held *held, size_t head, bool causal)
{
    struct stream stream = causal ? held->stream : held->absorbing;
    stream.random_key = random_key(held->shape.call_key, RANDOM_HEAD, held->shape.mixing->first_head + head);
    stream.params = held->own == NULL ? NULL : held->own + head * held->shape.mixing->own_count;
    return stream;
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
    size_t bytes = size_product(units_of(held), held->state_bytes);
    FAIL_IF(bytes > memory_of_machine(), host, HASHATTN_NO_MEMORY,
            "the states of %zu heads of %s need %zu bytes, this machine has %zu", units_of(held),
            group->mechanism->name, bytes, memory_of_machine());
    TRY(memory_new(host, units_of(held), held->state_bytes, "the states of heads", &block));
    held->states = block;
    held->scratch_bytes =
        size_aligned(size_max(stream_scratch_size(&held->stream), stream_scratch_size(&held->absorbing)));
    TRY(memory_new(host, (size_t)pool_threads(shape->pool), held->scratch_bytes, "scratch of heads", &block));
    held->scratch = block;
    return HASHATTN_OK;
}

static hashattn_status make_cache(struct host *host, struct held *held)
{
    const struct held_shape *shape = &held->shape;
    const struct head_group *group = &shape->mixing->group;
    struct kv_options options = {
        .num_sequences = 1,
        .num_heads = held->heads,
        .kv_heads = held->heads,
        .head_dim = held->dim,
        .dtype = shape->attention->precision == PRECISION_BF16 ? DTYPE_BFLOAT16 : DTYPE_FLOAT32,
        .scale = (float)(1 / sqrt((double)held->dim)),
    };
    bool found = windowed(group->mechanism, group->options, &options.window, &options.window_step);
    (void)found;
    assert(found);
    TRY(kv_cache_new(host, shape->kernels, shape->pool, kv_mechanism_find("softmax"), &options,
                     &held->cache));
    held->caches = true;
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
    if (held->kind == HELD_STATE)
        TRY(make_states(host, held));
    else if (held->kind == HELD_KEYS)
        TRY(make_cache(host, held));
    return held_clear(held);
}

hashattn_status held_new(struct host *host, const struct held_shape *shape, struct held **out)
{
    const struct head_group *group = &shape->mixing->group;
    void *block;
    *out = NULL;
    assert(shape->sequences > 0 && shape->sequences <= FEW_ROWS);
    TRY(memory_new_zeroed(host, 1, sizeof **out, "what heads hold", &block));
    struct held *held = block;
    held->host = host;
    held->shape = *shape;
    held->heads = group->heads;
    held->dim = shape->attention->head_dim;
    held->kind = held_kind(group->mechanism, group->options, held->dim);
    assert(held->kind != HELD_NOTHING);
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
    if (held->caches)
        kv_cache_free(&held->cache);
    memory_free(host, held->scratch);
    memory_free(host, held->states);
    memory_free(host, held->own);
    memory_free(host, held);
}

hashattn_status held_clear(struct held *held)
{
    const size_t first[] = {0};
    held->count = 0;
    for (size_t unit = 0; held->kind == HELD_STATE && unit < units_of(held); unit++) {
        const struct stream stream = stream_of(held, unit % held->heads, true);
        stream_open(&stream, held->states + unit * held->state_bytes, held->scratch);
    }
    if (held->kind != HELD_KEYS)
        return HASHATTN_OK;
    TRY(kv_cache_reorder(&held->cache, first, 1));
    kv_cache_truncate(&held->cache, 0, 0);
    return HASHATTN_OK;
}

/* ---- the tokens of a prompt --------------------------------------------------------------------------- */

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
    const struct stream stream = stream_of(held, head, false);
    for (size_t first = 0; first < a->rows; first += CHUNK) {
        size_t rows = size_min(a->rows - first, CHUNK);
        const struct stream_chunk chunk = {.key = rows_of_call(&a->call->key, head, first, rows),
                                           .value = rows_of_call(&a->call->value, head, first, rows)};
        /* The shapes are right, so it cannot fail. */
        stream_absorb_chunk(held->host, &stream, first, &chunk, held->states + head * held->state_bytes,
                            held->scratch + (size_t)worker * held->scratch_bytes);
    }
}

static struct kv_rows rows_of_packed(const struct packed *packed)
{
    return (struct kv_rows){.data = packed->data,
                            .dtype = DTYPE_FLOAT32,
                            .row_stride = packed->row_stride,
                            .head_stride = packed->head_stride};
}

hashattn_status held_absorb(struct held *held, const struct attention_call *call)
{
    struct absorption a = {held, call, call->plan->shape.key_offsets[1]};
    assert(call->plan->shape.num_sequences == 1 && held->count == 0);
    if (held->kind == HELD_STATE)
        pool_run(held->shape.pool, absorb_head, &a, held->heads);
    else if (held->kind == HELD_KEYS)
        TRY(kv_cache_append(&held->cache, a.rows, rows_of_packed(&call->key), rows_of_packed(&call->value),
                            NULL));
    held->count = a.rows;
    return HASHATTN_OK;
}

hashattn_status held_spread(struct held *held)
{
    const size_t from[FEW_ROWS] = {0};
    for (size_t unit = held->heads; held->kind == HELD_STATE && unit < units_of(held); unit++)
        memcpy(held->states + unit * held->state_bytes, held->states + unit % held->heads * held->state_bytes,
               held->state_bytes);
    return held->kind == HELD_KEYS ? kv_cache_reorder(&held->cache, from, held->shape.sequences)
                                   : HASHATTN_OK;
}

/* ---- one token ---------------------------------------------------------------------------------------- */

struct token {
    struct held *held;
    const float *query, *key, *value;
    float *out;
};

static void state_head(const struct token *token, size_t unit, size_t at, int worker)
{
    struct held *held = token->held;
    const struct stream stream = stream_of(held, unit % held->heads, true);
    const struct stream_chunk chunk = {
        .query = view_of(token->query + at, 1, held->dim),
        .key = view_of(token->key + at, 1, held->dim),
        .value = view_of(token->value + at, 1, held->dim),
        .out = view_of(token->out + at, 1, held->dim),
    };
    /* As above. */
    stream_read_chunk(held->host, &stream, held->count, &chunk, held->states + unit * held->state_bytes,
                      held->scratch + (size_t)worker * held->scratch_bytes);
}

/* A mechanism that does not mix rows has no memory. */
static void row_head(const struct token *token, size_t at)
{
    const struct held *held = token->held;
    const struct head_group *group = &held->shape.mixing->group;
    const size_t visible = 1;
    const struct problem problem = {
        .kernels = held->shape.kernels,
        .shape = {.num_queries = 1,
                  .num_keys = 1,
                  .head_dim = held->dim,
                  .value_dim = held->dim,
                  .causal = true,
                  .workers = 1},
        .options = group->options,
        .query = view_of(token->query + at, 1, held->dim),
        .key = view_of(token->key + at, 1, held->dim),
        .value = view_of(token->value + at, 1, held->dim),
        .visible = &visible,
    };
    assert(group->mechanism->host.scratch_size(group->options, &problem.shape) == 0);
    group->mechanism->host.forward(&problem, view_of(token->out + at, 1, held->dim));
}

static void mix_head(void *argument, size_t unit, int worker)
{
    const struct token *token = argument;
    const struct held *held = token->held;
    size_t head = held->shape.mixing->first_head + unit % held->heads;
    size_t at = unit / held->heads * held->shape.attention->dim + head * held->dim;
    if (held->kind == HELD_STATE)
        state_head(token, unit, at, worker);
    else
        row_head(token, at);
}

/* The columns of the group's heads. */
static struct kv_rows rows_of_token(const struct held *held, const float *rows)
{
    return (struct kv_rows){.data = (float *)(uintptr_t)(rows + held->shape.mixing->first_head * held->dim),
                            .dtype = DTYPE_FLOAT32,
                            .sequence_stride = held->shape.attention->dim,
                            .head_stride = held->dim};
}

static hashattn_status mix_keys(const struct token *token)
{
    struct held *held = token->held;
    TRY(kv_cache_append(&held->cache, 1, rows_of_token(held, token->key), rows_of_token(held, token->value),
                        NULL));
    return kv_cache_attend(&held->cache, 1, rows_of_token(held, token->query),
                           rows_of_token(held, token->out));
}

hashattn_status held_mix(struct held *held, const float *query, const float *key, const float *value,
                         float *out)
{
    struct token token = {held, query, key, value, out};
    if (held->kind == HELD_KEYS)
        TRY(mix_keys(&token));
    else
        pool_run(held->shape.pool, mix_head, &token, units_of(held));
    held->count++;
    return HASHATTN_OK;
}
