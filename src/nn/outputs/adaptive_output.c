/* Head first, then each tail on copies of its rows. A row's numbers depend on the row alone
   (nn/rows.h). The lists of rows depend on the batch alone, so the number of threads changes no bit.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/outputs/adaptive_output.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/product.h"

enum { BLOCK = 16 }; /* rows of a projection in one unit of work of its gradient */

/* ---- description -------------------------------------------------------------------------------------- */

hashattn_status adaptive_output_describe(struct host *host, struct params *params, const struct embed *embed,
                                         size_t first, struct adaptive_output *output)
{
    const struct word_tails *tails = &embed->tails;
    FAIL_IF(tails->count > 0 && tails->head <= first, host, HASHATTN_INVALID,
            "model: the first of the `cutoffs` is %zu, and the first id that can be predicted is %zu",
            tails->head, first);
    *output = (struct adaptive_output){.first = first, .words = embed->vocab_size - first, .tails = tails};
    TRY(tied_output_describe(host, params, embed, first, &output->head));
    for (size_t i = 0; i < tails->count; i++) {
        const struct word_tail *tail = &tails->list[i];
        output->tail[i] = (struct tied_output){.dim = tail->dim,
                                               .words = tail->words,
                                               .first = tail->first,
                                               .chunk = TIED_OUTPUT_CHUNK,
                                               .weight = tail->table,
                                               .precision = params->precision};
        TRY(params_add(host, params, START_ZEROS, 0, &output->tail[i].bias, 1, &tail->words,
                       "lm_head.%zu.bias", i + 1));
    }
    return HASHATTN_OK;
}

struct adaptive_output_space adaptive_output_lay(const struct adaptive_output *output,
                                                 const struct rows *rows, bool training, struct arena *arena)
{
    size_t padded = rows->padded, dim = output->head.dim, most = size_sum(padded, ROW_STEP), widest = 0;
    struct adaptive_output_space s = {.head = tied_output_lay(&output->head, rows, training, arena)};
    if (output->tails->count == 0)
        return s;
    for (size_t i = 0; i < output->tails->count; i++)
        widest = size_max(widest, output->tail[i].dim);
    size_t packed = size_max(weights_size(output->head.precision, dim, widest),
                             weights_size(output->head.precision, widest, dim));
    s.ids = arena_take(arena, padded, sizeof *s.ids);
    s.score = arena_take(arena, padded, sizeof *s.score);
    s.count = arena_take(arena, output->tails->count, sizeof *s.count);
    s.packed = arena_take(arena, packed, sizeof(float));
    s.x = arena_take(arena, size_product(padded, dim), sizeof(float));
    s.h = arena_take(arena, size_product(padded, widest), sizeof(float));
    s.wanted = arena_take(arena, padded, sizeof *s.wanted);
    s.weights = arena_take(arena, padded, sizeof *s.weights);
    if (training) {
        s.dx = arena_take(arena, size_product(padded, dim), sizeof(float));
        s.dh = arena_take(arena, size_product(padded, widest), sizeof(float));
    }
    for (size_t i = 0; i < output->tails->count; i++) {
        s.tail[i].output = tied_output_lay_beside(&s.head, most, arena);
        s.tail[i].places = arena_take(arena, most, sizeof *s.tail[i].places);
    }
    return s;
}

/* ---- rows of a tail ----------------------------------------------------------------------------------- */

/* A pass over the batch, and the tail that is computed now; the argument of every unit of work. */
struct work {
    const struct adaptive_output *output;
    const struct rows *rows;
    const float *values;
    const struct adaptive_output_space *space;
    const float *x;
    const struct row_ids *targets;
    size_t index; /* of the tail */
    size_t offsets[2];
    struct rows chosen; /* its rows as a batch of one sequence */
    struct slice gradients;
};

enum { IN_HEAD = WORD_TAILS };

/* The tail of a row's target. */
static size_t tail_of(const struct work *w, size_t row)
{
    const struct word_tail *tail = word_tails_find(w->output->tails, w->targets->ids[row]);
    return tail == NULL ? IN_HEAD : (size_t)(tail - w->output->tails->list);
}

static float weight_of(const struct work *w, size_t row)
{
    return w->targets->weights == NULL ? 1 : w->targets->weights[row];
}

static const struct word_tail *tail_now(const struct work *w)
{
    return &w->output->tails->list[w->index];
}

/* What its output reads. */
static const float *tail_input(const struct work *w)
{
    return tail_now(w)->projected ? w->space->h : w->space->x;
}

