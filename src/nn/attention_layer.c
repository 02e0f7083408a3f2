/* One attention_call per group of heads. Heads are column ranges of (rows, dim) arrays, so only the few
   floats of a mechanism's own parameters are copied.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/attention_layer.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

/* ---- description -------------------------------------------------------------------------------------- */

static hashattn_status describe_layer(struct host *host, struct params *params, const char *name,
                                      const struct attention_layer *attention, struct dense *layer)
{
    size_t dim = attention->dim;
    return attention->plain ? dense_describe_plain(host, params, name, dim, dim, layer)
                            : dense_describe(host, params, name, dim, dim, layer);
}

hashattn_status attention_layer_describe_enter(struct host *host, struct params *params, const char *name,
                                               size_t dim, size_t heads, bool plain,
                                               struct attention_layer *attention)
{
    assert(heads > 0 && dim % heads == 0);
    *attention =
        (struct attention_layer){.dim = dim, .heads = heads, .head_dim = dim / heads, .plain = plain};
    struct dense *const layers[] = {&attention->query, &attention->key, &attention->value};
    static const char *const names[] = {"query", "key", "value"};
    for (int i = 0; i < 3; i++) {
        char text[PARAM_NAME];
        snprintf(text, sizeof text, "%s.%s", name, names[i]);
        TRY(describe_layer(host, params, text, attention, layers[i]));
    }
    return HASHATTN_OK;
}

hashattn_status attention_layer_describe_places(struct host *host, struct params *params, const char *name,
                                                const struct head_group *groups, size_t num_groups,
                                                struct attention_layer *attention)
{
    size_t first = 0, width = attention->head_dim;
    assert(num_groups <= HEAD_GROUPS);
    for (size_t g = 0; g < num_groups; first += groups[g++].heads * width) {
        if (attention_places(groups[g].mechanism, groups[g].options, width))
            continue;
        size_t count = groups[g].heads * width;
        attention->placed.runs[attention->placed.num_runs++] = (struct column_run){first, count};
        attention->placed.columns += count;
    }
    if (attention->placed.columns == 0)
        return HASHATTN_OK;
    struct dense *const layers[] = {&attention->placed.query, &attention->placed.key};
    static const char *const names[] = {"query_position", "key_position"};
    for (int i = 0; i < 2; i++) {
        char text[PARAM_NAME];
        snprintf(text, sizeof text, "%s.%s", name, names[i]);
        TRY(dense_describe_plain(host, params, text, attention->dim, attention->placed.columns, layers[i]));
    }
    return HASHATTN_OK;
}

/* Describes the tensors of a mechanism, unless an earlier group has it, for all its heads in this layer. */
static hashattn_status describe_own(struct host *host, struct params *params, const char *name,
                                    const struct head_group *groups, size_t num_groups,
                                    const struct parameter_sizes *sizes, struct mixing *mixing)
{
    const struct mechanism *mechanism = mixing->group.mechanism;
    size_t heads = 0;
    bool mixed = false;
    for (size_t i = 0; i < num_groups; i++) {
        heads += groups[i].mechanism == mechanism ? groups[i].heads : 0;
        mixed |= groups[i].mechanism != mechanism;
    }
    for (const struct parameter_row *row = mechanism->params; row != NULL && row->name != NULL; row++) {
        size_t rows, cols;
        row->shape(mixing->group.options, sizes, &rows, &cols);
        if (rows == 0)
            continue;
        FAIL_IF(mixing->num_own == OWN_ROWS, host, HASHATTN_INVALID,
                "%s has more than %d learned tensors: '%s' is one too many", mechanism->name, OWN_ROWS,
                row->name);
        size_t i = mixing->num_own++;
        mixing->own_size[i] = size_product(rows, cols);
        mixing->own_count = size_sum(mixing->own_count, mixing->own_size[i]);
        TRY(params_add(host, params, row->start, row->scale, &mixing->own_offset[i], 3,
                       (size_t[]){heads, rows, cols}, "%s.own.%s%s%s", name, mixed ? mechanism->name : "",
                       mixed ? "." : "", row->name));
        params->rows[params->num_rows - 1].decayed = row->decays;
        params->rows[params->num_rows - 1].of_own_loss = mechanism->own_loss != NULL;
    }
    assert(mixing->own_count == attention_param_count(mechanism, mixing->group.options, sizes));
    return HASHATTN_OK;
}

