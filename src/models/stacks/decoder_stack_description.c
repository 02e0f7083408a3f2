/* What a decoder consists of: its parameters, by name and shape.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/memory.h"
#include "models/stacks/decoder_stack.h"

/* One attention up to its mechanism; `mix` receives where the parameters of the mechanism begin. */
static hashattn_status describe_attention(struct host *host, struct params *params,
                                          const struct model_config *config, const char *name, size_t list,
                                          struct self_attention *attention, size_t *mix)
{
    struct head_group groups[HEAD_GROUPS];
    size_t heads = (size_t)config->heads, count = head_plan_groups(&config->plan, list, heads, groups);
    TRY(self_attention_describe_enter(host, params, name, (size_t)config->dim, heads,
                                      !config->attention_biases, attention));
    *mix = params->total;
    return self_attention_describe_mix(host, params, name, 0, groups, count, (size_t)config->max_len,
                                       attention);
}

static hashattn_status describe_norm(struct host *host, struct params *params,
                                     const struct model_config *config, const char *name, const char *part,
                                     struct norm *norm)
{
    char text[2 * PARAM_NAME];
    snprintf(text, sizeof text, "%s.%s", name, part);
    return norm_describe(host, params, text, (size_t)config->dim, config->norm_epsilon, norm);
}

static hashattn_status describe_block(struct host *host, struct params *params,
                                      const struct model_config *config, size_t layer,
                                      struct decoder_block *block)
{
    char name[64], own[PARAM_NAME], cross[PARAM_NAME];
    size_t list = (size_t)config->layers + 2 * layer;
    snprintf(name, sizeof name, "decoder.layer.%zu", layer);
    snprintf(own, sizeof own, "decoder.layer.%zu.attention", layer);
    snprintf(cross, sizeof cross, "decoder.layer.%zu.crossattention", layer);
    block->list = list;
    block->enter = params->total;
    TRY(describe_attention(host, params, config, own, list, &block->own, &block->own_mix));
    block->own.causal = true;
    block->meet = params->total;
    TRY(self_attention_describe_leave(host, params, own, &block->own));
    TRY(describe_norm(host, params, config, own, "output.LayerNorm", &block->own_norm));
    TRY(describe_attention(host, params, config, cross, list + 1, &block->cross, &block->cross_mix));
    block->keys = block->cross.key.weight; /* the queries before it belong to `meet` */
    block->leave = params->total;
    TRY(self_attention_describe_leave(host, params, cross, &block->cross));
    TRY(describe_norm(host, params, config, cross, "output.LayerNorm", &block->cross_norm));
    TRY(ffn_describe(host, params, name, (size_t)config->dim, (size_t)config->ffn,
                     (enum ffn_activation)config->activation, &block->ffn));
    TRY(describe_norm(host, params, config, name, "output.LayerNorm", &block->ffn_norm));
    block->end = params->total;
    return HASHATTN_OK;
}

hashattn_status decoder_describe(struct host *host, struct params *params, const struct model_config *config,
                                 const struct trunk *trunk, struct decoder *decoder)
{
    const struct embed_shape shape = {.prefix = "decoder.",
                                      .max_len = (size_t)config->max_len,
                                      .dim = (size_t)config->dim,
                                      .positions = (enum positions)config->positions,
                                      .position_offset = (size_t)config->position_offset};
    void *blocks;
    *decoder = (struct decoder){
        .layers = (size_t)config->decoder_layers, .first_layer = (size_t)config->layers, .trunk = trunk};
    decoder->first = params->total;
    TRY(memory_new_zeroed(host, decoder->layers, sizeof *decoder->blocks, "blocks of the decoder", &blocks));
    decoder->blocks = blocks;
    TRY(input_describe(host, params, INPUT_FLOATS, &shape, (size_t)config->row_width, &decoder->input));
    for (size_t i = 0; i < decoder->layers; i++)
        TRY(describe_block(host, params, config, i, &decoder->blocks[i]));
    TRY(norm_describe(host, params, "decoder.layernorm", (size_t)config->dim, config->norm_epsilon,
                      &decoder->norm));
    decoder->end = params->total;
    return HASHATTN_OK;
}

void decoder_free(struct host *host, struct decoder *decoder)
{
    input_free(host, &decoder->input);
    memory_free(host, decoder->blocks);
    decoder->blocks = NULL;
}

hashattn_status decoder_fit(struct host *host, struct decoder *decoder, size_t rows)
{
    return input_fit(host, &decoder->input, rows);
}

size_t decoder_own_heads(const struct decoder *decoder, const struct mechanism *mechanism)
{
    size_t heads = 0;
    for (size_t i = 0; i < decoder->layers; i++)
        heads += self_attention_auxiliary_heads(&decoder->blocks[i].own, mechanism) +
                 self_attention_auxiliary_heads(&decoder->blocks[i].cross, mechanism);
    return heads;
}
