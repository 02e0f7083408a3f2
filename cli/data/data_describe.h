/* A kind of `data`, for cmd_data.c only.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DATA_DESCRIBE_H
#define CLI_DATA_DESCRIBE_H

#include "cli/shared/tool/command.h"

extern const struct command data_describe;

#endif
