/* Masked tokens: chosen rows predict the id that was hidden there, over the whole vocabulary (Devlin et al.
   2019, task 1). A row has a target if its weight is not 0; the task replaces ids and says which. Such rows
   go through BERT's transform (nn/outputs/transform.h) and an output tied to the embedding
   (nn/outputs/tied_output.h). The table is not scaled: after the transform's norm, logits start with a
   standard deviation of 0.02 sqrt(dim).
   Cost: rows without a target cost nothing, so with 15 % of them masked the output costs 0.15 of that of
   next_token. Memory is for as many targets as rows.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "nn/outputs/tied_output.h"
#include "nn/outputs/transform.h"
#include "objectives/objective.h"

struct masked_tokens {
    size_t dim;
    struct transform transform;
    struct tied_output output;
};

/* ---- description -------------------------------------------------------------------------------------- */

static const char *refuse(const struct objective_facts *facts)
{
    if (facts->causal)
        return "masked tokens are predicted from both sides, and `causal` hides the later ones";
    if (facts->pairs)
        return "an example is two sequences; masked tokens are predicted in single sequences only";
    if (facts->embed->vocab_size <= facts->first_output)
        return "the sequences have no ids to predict";
    if (facts->embed->tails.count > 0)
        return "masked tokens are predicted with one table of words, and `cutoffs` cuts it";
    return NULL;
}

static hashattn_status describe(struct host *host, struct params *params, const struct objective_facts *facts,
                                void *self)
{
    struct masked_tokens *masked = self;
    masked->dim = facts->dim;
    TRY(transform_describe(host, params, "lm_head", facts->dim, facts->norm_epsilon, &masked->transform));
    return tied_output_describe(host, params, facts->embed, facts->first_output, &masked->output);
}

/* ---- memory ------------------------------------------------------------------------------------------- */

struct space {
    size_t *places;        /* (padded) the rows with a target, in order */
    uint32_t *ids;         /* (padded) their targets */
    float *weights;        /* (padded) */
    float *x, *before, *y; /* (padded, dim): these rows, before GELU, after the transform */
    float *tiles;          /* (threads) scratch of the transform */
    struct tied_output_space output;
    /* backward */
    float *dx, *dy;  /* (padded, dim) */
    float *partials; /* (chunks, parameters of the transform) */
    size_t bytes;
};

static size_t width_of(const struct transform *transform)
{
    return transform->end - transform->first;
}

static struct space lay(const struct masked_tokens *masked, const struct rows *rows, bool training,
                        void *memory)
{
    struct arena arena = arena_on(memory);
    size_t padded = rows->padded, floats = size_product(padded, masked->dim);
    size_t scratch = ROW_TILE * transform_scratch(&masked->transform);
    struct space s = {
        .places = arena_take(&arena, padded, sizeof *s.places),
        .ids = arena_take(&arena, padded, sizeof *s.ids),
        .weights = arena_take(&arena, padded, sizeof *s.weights),
        .x = arena_take(&arena, floats, sizeof(float)),
        .before = arena_take(&arena, floats, sizeof(float)),
        .y = arena_take(&arena, floats, sizeof(float)),
        .tiles = arena_take(&arena, size_product((size_t)pool_threads(rows->pool), scratch), sizeof(float)),
    };
    s.output = tied_output_lay(&masked->output, rows, training, &arena);
    if (training) {
        size_t width = width_of(&masked->transform);
        s.dx = arena_take(&arena, floats, sizeof(float));
        s.dy = arena_take(&arena, floats, sizeof(float));
        s.partials = arena_take(&arena, size_product(rows_chunks(rows->tiles, width), width), sizeof(float));
    }
    s.bytes = arena.used;
    return s;
}

static size_t memory_size(const void *self, const struct rows *rows, bool training)
{
    return lay(self, rows, training, NULL).bytes;
}

/* ---- the chosen rows ---------------------------------------------------------------------------------- */

