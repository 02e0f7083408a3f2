/* Encoder and decoder together: predictions, loss and the gradient of every parameter against double
   precision and its finite differences, for sequences of different lengths and over many tiles; with dropout
   against finite differences of the model itself; the same bits with any number of threads, and alone or
   packed; all of it also with an encoder that distils; and what is refused. Bugs planted and caught: the
   residual of cross attention from before the first norm; keys of the decoder's rows; the gradient of encoded
   rows written instead of added; that of queries of cross attention left out, of keys not cleared; an own
   loss of cross attention left out; the first rows predicted instead of the last; other random numbers
   backward; heads of the encoder only in the mean of an own loss; distilling: cross attention to rows that
   are not halved, the first halving's offsets for all, a norm after every block, none after the last, two
   blocks with the same parameters, the convolution's gradient left out, sequences that are too short not
   refused.
   Covers: encoder_stack.c trunk.c trunk_plan.c
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "models/model.h"
#include "nn/distil.h"
#include "oracle/oracle_stacks.h"
#include "support/check.h"
#include "support/layers.h"
#include "support/test_pass.h"

enum { DIM = 6, HEADS = 2, WIDE = 7, WIDTH = 4, DECODED = 2, OUTPUTS = 6, MOST = 8, ROWS = 960 };

struct stacks_test {
    struct layer_test base;
    struct model_config config;
    struct head_plan plan;
    struct model *model;
    struct model_batch batch;
    struct targets targets;
    size_t offsets[MOST + 1], decoder_offsets[MOST + 1], halved_offsets[2 * (MOST + 1)];
    uint64_t samples[MOST];
    float *floats, *decoder_floats, *wanted;
    float outputs[MOST * OUTPUTS];
    struct test_pass pass;
    const float *values;
    struct oracle_stacks oracle;
};

static struct model_config config_of(const struct head_plan *plan)
{
    struct model_config config = {.plan = *plan};
    options_preset(model_options, &config);
    config.row_width = WIDTH;
    config.max_len = 400;
    config.decoder_rows = 400;
    config.decoded_rows = DECODED;
    config.num_objectives = 1;
    config.objectives[0] =
        (struct model_objective){.objective = objective_find("decoded"), .weight = 1, .num_outputs = OUTPUTS};
    config.layers = 1;
    config.decoder_layers = 2;
    config.dim = DIM;
    config.heads = HEADS;
    config.ffn = WIDE;
    config.norm = 1;
    config.positions = POSITIONS_SINUSOIDAL;
    config.dropout = 0;
    return config;
}

/* layers: of the encoder; more than one distils. */
static void open_layers(struct stacks_test *t, const char *plan, double rate, int threads, int64_t layers)
{
    memset(t, 0, sizeof *t);
    layer_test_open(&t->base, threads);
    check_status(&t->base.host, head_plan_new(&t->base.host, plan, &t->plan), HASHATTN_OK, NULL);
    t->config = config_of(&t->plan);
    t->config.dropout = t->config.attention_dropout = rate;
    t->config.layers = layers;
    t->config.distil = layers > 1;
    check_status(&t->base.host, model_new(&t->base.host, &t->config, &t->model), HASHATTN_OK, NULL);
    check_status(&t->base.host, model_fit(&t->base.host, t->model, 400), HASHATTN_OK, NULL);
    t->base.params = *model_params(t->model);
    layer_test_start(&t->base, 5);
}

static void open_model(struct stacks_test *t, const char *plan, double rate, int threads)
{
    open_layers(t, plan, rate, threads, 1);
}

static void open_batch(struct stacks_test *t, size_t count, const size_t *lengths, const size_t *decoded)
{
    for (size_t s = 0; s < count; s++) {
        t->offsets[s + 1] = t->offsets[s] + lengths[s];
        t->decoder_offsets[s + 1] = t->decoder_offsets[s] + decoded[s];
        t->samples[s] = 30 + 5 * s;
    }
    distil_offsets(count, t->offsets, t->halved_offsets);
    distil_offsets(count, t->halved_offsets, t->halved_offsets + count + 1);
    t->floats = new_zeros(ROWS * WIDTH);
    t->decoder_floats = new_zeros(ROWS * WIDTH);
    t->wanted = new_normals(3, MOST * OUTPUTS, 1);
    float *normals[] = {new_normals(1, ROWS * WIDTH, 1), new_normals(2, ROWS * WIDTH, 1)};
    memcpy(t->floats, normals[0], t->offsets[count] * WIDTH * sizeof(float));
    memcpy(t->decoder_floats, normals[1], t->decoder_offsets[count] * WIDTH * sizeof(float));
    free(normals[0]), free(normals[1]);
    t->targets = (struct targets){.floats = t->wanted};
    t->batch = (struct model_batch){.kernels = t->base.kernels,
                                    .pool = t->base.pool,
                                    .num_sequences = count,
                                    .offsets = t->offsets,
                                    .input = {.floats = t->floats},
                                    .decoder_offsets = t->decoder_offsets,
                                    .decoder_floats = t->decoder_floats,
                                    .halved_offsets = t->halved_offsets,
                                    .targets = &t->targets,
                                    .sample_ids = t->samples,
                                    .random_key = 77,
                                    .training = true};
    t->oracle = (struct oracle_stacks){.dim = DIM,
                                       .heads = HEADS,
                                       .wide = WIDE,
                                       .layers = (size_t)t->config.layers,
                                       .decoder_layers = (size_t)t->config.decoder_layers,
                                       .width = WIDTH,
                                       .distil = t->config.distil,
                                       .decoded = DECODED,
                                       .outputs = OUTPUTS,
                                       .params = &t->base.params,
                                       .values = t->base.exact,
                                       .examples = count,
                                       .offsets = t->offsets,
                                       .decoder_offsets = t->decoder_offsets,
                                       .floats = t->floats,
                                       .decoder_floats = t->decoder_floats,
                                       .targets = t->wanted};
}

