/* Prints a profile as a table and as JSON.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROFILE_OUT_H
#define CLI_PROFILE_OUT_H

#include "cli/shared/output/json_out.h"
#include "hashattn/hashattn.h"

/* Prints one line per part on stderr, most time first; times are divided by `times`, the number of runs. */
void profile_words(const hashattn_context *context, const char *what, size_t times);
/* An array "profile" of {part, ms, share, busy}, in the library's order. */
void profile_json(struct json_out *json, const hashattn_context *context, size_t times);
/* Wall seconds of the part of this name; 0 if there is none. */
double profile_seconds(const hashattn_context *context, const char *part);

#endif
