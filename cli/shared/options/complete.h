/* Completion of a command line for shells, from the rows of help. `hashattn WORD... --complete` prints what
   the last WORD, which may be empty, can become: one candidate per line, followed by a tab and its help if it
   has any. The line ":files" means names of files, ":files npy" those that end in ".npy", ":directories"
   directories. cli/completions/ has the scripts that call it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMPLETE_H
#define CLI_COMPLETE_H

#include "cli/shared/options/command_options.h"

/* True if the last argument is --complete. */
bool complete_wanted(int argc, char **argv);
/* Prints prefix + value and its help (NULL: none) if the value begins with `word`. */
void complete_offer(const char *word, const char *prefix, const char *value, const char *help);
/* Completes the last word of a command's arguments; argv[0] is the command. */
void complete_options(const struct options *options, int argc, char **argv);

#endif
