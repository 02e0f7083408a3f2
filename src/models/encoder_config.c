/* What an encoder may be, and the description of its parameters. Names follow the Hugging Face way; a weight
   of a dense layer is (out, in). SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "models/encoder_parts.h"

#define FIELD(name) offsetof(struct encoder_config, name)
const struct option_row encoder_options[] = {
    {"layers", OPTION_INT, FIELD(layers), 2, 1, 256, NULL, "number of blocks"},
    {"dim", OPTION_INT, FIELD(dim), 64, 1, 16384, NULL, "width of a token's row, a multiple of heads"},
    {"heads", OPTION_INT, FIELD(heads), 2, 1, 256, NULL, "attention heads of a block"},
    {"ffn", OPTION_INT, FIELD(ffn), 128, 1, 65536, NULL, "width of the feed-forward part"},
    {"conv_window", OPTION_INT, FIELD(conv_window), 0, 0, 1023, NULL,
     "taps of the convolution of the values that is added to attention, odd, or 0 for none"},
    {"pooling", OPTION_CHOICE, FIELD(pooling), POOL_MEAN, 0, 0, pooling_names,
     "what the classifier sees: the mean of the tokens, their sum over the longest length, or the first"},
    {"norm", OPTION_CHOICE, FIELD(norm), BLOCK_PRE_NORM, 0, 0, block_norms,
     "normalise rows before each part of a block, or after it as in BERT"},
    {"positions", OPTION_CHOICE, FIELD(positions), POSITIONS_LEARNED, 0, 0, position_names,
     "what is added to a token for its place: learned rows, sinusoids, or nothing"},
    {"dropout", OPTION_REAL, FIELD(dropout), 0.1, 0, 0.9, NULL, "share of activations dropped in training"},
    {"precision", OPTION_CHOICE, FIELD(precision), PRECISION_FLOAT32, 0, 0, precision_names,
     "of the operands of products; parameters and sums are float32 in both"},
    {0},
};

static hashattn_status check_range(struct host *host, const char *name, int64_t value, int64_t minimum,
                                   int64_t maximum)
{
    FAIL_IF(value < minimum || value > maximum, host, HASHATTN_INVALID,
            "model: %s is %lld, allowed are %lld to %lld", name, (long long)value, (long long)minimum,
            (long long)maximum);
    return HASHATTN_OK;
}

/* Every number of a config, wherever it comes from, against its row. */
static hashattn_status check_options(struct host *host, const struct encoder_config *config)
{
    for (const struct option_row *row = encoder_options; row->name != NULL; row++) {
        const void *field = (const char *)config + row->offset;
        if (row->type == OPTION_INT)
            TRY(check_range(host, row->name, *(const int64_t *)field, (int64_t)row->minimum,
                            (int64_t)row->maximum));
        if (row->type == OPTION_CHOICE) {
            int count = 0;
            while (row->choices[count] != NULL)
                count++;
            TRY(check_range(host, row->name, *(const int *)field, 0, count - 1));
        }
        if (row->type == OPTION_REAL)
            FAIL_IF(!(*(const double *)field >= row->minimum && *(const double *)field <= row->maximum), host,
                    HASHATTN_INVALID, "model: %s is %g, allowed are %g to %g", row->name,
                    *(const double *)field, row->minimum, row->maximum);
    }
    return HASHATTN_OK;
}

static hashattn_status check_config(struct host *host, const struct encoder_config *config)
{
    TRY(check_range(host, "vocab_size", config->vocab_size, 2, 65536));
    if (!config->next_token)
        TRY(check_range(host, "num_classes", config->num_classes, 1, 1 << 20));
    FAIL_IF(config->next_token && config->pairs, host, HASHATTN_INVALID,
            "model: an example is two sequences, and the next token is of one");
    TRY(check_range(host, "max_len", config->max_len, 1, (int64_t)1 << 31));
    TRY(check_options(host, config));
    FAIL_IF(config->dim % config->heads != 0, host, HASHATTN_INVALID,
            "model: dim is %lld, which is not a multiple of heads, %lld", (long long)config->dim,
            (long long)config->heads);
    FAIL_IF(config->conv_window != 0 && config->conv_window % 2 == 0, host, HASHATTN_INVALID,
            "model: conv_window is %lld, allowed are 0 and odd numbers to 1023",
            (long long)config->conv_window);
    FAIL_IF(config->conv_window != 0 && config->next_token, host, HASHATTN_INVALID,
            "model: conv_window is %lld, and half of its taps would see the tokens that are to be predicted",
            (long long)config->conv_window);
    size_t head_dim = (size_t)(config->dim / config->heads), max_len = (size_t)config->max_len;
    struct problem_shape shape = {
        .num_queries = max_len,
        .num_keys = max_len,
        .head_dim = head_dim,
        .value_dim = head_dim,
        .causal = config->next_token,
        .workers = 1,
    };
    for (size_t i = 0; i < config->plan.num_used; i++) {
        const struct mechanism *mechanism = config->plan.used[i].mechanism;
        const char *why = mechanism->refuse(config->plan.used[i].options, &shape);
        FAIL_IF(why != NULL, host, HASHATTN_REFUSED, "%s cannot do max_len %zu with heads of %zu: %s",
                mechanism->name, max_len, head_dim, why);
    }
    return head_plan_check(host, &config->plan, (size_t)config->layers, (size_t)config->heads);
}

