/* The two residual branches, tile by tile.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/block.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"

const char *const block_norms[] = {"pre", "post", NULL};

/* Sites of dropout in a block; indices of RANDOM_DROPOUT under the block's key. Only pre-LN has the wide
   site, only post-LN cross attention. */
enum site { SITE_ATTENTION, SITE_WIDE, SITE_FFN, SITE_CROSS = SITE_WIDE };

static uint64_t site_key(const struct block_pass *pass, enum site site)
{
    return random_key(pass->random_key, RANDOM_DROPOUT, site);
}

/* The key of an attention's hashes: the block's, or under it if there are two. */
static uint64_t mix_key(const struct block *block, const struct block_pass *pass, enum site site)
{
    return block->cross.present ? random_key(pass->random_key, RANDOM_LAYER, site) : pass->random_key;
}

/* Parameters of cross attention, up to its norm. */
static hashattn_status describe_cross(struct host *host, struct params *params, const char *name,
                                      const struct block_shape *shape, struct block_cross *cross)
{
    char text[PARAM_NAME], norm[2 * PARAM_NAME];
    struct attention_layer *attention = &cross->attention;
    assert(shape->norm == BLOCK_POST_NORM && !shape->layered);
    snprintf(text, sizeof text, "%s.crossattention", name);
    TRY(attention_layer_describe_enter(host, params, text, shape->dim, shape->heads, shape->plain_attention,
                                       attention));
    cross->present = true;
    cross->keys = attention->key.weight;
    cross->mix = params->total;
    TRY(attention_layer_describe_mix(host, params, text, 0, shape->cross_groups, shape->num_cross_groups,
                                     shape->max_len, attention));
    cross->leave = params->total;
    TRY(attention_layer_describe_leave(host, params, text, attention));
    snprintf(norm, sizeof norm, "%s.output.LayerNorm", text);
    return norm_describe(host, params, norm, shape->dim, shape->norm_epsilon, &cross->norm);
}

hashattn_status block_describe(struct host *host, struct params *params, const char *name,
                               const struct block_shape *shape, struct block *block)
{
    char text[PARAM_NAME], attention[PARAM_NAME];
    snprintf(attention, sizeof attention, "%s.attention", name);
    block->dim = shape->dim;
    block->wide = shape->wide;
    block->first = params->total;
    block->norm = shape->norm;
    bool post = shape->norm == BLOCK_POST_NORM;
    if (!post) {
        snprintf(text, sizeof text, "%s.layernorm_before", name);
        TRY(norm_describe(host, params, text, shape->dim, shape->norm_epsilon, &block->first_norm));
    }
    TRY(attention_layer_describe_enter(host, params, attention, shape->dim, shape->heads,
                                       shape->plain_attention, &block->attention));
    if (shape->layered)
        TRY(attention_layer_describe_places(host, params, attention, shape->groups, shape->num_groups,
                                            &block->attention));
    block->mix = params->total;
    TRY(attention_layer_describe_mix(host, params, attention, shape->taps, shape->groups, shape->num_groups,
                                     shape->max_len, &block->attention));
    block->attention.causal = shape->causal;
    block->leave = params->total;
    TRY(attention_layer_describe_leave(host, params, attention, &block->attention));
    snprintf(text, sizeof text, post ? "%s.attention.output.LayerNorm" : "%s.layernorm_after", name);
    TRY(norm_describe(host, params, text, shape->dim, shape->norm_epsilon,
                      post ? &block->first_norm : &block->second_norm));
    if (shape->num_cross_groups > 0)
        TRY(describe_cross(host, params, name, shape, &block->cross));
    TRY(ffn_describe(host, params, name, shape->dim, shape->wide, shape->activation, &block->ffn));
    if (post) {
        snprintf(text, sizeof text, "%s.output.LayerNorm", name);
        TRY(norm_describe(host, params, text, shape->dim, shape->norm_epsilon, &block->second_norm));
    }
    block->end = params->total;
    return HASHATTN_OK;
}

