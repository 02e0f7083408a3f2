/* The keys that one query uses. Both functions write the keys and return their number; `seen` is the number
   of leading keys that the query sees.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_SAMPLED_KEYS_H
#define PARTS_SAMPLED_KEYS_H

#include "parts/sampling/key_lists.h"

/* The keys that share a code with the query in at least one hash, each once, in the order of hashes and
   keys. keys: room for num_keys + 1. marks: (num_keys), in which no number is `mark`; a key that is taken
   gets it. */
size_t sampled_union(const struct key_lists *lists, size_t query, size_t seen, uint32_t *marks, uint32_t mark,
                     uint32_t *keys);

/* From each hash in which the query's bucket has a visible key, one of them at random, each equally likely.
   keys, share: room for num_hashes. share: the number of keys in that bucket, divided by num_hashes. Hash h
   uses word h of the key (random_key, RANDOM_DRAWS, query). */
size_t sampled_draws(const struct key_lists *lists, size_t query, size_t seen, uint64_t random_key,
                     uint32_t *keys, float *share);

#endif
