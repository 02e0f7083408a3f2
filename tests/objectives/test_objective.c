/* What every objective of the table promises, and the special features of each, on given rows of floats,
   without a trunk. The gradients of rows and parameters are compared with differences of the float loss;
   those of whole models with double precision in tests/models. Planted and caught: targets of weight 0
   counted in the sums; the weight left out of the gradient, or of the loss; dx written instead of added;
   rows after the last not cleared; the mean over this batch instead of the step; the most frequent id of
   all instead of the targets; pairs averaged as single sequences; probabilities of the wrong example; rows
   that pad a tile cleared beyond the memory; the last among equal logits; a class beyond the last; masked
   tokens scored in the first rows whatever the places; rows of weight 0 among the masked; their gradient
   without the last chunk, or in the first rows.
   Covers: classify.c label_set.c regress.c next_token.c masked_tokens.c objective_table.c
   SPDX-License-Identifier: Apache-2.0 */
#include "objectives/objective.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/layers.h"

enum { DIM = 8, OUTPUTS = 5, SEQUENCES = 6, ROWS = 230, MOST = 300, HEAD = 48 };
static const size_t lengths[SEQUENCES] = {50, 1, 100, 9, 40, 30};

struct objective_test {
    struct layer_test base;
    const struct objective *objective;
    struct embed embed;
    void *self, *memory;
    bool pairs;
    size_t offsets[HEAD + 1], targets, bytes; /* of memory */
    uint32_t ids[MOST];
    float floats[MOST], weights[MOST];
    struct targets asked;
    struct rows rows;
    float *x, *dx;
    struct objective_pass pass;
};

/* `sequences`: SEQUENCES with the lengths above, or HEAD of three rows each, or fewer of either. */
static void open_shape(struct objective_test *t, const struct objective *objective, bool pairs,
                       size_t sequences)
{
    layer_test_open(&t->base, 2);
    t->objective = objective;
    t->pairs = pairs;
    for (size_t s = 0; s < sequences; s++)
        t->offsets[s + 1] = t->offsets[s] + (sequences <= SEQUENCES ? lengths[s] : 3);
    t->rows = rows_of(t->base.kernels, t->base.pool, sequences, t->offsets, NULL);
    const struct embed_shape shape = {
        .vocab_size = OUTPUTS, .max_len = 100, .dim = DIM, .positions = POSITIONS_NONE, .tied = true};
    struct host *host = &t->base.host;
    check_status(host, embed_describe(host, &t->base.params, &shape, &t->embed), HASHATTN_OK, NULL);
    const struct objective_facts facts = {.dim = DIM,
                                          .num_outputs = objective->type == TARGET_ID ? OUTPUTS : 1,
                                          .max_len = 100,
                                          .decoded_rows = 1,
                                          .pairs = pairs,
                                          .causal = strcmp(objective->name, "masked_tokens") != 0,
                                          .norm_epsilon = 1e-5,
                                          .bytes = true,
                                          .embed = &t->embed};
    assert_null(objective->refuse(&facts));
    t->self = calloc(1, objective->size);
    check_status(host, objective->describe(host, &t->base.params, &facts, t->self), HASHATTN_OK, NULL);
    layer_test_start(&t->base, 3);
    t->targets = objective_targets(objective, &t->rows, pairs);
    assert_int_equal(t->targets, objective->place == TARGET_ROW ? t->rows.count
                                 : pairs                        ? sequences / 2
                                                                : sequences);
    for (size_t i = 0; i < t->targets; i++) {
        t->ids[i] = (uint32_t)((i * i + i / 3) % OUTPUTS);
        t->floats[i] = (float)t->ids[i] - 1.5f;
        t->weights[i] = i % 4 == 1 ? 0 : i % 2 == 0 ? 1 : 0.5f;
    }
    t->asked = (struct targets){.ids = t->ids, .floats = t->floats, .weights = t->weights};
    t->x = new_normals(9, t->rows.padded * DIM, 1);
    memset(t->x + t->rows.count * DIM, 0, (t->rows.padded - t->rows.count) * DIM * sizeof *t->x);
    t->dx = new_zeros(t->rows.padded * DIM);
    t->bytes = objective->memory_size(t->self, &t->rows, true);
    assert_true(objective->memory_size(t->self, &t->rows, false) < t->bytes + objective->bare);
    t->memory = guard_floats(t->bytes / sizeof(float));
    assert_int_equal((uintptr_t)t->memory % 64, 0);
    memset(t->memory, 0xff, t->bytes);
    t->pass = (struct objective_pass){.self = t->self,
                                      .rows = &t->rows,
                                      .values = layer_test_pack(&t->base, true),
                                      .targets = &t->asked,
                                      .x = t->x,
                                      .training = true,
                                      .weight = 0.7,
                                      .count = 20,
                                      .memory = t->memory};
}