static void project_tile(void *argument, size_t tile, int worker)
{
    (void)worker;
    const struct work *w = argument;
    const struct adaptive_output_space *s = w->space;
    size_t dim = w->output->head.dim, width = tail_now(w)->dim, row = tile * w->chosen.tile_rows;
    product_weights(w->rows->kernels, w->output->head.precision, s->h + row * width, width, s->x + row * dim,
                    dim, s->packed, rows_of_tile(&w->chosen, row), width, dim, false);
}

/* Copies `count` rows and projects them. Their targets are in s->wanted, with weight 0 for those whose target
   is not in the tail. */
static void gather(struct work *w, const size_t *places, size_t count)
{
    const struct adaptive_output_space *s = w->space;
    const struct word_tail *tail = tail_now(w);
    size_t dim = w->output->head.dim;
    w->offsets[1] = count;
    w->chosen = rows_of(w->rows->kernels, w->rows->pool, 1, w->offsets, NULL);
    if (w->rows->shared)
        rows_share(&w->chosen);
    for (size_t i = 0; i < count; i++) {
        memcpy(s->x + i * dim, w->x + places[i] * dim, dim * sizeof *w->x);
        s->wanted[i] = w->targets->ids[places[i]];
        s->weights[i] = tail_of(w, places[i]) == w->index ? weight_of(w, places[i]) : 0;
    }
    memset(s->x + count * dim, 0, (w->chosen.padded - count) * dim * sizeof *s->x);
    if (!tail->projected)
        return;
    weights_pack(w->rows->kernels, w->output->head.precision, s->packed, w->values + tail->projection, dim,
                 true, dim, tail->dim);
    pool_run(w->rows->pool, project_tile, w, w->chosen.tiles);
}

/* ---- forward ------------------------------------------------------------------------------------------ */

/* The logit of the tail as a whole, a bound for its words on the scale of scores. */
static float bound_of(const struct work *w, size_t row)
{
    return w->space->head.classes[row * w->output->tails->count + w->index];
}

/* True if a word of this tail with score `a` comes before the target of the row with score `b`. */
static bool is_before(const struct work *w, size_t row, float a, float b)
{
    size_t other = tail_of(w, row);
    return a > b || (a == b && other != IN_HEAD && w->index < other);
}

static bool is_open(const struct work *w, size_t row)
{
    return w->space->head.correct[row] && is_before(w, row, bound_of(w, row), w->space->score[row]);
}

/* Rows whose target is in this tail, then rows with a target in the head that a word of this tail may
   beat. */
static size_t list_targets(const struct work *w, size_t *places)
{
    size_t count = 0;
    for (size_t row = 0; row < w->rows->count; row++)
        if (weight_of(w, row) != 0 && tail_of(w, row) == w->index)
            places[count++] = row;
    for (size_t row = 0; row < w->rows->count; row++)
        if (weight_of(w, row) != 0 && tail_of(w, row) == IN_HEAD && is_open(w, row))
            places[count++] = row;
    return count;
}

/* Rows with a target in another tail that a word of this tail may beat. */
static size_t list_others(const struct work *w, size_t *places)
{
    size_t count = 0;
    for (size_t row = 0; row < w->rows->count; row++) {
        size_t tail = weight_of(w, row) != 0 ? tail_of(w, row) : IN_HEAD;
        if (tail != IN_HEAD && tail != w->index && is_open(w, row))
            places[count++] = row;
    }
    return count;
}

/* Rows with a target in this tail get loss, score and whether they hit; others lose the hit if a word here
   has a larger probability. Returns the weighted sum of the losses. */
static double take_rows(const struct work *w, const struct tied_output_space *found, const size_t *places,
                        size_t count)
{
    const struct adaptive_output_space *s = w->space;
    double total = 0;
    for (size_t i = 0; i < count; i++) {
        size_t row = places[i];
        if (tail_of(w, row) == w->index) {
            s->head.loss[row] += found->loss[i];
            total += (double)s->weights[i] * found->loss[i];
            s->score[row] = bound_of(w, row) - (float)found->loss[i];
            s->head.correct[row] = found->correct[i] && s->score[row] > s->head.best[row];
        } else if (is_before(w, row, bound_of(w, row) - found->log_sum[i], s->score[row])) {
            s->head.correct[row] = 0;
        }
    }
    return total;
}

static double forward_rows(struct work *w, const struct tied_output_space *into, const size_t *places,
                           size_t count)
{
    const struct row_ids targets = {w->space->wanted, w->space->weights};
    if (count == 0)
        return 0;
    gather(w, places, count);
    tied_output_forward(&w->output->tail[w->index], &w->chosen, w->values, into, tail_input(w), &targets);
    return take_rows(w, into, places, count);
}

