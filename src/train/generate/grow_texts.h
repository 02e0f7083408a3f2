/* Text from a language model of task lm: the prompt becomes tokens, then every text grows by a token at a
   time (models/generation), up to FEW_ROWS texts at once. The seed determines every text; the number of
   threads and of texts changes none.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_GROW_TEXTS_H
#define TRAIN_GROW_TEXTS_H

#include "io/lines.h"
#include "train/generate/choose.h"
#include "train/trainer.h"

enum { GROWN_TOKENS = 256 }; /* of a text if max_tokens is 0, and if the model's positions suffice */

struct grow_options {
    size_t num_texts;
    size_t max_tokens; /* of each text; 0: GROWN_TOKENS, or as many as the model has positions for */
    struct choice_rules rules;
    uint64_t seed;             /* of hashing and of choices */
    const struct piece *stops; /* (num_stops) texts that end a text, and are not part of it; none empty */
    size_t num_stops;
};

/* What a token adds to a text. */
struct grown_token {
    size_t text;                          /* its index */
    struct piece added;                   /* complete characters; may be empty */
    size_t tokens;                        /* of the text so far */
    bool done, stopped;                   /* the text is complete; by a stop text */
    double tokens_per_second;             /* of this text since the prompt was read */
    size_t prompt_tokens, prompt_unknown; /* unknown: words of it that are not in the vocabulary */
    double prompt_seconds;
    const char *recomputes; /* the mechanism for which each token is a pass over all; NULL: none */
};
/* Called after the prompt is read, with no tokens, and for every token of every text. Returns true to stop.
 */
typedef bool grow_callback(void *user, const struct grown_token *generated);

/* INVALID: an option, with the number. REFUSED: the run is not of lm. */
hashattn_status grow_texts_check(struct host *host, const struct run_config *config,
                                 const struct grow_options *options);
/* After a check. session: of evaluate_open. INVALID: the prompt is not UTF-8 and tokens are words; the
   context is longer than the model's learned positions. REFUSED: a mechanism cannot. FAILED: scores are not
   finite. INTERRUPTED: the callback asked to stop. */
hashattn_status grow_texts(struct host *host, const struct train_setup *setup,
                           const struct run_config *config, struct session *session, struct piece prompt,
                           const struct grow_options *options, grow_callback *callback, void *user);

#endif
