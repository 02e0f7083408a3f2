/* How a command ends; hashattn_status_exit_code maps the library's statuses to the same numbers.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_EXIT_CODE_H
#define CLI_EXIT_CODE_H

enum exit_code {
    EXIT_GOOD = 0,
    EXIT_WORK = 1,
    EXIT_USAGE = 2,
    EXIT_FILE = 3,
    EXIT_RESOURCE = 4, /* memory or disk */
    EXIT_STOPPED = 130,
};

#endif