static void open_test(struct objective_test *t, const struct objective *objective, bool pairs)
{
    open_shape(t, objective, pairs, SEQUENCES);
    assert_int_equal(t->rows.count, ROWS);
}

static void close_test(struct objective_test *t)
{
    embed_free(&t->base.host, &t->embed);
    layer_test_close(&t->base);
    free(t->self);
    guard_free(t->memory, t->bytes / sizeof(float));
    free(t->x);
    free(t->dx);
}

static bool takes_pairs(const struct objective *objective)
{
    const struct objective_facts facts = {.dim = DIM, .num_outputs = 1, .max_len = 100, .pairs = true};
    return objective->place == TARGET_EXAMPLE && objective->refuse(&facts) == NULL;
}

static void for_each(void (*check)(struct objective_test *t))
{
    for (const struct objective *const *objective = objective_table; *objective != NULL; objective++)
        for (int pairs = 0; pairs <= takes_pairs(*objective); pairs++) {
            struct objective_test t = {.pairs = false};
            open_test(&t, *objective, pairs != 0);
            check(&t);
            close_test(&t);
        }
}

static size_t sum_named(const struct objective *objective, const char *name)
{
    size_t i = 0;
    while (objective->sums[i] != NULL && strcmp(objective->sums[i], name) != 0)
        i++;
    if (objective->sums[i] == NULL)
        fail_msg("%s has no sum %s", objective->name, name);
    return i;
}

/* Names, sums and metrics: one metric selects, there is a loss, and metrics of no targets are NaN. */
static void check_description(struct objective_test *t)
{
    const struct objective *objective = t->objective;
    const double none[OBJECTIVE_SUMS] = {0}, one[OBJECTIVE_SUMS] = {1, 1, 1}; /* targets */
    int first = 0, losses = 0;
    size_t metrics = 0;
    assert_ptr_equal(objective_find(objective->name), objective);
    for (const struct metric *m = objective->metrics; m->name != NULL; m++, metrics++) {
        /* Of two classes, and there are five; of several quantiles, and there are none. */
        bool of_two = (objective->type == TARGET_ID &&
                       (strcmp(m->name, "f1") == 0 || strcmp(m->name, "matthews") == 0)) ||
                      strcmp(m->name, "coverage") == 0;
        first += m->selects == 1;
        losses += strcmp(m->name, "loss") == 0 && !m->more_is_better;
        assert_true(isnan(m->value(t->self, none)) && isnan(m->value(t->self, one)) == of_two);
        assert_true(isnan(m->value(t->self, NULL)) == of_two);
    }
    for (const struct overall_metric *m = objective->overall; m != NULL && m->name != NULL; m++, metrics++)
        assert_true(objective->predict != NULL && objective->place == TARGET_EXAMPLE);
    assert_true(first == 1 && losses == 1 && metrics <= OBJECTIVE_METRICS);
    assert_true(sum_named(objective, "loss") < OBJECTIVE_SUMS &&
                sum_named(objective, "count") < OBJECTIVE_SUMS);
    assert_true((objective->outputs == NULL) == (objective->predict == NULL));
}

