/* Running the trunk, and what is behind it: forward goes through stages of tiles and mixings of the whole
   batch in turn, backward comes back through the same. A tile of rows goes from the end of one block into the
   beginning of the next while it is in cache. In training every block has activations of its own; in
   evaluation all blocks share one set and rows are overwritten in place. Memory in training, floats per row
   and block: 6 dim + ffn (post-LN: 7 dim + ffn), beside what attention saves, and 5 dim once.
   SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "models/encoder_parts.h"

/* ---- the workspace ------------------------------------------------------------------------------------ */

struct space {
    bool training;
    size_t narrow, wide; /* floats of (padded, dim) and (padded, ffn) */
    size_t saved_bytes[PLAN_LISTS],
        num_lists; /* bytes that attention saves in a layer of each list of heads */
    float *stream; /* (layers + 1) inputs of the blocks and of the last norm; one in evaluation */
    float *middle, *query, *key, *value, *context, *mixed; /* (layers) (padded, dim) */
    float *sum;           /* (layers) (padded, dim), post-LN; none in evaluation */
    float *before;        /* (layers) (padded, ffn); none in evaluation */
    unsigned char *saved; /* (layers) */
    void *mix_scratch;
    float *normed; /* (padded, dim) out of the last norm */
    float *tiles;  /* (threads) scratch of tiles */
    size_t tile_floats;
    struct classifier_space classifier; /* one of the two */
    struct next_token_space next;
    /* backward */
    float *dstream;               /* (padded, dim) */
    struct attention_gradients d; /* (padded, dim) */
    float *partials;              /* (chunks, floats of the largest stage) */
};

static size_t mean_over(const struct encoder *encoder, const struct encoder_batch *batch)
{
    if (batch->mean_over > 0)
        return batch->mean_over;
    return batch->num_sequences / (encoder->config.pairs ? 2 : 1);
}

static size_t mean_over_tokens(const struct encoder_batch *batch)
{
    size_t count = 0;
    if (batch->mean_over_tokens > 0)
        return batch->mean_over_tokens;
    for (size_t row = 0; row < batch->offsets[batch->num_sequences]; row++)
        count += batch->labels[row] >= 1;
    return count > 0 ? count : 1;
}

/* The share of a mechanism's own loss in what is trained; of the mechanisms of a model one has one, or none.
 */
static double own_share(const struct encoder *encoder)
{
    const struct head_plan *plan = &encoder->config.plan;
    double share = 0;
    for (size_t i = 0; i < plan->num_used; i++)
        if (plan->used[i].mechanism->auxiliary != NULL) {
            assert(share == 0);
            share = plan->used[i].mechanism->auxiliary_share(plan->used[i].options);
        }
    return share;
}

/* What one sum over units of it weighs: the mean over the heads that have it, and over examples. */
static double own_weight(const struct encoder *encoder, const struct encoder_batch *batch)
{
    size_t heads = 0;
    for (size_t i = 0; i < encoder->layers; i++)
        heads += self_attention_auxiliary_heads(&encoder->blocks[i].attention);
    return heads == 0 ? 0 : own_share(encoder) / ((double)heads * (double)mean_over(encoder, batch));
}

static struct rows rows_in(const struct encoder_batch *batch)
{
    struct rows rows =
        rows_of(batch->kernels, batch->pool, batch->num_sequences, batch->offsets, batch->sample_ids);
    rows.profile = batch->profile;
    rows.inspector = batch->inspector;
    return rows;
}

/* Bytes that attention saves in the layers before this one. */
static size_t saved_before(const struct space *s, size_t layer)
{
    size_t bytes = 0;
    for (size_t i = 0; i < layer; i++)
        bytes = size_sum(bytes, s->saved_bytes[i < s->num_lists ? i : s->num_lists - 1]);
    return bytes;
}

/* Of one layer in evaluation, where all share it. */
static size_t saved_of_all(const struct space *s, size_t layers)
{
    size_t most = 0;
    for (size_t i = 0; i < s->num_lists; i++)
        most = s->saved_bytes[i] > most ? s->saved_bytes[i] : most;
    return s->training ? saved_before(s, layers) : most;
}

