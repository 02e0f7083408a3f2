/* A pass over the prompt has an inspector that gives the keys and values of each group of heads to what holds
   them. The rows of new tokens go through the blocks by few_rows.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/generation/generation.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "models/generation/held.h"
#include "models/model_parts.h"
#include "models/model_space.h"

struct generation {
    const struct inference *inference;
    const struct trunk *trunk;
    const struct loss_term *term; /* that scores the next id */
    uint32_t first;
    size_t sequences, context, count; /* count: tokens so far */
    const char *recomputes;
    hashattn_status absorbed; /* of the prompt */
    uint32_t *ids;            /* (sequences, context) tokens of each, if it recomputes */
    struct held **held;       /* (layers, HEAD_GROUPS), if it does not */
    struct model_space space; /* of passes over whole sequences */
    float *x, *places;        /* (FEW_ROWS, dim) the newest rows; the sinusoids of their positions */
    struct few_space few;
    float *work, *scores; /* (dim); (sequences, num_next) */
    void *block;
};

/* ---- making ------------------------------------------------------------------------------------------- */

static const struct loss_term *scoring_term(const struct model *model)
{
    for (size_t i = 0; i < model->num_terms; i++)
        if (model->terms[i].objective->num_next != NULL)
            return &model->terms[i];
    return NULL;
}

/* The first mechanism that holds nothing. */
static const char *find_recomputed(const struct trunk *trunk)
{
    for (size_t layer = 0; layer < trunk->layers; layer++) {
        const struct attention_layer *attention = &trunk->blocks[layer].attention;
        for (size_t g = 0; g < attention->num_groups; g++) {
            const struct head_group *group = &attention->mixings[g].group;
            if (held_kind(group->mechanism, group->options, attention->head_dim) == HELD_NOTHING)
                return group->mechanism->name;
        }
    }
    return NULL;
}

static uint64_t pass_key(const struct generation *generation)
{
    return random_key(generation->inference->seed, RANDOM_EVALUATION, 0);
}

static hashattn_status make_held(struct host *host, struct generation *g)
{
    void *block;
    TRY(memory_new_zeroed(host, g->trunk->layers * HEAD_GROUPS, sizeof *g->held, "what layers hold", &block));
    g->held = block;
    for (size_t layer = 0; layer < g->trunk->layers; layer++) {
        const struct attention_layer *attention = &g->trunk->blocks[layer].attention;
        struct held_shape shape = {
            .kernels = g->inference->kernels,
            .pool = g->inference->pool,
            .attention = attention,
            .values = g->inference->values,
            .call_key = random_key(pass_key(g), RANDOM_LAYER, g->trunk->first_layer + layer),
            .sequences = g->sequences,
        };
        for (size_t i = 0; i < attention->num_groups; i++) {
            shape.mixing = &attention->mixings[i];
            TRY(held_new(host, &shape, &g->held[layer * HEAD_GROUPS + i]));
        }
    }
    return HASHATTN_OK;
}

/* Divides the block; on NULL it only counts bytes. */
static size_t lay(struct generation *g, void *block)
{
    struct arena arena = arena_on(block);
    size_t dim = g->trunk->dim;
    g->x = arena_take(&arena, size_product(FEW_ROWS, dim), sizeof(float));
    g->places = arena_take(&arena, size_product(FEW_ROWS, dim), sizeof(float));
    g->few = few_space_take(&g->trunk->blocks[0], &arena);
    g->work = arena_take(&arena, dim, sizeof(float));
    g->scores = arena_take(&arena, size_product(g->sequences, generation_count(g)), sizeof(float));
    if (g->recomputes != NULL)
        g->ids = arena_take(&arena, size_product(g->sequences, g->context), sizeof *g->ids);
    return arena.used;
}

static hashattn_status check(struct host *host, const struct generation *g)
{
    struct model *model = g->inference->model;
    const struct model_config *config = model_config_of(model);
    FAIL_IF(scoring_term(model) == NULL || model->bare || model_decodes(model) || model->encoder.num_more > 0,
            host, HASHATTN_REFUSED,
            "the model does not predict the next token: no objective of it is next_token");
    FAIL_IF(g->context > (size_t)config->max_len, host, HASHATTN_INVALID,
            "a context of %zu tokens is needed, the model has positions for %lld", g->context,
            (long long)config->max_len);
    return model_fit(host, model, g->context);
}

