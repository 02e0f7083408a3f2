/* Valid and invalid configs, the counts and names of a model's parameters, and failing allocations. Bugs
   planted and caught: head of width dim; one name for all layers; even windows allowed; the mechanism asked
   about one key; NaN as a rate; blocks not freed.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "models/model.h"
#include "support/check.h"
#include "support/layers.h"
#include "support/single_plan.h"

static struct model_config lra(int64_t vocab, int64_t max_len, int64_t classes, int64_t taps)
{
    struct model_config config = {.plan = single_plan(attention_find("softmax"), NULL)};
    options_preset(model_options, &config);
    config.vocab_size = vocab;
    config.max_len = max_len;
    config.num_objectives = 1;
    config.objectives[0] = (struct model_objective){
        .objective = objective_find("classify"), .weight = 1, .num_outputs = classes};
    config.conv_window = taps;
    return config;
}

/* The models of the Long Range Arena experiments, as counted from the released configurations. */
static void parameter_counts_are_the_published_models(void **state)
{
    (void)state;
    static const struct {
        int64_t vocab, max_len, classes, taps;
        size_t count;
        bool pairs;
    } cases[] = {
        {32, 2048, 10, 0, 209802, false},        {32, 2048, 10, 33, 209802 + 132, false},
        {512, 4096, 2, 0, 370562, false},        {512, 4096, 2, 0, 395138, true},
        {512, 1024, 10, 0, 174986, false},       {512, 1024, 2, 0, 173954, false},
        {512, 1024, 2, 33, 173954 + 132, false},
    };
    struct host host;
    host_init(&host);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_config config = lra(cases[i].vocab, cases[i].max_len, cases[i].classes, cases[i].taps);
        config.pairs = cases[i].pairs;
        struct model *encoder;
        check_status(&host, model_new(&host, &config, &encoder), HASHATTN_OK, NULL);
        assert_int_equal(params_count(model_params(encoder)), cases[i].count);
        assert_int_equal(model_config_of(encoder)->max_len, cases[i].max_len);
        model_free(&host, encoder);
    }
}

