/* The streaming half of mechanism yoso: what its row says under state_size, stream_scratch_size, absorb, read
   and merge (attention/mechanism.h). SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_YOSO_STREAM_H
#define ATTENTION_YOSO_STREAM_H

#include "attention/mechanism.h"

size_t yoso_state_size(const void *options, const struct problem_shape *shape);
size_t yoso_stream_scratch_size(const void *options, const struct problem_shape *shape);
void yoso_absorb(const struct problem *problem, void *state, size_t first);
void yoso_read(const struct problem *problem, void *state, size_t first, struct view out);
void yoso_merge(const void *options, const struct problem_shape *shape, void *into, const void *from);

#endif
