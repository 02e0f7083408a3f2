/* The options of YOSO attention, shared by the sampled form (yoso) and its exact expectation (yoso-e): one
   struct, and the option rows that apply to each form. Symbols of docs/MATH.md in brackets.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_YOSO_OPTIONS_H
#define PARTS_YOSO_OPTIONS_H

#include <stdint.h>

#include "base/options.h"
#include "parts/hashing/hashing.h"

enum yoso_normalize { YOSO_NORMALIZE_L2, YOSO_NORMALIZE_SUM, YOSO_NORMALIZE_NONE };
enum yoso_gradient { YOSO_GRADIENT_LOWER, YOSO_GRADIENT_TRUE, YOSO_GRADIENT_RELEASED };
enum yoso_map { YOSO_MAP_L2, YOSO_MAP_NEYSHABUR };
enum yoso_tables { YOSO_TABLES_AUTO, YOSO_TABLES_F32, YOSO_TABLES_INT16 };

struct yoso_options {
    int64_t num_hashes; /* m; sampled form only */
    int64_t hash_bits;  /* tau */
    int planes, normalize, gradient, map;
    int64_t plane_pool;      /* r; sampled form only */
    double max_norm;         /* M of the map; 0: the longest row of each head */
    int projection;          /* enum hash_projection; sampled form only */
    int64_t max_partners;    /* sampled form only */
    int64_t gradient_hashes; /* of num_hashes; 0: all. Sampled form only */
    int recompute;           /* sampled form only */
    int tables;              /* enum yoso_tables; sampled form only */
};

extern const struct option_row yoso_sampled_rows[], yoso_exact_rows[]; /* ended by a row with name NULL */

#endif
