/* Commands whose first operand is a kind, as in "bench peak". Each kind is a command of its own.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_KINDS_H
#define CLI_KINDS_H

#include "cli/shared/tool/command.h"

/* The kind of this name, or NULL. */
const struct command *kinds_find(const struct command *command, const char *name);
/* The `run` of a command that is nothing but its kinds: the first argument that names a kind selects it, even
   after options, and the kind gets all other arguments. Without one, help and messages list the kinds. */
int kinds_run(const struct command *self, int argc, char **argv);

#endif