static void every_objective_is_described(void **state)
{
    (void)state;
    for_each(check_description);
    assert_null(objective_find("nothing"));
    static const struct {
        const char *objective;
        struct metric metrics[5];
    } want[] = {{"classify",
                 {{"accuracy", NULL, true, 1},
                  {"f1", NULL, true, 0},
                  {"matthews", NULL, true, 0},
                  {"loss", NULL, false, 2}}},
                {"next_token",
                 {{"perplexity", NULL, false, 1},
                  {"loss", NULL, false, 2},
                  {"bits_per_byte", NULL, false, 0},
                  {"accuracy", NULL, true, 0}}},
                {"masked_tokens",
                 {{"perplexity", NULL, false, 1}, {"loss", NULL, false, 2}, {"accuracy", NULL, true, 0}}}};
    for (size_t o = 0; o < sizeof want / sizeof *want; o++) {
        const struct objective *objective = objective_find(want[o].objective);
        assert_int_equal(objective->ties_embedding, o == 1);
        for (size_t i = 0; want[o].metrics[i].name != NULL; i++) {
            assert_string_equal(objective->metrics[i].name, want[o].metrics[i].name);
            assert_int_equal(objective->metrics[i].more_is_better, want[o].metrics[i].more_is_better);
            assert_int_equal(objective->metrics[i].selects, want[o].metrics[i].selects);
        }
    }
}

/* The sums match the loss that forward returns; a target of weight 0 is ignored. */
static void check_counting(struct objective_test *t)
{
    double sums[OBJECTIVE_SUMS] = {0}, again[OBJECTIVE_SUMS] = {0}, weights = 0;
    double loss = t->objective->forward(&t->pass);
    t->pass.values = NULL;
    t->objective->count(&t->pass, sums);
    for (size_t i = 0; i < t->targets; i++)
        weights += (double)t->weights[i];
    check_near(sums[sum_named(t->objective, "count")], weights, 1e-12, "count");
    check_near(sums[sum_named(t->objective, "loss")], loss, 1e-6 * loss, "loss");
    for (size_t i = 0; i < t->targets; i++)
        if (t->weights[i] == 0) {
            t->ids[i] = 4000000000u;
            t->floats[i] = NAN;
        }
    t->pass.values = layer_test_pack(&t->base, true);
    double same = t->objective->forward(&t->pass);
    t->objective->count(&t->pass, again);
    check_same_bits(&loss, &same, sizeof loss, "loss");
    check_same_bits(sums, again, sizeof sums, "sums");
    t->asked.weights = NULL; /* every target has weight 1 */
    for (size_t i = 0; i < t->targets; i++) {
        t->ids[i] = t->ids[i] < OUTPUTS ? t->ids[i] : 0;
        t->floats[i] = isnan(t->floats[i]) ? 7 : t->floats[i];
    }
    double all = t->objective->forward(&t->pass), unweighted[OBJECTIVE_SUMS] = {0};
    assert_true(all > loss);
    t->objective->count(&t->pass, unweighted);
    check_near(unweighted[sum_named(t->objective, "count")], (double)t->targets, 0, "count without weights");
    check_near(unweighted[sum_named(t->objective, "loss")], all, 1e-6 * all, "loss without weights");
    t->pass.targets = NULL;
    check_near(t->objective->forward(&t->pass), 0, 0, "loss without targets");
}

static void losses_are_counted(void **state)
{
    (void)state;
    for_each(check_counting);
}

static double trained(struct objective_test *t)
{
    t->pass.values = layer_test_pack(&t->base, true);
    return t->pass.weight / t->pass.count * t->objective->forward(&t->pass);
}