/* Cuts the workspace; on NULL it counts. */
static struct space lay(const struct encoder *encoder, const struct encoder_batch *batch, void *block,
                        size_t *bytes)
{
    struct rows rows = rows_in(batch);
    struct arena arena = arena_on(block);
    size_t layers = encoder->layers, kept = batch->training ? layers : 1;
    struct space s = {
        .training = batch->training,
        .narrow = size_product(rows.padded, encoder->dim),
        .wide = size_product(rows.padded, encoder->wide),
        .num_lists = encoder->config.plan.num_lists,
        .tile_floats = block_scratch_size(&encoder->blocks[0], batch->training),
    };
    size_t narrow = size_product(kept, s.narrow);
    s.stream = arena_take(&arena, size_product(batch->training ? layers + 1 : 1, s.narrow), sizeof(float));
    s.query = arena_take(&arena, narrow, sizeof(float));
    s.key = arena_take(&arena, narrow, sizeof(float));
    s.value = arena_take(&arena, narrow, sizeof(float));
    s.context = arena_take(&arena, narrow, sizeof(float));
    size_t align = MEMORY_ALIGNMENT, mix_bytes = 0;
    for (size_t i = 0; i < s.num_lists; i++) {
        const struct self_attention *attention = &encoder->blocks[i].attention;
        size_t needed = self_attention_scratch_size(attention, &rows);
        mix_bytes = needed > mix_bytes ? needed : mix_bytes;
        s.saved_bytes[i] = size_sum(self_attention_saved_size(attention, &rows), align - 1) / align * align;
    }
    s.saved = arena_take(&arena, saved_of_all(&s, layers), 1);
    s.mix_scratch = arena_take(&arena, mix_bytes, 1);
    s.tiles =
        arena_take(&arena, size_product((size_t)pool_threads(batch->pool), s.tile_floats), sizeof(float));
    if (encoder->config.next_token)
        s.next = next_token_lay(&encoder->next, &rows, batch->training, &arena);
    else
        s.classifier = classifier_lay(&encoder->classifier, &rows, batch->training, &arena);
    if (!batch->training) {
        s.middle = s.stream;
        s.mixed = s.context;
        s.normed = s.query;
        *bytes = arena.used;
        return s;
    }
    bool convolved = encoder->config.conv_window > 0;
    s.middle = arena_take(&arena, narrow, sizeof(float));
    s.mixed = convolved ? arena_take(&arena, narrow, sizeof(float)) : s.context;
    if (encoder_is_post_norm(encoder))
        s.sum = arena_take(&arena, narrow, sizeof(float));
    s.before = arena_take(&arena, size_product(layers, s.wide), sizeof(float));
    s.dstream = arena_take(&arena, s.narrow, sizeof(float));
    s.d.query = arena_take(&arena, s.narrow, sizeof(float));
    s.d.key = arena_take(&arena, s.narrow, sizeof(float));
    s.d.value = arena_take(&arena, s.narrow, sizeof(float));
    s.d.mixed = arena_take(&arena, s.narrow, sizeof(float));
    s.normed = s.d.mixed; /* free until backward begins */
    size_t partials = 0;
    for (size_t k = 0; k <= layers; k++) {
        struct stage stage = encoder_stage(encoder, k);
        size_t floats = rows_chunks(rows.tiles, stage.count) * stage.count;
        partials = floats > partials ? floats : partials;
    }
    s.partials = arena_take(&arena, partials, sizeof(float));
    *bytes = arena.used;
    return s;
}

size_t encoder_workspace_size(const struct encoder *encoder, const struct encoder_batch *batch)
{
    size_t bytes;
    lay(encoder, batch, NULL, &bytes);
    return bytes;
}

size_t encoder_saved_size(const struct encoder *encoder, const struct encoder_batch *batch)
{
    size_t bytes;
    struct space s = lay(encoder, batch, NULL, &bytes);
    return saved_of_all(&s, encoder->layers);
}

/* ---- a pass ------------------------------------------------------------------------------------------- */

/* One forward or backward on its way; the argument of every unit of work. */
struct pass {
    const struct encoder *encoder;
    const struct encoder_batch *batch;
    const float *values;
    struct rows rows;
    struct space space;
    struct dropout dropout;
    size_t stage;
    size_t chunks; /* of the present stage, in backward */
};

