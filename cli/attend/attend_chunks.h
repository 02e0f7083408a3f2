/* `attend --chunk`: the arrays stay in their files and pass by in chunks, head after head, so that memory
   does not depend on how long they are. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_ATTEND_CHUNKS_H
#define CLI_ATTEND_CHUNKS_H

#include "cli/shared/command.h"

struct attend_chunks {
    hashattn_context *context, *files; /* of attention; of the readers, which are used on another thread */
    hashattn_attention *attention;
    const hashattn_problem *problem;                 /* shapes, causal, seed */
    hashattn_npy_reader *query, *key, *value, *mask; /* mask may be NULL */
    bool mask_of_each;                               /* (batch, n_k) */
    hashattn_npy_writer *out;
    size_t chunk_rows;
    size_t stream_bytes; /* of one head's state and chunks: written */
};

/* Every head of every sequence is absorbed, read and appended to `out`. EXIT_GOOD or what tool_fail gave. */
int attend_in_chunks(struct attend_chunks *chunks);

#endif
