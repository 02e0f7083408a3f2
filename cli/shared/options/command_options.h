/* The options of a command as a table, for parsing (arguments.h), help and completion. A command lists its
   own options. The library lists those of mechanisms, tasks, models and training, so a new mechanism needs no
   line here.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMAND_OPTIONS_H
#define CLI_COMMAND_OPTIONS_H

#include "cli/shared/tool/command.h"

enum option_kind {
    OPTION_TEXT,   /* target: const char * */
    OPTION_COUNT,  /* target: size_t, minimum to maximum */
    OPTION_NUMBER, /* target: double, minimum to maximum */
    OPTION_SEED,   /* target: uint64_t */
    OPTION_SWITCH, /* target: int, set to 1 */
    OPTION_LIST,   /* target: struct text_list; the option may be repeated */
};

struct option {
    const char *name; /* "grad-out" */
    enum option_kind kind;
    void *target;
    const char *argument; /* in the help; NULL for a switch. Completion knows FILE and names with a dot, as in
                             Q.npy, as files, and DIR and RUN as directories */
    const char *help;     /* includes the default unless it is obvious */
    double minimum, maximum;   /* of counts and numbers */
    const char *const *values; /* that completion offers, ended by NULL; or NULL */
    bool hidden;               /* not in the help: it does not apply to the named task */
};

/* A given option of the library: its name there ("num_hashes", or "lha.num_buckets" for one mechanism of
   several) and its value as text. */
struct setting {
    char name[64];
    const char *text;
};

enum {
    OPTION_NAME = 48,
    MOST_OPTIONS = 48,
    MOST_LIBRARY = 512,
    MOST_SETTINGS = 64,
    MOST_OPERANDS = 1024,
    MOST_PRESETS = 32,
    MOST_SIZES = 8
};

struct text_list {
    const char *items[MOST_OPERANDS];
    size_t count;
};

struct options {
    const struct command *command;
    struct common common;
    struct option rows[MOST_OPTIONS];
    size_t num_rows;
    hashattn_option library[MOST_LIBRARY];
    size_t num_library;
    bool only_generated;                   /* completion offers only tasks that `data` makes */
    const char *size;                      /* of --size, or NULL */
    const char *presets[MOST_PRESETS + 1]; /* ended by NULL: what --preset offers */
    char preset_help[320];
    const char *sizes[MOST_SIZES + 1]; /* ended by NULL: what --size offers */
    const char *task;                  /* the named task; NULL: none is named */
    const char *task_sets;             /* hashattn_task_info.attention of that task */
    struct setting settings[MOST_SETTINGS];
    size_t num_settings;
    const char *operands[MOST_OPERANDS];
    size_t num_operands;
    int help;
};

/* Starts with the common options and their defaults. */
void options_begin(struct options *options, const struct command *command);
/* Add one option with its target, which is written only if the option is given. */
void options_add_text(struct options *options, const char *name, const char **target, const char *argument,
                      const char *help);
void options_add_count(struct options *options, const char *name, size_t *target, const char *argument,
                       const char *help, double minimum, double maximum);
void options_add_number(struct options *options, const char *name, double *target, const char *argument,
                        const char *help, double minimum, double maximum);
void options_add_switch(struct options *options, const char *name, int *target, const char *help);
void options_add_list(struct options *options, const char *name, struct text_list *target,
                      const char *argument, const char *help);
/* Adds --device: the context that tool_open makes is of that device. */
void options_add_device(struct options *options);
/* Lets ranks share the command, with the option --comm-timeout. */
void options_add_ranks(struct options *options);
/* The options --split, and --preset with --size, of several commands. named: the task whose presets are
   offered; all are if no task has that name. */
void options_add_split(struct options *options, const char **split, const char *help);
void options_add_preset(struct options *options, const char **preset, const char *named);
/* The option that was added last applies to tasks that forecast; the help of the task `named` has it only if
   that one does. */
void options_only_forecasts(struct options *options, const char *named);
/* Completion offers these values for the option that was added last; the list must outlive `options`. */
void options_offer(struct options *options, const char *const *values);
/* A second row of the same name is ignored, except that an option is read if one of them is. Rows of
   mechanisms are ignored only if they are identical: options of one name with different ranges or meanings
   are listed separately. */
void options_add_library(struct options *options, const hashattn_option *row);
/* Adds all options of all mechanisms. */
void options_add_mechanisms(struct options *options);
/* Adds the setup options of the task `named`, with its defaults, or of every task if no task has that name.
   owner: only options of this owner ("task"); NULL: all but those of "data", which only the data command
   has. */
void options_add_tasks(struct options *options, const char *owner, const char *named);

/* ---- names ---- */

/* The library's name as on the command line: "num-hashes" for "num_hashes". */
void options_dashed(const char *name, char dashed[OPTION_NAME]);
/* True if the rows agree in every field. Mechanisms may have different options of the same name. */
bool options_same(const hashattn_option *a, const hashattn_option *b);
/* Returns the table row called `name`, or NULL; then *library, NULL before, becomes the library's row if
   there is one. "no-x" finds the flag x of the library and sets *negated. */
const struct option *options_find(const struct options *options, const char *name,
                                  const hashattn_option **library, bool *negated);
/* Length of the prefix "MECHANISM." of an option's name, or 0. */
size_t options_scope(const char *name);

/* Report a usage error, with similar names, if the word is no task, or if a part of it is no mechanism
   ("local*5,lha*5/lha"). */
int options_check_task(const struct options *options, const char *word);
int options_check_mechanism(const struct options *options, const char *word);
/* The same if `word` is none of the names; what: what they are, in the message. */
int options_check_name(const struct options *options, const char *what, const char *word,
                       const char *const *names, size_t count);
/* Reports a usage error that points to --help, that of the named task if there is one; returns EXIT_USAGE. */
int options_fail(const struct options *options, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