static struct pass open_pass(const struct encoder *encoder, const struct encoder_batch *batch,
                             const float *values, void *workspace)
{
    size_t bytes;
    struct pass pass = {
        .encoder = encoder,
        .batch = batch,
        .values = values,
        .rows = rows_in(batch),
        .space = lay(encoder, batch, workspace, &bytes),
        .dropout = dropout_of(batch->training ? encoder->config.dropout : 0),
    };
    assert(pass.dropout.threshold == 0 || batch->sample_ids != NULL);
    return pass;
}

static struct block_pass block_pass_of(const struct pass *pass, size_t layer)
{
    return (struct block_pass){
        .rows = &pass->rows,
        .values = pass->values,
        .dropout = pass->dropout,
        .random_key = random_key(pass->batch->random_key, RANDOM_LAYER, layer),
    };
}

static float *stream_of(const struct space *s, size_t layer)
{
    return s->stream + (s->training ? layer * s->narrow : 0);
}

static struct block_space space_of(const struct space *s, size_t layer)
{
    size_t at = s->training ? layer : 0, narrow = at * s->narrow, wide = at * s->wide;
    return (struct block_space){
        .x = stream_of(s, layer),
        .middle = s->middle + narrow,
        .sum = s->sum == NULL ? NULL : s->sum + narrow,
        .before = s->before == NULL ? NULL : s->before + wide,
        .attention =
            {
                .query = s->query + narrow,
                .key = s->key + narrow,
                .value = s->value + narrow,
                .context = s->context + narrow,
                .mixed = s->mixed + narrow,
                .saved = s->saved + saved_before(s, at),
                .scratch = s->mix_scratch,
            },
    };
}

static struct block_scratch scratch_of(const struct pass *pass, int worker)
{
    return block_scratch_on(&pass->encoder->blocks[0], pass->batch->training,
                            pass->space.tiles + (size_t)worker * pass->space.tile_floats,
                            profile_watch(pass->rows.profile, worker));
}

/* The embedding drops too; its key stands beside those of the layers. */
static uint64_t embed_key(const struct pass *pass)
{
    return random_key(pass->batch->random_key, RANDOM_DROPOUT, 0);
}

/* ---- forward ------------------------------------------------------------------------------------------ */

static void forward_tile(void *argument, size_t tile, int worker)
{
    const struct pass *pass = argument;
    const struct encoder *encoder = pass->encoder;
    const struct space *s = &pass->space;
    struct block_scratch scratch = scratch_of(pass, worker);
    size_t first = tile * ROW_TILE, at = first * encoder->dim, stage = pass->stage;
    float *stream = stream_of(s, stage);
    if (stage == 0) {
        embed_forward(&encoder->embed, &pass->rows, pass->values, stream + at, pass->batch->tokens, first,
                      ROW_TILE);
        watch_lap(scratch.watch, PROFILE_EMBEDDING);
        if (encoder_is_post_norm(encoder)) {
            float *words = scratch.narrow[0];
            memcpy(words, stream + at, ROW_TILE * encoder->dim * sizeof *words);
            norm_forward(&encoder->norm, pass->rows.kernels, pass->values, stream + at, scratch.statistics,
                         words, ROW_TILE);
            watch_lap(scratch.watch, PROFILE_NORM);
        }
        dropout_rows(&pass->dropout, embed_key(pass), &pass->rows, stream + at, stream + at, first, ROW_TILE,
                     encoder->dim);
        watch_lap(scratch.watch, PROFILE_DROPOUT);
    } else {
        struct block_pass block = block_pass_of(pass, stage - 1);
        struct block_space space = space_of(s, stage - 1);
        block_leave(&encoder->blocks[stage - 1], &block, &space, &scratch, stream, first);
    }
    if (stage < encoder->layers) {
        struct block_pass block = block_pass_of(pass, stage);
        struct block_space space = space_of(s, stage);
        block_enter(&encoder->blocks[stage], &block, &space, &scratch, first);
    } else if (!encoder_is_post_norm(encoder)) {
        norm_forward(&encoder->norm, pass->rows.kernels, pass->values, s->normed + at, scratch.statistics,
                     stream + at, ROW_TILE);
        watch_lap(scratch.watch, PROFILE_NORM);
    }
}

/* The rows that leave the trunk. In training they are there until backward has come back to its end. */
static const float *last_rows(const struct pass *pass)
{
    const struct encoder *encoder = pass->encoder;
    return encoder_is_post_norm(encoder) ? stream_of(&pass->space, encoder->layers) : pass->space.normed;
}