static hashattn_status make(struct host *host, struct generation *g)
{
    const struct model *model = g->inference->model;
    TRY(check(host, g));
    g->trunk = &model->encoder.trunk;
    g->term = scoring_term(model);
    g->first = (uint32_t)model->config.objectives[g->term - model->terms].first_output;
    g->recomputes = find_recomputed(g->trunk);
    TRY(memory_new(host, lay(g, NULL), 1, "rows of new tokens", &g->block));
    lay(g, g->block);
    return g->recomputes == NULL ? make_held(host, g) : HASHATTN_OK;
}

hashattn_status generation_new(struct host *host, const struct inference *inference, size_t sequences,
                               size_t context, struct generation **out)
{
    void *block;
    *out = NULL;
    assert(sequences >= 1 && sequences <= FEW_ROWS);
    TRY(memory_new_zeroed(host, 1, sizeof **out, "a generation", &block));
    struct generation *g = block;
    g->inference = inference;
    g->sequences = sequences;
    g->context = context;
    hashattn_status status = make(host, g);
    if (status != HASHATTN_OK)
        generation_free(host, g);
    else
        *out = g;
    return status;
}

void generation_free(struct host *host, struct generation *g)
{
    if (g == NULL)
        return;
    for (size_t i = 0; g->held != NULL && i < g->trunk->layers * HEAD_GROUPS; i++)
        held_free(host, g->held[i]);
    memory_free(host, g->held);
    model_space_free(host, &g->space);
    memory_free(host, g->block);
    memory_free(host, g);
}

const char *generation_recomputes(const struct generation *g)
{
    return g->recomputes;
}

size_t generation_count(const struct generation *g)
{
    return g->term->objective->num_next(g->term->self);
}

uint32_t generation_first(const struct generation *g)
{
    return g->first;
}

const float *generation_scores(const struct generation *g)
{
    return g->scores;
}

/* ---- passes over whole sequences ---------------------------------------------------------------------- */

/* Gives the keys and values of a group of heads to what holds them. */
static void see(void *argument, size_t layer, const struct attention_call *call)
{
    struct generation *g = argument;
    const struct attention_layer *attention = &g->trunk->blocks[layer - g->trunk->first_layer].attention;
    size_t group = 0;
    while (attention->mixings[group].first_head != call->plan->shape.first_head)
        group++;
    if (g->absorbed == HASHATTN_OK)
        g->absorbed = held_absorb(g->held[(layer - g->trunk->first_layer) * HEAD_GROUPS + group], call);
}

/* Computes the rows of `num` sequences of n tokens each, ids (num, n), and keeps the last row of each. */
static hashattn_status pass(struct host *host, struct generation *g, const uint32_t *ids, size_t num,
                            size_t n, const struct inspector *inspector)
{
    const struct inference *inference = g->inference;
    size_t offsets[FEW_ROWS + 1], dim = g->trunk->dim;
    struct model_pass *opened;
    for (size_t s = 0; s <= num; s++)
        offsets[s] = s * n;
    const struct model_batch batch = {
        .kernels = inference->kernels,
        .pool = inference->pool,
        .num_sequences = num,
        .offsets = offsets,
        .input = {.ids = ids},
        .random_key = pass_key(g),
        .profile = inference->profile,
        .inspector = inspector,
    };
    TRY(model_space_open(host, &g->space, inference->model, &batch, inference->values, &opened));
    model_forward(opened);
    for (size_t s = 0; s < num; s++)
        memcpy(g->x + s * dim, model_rows(opened) + (offsets[s + 1] - 1) * dim, dim * sizeof(float));
    return HASHATTN_OK;
}

static void score(struct generation *g)
{
    g->term->objective->score_next(g->term->self, g->inference->kernels, g->inference->pool,
                                   g->inference->values, g->x, g->sequences, g->scores, g->work);
}

