/* Public streams. A chunk is checked like the arrays of a call; then each head is one stream of
   attention/driver/stream.h. If there are at least as many heads as threads, heads run in parallel; otherwise
   one after another, each on all threads. One of the threads fetches the next chunk of a source and then
   helps with the current one, because a further thread would compete for a processor. Cost beyond the
   mechanism: one pass over each chunk to find NaN.
   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "api/floating.h"
#include "api/handles.h"
#include "api/operator/operands.h"
#include "api/operator/own_params.h"
#include "api/versions/versions.h"
#include "attention/driver/row_range.h"
#include "attention/driver/stream.h"
#include "base/memory.h"
#include "base/random.h"
#include "hashattn/stream.h"
#include "parts/rows/overlap.h"

struct hashattn_stream {
    struct hashattn_context *context;
    hashattn_stream_options given;
    struct stream heads; /* described for the first head */
    void *options;       /* a copy of the mechanism's options */
    float *params;       /* a copy of its learned parameters, (heads, param_count); or NULL */
    size_t param_count;
    bool spread; /* one head at a time, on all threads */
    size_t state_bytes, scratch_bytes;
    size_t absorbed, answered;       /* rows so far; a causal stream counts only answered */
    unsigned char *states, *scratch; /* states: (heads); scratch: (heads that run in parallel) */
};

void hashattn_stream_options_default_sized(hashattn_stream_options *options, size_t struct_size)
{
    const hashattn_stream_options own = {.num_heads = 1, .chunk_rows = 1};
    version_fill_options(options, struct_size, &own, sizeof own);
}

/* ---- making -------------------------------------------------------------------------------------------- */

static struct stream head_at(const struct hashattn_stream *stream, size_t head)
{
    struct stream one = stream->heads;
    one.random_key = random_key(one.call_key, RANDOM_HEAD, stream->given.first_head + head);
    one.params = stream->params == NULL ? NULL : stream->params + head * stream->param_count;
    return one;
}

static size_t heads_at_once(const struct hashattn_stream *stream)
{
    return stream->spread ? 1 : (size_t)pool_threads(stream->context->pool);
}

static hashattn_status check_memory(struct host *host, const struct hashattn_stream *stream)
{
    size_t states = size_product(stream->given.num_heads, stream->state_bytes);
    size_t all = size_sum(states, size_product(heads_at_once(stream), stream->scratch_bytes));
    FAIL_IF(
        all > memory_of_machine(), host, HASHATTN_NO_MEMORY,
        "%s would hold %zu bytes for %zu heads (%zu a head) and %zu for chunks of %zu rows; this machine has "
        "%zu",
        stream->heads.mechanism->name, states, stream->given.num_heads, stream->state_bytes,
        all == SIZE_MAX ? stream->scratch_bytes : all - states, stream->given.chunk_rows,
        memory_of_machine());
    return HASHATTN_OK;
}

/* Copies the learned parameters that the attention has for these heads, or draws from the seed. */
static hashattn_status copy_params(struct hashattn_attention *attention, struct hashattn_stream *stream)
{
    const hashattn_stream_options *given = &stream->given;
    const struct parameter_sizes sizes = {given->head_dim, given->value_dim, 0};
    hashattn_problem problem;
    void *block;
    stream->param_count = attention_param_count(attention->mechanism, stream->options, &sizes);
    if (stream->param_count == 0)
        return HASHATTN_OK;
    hashattn_problem_default(&problem);
    problem.num_heads = given->num_heads;
    problem.head_dim = given->head_dim;
    problem.value_dim = given->value_dim;
    problem.seed = given->seed;
    TRY(own_params_for(attention, &problem));
    size_t floats = size_product(given->num_heads, stream->param_count);
    TRY(memory_new(&attention->context->host, floats, sizeof(float), "learned parameters of a stream",
                   &block));
    stream->params = memcpy(block, attention->params, floats * sizeof(float));
    return HASHATTN_OK;
}

