/* Hashes with a secret key. Bytes are the coefficients of a polynomial, which is evaluated at a secret point
   modulo the prime 2^61 - 1; two texts of n bytes have the same value at n / 7 + 1 of the 2^61 points at
   most, so no file that was written before the key was drawn can hold many names that collide. The key
   differs in every table: results must not depend on the order of hashes. Cost: a multiplication per 7 bytes.
   Source: Carter and Wegman 1979.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_HASH_KEY_H
#define BASE_HASH_KEY_H

#include <stddef.h>
#include <stdint.h>

struct hash_key {
    uint64_t point, mask; /* point < 2^61 - 1 */
};

/* From the random numbers of the operating system; if it has none, from the time and an address. */
struct hash_key hash_key_new(void);

uint64_t hash_bytes(const struct hash_key *key, const void *bytes, size_t size);
uint64_t hash_pair(const struct hash_key *key, uint32_t first, uint32_t second);

#endif
