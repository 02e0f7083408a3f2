/* The options of a model, and their checks.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/model_config.h"

#include "nn/block.h"
#include "nn/outputs/head.h"

static const char *const no_cutoffs[] = {"", NULL};

#define FIELD(name) offsetof(struct model_config, name)
const struct option_row model_options[] = {
    OPTION_ROW("layers", OPTION_INT, FIELD(layers), 2, 1, 256, NULL, "number of encoder blocks",
               .architecture = true),
    OPTION_ROW("decoder_layers", OPTION_INT, FIELD(decoder_layers), 1, 1, 64, NULL,
               "number of decoder blocks, of a model that has a decoder (forecast --model informer)",
               .architecture = true),
    OPTION_ROW("distil", OPTION_FLAG, FIELD(distil), 0, 0, 1, NULL,
               "halve the rows between encoder blocks by a convolution and a maximum, as Informer does "
               "(forecast --model informer)",
               .architecture = true),
    OPTION_ROW("dim", OPTION_INT, FIELD(dim), 64, 1, 16384, NULL,
               "width of a token's row, a multiple of heads", .architecture = true),
    OPTION_ROW("heads", OPTION_INT, FIELD(heads), 2, 1, 256, NULL, "attention heads per block",
               .architecture = true),
    OPTION_ROW("ffn", OPTION_INT, FIELD(ffn), 128, 1, 65536, NULL, "width of the feed-forward layer",
               .architecture = true),
    OPTION_ROW("activation", OPTION_CHOICE, FIELD(activation), FFN_GELU, 0, 0, ffn_activations,
               "activation of the feed-forward layer", .architecture = true),
    OPTION_ROW("attention_biases", OPTION_FLAG, FIELD(attention_biases), 1, 0, 1, NULL,
               "the layers that make queries, keys, values and the output of attention have biases; not so "
               "in LHA's code",
               .architecture = true),
    OPTION_ROW("conv_window", OPTION_INT, FIELD(conv_window), 0, 0, 1023, NULL,
               "width of the convolution over values that is added to the attention output (YOSO-C), odd; 0 "
               "for none",
               .architecture = true),
    OPTION_ROW("pooling", OPTION_CHOICE, FIELD(pooling), POOL_MEAN, 0, 0, pooling_names,
               "input of the classifier: mean of the tokens, mean-padded (sum divided by the longest "
               "length), or first token"),
    OPTION_ROW("classifier", OPTION_CHOICE, FIELD(classifier), HEAD_RELU, 0, 0, head_names,
               "hidden layer of the classifier: relu of twice the width, tanh (BERT's pooler, RoBERTa) or "
               "gelu (YOSO) of the width",
               .architecture = true),
    OPTION_ROW("norm", OPTION_CHOICE, FIELD(norm), BLOCK_PRE_NORM, 0, 0, block_norms,
               "layer norm before the attention and feed-forward layers of a block (pre), or after them as "
               "in BERT (post)",
               .architecture = true),
    OPTION_ROW("norm_epsilon", OPTION_REAL, FIELD(norm_epsilon), NORM_EPSILON, 1e-12, 0.1, NULL,
               "number added to the variance in layer norms", .architecture = true),
    OPTION_ROW("positions", OPTION_CHOICE, FIELD(positions), POSITIONS_LEARNED, 0, 0, position_names,
               "position embeddings; sinusoidal alternates sines and cosines, sinusoidal-halves has all "
               "sines first, as in Transformer-XL; layered projects them to queries and keys in every layer, "
               "as LHA, except of relative heads",
               .architecture = true),
    OPTION_ROW("position_offset", OPTION_INT, FIELD(position_offset), 0, 0, 1024, NULL,
               "unused rows before the first learned position: 2 in checkpoints of RoBERTa and YOSO",
               .architecture = true),
    OPTION_ROW(
        "scale_words", OPTION_FLAG, FIELD(scale_words), 1, 0, 1, NULL,
        "multiply word embeddings that are also the output by sqrt(dim); not so in checkpoints of BERT",
        .architecture = true),
    OPTION_ROW("cutoffs", OPTION_TEXT, FIELD(cutoffs), 0, 0, OPTION_TEXT_SIZE - 1, no_cutoffs,
               "adaptive softmax: the ids at which tails of rare words begin, such as 20000,60000, with "
               "narrower embeddings; ids must rise as words become rare (empty: none)",
               .architecture = true),
    OPTION_ROW("div_value", OPTION_INT, FIELD(div_value), 4, 1, 64, NULL,
               "with cutoffs: each tail has embeddings this many times narrower than the words before it",
               .architecture = true),
    OPTION_ROW("causal", OPTION_FLAG, FIELD(causal), 0, 0, 1, NULL,
               "each token sees only itself and earlier tokens; required for predicting the next token"),
    OPTION_ROW("dropout", OPTION_REAL, FIELD(dropout), 0.1, 0, 0.9, NULL,
               "probability of dropping an activation in training"),
    OPTION_ROW(
        "attention_dropout", OPTION_REAL, FIELD(attention_dropout), 0, 0, 0.9, NULL,
        "probability of dropping an attention weight in training, for mechanisms that have weights of pairs"),
    OPTION_ROW("initial_std", OPTION_REAL, FIELD(initial_std), 0, 0, 1, NULL,
               "standard deviation of the initial weights of dense layers, whose biases then start at 0 "
               "(BERT: 0.02); 0: weights and biases are uniform within 1/sqrt(inputs)"),
    OPTION_ROW("precision", OPTION_CHOICE, FIELD(precision), PRECISION_FLOAT32, 0, 0, precision_names,
               "format of the operands of matrix products; parameters and sums are float32 in both"),
    {0},
};

const struct model_size model_sizes[] = {
    {"tiny", 2, 128, 2}, {"mini", 4, 256, 4}, {"small", 4, 512, 8}, {"base", 12, 768, 12}, {.name = NULL}};

static hashattn_status check_range(struct host *host, const char *name, int64_t value, int64_t minimum,
                                   int64_t maximum)
{
    FAIL_IF(value < minimum || value > maximum, host, HASHATTN_INVALID,
            "model: %s is %lld, allowed are %lld to %lld", name, (long long)value, (long long)minimum,
            (long long)maximum);
    return HASHATTN_OK;
}

/* Checks every number of a config against its row, because a config may come from a file. */
static hashattn_status check_options(struct host *host, const struct model_config *config)
{
    for (const struct option_row *row = model_options; row->name != NULL; row++) {
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

static hashattn_status check_input(struct host *host, const struct model_config *config)
{
    FAIL_IF((config->vocab_size > 0) == (config->row_width > 0), host, HASHATTN_INVALID,
            "model: vocab_size is %lld and row_width %lld; sequences are ids or rows of floats, so one of "
            "them is 0",
            (long long)config->vocab_size, (long long)config->row_width);
    if (config->vocab_size > 0)
        TRY(check_range(host, "vocab_size", config->vocab_size, 2, MODEL_MOST_VOCAB));
    else
        TRY(check_range(host, "row_width", config->row_width, 1, 65536));
    TRY(check_range(host, "num_segments", config->num_segments, 0, 256));
    return check_range(host, "max_len", config->max_len, 1, (int64_t)1 << 31);
}

/* Checks ranges only: what an objective refuses is known after the input has been described. */
static hashattn_status check_objectives(struct host *host, const struct model_config *config)
{
    TRY(check_range(host, "the number of objectives", (int64_t)config->num_objectives, 0, MODEL_OBJECTIVES));
    for (size_t i = 0; i < config->num_objectives; i++) {
        const struct model_objective *entry = &config->objectives[i];
        for (size_t k = 0; k < i; k++)
            FAIL_IF(config->objectives[k].objective == entry->objective, host, HASHATTN_INVALID,
                    "model: objective %s is listed twice", entry->objective->name);
        FAIL_IF(!(entry->weight > 0 && entry->weight <= 1e6), host, HASHATTN_INVALID,
                "model: objective %s has weight %g, allowed are numbers above 0 up to 1e6",
                entry->objective->name, entry->weight);
        FAIL_IF(entry->num_outputs < 0 || entry->num_outputs > 1 << 20 || entry->first_output < 0, host,
                HASHATTN_INVALID, "model: objective %s has %lld outputs from %lld on, allowed are 0 to %d",
                entry->objective->name, (long long)entry->num_outputs, (long long)entry->first_output,
                1 << 20);
    }
    return HASHATTN_OK;
}

/* Fails if a mechanism of the plan refuses the model's shape. place: "" or where the mechanism is. */
static hashattn_status check_mechanism(struct host *host, const struct model_config *config,
                                       const struct mechanism *mechanism, const void *options,
                                       const struct problem_shape *shape, const char *place)
{
    const char *why = mechanism_refuses(mechanism, options, shape);
    char sentence[300] = "";
    if (why != NULL)
        options_fill(mechanism->options, options, why, sentence, sizeof sentence);
    FAIL_IF(config->attention_dropout > 0 && !mechanism->drops_weights, host, HASHATTN_REFUSED,
            "%s has no attention weights to drop one by one: `attention_dropout` is %g, it must be 0",
            mechanism->name, config->attention_dropout);
    FAIL_IF(why != NULL, host, HASHATTN_REFUSED, "%s cannot do sequences of %zu rows with heads of %zu%s: %s",
            mechanism->name, shape->max_len, shape->head_dim, place, sentence);
    return HASHATTN_OK;
}

/* Lists of the encoder, then of self-attention and cross attention of each block of the decoder. */
static hashattn_status check_stacks(struct host *host, const struct model_config *config,
                                    const struct problem_shape *of_encoder)
{
    size_t layers = (size_t)config->layers, lists = layers + 2 * (size_t)config->decoder_layers;
    TRY(head_plan_check(host, &config->plan, lists, (size_t)config->heads));
    for (size_t list = 0; list < lists; list++) {
        struct head_group groups[HEAD_GROUPS];
        size_t count = head_plan_groups(&config->plan, list, (size_t)config->heads, groups);
        struct problem_shape shape = *of_encoder;
        bool own = list >= layers && (list - layers) % 2 == 0;
        shape.causal = own;
        if (list >= layers)
            shape.num_queries = (size_t)config->decoder_rows;
        if (own)
            shape.num_keys = shape.num_queries;
        for (size_t g = 0; g < count; g++)
            TRY(check_mechanism(host, config, groups[g].mechanism, groups[g].options, &shape,
                                list < layers ? " in the encoder"
                                : own         ? " in the decoder's self-attention, which is causal"
                                              : " in cross attention"));
    }
    return HASHATTN_OK;
}

bool model_config_is_bare(const struct model_config *config)
{
    return config->num_objectives > 0 && config->objectives[0].objective->bare;
}

static hashattn_status check_mechanisms(struct host *host, const struct model_config *config)
{
    if (model_config_is_bare(config))
        return HASHATTN_OK;
    size_t head_dim = (size_t)(config->dim / config->heads), max_len = (size_t)config->max_len;
    struct problem_shape shape = {
        .num_queries = max_len,
        .num_keys = max_len,
        .head_dim = head_dim,
        .value_dim = head_dim,
        .max_len = max_len,
        .causal = config->causal != 0,
        .workers = 1,
    };
    if (config->decoder_rows > 0)
        return check_stacks(host, config, &shape);
    for (size_t i = 0; i < config->plan.num_used; i++)
        TRY(check_mechanism(host, config, config->plan.used[i].mechanism, config->plan.used[i].options,
                            &shape, ""));
    return head_plan_check(host, &config->plan, (size_t)config->layers, (size_t)config->heads);
}

/* Checks that the rest of the model suits its decoder. */
static hashattn_status check_decoder(struct host *host, const struct model_config *config)
{
    TRY(check_range(host, "decoder_rows", config->decoder_rows, 0, config->max_len));
    TRY(check_range(host, "decoded_rows", config->decoded_rows, config->decoder_rows > 0 ? 1 : 0,
                    config->decoder_rows));
    FAIL_IF(config->distil && config->decoder_rows == 0, host, HASHATTN_INVALID,
            "model: `distil` is true; it halves the rows of an encoder that a decoder reads (forecast with "
            "`model` "
            "informer)");
    FAIL_IF(
        config->distil && (config->layers < 2 || config->layers > MODEL_HALVINGS + 1), host, HASHATTN_INVALID,
        "model: `distil` is true and `layers` is %lld; it halves rows between layers, so 2 to %d are allowed",
        (long long)config->layers, MODEL_HALVINGS + 1);
    if (config->decoder_rows == 0)
        return HASHATTN_OK;
    FAIL_IF(config->row_width == 0 || config->pairs || config->num_segments > 0, host, HASHATTN_INVALID,
            "model: a decoder reads rows of floats, without pairs and segments");
    FAIL_IF(config->norm != BLOCK_POST_NORM, host, HASHATTN_INVALID,
            "model: `norm` is %s, blocks of a decoder have post", block_norms[config->norm]);
    FAIL_IF(config->causal || config->conv_window > 0, host, HASHATTN_INVALID,
            "model: `causal` is %s and `conv_window` %lld; the encoder of a model with a decoder has neither",
            config->causal ? "true" : "false", (long long)config->conv_window);
    FAIL_IF(config->positions == POSITIONS_LAYERED, host, HASHATTN_INVALID,
            "model: `positions` is layered, a decoder has none in its layers");
    return HASHATTN_OK;
}

hashattn_status model_config_check(struct host *host, const struct model_config *config)
{
    TRY(check_input(host, config));
    TRY(check_objectives(host, config));
    TRY(check_options(host, config));
    TRY(check_decoder(host, config));
    FAIL_IF(config->dim % config->heads != 0, host, HASHATTN_INVALID,
            "model: `dim` is %lld, which is not a multiple of `heads`, %lld", (long long)config->dim,
            (long long)config->heads);
    FAIL_IF(config->conv_window != 0 && config->conv_window % 2 == 0, host, HASHATTN_INVALID,
            "model: `conv_window` is %lld, allowed are 0 and odd numbers to 1023",
            (long long)config->conv_window);
    FAIL_IF(
        config->conv_window != 0 && config->causal, host, HASHATTN_INVALID,
        "model: `conv_window` is %lld, and half of its taps would see the tokens after each, which `causal` "
        "hides",
        (long long)config->conv_window);
    return check_mechanisms(host, config);
}
