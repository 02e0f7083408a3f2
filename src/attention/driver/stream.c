/* The loop over chunks. A state block holds the result of `prepare` for the call and then the mechanism's
   own state, so it can be stored and resumed. Cost: the mechanism's, and a copy of a chunk's kept rows if
   its mask has holes.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/driver/stream.h"

#include <assert.h>
#include <string.h>

#include "attention/driver/kept.h"
#include "base/memory.h"

static struct problem_shape shape_of(const struct stream *stream, size_t queries, size_t keys)
{
    return (struct problem_shape){
        .num_queries = queries,
        .num_keys = keys,
        .head_dim = stream->head_dim,
        .value_dim = stream->value_dim,
        .causal = stream->causal,
        .streamed = true,
        .workers = (size_t)pool_threads(stream->pool),
    };
}

struct state_memory {
    void *shared, *state;
    size_t state_bytes, bytes;
};

static struct state_memory state_memory(const struct stream *stream, const void *block)
{
    const struct mechanism *mechanism = stream->mechanism;
    struct problem_shape shape = shape_of(stream, 0, 0);
    struct arena arena = arena_on((void *)block);
    struct state_memory memory = {.state_bytes = mechanism->stream->state_size(stream->options, &shape)};
    if (mechanism->preparation != NULL)
        memory.shared =
            arena_take(&arena, mechanism->preparation->shared_size(stream->options, stream->head_dim), 1);
    memory.state = arena_take(&arena, memory.state_bytes, 1);
    memory.bytes = arena.used;
    return memory;
}

struct chunk_memory {
    size_t *visible;
    float *key, *value; /* kept rows, for a mechanism without sees_mask */
    void *mechanism;
    size_t bytes;
};

static struct chunk_memory chunk_memory(const struct stream *stream, void *block)
{
    struct chunk_memory memory = {0};
    struct arena arena = arena_on(block);
    struct problem_shape shape = shape_of(stream, stream->chunk_rows, stream->chunk_rows);
    if (stream->causal)
        memory.visible = arena_take(&arena, stream->chunk_rows, sizeof *memory.visible);
    if (!stream->mechanism->sees_mask) {
        memory.key = arena_take(&arena, size_product(stream->chunk_rows, stream->head_dim), sizeof(float));
        memory.value = arena_take(&arena, size_product(stream->chunk_rows, stream->value_dim), sizeof(float));
    }
    memory.mechanism =
        arena_take(&arena, stream->mechanism->stream->scratch_size(stream->options, &shape), 1);
    memory.bytes = arena.used;
    return memory;
}

size_t stream_state_size(const struct stream *stream)
{
    return state_memory(stream, NULL).bytes;
}

size_t stream_scratch_size(const struct stream *stream)
{
    const struct mechanism *mechanism = stream->mechanism;
    size_t chunks = chunk_memory(stream, NULL).bytes, opening = 0;
    if (mechanism->preparation != NULL && mechanism->preparation->scratch_size != NULL)
        opening = mechanism->preparation->scratch_size(stream->options, stream->head_dim,
                                                       (size_t)pool_threads(stream->pool));
    return chunks > opening ? chunks : opening;
}

hashattn_status stream_check(struct host *host, const struct stream *stream)
{
    const struct mechanism *mechanism = stream->mechanism;
    FAIL_IF(mechanism->stream == NULL, host, HASHATTN_REFUSED,
            "%s has no state of constant size, so it cannot read a sequence in chunks", mechanism->name);
    FAIL_IF(stream->head_dim < 1 || stream->value_dim < 1 || stream->chunk_rows < 1, host, HASHATTN_INVALID,
            "head_dim is %zu, value_dim %zu, chunk_rows %zu; each must be at least 1", stream->head_dim,
            stream->value_dim, stream->chunk_rows);
    struct problem_shape shape = shape_of(stream, stream->chunk_rows, stream->chunk_rows);
    const char *why = mechanism_refuses(mechanism, stream->options, &shape);
    char sentence[300] = "";
    if (why != NULL)
        options_fill(mechanism->options, stream->options, why, sentence, sizeof sentence);
    FAIL_IF(why != NULL, host, HASHATTN_REFUSED, "%s: %s (in chunks of %zu rows, head_dim %zu)",
            mechanism->name, sentence, stream->chunk_rows, stream->head_dim);
    size_t state = stream_state_size(stream), scratch = stream_scratch_size(stream);
    FAIL_IF(state >= PTRDIFF_MAX || scratch >= PTRDIFF_MAX, host, HASHATTN_NO_MEMORY,
            "%s in chunks of %zu rows needs more bytes than can be counted (state %zu, scratch %zu)",
            mechanism->name, stream->chunk_rows, state, scratch);
    return HASHATTN_OK;
}

void stream_open(const struct stream *stream, void *state, void *scratch)
{
    struct state_memory memory = state_memory(stream, state);
    const struct preparation preparation = {.kernels = stream->kernels,
                                            .options = stream->options,
                                            .head_dim = stream->head_dim,
                                            .call_key = stream->call_key,
                                            .pool = stream->pool,
                                            .shared = memory.shared,
                                            .scratch = scratch};
    if (stream->mechanism->preparation != NULL)
        stream->mechanism->preparation->prepare(&preparation);
    memset(memory.state, 0, memory.state_bytes);
}