double encoder_forward(const struct encoder *encoder, const struct encoder_batch *batch, const float *values,
                       void *workspace, float *logits)
{
    struct pass pass = open_pass(encoder, batch, values, workspace);
    const struct space *s = &pass.space;
    double own = 0, share = own_share(encoder);
    for (pass.stage = 0; pass.stage <= encoder->layers; pass.stage++) {
        if (pass.stage > 0) {
            const struct block *block = &encoder->blocks[pass.stage - 1];
            struct block_pass block_pass = block_pass_of(&pass, pass.stage - 1);
            struct block_space space = space_of(s, pass.stage - 1);
            pass.rows.layer = pass.stage - 1;
            block_mix(block, &block_pass, &space);
            if (batch->training && batch->labels != NULL && share > 0)
                own += block_auxiliary(block, &block_pass, &space, (struct slice){NULL, 0}, 0);
        }
        pool_run(batch->pool, forward_tile, &pass, pass.rows.tiles);
        profile_lap(batch->profile, PROFILE_PRODUCTS);
    }
    double loss = 0;
    if (!encoder->config.next_token)
        loss = classifier_forward(&encoder->classifier, &pass.rows, pass.values, &s->classifier,
                                  last_rows(&pass), batch->labels, mean_over(encoder, batch), logits);
    else if (batch->labels != NULL)
        loss = next_token_forward(&encoder->next, &pass.rows, pass.values, &s->next, last_rows(&pass),
                                  batch->labels) /
               (double)mean_over_tokens(batch);
    if (!encoder->config.next_token && share > 0)
        classifier_weigh(&encoder->classifier, &pass.rows, &s->classifier, 1 - share);
    profile_lap(batch->profile, PROFILE_HEAD);
    if (batch->labels == NULL || batch->num_sequences == 0)
        return 0;
    return batch->training ? (1 - share) * loss + own_weight(encoder, batch) * own : loss;
}

struct token_scores encoder_token_scores(const struct encoder *encoder, const struct encoder_batch *batch,
                                         void *workspace)
{
    size_t bytes;
    struct space s = lay(encoder, batch, workspace, &bytes);
    assert(encoder->config.next_token && batch->labels != NULL);
    return (struct token_scores){s.next.loss, s.next.correct};
}

/* ---- backward ----------------------------------------------------------------------------------------- */

/* Back through the norm of the embedding, whose rows are made again. */
static void embed_norm_backward(const struct pass *pass, const struct block_scratch *scratch,
                                struct slice gradients, size_t first)
{
    const struct encoder *encoder = pass->encoder;
    size_t bytes = ROW_TILE * encoder->dim * sizeof(float);
    float *words = scratch->narrow[0], *unused = scratch->narrow[1], *dnormed = scratch->narrow[2];
    float *dstream = pass->space.dstream + first * encoder->dim;
    embed_forward(&encoder->embed, &pass->rows, pass->values, words, pass->batch->tokens, first, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_EMBEDDING);
    norm_forward(&encoder->norm, pass->rows.kernels, pass->values, unused, scratch->statistics, words,
                 ROW_TILE);
    memcpy(dnormed, dstream, bytes);
    memset(dstream, 0, bytes);
    norm_backward(&encoder->norm, pass->rows.kernels, pass->values, gradients, dstream, dnormed, words,
                  scratch->statistics, ROW_TILE);
    watch_lap(scratch->watch, PROFILE_NORM);
}

