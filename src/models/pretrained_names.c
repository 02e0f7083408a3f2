/* One list of rules for all types, with the prefix of the trunk and the names of the heads filled in. Words,
   segments and positions keep their names behind the prefix, as all of a block but its query, key, value and
   convolution. Ignored are tensors that follow from others or belong to heads that are not read: position_ids
   of older files, the decoder (the table of words again), BERT's pooler and next-sentence output, ELECTRA's
   discriminator, classifiers.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/pretrained_names.h"

#define LAYER "encoder.layer.*."
#define SAME(prefix, name)                                                                                   \
    {                                                                                                        \
        name, prefix name                                                                                    \
    }
#define SAME_DENSE(prefix, name) SAME(prefix, name ".weight"), SAME(prefix, name ".bias")
#define DENSE(ours, theirs)                                                                                  \
    {ours ".weight", theirs ".weight"},                                                                      \
    {                                                                                                        \
        ours ".bias", theirs ".bias"                                                                         \
    }
#define SELF(prefix, name) DENSE(LAYER "attention." name, prefix LAYER "attention.self." name)

#define TRUNK(prefix)                                                                                        \
    SAME(prefix, "embeddings.word_embeddings.weight"),                                                       \
        SAME(prefix, "embeddings.position_embeddings.weight"),                                               \
        SAME(prefix, "embeddings.token_type_embeddings.weight"), SAME_DENSE(prefix, "embeddings.LayerNorm"), \
        SELF(prefix, "query"), SELF(prefix, "key"), SELF(prefix, "value"),                                   \
        {LAYER "attention.conv.weight", prefix LAYER "attention.self.conv.weight"},                          \
        SAME_DENSE(prefix, LAYER "attention.output.dense"),                                                  \
        SAME_DENSE(prefix, LAYER "attention.output.LayerNorm"),                                              \
        SAME_DENSE(prefix, LAYER "intermediate.dense"), SAME_DENSE(prefix, LAYER "output.dense"),            \
        SAME_DENSE(prefix, LAYER "output.LayerNorm")

#define BERT_OUTPUT                                                                                          \
    DENSE("lm_head.dense", "cls.predictions.transform.dense"),                                               \
        DENSE("lm_head.layer_norm", "cls.predictions.transform.LayerNorm"),                                  \
    {                                                                                                        \
        "lm_head.bias", "cls.predictions.bias"                                                               \
    }
#define POOLER(prefix)                                                                                       \
    DENSE("classifier.dense", prefix "pooler.dense"), DENSE("classifier.out_proj", "classifier")

#define ELECTRA_OUTPUT                                                                                       \
    DENSE("lm_head.dense", "generator_predictions.dense"),                                                   \
        DENSE("lm_head.layer_norm", "generator_predictions.LayerNorm"),                                      \
    {                                                                                                        \
        "lm_head.bias", "generator_lm_head.bias"                                                             \
    }
#define OF_DISTIL(prefix, ours, theirs) DENSE(LAYER ours, prefix "transformer.layer.*." theirs)
#define DISTIL(prefix)                                                                                       \
    SAME(prefix, "embeddings.word_embeddings.weight"),                                                       \
        SAME(prefix, "embeddings.position_embeddings.weight"), SAME_DENSE(prefix, "embeddings.LayerNorm"),   \
        OF_DISTIL(prefix, "attention.query", "attention.q_lin"),                                             \
        OF_DISTIL(prefix, "attention.key", "attention.k_lin"),                                               \
        OF_DISTIL(prefix, "attention.value", "attention.v_lin"),                                             \
        OF_DISTIL(prefix, "attention.output.dense", "attention.out_lin"),                                    \
        OF_DISTIL(prefix, "attention.output.LayerNorm", "sa_layer_norm"),                                    \
        OF_DISTIL(prefix, "intermediate.dense", "ffn.lin1"), OF_DISTIL(prefix, "output.dense", "ffn.lin2"),  \
        OF_DISTIL(prefix, "output.LayerNorm", "output_layer_norm"),                                          \
        DENSE("lm_head.dense", "vocab_transform"), DENSE("lm_head.layer_norm", "vocab_layer_norm"),          \
    {                                                                                                        \
        "lm_head.bias", "vocab_projector.bias"                                                               \
    }

#define RULES(name, ...) static const struct name_rule name[] = {__VA_ARGS__, {NULL, NULL}}
RULES(yoso_rules, TRUNK("yoso."), BERT_OUTPUT);
RULES(bare_yoso_rules, TRUNK(""), BERT_OUTPUT);
RULES(bert_rules, TRUNK("bert."), BERT_OUTPUT, POOLER("bert."));
RULES(bare_bert_rules, TRUNK(""), BERT_OUTPUT, POOLER(""));
RULES(roberta_rules, TRUNK("roberta."));
RULES(bare_roberta_rules, TRUNK(""));
RULES(electra_rules, TRUNK("electra."), ELECTRA_OUTPUT);
RULES(bare_electra_rules, TRUNK(""), ELECTRA_OUTPUT);
RULES(distil_rules, DISTIL("distilbert."));
RULES(bare_distil_rules, DISTIL(""));

const struct name_rule pretrained_copies[] = {
    {"embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"},
    {"lm_head.bias", "cls.predictions.decoder.bias"},
    {"embeddings.word_embeddings.weight", "lm_head.decoder.weight"},
    {"lm_head.bias", "lm_head.decoder.bias"},
    {"embeddings.word_embeddings.weight", "generator_lm_head.weight"},
    {"embeddings.word_embeddings.weight", "vocab_projector.weight"},
    {NULL, NULL},
};

#define IGNORED(prefix)                                                                                      \
    {                                                                                                        \
        prefix "embeddings.position_ids", prefix "embeddings.token_type_ids", prefix "pooler.dense.weight",  \
            prefix "pooler.dense.bias", "cls.predictions.decoder.weight", "cls.predictions.decoder.bias",    \
            "cls.seq_relationship.weight", "cls.seq_relationship.bias", "lm_head.decoder.weight",            \
            "lm_head.decoder.bias", "classifier.weight", "classifier.bias", "classifier.dense.weight",       \
            "classifier.dense.bias", "classifier.out_proj.weight", "classifier.out_proj.bias",               \
            "pre_classifier.weight", "pre_classifier.bias", "qa_outputs.weight", "qa_outputs.bias",          \
            "generator_lm_head.weight", "vocab_projector.weight", "discriminator_predictions.dense.weight",  \
            "discriminator_predictions.dense.bias", "discriminator_predictions.dense_prediction.weight",     \
            "discriminator_predictions.dense_prediction.bias", NULL                                          \
    }
static const char *const yoso_ignored[] = IGNORED("yoso.");
static const char *const bert_ignored[] = IGNORED("bert.");
static const char *const roberta_ignored[] = IGNORED("roberta.");
static const char *const electra_ignored[] = IGNORED("electra.");
static const char *const distil_ignored[] = IGNORED("distilbert.");
static const char *const bare_ignored[] = IGNORED("");

#define CLASSES(name) name "Model", name "ForMaskedLM", name "ForSequenceClassification"
#define WORDS(prefix) prefix "embeddings.word_embeddings.weight"
#define FILES_OF_ROBERTA                                                                                     \
    WORDS("roberta."), {roberta_rules, roberta_ignored}, {bare_roberta_rules, bare_ignored},                 \
        PRETRAINED_ROBERTA, false

const struct pretrained_names pretrained_names[PRETRAINED_TYPES] = {
    [PRETRAINED_YOSO] = {"yoso",
                         CLASSES("Yoso"),
                         WORDS("yoso."),
                         {yoso_rules, yoso_ignored},
                         {bare_yoso_rules, bare_ignored},
                         PRETRAINED_YOSO,
                         true},
    [PRETRAINED_BERT] = {"bert",
                         CLASSES("Bert"),
                         WORDS("bert."),
                         {bert_rules, bert_ignored},
                         {bare_bert_rules, bare_ignored},
                         PRETRAINED_BERT,
                         true},
    [PRETRAINED_ROBERTA] = {"roberta", CLASSES("Roberta"), FILES_OF_ROBERTA},
    [PRETRAINED_XLM_ROBERTA] = {"xlm-roberta", CLASSES("XLMRoberta"), FILES_OF_ROBERTA},
    [PRETRAINED_CAMEMBERT] = {"camembert", CLASSES("Camembert"), FILES_OF_ROBERTA},
    [PRETRAINED_ELECTRA] = {"electra",
                            CLASSES("Electra"),
                            WORDS("electra."),
                            {electra_rules, electra_ignored},
                            {bare_electra_rules, bare_ignored},
                            PRETRAINED_BERT,
                            false},
    [PRETRAINED_DISTILBERT] = {"distilbert",
                               CLASSES("DistilBert"),
                               WORDS("distilbert."),
                               {distil_rules, distil_ignored},
                               {bare_distil_rules, bare_ignored},
                               PRETRAINED_DISTILBERT,
                               true},
};
