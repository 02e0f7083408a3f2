/* The options of all mechanisms with groups of tokens: a struct that comes first in theirs, and its rows.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_GROUPING_OPTIONS_H
#define PARTS_GROUPING_OPTIONS_H

#include <stdint.h>

#include "base/options.h"

enum lha_mode { MODE_RELEASED, MODE_PAPER };
enum causal_membership { MEMBERSHIP_STRICT, MEMBERSHIP_WHOLE };

struct grouping_options {
    int64_t num_groups, rounds; /* B, r */
    double enlargement;
    int64_t balance; /* rounds */
    int mode, joint, membership, partition;
};

extern const char *const lha_mode_names[], *const membership_names[];

#define GROUPING_FIELD(name) #name, .offset = offsetof(struct grouping_options, name)
#define GROUPING_ROWS                                                                                        \
    OPTION_ROW("num_buckets", OPTION_INT, offsetof(struct grouping_options, num_groups), 16, 1, 4096, NULL,  \
               "number of token buckets; attention runs inside buckets and computes about 2 / num_buckets "  \
               "of all pairs"),                                                                              \
        {.name = GROUPING_FIELD(rounds),                                                                     \
         .type = OPTION_INT,                                                                                 \
         .preset = 1,                                                                                        \
         .minimum = 1,                                                                                       \
         .maximum = 64,                                                                                      \
         .help =                                                                                             \
             "hashings, each into num_buckets buckets of its own; a query attends in the buckets of all "    \
             "of them, to about rounds times as many keys"},                                                 \
        {.name = GROUPING_FIELD(enlargement),                                                                \
         .type = OPTION_REAL,                                                                                \
         .preset = 1.4142135623730951,                                                                       \
         .minimum = 1,                                                                                       \
         .maximum = 64,                                                                                      \
         .help = "size of a bucket relative to an equal share of the tokens"},                               \
        {.name = GROUPING_FIELD(balance),                                                                    \
         .type = OPTION_INT,                                                                                 \
         .preset = 3,                                                                                        \
         .minimum = 0,                                                                                       \
         .maximum = 64,                                                                                      \
         .help = "rounds of balancing scores across tokens and buckets before each bucket takes its best "   \
                 "tokens; 0, as in the papers, can leave a third of the tokens in no bucket"},               \
        {.name = GROUPING_FIELD(mode),                                                                       \
         .type = OPTION_CHOICE,                                                                              \
         .preset = MODE_RELEASED,                                                                            \
         .choices = lha_mode_names,                                                                          \
         .help = "which to follow where the paper and its released code differ: released normalises "        \
                 "queries and keys, rounds bucket sizes up and has other targets"},                          \
        {.name = GROUPING_FIELD(joint),                                                                      \
         .type = OPTION_FLAG,                                                                                \
         .help = "the query and the key of a token share one score, so each query sees its own key; always " \
                 "on in causal attention"},                                                                  \
        {.name = GROUPING_FIELD(partition),                                                                  \
         .type = OPTION_FLAG,                                                                                \
         .help = "each token goes to exactly one bucket of each round, and buckets have equal sizes, as in " \
                 "the paper's figure 2, in place of the best tokens for each bucket; in causal attention "   \
                 "only with membership whole"},                                                              \
    {                                                                                                        \
        .name = GROUPING_FIELD(membership), .type = OPTION_CHOICE, .preset = MEMBERSHIP_STRICT,              \
        .choices = membership_names,                                                                         \
        .help = "in causal attention: strict puts each token into its best bucket, where it sees the "       \
                "latest tokens; whole picks the best tokens of the whole sequence, as in the papers, so "    \
                "that later tokens influence which keys are seen"                                            \
    }

#endif