hashattn_status attention_layer_describe_mix(struct host *host, struct params *params, const char *name,
                                             size_t taps, const struct head_group *groups, size_t num_groups,
                                             size_t max_len, struct attention_layer *attention)
{
    attention->precision = params->precision;
    attention->num_groups = num_groups;
    attention->max_len = max_len;
    size_t width = attention->head_dim, first_head = 0;
    const struct parameter_sizes sizes = {width, width, max_len};
    assert(num_groups >= 1 && num_groups <= HEAD_GROUPS);
    if (taps > 0) {
        char text[PARAM_NAME];
        snprintf(text, sizeof text, "%s.conv", name);
        TRY(convolution_describe(host, params, text, attention->heads, width, taps, &attention->convolution));
    }
    for (size_t g = 0; g < num_groups; g++) {
        struct mixing *mixing = &attention->mixings[g];
        size_t before = g;
        while (before > 0 && groups[before - 1].mechanism != groups[g].mechanism)
            before--;
        if (before > 0) { /* its heads follow those of that group */
            *mixing = attention->mixings[before - 1];
            for (size_t i = 0; i < mixing->num_own; i++)
                mixing->own_offset[i] += mixing->group.heads * mixing->own_size[i];
        } else {
            *mixing = (struct mixing){.group = groups[g]};
            TRY(describe_own(host, params, name, groups, num_groups, &sizes, mixing));
        }
        mixing->group = groups[g];
        mixing->first_head = first_head;
        first_head += groups[g].heads;
    }
    assert(first_head == attention->heads);
    return HASHATTN_OK;
}

hashattn_status attention_layer_describe_leave(struct host *host, struct params *params, const char *name,
                                               struct attention_layer *attention)
{
    char text[PARAM_NAME];
    snprintf(text, sizeof text, "%s.output.dense", name);
    return describe_layer(host, params, text, attention, &attention->output);
}

/* ---- tiles -------------------------------------------------------------------------------------------- */

void attention_layer_enter(const struct attention_layer *attention, const struct kernels *kernels,
                           struct pool *pool, const float *values, float *query, float *key, float *value,
                           const float *x, size_t n, bf16 *halves)
{
    size_t dim = attention->dim;
    const void *left = dense_left(&attention->query, kernels, halves, x, n);
    dense_forward_left(&attention->query, kernels, pool, values, query, left, n, 0, dim);
    dense_forward_left(&attention->key, kernels, pool, values, key, left, n, 0, dim);
    dense_forward_left(&attention->value, kernels, pool, values, value, left, n, 0, dim);
}

void attention_layer_enter_backward(const struct attention_layer *attention, const struct kernels *kernels,
                                    const float *values, struct slice gradients, float *dx,
                                    const float *dquery, const float *dkey, const float *dvalue,
                                    const float *x, size_t n)
{
    dense_backward(&attention->query, kernels, values, gradients, dx, false, dquery, x, n);
    dense_backward(&attention->key, kernels, values, gradients, dx, true, dkey, x, n);
    dense_backward(&attention->value, kernels, values, gradients, dx, true, dvalue, x, n);
}

/* The columns of placed heads of rows (n, dim) += from (n, columns). */
static void add_placed(const struct attention_layer *attention, const struct kernels *kernels, float *rows,
                       const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < attention->placed.num_runs; from += attention->placed.runs[r++].count)
            kernels->rows.axpy(rows + i * attention->dim + attention->placed.runs[r].first, 1, from,
                               attention->placed.runs[r].count);
}

/* to (n, columns) = the columns of placed heads of rows (n, dim). */
static void take_placed(const struct attention_layer *attention, float *to, const float *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < attention->placed.num_runs; to += attention->placed.runs[r++].count)
            memcpy(to, rows + i * attention->dim + attention->placed.runs[r].first,
                   attention->placed.runs[r].count * sizeof *to);
}

void attention_layer_place(const struct attention_layer *attention, const struct kernels *kernels,
                           const float *values, float *query, float *key, const float *places, size_t n,
                           float *work, bf16 *halves)
{
    size_t columns = attention->placed.columns;
    const void *left = dense_left(&attention->placed.query, kernels, halves, places, n);
    dense_forward_left(&attention->placed.query, kernels, NULL, values, work, left, n, 0, columns);
    add_placed(attention, kernels, query, work, n);
    dense_forward_left(&attention->placed.key, kernels, NULL, values, work, left, n, 0, columns);
    add_placed(attention, kernels, key, work, n);
}

void attention_layer_place_backward(const struct attention_layer *attention, const struct kernels *kernels,
                                    const float *values, struct slice gradients, const float *dquery,
                                    const float *dkey, const float *places, size_t n, float *work)
{
    take_placed(attention, work, dquery, n);
    dense_backward(&attention->placed.query, kernels, values, gradients, NULL, false, work, places, n);
    take_placed(attention, work, dkey, n);
    dense_backward(&attention->placed.key, kernels, values, gradients, NULL, false, work, places, n);
}