/* Along a random direction of `values` (count of them): the gradient against fourth-order differences. */
static void check_direction(struct objective_test *t, float *values, const float *gradient, size_t count,
                            const char *what)
{
    static const double places[4] = {-2, -1, 1, 2};
    float *direction = new_normals(count, count, 1 / sqrt((double)count)),
          *saved = malloc(count * sizeof *saved);
    double got = 0, step = 0.01, side[4];
    memcpy(saved, values, count * sizeof *saved);
    for (size_t k = 0; k < count; k++)
        got += (double)direction[k] * (double)gradient[k];
    for (int p = 0; p < 4; p++) {
        for (size_t k = 0; k < count; k++)
            values[k] = (float)((double)saved[k] + places[p] * step * (double)direction[k]);
        side[p] = trained(t);
    }
    memcpy(values, saved, count * sizeof *saved);
    double want = (8 * (side[2] - side[1]) - (side[3] - side[0])) / (12 * step);
    check_near(got, want, 1e-5 + 5e-3 * fabs(want), what);
    free(direction);
    free(saved);
}

/* Bare objectives have gradients of their parameters only. */
static void check_bare_gradients(struct objective_test *t)
{
    trained(t);
    t->objective->backward(&t->pass, whole_gradient(&t->base), NULL, false);
    for (size_t i = 0; i < t->base.params.num_rows; i++) {
        const struct param *row = &t->base.params.rows[i];
        check_direction(t, t->base.values + row->offset, t->base.gradients + row->offset, row->count,
                        row->name);
    }
}

static void check_gradients(struct objective_test *t)
{
    if (t->objective->bare) {
        check_bare_gradients(t);
        return;
    }
    struct slice whole = whole_gradient(&t->base);
    size_t floats = t->rows.padded * DIM;
    trained(t);
    for (size_t i = 0; i < floats; i++)
        t->dx[i] = NAN; /* must be written */
    t->objective->backward(&t->pass, whole, t->dx, false);
    for (size_t i = (size_t)ROWS * DIM; i < floats; i++)
        assert_true(t->dx[i] == 0);
    float *added = new_zeros(floats), *unused = new_zeros(t->base.params.total);
    for (size_t i = 0; i < floats; i++)
        added[i] = 2;
    trained(t);
    t->objective->backward(&t->pass, (struct slice){unused, 0}, added, true);
    for (size_t i = 0; i < floats; i++)
        check_near((double)added[i], 2 + (double)t->dx[i], 1e-6, "added to");
    check_direction(t, t->x, t->dx, (size_t)ROWS * DIM, "rows");
    for (size_t i = 0; i < t->base.params.num_rows; i++) {
        const struct param *row = &t->base.params.rows[i];
        check_direction(t, t->base.values + row->offset, t->base.gradients + row->offset, row->count,
                        row->name);
    }
    free(added);
    free(unused);
}

static void gradients_are_those_of_the_loss(void **state)
{
    (void)state;
    for_each(check_gradients);
}

/* For `id` as every target: the weight of those that are predicted right. */
static double correct_of(struct objective_test *t, uint32_t id)
{
    double sums[OBJECTIVE_SUMS] = {0};
    for (size_t i = 0; i < t->targets; i++)
        t->ids[i] = id;
    t->objective->forward(&t->pass);
    t->objective->count(&t->pass, sums);
    return sums[sum_named(t->objective, "correct")];
}