static hashattn_status make(struct hashattn_attention *attention, struct hashattn_stream *stream)
{
    struct hashattn_context *context = attention->context;
    struct host *host = &context->host;
    const hashattn_stream_options *given = &stream->given;
    void *block;
    FAIL_IF(given->num_heads == 0, host, HASHATTN_INVALID, "num_heads is 0, at least 1 is needed");
    TRY(memory_new(host, 1, attention->mechanism->options_size, "options", &stream->options));
    if (stream->options != NULL)
        memcpy(stream->options, attention->options, attention->mechanism->options_size);
    stream->spread = given->num_heads < (size_t)pool_threads(context->pool);
    stream->heads = (struct stream){
        .kernels = context->kernels,
        .mechanism = attention->mechanism,
        .options = stream->options,
        .head_dim = given->head_dim,
        .value_dim = given->value_dim,
        .causal = given->causal != 0,
        .chunk_rows = given->chunk_rows,
        .pool = stream->spread ? context->pool : NULL,
        .call_key = random_key(given->seed, RANDOM_EVALUATION, 0),
    };
    TRY(stream_check(host, &stream->heads));
    stream->state_bytes = stream_state_size(&stream->heads);
    stream->scratch_bytes = stream_scratch_size(&stream->heads);
    TRY(check_memory(host, stream));
    TRY(copy_params(attention, stream));
    TRY(memory_new(host, given->num_heads, stream->state_bytes, "the state of a stream", &block));
    stream->states = block;
    TRY(memory_new(host, heads_at_once(stream), stream->scratch_bytes, "chunks of a stream", &block));
    stream->scratch = block;
    hashattn_stream_clear(stream);
    return HASHATTN_OK;
}

hashattn_status hashattn_stream_new(hashattn_attention *attention, const hashattn_stream_options *options,
                                    hashattn_stream **stream)
{
    if (attention == NULL)
        return HASHATTN_INVALID;
    struct host *host = &attention->context->host;
    FAIL_IF(stream == NULL, host, HASHATTN_INVALID, "stream is NULL");
    *stream = NULL;
    hashattn_stream_options own;
    hashattn_stream_options_default(&own);
    TRY(version_take(host, &own, sizeof own, options, first_sizes.stream_options, "options"));
    void *block;
    TRY(memory_new_zeroed(host, 1, sizeof(struct hashattn_stream), "a stream", &block));
    struct hashattn_stream *made = block;
    made->context = attention->context;
    made->given = own;
    hashattn_status status = make(attention, made);
    if (status != HASHATTN_OK) {
        hashattn_stream_free(made);
        return status;
    }
    *stream = made;
    return HASHATTN_OK;
}

void hashattn_stream_free(hashattn_stream *stream)
{
    if (stream == NULL)
        return;
    struct host *host = &stream->context->host;
    memory_free(host, stream->scratch);
    memory_free(host, stream->states);
    memory_free(host, stream->params);
    memory_free(host, stream->options);
    memory_free(host, stream);
}

void hashattn_stream_clear(hashattn_stream *stream)
{
    stream->absorbed = stream->answered = 0;
    fenv_t callers;
    floating_begin(&callers);
    for (size_t h = 0; h < stream->given.num_heads; h++)
        stream_open(&stream->heads, stream->states + h * stream->state_bytes, stream->scratch);
    floating_end(&callers);
}

size_t hashattn_stream_bytes(const hashattn_stream *stream)
{
    return stream->given.num_heads * stream->state_bytes + heads_at_once(stream) * stream->scratch_bytes;
}

/* ---- checking a chunk ---------------------------------------------------------------------------------- */

enum { READ = 1, ABSORB = 2 };

struct part {
    const char *name;
    const hashattn_array *array;
    size_t width;
};