size_t block_scratch_size(const struct block *block, bool training)
{
    size_t floats = 3 * block->dim + (training ? 2 : 1) * block->wide + 2;
    /* Two bf16 numbers per float, and a column more of each part because widths may be odd. */
    if (block->ffn.first.precision == PRECISION_BF16)
        floats += (block->dim + block->wide + 3) / 2;
    return ROW_TILE * floats;
}

struct block_scratch block_scratch_on(const struct block *block, bool training, float *floats,
                                      struct watch *watch)
{
    struct block_scratch scratch = {.watch = watch};
    for (int i = 0; i < 3; i++, floats += ROW_TILE * block->dim)
        scratch.narrow[i] = floats;
    scratch.wide = floats;
    floats += ROW_TILE * block->wide;
    if (training) {
        scratch.slope = floats;
        floats += ROW_TILE * block->wide;
    }
    scratch.statistics = floats;
    if (block->ffn.first.precision == PRECISION_BF16)
        scratch.halves = (bf16 *)(scratch.statistics + ROW_TILE * 2);
    return scratch;
}

/* ---- into attention ----------------------------------------------------------------------------------- */

/* The input of attention: the normalised rows, in scratch; in a post-LN block x itself. */
static const float *into_attention(const struct block *block, const struct block_pass *pass,
                                   const struct block_space *space, const struct block_scratch *scratch,
                                   size_t first)
{
    size_t at = first * block->dim;
    if (block->norm == BLOCK_POST_NORM)
        return space->x + at;
    norm_forward(&block->first_norm, pass->rows->kernels, pass->values, scratch->narrow[0],
                 scratch->statistics, space->x + at, rows_of_tile(pass->rows, first));
    watch_lap(scratch->watch, PROFILE_NORM);
    return scratch->narrow[0];
}

/* to (rows of the tile, dim) = the sinusoids of the positions of the tile's rows; zeros after the last row.
 */
static void take_places(const struct block *block, const struct block_pass *pass, float *to, size_t first)
{
    size_t dim = block->dim, n = rows_of_tile(pass->rows, first), done = 0;
    for (struct span s = rows_span(pass->rows, first, n); s.count > 0; s = rows_next(pass->rows, s)) {
        memcpy(to + done * dim, pass->sinusoids + s.position * dim, s.count * dim * sizeof *to);
        done += s.count;
    }
    memset(to + done * dim, 0, (n - done) * dim * sizeof *to);
}

void block_enter(const struct block *block, const struct block_pass *pass, const struct block_space *space,
                 const struct block_scratch *scratch, size_t first)
{
    const struct attention_space *a = &space->attention;
    size_t at = first * block->dim, n = rows_of_tile(pass->rows, first);
    const float *rows = into_attention(block, pass, space, scratch, first);
    attention_layer_enter(&block->attention, pass->rows->kernels, rows_tile_pool(pass->rows), pass->values,
                          a->query + at, a->key + at, a->value + at, rows, n, scratch->halves);
    if (block->attention.placed.columns > 0) {
        float *places = scratch->narrow[1], *work = scratch->narrow[2];
        take_places(block, pass, places, first);
        attention_layer_place(&block->attention, pass->rows->kernels, pass->values, a->query + at,
                              a->key + at, places, n, work, scratch->halves);
    }
    watch_lap(scratch->watch, PROFILE_PRODUCTS);
}

