/* How many digits a code has, and of how many bits; how good the scores are that come from it (kv_codes.h).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef DECODING_KV_CODE_FORM_H
#define DECODING_KV_CODE_FORM_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/slots_decode.h"

/* Digits of a code of so many bits. `error` is the variance of the error of scores as a share of that of the
   scores, for vectors in random directions. Digits add e head_dim / planes, where e = 1 / rho^2 - 1, for the
   correlation rho of a normal number and its digit, is 0.571, 0.135 and 0.0117 for 1, 2 and 4 bits. Planes
   that are no multiple of head_dim add what directions that are missing, or count twice, do; fewer planes
   than columns add head_dim / planes - 1. */
struct kv_code_form {
    size_t digit_bits, planes; /* planes: a multiple of 16; digit_bits * planes = bits */
    double error;
    double step; /* of the digits, relative to the root mean square of a row's coordinates */
};

enum { KV_MOST_BITS = 8 * DECODE_MOST_BYTES };

/* The form of the least error: of 128 bits for 64 columns digits of 2 bits, 0.135 (of 1 bit: 0.285). signs: 1
   bit, as Hamming codes need. */
struct kv_code_form kv_code_form_of(size_t bits, size_t head_dim, bool signs);
/* Bits that suit keys of this width: two for each column, at least 128, a multiple of 32. */
size_t kv_code_bits(size_t head_dim);
/* t of importance, exp(t score), that suits the error of scores: the best linear guess at a score from its
   estimate is 1 / (1 + error) of it. With t 0.8 where this is 0.32, outputs of Gemma 3 err 1.8 times as
   much. */
double kv_code_sharpness(size_t bits, size_t head_dim);

#endif
