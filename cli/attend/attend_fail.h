/* Errors that the data of a file cause. The library names its argument; messages here name the file too.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_ATTEND_FAIL_H
#define CLI_ATTEND_FAIL_H

#include "cli/shared/tool/command.h"

/* The files of the arguments of a call; NULL: not given. */
struct attend_paths {
    const char *query, *key, *value, *key_mask, *dout;
};

/* Reports the failure of a call whose arguments have been accepted: INVALID means bad data in a file. Returns
   the exit code. */
int attend_fail_data(const struct attend_paths *paths, const hashattn_context *context,
                     hashattn_status status);

#endif