static double run_forward(struct stacks_test *t)
{
    t->values = layer_test_pack(&t->base, t->batch.training);
    test_pass_open(&t->pass, &t->base.host, t->model, &t->batch, t->values);
    double loss = model_forward(t->pass.pass);
    model_predict(t->pass.pass, t->outputs);
    return loss;
}

static void run_backward(struct stacks_test *t)
{
    model_backward(t->pass.pass, t->base.gradients, NULL);
}

static void close_model(struct stacks_test *t)
{
    memset(&t->base.params, 0, sizeof t->base.params); /* the model's */
    model_free(&t->base.host, t->model);
    head_plan_free(&t->base.host, &t->plan);
    layer_test_close(&t->base);
    test_pass_close(&t->pass);
    free(t->floats), free(t->decoder_floats), free(t->wanted);
}

/* ---- against double precision -------------------------------------------------------------------------- */

static double oracle_loss(void *user)
{
    struct stacks_test *t = user;
    return oracle_stacks_loss(&t->oracle, NULL);
}

/* Roundings on the longest path, as in test_model.c. */
static double bound_of(const struct stacks_test *t, const float *gradient, size_t n)
{
    double rows = (double)(t->offsets[t->batch.num_sequences] + t->decoder_offsets[t->batch.num_sequences]);
    return (3 * (12 * DIM + 2 * WIDE) + rows) * EPSILON * (largest(gradient, n) + 0.1);
}

static void check_forward(struct stacks_test *t)
{
    double want[MOST * OUTPUTS], loss = run_forward(t), exact = oracle_stacks_loss(&t->oracle, want);
    check_near_all(t->outputs, want, t->batch.num_sequences * OUTPUTS, 1e-5, "predictions");
    check_near(loss, exact, 2e-5 * (1 + exact), "loss");
}

static void check_every_gradient(int64_t layers, const size_t *lengths)
{
    struct stacks_test t;
    open_layers(&t, "softmax", 0, 2, layers);
    open_batch(&t, 3, lengths, (size_t[]){5, 3, 2});
    check_forward(&t);
    run_backward(&t);
    for (size_t i = 0; i < t.base.params.num_rows; i++) {
        const struct param *row = &t.base.params.rows[i];
        float *gradient = t.base.gradients + row->offset;
        check_derivatives(gradient, t.base.exact + row->offset, row->count, oracle_loss, &t,
                          bound_of(&t, gradient, row->count), row->name);
    }
    close_model(&t);
}

static void every_gradient_is_right(void **state)
{
    (void)state;
    check_every_gradient(1, (size_t[]){4, 1, 7});
    check_every_gradient(2, (size_t[]){4, 3, 7});
    check_every_gradient(3, (size_t[]){8, 5, 11});
}

/* Several tiles and chunks of rows: one random direction per tensor. */
static void check_many_tiles(int64_t layers)
{
    struct stacks_test t;
    open_layers(&t, "softmax", 0, 2, layers);
    open_batch(&t, 4, (size_t[]){200, layers == 1 ? 1 : 5, 259, 90}, (size_t[]){190, 340, 3, 150});
    check_forward(&t);
    run_backward(&t);
    for (size_t i = 0; i < t.base.params.num_rows; i++) {
        const struct param *row = &t.base.params.rows[i];
        float *direction = new_normals(900 + i, row->count, 1 / sqrt((double)row->count));
        double *values = t.base.exact + row->offset, step = layers == 1 ? 1e-4 : 1e-7, side[2], got = 0;
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
                   bound_of(&t, t.base.gradients + row->offset, row->count) + 1e-8, row->name);
        free(direction);
    }
    close_model(&t);
}

