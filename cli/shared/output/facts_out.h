/* What a bug report needs: the build, the machine, and what runs on it. `--version` prints it, and `info`
   begins with it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_FACTS_OUT_H
#define CLI_FACTS_OUT_H

#include "cli/shared/output/json_out.h"
#include "hashattn/hashattn.h"

/* The first line is "hashattn VERSION". */
void facts_words(const hashattn_context *context);
/* The same as members of the open object. */
void facts_json(struct json_out *json, const hashattn_context *context);

#endif
