/* The rows behind yoso_options.h. SPDX-License-Identifier: Apache-2.0 */
#include "parts/hashing/yoso_options.h"

#include "kernels/kernels.h"

static const char *const planes_names[] = {"gaussian", "orthogonal", "hadamard", "hadamard-paper", NULL};
static const char *const normalize_names[] = {"l2", "sum", "none", NULL};
static const char *const map_names[] = {"l2", "neyshabur", NULL};
static const char *const tables_names[] = {"auto", "f32", "int16", NULL};
static const char *const gradient_names[] = {"lower", "true", "released", NULL};
static const char *const exact_gradient_names[] = {"lower", "true", NULL};

#define FIELD(name) #name, .offset = offsetof(struct yoso_options, name)
#define MEETING     "bits of one hash: vectors at angle a meet with probability (1 - a/pi)^hash_bits"
#define HASH_BITS(help_text)                                                                                 \
    {                                                                                                        \
        .name = FIELD(hash_bits), .type = OPTION_INT, .preset = 9, .minimum = 1, .maximum = 24,              \
        .help = help_text                                                                                    \
    }
#define NORMALIZE                                                                                            \
    {                                                                                                        \
        .name = FIELD(normalize), .type = OPTION_CHOICE, .preset = YOSO_NORMALIZE_L2,                        \
        .choices = normalize_names,                                                                          \
        .help = "what is done to output rows: l2 unit length, sum weights add up to one, none"               \
    }

#define MAP                                                                                                  \
    {                                                                                                        \
        .name = FIELD(map), .type = OPTION_CHOICE, .preset = YOSO_MAP_L2, .choices = map_names,              \
        .help = "how rows get unit length: l2 alone, or neyshabur, which keeps their dot products"           \
    }
#define MAX_NORM                                                                                             \
    {                                                                                                        \
        .name = FIELD(max_norm), .type = OPTION_REAL, .preset = 0, .minimum = 0, .maximum = 1e18,            \
        .help = "of map neyshabur: no query or key is longer; 0 takes the longest of each head"              \
    }

const struct option_row yoso_sampled_rows[] = {
    {.name = FIELD(num_hashes),
     .type = OPTION_INT,
     .preset = 32,
     .minimum = 1,
     .maximum = 4096,
     .help = "hash functions per head: the variance of the output falls as 1 / num_hashes"},
    HASH_BITS(MEETING "; rare tokens are learned where 2^hash_bits is at most num_hashes"),
    {.name = FIELD(planes),
     .type = OPTION_CHOICE,
     .preset = PLANES_ORTHOGONAL,
     .choices = planes_names,
     .help =
         "how hyperplanes are drawn: independently, orthogonal between hashes (less variance), by Hadamard "
         "matrices (nearly so, half the work), or as the paper's code does (biased)"},
    {.name = FIELD(projection),
     .type = OPTION_CHOICE,
     .preset = HASH_AUTO,
     .choices = hash_projection_names,
     .help = "how vectors are projected for hashing: in 16-bit fixed point, bfloat16, float32, or fastest in "
             "8-bit fixed point, which sees near-duplicates up to 2 % less often; auto is the fastest that "
             "hashes as well as float32 (planes by Hadamard matrices: f32 or int16-dp)"},
    NORMALIZE,
    {.name = FIELD(gradient),
     .type = OPTION_CHOICE,
     .preset = YOSO_GRADIENT_LOWER,
     .choices = gradient_names,
     .help = "how queries and keys learn: lower the paper's bound, true the derivative itself, released the "
             "published code's, which is biased"},
    {.name = FIELD(max_partners),
     .type = OPTION_INT,
     .preset = 0,
     .minimum = 0,
     .maximum = INT32_MAX,
     .help = "gradients true and released: so many keys of a fuller bucket, drawn for each query, stand for "
             "all of them, without bias and at linear cost (0: all)"},
    {.name = FIELD(recompute),
     .type = OPTION_FLAG,
     .preset = 0,
     .help = "keep no codes for backward, which hashes again: less memory, the same bits"},
    {.name = FIELD(tables),
     .type = OPTION_CHOICE,
     .preset = YOSO_TABLES_AUTO,
     .choices = tables_names,
     .help = "what forward sums values in: float32, or in 0.7 of the time 16-bit fixed point, which rounds "
             "values by at most 1/128 of their root mean square, or is float32 all the same; auto is int16 "
             "with precision bf16 (causal attention and streams: f32)"},
    MAP,
    MAX_NORM,
    {.name = NULL},
};

const struct option_row yoso_exact_rows[] = {
    HASH_BITS(MEETING),
    NORMALIZE,
    {.name = FIELD(gradient),
     .type = OPTION_CHOICE,
     .preset = YOSO_GRADIENT_LOWER,
     .choices = exact_gradient_names,
     .help = "how queries and keys learn: lower the paper's bound, true the derivative itself"},
    MAP,
    MAX_NORM,
    {.name = NULL},
};
