/* config.json of the transformers library: what it means here, its defaults, and what is refused. Bugs
   planted and caught: the offset of YOSO's positions for BERT; RoBERTa's positions not reduced; epsilon 1e-5
   whatever the file says; use_fast_hash ignored; the expectation when use_expectation is false; null not
   taken as the default; a decoder accepted; hashes of the file not given to --attention; relu computed as
   gelu; relu in YOSO.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/pretrained_config.h"

#include <stdio.h>
#include <string.h>

#include "nn/block.h"
#include "parts/hashing/yoso_options.h"
#include "support/check.h"

static struct host host;

static struct pretrained_config parsed(const char *text, const char *attention)
{
    struct pretrained_config config;
    host_init(&host);
    check_status(&host, pretrained_config_parse(&host, text, strlen(text), attention, &config), HASHATTN_OK,
                 NULL);
    return config;
}

static void refused(const char *text, const char *attention, hashattn_status status, const char *part)
{
    struct pretrained_config config;
    host_init(&host);
    check_status(&host, pretrained_config_parse(&host, text, strlen(text), attention, &config), status, part);
    assert_true(config.json == NULL && config.model.plan.num_used == 0);
}

/* Absent keys and null have the defaults of the library's configuration classes. */
static void defaults_are_those_of_the_classes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t vocab, segments, max_len, offset;
        const char *attention;
    } cases[] = {
        {"{\"model_type\": \"yoso\", \"conv_window\": null}", 50265, 1, 4096, 2, "yoso-e"},
        {"{\"model_type\": \"bert\", \"pad_token_id\": null}", 30522, 2, 512, 0, "softmax"},
        {"{\"model_type\": \"roberta\", \"vocab_size\": null}", 50265, 2, 510, 2, "softmax"},
        {"{\"model_type\": \"xlm-roberta\"}", 30522, 2, 510, 2, "softmax"},
        {"{\"model_type\": \"camembert\", \"pad_token_id\": 3}", 30522, 2, 508, 4, "softmax"},
        {"{\"model_type\": \"electra\", \"embedding_size\": 256}", 30522, 2, 512, 0, "softmax"},
        {"{\"model_type\": \"distilbert\", \"type_vocab_size\": 3, \"layer_norm_eps\": 0.5}", 30522, 0, 512,
         0, "softmax"},
    };
    for (size_t i = 0; i < 3; i++) {
        struct pretrained_config config = parsed(cases[i].text, NULL);
        const struct model_config *m = &config.model;
        assert_true(m->dim == 768 && m->layers == 12 && m->heads == 12 && m->ffn == 3072 &&
                    m->conv_window == 0);
        assert_true(m->vocab_size == cases[i].vocab && m->num_segments == cases[i].segments);
        assert_true(m->max_len == cases[i].max_len && m->position_offset == cases[i].offset);
        assert_true(m->norm_epsilon == 1e-12 && m->dropout == 0.1 && !m->scale_words && !m->causal);
        assert_true(m->norm == BLOCK_POST_NORM && m->positions == POSITIONS_LEARNED &&
                    m->num_objectives == 0);
        assert_int_equal(m->classifier, i == 0 ? HEAD_GELU : HEAD_TANH);
        assert_string_equal(m->plan.text, cases[i].attention);
        pretrained_config_free(&host, &config);
    }
}

static void numbers_are_read(void **state)
{
    (void)state;
    struct pretrained_config config = parsed(
        "{\"model_type\": \"roberta\", \"vocab_size\": 90, \"hidden_size\": 12, \"num_hidden_layers\": 3, "
        "\"num_attention_heads\": 4, \"intermediate_size\": 7, \"type_vocab_size\": 5, "
        "\"max_position_embeddings\": 20, \"pad_token_id\": 3, \"layer_norm_eps\": 1e-05, "
        "\"hidden_dropout_prob\": 0, \"hidden_act\": \"gelu\", \"position_embedding_type\": \"absolute\", "
        "\"is_decoder\": false, \"initializer_range\": 0.3, \"id2label\": {\"0\": \"x\"}}",
        NULL);
    const struct model_config *m = &config.model;
    assert_true(m->vocab_size == 90 && m->dim == 12 && m->layers == 3 && m->heads == 4 && m->ffn == 7);
    assert_true(m->num_segments == 5 && m->max_len == 16 && m->position_offset == 4);
    assert_true(m->norm_epsilon == 1e-5 && m->dropout == 0);
    pretrained_config_free(&host, &config);
}