/* Every target has one id that is correct. Without parameters all logits are equal, and it is the first. */
static void check_correct(struct objective_test *t)
{
    double weights = 0, correct = 0;
    if (t->objective->type == TARGET_FLOATS)
        return;
    for (size_t i = 0; i < t->targets; i++)
        weights += (double)t->weights[i];
    for (uint32_t id = 0; id < OUTPUTS; id++)
        correct += correct_of(t, id);
    check_near(correct, weights, 1e-12, "correct over all ids"); /* sums of halves */
    if (t->objective->predict != NULL) {
        float p[SEQUENCES * OUTPUTS];
        double sums[OBJECTIVE_SUMS] = {0};
        t->objective->predict(&t->pass, p);
        for (size_t i = 0; i < t->targets; i++) {
            t->ids[i] = 0;
            for (uint32_t id = 1; id < OUTPUTS; id++)
                t->ids[i] = p[i * OUTPUTS + id] > p[i * OUTPUTS + t->ids[i]] ? id : t->ids[i];
        }
        t->objective->count(&t->pass, sums);
        check_near(sums[sum_named(t->objective, "correct")], weights, 0, "correct for the most probable");
    }
    memset(t->base.values, 0, t->base.params.total * sizeof(float));
    t->pass.values = layer_test_pack(&t->base, true);
    for (uint32_t id = 0; id < OUTPUTS; id++)
        check_near(correct_of(t, id), id == 0 ? weights : 0, 0, "correct among equals");
}

static void the_largest_logit_is_the_guess(void **state)
{
    (void)state;
    for_each(check_correct);
}

/* Without weights there is neither a loss nor a gradient, not even from the rows that pad a tile. */
static void check_no_weights(struct objective_test *t)
{
    struct slice whole = whole_gradient(&t->base);
    memset(t->weights, 0, sizeof t->weights);
    check_near(t->objective->forward(&t->pass), 0, 0, "loss");
    t->objective->backward(&t->pass, whole, t->objective->bare ? NULL : t->dx, false);
    for (size_t i = 0; i < t->rows.padded * DIM && !t->objective->bare; i++)
        assert_true(t->dx[i] == 0);
    for (size_t i = 0; i < t->base.params.total; i++)
        assert_true(t->base.gradients[i] == 0);
}

static void without_weights_there_is_no_gradient(void **state)
{
    (void)state;
    for_each(check_no_weights);
}

/* Full tiles of the head have no rows that pad them; one example is a batch too. */
static void batches_of_one_and_of_full_tiles(void **state)
{
    (void)state;
    static const size_t sequences[] = {1, HEAD, 1, HEAD};
    for (size_t i = 0; i < 4; i++) {
        struct objective_test t = {.pairs = false};
        open_shape(&t, objective_find(i < 2 ? "classify" : "regress"), false, sequences[i]);
        assert_true(t.objective->forward(&t.pass) > 0);
        for (size_t k = 0; k < t.rows.padded * DIM; k++)
            t.dx[k] = NAN;
        t.objective->backward(&t.pass, whole_gradient(&t.base), t.dx, false);
        for (size_t k = 0; k < t.rows.padded * DIM; k++)
            assert_true(isfinite(t.dx[k]));
        check_direction(&t, t.x, t.dx, t.rows.count * DIM, "rows");
        close_test(&t);
    }
}

/* The head reads the row of an example, or the four features of a pair, and is 2 dim wide. */
static void the_head_has_the_documented_widths(void **state)
{
    (void)state;
    for (int pairs = 0; pairs < 2; pairs++) {
        struct objective_test t = {.pairs = false};
        open_test(&t, objective_find("classify"), pairs != 0);
        const struct params *params = &t.base.params;
        assert_int_equal(param_named(params, "classifier.dense.weight")->count,
                         (pairs ? 4 * DIM : DIM) * 2 * DIM);
        assert_int_equal(param_named(params, "classifier.dense.bias")->count, 2 * DIM);
        assert_int_equal(param_named(params, "classifier.out_proj.weight")->count, 2 * DIM * OUTPUTS);
        assert_int_equal(param_named(params, "classifier.out_proj.bias")->count, OUTPUTS);
        close_test(&t);
    }
}