void block_enter_backward(const struct block *block, const struct block_pass *pass,
                          const struct block_space *space, const struct block_scratch *scratch,
                          struct slice gradients, float *stream, const struct block_gradients *d,
                          size_t first)
{
    const struct kernels *kernels = pass->rows->kernels;
    const struct attention_gradients *a = &d->attention;
    size_t at = first * block->dim, n = rows_of_tile(pass->rows, first);
    const float *rows = into_attention(block, pass, space, scratch, first);
    float *drows = scratch->narrow[1];
    attention_layer_enter_backward(&block->attention, kernels, pass->values, gradients, drows, a->query + at,
                                   a->key + at, a->value + at, rows, n);
    if (block->attention.placed.columns > 0) { /* narrow[0], the rows, is not needed any more */
        float *places = scratch->narrow[2], *work = scratch->narrow[0];
        take_places(block, pass, places, first);
        attention_layer_place_backward(&block->attention, kernels, pass->values, gradients, a->query + at,
                                       a->key + at, places, n, work);
    }
    watch_lap(scratch->watch, PROFILE_PRODUCTS);
    if (block->norm == BLOCK_POST_NORM)
        kernels->rows.axpy(stream + at, 1.0f, drows, n * block->dim);
    else
        norm_backward(&block->first_norm, kernels, pass->values, gradients, stream + at, drows, space->x + at,
                      scratch->statistics, n);
    watch_lap(scratch->watch, PROFILE_NORM);
}

/* ---- mixing ------------------------------------------------------------------------------------------- */

void block_mix(const struct block *block, const struct block_pass *pass, const struct block_space *space)
{
    attention_layer_mix(&block->attention, pass->rows, pass->values, &space->attention,
                        mix_key(block, pass, SITE_ATTENTION));
}

void block_mix_backward(const struct block *block, const struct block_pass *pass,
                        const struct block_space *space, struct slice gradients,
                        const struct block_gradients *d)
{
    attention_layer_mix_backward(&block->attention, pass->rows, pass->values, gradients, &space->attention,
                                 &d->attention, mix_key(block, pass, SITE_ATTENTION));
}

void block_cross_mix(const struct block *block, const struct block_pass *pass,
                     const struct block_space *space)
{
    attention_layer_mix(&block->cross.attention, pass->cross_rows, pass->values, &space->cross.attention,
                        mix_key(block, pass, SITE_CROSS));
}

void block_cross_mix_backward(const struct block *block, const struct block_pass *pass,
                              const struct block_space *space, struct slice gradients,
                              const struct block_gradients *d)
{
    size_t bytes = pass->encoded_rows->padded * block->dim * sizeof(float);
    memset(d->cross.key, 0, bytes);
    memset(d->cross.value, 0, bytes);
    attention_layer_mix_backward(&block->cross.attention, pass->cross_rows, pass->values, gradients,
                                 &space->cross.attention, &d->cross, mix_key(block, pass, SITE_CROSS));
}

double block_auxiliary(const struct block *block, const struct block_pass *pass,
                       const struct block_space *space, const struct mechanism *mechanism,
                       struct slice gradients, double weight)
{
    double loss = attention_layer_auxiliary(&block->attention, pass->rows, pass->values, mechanism, gradients,
                                            weight, &space->attention, mix_key(block, pass, SITE_ATTENTION));
    if (block->cross.present)
        loss += attention_layer_auxiliary(&block->cross.attention, pass->cross_rows, pass->values, mechanism,
                                          gradients, weight, &space->cross.attention,
                                          mix_key(block, pass, SITE_CROSS));
    return loss;
}

/* ---- after an attention ------------------------------------------------------------------------------- */

/* The residual of an attention on the rows of one tile, for forward and backward:
   middle = x + drop(output(mixed)). */
struct residual {
    enum site site;
    const struct dense *output;
    const struct norm *norm; /* of middle */
    size_t n, at, bytes;     /* rows of the tile; its place in (padded rows, dim) */
    const float *x, *mixed;
    float *middle;
};

static struct residual self_residual(const struct block *block, const struct block_pass *pass,
                                     const struct block_space *space, size_t first)
{
    size_t at = first * block->dim, n = rows_of_tile(pass->rows, first);
    return (struct residual){
        .site = SITE_ATTENTION,
        .output = &block->attention.output,
        .norm = block->norm == BLOCK_POST_NORM ? &block->first_norm : &block->second_norm,
        .n = n,
        .at = at,
        .bytes = n * block->dim * sizeof(float),
        .x = space->x + at,
        .mixed = space->attention.mixed + at,
        .middle = space->middle + at,
    };
}