#define YOSO "{\"model_type\": \"yoso\", \"hidden_size\": 64, \"num_attention_heads\": 2, "

static void hashes_of_yoso_are_honoured(void **state)
{
    (void)state;
    static const struct {
        const char *text, *attention, *plan;
        int64_t bits, hashes;
        int planes;
    } cases[] = {
        {YOSO "\"hash_code_len\": 7}", NULL, "yoso-e", 7, 0, 0},
        {YOSO "\"use_expectation\": false}", NULL, "yoso", 9, 64, 3},
        {YOSO "\"use_expectation\": false, \"hash_code_len\": 6, \"num_hash\": 16, \"use_fast_hash\": true}",
         NULL, "yoso", 6, 16, 3},
        {YOSO "\"use_expectation\": false, \"use_fast_hash\": false}", NULL, "yoso", 9, 64, 0},
        {YOSO "\"use_expectation\": true, \"hash_code_len\": 5, \"num_hash\": 8}", "yoso", "yoso", 5, 8, 3},
        {YOSO "\"use_expectation\": false, \"hash_code_len\": 4}", "yoso-e", "yoso-e", 4, 0, 0},
        {"{\"model_type\": \"yoso\", \"hidden_size\": 62, \"num_attention_heads\": 2, \"use_expectation\": "
         "false}",
         NULL, "yoso", 9, 64, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pretrained_config config = parsed(cases[i].text, cases[i].attention);
        const struct yoso_options *options = config.model.plan.used[0].options;
        assert_string_equal(config.model.plan.text, cases[i].plan);
        assert_int_equal(options->hash_bits, cases[i].bits);
        if (cases[i].hashes > 0)
            assert_true(options->num_hashes == cases[i].hashes && options->planes == cases[i].planes);
        pretrained_config_free(&host, &config);
    }
    struct pretrained_config config = parsed(YOSO "\"conv_window\": 33}", NULL);
    assert_int_equal(config.model.conv_window, 33);
    pretrained_config_free(&host, &config);
}

static void attention_may_be_another(void **state)
{
    (void)state;
    static const char *const plans[] = {"lha", "lsh", "yoso", "softmax", "local*1,lha*1"};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        struct pretrained_config config =
            parsed("{\"model_type\": \"bert\", \"hidden_size\": 64, \"num_attention_heads\": 2}", plans[i]);
        assert_string_equal(config.model.plan.text, plans[i]);
        pretrained_config_free(&host, &config);
    }
    refused("{\"model_type\": \"bert\"}", "nothing", HASHATTN_INVALID, "nothing");
    refused("{\"model_type\": \"bert\"}", "lha*5", HASHATTN_INVALID, "does not fit 12 heads");
}

static void activations_are_those_of_the_file(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int activation, classifier;
    } cases[] = {
        {"{\"model_type\": \"bert\", \"hidden_act\": \"gelu_python\"}", FFN_GELU, HEAD_TANH},
        {"{\"model_type\": \"bert\", \"hidden_act\": \"relu\"}", FFN_RELU, HEAD_TANH},
        {"{\"model_type\": \"bert\", \"activation\": \"relu\"}", FFN_GELU, HEAD_TANH},
        {"{\"model_type\": \"distilbert\", \"activation\": \"relu\"}", FFN_RELU, HEAD_TANH},
        {"{\"model_type\": \"yoso\"}", FFN_GELU, HEAD_GELU},
        {"{\"model_type\": \"electra\", \"embedding_size\": 256, \"hidden_act\": \"relu\"}", FFN_RELU,
         HEAD_GELU},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pretrained_config config = parsed(cases[i].text, NULL);
        assert_int_equal(config.model.activation, cases[i].activation);
        assert_int_equal(config.model.classifier, cases[i].classifier);
        pretrained_config_free(&host, &config);
    }
}

