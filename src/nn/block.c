/* The two residual branches, tile by tile.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/block.h"

#include <stdio.h>
#include <string.h>

#include "base/random.h"

const char *const block_norms[] = {"pre", "post", NULL};

/* Sites of dropout in a block; indices of RANDOM_DROPOUT under the block's key. */
enum site { SITE_ATTENTION, SITE_WIDE, SITE_FFN };

static uint64_t site_key(const struct block_pass *pass, enum site site)
{
    return random_key(pass->random_key, RANDOM_DROPOUT, site);
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
    TRY(self_attention_describe_enter(host, params, attention, shape->dim, shape->heads,
                                      shape->plain_attention, &block->attention));
    if (shape->layered)
        TRY(self_attention_describe_places(host, params, attention, shape->groups, shape->num_groups,
                                           &block->attention));
    block->mix = params->total;
    TRY(self_attention_describe_mix(host, params, attention, shape->taps, shape->groups, shape->num_groups,
                                    shape->max_len, &block->attention));
    block->attention.causal = shape->causal;
    block->leave = params->total;
    TRY(self_attention_describe_leave(host, params, attention, &block->attention));
    snprintf(text, sizeof text, post ? "%s.attention.output.LayerNorm" : "%s.layernorm_after", name);
    TRY(norm_describe(host, params, text, shape->dim, shape->norm_epsilon,
                      post ? &block->first_norm : &block->second_norm));
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
                                   size_t at)
{
    if (block->norm == BLOCK_POST_NORM)
        return space->x + at;
    norm_forward(&block->first_norm, pass->rows->kernels, pass->values, scratch->narrow[0],
                 scratch->statistics, space->x + at, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_NORM);
    return scratch->narrow[0];
}

/* to (ROW_TILE, dim) = the sinusoids of the positions of the tile's rows; zeros after the last row. */
static void take_places(const struct block *block, const struct block_pass *pass, float *to, size_t first)
{
    size_t dim = block->dim, done = 0;
    for (struct span s = rows_span(pass->rows, first, ROW_TILE); s.count > 0; s = rows_next(pass->rows, s)) {
        memcpy(to + done * dim, pass->sinusoids + s.position * dim, s.count * dim * sizeof *to);
        done += s.count;
    }
    memset(to + done * dim, 0, (ROW_TILE - done) * dim * sizeof *to);
}

void block_enter(const struct block *block, const struct block_pass *pass, const struct block_space *space,
                 const struct block_scratch *scratch, size_t first)
{
    const struct attention_space *a = &space->attention;
    size_t at = first * block->dim;
    const float *rows = into_attention(block, pass, space, scratch, at);
    self_attention_enter(&block->attention, pass->rows->kernels, pass->values, a->query + at, a->key + at,
                         a->value + at, rows, ROW_TILE, scratch->halves);
    if (block->attention.placed.columns > 0) {
        float *places = scratch->narrow[1], *room = scratch->narrow[2];
        take_places(block, pass, places, first);
        self_attention_place(&block->attention, pass->rows->kernels, pass->values, a->query + at, a->key + at,
                             places, ROW_TILE, room, scratch->halves);
    }
    watch_lap(scratch->watch, PROFILE_PRODUCTS);
}

void block_enter_backward(const struct block *block, const struct block_pass *pass,
                          const struct block_space *space, const struct block_scratch *scratch,
                          struct slice gradients, float *stream, const struct attention_gradients *d,
                          size_t first)
{
    const struct kernels *kernels = pass->rows->kernels;
    size_t at = first * block->dim;
    const float *rows = into_attention(block, pass, space, scratch, at);
    float *drows = scratch->narrow[1];
    self_attention_enter_backward(&block->attention, kernels, pass->values, gradients, drows, d->query + at,
                                  d->key + at, d->value + at, rows, ROW_TILE);
    if (block->attention.placed.columns > 0) { /* narrow[0], the rows, is not needed any more */
        float *places = scratch->narrow[2], *room = scratch->narrow[0];
        take_places(block, pass, places, first);
        self_attention_place_backward(&block->attention, kernels, pass->values, gradients, d->query + at,
                                      d->key + at, places, ROW_TILE, room);
    }
    watch_lap(scratch->watch, PROFILE_PRODUCTS);
    if (block->norm == BLOCK_POST_NORM)
        kernels->rows.axpy(stream + at, 1.0f, drows, ROW_TILE * block->dim);
    else
        norm_backward(&block->first_norm, kernels, pass->values, gradients, stream + at, drows, space->x + at,
                      scratch->statistics, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_NORM);
}

