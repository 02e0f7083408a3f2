/* Where the time went, as a table for people and as JSON. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROFILE_OUT_H
#define CLI_PROFILE_OUT_H

#include "cli/shared/json_out.h"
#include "hashattn/hashattn.h"

/* One line a part on stderr, the dearest first; `times` is how often what was profiled ran. */
void profile_words(const hashattn_context *context, const char *what, size_t times);
/* An array "profile" of {part, ms, share, busy}, in the order of the library. */
void profile_json(struct json_out *json, const hashattn_context *context, size_t times);
/* Seconds that passed in the part of this name. */
double profile_seconds(const hashattn_context *context, const char *part);

#endif
