/* JSONL: one JSON object on every line. Blank lines are skipped.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_JSONL_H
#define IO_JSONL_H

#include "io/json.h"
#include "io/lines.h"

/* The object on the next non-blank line; NULL at the end. The caller frees it with json_free. Messages begin
   with "line N: ". After a failure the next call continues after the bad line. */
hashattn_status jsonl_next(struct host *host, struct lines *lines, struct json **object);

#endif
