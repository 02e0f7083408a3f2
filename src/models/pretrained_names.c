/* One list of rules for all types, with the prefix of the trunk and the names of the heads filled in. Words,
   segments and positions keep their names behind the prefix, as all of a block but its query, key, value and
   convolution. Ignored are tensors that follow from others or belong to heads that are not read: position_ids
   of older files, the decoder (the table of words again), BERT's pooler and next-sentence output,
   classifiers.
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

#define RULES(name, ...) static const struct name_rule name[] = {__VA_ARGS__, {NULL, NULL}}
RULES(yoso_rules, TRUNK("yoso."), BERT_OUTPUT);
RULES(bare_yoso_rules, TRUNK(""), BERT_OUTPUT);
RULES(bert_rules, TRUNK("bert."), BERT_OUTPUT, POOLER("bert."));
RULES(bare_bert_rules, TRUNK(""), BERT_OUTPUT, POOLER(""));
RULES(roberta_rules, TRUNK("roberta."));
RULES(bare_roberta_rules, TRUNK(""));

#define IGNORED(prefix)                                                                                      \
    {                                                                                                        \
        prefix "embeddings.position_ids", prefix "embeddings.token_type_ids", prefix "pooler.dense.weight",  \
            prefix "pooler.dense.bias", "cls.predictions.decoder.weight", "cls.predictions.decoder.bias",    \
            "cls.seq_relationship.weight", "cls.seq_relationship.bias", "lm_head.decoder.weight",            \
            "lm_head.decoder.bias", "classifier.weight", "classifier.bias", "classifier.dense.weight",       \
            "classifier.dense.bias", "classifier.out_proj.weight", "classifier.out_proj.bias",               \
            "pre_classifier.weight", "pre_classifier.bias", "qa_outputs.weight", "qa_outputs.bias", NULL     \
    }
static const char *const yoso_ignored[] = IGNORED("yoso.");
static const char *const bert_ignored[] = IGNORED("bert.");
static const char *const roberta_ignored[] = IGNORED("roberta.");
static const char *const bare_ignored[] = IGNORED("");

const struct pretrained_names pretrained_names[PRETRAINED_TYPES] = {
    [PRETRAINED_YOSO] = {"yoso",
                         "YosoModel",
                         "YosoForMaskedLM",
                         "YosoForSequenceClassification",
                         "yoso.embeddings.word_embeddings.weight",
                         {yoso_rules, yoso_ignored},
                         {bare_yoso_rules, bare_ignored}},
    [PRETRAINED_BERT] = {"bert",
                         "BertModel",
                         "BertForMaskedLM",
                         "BertForSequenceClassification",
                         "bert.embeddings.word_embeddings.weight",
                         {bert_rules, bert_ignored},
                         {bare_bert_rules, bare_ignored}},
    [PRETRAINED_ROBERTA] = {"roberta",
                            "RobertaModel",
                            "RobertaForMaskedLM",
                            "RobertaForSequenceClassification",
                            "roberta.embeddings.word_embeddings.weight",
                            {roberta_rules, roberta_ignored},
                            {bare_roberta_rules, bare_ignored}},
};