/* Some rows as a batch of one sequence, and the argument of every unit of work on them. */
struct chosen {
    const struct masked_tokens *masked;
    const float *values;
    struct space space;
    size_t offsets[2];
    struct rows rows;
    size_t chunks; /* of the backward pass */
};

static void choose(struct chosen *chosen, const struct objective_pass *pass, size_t count)
{
    chosen->offsets[0] = 0;
    chosen->offsets[1] = count;
    chosen->rows = rows_of(pass->rows->kernels, pass->rows->pool, 1, chosen->offsets, NULL);
    if (!pass->training)
        rows_share(&chosen->rows);
}

static struct chosen open_chosen(const struct objective_pass *pass)
{
    return (struct chosen){.masked = pass->self,
                           .values = pass->values,
                           .space = lay(pass->self, pass->rows, pass->training, pass->memory)};
}

static float weight_of(const struct objective_pass *pass, size_t row)
{
    return pass->targets->weights == NULL ? 1 : pass->targets->weights[row];
}

/* Lists the rows with a target. */
static size_t list_targets(const struct objective_pass *pass, const struct space *s)
{
    size_t count = 0;
    for (size_t row = 0; row < pass->rows->count; row++) {
        float weight = weight_of(pass, row);
        if (weight == 0)
            continue;
        s->places[count] = row;
        s->ids[count] = pass->targets->ids[row];
        s->weights[count++] = weight;
    }
    return count;
}

static void forward_tile(void *argument, size_t tile, int worker)
{
    const struct chosen *c = argument;
    const struct transform *transform = &c->masked->transform;
    size_t first = tile * c->rows.tile_rows, at = first * c->masked->dim;
    float *scratch = c->space.tiles + (size_t)worker * ROW_TILE * transform_scratch(transform);
    transform_forward(transform, c->rows.kernels, c->values, c->space.y + at, c->space.before + at, scratch,
                      c->space.x + at, rows_of_tile(&c->rows, first));
}

/* Copies the chosen rows (places) and transforms them. */
static void transform_rows(struct chosen *c, const float *x, const size_t *places)
{
    size_t dim = c->masked->dim, count = c->rows.count;
    for (size_t i = 0; i < count; i++)
        memcpy(c->space.x + i * dim, x + places[i] * dim, dim * sizeof *x);
    memset(c->space.x + count * dim, 0, (c->rows.padded - count) * dim * sizeof *x);
    pool_run(c->rows.pool, forward_tile, c, c->rows.tiles);
}

/* ---- passes ------------------------------------------------------------------------------------------- */

static double forward(const struct objective_pass *pass)
{
    const struct masked_tokens *masked = pass->self;
    if (pass->targets == NULL)
        return 0;
    struct chosen chosen = open_chosen(pass);
    const struct space *s = &chosen.space;
    choose(&chosen, pass, list_targets(pass, s));
    if (chosen.rows.count == 0)
        return 0;
    transform_rows(&chosen, pass->x, s->places);
    const struct row_ids targets = {s->ids, s->weights};
    return tied_output_forward(&masked->output, &chosen.rows, pass->values, &s->output, s->y, &targets);
}

static void backward_chunk(void *argument, size_t chunk, int worker)
{
    const struct chosen *c = argument;
    const struct space *s = &c->space;
    const struct transform *transform = &c->masked->transform;
    size_t width = width_of(transform), tile, end;
    float *scratch = s->tiles + (size_t)worker * ROW_TILE * transform_scratch(transform);
    struct slice gradients = {s->partials + chunk * width, transform->first};
    memset(gradients.floats, 0, width * sizeof(float));
    for (rows_chunk(c->rows.tiles, c->chunks, chunk, &tile, &end); tile < end; tile++) {
        size_t first = tile * c->rows.tile_rows, at = first * c->masked->dim;
        transform_backward(transform, c->rows.kernels, c->values, gradients, s->dx + at, scratch, s->dy + at,
                           s->before + at, s->x + at, rows_of_tile(&c->rows, first));
    }
}