/* ---- mixing ------------------------------------------------------------------------------------------- */

void block_mix(const struct block *block, const struct block_pass *pass, const struct block_space *space)
{
    self_attention_mix(&block->attention, pass->rows, pass->values, &space->attention, pass->random_key);
}

void block_mix_backward(const struct block *block, const struct block_pass *pass,
                        const struct block_space *space, struct slice gradients,
                        const struct attention_gradients *d)
{
    self_attention_mix_backward(&block->attention, pass->rows, pass->values, gradients, &space->attention, d,
                                pass->random_key);
}

double block_auxiliary(const struct block *block, const struct block_pass *pass,
                       const struct block_space *space, const struct mechanism *mechanism,
                       struct slice gradients, double weight)
{
    return self_attention_auxiliary(&block->attention, pass->rows, pass->values, mechanism, gradients, weight,
                                    &space->attention, pass->random_key);
}

/* ---- after attention ---------------------------------------------------------------------------------- */

/* The rows of one tile, for forward and backward. */
struct leaving {
    const struct rows *rows;
    size_t at, bytes;
    const float *x, *mixed;
    float *middle, *before;
};

static struct leaving leaving_of(const struct block *block, const struct block_pass *pass,
                                 const struct block_space *space, const struct block_scratch *scratch,
                                 size_t first)
{
    size_t at = first * block->dim;
    return (struct leaving){
        .rows = pass->rows,
        .at = at,
        .bytes = ROW_TILE * block->dim * sizeof(float),
        .x = space->x + at,
        .mixed = space->attention.mixed + at,
        .middle = space->middle + at,
        .before = space->before == NULL ? scratch->wide : space->before + first * block->wide,
    };
}

/* Dropout inside the ffn; off in a post-LN block. */
static struct dropout wide_dropout(const struct block *block, const struct block_pass *pass)
{
    return block->norm == BLOCK_POST_NORM ? dropout_of(0) : pass->dropout;
}

void block_leave(const struct block *block, const struct block_pass *pass, const struct block_space *space,
                 const struct block_scratch *scratch, float *y, size_t first)
{
    const struct leaving l = leaving_of(block, pass, space, scratch, first);
    const struct kernels *kernels = l.rows->kernels;
    const struct dropout inner = wide_dropout(block, pass);
    bool post = block->norm == BLOCK_POST_NORM;
    const struct norm *norm = post ? &block->first_norm : &block->second_norm;
    float *branch = scratch->narrow[0], *normed = scratch->narrow[1];

    dense_forward(&block->attention.output, kernels, pass->values, branch, l.mixed, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_PRODUCTS);
    dropout_add_rows(&pass->dropout, site_key(pass, SITE_ATTENTION), l.rows, l.middle, l.x, branch, first,
                     ROW_TILE, block->dim);
    watch_lap(scratch->watch, PROFILE_DROPOUT);
    norm_forward(norm, kernels, pass->values, normed, scratch->statistics, l.middle, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_NORM);
    ffn_forward(&block->ffn, l.rows, pass->values, &inner, site_key(pass, SITE_WIDE), branch, l.before,
                scratch->wide, normed, first, ROW_TILE, scratch->halves, scratch->watch);
    float *sum = !post ? y + l.at : space->sum == NULL ? normed : space->sum + l.at;
    dropout_add_rows(&pass->dropout, site_key(pass, SITE_FFN), l.rows, sum, post ? normed : l.middle, branch,
                     first, ROW_TILE, block->dim);
    watch_lap(scratch->watch, PROFILE_DROPOUT);
    if (!post)
        return;
    norm_forward(&block->second_norm, kernels, pass->values, y + l.at, scratch->statistics, sum, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_NORM);
}

