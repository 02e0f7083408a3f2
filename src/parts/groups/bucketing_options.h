/* The options that all mechanisms with buckets of tokens have: a struct that stands first in theirs, and its
   rows. SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_BUCKETING_OPTIONS_H
#define PARTS_BUCKETING_OPTIONS_H

#include <stdint.h>

#include "base/options.h"

enum lha_mode { MODE_RELEASED, MODE_PAPER };
enum causal_membership { MEMBERSHIP_STRICT, MEMBERSHIP_WHOLE };

struct bucketing_options {
    int64_t num_buckets; /* B */
    double enlargement;
    int64_t balance; /* rounds */
    int mode, joint, membership;
};

extern const char *const lha_mode_names[], *const membership_names[];

#define BUCKETING_FIELD(name) #name, .offset = offsetof(struct bucketing_options, name)
#define BUCKETING_ROWS                                                                                       \
    {.name = BUCKETING_FIELD(num_buckets),                                                                   \
     .type = OPTION_INT,                                                                                     \
     .preset = 16,                                                                                           \
     .minimum = 1,                                                                                           \
     .maximum = 4096,                                                                                        \
     .help = "buckets of tokens; attention runs inside them, so it costs about 2 / num_buckets of all "      \
             "pairs"},                                                                                       \
        {.name = BUCKETING_FIELD(enlargement),                                                               \
         .type = OPTION_REAL,                                                                                \
         .preset = 1.4142135623730951,                                                                       \
         .minimum = 1,                                                                                       \
         .maximum = 64,                                                                                      \
         .help = "how many times an equal share of the tokens each bucket takes"},                           \
        {.name = BUCKETING_FIELD(balance),                                                                   \
         .type = OPTION_INT,                                                                                 \
         .preset = 3,                                                                                        \
         .minimum = 0,                                                                                       \
         .maximum = 64,                                                                                      \
         .help =                                                                                             \
             "rounds that make scores fair to tokens and buckets before buckets take their best tokens; "    \
             "0, as in the papers: hashes that learn may leave a third of the tokens in no bucket"},         \
        {.name = BUCKETING_FIELD(mode),                                                                      \
         .type = OPTION_CHOICE,                                                                              \
         .preset = MODE_RELEASED,                                                                            \
         .choices = lha_mode_names,                                                                          \
         .help = "where the paper and the code released with it differ, whom to follow: released norms "     \
                 "queries and keys, rounds shares up and has other targets"},                                \
        {.name = BUCKETING_FIELD(joint),                                                                     \
         .type = OPTION_FLAG,                                                                                \
         .help = "queries and keys of a token share one score, so each query meets its own key; causal "     \
                 "attention always does"},                                                                   \
    {                                                                                                        \
        .name = BUCKETING_FIELD(membership), .type = OPTION_CHOICE, .preset = MEMBERSHIP_STRICT,             \
        .choices = membership_names,                                                                         \
        .help = "of causal attention: strict lets each token choose its bucket and see the last tokens of "  \
                "it; whole takes the best tokens of the whole sequence as the papers do, which lets the "    \
                "future decide who is seen"                                                                  \
    }

#endif
