/* Descriptions of data, for the files of this floor only.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef API_DESCRIPTIONS_H
#define API_DESCRIPTIONS_H

#include "api/setup.h"
#include "hashattn/train.h"

/* Passes what was read of one split to the callback. read: the `columns` of the part, or NULL. INTERRUPTED:
   the callback asked to stop. */
hashattn_status describe_part(struct host *host, const struct task_facts *facts, const char *read,
                              enum split split, const struct dataset *dataset,
                              hashattn_data_callback *callback, void *user);

#endif