/* Backward pass of the ffn's branch: dnormed, the gradient of its input, from dout, the gradient of its
   output. */
static void ffn_branch_backward(const struct block *block, const struct block_pass *pass,
                                const struct block_scratch *scratch, const struct leaving *l,
                                struct slice gradients, const struct norm *norm, float *dnormed,
                                float *dbranch, const float *dout, size_t first)
{
    const struct dropout inner = wide_dropout(block, pass);
    float *normed = scratch->narrow[1];
    dropout_rows(&pass->dropout, site_key(pass, SITE_FFN), l->rows, dbranch, dout, first, ROW_TILE,
                 block->dim);
    watch_lap(scratch->watch, PROFILE_DROPOUT);
    norm_forward(norm, l->rows->kernels, pass->values, normed, scratch->statistics, l->middle, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_NORM);
    ffn_backward(&block->ffn, l->rows, pass->values, gradients, &inner, site_key(pass, SITE_WIDE), dnormed,
                 scratch->wide, scratch->slope, dbranch, l->before, normed, first, ROW_TILE, scratch->watch);
}

/* From the gradient of y to that of m before its norm, pre-LN. */
static void pre_norm_backward(const struct block *block, const struct block_pass *pass,
                              const struct block_scratch *scratch, const struct leaving *l,
                              struct slice gradients, float *stream, size_t first)
{
    float *dbranch = scratch->narrow[0], *dnormed = scratch->narrow[2];
    ffn_branch_backward(block, pass, scratch, l, gradients, &block->second_norm, dnormed, dbranch, stream,
                        first);
    norm_backward(&block->second_norm, l->rows->kernels, pass->values, gradients, stream, dnormed, l->middle,
                  scratch->statistics, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_NORM);
}

/* The same for post-LN: through y's norm, the sum and its branch, and m's norm. */
static void post_norm_backward(const struct block *block, const struct block_pass *pass,
                               const struct block_scratch *scratch, const struct leaving *l,
                               struct slice gradients, float *stream, const float *sum, size_t first)
{
    const struct kernels *kernels = l->rows->kernels;
    float *dsum = scratch->narrow[0], *unused = scratch->narrow[1], *dnormed = scratch->narrow[2];
    norm_forward(&block->second_norm, kernels, pass->values, unused, scratch->statistics, sum, ROW_TILE);
    memset(dsum, 0, l->bytes);
    norm_backward(&block->second_norm, kernels, pass->values, gradients, dsum, stream, sum,
                  scratch->statistics, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_NORM);
    ffn_branch_backward(block, pass, scratch, l, gradients, &block->first_norm, dnormed, stream, dsum, first);
    kernels->rows.axpy(dnormed, 1.0f, dsum, ROW_TILE * block->dim);
    memset(stream, 0, l->bytes);
    norm_backward(&block->first_norm, kernels, pass->values, gradients, stream, dnormed, l->middle,
                  scratch->statistics, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_NORM);
}

void block_leave_backward(const struct block *block, const struct block_pass *pass,
                          const struct block_space *space, const struct block_scratch *scratch,
                          struct slice gradients, float *stream, const struct attention_gradients *d,
                          size_t first)
{
    const struct leaving l = leaving_of(block, pass, space, scratch, first);
    float *dbranch = scratch->narrow[0];
    if (block->norm == BLOCK_POST_NORM)
        post_norm_backward(block, pass, scratch, &l, gradients, stream + l.at, space->sum + l.at, first);
    else
        pre_norm_backward(block, pass, scratch, &l, gradients, stream + l.at, first);

    dropout_rows(&pass->dropout, site_key(pass, SITE_ATTENTION), l.rows, dbranch, stream + l.at, first,
                 ROW_TILE, block->dim);
    watch_lap(scratch->watch, PROFILE_DROPOUT);
    dense_backward(&block->attention.output, l.rows->kernels, pass->values, gradients, d->mixed + l.at, false,
                   dbranch, l.mixed, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_PRODUCTS);
    memset(d->query + l.at, 0, l.bytes);
    memset(d->key + l.at, 0, l.bytes);
    memset(d->value + l.at, 0, l.bytes);
    watch_lap(scratch->watch, PROFILE_SUMS);
}
