/* `attend --chunk`: reads and writes the arrays in chunks, head by head, so that memory does not depend on
   their length.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_ATTEND_CHUNKS_H
#define CLI_ATTEND_CHUNKS_H

#include "cli/attend/attend_fail.h"

struct attend_chunks {
    hashattn_context *context, *files; /* of the attention; of the readers, which run on another thread */
    hashattn_attention *attention;
    const hashattn_problem *problem;                 /* shapes, causal, seed */
    hashattn_npy_reader *query, *key, *value, *mask; /* mask may be NULL */
    bool mask_of_each;                               /* the mask is (batch, n_k), not (n_k) */
    struct attend_paths paths;                       /* of the readers */
    hashattn_npy_writer *out;
    size_t chunk_rows;
    size_t stream_bytes; /* output: bytes of one head's state and chunks */
};

/* Computes every head of every sequence and appends it to `out`. Returns EXIT_GOOD or the exit code of the
   reported error. */
int attend_in_chunks(struct attend_chunks *chunks);

#endif