static double forward_tails(struct work *w)
{
    const struct adaptive_output_space *s = w->space;
    double total = 0;
    for (w->index = 0; w->index < w->output->tails->count; w->index++) {
        size_t *places = s->tail[w->index].places, count = s->count[w->index] = list_targets(w, places);
        total += forward_rows(w, &s->tail[w->index].output, places, count);
    }
    /* Once the scores in tails are known. What backward needs of the rows above stays. */
    for (w->index = 0; w->index < w->output->tails->count; w->index++) {
        size_t used = rows_padded(s->count[w->index]);
        size_t *places = s->tail[w->index].places + s->count[w->index];
        struct tied_output_space rest = tied_output_from(&s->tail[w->index].output, used);
        forward_rows(w, &rest, places, list_others(w, places));
    }
    return total;
}

/* The targets of the head: words, and the classes of words in tails. */
static void map_targets(const struct work *w)
{
    const struct tied_output *head = &w->output->head;
    size_t classes = head->first + head->words - head->classes;
    for (size_t row = 0; row < w->rows->count; row++) {
        size_t tail = weight_of(w, row) != 0 ? tail_of(w, row) : IN_HEAD;
        w->space->ids[row] = tail == IN_HEAD ? w->targets->ids[row] : (uint32_t)(classes + tail);
    }
}

static struct work open_work(const struct adaptive_output *output, const struct rows *rows,
                             const float *values, const struct adaptive_output_space *space, const float *x,
                             const struct row_ids *targets)
{
    return (struct work){
        .output = output, .rows = rows, .values = values, .space = space, .x = x, .targets = targets};
}

double adaptive_output_forward(const struct adaptive_output *output, const struct rows *rows,
                               const float *values, const struct adaptive_output_space *space, const float *x,
                               const struct row_ids *targets)
{
    struct work w = open_work(output, rows, values, space, x, targets);
    if (output->tails->count == 0)
        return tied_output_forward(&output->head, rows, values, &space->head, x, targets);
    map_targets(&w);
    const struct row_ids mapped = {space->ids, targets->weights};
    double total = tied_output_forward(&output->head, rows, values, &space->head, x, &mapped);
    memcpy(space->score, space->head.target, rows->count * sizeof *space->score);
    return total + forward_tails(&w);
}

/* ---- backward ----------------------------------------------------------------------------------------- */

static void unproject_tile(void *argument, size_t tile, int worker)
{
    (void)worker;
    const struct work *w = argument;
    const struct adaptive_output_space *s = w->space;
    size_t dim = w->output->head.dim, width = tail_now(w)->dim, row = tile * w->chosen.tile_rows;
    product_weights(w->rows->kernels, w->output->head.precision, s->dx + row * dim, dim, s->dh + row * width,
                    width, s->packed, rows_of_tile(&w->chosen, row), dim, width, false);
}

/* The gradient of some rows of the projection from all rows of the tail, in order. */
static void projection_block(void *argument, size_t unit, int worker)
{
    (void)worker;
    const struct work *w = argument;
    const struct word_tail *tail = tail_now(w);
    size_t dim = w->output->head.dim, width = tail->dim, at = unit * BLOCK, n = size_min(width - at, BLOCK);
    float *into = slice_at(w->gradients, tail->projection + at * dim);
    for (size_t tile = 0; tile < w->chosen.tiles; tile++) {
        size_t row = tile * w->chosen.tile_rows, count = rows_of_tile(&w->chosen, row);
        const float *dh = w->space->dh + row * width + at, *x = w->space->x + row * dim;
        if (w->output->head.precision == PRECISION_BF16)
            product_transposed_bf16(w->rows->kernels, into, dim, dh, width, x, dim, n, dim, count);
        else
            product(w->rows->kernels, into, dim, dh, width, true, x, dim, false, n, dim, count, true);
    }
}

/* Adds this tail's part to dx. */
static void backward_tail(struct work *w, float *dx, float weight)
{
    const struct adaptive_output_space *s = w->space;
    const struct word_tail *tail = tail_now(w);
    const size_t *places = s->tail[w->index].places;
    size_t dim = w->output->head.dim;
    const struct row_ids targets = {s->wanted, s->weights};
    gather(w, places, s->count[w->index]);
    tied_output_backward(&w->output->tail[w->index], &w->chosen, w->values, w->gradients,
                         &s->tail[w->index].output, tail->projected ? s->dh : s->dx, false, tail_input(w),
                         &targets, weight);
    if (tail->projected) {
        weights_pack(w->rows->kernels, w->output->head.precision, s->packed, w->values + tail->projection,
                     dim, false, tail->dim, dim);
        pool_run(w->rows->pool, unproject_tile, w, w->chosen.tiles);
        pool_run(w->rows->pool, projection_block, w, (tail->dim + BLOCK - 1) / BLOCK);
    }
    for (size_t i = 0; i < s->count[w->index]; i++)
        w->rows->kernels->rows.axpy(dx + places[i] * dim, 1, s->dx + i * dim, dim);
}

