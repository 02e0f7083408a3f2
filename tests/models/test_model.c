/* The whole model against its definition in double precision: logits, loss and every gradient; packing,
   threads, evaluation, memory. gradient_bound derives the bound of a gradient. Bugs planted and caught: one
   key for all layers; pooling's gradient of the first tile for all; dropout's key changed in backward; only
   the first partial gradient added; partials not cleared; last tile of a chunk left out; workers sharing
   scratch; layers sharing activations; convolution added in place in training; own loss not added, its
   gradient not divided; no gradient of the logits; dropout in evaluation; rows after the last token not
   cleared; sample ids not passed to the mechanism; a row of the head computed apart; the head's spare rows
   not cleared; post-LN whose backward skips the norm of the embedding, or that pools rows of a last norm;
   pairs averaged over sequences, features of the second example from the first; mixed heads: their random
   numbers or their learned parameters counted from the first of the group, groups that save in one place,
   layers that save as much as the first, an own loss averaged over all heads, its tensors named as if
   unmixed; the second objective writing over the gradient of the first; weights of objectives left out;
   targets of weight 0 counted; the mean over the step taken over the batch; own losses weighted alike.
   Covers: model_pass.c input.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "nn/dropout.h"
#include "oracle/oracle_encoder.h"
#include "support/check.h"
#include "support/layers.h"
#include "support/linear_mechanism.h"
#include "support/single_plan.h"
#include "support/test_pass.h"

enum { DIM = 8, HEADS = 2, WIDE = 12, CLASSES = 3, VOCAB = 9, MOST_ROWS = 700, MOST_SEQUENCES = 8 };

struct model_test {
    struct layer_test base;
    struct model *model;
    struct model_config config;
    size_t offsets[MOST_SEQUENCES + 1];
    uint32_t tokens[MOST_ROWS], labels[MOST_SEQUENCES];
    int32_t signed_labels[MOST_SEQUENCES]; /* of the oracle */
    struct targets targets;
    uint64_t samples[MOST_SEQUENCES];
    struct model_batch batch;
    unsigned char options[4096]; /* of the mechanism */
    struct test_pass pass;
    const float *values;                     /* as prepared by the last forward */
    float outputs[MOST_SEQUENCES * CLASSES]; /* probabilities */
    /* oracle */
    float *masks[3 * ORACLE_LAYERS + 1];
    struct oracle_encoder oracle;
};

static struct model_config config_of(struct model_test *t, const struct mechanism *mechanism, size_t max_len)
{
    assert_true(mechanism->options_size <= sizeof t->options);
    options_preset(mechanism->options, t->options);
    return (struct model_config){
        .vocab_size = VOCAB,
        .num_objectives = 1,
        .objectives = {{.objective = objective_find("classify"), .weight = 1, .num_outputs = CLASSES}},
        .max_len = (int64_t)max_len,
        .layers = 2,
        .dim = DIM,
        .heads = HEADS,
        .attention_biases = 1,
        .decoder_layers = 1,
        .div_value = 4,
        .norm_epsilon = 1e-5,
        .ffn = WIDE,
        .plan = single_plan(mechanism, t->options)};
}

static void open_model(struct model_test *t, const struct model_config *config, int threads)
{
    layer_test_open(&t->base, threads);
    t->config = *config;
    check_status(&t->base.host, model_new(&t->base.host, config, &t->model), HASHATTN_OK, NULL);
    check_status(&t->base.host, model_fit(&t->base.host, t->model, (size_t)config->max_len), HASHATTN_OK,
                 NULL);
    t->base.params = *model_params(t->model);
    layer_test_start(&t->base, 5);
}