static void names_are_the_fields_and_unique(void **state)
{
    (void)state;
    static const char *const names[] = {
        "embeddings.word_embeddings.weight",
        "embeddings.position_embeddings.weight",
        "encoder.layer.0.layernorm_before.weight",
        "encoder.layer.0.attention.query.weight",
        "encoder.layer.1.attention.value.bias",
        "encoder.layer.1.attention.conv.weight",
        "encoder.layer.1.attention.output.dense.weight",
        "encoder.layer.0.layernorm_after.bias",
        "encoder.layer.0.intermediate.dense.weight",
        "encoder.layer.1.output.dense.bias",
        "layernorm.weight",
        "classifier.dense.weight",
        "classifier.out_proj.bias",
    };
    struct host host;
    host_init(&host);
    struct model_config config = lra(32, 100, 10, 33);
    struct model *encoder;
    check_status(&host, model_new(&host, &config, &encoder), HASHATTN_OK, NULL);
    const struct params *params = model_params(encoder);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        param_named(params, names[i]);
    for (size_t i = 0; i < params->num_rows; i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(params->rows[i].name, params->rows[k].name);
    const struct param *filter = param_named(params, "encoder.layer.0.attention.conv.weight");
    check_near((double)filter->scale, 1 / 5.744562646538029, 1e-8, "start of the filter");
    model_free(&host, encoder);
}

static void check_refused(struct model_config config, hashattn_status status, const char *part)
{
    struct host host;
    host_init(&host);
    struct model *encoder;
    check_status(&host, model_new(&host, &config, &encoder), status, part);
    assert_null(encoder);
}

static const char *refuse_all(const void *options, const struct problem_shape *shape)
{
    (void)options;
    return shape->num_keys == 300 && shape->head_dim == 32 ? "it is a test" : NULL;
}

static void bad_configs_are_refused_with_numbers(void **state)
{
    (void)state;
    const struct model_config good = lra(32, 300, 10, 0);
    struct model_config config;
#define BAD(field, value, part)                                                                              \
    (config = good, config.field = (value), check_refused(config, HASHATTN_INVALID, part))
    BAD(vocab_size, 1, "vocab_size is 1, allowed are 2 to 1048576");
    BAD(vocab_size, 1048577, "vocab_size is 1048577");
    BAD(vocab_size, 0, "vocab_size is 0 and row_width 0");
    BAD(row_width, 3, "vocab_size is 32 and row_width 3");
    BAD(num_segments, 257, "num_segments is 257, allowed are 0 to 256");
    BAD(num_objectives, 5, "the number of objectives is 5, allowed are 0 to 4");
    BAD(objectives[0].num_outputs, 0, "classify: there are no classes");
    BAD(objectives[0].num_outputs, 1 << 21, "classify has 2097152 outputs");
    BAD(objectives[0].weight, 0, "classify has weight 0");
    BAD(objectives[0].weight, (double)__builtin_nanf(""), "classify has weight");
    BAD(max_len, 0, "max_len is 0");
    BAD(max_len, INT64_MAX, "max_len is");
    BAD(layers, 0, "layers is 0, allowed are 1 to 256");
    BAD(layers, -3, "layers is -3");
    BAD(dim, 0, "dim is 0");
    BAD(dim, INT64_MAX, "dim is");
    BAD(heads, 0, "heads is 0");
    BAD(heads, 3, "dim is 64, which is not a multiple of heads, 3");
    BAD(ffn, 0, "ffn is 0");
    BAD(conv_window, 32, "conv_window is 32, allowed are 0 and odd");
    BAD(conv_window, -1, "conv_window is -1");
    config = good;
    config.objectives[config.num_objectives++] = config.objectives[0];
    check_refused(config, HASHATTN_INVALID, "objective classify is listed twice");
    config = good;
    config.num_objectives = 3;
    config.objectives[1] = config.objectives[2] = (struct model_objective){
        .objective = objective_find("next_token"), .weight = 1, .num_outputs = 31, .first_output = 1};
    check_refused(config, HASHATTN_INVALID, "objective next_token is listed twice");
    config = good;
    config.causal = 1;
    config.conv_window = 3;
    check_refused(config, HASHATTN_INVALID, "conv_window is 3, and half of its taps would see");
    BAD(pooling, 3, "pooling is 3");
    BAD(pooling, -1, "pooling is -1");
    BAD(norm, 2, "norm is 2, allowed are 0 to 1");
    BAD(positions, 5, "positions is 5, allowed are 0 to 4");
    BAD(attention_dropout, 0.95, "attention_dropout is 0.95");
    BAD(dropout, 0.95, "dropout is 0.95");
    BAD(dropout, -0.1, "dropout is -0.1");
    BAD(dropout, (double)__builtin_nanf(""), "dropout is");
#undef BAD
    config = good;
    config.attention_dropout = 0.1;
    config.plan = single_plan(attention_find("none"), NULL);
    check_refused(config, HASHATTN_REFUSED,
                  "none has no attention weights to drop one by one: attention_dropout is 0.1");
    struct mechanism picky = *attention_find("softmax");
    picky.host.refuse = refuse_all;
    config = good;
    config.plan = single_plan(&picky, NULL);
    check_refused(config, HASHATTN_REFUSED,
                  "softmax cannot do sequences of 300 rows with heads of 32: it is a test");
    config.max_len = 301;
    struct host host;
    host_init(&host);
    struct model *encoder;
    check_status(&host, model_new(&host, &config, &encoder), HASHATTN_OK, NULL);
    model_free(&host, encoder);
    model_free(&host, NULL);
}

/* Each limit is accepted, and the next number is not. */
static void limits_are_allowed(void **state)
{
    (void)state;
    struct model_config good = lra(32, 300, 10, 0);
    good.heads = 1;
    struct host host;
    host_init(&host);
#define LIMITS(field, least, below, most, above, part)                                                       \
    do {                                                                                                     \
        struct model_config config = good;                                                                   \
        config.field = (least);                                                                              \
        check_status(&host, model_config_check(&host, &config), HASHATTN_OK, NULL);                          \
        config.field = (most);                                                                               \
        check_status(&host, model_config_check(&host, &config), HASHATTN_OK, NULL);                          \
        config.field = (below);                                                                              \
        check_status(&host, model_config_check(&host, &config), HASHATTN_INVALID, part);                     \
        config.field = (above);                                                                              \
        check_status(&host, model_config_check(&host, &config), HASHATTN_INVALID, part);                     \
    } while (0)
    LIMITS(vocab_size, 2, 1, 1048576, 1048577, ", allowed are 2 to 1048576");
    LIMITS(num_segments, 0, -1, 256, 257, ", allowed are 0 to 256");
    LIMITS(max_len, 1, 0, 2147483648, 2147483649, ", allowed are 1 to 2147483648");
    LIMITS(layers, 1, 0, 256, 257, ", allowed are 1 to 256");
    LIMITS(decoder_layers, 1, 0, 64, 65, ", allowed are 1 to 64");
    LIMITS(div_value, 1, 0, 64, 65, ", allowed are 1 to 64");
    LIMITS(dim, 1, 0, 16384, 16385, ", allowed are 1 to 16384");
    LIMITS(ffn, 1, 0, 65536, 65537, ", allowed are 1 to 65536");
    LIMITS(conv_window, 0, -1, 1023, 1024, ", allowed are 0 to 1023");
    LIMITS(pooling, 0, -1, 2, 3, ", allowed are 0 to 2");
    LIMITS(activation, 0, -1, 1, 2, ", allowed are 0 to 1");
    LIMITS(norm, 0, -1, 1, 2, ", allowed are 0 to 1");
    LIMITS(positions, 0, -1, 4, 5, ", allowed are 0 to 4");
    LIMITS(attention_dropout, 0, -1e-9, 0.9, 0.9000001, ", allowed are 0 to 0.9");
    LIMITS(position_offset, 0, -1, 1024, 1025, ", allowed are 0 to 1024");
    LIMITS(classifier, 0, -1, 2, 3, ", allowed are 0 to 2");
    LIMITS(norm_epsilon, 1e-12, 0, 0.1, 0.11, ", allowed are 1e-12 to 0.1");
    LIMITS(precision, 0, -1, 1, 2, ", allowed are 0 to 1");
    LIMITS(initial_std, 0, -1e-9, 1, 1.0000001, ", allowed are 0 to 1");
    LIMITS(dropout, 0, -1e-9, 0.9, 0.9000001, ", allowed are 0 to 0.9");
    LIMITS(objectives[0].weight, 1e-300, 0, 1e6, 1.1e6, "allowed are numbers above 0 up to 1e6");
    LIMITS(objectives[0].num_outputs, 0, -1, 1 << 20, (1 << 20) + 1, "allowed are 0 to 1048576");
    LIMITS(objectives[0].first_output, 0, -1, 1 << 20, -2, "outputs from -");
    good.dim = 256;
    LIMITS(heads, 1, 0, 256, 257, ", allowed are 1 to 256");
    good.vocab_size = 0;
    LIMITS(row_width, 1, 0, 65536, 65537, "row_width ");
    good.row_width = 1;
    good.num_objectives = 2;
    good.objectives[1] =
        (struct model_objective){.objective = objective_find("next_token"), .weight = 1, .num_outputs = 1};
    check_status(&host, model_config_check(&host, &good), HASHATTN_OK, NULL);
#undef LIMITS
}

/* The mechanism is asked about the problem of a head. */
static const char *refuse_unless_as_asked(const void *options, const struct problem_shape *shape)
{
    (void)options;
    return shape->num_queries == 300 && shape->num_keys == 300 && shape->max_len == 300 &&
                   shape->head_dim == 32 && shape->value_dim == 32 && shape->causal && shape->workers == 1
               ? NULL
               : "it is another problem";
}

static void the_mechanism_sees_the_problem_of_a_head(void **state)
{
    (void)state;
    struct model_config config = lra(32, 300, 10, 0);
    struct mechanism picky = *attention_find("softmax");
    struct host host;
    host_init(&host);
    picky.host.refuse = refuse_unless_as_asked;
    config.plan = single_plan(&picky, NULL);
    config.causal = 1;
    check_status(&host, model_config_check(&host, &config), HASHATTN_OK, NULL);
    config.causal = 0;
    check_status(&host, model_config_check(&host, &config), HASHATTN_REFUSED, "it is another problem");
}

static void defaults_are_the_small_model(void **state)
{
    (void)state;
    struct model_config config = {0};
    options_preset(model_options, &config);
    assert_true(config.layers == 2 && config.dim == 64 && config.heads == 2 && config.ffn == 128);
    assert_true(config.conv_window == 0 && config.pooling == POOL_MEAN && config.norm == 0 &&
                config.positions == 0 && config.causal == 0 && config.attention_biases == 1 &&
                config.precision == PRECISION_FLOAT32);
    check_near(config.dropout, 0.1, 0, "dropout");
}

static void failing_allocations_are_survived(void **state)
{
    (void)state;
    struct model_config config = lra(32, 100, 10, 33);
    config.layers = 20; /* enough rows for the description to grow */
    hashattn_status status = HASHATTN_NO_MEMORY;
    for (long fail = 0; status != HASHATTN_OK; fail++) {
        struct failing_host failing;
        failing_host_init(&failing, fail);
        struct model *encoder;
        status = model_new(&failing.host, &config, &encoder);
        assert_true(status == HASHATTN_OK ? fail > 4 : status == HASHATTN_NO_MEMORY);
        assert_true((encoder != NULL) == (status == HASHATTN_OK));
        model_free(&failing.host, encoder);
        assert_int_equal(failing.outstanding, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameter_counts_are_the_published_models),
        cmocka_unit_test(names_are_the_fields_and_unique),
        cmocka_unit_test(bad_configs_are_refused_with_numbers),
        cmocka_unit_test(limits_are_allowed),
        cmocka_unit_test(the_mechanism_sees_the_problem_of_a_head),
        cmocka_unit_test(defaults_are_the_small_model),
        cmocka_unit_test(failing_allocations_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
