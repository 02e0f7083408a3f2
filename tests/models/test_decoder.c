/* The model that predicts next tokens: causal attention, tied table, loss per token, against double
   precision; and independence from the future, the neighbours in a batch and the number of threads.
   Bugs planted and caught: the table's gradient as a table without its factor; rows of the table without it;
   the gradient of the last rows lost on its way into the trunk; attention that is not causal; a mechanism's
   own loss divided by tokens; the labels of the whole step ignored, or tokens counted that have none.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "models/model.h"
#include "oracle/oracle_encoder.h"
#include "support/check.h"
#include "support/layers.h"
#include "support/linear_mechanism.h"
#include "support/single_plan.h"
#include "support/test_pass.h"

enum { DIM = 8, HEADS = 2, WIDE = 12, VOCAB = 11, LONGEST = 260, MOST_ROWS = 700, MOST_SEQUENCES = 8 };

struct decoder_test {
    struct layer_test base;
    struct model *model;
    struct model_config config;
    size_t offsets[MOST_SEQUENCES + 1];
    uint32_t tokens[MOST_ROWS], ids[MOST_ROWS];
    float weights[MOST_ROWS];
    int32_t labels[MOST_ROWS]; /* for the oracle: below 1 without a target */
    struct targets targets;
    double row_loss[MOST_ROWS]; /* as counted row by row */
    uint64_t samples[MOST_SEQUENCES];
    struct model_batch batch;
    unsigned char options[4096]; /* of the mechanism */
    struct test_pass pass;
    const float *values; /* as prepared by the last forward */
    double row_losses[MOST_ROWS];
    struct oracle_encoder oracle;
};

static struct model_config config_of(struct decoder_test *t, const struct mechanism *mechanism)
{
    assert_true(mechanism->options_size <= sizeof t->options);
    options_preset(mechanism->options, t->options);
    return (struct model_config){
        .vocab_size = VOCAB,
        .max_len = LONGEST,
        .causal = 1,
        .num_objectives = 1,
        .objectives = {{.objective = objective_find("next_token"),
                        .weight = 1,
                        .num_outputs = VOCAB - 1,
                        .first_output = 1}},
        .layers = 2,
        .dim = DIM,
        .heads = HEADS,
        .attention_biases = 1,
        .decoder_layers = 1,
        .div_value = 4,
        .norm_epsilon = 1e-5,
        .scale_words = 1,
        .ffn = WIDE,
        .plan = single_plan(mechanism, t->options),
    };
}

static void open_model(struct decoder_test *t, const struct model_config *config, int threads)
{
    layer_test_open(&t->base, threads);
    t->config = *config;
    check_status(&t->base.host, model_new(&t->base.host, config, &t->model), HASHATTN_OK, NULL);
    check_status(&t->base.host, model_fit(&t->base.host, t->model, (size_t)config->max_len), HASHATTN_OK,
                 NULL);
    t->base.params = *model_params(t->model);
    layer_test_start(&t->base, 5);
}

/* Labels that are not the following tokens: the model must not care. One in nine rows has none. */
static void open_batch(struct decoder_test *t, size_t count, const size_t *lengths)
{
    for (size_t s = 0; s < count; s++) {
        t->offsets[s + 1] = t->offsets[s] + lengths[s];
        t->samples[s] = 100 + 7 * s;
    }
    assert_true(t->offsets[count] <= MOST_ROWS);
    struct random random = random_open(3);
    for (size_t r = 0; r < t->offsets[count]; r++) {
        t->tokens[r] = (uint32_t)(1 + random_below(&random, VOCAB - 1));
        t->labels[r] = r % 9 == 4 ? -1 : (int32_t)(1 + random_below(&random, VOCAB - 1));
        t->ids[r] = t->labels[r] < 0 ? 0 : (uint32_t)t->labels[r];
        t->weights[r] = t->labels[r] < 0 ? 0 : 1;
    }
    t->targets = (struct targets){.ids = t->ids, .weights = t->weights};
    t->batch = (struct model_batch){
        .kernels = t->base.kernels,
        .pool = t->base.pool,
        .num_sequences = count,
        .offsets = t->offsets,
        .input = {.ids = t->tokens},
        .targets = &t->targets,
        .sample_ids = t->samples,
        .random_key = 77,
        .training = true,
    };
}

