/* --precision bf16 for commands that compute on arrays: files and made inputs are float32, so a copy of them
   is rounded, computed on, and widened again. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_HALVES_H
#define CLI_HALVES_H

#include "cli/shared/command.h"

/* Whether the context computes in bf16. */
bool halves_wanted(const hashattn_context *context);
/* A block of `count` bfloat16 numbers for free(), rounded from `from`; from NULL: not filled. NULL: no
 * memory.
 */
uint16_t *halves_new(const hashattn_context *context, const float *from, size_t count);

#endif