/* The chunk being processed. */
struct step {
    struct hashattn_stream *stream;
    const hashattn_chunk *chunk;
    int what;
    size_t position;
    struct part parts[3]; /* the inputs */
    size_t num_parts;
};

static bool is_absent(const struct step *step, const struct part *part, size_t row)
{
    return part->array != &step->chunk->query && step->chunk->key_mask != NULL &&
           step->chunk->key_mask[row] == 0;
}

static const float *part_row(const struct part *part, size_t head, size_t row)
{
    const float *data = part->array->data;
    return data + row * part->array->row_stride + head * part->array->head_stride;
}

static struct packed packed_of(const hashattn_array *array, size_t width)
{
    return (struct packed){.data = array->data,
                           .width = width,
                           .row_stride = array->row_stride,
                           .head_stride = array->head_stride};
}

/* The numbers of the chunk, as those of a call of one sequence. */
static hashattn_status check_numbers(struct host *host, const struct step *step)
{
    const hashattn_chunk *chunk = step->chunk;
    const hashattn_stream_options *given = &step->stream->given;
    const size_t offsets[] = {0, chunk->rows};
    const struct attention_plan shapes = {.shape = {.kernels = step->stream->heads.kernels,
                                                    .pool = step->stream->context->pool,
                                                    .mechanism = step->stream->heads.mechanism,
                                                    .options = step->stream->options,
                                                    .num_sequences = 1,
                                                    .num_heads = given->num_heads,
                                                    .head_dim = given->head_dim,
                                                    .value_dim = given->value_dim,
                                                    .query_offsets = offsets,
                                                    .key_offsets = offsets,
                                                    .masked = chunk->key_mask != NULL}};
    struct attention_call call = {.plan = &shapes, .key_mask = chunk->key_mask};
    if (step->what & READ)
        call.query = packed_of(&chunk->query, given->head_dim);
    if (step->what & ABSORB) {
        call.key = packed_of(&chunk->key, given->head_dim);
        call.value = packed_of(&chunk->value, given->value_dim);
    }
    return row_range_check(host, &call, NULL, &step->position);
}

/* Like operand_check_lengths for a call; `limit` applies to queries and keys. */
static hashattn_status check_lengths(struct host *host, const struct step *step, const struct part *part,
                                     double limit)
{
    for (size_t h = 0; limit > 0 && part->array != &step->chunk->value && h < step->stream->given.num_heads;
         h++)
        for (size_t r = 0; r < step->chunk->rows; r++) {
            double length =
                sqrt(step->stream->heads.kernels->rows.sum_squares(part_row(part, h, r), part->width));
            FAIL_IF(length > limit * (1 + 1e-6) && !is_absent(step, part, r), host, HASHATTN_INVALID,
                    "%s has length %g at row %zu of the sequence, head %zu; max_norm is %g", part->name,
                    length, step->position + r, h, limit);
        }
    return HASHATTN_OK;
}

static hashattn_status check_array(struct host *host, const struct step *step, const char *name,
                                   const hashattn_array *array, size_t width)
{
    size_t heads = step->stream->given.num_heads, rows = step->chunk->rows;
    FAIL_IF(array->data == NULL, host, HASHATTN_INVALID, "%s.data is NULL for %zu rows", name, rows);
    FAIL_IF(rows > 1 && array->row_stride < width, host, HASHATTN_INVALID,
            "%s: row_stride is %zu, at least %zu is needed", name, array->row_stride, width);
    FAIL_IF(array->row_stride > PTRDIFF_MAX / 8 / rows || array->head_stride > PTRDIFF_MAX / 8 / heads, host,
            HASHATTN_INVALID, "%s: strides of %zu and %zu are too large for %zu rows and %zu heads", name,
            array->row_stride, array->head_stride, rows, heads);
    struct operand_step steps[] = {{"row_stride", rows, array->row_stride},
                                   {"head_stride", heads, array->head_stride}};
    return array == &step->chunk->out ? operand_check_apart(host, name, width, steps, 2) : HASHATTN_OK;
}