static void backward_tile(const struct pass *pass, const struct block_scratch *scratch,
                          struct slice gradients, size_t first)
{
    const struct encoder *encoder = pass->encoder;
    const struct space *s = &pass->space;
    size_t at = first * encoder->dim, stage = pass->stage;
    float *stream = stream_of(s, stage), *dstream = s->dstream;
    if (stage < encoder->layers) {
        struct block_pass block = block_pass_of(pass, stage);
        struct block_space space = space_of(s, stage);
        block_enter_backward(&encoder->blocks[stage], &block, &space, scratch, gradients, dstream, &s->d,
                             first);
    } else {
        bool post = encoder_is_post_norm(encoder);
        float *normed = scratch->narrow[0], *dnormed = post ? dstream + at : scratch->narrow[1];
        if (!encoder->config.next_token)
            classifier_backward_rows(&encoder->classifier, &pass->rows, &s->classifier, dnormed, first,
                                     ROW_TILE);
        else if (!post) /* the whole batch's are in dstream */
            memcpy(dnormed, dstream + at, ROW_TILE * encoder->dim * sizeof *dstream);
        watch_lap(scratch->watch, PROFILE_HEAD);
        if (!post) {
            norm_forward(&encoder->norm, pass->rows.kernels, pass->values, normed, scratch->statistics,
                         stream + at, ROW_TILE);
            memset(dstream + at, 0, ROW_TILE * encoder->dim * sizeof *dstream);
            norm_backward(&encoder->norm, pass->rows.kernels, pass->values, gradients, dstream + at, dnormed,
                          stream + at, scratch->statistics, ROW_TILE);
            watch_lap(scratch->watch, PROFILE_NORM);
        }
    }
    if (stage > 0) {
        struct block_pass block = block_pass_of(pass, stage - 1);
        struct block_space space = space_of(s, stage - 1);
        block_leave_backward(&encoder->blocks[stage - 1], &block, &space, scratch, gradients, dstream, &s->d,
                             first);
    } else {
        dropout_rows(&pass->dropout, embed_key(pass), &pass->rows, dstream + at, dstream + at, first,
                     ROW_TILE, encoder->dim);
        watch_lap(scratch->watch, PROFILE_DROPOUT);
        if (encoder_is_post_norm(encoder))
            embed_norm_backward(pass, scratch, gradients, first);
    }
}

/* A chunk of tiles, in order, into a partial gradient of its own. */
static void backward_chunk(void *argument, size_t chunk, int worker)
{
    const struct pass *pass = argument;
    struct stage stage = encoder_stage(pass->encoder, pass->stage);
    struct block_scratch scratch = scratch_of(pass, worker);
    struct slice gradients = {pass->space.partials + chunk * stage.count, stage.first};
    memset(gradients.floats, 0, stage.count * sizeof(float));
    watch_lap(scratch.watch, PROFILE_SUMS);
    size_t tile, end;
    for (rows_chunk(pass->rows.tiles, pass->chunks, chunk, &tile, &end); tile < end; tile++)
        backward_tile(pass, &scratch, gradients, tile * ROW_TILE);
}

void encoder_backward(const struct encoder *encoder, const struct encoder_batch *batch, const float *values,
                      void *workspace, float *gradients)
{
    assert(batch->training && batch->labels != NULL);
    struct pass pass = open_pass(encoder, batch, values, workspace);
    const struct space *s = &pass.space;
    struct slice whole = {gradients, 0};
    double share = own_share(encoder);
    if (encoder->config.next_token)
        next_token_backward(&encoder->next, &pass.rows, pass.values, whole, &s->next, s->dstream,
                            last_rows(&pass), batch->labels,
                            (float)((1 - share) / (double)mean_over_tokens(batch)));
    else
        classifier_backward(&encoder->classifier, &pass.rows, pass.values, whole, &s->classifier);
    profile_lap(batch->profile, PROFILE_HEAD);
    for (size_t left = encoder->layers + 1; left > 0; left--) {
        pass.stage = left - 1;
        struct stage stage = encoder_stage(encoder, pass.stage);
        pass.chunks = rows_chunks(pass.rows.tiles, stage.count);
        pool_run(batch->pool, backward_chunk, &pass, pass.chunks);
        profile_lap(batch->profile, PROFILE_PRODUCTS);
        rows_reduce(&pass.rows, gradients + stage.first, s->partials, pass.chunks, stage.count);
        profile_lap(batch->profile, PROFILE_SUMS);
        if (pass.stage > 0) {
            const struct block *block = &encoder->blocks[pass.stage - 1];
            struct block_pass block_pass = block_pass_of(&pass, pass.stage - 1);
            struct block_space space = space_of(s, pass.stage - 1);
            block_mix_backward(block, &block_pass, &space, whole, &s->d);
            if (share > 0)
                block_auxiliary(block, &block_pass, &space, whole, own_weight(encoder, batch));
        }
    }
    embed_backward(&encoder->embed, &pass.rows, whole, s->dstream, batch->tokens);
    profile_lap(batch->profile, PROFILE_EMBEDDING);
}