static void gradients_over_many_tiles_are_right(void **state)
{
    (void)state;
    check_many_tiles(1);
    check_many_tiles(3);
}

/* ---- dropout, bits, own losses ------------------------------------------------------------------------- */

/* Finite differences of the model in float: its draws are the same at every call. */
static void check_dropout(int64_t layers, double step)
{
    struct stacks_test t;
    open_layers(&t, "softmax", 0.2, 2, layers);
    open_batch(&t, 3, (size_t[]){140, 11, 127}, (size_t[]){150, 123, 12});
    double whole = run_forward(&t);
    run_backward(&t);
    for (size_t i = 0; i < t.base.params.num_rows; i++) {
        const struct param *row = &t.base.params.rows[i];
        float *direction = new_normals(700 + i, row->count, 1), *values = t.base.values + row->offset,
              *kept = new_zeros(row->count);
        double side[2], got = 0, size = 0;
        memcpy(kept, values, row->count * sizeof *kept);
        for (int up = 0; up < 2; up++) {
            for (size_t k = 0; k < row->count; k++)
                values[k] = kept[k] + (float)(up ? step : -step) * direction[k];
            side[up] = run_forward(&t);
        }
        memcpy(values, kept, row->count * sizeof *kept);
        for (size_t k = 0; k < row->count; k++) {
            double gradient = (double)t.base.gradients[row->offset + k];
            got += (double)direction[k] * gradient;
            size += gradient * gradient;
        }
        check_near(got, (side[1] - side[0]) / (2 * step), 0.03 * sqrt(size) + 1e-3, row->name);
        free(direction), free(kept);
    }
    t.batch.training = false;
    assert_true(run_forward(&t) != whole);
    close_model(&t);
}

static void dropout_is_the_same_backward(void **state)
{
    (void)state;
    check_dropout(1, 2e-3);
    check_dropout(2, 5e-4); /* maxima change hands less often */
}

static void check_bits(const char *plan, int64_t layers)
{
    const size_t lengths[] = {200, layers == 1 ? 1 : 6, 259, 90}, decoded[] = {190, 340, 3, 150};
    struct stacks_test one, more, alone;
    open_layers(&one, plan, 0, 1, layers);
    open_batch(&one, 4, lengths, decoded);
    run_forward(&one);
    run_backward(&one);
    open_layers(&more, plan, 0, 3, layers);
    open_batch(&more, 4, lengths, decoded);
    run_forward(&more);
    run_backward(&more);
    check_same_bits(more.outputs, one.outputs, 4 * OUTPUTS * sizeof(float), "outputs");
    check_same_bits(more.base.gradients, one.base.gradients, one.base.params.total * sizeof(float),
                    "gradients");
    open_layers(&alone, plan, 0, 2, layers);
    open_batch(&alone, 1, lengths, decoded);
    run_forward(&alone);
    check_same_bits(alone.outputs, one.outputs, OUTPUTS * sizeof(float), "the first example alone");
    close_model(&one), close_model(&more), close_model(&alone);
}

static void threads_and_packing_change_no_bit(void **state)
{
    (void)state;
    check_bits("softmax/lha/softmax/local", 1);
    check_bits("lha/softmax/local/lha/softmax/lha/softmax", 3);
}

/* The own loss and the task's, of a training batch, after its backward. */
static void own_loss_of(struct stacks_test *t, const char *plan, double *own, double *task, double *loss)
{
    double sums[MODEL_SUMS] = {0}, values[MODEL_METRICS];
    open_model(t, plan, 0, 2);
    open_batch(t, 2, (size_t[]){60, 80}, (size_t[]){90, 70});
    *loss = run_forward(t);
    run_backward(t);
    model_count(t->pass.pass, sums);
    model_metrics(t->model, sums, values);
    for (size_t i = 0; i < model_num_metrics(t->model); i++) {
        if (strcmp(model_metric(t->model, i)->name, "lha.own_loss") == 0)
            *own = values[i];
        if (strcmp(model_metric(t->model, i)->name, "mse") == 0)
            *task = values[i];
    }
}

/* The mean is over the heads of both stacks, and hashes of all three attentions learn from it. */
static void own_losses_are_of_both_stacks(void **state)
{
    (void)state;
    static const char *const names[] = {"encoder.layer.0.attention.own.query",
                                        "decoder.layer.0.attention.own.query",
                                        "decoder.layer.1.crossattention.own.query"};
    struct stacks_test t;
    double loss, task = 0, one = 0, all = 0;
    own_loss_of(&t, "lha/softmax", &one, &task, &loss);
    close_model(&t);
    own_loss_of(&t, "lha", &all, &task, &loss);
    for (size_t i = 0; i < 3; i++) {
        const struct param *row = param_named(&t.base.params, names[i]);
        assert_true(largest(t.base.gradients + row->offset, row->count) > 1e-6);
    }
    check_near(loss, 0.95 * task + 0.05 * all, 1e-5, "the training loss");
    assert_true(one > 0.01 && all < 2.5 * one && all > one / 2.5); /* means of 2 and of 10 heads */
    close_model(&t);
}