/* Probabilities add up to 1, and -log of the label's probability is its loss. */
static void check_prediction(struct objective_test *t)
{
    if (t->objective->predict == NULL || t->objective->type == TARGET_FLOATS)
        return;
    size_t outputs = t->objective->outputs(t->self), examples = (size_t)SEQUENCES / (t->pairs ? 2 : 1);
    float *p = guard_floats(examples * outputs);
    double loss = t->objective->forward(&t->pass), sum = 0;
    t->objective->predict(&t->pass, p);
    for (size_t i = 0; i < examples; i++) {
        double total = 0;
        for (size_t c = 0; c < outputs; c++)
            total += (double)p[i * outputs + c];
        check_near(total, 1, 1e-6, "sum of probabilities");
        sum -= (double)t->weights[i] * log((double)p[i * outputs + t->ids[i]]);
    }
    check_near(sum, loss, 1e-5 * loss, "loss of the probabilities");
    guard_free(p, examples * outputs);
}

static void predictions_are_those_of_the_loss(void **state)
{
    (void)state;
    for_each(check_prediction);
}

/* The softmax of a row's scores gives its loss, whatever the order of the places. */
static void check_scores(struct objective_test *t)
{
    if (t->objective->score_rows == NULL)
        return;
    enum { PLACES = 5 };
    static const size_t places[PLACES] = {ROWS - 1, 0, 7, 7, 100};
    assert_int_equal(t->objective->num_scores(t->self), OUTPUTS);
    float *scores = guard_floats(PLACES * OUTPUTS);
    for (size_t i = 0; i < PLACES; i++) {
        memset(t->weights, 0, sizeof t->weights);
        t->weights[places[i]] = 1;
        double loss = t->objective->forward(&t->pass), sum = 0;
        t->objective->score_rows(&t->pass, places, PLACES, scores);
        for (size_t c = 0; c < OUTPUTS; c++)
            sum += exp((double)scores[i * OUTPUTS + c]);
        check_near(log(sum) - (double)scores[i * OUTPUTS + t->ids[places[i]]], loss, 1e-5,
                   "loss of the scores");
    }
    guard_free(scores, PLACES * OUTPUTS);
}

static void scores_are_those_of_the_loss(void **state)
{
    (void)state;
    for_each(check_scores);
}

/* The most frequent target id, over two batches. */
static void check_baseline(struct objective_test *t)
{
    const struct objective *objective = t->objective;
    if (objective->baseline == NULL)
        return;
    assert_int_equal(objective->baseline_size(t->self), (OUTPUTS + 2) * sizeof(size_t));
    void *counts = calloc(1, objective->baseline_size(t->self));
    size_t asked = 0, most = 0, half = t->targets / 2;
    assert_true(isnan(objective->baseline_value(t->self, counts)));
    const struct targets second = {.ids = t->ids + half, .weights = t->weights + half};
    objective->baseline_count(t->self, &t->asked, half, counts);
    objective->baseline_count(t->self, &second, t->targets - half, counts);
    for (uint32_t id = 0; id < OUTPUTS; id++) {
        size_t count = 0;
        for (size_t i = 0; i < t->targets; i++)
            count += t->weights[i] != 0 && t->ids[i] == id;
        asked += count;
        most = count > most ? count : most;
    }
    check_near(objective->baseline_value(t->self, counts), (double)most / (double)asked, 1e-15, "majority");
    free(counts);
}

