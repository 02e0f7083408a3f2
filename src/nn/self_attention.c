/* One attention_call per mix; heads are column ranges of (rows, dim) arrays, so nothing is copied but the few
   floats of a mechanism's own parameters. SPDX-License-Identifier: Apache-2.0 */
#include "nn/self_attention.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

/* ---- description -------------------------------------------------------------------------------------- */

hashattn_status self_attention_describe_enter(struct host *host, struct params *params, const char *name,
                                              size_t dim, size_t heads, struct self_attention *attention)
{
    assert(heads > 0 && dim % heads == 0);
    *attention = (struct self_attention){.dim = dim, .heads = heads, .head_dim = dim / heads};
    struct dense *const layers[] = {&attention->query, &attention->key, &attention->value};
    static const char *const names[] = {"query", "key", "value"};
    for (int i = 0; i < 3; i++) {
        char text[PARAM_NAME];
        snprintf(text, sizeof text, "%s.%s", name, names[i]);
        TRY(dense_describe(host, params, text, dim, dim, layers[i]));
    }
    return HASHATTN_OK;
}

hashattn_status self_attention_describe_mix(struct host *host, struct params *params, const char *name,
                                            size_t taps, const struct mechanism *mechanism,
                                            const void *options, struct self_attention *attention)
{
    attention->mechanism = mechanism;
    attention->options = options;
    attention->precision = params->precision;
    size_t heads = attention->heads, width = attention->head_dim;
    if (taps > 0) {
        char text[PARAM_NAME];
        snprintf(text, sizeof text, "%s.conv", name);
        TRY(convolution_describe(host, params, text, heads, width, taps, &attention->convolution));
    }
    for (const struct parameter_row *row = mechanism->params; row != NULL && row->name != NULL; row++) {
        size_t rows, cols;
        row->shape(options, width, width, &rows, &cols);
        if (rows == 0)
            continue;
        size_t i = attention->num_own++;
        assert(i < OWN_ROWS);
        attention->own_size[i] = rows * cols;
        attention->own_count += rows * cols;
        TRY(params_add(host, params, START_NORMAL, row->init, &attention->own_offset[i], 3,
                       (size_t[]){heads, rows, cols}, "%s.own.%s", name, row->name));
    }
    assert(attention->own_count == attention_param_count(mechanism, options, width, width));
    return HASHATTN_OK;
}

hashattn_status self_attention_describe_leave(struct host *host, struct params *params, const char *name,
                                              struct self_attention *attention)
{
    char text[PARAM_NAME];
    snprintf(text, sizeof text, "%s.output.dense", name);
    return dense_describe(host, params, text, attention->dim, attention->dim, &attention->output);
}

/* ---- tiles -------------------------------------------------------------------------------------------- */

void self_attention_enter(const struct self_attention *attention, const struct kernels *kernels,
                          const float *values, float *query, float *key, float *value, const float *x,
                          size_t n, bf16 *halves)
{
    size_t dim = attention->dim;
    const void *left = dense_left(&attention->query, kernels, halves, x, n);
    dense_forward_left(&attention->query, kernels, values, query, left, n, 0, dim);
    dense_forward_left(&attention->key, kernels, values, key, left, n, 0, dim);
    dense_forward_left(&attention->value, kernels, values, value, left, n, 0, dim);
}

void self_attention_enter_backward(const struct self_attention *attention, const struct kernels *kernels,
                                   const float *values, struct slice gradients, float *dx,
                                   const float *dquery, const float *dkey, const float *dvalue,
                                   const float *x, size_t n)
{
    dense_backward(&attention->query, kernels, values, gradients, dx, false, dquery, x, n);
    dense_backward(&attention->key, kernels, values, gradients, dx, true, dkey, x, n);
    dense_backward(&attention->value, kernels, values, gradients, dx, true, dvalue, x, n);
}

/* ---- the mechanism's own parameters ------------------------------------------------------------------- */

/* Calls for a mechanism want (heads, all its floats); the model has one (heads, rows, cols) tensor per row.
 */
static void gather_own(const struct self_attention *attention, const float *values, float *own)
{
    for (size_t head = 0; head < attention->heads; head++)
        for (size_t i = 0; i < attention->num_own; i++) {
            size_t size = attention->own_size[i];
            memcpy(own, values + attention->own_offset[i] + head * size, size * sizeof *own);
            own += size;
        }
}

static void add_own(const struct self_attention *attention, const struct kernels *kernels,
                    struct slice gradients, double weight, const float *down)
{
    for (size_t head = 0; head < attention->heads; head++)
        for (size_t i = 0; i < attention->num_own; i++) {
            size_t size = attention->own_size[i];
            kernels->axpy(slice_at(gradients, attention->own_offset[i] + head * size), (float)weight, down,
                          size);
            down += size;
        }
}

/* ---- mixing ------------------------------------------------------------------------------------------- */

struct mix_scratch {
    float *own, *down; /* (heads, own_count): the mechanism's parameters and their gradients */
    void *attention, *convolution;
};

static struct packed columns(const struct self_attention *attention, float *data)
{
    return (struct packed){
        .data = data,
        .width = attention->head_dim,
        .row_stride = attention->dim,
        .head_stride = attention->head_dim,
    };
}

