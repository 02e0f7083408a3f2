/* Every layout and option that a device computes, at sizes that the emulator computes in a moment.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GPU_CASES_H
#define TESTS_GPU_CASES_H

#include "support/gpu_case.h"

static const size_t unequal[] = {0, 40, 40, 105, 112}, fewer[] = {0, 13, 20, 84, 84};

static const struct gpu_case gpu_cases[] = {
    {"two heads", 1, 2, 100, 77, 64, 64, .options = "num_hashes=16 hash_bits=6"},
    {"defaults", 1, 1, 130, 130, 64, 64, .options = "num_hashes=32 hash_bits=9"},
    {"width 128", 1, 1, 40, 70, 128, 128, .options = "num_hashes=5 hash_bits=4"},
    {"width 16", 2, 1, 50, 30, 16, 16, .options = "num_hashes=7 hash_bits=5"},
    {"odd widths", 1, 2, 33, 40, 33, 7, .options = "num_hashes=13 hash_bits=7"},
    {"values wider", 1, 1, 30, 40, 20, 100, .options = "num_hashes=8 hash_bits=3"},
    {"1 bit", 1, 1, 64, 64, 64, 64, .options = "num_hashes=9 hash_bits=1"},
    {"12 bits", 1, 1, 70, 90, 64, 32, .inputs = GPU_INPUTS_CLUSTERED, .options = "num_hashes=3 hash_bits=12"},
    {"1 hash", 1, 1, 70, 90, 32, 32, .options = "num_hashes=1 hash_bits=2"},
    {"256 hashes", 1, 1, 20, 30, 32, 32, .options = "num_hashes=256 hash_bits=4"},
    {"gaussian", 1, 1, 50, 50, 64, 64, .options = "num_hashes=12 hash_bits=5 planes=gaussian"},
    {"sum", 1, 2, 60, 70, 64, 64, .options = "num_hashes=12 hash_bits=4 normalize=sum"},
    {"none", 1, 2, 60, 70, 64, 64, .options = "num_hashes=12 hash_bits=4 normalize=none"},
    {"one bucket", 1, 1, 90, 80, 32, 32, .inputs = GPU_INPUTS_EQUAL,
     .options = "num_hashes=4 hash_bits=6 normalize=none"},
    {"clustered", 1, 1, 120, 100, 64, 64, .inputs = GPU_INPUTS_CLUSTERED,
     .options = "num_hashes=8 hash_bits=5"},
    {"edges", 1, 1, 33, 40, 64, 64, .inputs = GPU_INPUTS_EDGES, .options = "num_hashes=13 hash_bits=7"},
    {"one row", 2, 2, 1, 1, 64, 64, .options = "num_hashes=8 hash_bits=4"},
    {"no key", 1, 1, 5, 0, 64, 64, .options = "num_hashes=8 hash_bits=4"},
    {"no query", 1, 1, 0, 5, 64, 64, .options = "num_hashes=8 hash_bits=4"},
    {"mask", 3, 2, 30, 41, 64, 64, .mask = GPU_MASK_SOME, .options = "num_hashes=8 hash_bits=4"},
    {"a sequence without keys", 2, 1, 30, 41, 64, 64, .mask = GPU_MASK_ALL_OF_FIRST,
     .options = "num_hashes=8 hash_bits=4"},
    {"packed", 4, 2, 0, 0, 64, 64, unequal, fewer, .options = "num_hashes=8 hash_bits=4"},
    {"padded", 4, 2, 0, 0, 64, 64, unequal, fewer, .padded = true, .mask = GPU_MASK_SOME,
     .options = "num_hashes=8 hash_bits=4"},
    {"sequences apart", 3, 2, 30, 41, 64, 64, .apart = true, .options = "num_hashes=8 hash_bits=4"},
    {"recompute", 1, 2, 60, 70, 64, 64, .options = "num_hashes=12 hash_bits=4 recompute=true"},
    {"causal", 2, 2, 70, 70, 64, 64, .causal = true, .options = "num_hashes=12 hash_bits=4"},
    {"causal, sum, mask", 2, 1, 70, 70, 32, 32, .causal = true, .mask = GPU_MASK_SOME,
     .options = "num_hashes=9 hash_bits=3 normalize=sum"},
    {"causal, packed", 4, 1, 0, 0, 64, 64, unequal, unequal, .causal = true,
     .options = "num_hashes=9 hash_bits=3"},
    {"bfloat16", 2, 2, 50, 60, 64, 64, .half = true, .options = "num_hashes=12 hash_bits=4"},
};

enum { GPU_CASES = sizeof gpu_cases / sizeof *gpu_cases };

#endif
