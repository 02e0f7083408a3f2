/* Chunks of a stream: each is checked like the arrays of a call, then every head computes it. Cost beyond the
   mechanism: one pass over the chunk to find NaN.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "api/floating.h"
#include "api/handles.h"
#include "api/operator/operands.h"
#include "api/streaming/streaming_parts.h"
#include "api/versions/versions.h"
#include "attention/driver/row_range.h"
#include "base/memory.h"
#include "parts/rows/overlap.h"

/* ---- checking ------------------------------------------------------------------------------------------ */

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
    if (step->what & STREAM_READS)
        call.query = packed_of(&chunk->query, given->head_dim);
    if (step->what & STREAM_ABSORBS) {
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
                    "%s has length %g at row %zu of the sequence, head %zu; `max_norm` is %g", part->name,
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
    if (step->what & STREAM_READS) {
        step->parts[step->num_parts++] = (struct part){"query", &chunk->query, given->head_dim};
        TRY(check_array(host, step, "out", &chunk->out, given->value_dim));
    }
    if (step->what & STREAM_ABSORBS) {
        step->parts[step->num_parts++] = (struct part){"key", &chunk->key, given->head_dim};
        step->parts[step->num_parts++] = (struct part){"value", &chunk->value, given->value_dim};
        for (size_t r = 0; chunk->key_mask != NULL && r < chunk->rows; r++)
            FAIL_IF(chunk->key_mask[r] > 1, host, HASHATTN_INVALID,
                    "key_mask is %u at row %zu of the sequence, allowed are 0 and 1", chunk->key_mask[r],
                    step->position + r);
    }
    for (size_t p = 0; p < step->num_parts; p++)
        TRY(check_array(host, step, step->parts[p].name, step->parts[p].array, step->parts[p].width));
    for (size_t p = 0; p < step->num_parts && (step->what & STREAM_READS) != 0; p++)
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

/* ---- computing ----------------------------------------------------------------------------------------- */

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
    struct stream one = streaming_head(stream, head);
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
    if (step->what & STREAM_READS)
        stream_read_chunk(&stream->context->host, &one, step->position, &chunk, state, scratch);
    else
        stream_absorb_chunk(&stream->context->host, &one, step->position, &chunk, state, scratch);
}

size_t *streaming_position(struct hashattn_stream *stream, int what)
{
    return what & STREAM_READS ? &stream->answered : &stream->absorbed;
}

hashattn_status streaming_run(struct hashattn_stream *stream, const hashattn_chunk *chunk, int what)
{
    FLOATING_DEFAULT;
    struct step step = {
        .stream = stream, .chunk = chunk, .what = what, .position = *streaming_position(stream, what)};
    hashattn_status status = check_step(&stream->context->host, &step);
    if (status == HASHATTN_OK && chunk->rows > 0)
        pool_run(stream->spread ? NULL : stream->context->pool, head_of_chunk, &step,
                 stream->given.num_heads);
    TRY(status);
    *streaming_position(stream, what) += chunk->rows;
    return HASHATTN_OK;
}

int streaming_reads(const struct hashattn_stream *stream)
{
    return stream->given.causal ? STREAM_READS | STREAM_ABSORBS : STREAM_READS;
}

hashattn_status streaming_refuse_causal(struct hashattn_stream *stream)
{
    FAIL_IF(stream->given.causal, &stream->context->host, HASHATTN_INVALID,
            "a causal stream gets its keys with their queries, in hashattn_stream_read");
    return HASHATTN_OK;
}

static hashattn_status take_and_run(hashattn_stream *stream, const hashattn_chunk *chunk, int what)
{
    hashattn_chunk own = {.rows = 0};
    TRY(version_take(&stream->context->host, &own, sizeof own, chunk, first_sizes.chunk, "chunk"));
    return streaming_run(stream, &own, what);
}

hashattn_status hashattn_stream_absorb(hashattn_stream *stream, const hashattn_chunk *chunk)
{
    if (stream == NULL)
        return HASHATTN_INVALID;
    TRY(streaming_refuse_causal(stream));
    return take_and_run(stream, chunk, STREAM_ABSORBS);
}

hashattn_status hashattn_stream_read(hashattn_stream *stream, const hashattn_chunk *chunk)
{
    return stream == NULL ? HASHATTN_INVALID : take_and_run(stream, chunk, streaming_reads(stream));
}