/* Memory of exactly the requested size, full of NaNs. */
static double run_forward(struct decoder_test *t)
{
    t->values = layer_test_pack(&t->base, t->batch.training);
    test_pass_open(&t->pass, &t->base.host, t->model, &t->batch, t->values);
    return model_forward(t->pass.pass);
}

static void run_backward(struct decoder_test *t)
{
    model_backward(t->pass.pass, t->base.gradients, NULL);
}

/* The loss of every row, each from the sums of a count in which only it has a target. */
static const double *losses_of(struct decoder_test *t)
{
    float weights[MOST_ROWS];
    size_t rows = t->batch.offsets[t->batch.num_sequences];
    const struct targets targets = *t->batch.targets, one = {.ids = targets.ids, .weights = weights};
    const struct targets *own = t->batch.targets;
    t->batch.targets = &one;
    memset(weights, 0, sizeof weights);
    for (size_t r = 0; r < rows; r++) {
        double sums[MODEL_SUMS] = {0};
        weights[r] = 1;
        model_count(t->pass.pass, sums);
        t->row_loss[r] = sums[0]; /* 0 if the forward had no targets */
        weights[r] = 0;
    }
    t->batch.targets = own;
    return t->row_loss;
}

static void close_model(struct decoder_test *t)
{
    memset(&t->base.params, 0, sizeof t->base.params); /* the model's */
    model_free(&t->base.host, t->model);
    layer_test_close(&t->base);
    test_pass_close(&t->pass);
}

/* ---- against double precision ------------------------------------------------------------------------- */

static void open_oracle(struct decoder_test *t)
{
    t->oracle = (struct oracle_encoder){
        .layers = (size_t)t->config.layers,
        .classes = VOCAB - 1,
        .max_len = (size_t)t->config.max_len,
        .positions = t->config.positions,
        .params = &t->base.params,
        .values = t->base.exact,
        .num_sequences = t->batch.num_sequences,
        .offsets = t->offsets,
        .tokens = t->tokens,
        .labels = t->labels,
        .next_token = 1,
        .row_losses = t->row_losses,
    };
    t->oracle.blocks[0] = (struct oracle_block){
        .dim = DIM,
        .heads = HEADS,
        .wide = WIDE,
        .softmax = strcmp(t->config.plan.used[0].mechanism->name, "softmax") == 0,
        .causal = 1,
        .post = t->config.norm == 1,
        .layered = t->config.positions == POSITIONS_LAYERED,
    };
}

static double oracle_loss(void *user)
{
    struct decoder_test *t = user;
    return oracle_encoder_loss(&t->oracle, NULL);
}

/* As in test_model: roundings of sums of dim, wide and rows terms, of numbers of the size of the gradient.
   The table's rows are larger by sqrt(DIM) inside. */
static double gradient_bound(const struct decoder_test *t, const float *gradient, size_t n)
{
    double rows = (double)t->offsets[t->batch.num_sequences];
    double roundings = (double)t->config.layers * (8 * DIM + 2 * WIDE) + rows + VOCAB;
    return roundings * EPSILON * (3 * largest(gradient, n) + 0.05);
}

static void check_losses(struct decoder_test *t, double loss)
{
    double exact = oracle_encoder_loss(&t->oracle, NULL);
    double roundings = (double)t->config.layers * (8 * DIM + 2 * WIDE) + (double)t->config.max_len;
    const double *losses = losses_of(t);
    for (size_t r = 0; r < t->offsets[t->batch.num_sequences]; r++)
        check_near(losses[r], t->row_losses[r], 4 * roundings * EPSILON * (1 + t->row_losses[r]),
                   "loss of a row");
    check_near(loss, exact, 4 * roundings * EPSILON * (1 + loss), "loss");
}

