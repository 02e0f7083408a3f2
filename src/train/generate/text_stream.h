/* Bytes that arrive token by token, as text: complete UTF-8 characters only, bytes that form none as U+FFFD,
   and nothing from the first stop text on. A byte that may begin a stop text or be a part of a character
   waits for the next ones. Cost: every waiting byte is compared with every stop text once more for each
   token.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_TEXT_STREAM_H
#define TRAIN_TEXT_STREAM_H

#include <stdbool.h>

#include "text/tokenizer.h"

struct text_stream {
    const struct piece *stops; /* (num_stops) none empty; the caller's */
    size_t num_stops;
    struct grown_text waiting; /* bytes are appended here */
    struct grown_text ready;   /* text of the last text_stream_go, and a NUL that `size` does not count */
    bool stopped;              /* a stop text has come; nothing follows */
};
void text_stream_free(struct host *host, struct text_stream *stream);
/* Forgets all text. */
void text_stream_clear(struct text_stream *stream);
/* Moves what is complete from `waiting` to `ready`, in place of what was there; `last`: everything, for no
   more bytes will come. */
hashattn_status text_stream_go(struct host *host, struct text_stream *stream, bool last);

#endif
