/* What a trunk consists of: its parameters, by name and shape.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/memory.h"
#include "models/stacks/trunk.h"

static hashattn_status describe_blocks(struct host *host, struct params *params,
                                       const struct model_config *config, struct trunk *trunk)
{
    struct head_group groups[HEAD_GROUPS], cross_groups[HEAD_GROUPS];
    struct block_shape shape = {
        .dim = trunk->dim,
        .heads = (size_t)config->heads,
        .wide = trunk->wide,
        .taps = trunk->taps,
        .norm = (enum block_norm)config->norm,
        .norm_epsilon = config->norm_epsilon,
        .groups = groups,
        .cross_groups = cross_groups,
        .causal = config->causal != 0 || trunk->crosses,
        .max_len = (size_t)config->max_len,
        .activation = (enum ffn_activation)config->activation,
        .plain_attention = !config->attention_biases,
        .layered = config->positions == POSITIONS_LAYERED && trunk->input.kind != INPUT_GIVEN,
    };
    for (size_t i = 0; i < trunk->layers; i++) {
        char name[PARAM_NAME];
        size_t list = trunk->first_layer + i;
        snprintf(name, sizeof name, "encoder.layer.%zu", list);
        if (trunk->crosses) {
            list += i;
            snprintf(name, sizeof name, "decoder.layer.%zu", i);
            shape.num_cross_groups = head_plan_groups(&config->plan, list + 1, shape.heads, cross_groups);
        }
        shape.num_groups = head_plan_groups(&config->plan, list, shape.heads, groups);
        TRY(block_describe(host, params, name, &shape, &trunk->blocks[i]));
    }
    return HASHATTN_OK;
}

/* Fills everything that does not depend on the input; the blocks are described later. */
static hashattn_status begin(struct host *host, const struct model_config *config, size_t layers,
                             struct trunk *trunk)
{
    void *block;
    *trunk = (struct trunk){.post = config->norm == BLOCK_POST_NORM,
                            .layers = layers,
                            .dim = (size_t)config->dim,
                            .wide = (size_t)config->ffn,
                            .taps = (size_t)config->conv_window,
                            .num_lists = size_min(config->plan.num_lists, layers),
                            .dropout = dropout_of(config->dropout),
                            .attention_dropout = dropout_of(config->attention_dropout)};
    TRY(memory_new_zeroed(host, layers, sizeof *trunk->blocks, "blocks of the trunk", &block));
    trunk->blocks = block;
    return HASHATTN_OK;
}

static hashattn_status describe_input(struct host *host, struct params *params,
                                      const struct model_config *config, bool tied, struct trunk *trunk)
{
    const struct embed_shape shape = {.vocab_size = (size_t)config->vocab_size,
                                      .segments = (size_t)config->num_segments,
                                      .max_len = (size_t)config->max_len,
                                      .dim = (size_t)config->dim,
                                      .positions = (enum positions)config->positions,
                                      .position_offset = (size_t)config->position_offset,
                                      .tied = tied && config->scale_words,
                                      .cutoffs = config->cutoffs,
                                      .div_value = (size_t)config->div_value};
    enum input_kind kind = config->vocab_size > 0 ? INPUT_IDS : INPUT_FLOATS;
    return input_describe(host, params, kind, &shape, (size_t)config->row_width, &trunk->input);
}

static hashattn_status describe_norm(struct host *host, struct params *params,
                                     const struct model_config *config, const char *name, struct trunk *trunk)
{
    return norm_describe(host, params, name, trunk->dim, config->norm_epsilon, &trunk->norm);
}

hashattn_status trunk_describe(struct host *host, struct params *params, const struct model_config *config,
                               bool tied, struct trunk *trunk)
{
    TRY(begin(host, config, (size_t)config->layers, trunk));
    trunk->normed = true;
    trunk->norm_last = !trunk->post || config->decoder_rows > 0;
    TRY(describe_input(host, params, config, tied, trunk));
    if (!trunk->norm_last)
        TRY(describe_norm(host, params, config, "embeddings.LayerNorm", trunk));
    TRY(describe_blocks(host, params, config, trunk));
    if (trunk->norm_last)
        TRY(describe_norm(host, params, config, "layernorm", trunk));
    trunk->end = params->total;
    return HASHATTN_OK;
}

hashattn_status trunk_describe_part(struct host *host, struct params *params,
                                    const struct model_config *config, size_t layer, struct trunk *trunk)
{
    TRY(begin(host, config, 1, trunk));
    trunk->first_layer = layer;
    trunk->norm_last = true;
    trunk->normed = layer + 1 == (size_t)config->layers;
    if (layer == 0)
        TRY(describe_input(host, params, config, false, trunk));
    else
        TRY(input_describe(host, params, INPUT_GIVEN, NULL, 0, &trunk->input));
    TRY(describe_blocks(host, params, config, trunk));
    if (trunk->normed)
        TRY(describe_norm(host, params, config, "layernorm", trunk));
    trunk->end = params->total;
    return HASHATTN_OK;
}

hashattn_status trunk_describe_layer(struct host *host, struct params *params,
                                     const struct model_config *config, struct trunk *trunk)
{
    TRY(begin(host, config, 1, trunk));
    TRY(input_describe(host, params, INPUT_GIVEN, NULL, 0, &trunk->input));
    TRY(describe_blocks(host, params, config, trunk));
    trunk->end = params->total;
    return HASHATTN_OK;
}

hashattn_status trunk_describe_decoder(struct host *host, struct params *params,
                                       const struct model_config *config, struct trunk *trunk)
{
    const struct embed_shape shape = {.prefix = "decoder.",
                                      .max_len = (size_t)config->max_len,
                                      .dim = (size_t)config->dim,
                                      .positions = (enum positions)config->positions,
                                      .position_offset = (size_t)config->position_offset};
    TRY(begin(host, config, (size_t)config->decoder_layers, trunk));
    trunk->crosses = trunk->normed = trunk->norm_last = true;
    trunk->taps = 0;
    trunk->first_layer = (size_t)config->layers;
    trunk->num_lists = 2 * trunk->layers;
    TRY(input_describe(host, params, INPUT_FLOATS, &shape, (size_t)config->row_width, &trunk->input));
    TRY(describe_blocks(host, params, config, trunk));
    TRY(describe_norm(host, params, config, "decoder.layernorm", trunk));
    trunk->end = params->total;
    return HASHATTN_OK;
}

void trunk_free(struct host *host, struct trunk *trunk)
{
    input_free(host, &trunk->input);
    memory_free(host, trunk->blocks);
    trunk->blocks = NULL;
}

double trunk_operations(const struct trunk *trunk)
{
    double dim = (double)trunk->dim, wide = (double)trunk->wide;
    return (double)trunk->layers * 2 * dim * (4 * dim + 2 * wide);
}

size_t trunk_own_heads(const struct trunk *trunk, const struct mechanism *mechanism)
{
    size_t heads = 0;
    for (size_t i = 0; i < trunk->layers; i++)
        heads += attention_layer_auxiliary_heads(&trunk->blocks[i].attention, mechanism) +
                 attention_layer_auxiliary_heads(&trunk->blocks[i].cross.attention, mechanism);
    return heads;
}