static void check_every_derivative(const char *mechanism, int norm, int positions)
{
    struct decoder_test t = {.pass = {.plan = NULL}};
    struct model_config config = config_of(&t, attention_find(mechanism));
    config.max_len = 9;
    config.norm = norm;
    config.positions = positions;
    open_model(&t, &config, 2);
    open_batch(&t, 3, (size_t[]){5, 1, 9});
    open_oracle(&t);
    check_losses(&t, run_forward(&t));
    run_backward(&t);
    for (size_t i = 0; i < t.base.params.num_rows; i++) {
        const struct param *row = &t.base.params.rows[i];
        float *gradient = t.base.gradients + row->offset;
        check_derivatives(gradient, t.base.exact + row->offset, row->count, oracle_loss, &t,
                          gradient_bound(&t, gradient, row->count), row->name);
    }
    close_model(&t);
}

/* The table's gradient is the sum over both of its uses. */
static void every_gradient_is_right(void **state)
{
    (void)state;
    check_every_derivative("softmax", 0, POSITIONS_LEARNED);
    check_every_derivative("softmax", 1, POSITIONS_SINUSOIDAL);
    check_every_derivative("softmax", 0, POSITIONS_LAYERED);
    check_every_derivative("none", 0, POSITIONS_NONE);
}

/* Weights are dropped in training only; test_attention_dropout.c has what is dropped. */
static void attention_dropout_is_for_training(void **state)
{
    (void)state;
    double loss[2][2];
    for (int drops = 0; drops < 2; drops++)
        for (int training = 0; training < 2; training++) {
            struct decoder_test t = {.pass = {.plan = NULL}};
            struct model_config config = config_of(&t, attention_find("softmax"));
            config.max_len = 9;
            config.attention_dropout = drops ? 0.5 : 0;
            open_model(&t, &config, 2);
            open_batch(&t, 3, (size_t[]){5, 1, 9});
            t.batch.training = training;
            loss[drops][training] = run_forward(&t);
            close_model(&t);
        }
    assert_true(loss[0][0] == loss[1][0] && loss[1][1] != loss[0][1]);
}

/* Several tiles and chunks of rows: one random direction per tensor. */
static void gradients_over_many_tiles_are_right(void **state)
{
    (void)state;
    for (int norm = 0; norm < 2; norm++) {
        struct decoder_test t = {.pass = {.plan = NULL}};
        struct model_config config = config_of(&t, attention_find("softmax"));
        config.norm = norm;
        config.positions = norm == 0 ? POSITIONS_LEARNED : POSITIONS_LAYERED;
        open_model(&t, &config, 2);
        open_batch(&t, 5, (size_t[]){200, 1, 259, 60, 123});
        open_oracle(&t);
        check_losses(&t, run_forward(&t));
        run_backward(&t);
        for (size_t i = 0; i < t.base.params.num_rows; i++) {
            const struct param *row = &t.base.params.rows[i];
            float *direction = new_normals(900 + i, row->count, 1 / sqrt((double)row->count));
            double *values = t.base.exact + row->offset, step = 1e-4, side[2], got = 0;
            for (int up = 0; up < 2; up++) {
                for (size_t k = 0; k < row->count; k++)
                    values[k] += (up ? 2 : -1) * step * (double)direction[k];
                side[up] = oracle_loss(&t);
            }
            for (size_t k = 0; k < row->count; k++) {
                values[k] -= step * (double)direction[k];
                got += (double)direction[k] * (double)t.base.gradients[row->offset + k];
            }
            check_near(got, (side[1] - side[0]) / (2 * step),
                       gradient_bound(&t, t.base.gradients + row->offset, row->count) + 1e-8, row->name);
            free(direction);
        }
        close_model(&t);
    }
}

/* ---- independence ------------------------------------------------------------------------------------- */

static const size_t packed_lengths[] = {200, 1, 259, 60, 123};

static bool is_causal(const struct mechanism *mechanism, const void *options)
{
    const struct problem_shape shape = {.num_queries = LONGEST,
                                        .num_keys = LONGEST,
                                        .head_dim = DIM / HEADS,
                                        .value_dim = DIM / HEADS,
                                        .causal = true,
                                        .workers = 1};
    return mechanism_refuses(mechanism, options, &shape) == NULL;
}