/* The bytes of a chunk's array. */
static struct spread bytes_of(const struct step *step, const hashattn_array *array, size_t width)
{
    return (struct spread){.start = (uintptr_t)array->data,
                           .width = width * sizeof(float),
                           .num_steps = 2,
                           .step = {{step->chunk->rows, array->row_stride * sizeof(float)},
                                    {step->stream->given.num_heads, array->head_stride * sizeof(float)}}};
}

static hashattn_status check_step(struct host *host, struct step *step)
{
    const hashattn_chunk *chunk = step->chunk;
    const hashattn_stream_options *given = &step->stream->given;
    FAIL_IF(chunk->rows > given->chunk_rows, host, HASHATTN_INVALID,
            "the chunk at row %zu has %zu rows, at most %zu are allowed", step->position, chunk->rows,
            given->chunk_rows);
    if (chunk->rows == 0)
        return HASHATTN_OK;
    if (step->what & READ) {
        step->parts[step->num_parts++] = (struct part){"query", &chunk->query, given->head_dim};
        TRY(check_array(host, step, "out", &chunk->out, given->value_dim));
    }
    if (step->what & ABSORB) {
        step->parts[step->num_parts++] = (struct part){"key", &chunk->key, given->head_dim};
        step->parts[step->num_parts++] = (struct part){"value", &chunk->value, given->value_dim};
        for (size_t r = 0; chunk->key_mask != NULL && r < chunk->rows; r++)
            FAIL_IF(chunk->key_mask[r] > 1, host, HASHATTN_INVALID,
                    "key_mask is %u at row %zu of the sequence, allowed are 0 and 1", chunk->key_mask[r],
                    step->position + r);
    }
    for (size_t p = 0; p < step->num_parts; p++)
        TRY(check_array(host, step, step->parts[p].name, step->parts[p].array, step->parts[p].width));
    for (size_t p = 0; p < step->num_parts && (step->what & READ) != 0; p++)
        FAIL_IF(spread_overlap(bytes_of(step, &chunk->out, given->value_dim),
                               bytes_of(step, step->parts[p].array, step->parts[p].width)),
                host, HASHATTN_INVALID, "out overlaps %s: an output must not share memory with another array",
                step->parts[p].name);
    TRY(check_numbers(host, step));
    const struct mechanism *mechanism = step->stream->heads.mechanism;
    double limit = mechanism->norm_limit == NULL ? 0 : mechanism->norm_limit(step->stream->options);
    for (size_t p = 0; p < step->num_parts; p++)
        TRY(check_lengths(host, step, &step->parts[p], limit));
    return HASHATTN_OK;
}

/* ---- computing a chunk --------------------------------------------------------------------------------- */

static struct view chunk_view(const struct step *step, const hashattn_array *array, size_t head, size_t width)
{
    float *data = array->data;
    return (struct view){.data = data == NULL ? NULL : data + head * array->head_stride,
                         .rows = step->chunk->rows,
                         .cols = width,
                         .stride = array->row_stride};
}

static void head_of_chunk(void *argument, size_t head, int worker)
{
    const struct step *step = argument;
    struct hashattn_stream *stream = step->stream;
    const hashattn_chunk *given = step->chunk;
    size_t d = stream->given.head_dim, d_v = stream->given.value_dim;
    struct stream one = head_at(stream, head);
    const struct stream_chunk chunk = {
        .query = chunk_view(step, &given->query, head, d),
        .key = chunk_view(step, &given->key, head, d),
        .value = chunk_view(step, &given->value, head, d_v),
        .out = chunk_view(step, &given->out, head, d_v),
        .key_mask = given->key_mask,
    };
    void *state = stream->states + head * stream->state_bytes;
    void *scratch = stream->scratch + (size_t)worker * stream->scratch_bytes;
    /* The chunk has been checked, so nothing below can fail. */
    if (step->what & READ)
        stream_read_chunk(&stream->context->host, &one, step->position, &chunk, state, scratch);
    else
        stream_absorb_chunk(&stream->context->host, &one, step->position, &chunk, state, scratch);
}

