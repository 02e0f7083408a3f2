/* Public streams: makes, clears, merges and frees them. Each head is one stream of attention/driver/stream.h.
   If there are at least as many heads as threads, heads run in parallel; otherwise one after another, each on
   all threads.
   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "api/floating.h"
#include "api/handles.h"
#include "api/operator/own_params.h"
#include "api/streaming/streaming_parts.h"
#include "api/versions/versions.h"
#include "base/memory.h"
#include "base/random.h"

void hashattn_stream_options_default_sized(hashattn_stream_options *options, size_t struct_size)
{
    const hashattn_stream_options own = {.num_heads = 1, .chunk_rows = 1};
    version_fill_options(options, struct_size, &own, sizeof own);
}

struct stream streaming_head(const struct hashattn_stream *stream, size_t head)
{
    struct stream one = stream->heads;
    one.random_key = random_key(one.call_key, RANDOM_HEAD, stream->given.first_head + head);
    one.params = stream->params == NULL ? NULL : stream->params + head * stream->param_count;
    return one;
}

size_t streaming_heads_at_once(const struct hashattn_stream *stream)
{
    return stream->spread ? 1 : (size_t)pool_threads(stream->context->pool);
}

static hashattn_status check_memory(struct host *host, const struct hashattn_stream *stream)
{
    size_t states = size_product(stream->given.num_heads, stream->state_bytes);
    size_t all = size_sum(states, size_product(streaming_heads_at_once(stream), stream->scratch_bytes));
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
    TRY(memory_new(host, streaming_heads_at_once(stream), stream->scratch_bytes, "chunks of a stream",
                   &block));
    stream->scratch = block;
    hashattn_stream_clear(stream);
    return HASHATTN_OK;
}

hashattn_status hashattn_stream_new(hashattn_attention *attention, const hashattn_stream_options *options,
                                    hashattn_stream **stream)
{
    FLOATING_DEFAULT;
    if (stream != NULL)
        *stream = NULL;
    if (attention == NULL)
        return HASHATTN_INVALID;
    struct host *host = &attention->context->host;
    FAIL_IF(stream == NULL, host, HASHATTN_INVALID, "stream is NULL");
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
    FLOATING_DEFAULT;
    stream->absorbed = stream->answered = 0;
    for (size_t h = 0; h < stream->given.num_heads; h++)
        stream_open(&stream->heads, stream->states + h * stream->state_bytes, stream->scratch);
}

size_t hashattn_stream_bytes(const hashattn_stream *stream)
{
    return stream->given.num_heads * stream->state_bytes +
           streaming_heads_at_once(stream) * stream->scratch_bytes;
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
    FLOATING_DEFAULT;
    if (into == NULL)
        return HASHATTN_INVALID;
    FAIL_IF(from == NULL, &into->context->host, HASHATTN_INVALID, "from is NULL");
    TRY(check_alike(into, from));
    for (size_t h = 0; h < into->given.num_heads; h++)
        stream_merge(&into->heads, into->states + h * into->state_bytes,
                     from->states + h * from->state_bytes);
    return HASHATTN_OK;
}