/* Tokens after a token change no bit of its loss; the token itself and earlier ones do. */
static void the_future_is_not_seen(void **state)
{
    (void)state;
    size_t tried = 0;
    for (const struct mechanism *const *mechanism = attention_mechanisms(); *mechanism != NULL; mechanism++) {
        struct decoder_test t = {.pass = {.plan = NULL}};
        struct model_config config = config_of(&t, *mechanism);
        if (!is_causal(*mechanism, t.options))
            continue;
        tried++;
        config.norm = (int)(tried % 2);
        open_model(&t, &config, 2);
        open_batch(&t, 2, (size_t[]){130, 200});
        t.batch.training = false;
        run_forward(&t);
        double before[MOST_ROWS];
        memcpy(before, losses_of(&t), t.offsets[2] * sizeof *before);
        static const size_t places[] = {0, 70, 129, 130, 200, 329};
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            size_t at = places[i], start = at < 130 ? 0 : 130, end = at < 130 ? 130 : 330;
            uint32_t saved[MOST_ROWS];
            memcpy(saved, t.tokens, sizeof saved);
            for (size_t r = at; r < end; r++)
                t.tokens[r] = 1 + (t.tokens[r] + 3) % (VOCAB - 1);
            run_forward(&t);
            const double *losses = losses_of(&t);
            check_same_bits(losses + start, before + start, (at - start) * sizeof *before,
                            (*mechanism)->name);
            assert_true(losses[at] != before[at] || t.labels[at] < 1);
            size_t other = start == 0 ? 130 : 0, count = start == 0 ? 200 : 130;
            check_same_bits(losses + other, before + other, count * sizeof *before, "the other one");
            memcpy(t.tokens, saved, sizeof saved);
        }
        close_model(&t);
    }
    assert_true(tried >= 4); /* softmax, none, yoso, yoso-e */
}

static void a_sequence_is_the_same_alone_and_packed(void **state)
{
    (void)state;
    for (const struct mechanism *const *mechanism = attention_mechanisms(); *mechanism != NULL; mechanism++) {
        struct decoder_test t = {.pass = {.plan = NULL}};
        struct model_config config = config_of(&t, *mechanism);
        if (!is_causal(*mechanism, t.options))
            continue;
        config.dropout = 0.2;
        config.dim = 64;
        open_model(&t, &config, 2);
        open_batch(&t, 5, packed_lengths);
        double together[MOST_ROWS];
        run_forward(&t);
        memcpy(together, losses_of(&t), t.offsets[5] * sizeof *together);
        t.batch.num_sequences = 1;
        for (size_t s = 0; s < 5; s++) {
            const size_t alone[2] = {0, packed_lengths[s]};
            t.batch.offsets = alone;
            t.batch.input.ids = t.tokens + t.offsets[s];
            t.targets = (struct targets){.ids = t.ids + t.offsets[s], .weights = t.weights + t.offsets[s]};
            t.batch.sample_ids = t.samples + s;
            run_forward(&t);
            check_same_bits(losses_of(&t), together + t.offsets[s], alone[1] * sizeof *together,
                            (*mechanism)->name);
        }
        close_model(&t);
    }
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    for (int precision = 0; precision < PRECISION_COUNT; precision++) {
        float *gradients = NULL;
        double loss = 0;
        for (int threads = 1; threads <= 3; threads++) {
            struct decoder_test t = {.pass = {.plan = NULL}};
            struct model_config config = config_of(&t, attention_find(precision == 0 ? "yoso" : "softmax"));
            config.dropout = 0.2;
            config.precision = precision;
            open_model(&t, &config, threads);
            open_batch(&t, 5, packed_lengths);
            double got = run_forward(&t);
            run_backward(&t);
            size_t bytes = t.base.params.total * sizeof(float);
            if (threads == 1) {
                loss = got;
                gradients = malloc(bytes);
                memcpy(gradients, t.base.gradients, bytes);
                for (size_t i = 0; i < t.base.params.total; i++)
                    assert_true(isfinite(gradients[i]));
            }
            check_same_bits(&loss, &got, sizeof loss, "loss");
            check_same_bits(gradients, t.base.gradients, bytes, "gradients");
            close_model(&t);
        }
        free(gradients);
    }
}

/* ---- the divisor of the loss -------------------------------------------------------------------------- */