static void open_batch(struct model_test *t, size_t count, const size_t *lengths)
{
    for (size_t s = 0; s < count; s++) {
        t->offsets[s + 1] = t->offsets[s] + lengths[s];
        t->labels[s] = (uint32_t)((s * s + 1) % CLASSES);
        t->signed_labels[s] = (int32_t)t->labels[s];
        t->samples[s] = 100 + 7 * s;
    }
    assert_true(t->offsets[count] <= MOST_ROWS);
    struct random random = random_open(3);
    for (size_t r = 0; r < t->offsets[count]; r++)
        t->tokens[r] = (uint32_t)random_below(&random, VOCAB); /* includes 0: no id is special */
    t->targets = (struct targets){.ids = t->labels};
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

static double run_forward(struct model_test *t)
{
    t->values = layer_test_pack(&t->base, t->batch.training);
    test_pass_open(&t->pass, &t->base.host, t->model, &t->batch, t->values);
    double loss = model_forward(t->pass.pass);
    model_predict(t->pass.pass, t->outputs);
    return loss;
}

static void run_backward(struct model_test *t)
{
    model_backward(t->pass.pass, t->base.gradients, NULL);
}

static void close_model(struct model_test *t)
{
    memset(&t->base.params, 0, sizeof t->base.params); /* the model's */
    model_free(&t->base.host, t->model);
    layer_test_close(&t->base);
    test_pass_close(&t->pass);
    for (size_t i = 0; i < sizeof t->masks / sizeof *t->masks; i++)
        free(t->masks[i]);
}

/* ---- the oracle --------------------------------------------------------------------------------------- */

/* The mask of one site as data: dropout, under the documented key, applied to ones. */
static float *mask_of(struct model_test *t, uint64_t parent, uint64_t site, size_t width)
{
    struct rows rows =
        rows_of(t->base.kernels, t->base.pool, t->batch.num_sequences, t->offsets, t->batch.sample_ids);
    struct dropout dropout = dropout_of(t->config.dropout);
    float *mask = new_zeros(rows.count * width);
    for (size_t i = 0; i < rows.count * width; i++)
        mask[i] = 1;
    dropout_rows(&dropout, random_key(parent, RANDOM_DROPOUT, site), &rows, mask, mask, 0, rows.count, width);
    return mask;
}

static void open_oracle(struct model_test *t)
{
    size_t layers = (size_t)t->config.layers;
    t->oracle = (struct oracle_encoder){
        .layers = layers,
        .classes = CLASSES,
        .max_len = (size_t)t->config.max_len,
        .pooling = t->config.pooling,
        .positions = t->config.positions,
        .pairs = t->config.pairs,
        .params = &t->base.params,
        .values = t->base.exact,
        .num_sequences = t->batch.num_sequences,
        .offsets = t->offsets,
        .tokens = t->tokens,
        .labels = t->signed_labels,
    };
    t->oracle.blocks[0] = (struct oracle_block){
        .dim = DIM,
        .heads = HEADS,
        .wide = WIDE,
        .taps = (size_t)t->config.conv_window,
        .softmax = strcmp(t->config.plan.used[0].mechanism->name, "softmax") == 0,
        .post = t->config.norm == 1,
        .layered = t->config.positions == POSITIONS_LAYERED,
    };
    if (t->config.dropout == 0)
        return;
    t->oracle.embed_mask = t->masks[0] = mask_of(t, t->batch.random_key, 0, DIM);
    for (size_t i = 0; i < layers; i++) {
        uint64_t key = random_key(t->batch.random_key, RANDOM_LAYER, i);
        t->oracle.blocks[i].attention_mask = t->masks[3 * i + 1] = mask_of(t, key, 0, DIM);
        t->oracle.blocks[i].wide_mask = t->masks[3 * i + 2] = mask_of(t, key, 1, WIDE);
        t->oracle.blocks[i].ffn_mask = t->masks[3 * i + 3] = mask_of(t, key, 2, DIM);
    }
}

static double oracle_loss(void *user)
{
    struct model_test *t = user;
    return oracle_encoder_loss(&t->oracle, NULL);
}

/* Roundings on the longest path from a parameter to the loss and back: sums of dim, wide and rows terms, a
   few in every layer; each is EPSILON of numbers of the size of the largest gradient of the tensor or of 1 /
   sequences. */
static double gradient_bound(const struct model_test *t, const float *gradient, size_t n)
{
    double rows = (double)t->offsets[t->batch.num_sequences];
    double roundings = (double)t->config.layers * (8 * DIM + 2 * WIDE) + rows;
    return roundings * EPSILON * (largest(gradient, n) + 0.05);
}

static void check_outputs(struct model_test *t, double loss)
{
    double want[MOST_SEQUENCES * CLASSES];
    size_t examples = t->batch.num_sequences / (t->config.pairs ? 2 : 1);
    double exact = oracle_encoder_loss(&t->oracle, want);
    double roundings = (double)t->config.layers * (8 * DIM + 2 * WIDE) + (double)t->config.max_len, most = 0;
    for (size_t i = 0; i < examples * CLASSES; i++)
        most = fmax(most, fabs(want[i]));
    for (size_t i = 0; i < examples; i++) { /* a probability moves by at most half the change of the logits */
        double sum = 0;
        for (size_t c = 0; c < CLASSES; c++)
            sum += exp(want[i * CLASSES + c]);
        for (size_t c = 0; c < CLASSES; c++)
            want[i * CLASSES + c] = exp(want[i * CLASSES + c]) / sum;
    }
    check_near_all(t->outputs, want, examples * CLASSES, roundings * EPSILON * (1 + most), "probabilities");
    check_near(loss, exact, roundings * EPSILON * (1 + loss), "loss");
}

/* plan: one mechanism; or none for the first `idle` heads and softmax for the rest. */
static void check_every_derivative(const char *plan, size_t idle, int pooling, int64_t taps, double rate,
                                   int norm, int positions)
{
    struct model_test t = {.pass = {.plan = NULL}};
    struct model_config config = config_of(&t, attention_find("softmax"), 9);
    struct host host;
    host_init(&host);
    check_status(&host, head_plan_new(&host, plan, &config.plan), HASHATTN_OK, NULL);
    config.pooling = pooling;
    config.conv_window = taps;
    config.dropout = rate;
    config.norm = norm;
    config.positions = positions;
    open_model(&t, &config, 2);
    open_batch(&t, 3, (size_t[]){5, 1, 9});
    open_oracle(&t);
    t.oracle.blocks[0].softmax = strcmp(plan, "none") != 0;
    t.oracle.blocks[0].idle_heads = idle;
    check_outputs(&t, run_forward(&t));
    run_backward(&t);
    for (size_t i = 0; i < t.base.params.num_rows; i++) {
        const struct param *row = &t.base.params.rows[i];
        float *gradient = t.base.gradients + row->offset;
        check_derivatives(gradient, t.base.exact + row->offset, row->count, oracle_loss, &t,
                          gradient_bound(&t, gradient, row->count), row->name);
    }
    close_model(&t);
    head_plan_free(&host, &config.plan);
}

static void every_gradient_is_right(void **state)
{
    (void)state;
    check_every_derivative("softmax", 0, POOL_MEAN, 0, 0, 0, 0);
    check_every_derivative("softmax", 0, POOL_MEAN_PADDED, 3, 0.3, 0, 0);
    check_every_derivative("none", 0, POOL_FIRST, 5, 0, 0, POSITIONS_NONE);
    check_every_derivative("softmax", 0, POOL_FIRST, 0, 0, 1, 0);
    check_every_derivative("softmax", 0, POOL_MEAN, 3, 0.3, 1, 1);
    check_every_derivative("none*1,softmax", 1, POOL_MEAN, 3, 0.3, 0, 0);
    check_every_derivative("softmax", 0, POOL_MEAN, 0, 0.3, 1, POSITIONS_LAYERED);
}

/* Three examples of two sequences: the head's features, and a batch whose mean is over examples. */
static void gradients_of_pairs_are_right(void **state)
{
    (void)state;
    struct model_test t = {.pass = {.plan = NULL}};
    struct model_config config = config_of(&t, attention_find("softmax"), 9);
    config.pairs = true;
    config.dropout = 0.2;
    open_model(&t, &config, 2);
    open_batch(&t, 6, (size_t[]){5, 1, 9, 4, 2, 7});
    open_oracle(&t);
    assert_int_equal(param_named(&t.base.params, "classifier.dense.weight")->shape[1], 4 * DIM);
    check_outputs(&t, run_forward(&t));
    run_backward(&t);
    for (size_t i = 0; i < t.base.params.num_rows; i++) {
        const struct param *row = &t.base.params.rows[i];
        float *gradient = t.base.gradients + row->offset;
        check_derivatives(gradient, t.base.exact + row->offset, row->count, oracle_loss, &t,
                          gradient_bound(&t, gradient, row->count), row->name);
    }
    close_model(&t);
}

/* A batch of several tiles and chunks: one random direction per tensor. */
static void check_many_tiles(int norm)
{
    struct model_test t = {.pass = {.plan = NULL}};
    struct model_config config = config_of(&t, attention_find("softmax"), 260);
    config.conv_window = 5;
    config.dropout = 0.2;
    config.norm = norm;
    open_model(&t, &config, 2);
    open_batch(&t, 5, (size_t[]){200, 1, 259, 60, 123});
    open_oracle(&t);
    check_outputs(&t, run_forward(&t));
    run_backward(&t);
    for (size_t i = 0; i < t.base.params.num_rows; i++) {
        const struct param *row = &t.base.params.rows[i];
        float *direction = new_normals(900 + i, row->count, 1 / sqrt((double)row->count));
        double *values = t.base.exact + row->offset, step = 1e-4, side[2], got = 0;
        for (int up = 0; up < 2; up++) {
            for (size_t k = 0; k < row->count; k++)
                values[k] += (up ? 2 : -1) * step * (double)direction[k];
            side[up] = oracle_encoder_loss(&t.oracle, NULL);
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

static void gradients_over_many_tiles_are_right(void **state)
{
    (void)state;
    check_many_tiles(0);
    check_many_tiles(1);
}

/* ---- bf16 ---- */

/* |a - b| / |b| over all. */
static double distance(const float *a, const float *b, size_t n)
{
    double apart = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        double step = (double)a[i] - (double)b[i];
        apart += step * step;
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(apart / size);
}

/* Rounding to bfloat16 changes an operand by at most 2^-8 of itself, so a product by 2^-7. A layer has eight
   products forward and eight backward: 16 x 2^-7 = 1/8 if errors never cancelled. The first product by itself
   changes something by 2^-12. */
static void bf16_is_float32_rounded(void **state)
{
    (void)state;
    enum { TOTAL = 4096 };
    float logits[2][MOST_SEQUENCES * CLASSES], gradients[2][TOTAL];
    size_t total = 0;
    for (int precision = 0; precision < PRECISION_COUNT; precision++) {
        struct model_test t = {.pass = {.plan = NULL}};
        struct model_config config = config_of(&t, attention_find("softmax"), 260);
        config.precision = precision;
        open_model(&t, &config, 2);
        open_batch(&t, 5, (size_t[]){200, 1, 259, 60, 123});
        run_forward(&t);
        run_backward(&t);
        total = t.base.params.total;
        assert_true(total <= TOTAL);
        memcpy(logits[precision], t.outputs, sizeof t.outputs);
        memcpy(gradients[precision], t.base.gradients, total * sizeof(float));
        close_model(&t);
    }
    double apart = distance(logits[1], logits[0], 5 * CLASSES);
    assert_true(apart > ldexp(1, -12) && apart < 0.125);
    apart = distance(gradients[1], gradients[0], total);
    assert_true(apart > ldexp(1, -12) && apart < 0.125);
}

/* ---- packing, threads, evaluation --------------------------------------------------------------------- */

static const size_t packed_lengths[] = {200, 1, 259, 60, 123};

static void a_sequence_is_the_same_alone_and_packed(void **state)
{
    (void)state;
    for (int run = 0; run < 6; run++) {
        bool training = run % 2 == 1;
        struct model_test t = {.pass = {.plan = NULL}};
        struct model_config config = config_of(&t, attention_find("softmax"), 260);
        config.norm = run / 2 == 1;
        config.precision = run / 2 == 2 ? PRECISION_BF16 : PRECISION_FLOAT32;
        config.conv_window = 5;
        config.dropout = 0.2;
        open_model(&t, &config, 2);
        open_batch(&t, 5, packed_lengths);
        t.batch.training = training;
        double loss = run_forward(&t), losses = 0;
        float together[MOST_SEQUENCES * CLASSES];
        memcpy(together, t.outputs, sizeof together);
        double *sum = NULL;
        if (training) {
            run_backward(&t);
            sum = new_doubles(t.base.gradients, t.base.params.total);
            memset(t.base.gradients, 0, t.base.params.total * sizeof(float));
        }
        struct model_batch whole = t.batch;
        for (size_t s = 0; s < whole.num_sequences; s++) {
            const size_t alone[2] = {0, packed_lengths[s]};
            t.batch.num_sequences = 1;
            t.batch.offsets = alone;
            t.batch.input.ids = t.tokens + t.offsets[s];
            t.targets.ids = t.labels + s;
            t.batch.sample_ids = t.samples + s;
            losses += run_forward(&t);
            check_same_bits(t.outputs, together + s * CLASSES, CLASSES * sizeof *together,
                            "alone and packed");
            if (training)
                run_backward(&t); /* adds */
        }
        check_near(losses / 5, loss, 10 * EPSILON * loss, "the loss is the mean of those alone");
        /* The gradient of the mean over five is a fifth of the sum of five. */
        for (size_t i = 0; training && i < t.base.params.num_rows; i++) {
            const struct param *row = &t.base.params.rows[i];
            t.batch = whole;
            double bound = 5 * gradient_bound(&t, t.base.gradients + row->offset, row->count);
            if (config.precision == PRECISION_BF16) /* a gradient of a fifth the size rounds differently */
                bound = 5 * 0.125 * (largest(t.base.gradients + row->offset, row->count) + 0.05);
            for (size_t k = 0; k < row->count; k++)
                check_near((double)t.base.gradients[row->offset + k] / 5, sum[row->offset + k], bound,
                           row->name);
        }
        free(sum);
        close_model(&t);
    }
}

/* The widths of the Long Range Arena models, every mechanism, in evaluation: sampled ones use the same
   hashing for every sequence. */
static void predictions_do_not_depend_on_the_batch(void **state)
{
    (void)state;
    for (const struct mechanism *const *mechanism = attention_mechanisms(); *mechanism != NULL; mechanism++) {
        struct model_test t = {.pass = {.plan = NULL}};
        struct model_config config = config_of(&t, *mechanism, 260);
        config.dim = 64;
        config.ffn = 128;
        config.conv_window = 33;
        open_model(&t, &config, 2);
        open_batch(&t, 5, packed_lengths);
        t.batch.training = false;
        t.batch.targets = NULL;
        t.batch.sample_ids = NULL;
        run_forward(&t);
        float together[MOST_SEQUENCES * CLASSES];
        memcpy(together, t.outputs, sizeof together);
        t.batch.num_sequences = 1;
        for (size_t s = 0; s < 5; s++) {
            const size_t alone[2] = {0, packed_lengths[s]};
            t.batch.offsets = alone;
            t.batch.input.ids = t.tokens + t.offsets[s];
            run_forward(&t);
            check_same_bits(t.outputs, together + s * CLASSES, CLASSES * sizeof *together,
                            (*mechanism)->name);
        }
        close_model(&t);
    }
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    const struct mechanism *const *mechanism = attention_mechanisms();
    for (int precision = 0; *mechanism != NULL; mechanism += precision, precision = !precision) {
        if ((*mechanism)->host.backward == NULL)
            continue;
        float *gradients = NULL, logits[MOST_SEQUENCES * CLASSES];
        double loss = 0;
        for (int threads = 1; threads <= 3; threads++) {
            struct model_test t = {.pass = {.plan = NULL}};
            struct model_config config = config_of(&t, *mechanism, 260);
            config.conv_window = 5;
            config.dropout = 0.2;
            config.precision = precision;
            open_model(&t, &config, threads);
            open_batch(&t, 5, packed_lengths);
            double got = run_forward(&t);
            run_backward(&t);
            size_t bytes = t.base.params.total * sizeof(float);
            if (threads == 1) {
                loss = got;
                memcpy(logits, t.outputs, sizeof logits);
                gradients = malloc(bytes);
                memcpy(gradients, t.base.gradients, bytes);
                for (size_t i = 0; i < t.base.params.total; i++)
                    assert_true(isfinite(gradients[i]));
            }
            check_same_bits(&loss, &got, sizeof loss, (*mechanism)->name);
            check_same_bits(logits, t.outputs, 5 * CLASSES * sizeof *logits, (*mechanism)->name);
            check_same_bits(gradients, t.base.gradients, bytes, (*mechanism)->name);
            close_model(&t);
        }
        free(gradients);
    }
}

static void evaluation_is_training_without_dropout(void **state)
{
    (void)state;
    struct model_test t = {.pass = {.plan = NULL}};
    struct model_config config = config_of(&t, attention_find("softmax"), 260);
    config.conv_window = 5;
    open_model(&t, &config, 2);
    open_batch(&t, 5, packed_lengths);
    double loss = run_forward(&t);
    float logits[MOST_SEQUENCES * CLASSES];
    memcpy(logits, t.outputs, sizeof logits);
    size_t training_bytes = test_pass_bytes(&t.base.host, t.model, &t.batch);
    t.batch.training = false;
    t.batch.sample_ids = NULL;
    double again = run_forward(&t);
    check_same_bits(&loss, &again, sizeof loss, "loss");
    check_same_bits(logits, t.outputs, 5 * CLASSES * sizeof *logits, "logits");
    assert_true(3 * test_pass_bytes(&t.base.host, t.model, &t.batch) < 2 * training_bytes);
    struct model_config dropping = config;
    struct model *plain = t.model;
    dropping.dropout = 0.5;
    check_status(&t.base.host, model_new(&t.base.host, &dropping, &t.model), HASHATTN_OK, NULL);
    t.batch.sample_ids = t.samples;
    run_forward(&t);
    check_same_bits(logits, t.outputs, 5 * CLASSES * sizeof *logits,
                    "logits of a model that drops in training");
    model_free(&t.base.host, t.model);
    t.model = plain;
    t.batch.targets = NULL;
    check_near(run_forward(&t), 0, 0, "loss without labels");
    check_same_bits(logits, t.outputs, 5 * CLASSES * sizeof *logits, "logits without labels");
    close_model(&t);
}

/* All randomness, of dropout and of a sampled mechanism, follows from the key of the step and the sample's
   id. */
static void chance_follows_step_and_sample(void **state)
{
    (void)state;
    static const char *const mechanisms[] = {"softmax", "yoso"};
    for (size_t m = 0; m < 2; m++) {
        struct model_test t = {.pass = {.plan = NULL}};
        struct model_config config = config_of(&t, attention_find(mechanisms[m]), 9);
        config.dropout = m == 0 ? 0.3 : 0;
        open_model(&t, &config, 1);
        open_batch(&t, 2, (size_t[]){4, 9});
        float first[2 * CLASSES];
        size_t one = CLASSES * sizeof *first;
        run_forward(&t);
        memcpy(first, t.outputs, 2 * one);
        run_forward(&t);
        check_same_bits(first, t.outputs, 2 * one, "same key, same samples");
        t.batch.random_key++;
        run_forward(&t);
        assert_true(memcmp(first, t.outputs, one) != 0 &&
                    memcmp(first + CLASSES, t.outputs + CLASSES, one) != 0);
        t.batch.random_key--;
        t.samples[1]++;
        run_forward(&t);
        check_same_bits(first, t.outputs, one, "the other sample");
        assert_true(memcmp(first + CLASSES, t.outputs + CLASSES, one) != 0);
        close_model(&t);
    }
}

static void an_empty_batch_is_nothing(void **state)
{
    (void)state;
    struct model_test t = {.pass = {.plan = NULL}};
    struct model_config config = config_of(&t, attention_find("softmax"), 9);
    config.conv_window = 3;
    open_model(&t, &config, 2);
    open_batch(&t, 0, NULL);
    check_near(run_forward(&t), 0, 0, "loss");
    run_backward(&t);
    for (size_t i = 0; i < t.base.params.total; i++)
        assert_true(t.base.gradients[i] == 0);
    close_model(&t);
}

/* ---- a mechanism with parameters and a loss of its own ------------------------------------------------ */

static double moved_loss(struct model_test *t, const struct param *row, const float *direction, double step)
{
    float *values = t->base.values + row->offset;
    for (size_t k = 0; k < row->count; k++)
        values[k] = (float)(t->base.exact[row->offset + k] + step * (double)direction[k]);
    double loss = run_forward(t);
    for (size_t k = 0; k < row->count; k++)
        values[k] = (float)t->base.exact[row->offset + k];
    return loss;
}

static double slope_along(struct model_test *t, const struct param *row, const float *direction, double step)
{
    double near = moved_loss(t, row, direction, step) - moved_loss(t, row, direction, -step);
    double far = moved_loss(t, row, direction, 2 * step) - moved_loss(t, row, direction, -2 * step);
    return (8 * near - far) / (12 * step);
}

static void own_parameters_and_loss_are_carried(void **state)
{
    (void)state;
    struct model_test t = {.pass = {.plan = NULL}};
    struct model_config config = config_of(&t, &linear_mechanism, 9);
    config.layers = 1; /* the gradient of an upper layer's own loss would not cover the lower layer */
    config.dropout = 0.2;
    open_model(&t, &config, 2);
    open_batch(&t, 3, (size_t[]){5, 1, 9});
    const struct param *project = param_named(&t.base.params, "encoder.layer.0.attention.own.project");
    const struct param *gain = param_named(&t.base.params, "encoder.layer.0.attention.own.gain");
    assert_true(project->rank == 3 && project->shape[0] == HEADS && project->shape[2] == DIM / HEADS);
    const struct param *const rows[] = {project, gain};
    double loss = run_forward(&t), plain = 0;
    run_backward(&t);
    t.batch.targets = NULL;
    run_forward(&t);
    for (size_t s = 0; s < 3; s++)
        plain -= log((double)t.outputs[s * CLASSES + t.labels[s]]) / 3;
    assert_true(loss > 0.625 * plain + 1e-6); /* 0.375 is the share of the own loss, a sum of squares */
    t.batch.targets = &t.targets;
    for (size_t i = 0; i < 2; i++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            float *direction = new_normals(seed, rows[i]->count, 1);
            double got = 0, step = 0.02;
            for (size_t k = 0; k < rows[i]->count; k++)
                got += (double)direction[k] * (double)t.base.gradients[rows[i]->offset + k];
            double want = slope_along(&t, rows[i], direction, step);
            /* The error of a float loss is some 40 EPSILON; the fifth derivative times step^4 is far
               smaller. */
            check_near(got, want, 40 * EPSILON * (1 + loss) / step + 1e-4 * fabs(want), rows[i]->name);
            free(direction);
        }
    close_model(&t);
}

/* ---- mixed heads --------------------------------------------------------------------------------------- */

/* Loss, logits and gradients of a model of this plan, in training and in evaluation. */
struct outcome {
    double loss, evaluated;
    float logits[2][MOST_SEQUENCES * CLASSES];
    float *gradients;
    size_t total, saved;
};

static struct outcome outcome_of(const char *plan, int64_t layers, int64_t heads)
{
    struct model_test t = {.pass = {.plan = NULL}};
    struct outcome outcome = {0};
    struct host host;
    host_init(&host);
    struct model_config config = config_of(&t, attention_find("none"), 260);
    check_status(&host, head_plan_new(&host, plan, &config.plan), HASHATTN_OK, NULL);
    config.layers = layers;
    config.dim = 4 * heads;
    config.heads = heads;
    config.dropout = 0.2;
    open_model(&t, &config, 2);
    open_batch(&t, 5, packed_lengths);
    outcome.loss = run_forward(&t);
    memcpy(outcome.logits[0], t.outputs, 5 * CLASSES * sizeof(float));
    run_backward(&t);
    outcome.total = t.base.params.total;
    outcome.saved = test_pass_saved(&t.base.host, t.model, &t.batch);
    outcome.gradients = malloc(outcome.total * sizeof(float));
    memcpy(outcome.gradients, t.base.gradients, outcome.total * sizeof(float));
    t.batch.training = false;
    t.batch.sample_ids = NULL;
    outcome.evaluated = run_forward(&t);
    memcpy(outcome.logits[1], t.outputs, 5 * CLASSES * sizeof(float));
    close_model(&t);
    head_plan_free(&host, &config.plan);
    return outcome;
}

/* The same mechanism in several groups, and in a list per layer, equals that mechanism in one group,
   including its random numbers and learned parameters. */
static void mixing_a_mechanism_with_itself_changes_no_bit(void **state)
{
    (void)state;
    for (const struct mechanism *const *m = attention_mechanisms(); *m != NULL; m++) {
        if ((*m)->host.backward == NULL)
            continue;
        const char *name = (*m)->name;
        char plan[200];
        snprintf(plan, sizeof plan, "%s*1,%s*2/%s/%s*2,%s", name, name, name, name, name);
        struct outcome plain = outcome_of(name, 3, 3), mixed = outcome_of(plan, 3, 3);
        assert_int_equal(plain.total, mixed.total);
        check_same_bits(&plain.loss, &mixed.loss, sizeof plain.loss, name);
        check_same_bits(&plain.evaluated, &mixed.evaluated, sizeof plain.loss, name);
        check_same_bits(plain.logits, mixed.logits, sizeof plain.logits, name);
        check_same_bits(plain.gradients, mixed.gradients, plain.total * sizeof(float), name);
        free(plain.gradients);
        free(mixed.gradients);
    }
}

/* A layer saves as much as its own mechanisms need. */
static void layers_of_different_heads_save_what_they_need(void **state)
{
    (void)state;
    struct outcome softmax = outcome_of("softmax", 3, 2), yoso = outcome_of("yoso", 3, 2),
                   parted = outcome_of("softmax/yoso", 3, 2), mixed = outcome_of("softmax,yoso", 3, 2);
    assert_true(softmax.saved < yoso.saved);
    assert_int_equal(3 * parted.saved, softmax.saved + 2 * yoso.saved);
    assert_true(mixed.saved > softmax.saved && mixed.saved < yoso.saved);
    free(softmax.gradients);
    free(yoso.gradients);
    free(parted.gradients);
    free(mixed.gradients);
}

/* Softmax and the linear test mechanism: two layers of two heads. One head of the second layer has the own
   loss, so only its parameters change that loss. */
static void the_own_loss_is_meant_over_the_heads_that_have_it(void **state)
{
    (void)state;
    double own[2] = {0};
    for (int both = 0; both < 2; both++) {
        struct model_test t = {.pass = {.plan = NULL}};
        struct model_config config = config_of(&t, &linear_mechanism, 9);
        config.plan.used[1].mechanism = attention_find("softmax");
        config.plan.num_used = 2;
        /* First the linear mechanism in the only layer; then with a layer of softmax after it. */
        config.layers = 1 + both;
        config.plan.num_lists = 1 + (size_t)both;
        config.plan.lists[1].num_groups = 1;
        config.plan.lists[1].groups[0].used = 1;
        open_model(&t, &config, 2);
        open_batch(&t, 3, (size_t[]){5, 1, 9});
        own[both] = run_forward(&t);
        t.batch.training = false;
        own[both] -= run_forward(&t); /* 0.625 of the loss, without the own loss */
        close_model(&t);
    }
    check_near(own[1], own[0], 100 * EPSILON, "own loss");
    assert_true(own[0] > 1e-3);

    struct model_test t = {.pass = {.plan = NULL}};
    struct model_config config = config_of(&t, &linear_mechanism, 9);
    config.plan.used[1].mechanism = attention_find("softmax");
    config.plan.num_used = 2;
    config.plan.num_lists = 2;
    config.plan.lists[0].groups[0].used = 1;
    config.plan.lists[1].num_groups = 2;
    config.plan.lists[1].groups[0].used = 1;
    config.plan.lists[1].groups[1].used = 0;
    open_model(&t, &config, 2);
    open_batch(&t, 3, (size_t[]){5, 1, 9});
    const struct param *project = param_named(&t.base.params, "encoder.layer.1.attention.own.linear.project");
    assert_true(project->rank == 3 && project->shape[0] == 1 && project->shape[2] == DIM / HEADS);
    double loss = run_forward(&t);
    run_backward(&t);
    const struct param *gain = param_named(&t.base.params, "encoder.layer.1.attention.own.linear.gain");
    const struct param *const rows[] = {project, gain};
    for (size_t i = 0; i < 2; i++) {
        float *direction = new_normals(i, rows[i]->count, 1);
        double got = 0, step = 0.005; /* two layers have more curvature */
        for (size_t k = 0; k < rows[i]->count; k++)
            got += (double)direction[k] * (double)t.base.gradients[rows[i]->offset + k];
        double want = slope_along(&t, rows[i], direction, step);
        check_near(got, want, 40 * EPSILON * (1 + loss) / step + 1e-4 * fabs(want), rows[i]->name);
        free(direction);
    }
    close_model(&t);
}

static void saved_bytes_are_those_of_attention(void **state)
{
    (void)state;
    struct model_test t = {.pass = {.plan = NULL}};
    struct model_config config = config_of(&t, attention_find("softmax"), 260);
    open_model(&t, &config, 1);
    open_batch(&t, 2, (size_t[]){100, 200});
    size_t saved = test_pass_saved(&t.base.host, t.model, &t.batch);
    assert_true(saved > 0 && saved < test_pass_bytes(&t.base.host, t.model, &t.batch));
    t.batch.training = false;
    assert_int_equal(2 * test_pass_saved(&t.base.host, t.model, &t.batch), saved);
    close_model(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gradient_is_right),
        cmocka_unit_test(gradients_of_pairs_are_right),
        cmocka_unit_test(gradients_over_many_tiles_are_right),
        cmocka_unit_test(bf16_is_float32_rounded),
        cmocka_unit_test(a_sequence_is_the_same_alone_and_packed),
        cmocka_unit_test(predictions_do_not_depend_on_the_batch),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(evaluation_is_training_without_dropout),
        cmocka_unit_test(chance_follows_step_and_sample),
        cmocka_unit_test(an_empty_batch_is_nothing),
        cmocka_unit_test(own_parameters_and_loss_are_carried),
        cmocka_unit_test(mixing_a_mechanism_with_itself_changes_no_bit),
        cmocka_unit_test(layers_of_different_heads_save_what_they_need),
        cmocka_unit_test(the_own_loss_is_meant_over_the_heads_that_have_it),
        cmocka_unit_test(saved_bytes_are_those_of_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
