/* From the tokens of a document to the texts of examples, as in BERT's create_pretraining_data (Devlin et al.
   2019, appendix A.2) and ALBERT's (Lan et al. 2020, section 3.1). Consecutive sentences fill an example;
   they are divided at a random sentence into A and B. An example is then [start] A [end] B [end], or [start]
   A [end] without an order. One in ten examples is shorter, with a length drawn between 2 and the longest.
   Unlike there no token is lost: an example ends before the sentence that does not fit, and a sentence that
   is longer than an example is divided. A run of one sentence is divided at a random token; a single token is
   dropped. Cost: a few nanoseconds per sentence.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_PAIR_PACKING_H
#define TASKS_PAIR_PACKING_H

#include "base/host.h"

#include <stdbool.h>
#include <stdint.h>

enum pair_order {
    ORDER_NONE, /* one text */
    ORDER_SOP,  /* B is after A, or before it with probability 1/2: label 1 */
    ORDER_NSP,  /* B is after A, or from another document with probability 1/2: label 1 */
};

/* A document as tokens. */
struct token_document {
    uint32_t *ids;
    size_t *ends; /* (num_sentences) of each sentence, ascending; the last is the number of tokens */
    size_t num_sentences;
};

/* Tokens of a document. */
struct token_span {
    const uint32_t *ids;
    size_t count;
};

struct pair_rules {
    enum pair_order order;
    size_t capacity; /* tokens of A and B together, at least 2 */
    bool whole;      /* documents are cut at `capacity` tokens, whatever their sentences; with ORDER_NONE */
    /* For ORDER_NSP: the documents that B may come from, at least two, each with a token. */
    const struct token_document *others;
    size_t num_others;
};

/* Called for each example; b.count is 0 without an order. */
typedef hashattn_status pair_visitor(void *context, struct token_span a, struct token_span b, uint32_t label);
/* Packs one document; `key` determines the draws. *dropped grows by the tokens in no example. */
hashattn_status pair_pack(const struct pair_rules *rules, const struct token_document *document, uint64_t key,
                          pair_visitor *visit, void *context, size_t *dropped);

#endif