static void backward(const struct objective_pass *pass, struct slice gradients, float *dx, bool add)
{
    const struct masked_tokens *masked = pass->self;
    struct chosen chosen = open_chosen(pass);
    const struct space *s = &chosen.space;
    size_t dim = masked->dim, width = width_of(&masked->transform);
    if (!add)
        memset(dx, 0, pass->rows->padded * dim * sizeof *dx);
    choose(&chosen, pass, list_targets(pass, s));
    if (chosen.rows.count == 0)
        return;
    const struct row_ids targets = {s->ids, s->weights};
    tied_output_backward(&masked->output, &chosen.rows, pass->values, gradients, &s->output, s->dy, false,
                         s->y, &targets, (float)(pass->weight / pass->count));
    chosen.chunks = rows_chunks(chosen.rows.tiles, width);
    pool_run(chosen.rows.pool, backward_chunk, &chosen, chosen.chunks);
    rows_reduce(&chosen.rows, slice_at(gradients, masked->transform.first), s->partials, chosen.chunks,
                width);
    for (size_t i = 0; i < chosen.rows.count; i++)
        pass->rows->kernels->rows.axpy(dx + s->places[i] * dim, 1, s->dx + i * dim, dim);
}

static void count_batch(const struct objective_pass *pass, double *sums)
{
    const struct space s = lay(pass->self, pass->rows, pass->training, pass->memory);
    size_t chosen = 0;
    for (size_t row = 0; row < pass->rows->count; row++) {
        double weight = (double)weight_of(pass, row);
        if (weight == 0)
            continue;
        sums[ID_LOSS] += weight * s.output.loss[chosen];
        sums[ID_CORRECT] += s.output.correct[chosen] ? weight : 0;
        sums[ID_COUNT] += weight;
        chosen++;
    }
}

/* ---- metrics ------------------------------------------------------------------------------------------ */

static const struct metric metrics[] = {{"perplexity", id_perplexity, false, 1},
                                        {"loss", id_loss, false, 2},
                                        {"accuracy", id_accuracy, true, 0},
                                        {.name = NULL}};

static size_t baseline_size(const void *self)
{
    return majority_size(((const struct masked_tokens *)self)->output.words);
}

static void baseline_count(const void *self, const struct targets *targets, size_t n, void *counts)
{
    const struct tied_output *output = &((const struct masked_tokens *)self)->output;
    majority_count(targets, n, output->first, output->words, counts);
}

/* ---- scores of ids ------------------------------------------------------------------------------------ */

static size_t num_scores(const void *self)
{
    return ((const struct masked_tokens *)self)->output.words;
}

/* As many rows at a time as the memory holds. */
static void score_rows(const struct objective_pass *pass, const size_t *places, size_t n, float *scores)
{
    const struct masked_tokens *masked = pass->self;
    struct chosen chosen = open_chosen(pass);
    for (size_t first = 0; first < n; first += pass->rows->padded) {
        choose(&chosen, pass, size_min(n - first, pass->rows->padded));
        transform_rows(&chosen, pass->x, places + first);
        tied_output_logits(&masked->output, &chosen.rows, pass->values, &chosen.space.output,
                           scores + first * masked->output.words, chosen.space.y);
    }
}

const struct objective objective_masked_tokens = {
    .name = "masked_tokens",
    .summary = "which tokens were hidden",
    .place = TARGET_ROW,
    .type = TARGET_ID,
    .sums = id_sums,
    .metrics = metrics,
    .refuse = refuse,
    .size = sizeof(struct masked_tokens),
    .describe = describe,
    .memory_size = memory_size,
    .forward = forward,
    .backward = backward,
    .count = count_batch,
    .num_scores = num_scores,
    .score_rows = score_rows,
    .baseline = "majority",
    .baseline_size = baseline_size,
    .baseline_count = baseline_count,
    .baseline_value = majority_value,
};