/* That of the last attention of the block. */
static struct residual last_residual(const struct block *block, const struct block_pass *pass,
                                     const struct block_space *space, size_t first)
{
    struct residual r = self_residual(block, pass, space, first);
    if (!block->cross.present)
        return r;
    r.site = SITE_CROSS;
    r.output = &block->cross.attention.output;
    r.norm = &block->cross.norm;
    r.x = space->cross.x + r.at;
    r.mixed = space->cross.attention.mixed + r.at;
    r.middle = space->cross.middle + r.at;
    return r;
}

/* normed = LN(middle). */
static void residual_forward(const struct block *block, const struct block_pass *pass,
                             const struct block_scratch *scratch, const struct residual *r, float *normed,
                             size_t first)
{
    const struct kernels *kernels = pass->rows->kernels;
    float *branch = scratch->narrow[0];
    dense_forward_shared(r->output, kernels, rows_tile_pool(pass->rows), pass->values, branch, r->mixed, r->n,
                         scratch->halves);
    watch_lap(scratch->watch, PROFILE_PRODUCTS);
    dropout_add_rows(&pass->dropout, site_key(pass, r->site), pass->rows, r->middle, r->x, branch, first,
                     r->n, block->dim);
    watch_lap(scratch->watch, PROFILE_DROPOUT);
    norm_forward(r->norm, kernels, pass->values, normed, scratch->statistics, r->middle, r->n);
    watch_lap(scratch->watch, PROFILE_NORM);
}

/* From the gradient of middle: writes that of mixed. */
static void residual_backward(const struct block *block, const struct block_pass *pass,
                              const struct block_scratch *scratch, const struct residual *r,
                              struct slice gradients, float *dmixed, const float *dmiddle, size_t first)
{
    float *dbranch = scratch->narrow[0];
    dropout_rows(&pass->dropout, site_key(pass, r->site), pass->rows, dbranch, dmiddle, first, r->n,
                 block->dim);
    watch_lap(scratch->watch, PROFILE_DROPOUT);
    dense_backward(r->output, pass->rows->kernels, pass->values, gradients, dmixed + r->at, false, dbranch,
                   r->mixed, r->n);
    watch_lap(scratch->watch, PROFILE_PRODUCTS);
}

static void clear_gradients(const struct attention_gradients *d, size_t at, size_t bytes)
{
    memset(d->query + at, 0, bytes);
    memset(d->key + at, 0, bytes);
    memset(d->value + at, 0, bytes);
}

/* Dropout inside the ffn; off in a post-LN block. */
static struct dropout wide_dropout(const struct block *block, const struct block_pass *pass)
{
    return block->norm == BLOCK_POST_NORM ? dropout_of(0) : pass->dropout;
}

/* The tile's rows before the activation; scratch without backward. */
static float *before_of(const struct block *block, const struct block_space *space,
                        const struct block_scratch *scratch, size_t first)
{
    return space->before == NULL ? scratch->wide : space->before + first * block->wide;
}

void block_leave(const struct block *block, const struct block_pass *pass, const struct block_space *space,
                 const struct block_scratch *scratch, float *y, size_t first)
{
    const struct residual r = last_residual(block, pass, space, first);
    const struct kernels *kernels = pass->rows->kernels;
    const struct dropout inner = wide_dropout(block, pass);
    bool post = block->norm == BLOCK_POST_NORM;
    float *branch = scratch->narrow[0], *normed = scratch->narrow[1];

    residual_forward(block, pass, scratch, &r, normed, first);
    ffn_forward(&block->ffn, pass->rows, pass->values, &inner, site_key(pass, SITE_WIDE), branch,
                before_of(block, space, scratch, first), scratch->wide, normed, first, r.n, scratch->halves,
                scratch->watch);
    float *sum = !post ? y + r.at : space->sum == NULL ? normed : space->sum + r.at;
    dropout_add_rows(&pass->dropout, site_key(pass, SITE_FFN), pass->rows, sum, post ? normed : r.middle,
                     branch, first, r.n, block->dim);
    watch_lap(scratch->watch, PROFILE_DROPOUT);
    if (!post)
        return;
    norm_forward(&block->second_norm, kernels, pass->values, y + r.at, scratch->statistics, sum, r.n);
    watch_lap(scratch->watch, PROFILE_NORM);
}