/* ---- refusals ------------------------------------------------------------------------------------------ */

static void check_refused(const char *plan, void (*change)(struct model_config *config), hashattn_status code,
                          const char *part)
{
    struct host host;
    struct head_plan heads;
    struct model *model;
    host_init(&host);
    check_status(&host, head_plan_new(&host, plan, &heads), HASHATTN_OK, NULL);
    struct model_config config = config_of(&heads);
    if (change != NULL)
        change(&config);
    check_status(&host, model_new(&host, &config, &model), code, part);
    head_plan_free(&host, &heads);
}

static void pre_norm(struct model_config *config)
{
    config->norm = 0;
}
static void layered(struct model_config *config)
{
    config->positions = POSITIONS_LAYERED;
}
static void causal(struct model_config *config)
{
    config->causal = 1;
}
static void too_many_rows(struct model_config *config)
{
    config->decoder_rows = 401;
}
static void too_many_decoded(struct model_config *config)
{
    config->decoded_rows = 401;
}
static void uneven(struct model_config *config)
{
    config->decoded_rows = 4;
}
static void no_decoder(struct model_config *config)
{
    config->decoder_rows = config->decoded_rows = 0;
}
static void distil_alone(struct model_config *config)
{
    no_decoder(config);
    config->layers = 2;
    config->distil = 1;
}
static void distil_once(struct model_config *config)
{
    config->distil = 1;
}
static void distil_often(struct model_config *config)
{
    config->layers = 17;
    config->distil = 1;
}
static void shorter(struct model_config *config)
{
    config->decoder_rows = 300;
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    check_refused("softmax", pre_norm, HASHATTN_INVALID, "norm is pre, blocks of a decoder have post");
    check_refused("softmax", layered, HASHATTN_INVALID, "positions is layered");
    check_refused("softmax", causal, HASHATTN_INVALID, "causal is true");
    check_refused("softmax", too_many_rows, HASHATTN_INVALID, "decoder_rows is 401, allowed are 0 to 400");
    check_refused("softmax", too_many_decoded, HASHATTN_INVALID, "decoded_rows is 401");
    check_refused("softmax", uneven, HASHATTN_INVALID, "not a multiple of the rows that are predicted");
    check_refused("softmax", no_decoder, HASHATTN_INVALID, "it reads the rows of a decoder");
    check_refused("softmax", distil_alone, HASHATTN_INVALID,
                  "it halves the rows of an encoder that a decoder");
    check_refused("softmax", distil_once, HASHATTN_INVALID, "distil is true and layers is 1");
    check_refused("softmax", distil_often, HASHATTN_INVALID,
                  "layers is 17; it halves rows between layers, so 2 to 16");
    check_refused(
        "softmax/sinkhorn", NULL, HASHATTN_REFUSED,
        "sinkhorn cannot do sequences of 400 rows with heads of 3 in the decoder's self-attention, which is "
        "causal: it has no causal form");
    check_refused("softmax/softmax/reformer/softmax", shorter, HASHATTN_REFUSED, "in cross attention: ");
    check_refused("softmax/softmax/softmax/softmax/softmax/softmax", NULL, HASHATTN_INVALID,
                  "has lists for 6 layers, the model has 5");
}

/* Of two halvings the first needs 3 rows, the second what the first leaves. Mechanisms see halved rows. */
static void short_sequences_are_refused(void **state)
{
    (void)state;
    struct stacks_test t;
    open_layers(&t, "softmax", 0, 1, 3);
    open_batch(&t, 2, (size_t[]){5, 4}, (size_t[]){2, 2});
    check_status(&t.base.host, test_pass_plan(&t.base.host, t.model, &t.batch), HASHATTN_REFUSED,
                 "distil: a sequence of 4 rows has 2 left before halving 2 of 2, at least 3 are needed");
    t.batch.num_sequences = 1;
    distil_offsets(1, t.offsets, t.halved_offsets);
    distil_offsets(1, t.halved_offsets, t.halved_offsets + 2);
    check_status(&t.base.host, test_pass_plan(&t.base.host, t.model, &t.batch), HASHATTN_OK, NULL);
    close_model(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gradient_is_right),
        cmocka_unit_test(gradients_over_many_tiles_are_right),
        cmocka_unit_test(dropout_is_the_same_backward),
        cmocka_unit_test(threads_and_packing_change_no_bit),
        cmocka_unit_test(own_losses_are_of_both_stacks),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(short_sequences_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