static void baselines_are_those_of_the_targets(void **state)
{
    (void)state;
    for_each(check_baseline);
    /* Ids from 3 on: the number of targets, of the most frequent one, and of each id. */
    const uint32_t ids[] = {4, 3, 4, 6, 6, 6, 6};
    const float weights[] = {1, 0.5f, 2, 1, 0, 0, 0};
    const struct targets plain = {.ids = ids}, weighted = {.ids = ids, .weights = weights};
    size_t counts[7] = {0, 0, 0, 0, 0, 0, 99};
    majority_count(&weighted, 1, 3, 4, counts);
    check_near(majority_value(NULL, counts), 1, 0, "majority of one target");
    majority_count(&weighted, 7, 3, 4, counts);
    check_same_bits(counts, (const size_t[]){5, 3, 1, 3, 0, 1, 99}, sizeof counts, "counts with weights");
    majority_count(&plain, 7, 3, 4, counts);
    check_same_bits(counts, (const size_t[]){12, 5, 2, 5, 0, 5, 99}, sizeof counts, "counts");
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    const struct embed none = {.dim = DIM}, some = {.vocab_size = 9, .dim = DIM};
    const struct objective *next = objective_find("next_token"), *classify = objective_find("classify");
    struct objective_facts facts = {.dim = DIM, .num_outputs = 9, .causal = true, .embed = &some};
    assert_null(next->refuse(&facts));
    facts.causal = false;
    assert_non_null(strstr(next->refuse(&facts), "causal"));
    facts.causal = true;
    facts.pairs = true;
    assert_non_null(strstr(next->refuse(&facts), "two sequences"));
    facts.pairs = false;
    facts.embed = &none;
    assert_non_null(strstr(next->refuse(&facts), "no ids"));
    facts.embed = &some;
    facts.first_output = some.vocab_size;
    assert_non_null(strstr(next->refuse(&facts), "no ids"));
    facts.first_output--;
    assert_null(next->refuse(&facts));
    facts.num_outputs = 1;
    assert_null(classify->refuse(&facts));
    facts.num_outputs = 0;
    assert_non_null(strstr(classify->refuse(&facts), "no class"));
    assert_non_null(strstr(objective_find("regress")->refuse(&facts), "one float"));
    facts.num_outputs = 1;
    assert_null(objective_find("regress")->refuse(&facts));
}

/* Means; bits per byte exist if ids are bytes, and perplexity matches the loss. */
static void metrics_follow_from_the_sums(void **state)
{
    (void)state;
    struct objective_test t = {.pairs = false};
    open_test(&t, objective_find("next_token"), false);
    double sums[OBJECTIVE_SUMS] = {0}, values[OBJECTIVE_METRICS] = {0};
    sums[sum_named(t.objective, "loss")] = 6;
    sums[sum_named(t.objective, "count")] = 4;
    sums[sum_named(t.objective, "correct")] = 3;
    for (size_t i = 0; t.objective->metrics[i].name != NULL; i++) {
        const struct metric *m = &t.objective->metrics[i];
        values[i] = strcmp(m->name, "loss") == 0         ? 1.5
                    : strcmp(m->name, "perplexity") == 0 ? exp(1.5)
                    : strcmp(m->name, "accuracy") == 0   ? 0.75
                                                         : 1.5 / log(2);
        check_near(m->value(t.self, sums), values[i], 1e-12, m->name);
    }
    const struct metric *classify = objective_find("classify")->metrics;
    check_near(classify[0].value(NULL, sums), 0.75, 0, "accuracy of classes");
    check_near(classify[3].value(NULL, sums), 1.5, 0, "loss of classes");
    sums[sum_named(t.objective, "count")] = 1; /* a single target has a mean */
    check_near(classify[3].value(NULL, sums), 6, 0, "loss of one example");
    check_near(t.objective->metrics[1].value(t.self, sums), 6, 0, "loss of one token");
    close_test(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_objective_is_described),
        cmocka_unit_test(losses_are_counted),
        cmocka_unit_test(gradients_are_those_of_the_loss),
        cmocka_unit_test(the_largest_logit_is_the_guess),
        cmocka_unit_test(without_weights_there_is_no_gradient),
        cmocka_unit_test(batches_of_one_and_of_full_tiles),
        cmocka_unit_test(the_head_has_the_documented_widths),
        cmocka_unit_test(predictions_are_those_of_the_loss),
        cmocka_unit_test(scores_are_those_of_the_loss),
        cmocka_unit_test(baselines_are_those_of_the_targets),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(metrics_follow_from_the_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