static size_t *position_of(struct hashattn_stream *stream, int what)
{
    return what & READ ? &stream->answered : &stream->absorbed;
}

static hashattn_status run_chunk(struct hashattn_stream *stream, const hashattn_chunk *chunk, int what)
{
    struct step step = {
        .stream = stream, .chunk = chunk, .what = what, .position = *position_of(stream, what)};
    fenv_t callers;
    floating_begin(&callers);
    hashattn_status status = check_step(&stream->context->host, &step);
    if (status == HASHATTN_OK && chunk->rows > 0)
        pool_run(stream->spread ? NULL : stream->context->pool, head_of_chunk, &step,
                 stream->given.num_heads);
    floating_end(&callers);
    TRY(status);
    *position_of(stream, what) += chunk->rows;
    return HASHATTN_OK;
}

static int what_read_does(const struct hashattn_stream *stream)
{
    return stream->given.causal ? READ | ABSORB : READ;
}

static hashattn_status refuse_causal(struct hashattn_stream *stream)
{
    FAIL_IF(stream->given.causal, &stream->context->host, HASHATTN_INVALID,
            "a causal stream gets its keys with their queries, in hashattn_stream_read");
    return HASHATTN_OK;
}

static hashattn_status take_and_run(hashattn_stream *stream, const hashattn_chunk *chunk, int what)
{
    hashattn_chunk own = {.rows = 0};
    TRY(version_take(&stream->context->host, &own, sizeof own, chunk, first_sizes.chunk, "chunk"));
    return run_chunk(stream, &own, what);
}

hashattn_status hashattn_stream_absorb(hashattn_stream *stream, const hashattn_chunk *chunk)
{
    if (stream == NULL)
        return HASHATTN_INVALID;
    TRY(refuse_causal(stream));
    return take_and_run(stream, chunk, ABSORB);
}

hashattn_status hashattn_stream_read(hashattn_stream *stream, const hashattn_chunk *chunk)
{
    return stream == NULL ? HASHATTN_INVALID : take_and_run(stream, chunk, what_read_does(stream));
}

/* INVALID if the states of the two cannot be added. */
static hashattn_status check_alike(const hashattn_stream *into, const hashattn_stream *from)
{
    struct host *host = &into->context->host;
    const struct mechanism *mechanism = into->heads.mechanism;
    const hashattn_stream_options *a = &into->given, *b = &from->given;
    FAIL_IF(mechanism != from->heads.mechanism, host, HASHATTN_INVALID,
            "a stream of %s cannot be merged into one of %s", from->heads.mechanism->name, mechanism->name);
    FAIL_IF(mechanism->options_size > 0 && memcmp(into->options, from->options, mechanism->options_size) != 0,
            host, HASHATTN_INVALID, "the streams to merge have different options for %s", mechanism->name);
    const struct {
        const char *name;
        uint64_t into, from;
    } facts[] = {
        {"num_heads", a->num_heads, b->num_heads},    {"head_dim", a->head_dim, b->head_dim},
        {"value_dim", a->value_dim, b->value_dim},    {"causal", a->causal != 0, b->causal != 0},
        {"first_head", a->first_head, b->first_head}, {"seed", a->seed, b->seed},
    };
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
        FAIL_IF(facts[i].into != facts[i].from, host, HASHATTN_INVALID,
                "a stream of %s %" PRIu64 " cannot be merged into one of %s %" PRIu64, facts[i].name,
                facts[i].from, facts[i].name, facts[i].into);
    size_t params = into->given.num_heads * into->param_count * sizeof(float);
    FAIL_IF(params > 0 && memcmp(into->params, from->params, params) != 0, host, HASHATTN_INVALID,
            "the streams to merge have different learned parameters of %s", mechanism->name);
    return HASHATTN_OK;
}

