/* The small checkpoints of tests/models/checkpoints, written by bench/checkpoints.py --vectors with the
   transformers library, and what that library computes for one sequence.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_CHECKPOINT_CASE_H
#define TESTS_SUPPORT_CHECKPOINT_CASE_H

#include <stddef.h>
#include <stdint.h>

#include "support/folder.h"

enum { CHECKPOINT_TOKENS = 10, CHECKPOINT_DIM = 8, CHECKPOINT_VOCAB = 24 };
extern const char *const checkpoint_types[]; /* "yoso", "bert", "roberta", NULL */
extern const char *const checkpoint_kin[];   /* the same mathematics under other names, NULL */

struct checkpoint_case {
    char directory[80];
    size_t offsets[2];
    uint32_t ids[CHECKPOINT_TOKENS];
    uint8_t segments[CHECKPOINT_TOKENS];
    float hidden[CHECKPOINT_TOKENS * CHECKPOINT_DIM];
    float logits[CHECKPOINT_TOKENS * CHECKPOINT_VOCAB];
};
void checkpoint_case_read(const char *type, struct checkpoint_case *c);

/* Copies a checkpoint into the test's directory, and its config.json with `from` replaced by `to` once. */
void checkpoint_copy(const struct folder *folder, const char *type);
void checkpoint_edit(const struct folder *folder, const char *from, const char *to);

#endif