/* ---- the mechanisms' own parameters ------------------------------------------------------------------- */

void mixing_gather_own(const struct mixing *mixing, const float *values, float *own)
{
    for (size_t head = 0; head < mixing->group.heads; head++)
        for (size_t i = 0; i < mixing->num_own; i++) {
            size_t size = mixing->own_size[i];
            memcpy(own, values + mixing->own_offset[i] + head * size, size * sizeof *own);
            own += size;
        }
}

static void add_own(const struct mixing *mixing, const struct kernels *kernels, struct slice gradients,
                    double weight, const float *down)
{
    for (size_t head = 0; head < mixing->group.heads; head++)
        for (size_t i = 0; i < mixing->num_own; i++) {
            size_t size = mixing->own_size[i];
            kernels->rows.axpy(slice_at(gradients, mixing->own_offset[i] + head * size), (float)weight, down,
                               size);
            down += size;
        }
}

/* ---- mixing ------------------------------------------------------------------------------------------- */

/* The columns of a group's heads. */
static struct packed columns(const struct attention_layer *attention, const struct mixing *mixing,
                             float *data)
{
    return (struct packed){
        .data = data == NULL ? NULL : data + mixing->first_head * attention->head_dim,
        .width = attention->head_dim,
        .row_stride = attention->dim,
        .head_stride = attention->head_dim,
    };
}

static struct attention_shape shape_of(const struct attention_layer *attention, const struct mixing *mixing,
                                       const struct rows *rows)
{
    return (struct attention_shape){
        .kernels = rows->kernels,
        .pool = rows->pool,
        .mechanism = mixing->group.mechanism,
        .options = mixing->group.options,
        .num_sequences = rows->num_sequences,
        .num_heads = mixing->group.heads,
        .first_head = mixing->first_head,
        .head_dim = attention->head_dim,
        .value_dim = attention->head_dim,
        .max_len = attention->max_len,
        .query_offsets = rows->offsets,
        .key_offsets = rows->key_offsets != NULL ? rows->key_offsets : rows->offsets,
        .precision = attention->precision,
        .causal = attention->causal,
        .inspects = rows->inspector != NULL && mixing->group.mechanism->inspection != NULL,
        .ranks = rows_ranks(rows),
        .totals = rows->cut == NULL ? NULL : rows->cut->totals,
    };
}

static hashattn_status check_convolution(struct host *host, const struct attention_layer *attention,
                                         const struct rows *rows)
{
    size_t ranks = row_ranks_count(rows_ranks(rows)), half = attention->convolution.taps / 2;
    for (size_t s = 0; rows->cut != NULL && s < rows->num_sequences; s++)
        FAIL_IF(
            rows->cut->totals[s] / ranks < half, host, HASHATTN_REFUSED,
            "sequence %zu has %zu rows, too few for `conv_window` %zu and `sequence_parallel` %zu: each rank "
            "needs at least %zu",
            s, rows->cut->totals[s], attention->convolution.taps, ranks, half);
    return HASHATTN_OK;
}

hashattn_status attention_layer_plan(struct host *host, const struct attention_layer *attention,
                                     const struct rows *rows, struct plan_set *set, struct mix_plan *plan)
{
    struct arena work = arena_on(NULL), keep = arena_on(NULL);
    size_t own = 0, bytes = 0;
    TRY(check_convolution(host, attention, rows));
    for (size_t g = 0; g < attention->num_groups; g++) {
        const struct mixing *mixing = &attention->mixings[g];
        const struct attention_shape shape = shape_of(attention, mixing, rows);
        TRY(plan_set_get(host, set, &shape, &plan->groups[g]));
        own = size_max(own, mixing->group.heads * mixing->own_count);
        bytes = size_max(bytes, plan->groups[g]->scratch_bytes);
        plan->saved_at[g] = keep.used;
        arena_take(&keep, plan->groups[g]->saved_bytes, 1);
    }
    plan->own_at = work.used;
    arena_take(&work, own, sizeof(float));
    plan->down_at = work.used;
    arena_take(&work, own, sizeof(float));
    plan->attention_at = work.used;
    arena_take(&work, bytes, 1);
    plan->convolution_at = work.used;
    if (attention->convolution.taps > 0)
        arena_take(&work, convolution_scratch_size(&attention->convolution, rows), 1);
    plan->scratch_bytes = work.used;
    plan->saved_bytes = keep.used;
    return HASHATTN_OK;
}