static void what_is_not_computed_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"[]", "an object is needed"},
        {"{}", "'model_type' is missing"},
        {"{\"model_type\": 5}", "'model_type'"},
        {"{\"model_type\": \"t5\"}", "model_type is 't5'; models of type yoso, bert, roberta, xlm-roberta, "
                                     "camembert, electra and distilbert are read"},
        {"{\"model_type\": \"mpnet\"}",
         "model_type is 'mpnet': its attention adds biases for relative positions; models of type"},
        {"{\"model_type\": \"modernbert\"}", "model_type is 'modernbert': it rotates queries and keys"},
        {"{\"model_type\": \"electra\"}", "embedding_size is 128 and hidden_size 256, which must be equal"},
        {"{\"model_type\": \"distilbert\", \"activation\": \"silu\"}",
         "activation is 'silu', gelu (gelu_python) and relu are computed"},
        {"{\"model_type\": \"distilbert\", \"dim\": 10, \"n_heads\": 4}",
         "dim is 10, which is not a multiple of n_heads, 4"},
        {"{\"model_type\": \"camembert\", \"max_position_embeddings\": 2}",
         "max_position_embeddings is 2, of which the first 2 are never used"},
        {"{\"model_type\": \"bert\", \"hidden_act\": \"gelu_new\"}",
         "hidden_act is 'gelu_new', gelu (gelu_python) and relu are computed"},
        {"{\"model_type\": \"yoso\", \"hidden_act\": \"relu\"}",
         "hidden_act is 'relu', gelu (gelu_python) is computed"},
        {"{\"model_type\": \"bert\", \"hidden_act\": 3}", "'hidden_act'"},
        {"{\"model_type\": \"bert\", \"position_embedding_type\": \"relative_key\"}",
         "position_embedding_type is 'relative_key', only 'absolute' is computed"},
        {"{\"model_type\": \"bert\", \"is_decoder\": true}",
         "is_decoder is true: a decoder, and encoders are read"},
        {"{\"model_type\": \"bert\", \"add_cross_attention\": true}", "add_cross_attention is true"},
        {"{\"model_type\": \"bert\", \"quantization_config\": {}}", "the weights are quantized"},
        {"{\"model_type\": \"bert\", \"hidden_size\": 10, \"num_attention_heads\": 4}",
         "hidden_size is 10, which is not a multiple of num_attention_heads, 4"},
        {"{\"model_type\": \"bert\", \"hidden_size\": 0}", "'hidden_size' is 0"},
        {"{\"model_type\": \"bert\", \"hidden_size\": 1e3}", "'hidden_size' is a real number"},
        {"{\"model_type\": \"bert\", \"num_hidden_layers\": 1000000}", "'num_hidden_layers' is 1000000"},
        {"{\"model_type\": \"bert\", \"vocab_size\": 2000000}", "'vocab_size' is 2000000"},
        {"{\"model_type\": \"bert\", \"type_vocab_size\": 0}", "'type_vocab_size' is 0"},
        {"{\"model_type\": \"bert\", \"embedding_size\": 128}",
         "embedding_size is 128 and hidden_size 768, which must be equal"},
        {"{\"model_type\": \"bert\", \"layer_norm_eps\": 1e-30}",
         "'layer_norm_eps' is 1e-30, allowed are 1e-12 to 0.1"},
        {"{\"model_type\": \"bert\", \"layer_norm_eps\": \"x\"}", "'layer_norm_eps' is a string"},
        {"{\"model_type\": \"bert\", \"hidden_dropout_prob\": 1}",
         "'hidden_dropout_prob' is 1, allowed are 0 to 0.9"},
        {"{\"model_type\": \"roberta\", \"max_position_embeddings\": 2}",
         "max_position_embeddings is 2, of which the first 2 are never used"},
        {"{\"model_type\": \"bert\", \"max_position_embeddings\": -1}", "'max_position_embeddings' is -1"},
        {YOSO "\"conv_window\": 4}", "conv_window is 4, odd numbers are allowed"},
        {YOSO "\"hash_code_len\": 25}", "'hash_code_len' is 25"},
        {YOSO "\"use_expectation\": false, \"num_hash\": 0}", "'num_hash' is 0"},
        {YOSO "\"use_expectation\": 1}", "'use_expectation'"},
        {"{\"model_type\": \"bert\"", "byte"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(cases[i].text, NULL, HASHATTN_BAD_FILE, cases[i].part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_classes),
        cmocka_unit_test(numbers_are_read),
        cmocka_unit_test(hashes_of_yoso_are_honoured),
        cmocka_unit_test(attention_may_be_another),
        cmocka_unit_test(activations_are_those_of_the_file),
        cmocka_unit_test(what_is_not_computed_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
