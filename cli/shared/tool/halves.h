/* --precision bf16 for commands that compute on arrays: files and generated inputs are float32, so a copy is
   rounded, and results are widened again.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_HALVES_H
#define CLI_HALVES_H

#include <stdbool.h>
#include <stdint.h>

#include "hashattn/hashattn.h"

/* True if the context computes in bf16. */
bool halves_wanted(const hashattn_context *context);
/* A block of `count` bfloat16 numbers, rounded from `from` (NULL: left unset). Returns NULL if memory runs
   out. The caller frees it with free(). */
uint16_t *halves_new(const hashattn_context *context, const float *from, size_t count);

#endif