/* Two micro-batches of different length, each with the label counts of both: losses and gradients add up. */
static void parts_add_up_to_the_whole(void **state)
{
    (void)state;
    struct decoder_test t = {.pass = {.plan = NULL}};
    struct model_config config = config_of(&t, attention_find("softmax"));
    open_model(&t, &config, 1);
    open_batch(&t, 3, (size_t[]){30, 100, 61});
    double whole = run_forward(&t);
    run_backward(&t);
    size_t total = t.base.params.total;
    double count = 0;
    double *want = new_doubles(t.base.gradients, total);
    memset(t.base.gradients, 0, total * sizeof(float));
    for (size_t r = 0; r < t.offsets[3]; r++)
        count += t.labels[r] >= 1;
    const size_t second[] = {0, 100, 161};
    double sum = 0;
    t.batch.counts = &count;
    t.batch.examples = 3;
    t.batch.num_sequences = 1;
    sum += run_forward(&t);
    run_backward(&t);
    t.batch.num_sequences = 2;
    t.batch.offsets = second;
    t.batch.input.ids = t.tokens + 30;
    t.targets = (struct targets){.ids = t.ids + 30, .weights = t.weights + 30};
    t.batch.sample_ids = t.samples + 1;
    sum += run_forward(&t);
    run_backward(&t);
    check_near(sum, whole, 100 * EPSILON * whole, "loss");
    for (size_t i = 0; i < t.base.params.num_rows; i++) {
        const struct param *row = &t.base.params.rows[i];
        check_near_all(t.base.gradients + row->offset, want + row->offset, row->count,
                       gradient_bound(&t, t.base.gradients + row->offset, row->count), row->name);
    }
    free(want);
    close_model(&t);
}

/* A mechanism's own loss is a mean over sequences, for any number of tokens. */
static void an_own_loss_is_per_sequence(void **state)
{
    (void)state;
    struct decoder_test t = {.pass = {.plan = NULL}};
    struct model_config config = config_of(&t, &linear_mechanism);
    open_model(&t, &config, 1);
    open_batch(&t, 2, (size_t[]){40, 50});
    double plain = 0, loss[2];
    size_t count = 0;
    loss[0] = run_forward(&t);
    const double *losses = losses_of(&t);
    for (size_t r = 0; r < t.offsets[2]; r++) {
        plain += losses[r];
        count += t.labels[r] >= 1;
    }
    plain *= 0.625; /* the task's share */
    double own = loss[0] - plain / (double)count;
    assert_true(own > 1e-3);
    t.batch.examples = 8; /* a step of eight sequences */
    loss[1] = run_forward(&t);
    check_near(loss[1] - plain / (double)count, own / 4, 1e-9 + 100 * EPSILON * own, "own loss");
    close_model(&t);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    struct decoder_test t = {.pass = {.plan = NULL}};
    struct model *encoder;
    struct model_config config = config_of(&t, attention_find("softmax"));
    struct host host;
    host_init(&host);
    config.conv_window = 3;
    check_status(&host, model_new(&host, &config, &encoder), HASHATTN_INVALID, "conv_window is 3");
    config.conv_window = 0;
    config.pairs = true;
    check_status(&host, model_new(&host, &config, &encoder), HASHATTN_INVALID, "two sequences");
    config.pairs = false;
    config.causal = 0;
    check_status(&host, model_new(&host, &config, &encoder), HASHATTN_INVALID, "causal hides them");
    config.causal = 1;
    config.vocab_size = 1;
    check_status(&host, model_new(&host, &config, &encoder), HASHATTN_INVALID, "vocab_size is 1");
}

static void an_empty_batch_is_nothing(void **state)
{
    (void)state;
    struct decoder_test t = {.pass = {.plan = NULL}};
    struct model_config config = config_of(&t, attention_find("softmax"));
    open_model(&t, &config, 2);
    open_batch(&t, 0, NULL);
    check_near(run_forward(&t), 0, 0, "loss");
    run_backward(&t);
    for (size_t i = 0; i < t.base.params.total; i++)
        assert_true(t.base.gradients[i] == 0);
    close_model(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gradient_is_right),
        cmocka_unit_test(attention_dropout_is_for_training),
        cmocka_unit_test(gradients_over_many_tiles_are_right),
        cmocka_unit_test(the_future_is_not_seen),
        cmocka_unit_test(a_sequence_is_the_same_alone_and_packed),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(parts_add_up_to_the_whole),
        cmocka_unit_test(an_own_loss_is_per_sequence),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(an_empty_batch_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