/* Backward pass of the ffn's branch: dnormed, the gradient of its input, from dout, the gradient of its
   output. */
static void ffn_branch_backward(const struct block *block, const struct block_pass *pass,
                                const struct block_space *space, const struct block_scratch *scratch,
                                const struct residual *r, struct slice gradients, float *dnormed,
                                float *dbranch, const float *dout, size_t first)
{
    const struct dropout inner = wide_dropout(block, pass);
    float *normed = scratch->narrow[1];
    dropout_rows(&pass->dropout, site_key(pass, SITE_FFN), pass->rows, dbranch, dout, first, r->n,
                 block->dim);
    watch_lap(scratch->watch, PROFILE_DROPOUT);
    norm_forward(r->norm, pass->rows->kernels, pass->values, normed, scratch->statistics, r->middle, r->n);
    watch_lap(scratch->watch, PROFILE_NORM);
    ffn_backward(&block->ffn, pass->rows, pass->values, gradients, &inner, site_key(pass, SITE_WIDE), dnormed,
                 scratch->wide, scratch->slope, dbranch, before_of(block, space, scratch, first), normed,
                 first, r->n, scratch->watch);
}

/* From the gradient of y to that of the last attention's middle, pre-LN. */
static void pre_norm_backward(const struct block *block, const struct block_pass *pass,
                              const struct block_space *space, const struct block_scratch *scratch,
                              const struct residual *r, struct slice gradients, float *stream, size_t first)
{
    float *dbranch = scratch->narrow[0], *dnormed = scratch->narrow[2];
    ffn_branch_backward(block, pass, space, scratch, r, gradients, dnormed, dbranch, stream, first);
    norm_backward(r->norm, pass->rows->kernels, pass->values, gradients, stream, dnormed, r->middle,
                  scratch->statistics, r->n);
    watch_lap(scratch->watch, PROFILE_NORM);
}

/* The same for post-LN: through y's norm, the sum and its branch, and middle's norm. */
static void post_norm_backward(const struct block *block, const struct block_pass *pass,
                               const struct block_space *space, const struct block_scratch *scratch,
                               const struct residual *r, struct slice gradients, float *stream, size_t first)
{
    const struct kernels *kernels = pass->rows->kernels;
    const float *sum = space->sum + r->at;
    float *dsum = scratch->narrow[0], *unused = scratch->narrow[1], *dnormed = scratch->narrow[2];
    norm_forward(&block->second_norm, kernels, pass->values, unused, scratch->statistics, sum, r->n);
    memset(dsum, 0, r->bytes);
    norm_backward(&block->second_norm, kernels, pass->values, gradients, dsum, stream, sum,
                  scratch->statistics, r->n);
    watch_lap(scratch->watch, PROFILE_NORM);
    ffn_branch_backward(block, pass, space, scratch, r, gradients, dnormed, stream, dsum, first);
    kernels->rows.axpy(dnormed, 1.0f, dsum, r->n * block->dim);
    memset(stream, 0, r->bytes);
    norm_backward(r->norm, kernels, pass->values, gradients, stream, dnormed, r->middle, scratch->statistics,
                  r->n);
    watch_lap(scratch->watch, PROFILE_NORM);
}