/* The call of a group, with the mechanism's parameters gathered. */
static struct attention_call open_group(const struct attention_layer *attention, size_t group,
                                        const struct rows *rows, const float *values,
                                        const struct attention_space *space, uint64_t call_key)
{
    const struct mixing *mixing = &attention->mixings[group];
    const struct mix_plan *plan = space->plan;
    float *own = mixing->own_count == 0 ? NULL : (float *)(void *)(space->scratch + plan->own_at);
    if (own != NULL)
        mixing_gather_own(mixing, values, own);
    return (struct attention_call){
        .plan = plan->groups[group],
        .query = columns(attention, mixing, space->query),
        .key = columns(attention, mixing, space->key),
        .value = columns(attention, mixing, space->value),
        .saved = space->saved + plan->saved_at[group],
        .scratch = space->scratch + plan->attention_at,
        .drop_threshold = space->dropout.threshold,
        .drop_scale = space->dropout.scale,
        .call_key = call_key,
        .sample_ids = rows->sample_ids,
        .params = own,
    };
}

/* Zeros (heads, own_count), for the gradients of a group's parameters; NULL: it has none. */
static float *clear_down(const struct mixing *mixing, const struct attention_space *space)
{
    size_t floats = mixing->group.heads * mixing->own_count;
    float *down = (float *)(void *)(space->scratch + space->plan->down_at);
    return floats == 0 ? NULL : memset(down, 0, floats * sizeof *down);
}

void attention_layer_mix(const struct attention_layer *attention, const struct rows *rows,
                         const float *values, const struct attention_space *space, uint64_t call_key)
{
    size_t tail = rows->count * attention->dim, floats = rows->padded * attention->dim - tail;
    for (size_t g = 0; g < attention->num_groups; g++) {
        const struct mixing *mixing = &attention->mixings[g];
        struct attention_call call = open_group(attention, g, rows, values, space, call_key);
        attention_forward(&call, columns(attention, mixing, space->context));
        if (rows->inspector != NULL)
            rows->inspector->see(rows->inspector->argument, rows->layer, &call);
    }
    profile_lap(rows->profile, PROFILE_ATTENTION);
    if (attention->convolution.taps > 0) {
        convolution_forward(&attention->convolution, rows, values, space->mixed, space->context, space->value,
                            space->scratch + space->plan->convolution_at);
        profile_lap(rows->profile, PROFILE_CONVOLUTION);
    }
    memset(space->mixed + tail, 0, floats * sizeof *space->mixed);
}

void attention_layer_mix_backward(const struct attention_layer *attention, const struct rows *rows,
                                  const float *values, struct slice gradients,
                                  const struct attention_space *space, const struct attention_gradients *d,
                                  uint64_t call_key)
{
    for (size_t g = 0; g < attention->num_groups; g++) {
        const struct mixing *mixing = &attention->mixings[g];
        struct attention_call call = open_group(attention, g, rows, values, space, call_key);
        float *down = clear_down(mixing, space);
        attention_backward(&call, columns(attention, mixing, space->context),
                           columns(attention, mixing, d->mixed), columns(attention, mixing, d->query),
                           columns(attention, mixing, d->key), columns(attention, mixing, d->value), down);
        add_own(mixing, rows->kernels, gradients, 1, down);
    }
    profile_lap(rows->profile, PROFILE_ATTENTION_BACKWARD);
    if (attention->convolution.taps > 0) {
        convolution_backward(&attention->convolution, rows, values, gradients, d->value, d->mixed,
                             space->value, space->scratch + space->plan->convolution_at);
        profile_lap(rows->profile, PROFILE_CONVOLUTION);
    }
}

size_t attention_layer_auxiliary_heads(const struct attention_layer *attention,
                                       const struct mechanism *mechanism)
{
    size_t heads = 0;
    for (size_t g = 0; g < attention->num_groups; g++)
        if (attention->mixings[g].group.mechanism == mechanism && mechanism->own_loss != NULL)
            heads += attention->mixings[g].group.heads;
    return heads;
}

double attention_layer_auxiliary(const struct attention_layer *attention, const struct rows *rows,
                                 const float *values, const struct mechanism *mechanism,
                                 struct slice gradients, double weight, const struct attention_space *space,
                                 uint64_t call_key)
{
    if (attention_layer_auxiliary_heads(attention, mechanism) == 0)
        return 0;
    double loss = 0;
    for (size_t g = 0; g < attention->num_groups; g++) {
        const struct mixing *mixing = &attention->mixings[g];
        if (mixing->group.mechanism != mechanism)
            continue;
        struct attention_call call = open_group(attention, g, rows, values, space, call_key);
        float *down = gradients.floats == NULL ? NULL : clear_down(mixing, space);
        loss += attention_auxiliary(&call, down);
        if (down != NULL)
            add_own(mixing, rows->kernels, gradients, weight, down);
    }
    return loss;
}
