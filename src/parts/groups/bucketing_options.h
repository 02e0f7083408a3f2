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
     .help = "number of token buckets; attention runs inside buckets and computes about 2 / num_buckets of " \
             "all pairs"},                                                                                   \
        {.name = BUCKETING_FIELD(enlargement),                                                               \
         .type = OPTION_REAL,                                                                                \
         .preset = 1.4142135623730951,                                                                       \
         .minimum = 1,                                                                                       \
         .maximum = 64,                                                                                      \
         .help = "size of a bucket relative to an equal share of the tokens"},                               \
        {.name = BUCKETING_FIELD(balance),                                                                   \
         .type = OPTION_INT,                                                                                 \
         .preset = 3,                                                                                        \
         .minimum = 0,                                                                                       \
         .maximum = 64,                                                                                      \
         .help = "rounds of balancing scores across tokens and buckets before each bucket takes its best "   \
                 "tokens; 0, as in the papers, can leave a third of the tokens in no bucket"},               \
        {.name = BUCKETING_FIELD(mode),                                                                      \
         .type = OPTION_CHOICE,                                                                              \
         .preset = MODE_RELEASED,                                                                            \
         .choices = lha_mode_names,                                                                          \
         .help = "which to follow where the paper and its released code differ: released normalises "        \
                 "queries and keys, rounds bucket sizes up and has other targets"},                          \
        {.name = BUCKETING_FIELD(joint),                                                                     \
         .type = OPTION_FLAG,                                                                                \
         .help = "the query and the key of a token share one score, so each query sees its own key; always " \
                 "on in causal attention"},                                                                  \
    {                                                                                                        \
        .name = BUCKETING_FIELD(membership), .type = OPTION_CHOICE, .preset = MEMBERSHIP_STRICT,             \
        .choices = membership_names,                                                                         \
        .help = "in causal attention: strict puts each token into its best bucket, where it sees the "       \
                "latest tokens; whole picks the best tokens of the whole sequence, as in the papers, so "    \
                "that later tokens influence which keys are seen"                                            \
    }

#endif