void block_leave_backward(const struct block *block, const struct block_pass *pass,
                          const struct block_space *space, const struct block_scratch *scratch,
                          struct slice gradients, float *stream, const struct block_gradients *d,
                          size_t first)
{
    const struct residual r = last_residual(block, pass, space, first);
    bool cross = block->cross.present;
    if (block->norm == BLOCK_POST_NORM)
        post_norm_backward(block, pass, space, scratch, &r, gradients, stream + r.at, first);
    else
        pre_norm_backward(block, pass, space, scratch, &r, gradients, stream + r.at, first);
    residual_backward(block, pass, scratch, &r, gradients, cross ? d->cross.mixed : d->attention.mixed,
                      stream + r.at, first);
    if (cross)
        memset(d->cross.query + r.at, 0, r.bytes);
    else
        clear_gradients(&d->attention, r.at, r.bytes);
    watch_lap(scratch->watch, PROFILE_SUMS);
}

/* ---- cross attention ---------------------------------------------------------------------------------- */

void block_cross_enter(const struct block *block, const struct block_pass *pass,
                       const struct block_space *space, const struct block_scratch *scratch, size_t first)
{
    const struct residual r = self_residual(block, pass, space, first);
    float *x = space->cross.x + r.at;
    residual_forward(block, pass, scratch, &r, x, first);
    dense_forward(&block->cross.attention.query, pass->rows->kernels, pass->values,
                  space->cross.attention.query + r.at, x, r.n);
    watch_lap(scratch->watch, PROFILE_PRODUCTS);
}

void block_cross_enter_backward(const struct block *block, const struct block_pass *pass,
                                const struct block_space *space, const struct block_scratch *scratch,
                                struct slice gradients, float *stream, const struct block_gradients *d,
                                size_t first)
{
    const struct residual r = self_residual(block, pass, space, first);
    const struct kernels *kernels = pass->rows->kernels;
    float *unused = scratch->narrow[1], *dx = scratch->narrow[2];
    stream += r.at;
    dense_backward(&block->cross.attention.query, kernels, pass->values, gradients, stream, true,
                   d->cross.query + r.at, space->cross.x + r.at, r.n);
    watch_lap(scratch->watch, PROFILE_PRODUCTS);
    norm_forward(r.norm, kernels, pass->values, unused, scratch->statistics, r.middle, r.n);
    memcpy(dx, stream, r.bytes);
    memset(stream, 0, r.bytes);
    norm_backward(r.norm, kernels, pass->values, gradients, stream, dx, r.middle, scratch->statistics, r.n);
    watch_lap(scratch->watch, PROFILE_NORM);
    residual_backward(block, pass, scratch, &r, gradients, d->attention.mixed, stream, first);
    clear_gradients(&d->attention, r.at, r.bytes);
    watch_lap(scratch->watch, PROFILE_SUMS);
}

void block_cross_keys(const struct block *block, const struct block_pass *pass,
                      const struct block_space *space, const struct block_scratch *scratch, size_t first)
{
    const struct attention_layer *cross = &block->cross.attention;
    const struct kernels *kernels = pass->rows->kernels;
    size_t at = first * block->dim, n = rows_of_tile(pass->encoded_rows, first);
    dense_forward(&cross->key, kernels, pass->values, space->cross.attention.key + at, pass->encoded + at, n);
    dense_forward(&cross->value, kernels, pass->values, space->cross.attention.value + at, pass->encoded + at,
                  n);
    watch_lap(scratch->watch, PROFILE_PRODUCTS);
}

void block_cross_keys_backward(const struct block *block, const struct block_pass *pass,
                               const struct block_scratch *scratch, struct slice gradients,
                               const struct block_gradients *d, size_t first)
{
    const struct attention_layer *cross = &block->cross.attention;
    const struct kernels *kernels = pass->rows->kernels;
    size_t at = first * block->dim, n = rows_of_tile(pass->encoded_rows, first);
    dense_backward(&cross->key, kernels, pass->values, gradients, pass->dencoded + at, true,
                   d->cross.key + at, pass->encoded + at, n);
    dense_backward(&cross->value, kernels, pass->values, gradients, pass->dencoded + at, true,
                   d->cross.value + at, pass->encoded + at, n);
    watch_lap(scratch->watch, PROFILE_PRODUCTS);
}