void adaptive_output_backward(const struct adaptive_output *output, const struct rows *rows,
                              const float *values, struct slice gradients,
                              const struct adaptive_output_space *space, float *dx, bool add, const float *x,
                              const struct row_ids *targets, float weight)
{
    struct work w = open_work(output, rows, values, space, x, targets);
    const struct row_ids mapped = {output->tails->count > 0 ? space->ids : targets->ids, targets->weights};
    w.gradients = gradients;
    tied_output_backward(&output->head, rows, values, gradients, &space->head, dx, add, x, &mapped, weight);
    for (w.index = 0; w.index < output->tails->count; w.index++)
        if (space->count[w.index] > 0)
            backward_tail(&w, dx, weight);
}

/* ---- scores of rows that are alone -------------------------------------------------------------------- */

enum { SCORED = 256 }; /* words of a unit of work */

/* Some words of the head or of a tail. */
struct scoring {
    const struct kernels *kernels;
    size_t dim, words;          /* of a row and a word; words of this range */
    const float *weight, *bias; /* (words, dim), (words) */
    float *scores;              /* (n, ld) */
    size_t ld;
    const float *x; /* (n, dim) */
    size_t n;
};

static void score_words(void *argument, size_t unit, int worker)
{
    (void)worker;
    const struct scoring *s = argument;
    size_t first = unit * SCORED, count = size_min(s->words - first, SCORED);
    for (size_t i = 0; i < s->n; i++) {
        float *to = s->scores + i * s->ld + first;
        s->kernels->rows.dots(to, s->weight + first * s->dim, s->dim, s->x + i * s->dim, 0, count, s->dim);
        s->kernels->rows.axpy(to, 1, s->bias + first, count);
    }
}

static void score(struct pool *pool, struct scoring *s)
{
    pool_run(pool, score_words, s, (s->words + SCORED - 1) / SCORED);
}

static double log_sum(const float *x, size_t n)
{
    double most = (double)x[0], sum = 0;
    for (size_t i = 1; i < n; i++)
        most = fmax(most, (double)x[i]);
    for (size_t i = 0; i < n; i++)
        sum += exp((double)x[i] - most);
    return most + log(sum);
}

/* One row's scores of the words of a tail. */
static void score_tail(const struct adaptive_output *output, const struct scoring *head, struct pool *pool,
                       const float *values, size_t index, float *scores, const float *x, float *work)
{
    const struct word_tail *tail = &output->tails->list[index];
    const struct kernels *kernels = head->kernels;
    size_t plain = output->head.words - output->head.classes;
    float whole;
    struct scoring s = {.kernels = kernels,
                        .dim = tail->dim,
                        .words = tail->words,
                        .weight = values + tail->table,
                        .bias = values + output->tail[index].bias,
                        .scores = scores + (tail->first - output->first),
                        .x = x,
                        .n = 1};
    kernels->rows.dots(&whole, head->weight + (plain + index) * head->dim, head->dim, x, 0, 1, head->dim);
    whole += head->bias[plain + index];
    if (tail->projected) {
        kernels->rows.dots(work, values + tail->projection, head->dim, x, 0, tail->dim, head->dim);
        s.x = work;
    }
    score(pool, &s);
    double shift = (double)whole - log_sum(s.scores, tail->words);
    for (size_t i = 0; i < tail->words; i++)
        s.scores[i] = (float)((double)s.scores[i] + shift);
}

void adaptive_output_scores(const struct adaptive_output *output, const struct kernels *kernels,
                            struct pool *pool, const float *values, float *scores, const float *x, size_t n,
                            float *work)
{
    struct scoring head = {.kernels = kernels,
                           .dim = output->head.dim,
                           .words = output->head.words - output->head.classes,
                           .weight = values + output->head.weight,
                           .bias = values + output->head.bias,
                           .scores = scores,
                           .ld = output->words,
                           .x = x,
                           .n = n};
    score(pool, &head);
    for (size_t i = 0; i < n; i++)
        for (size_t t = 0; t < output->tails->count; t++)
            score_tail(output, &head, pool, values, t, scores + i * output->words, x + i * head.dim, work);
}
