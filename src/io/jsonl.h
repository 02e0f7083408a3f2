/* JSONL: one JSON object on every line. Blank lines are skipped. SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_JSONL_H
#define IO_JSONL_H

#include "io/json.h"
#include "io/lines.h"

/* The object on the next line that is not blank, json_free'd by the caller; NULL at the end. Messages begin
   with "line N: ". After a failure the next call goes on behind the bad line. */
hashattn_status jsonl_next(struct host *host, struct lines *lines, struct json **object);

#endif