hashattn_status hashattn_stream_merge(hashattn_stream *into, const hashattn_stream *from)
{
    if (into == NULL || from == NULL)
        return HASHATTN_INVALID;
    TRY(check_alike(into, from));
    fenv_t callers;
    floating_begin(&callers);
    for (size_t h = 0; h < into->given.num_heads; h++)
        stream_merge(&into->heads, into->states + h * into->state_bytes,
                     from->states + h * from->state_bytes);
    floating_end(&callers);
    return HASHATTN_OK;
}

/* ---- chunks of a source -------------------------------------------------------------------------------- */

/* Work done at the same time: `now` is computed, `before` is reported as done, `after` is fetched. */
struct chunks_in_flight {
    const hashattn_stream_source *source;
    hashattn_chunk before, now, after; /* no rows: none */
    size_t at_before, at_after;
    hashattn_status fetched;
};

static hashattn_status hand_over(struct chunks_in_flight *chunks)
{
    const hashattn_stream_source *source = chunks->source;
    if (chunks->before.rows > 0 && source->done != NULL)
        TRY(source->done(source->user, chunks->at_before, &chunks->before));
    memset(&chunks->after, 0, sizeof chunks->after);
    chunks->after.struct_size = sizeof chunks->after;
    return source->fetch(source->user, chunks->at_after, &chunks->after);
}

static void fetch(void *argument)
{
    struct chunks_in_flight *chunks = argument;
    chunks->fetched = hand_over(chunks);
}

static hashattn_status run_all(hashattn_stream *stream, const hashattn_stream_source *source, int what,
                               size_t *rows)
{
    struct host *host = &stream->context->host;
    hashattn_stream_source own = {.fetch = NULL};
    TRY(version_take(host, &own, sizeof own, source, first_sizes.stream_source, "source"));
    FAIL_IF(own.fetch == NULL, host, HASHATTN_INVALID, "source.fetch is NULL");
    size_t start = *position_of(stream, what), computing = start;
    struct pool *pool = stream->context->pool;
    struct chunks_in_flight chunks = {.source = &own, .at_after = start};
    do {
        pool_begin_aside(pool, fetch, &chunks);
        hashattn_status computed = chunks.now.rows == 0 ? HASHATTN_OK : run_chunk(stream, &chunks.now, what);
        pool_end_aside(pool);
        TRY(computed);
        FAIL_IF(chunks.fetched != HASHATTN_OK, host, chunks.fetched,
                "the source failed at row %zu of the sequence", chunks.at_after);
        chunks.at_before = computing;
        computing = chunks.at_after;
        chunks.before = chunks.now;
        chunks.now = chunks.after;
        chunks.at_after += chunks.after.rows;
    } while (chunks.now.rows > 0);
    if (chunks.before.rows > 0 && own.done != NULL)
        FAIL_IF((chunks.fetched = own.done(own.user, chunks.at_before, &chunks.before)) != HASHATTN_OK, host,
                chunks.fetched, "the source failed at row %zu of the sequence", chunks.at_before);
    if (rows != NULL)
        *rows = *position_of(stream, what) - start;
    return HASHATTN_OK;
}

hashattn_status hashattn_stream_absorb_all(hashattn_stream *stream, const hashattn_stream_source *source,
                                           size_t *rows)
{
    if (stream == NULL)
        return HASHATTN_INVALID;
    TRY(refuse_causal(stream));
    return run_all(stream, source, ABSORB, rows);
}

hashattn_status hashattn_stream_read_all(hashattn_stream *stream, const hashattn_stream_source *source,
                                         size_t *rows)
{
    return stream == NULL ? HASHATTN_INVALID : run_all(stream, source, what_read_does(stream), rows);
}
