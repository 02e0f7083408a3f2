/* The arguments of a command: parses them by the table of its options (command_options.h) and hands what was
   given to the library, which checks the values of its own options. Errors name the option and suggest
   similar ones.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_ARGUMENTS_H
#define CLI_ARGUMENTS_H

#include "cli/shared/options/command_options.h"

/* Returns true to continue, false to exit with *code after printing help, completions or an error. */
bool options_parse(struct options *options, int argc, char **argv, int *code);

/* Reads a decimal number, to its end. False: it is none, is hexadecimal, is no finite number, or is not 0 and
   would become 0. */
bool options_read_number(const char *text, double *number);

/* A mechanism with all options of the command line; an option that it does not have is an error. The caller
   frees *attention, also after a failure. */
hashattn_status options_mechanism(const struct options *options, hashattn_context *context, const char *name,
                                  hashattn_attention **attention);

/* A setup of this task from the command line: first the preset, then the stored model to start from, the size
   and the mechanism (NULL: not given), then all options and the seed. The caller frees *setup, also after a
   failure. */
hashattn_status options_setup(const struct options *options, hashattn_context *context, const char *task,
                              const char *preset, const char *from, const char *mechanism,
                              hashattn_setup **setup);

#endif