static hashattn_status describe(struct host *host, struct encoder *encoder)
{
    const struct encoder_config *config = &encoder->config;
    struct params *params = &encoder->params;
    size_t dim = encoder->dim;
    params->precision = (enum precision)config->precision;
    struct head_group groups[HEAD_GROUPS];
    struct block_shape shape = {
        .dim = dim,
        .heads = (size_t)config->heads,
        .wide = encoder->wide,
        .taps = (size_t)config->conv_window,
        .norm = (enum block_norm)config->norm,
        .groups = groups,
        .causal = config->next_token,
    };
    bool post = config->norm == BLOCK_POST_NORM;
    TRY(embed_describe(host, params, (size_t)config->vocab_size, (size_t)config->max_len, dim,
                       (enum positions)config->positions, config->next_token, &encoder->embed));
    if (post)
        TRY(norm_describe(host, params, "embeddings.LayerNorm", dim, &encoder->norm));
    for (size_t i = 0; i < encoder->layers; i++) {
        char name[PARAM_NAME];
        snprintf(name, sizeof name, "encoder.layer.%zu", i);
        shape.num_groups = head_plan_groups(&config->plan, i, shape.heads, groups);
        TRY(block_describe(host, params, name, &shape, &encoder->blocks[i]));
    }
    if (!post)
        TRY(norm_describe(host, params, "layernorm", dim, &encoder->norm));
    encoder->trunk_end = params->total;
    if (config->next_token)
        return next_token_describe(host, params, &encoder->embed, &encoder->next);
    encoder->classifier = (struct classifier){.pooling = (enum pooling)config->pooling,
                                              .pairs = config->pairs,
                                              .dim = dim,
                                              .max_len = (size_t)config->max_len};
    return classifier_describe(host, params, (size_t)config->num_classes, &encoder->classifier);
}

hashattn_status encoder_new(struct host *host, const struct encoder_config *config, struct encoder **out)
{
    *out = NULL;
    TRY(check_config(host, config));
    void *block;
    TRY(memory_new_zeroed(host, 1, sizeof(struct encoder), "encoder", &block));
    struct encoder *encoder = block;
    encoder->config = *config;
    encoder->layers = (size_t)config->layers;
    encoder->dim = (size_t)config->dim;
    encoder->wide = (size_t)config->ffn;
    hashattn_status status =
        memory_new_zeroed(host, encoder->layers, sizeof *encoder->blocks, "encoder blocks", &block);
    encoder->blocks = block;
    if (status == HASHATTN_OK)
        status = describe(host, encoder);
    if (status != HASHATTN_OK) {
        encoder_free(host, encoder);
        return status;
    }
    *out = encoder;
    return HASHATTN_OK;
}

void encoder_free(struct host *host, struct encoder *encoder)
{
    if (encoder == NULL)
        return;
    embed_free(host, &encoder->embed);
    params_free(host, &encoder->params);
    memory_free(host, encoder->blocks);
    memory_free(host, encoder);
}

const struct encoder_config *encoder_config_of(const struct encoder *encoder)
{
    return &encoder->config;
}

const struct params *encoder_params(const struct encoder *encoder)
{
    return &encoder->params;
}

struct stage encoder_stage(const struct encoder *encoder, size_t stage)
{
    const struct block *blocks = encoder->blocks;
    assert(stage <= encoder->layers);
    /* A norm is two rows that stand together; that of the embedding is right before the first block. */
    size_t start = encoder_is_post_norm(encoder) ? encoder->norm.gain : blocks[0].first;
    size_t first = stage == 0 ? start : blocks[stage - 1].leave;
    /* After the last block comes the last norm, where there is one, and then what is behind the trunk. */
    size_t end = stage == encoder->layers ? encoder->trunk_end : blocks[stage].mix;
    return (struct stage){first, end - first};
}
