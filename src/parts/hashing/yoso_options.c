/* The rows behind yoso_options.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/hashing/yoso_options.h"

#include "kernels/kernels.h"

static const char *const planes_names[] = {"gaussian", "orthogonal", "hadamard", "hadamard-paper", NULL};
static const char *const normalize_names[] = {"l2", "sum", "none", NULL};
static const char *const map_names[] = {"l2", "neyshabur", NULL};
static const char *const tables_names[] = {"auto", "f32", "int16", NULL};
static const char *const gradient_names[] = {"lower", "true", "released", NULL};
static const char *const exact_gradient_names[] = {"lower", "true", NULL};

#define FIELD(name) #name, .offset = offsetof(struct yoso_options, name)
#define COLLISION   "bits per hash: vectors at angle a collide with probability (1 - a/pi)^hash_bits"
#define HASH_BITS(help_text)                                                                                 \
    {                                                                                                        \
        .name = FIELD(hash_bits), .type = OPTION_INT, .preset = 9, .minimum = 1, .maximum = 24,              \
        .help = help_text                                                                                    \
    }
#define NORMALIZE                                                                                            \
    {                                                                                                        \
        .name = FIELD(normalize), .type = OPTION_CHOICE, .preset = YOSO_NORMALIZE_L2,                        \
        .choices = normalize_names,                                                                          \
        .help = "scale output rows to unit length (l2), so that the weights of a row sum to 1 (sum), or "    \
                "not at all (none)"                                                                          \
    }

#define MAP                                                                                                  \
    {                                                                                                        \
        .name = FIELD(map), .type = OPTION_CHOICE, .preset = YOSO_MAP_L2, .choices = map_names,              \
        .help = "how queries and keys become unit vectors: l2 scales each to length 1; neyshabur adds "      \
                "coordinates, so that collisions depend on dot products instead of angles"                   \
    }
#define MAX_NORM                                                                                             \
    {                                                                                                        \
        .name = FIELD(max_norm), .type = OPTION_REAL, .preset = 0, .minimum = 0, .maximum = 1e18,            \
        .help = "for map neyshabur: upper bound on the length of queries and keys; 0 uses the longest row "  \
                "of each head"                                                                               \
    }

const struct option_row yoso_sampled_rows[] = {
    {.name = FIELD(num_hashes),
     .type = OPTION_INT,
     .preset = 32,
     .minimum = 1,
     .maximum = 4096,
     .help = "hash functions per head; the variance of the output is proportional to 1 / num_hashes"},
    HASH_BITS(COLLISION "; rare tokens can be learned if 2^hash_bits <= num_hashes"),
    {.name = FIELD(planes),
     .type = OPTION_CHOICE,
     .preset = PLANES_ORTHOGONAL,
     .choices = planes_names,
     .help = "how hyperplanes are drawn: gaussian (independent), orthogonal across hashes (less variance), "
             "hadamard (nearly orthogonal, half the work), hadamard-paper (as in the paper's code, biased)"},
    {.name = FIELD(plane_pool),
     .type = OPTION_INT,
     .preset = 0,
     .minimum = 0,
     .maximum = 4096,
     .help =
         "hashes share this many planes per bit, a prime of at least hash_bits, and no two share more than "
         "one: hashing takes less time, without bias but with more variance; 0, or num_hashes and more, "
         "gives each hash planes of its own"},
    {.name = FIELD(projection),
     .type = OPTION_CHOICE,
     .preset = HASH_AUTO,
     .choices = hash_projection_names,
     .help =
         "number format of the hash projection: float32, 16-bit fixed point, bfloat16, or 8-bit fixed "
         "point, which is the fastest with AVX-512 (not with AVX2) and makes near-duplicates collide up to "
         "2 % less often; auto is the fastest that hashes as well as float32 (Hadamard planes allow f32 and "
         "int16-dp only)"},
    NORMALIZE,
    {.name = FIELD(gradient),
     .type = OPTION_CHOICE,
     .preset = YOSO_GRADIENT_LOWER,
     .choices = gradient_names,
     .help = "gradient of queries and keys: lower (the paper's bound), true (the derivative), released (as "
             "in the paper's code, biased)"},
    {.name = FIELD(max_partners),
     .type = OPTION_INT,
     .preset = 0,
     .minimum = 0,
     .maximum = INT32_MAX,
     .help = "with gradient true or released: each query uses at most this many random keys of a bucket, "
             "which keeps the cost linear without bias; 0 uses all keys"},
    {.name = FIELD(gradient_hashes),
     .type = OPTION_INT,
     .preset = 0,
     .minimum = 0,
     .maximum = 4096,
     .help = "with gradient lower or true: queries and keys get their gradient from this many of the hashes, "
             "drawn anew for each head and step, without bias: less time, more variance; 0 uses all"},
    {.name = FIELD(recompute),
     .type = OPTION_FLAG,
     .preset = 0,
     .help = "keep no hash codes for the backward pass, which hashes again: less memory, identical results"},
    {.name = FIELD(tables),
     .type = OPTION_CHOICE,
     .preset = YOSO_TABLES_AUTO,
     .choices = tables_names,
     .help = "format of the tables of value sums in the forward pass: f32, or int16, which takes 0.83 to "
             "0.93 of the time and rounds values by at most 1/128 of their root mean square (f32 is used if "
             "buckets are too full for that, or if there are fewer tokens than codes); auto is int16 with "
             "precision bf16 (f32 in causal attention and streams)"},
    MAP,
    MAX_NORM,
    {.name = NULL},
};

const struct option_row yoso_exact_rows[] = {
    HASH_BITS(COLLISION),
    NORMALIZE,
    {.name = FIELD(gradient),
     .type = OPTION_CHOICE,
     .preset = YOSO_GRADIENT_LOWER,
     .choices = exact_gradient_names,
     .help = "gradient of queries and keys: lower (the paper's bound), true (the derivative)"},
    MAP,
    MAX_NORM,
    {.name = NULL},
};