static hashattn_status check_view(struct host *host, const char *what, size_t position,
                                  const struct view *view, size_t rows, size_t cols)
{
    FAIL_IF(view->rows != rows || view->cols != cols, host, HASHATTN_INVALID,
            "%s of the chunk at %zu is %zu x %zu, %zu x %zu is needed", what, position, view->rows,
            view->cols, rows, cols);
    return HASHATTN_OK;
}

enum side { KEYS = 1, QUERIES = 2 };

static hashattn_status check_chunk(struct host *host, const struct stream *stream, int sides, size_t position,
                                   const struct stream_chunk *chunk)
{
    size_t rows = sides & KEYS ? chunk->key.rows : chunk->query.rows;
    FAIL_IF(rows > stream->chunk_rows, host, HASHATTN_INVALID,
            "the chunk at %zu has %zu rows, at most %zu are allowed", position, rows, stream->chunk_rows);
    if (sides & KEYS) {
        TRY(check_view(host, "key", position, &chunk->key, rows, stream->head_dim));
        TRY(check_view(host, "value", position, &chunk->value, rows, stream->value_dim));
    }
    if (sides & QUERIES) {
        TRY(check_view(host, "query", position, &chunk->query, rows, stream->head_dim));
        TRY(check_view(host, "out", position, &chunk->out, rows, stream->value_dim));
    }
    return HASHATTN_OK;
}

/* The chunk as a problem of the given sides; only its kept keys, unless the mechanism sees_mask. */
static struct problem problem_of(const struct stream *stream, int sides, const struct stream_chunk *chunk,
                                 const struct state_memory *state, const struct chunk_memory *memory)
{
    struct problem problem = {
        .kernels = stream->kernels,
        .options = stream->options,
        .random_key = stream->random_key,
        .shared = state->shared,
        .params = stream->params,
        .scratch = memory->mechanism,
        .pool = stream->pool,
    };
    if (sides & QUERIES)
        problem.query = chunk->query;
    if (sides & KEYS) {
        problem.key = chunk->key;
        problem.value = chunk->value;
        if (stream->mechanism->sees_mask) {
            problem.key_mask = chunk->key_mask;
        } else {
            struct kept kept = kept_count(chunk->key_mask, chunk->key.rows);
            if (!kept.prefix) {
                problem.key = kept_gather(stream->kernels, (chunk->key), chunk->key_mask, kept, memory->key);
                problem.value =
                    kept_gather(stream->kernels, (chunk->value), chunk->key_mask, kept, memory->value);
            }
            problem.key.rows = problem.value.rows = kept.count;
        }
    }
    if (stream->causal) {
        kept_visible(stream->mechanism->sees_mask ? NULL : chunk->key_mask, problem.query.rows,
                     memory->visible);
        problem.visible = memory->visible;
    }
    problem.shape = shape_of(stream, problem.query.rows, problem.key.rows);
    return problem;
}

static hashattn_status one_chunk(struct host *host, const struct stream *stream, int sides, size_t position,
                                 const struct stream_chunk *chunk, void *state, void *scratch)
{
    TRY(check_chunk(host, stream, sides, position, chunk));
    struct state_memory held = state_memory(stream, state);
    struct chunk_memory memory = chunk_memory(stream, scratch);
    struct problem problem = problem_of(stream, sides, chunk, &held, &memory);
    if (sides & QUERIES && problem.shape.num_queries > 0)
        stream->mechanism->stream->read(&problem, held.state, position, chunk->out);
    else if (problem.shape.num_keys > 0)
        stream->mechanism->stream->absorb(&problem, held.state, position);
    return HASHATTN_OK;
}

static int sides_of_read(const struct stream *stream)
{
    return stream->causal ? KEYS | QUERIES : QUERIES;
}

hashattn_status stream_absorb_chunk(struct host *host, const struct stream *stream, size_t position,
                                    const struct stream_chunk *chunk, void *state, void *scratch)
{
    assert(!stream->causal);
    return one_chunk(host, stream, KEYS, position, chunk, state, scratch);
}

hashattn_status stream_read_chunk(struct host *host, const struct stream *stream, size_t position,
                                  const struct stream_chunk *chunk, void *state, void *scratch)
{
    return one_chunk(host, stream, sides_of_read(stream), position, chunk, state, scratch);
}

static hashattn_status each_chunk(struct host *host, const struct stream *stream, int sides, size_t first,
                                  stream_source source, void *user, void *state, void *scratch)
{
    for (size_t position = first;;) {
        struct stream_chunk chunk = {.key_mask = NULL};
        TRY(source(user, host, position, &chunk));
        TRY(one_chunk(host, stream, sides, position, &chunk, state, scratch));
        size_t rows = sides & KEYS ? chunk.key.rows : chunk.query.rows;
        if (rows == 0)
            return HASHATTN_OK;
        position += rows;
    }
}

hashattn_status stream_absorb(struct host *host, const struct stream *stream, size_t first,
                              stream_source source, void *user, void *state, void *scratch)
{
    assert(!stream->causal);
    return each_chunk(host, stream, KEYS, first, source, user, state, scratch);
}

hashattn_status stream_read(struct host *host, const struct stream *stream, size_t first,
                            stream_source source, void *user, void *state, void *scratch)
{
    return each_chunk(host, stream, sides_of_read(stream), first, source, user, state, scratch);
}

void stream_merge(const struct stream *stream, void *into, const void *from)
{
    struct problem_shape shape = shape_of(stream, 0, 0);
    stream->mechanism->stream->merge(stream->options, &shape, state_memory(stream, into).state,
                                     state_memory(stream, from).state);
}