hashattn_status generation_read(struct host *host, struct generation *g, const uint32_t *ids, size_t n)
{
    const struct inspector inspector = {see, g};
    size_t dim = g->trunk->dim;
    assert(n >= 1);
    FAIL_IF(n > g->context, host, HASHATTN_INVALID, "the prompt has %zu tokens, the context %zu", n,
            g->context);
    const struct inference_input input = {.num_sequences = 1, .offsets = (const size_t[]){0, n}, .ids = ids};
    TRY(inference_check(host, g->inference, &input));
    for (size_t i = 0; g->held != NULL && i < g->trunk->layers * HEAD_GROUPS; i++)
        if (g->held[i] != NULL)
            TRY(held_clear(g->held[i]));
    g->absorbed = HASHATTN_OK;
    TRY(pass(host, g, ids, 1, n, g->recomputes == NULL ? &inspector : NULL));
    TRY(g->absorbed);
    g->count = n;
    for (size_t s = 1; s < g->sequences; s++)
        memcpy(g->x + s * dim, g->x, dim * sizeof(float));
    for (size_t i = 0; g->held != NULL && i < g->trunk->layers * HEAD_GROUPS; i++)
        if (g->held[i] != NULL)
            TRY(held_spread(g->held[i]));
    for (size_t s = 0; g->recomputes != NULL && s < g->sequences; s++)
        memcpy(g->ids + s * g->context, ids, n * sizeof *ids);
    score(g);
    return HASHATTN_OK;
}

/* ---- one token ---------------------------------------------------------------------------------------- */

static struct few_rows rows_of_token(const struct generation *g)
{
    return (struct few_rows){g->inference->kernels, g->inference->pool, g->inference->values, g->sequences};
}

static void norm_rows(const struct generation *g, float *y, const float *x)
{
    norm_forward(&g->trunk->norm, g->inference->kernels, g->inference->values, y, g->few.statistics, x,
                 g->sequences);
}

/* The rows that enter the first block. */
static void enter(struct generation *g, const uint32_t *ids)
{
    const struct trunk *trunk = g->trunk;
    const struct embed *embed = &trunk->input.embed;
    size_t dim = trunk->dim;
    float *words = trunk->norm_last ? g->x : g->few.normed;
    for (size_t s = 0; s < g->sequences; s++) {
        embed_word(embed, g->inference->kernels, g->inference->values, words + s * dim, ids[s], g->count);
        if (embed->kind == POSITIONS_LAYERED)
            memcpy(g->places + s * dim, embed->sinusoids + g->count * dim, dim * sizeof(float));
    }
    if (!trunk->norm_last)
        norm_rows(g, g->x, words);
}

static hashattn_status mix(struct generation *g, size_t layer)
{
    for (size_t i = 0; i < g->trunk->blocks[layer].attention.num_groups; i++)
        TRY(held_mix(g->held[layer * HEAD_GROUPS + i], g->few.query, g->few.key, g->few.value, g->few.mixed));
    return HASHATTN_OK;
}

static hashattn_status run_token(struct generation *g, const uint32_t *ids)
{
    const struct trunk *trunk = g->trunk;
    const struct few_rows rows = rows_of_token(g);
    enter(g, ids);
    for (size_t layer = 0; layer < trunk->layers; layer++) {
        few_rows_enter(&trunk->blocks[layer], &rows, &g->few, g->x, g->places);
        TRY(mix(g, layer));
        few_rows_leave(&trunk->blocks[layer], &rows, &g->few, g->x);
    }
    if (trunk->normed && trunk->norm_last) {
        memcpy(g->few.normed, g->x, g->sequences * trunk->dim * sizeof(float));
        norm_rows(g, g->x, g->few.normed);
    }
    return HASHATTN_OK;
}

/* The whole sequences again, packed in front of their memory. */
static hashattn_status run_again(struct host *host, struct generation *g, const uint32_t *ids)
{
    void *block;
    size_t n = g->count + 1;
    TRY(memory_new(host, g->sequences * n, sizeof *ids, "tokens of a batch", &block));
    uint32_t *packed = block;
    for (size_t s = 0; s < g->sequences; s++) {
        g->ids[s * g->context + g->count] = ids[s];
        memcpy(packed + s * n, g->ids + s * g->context, n * sizeof *ids);
    }
    hashattn_status status = pass(host, g, packed, g->sequences, n, NULL);
    memory_free(host, packed);
    return status;
}

hashattn_status generation_append(struct host *host, struct generation *g, const uint32_t *ids)
{
    const struct model_config *config = model_config_of(g->inference->model);
    FAIL_IF(g->count == g->context, host, HASHATTN_INVALID, "the context of %zu tokens is full", g->context);
    for (size_t s = 0; s < g->sequences; s++)
        FAIL_IF(ids[s] >= config->vocab_size, host, HASHATTN_INVALID, "token %zu is id %u, ids are 0 to %lld",
                g->count, (unsigned)ids[s], (long long)config->vocab_size - 1);
    TRY(g->recomputes != NULL ? run_again(host, g, ids) : run_token(g, ids));
    g->count++;
    score(g);
    return HASHATTN_OK;
}
