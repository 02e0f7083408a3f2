/* The command line as a table. A command lists its own options; the library lists those of its mechanisms,
   tasks, models and training, and says itself what is allowed, so a new mechanism has its options here
   without a line. Errors name the option and the nearest ones there are. SPDX-License-Identifier: Apache-2.0
 */
#ifndef CLI_ARGUMENTS_H
#define CLI_ARGUMENTS_H

#include "cli/shared/command.h"

enum option_kind {
    OPTION_TEXT,   /* target: const char * */
    OPTION_COUNT,  /* target: size_t, minimum to maximum */
    OPTION_NUMBER, /* target: double, minimum to maximum */
    OPTION_SEED,   /* target: uint64_t */
    OPTION_SWITCH, /* target: int, set to 1 */
};

struct option {
    const char *name; /* "grad-out" */
    enum option_kind kind;
    void *target;         /* left alone unless the option is given */
    const char *argument; /* "FILE" in the help; NULL for a switch */
    const char *help;     /* with the default, where it is not plain */
    double minimum, maximum;
};

/* An option of the library that was given: its name there ("num_hashes", or of one mechanism among several
   "lha.num_buckets") and its text. */
struct setting {
    char name[64];
    const char *text;
};

enum { MOST_OPTIONS = 48, MOST_LIBRARY = 512, MOST_SETTINGS = 64, MOST_OPERANDS = 4 };

struct options {
    const struct command *command;
    struct common common;
    struct option rows[MOST_OPTIONS];
    size_t num_rows;
    hashattn_option library[MOST_LIBRARY];
    size_t num_library;
    struct setting settings[MOST_SETTINGS];
    size_t num_settings;
    const char *operands[MOST_OPERANDS];
    size_t num_operands;
    int help;
};

/* Empty, with the common options and their defaults. */
void options_begin(struct options *options, const struct command *command);
void options_add(struct options *options, struct option row);
/* A second one of the same name is the same option; those of mechanisms are listed apart where they differ,
   in a range or in what they mean. */
void options_add_library(struct options *options, const hashattn_option *row);
/* All options of all mechanisms. */
void options_add_mechanisms(struct options *options);
/* The options that setups of the task named have, with its defaults, or those of every task where none has
   that name; of this owner ("task"), or of all (NULL). */
void options_add_tasks(struct options *options, const char *owner, const char *named);

/* True: go on. False: leave with *code, after --help was printed or a mistake was told. */
bool options_parse(struct options *options, int argc, char **argv, int *code);

/* A mechanism with the options of the command line, each of which it must have. Freed by the caller after a
   failure too. */
hashattn_status options_mechanism(const struct options *options, hashattn_context *context, const char *name,
                                  hashattn_attention **attention);

/* A setup of this task as the command line wants it: the preset first, then the mechanism (NULL: none was
   given), then every option and the seed. Freed by the caller after a failure too. */
hashattn_status options_setup(const struct options *options, hashattn_context *context, const char *task,
                              const char *preset, const char *mechanism, hashattn_setup **setup);

/* A usage error that points to --help. */
int options_fail(const struct options *options, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