static struct attention_call call_of(const struct self_attention *attention, const struct rows *rows,
                                     const struct attention_space *space, const float *own, uint64_t call_key)
{
    return (struct attention_call){
        .kernels = rows->kernels,
        .pool = rows->pool,
        .mechanism = attention->mechanism,
        .options = attention->options,
        .num_sequences = rows->num_sequences,
        .num_heads = attention->heads,
        .head_dim = attention->head_dim,
        .value_dim = attention->head_dim,
        .query_offsets = rows->offsets,
        .key_offsets = rows->offsets,
        .precision = attention->precision,
        .causal = attention->causal,
        .query = columns(attention, space->query),
        .key = columns(attention, space->key),
        .value = columns(attention, space->value),
        .call_key = call_key,
        .sample_ids = rows->sample_ids,
        .params = attention->own_count > 0 ? own : NULL,
    };
}

static struct mix_scratch lay(const struct self_attention *attention, const struct rows *rows, void *block,
                              size_t *bytes)
{
    static const struct attention_space nowhere;
    struct attention_call call = call_of(attention, rows, &nowhere, NULL, 0);
    struct arena arena = arena_on(block);
    struct mix_scratch scratch = {.convolution = NULL};
    scratch.own = arena_take(&arena, attention->heads * attention->own_count, sizeof *scratch.own);
    scratch.down = arena_take(&arena, attention->heads * attention->own_count, sizeof *scratch.down);
    scratch.attention = arena_take(&arena, attention_scratch_size(&call), 1);
    if (attention->convolution.taps > 0)
        scratch.convolution =
            arena_take(&arena, convolution_scratch_size(&attention->convolution, rows->num_sequences), 1);
    *bytes = arena.used;
    return scratch;
}

size_t self_attention_saved_size(const struct self_attention *attention, const struct rows *rows)
{
    static const struct attention_space nowhere;
    struct attention_call call = call_of(attention, rows, &nowhere, NULL, 0);
    return attention_saved_size(&call);
}

size_t self_attention_scratch_size(const struct self_attention *attention, const struct rows *rows)
{
    size_t bytes;
    lay(attention, rows, NULL, &bytes);
    return bytes;
}

/* Scratch laid out, and the mechanism's parameters in it. */
static struct mix_scratch open_scratch(const struct self_attention *attention, const struct rows *rows,
                                       const float *values, const struct attention_space *space)
{
    size_t bytes;
    struct mix_scratch scratch = lay(attention, rows, space->scratch, &bytes);
    gather_own(attention, values, scratch.own);
    if (attention->own_count > 0)
        memset(scratch.down, 0, attention->heads * attention->own_count * sizeof *scratch.down);
    return scratch;
}

void self_attention_mix(const struct self_attention *attention, const struct rows *rows, const float *values,
                        const struct attention_space *space, uint64_t call_key)
{
    size_t tail = rows->count * attention->dim, floats = rows->padded * attention->dim - tail;
    struct mix_scratch scratch = open_scratch(attention, rows, values, space);
    struct attention_call call = call_of(attention, rows, space, scratch.own, call_key);
    attention_forward(&call, columns(attention, space->context), space->saved, scratch.attention);
    profile_lap(rows->profile, PROFILE_ATTENTION);
    if (attention->convolution.taps > 0) {
        convolution_forward(&attention->convolution, rows, values, space->mixed, space->context,
                            space->value);
        profile_lap(rows->profile, PROFILE_CONVOLUTION);
    }
    memset(space->mixed + tail, 0, floats * sizeof *space->mixed);
}

void self_attention_mix_backward(const struct self_attention *attention, const struct rows *rows,
                                 const float *values, struct slice gradients,
                                 const struct attention_space *space, const struct attention_gradients *d,
                                 uint64_t call_key)
{
    struct mix_scratch scratch = open_scratch(attention, rows, values, space);
    struct attention_call call = call_of(attention, rows, space, scratch.own, call_key);
    attention_backward(&call, columns(attention, space->context), columns(attention, d->mixed),
                       columns(attention, d->query), columns(attention, d->key), columns(attention, d->value),
                       attention->own_count > 0 ? scratch.down : NULL, space->saved, scratch.attention);
    add_own(attention, rows->kernels, gradients, 1, scratch.down);
    profile_lap(rows->profile, PROFILE_ATTENTION_BACKWARD);
    if (attention->convolution.taps > 0) {
        convolution_backward(&attention->convolution, rows, values, gradients, d->value, d->mixed,
                             space->value, scratch.convolution);
        profile_lap(rows->profile, PROFILE_CONVOLUTION);
    }
}

double self_attention_auxiliary(const struct self_attention *attention, const struct rows *rows,
                                const float *values, struct slice gradients, double weight,
                                const struct attention_space *space, uint64_t call_key)
{
    if (attention->mechanism->auxiliary == NULL)
        return 0;
    struct mix_scratch scratch = open_scratch(attention, rows, values, space);
    struct attention_call call = call_of(attention, rows, space, scratch.own, call_key);
    bool wanted = gradients.floats != NULL && attention->own_count > 0;
    double loss = attention_auxiliary(&call, wanted ? scratch.down : NULL, space->saved, scratch.attention);
    if (wanted)
        add_own(attention, rows->kernels, gradients, weight, scratch.down);
    return loss;
}
