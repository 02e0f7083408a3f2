/* Walks over the words as the parser does, but without errors: an unknown option has no value.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/options/complete.h"

#include <string.h>

bool complete_wanted(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[argc - 1], "--complete") == 0;
}

void complete_offer(const char *word, const char *prefix, const char *value, const char *help)
{
    if (strncmp(value, word, strlen(word)) == 0)
        printf("%s%s%s%s\n", prefix, value, help == NULL ? "" : "\t", help == NULL ? "" : help);
}

/* ---- values -------------------------------------------------------------------------------------------- */

/* By the name of an argument or operand: FILE, Q.npy, DIR, RUN. */
static void offer_paths(const char *argument)
{
    const char *dot = strchr(argument, '.');
    if (strcmp(argument, "FILE") == 0 || strcmp(argument, "FILE...") == 0)
        printf(":files\n");
    else if (strcmp(argument, "DIR") == 0 || strcmp(argument, "RUN") == 0 || strcmp(argument, "RUN...") == 0)
        printf(":directories\n");
    else if (dot != NULL && dot[1] != '.') /* "N,..." is a list of numbers */
        printf(":files %s\n", dot + 1);
}

static void offer_tasks(const struct options *options, const char *word)
{
    hashattn_task_info task = {.struct_size = sizeof task};
    for (size_t i = 0; hashattn_task_get(i, &task); i++)
        if (task.generates || task.prepares || !options->only_generated)
            complete_offer(word, "", task.name, task.summary);
}

/* Mechanisms may be a list, "local*5,lha*5/lha": the last one is completed. */
static void offer_mechanisms(const char *word, const char *prefix)
{
    char all[200];
    size_t before = strlen(word);
    while (before > 0 && strchr(",/", word[before - 1]) == NULL)
        before--;
    snprintf(all, sizeof all, "%s%.*s", prefix, (int)before, word);
    hashattn_mechanism_info mechanism = {.struct_size = sizeof mechanism};
    for (size_t i = 0; hashattn_mechanism_get(i, &mechanism); i++)
        complete_offer(word + before, all, mechanism.name, mechanism.summary);
}

static void offer_values(const struct option *row, const hashattn_option *library, const char *word,
                         const char *prefix)
{
    const char *const *values = row != NULL ? row->values : library->choices;
    if (row != NULL && strcmp(row->name, "attention") == 0)
        offer_mechanisms(word, prefix);
    for (; values != NULL && *values != NULL; values++)
        complete_offer(word, prefix, *values, NULL);
    if (row != NULL && strcmp(row->name, "isa") == 0)
        complete_offer(word, prefix, "auto", NULL);
    if (row != NULL && row->values == NULL && row->argument != NULL)
        offer_paths(row->argument);
}

/* ---- names --------------------------------------------------------------------------------------------- */

static void offer_library(const char *word, const char *prefix, const hashattn_option *row)
{
    char dashed[OPTION_NAME], negated[OPTION_NAME + 3];
    options_dashed(row->name, dashed);
    complete_offer(word, prefix, dashed, row->help);
    snprintf(negated, sizeof negated, "no-%s", dashed);
    if (row->type == HASHATTN_OPTION_FLAG && strcmp(row->preset, "true") == 0)
        complete_offer(word, prefix, negated, row->help);
}

/* word: after the two dashes. "lha." is completed with the options of lha. */
static void offer_names(const struct options *options, const char *word)
{
    size_t scope = options_scope(word);
    char prefix[100];
    snprintf(prefix, sizeof prefix, "--%.*s", (int)scope, word);
    if (scope > 0) {
        hashattn_mechanism_info mechanism = {.struct_size = sizeof mechanism};
        hashattn_option row = {.struct_size = sizeof row};
        for (size_t i = 0; hashattn_mechanism_get(i, &mechanism); i++)
            for (size_t j = 0;
                 strlen(mechanism.name) == scope - 1 && strncmp(mechanism.name, word, scope - 1) == 0 &&
                 hashattn_mechanism_option(i, j, &row);
                 j++)
                offer_library(word + scope, prefix, &row);
        return;
    }
    for (size_t i = 0; i < options->num_rows; i++)
        if (!options->rows[i].hidden)
            complete_offer(word, prefix, options->rows[i].name, options->rows[i].help);
    for (size_t i = 0; i < options->num_library; i++) {
        size_t first = 0; /* options of one name differ between mechanisms; the first one is offered */
        while (strcmp(options->library[first].name, options->library[i].name) != 0)
            first++;
        if (first == i && !options->library[i].unread)
            offer_library(word, prefix, &options->library[i]);
    }
}

/* ---- the line ------------------------------------------------------------------------------------------ */

/* The row of "--name", without what follows "=": true if it takes a value. */
static bool takes_value(const struct options *options, const char *word, const struct option **row,
                        const hashattn_option **library)
{
    char name[64];
    bool negated = false;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    *library = NULL;
    *row = options_find(options, name + options_scope(name), library, &negated);
    return *row != NULL ? (*row)->kind != OPTION_SWITCH
                        : *library != NULL && (*library)->type != HASHATTN_OPTION_FLAG;
}

/* The operand `index` of "RUN FILE". */
static void offer_operand(const struct options *options, size_t index, const char *word)
{
    const struct command *command = options->command;
    const char *operand = command->operands;
    for (; index > 0 && *operand != '\0' && strcmp(operand, "FILE...") != 0 && strcmp(operand, "RUN...") != 0;
         index--) {
        operand += strcspn(operand, " ");
        operand += strspn(operand, " ");
    }
    char name[20];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(operand, " "), operand);
    for (const struct command *const *kind = command->kinds; kind != NULL && *kind != NULL; kind++)
        if (strcmp(name, "KIND") == 0)
            complete_offer(word, "", strchr((*kind)->name, ' ') + 1, (*kind)->summary);
    if (strcmp(name, "TASK") == 0)
        offer_tasks(options, word);
    else
        offer_paths(name);
    if (name[0] == '\0' && word[0] == '\0') /* nothing but options is left */
        offer_names(options, "");
}

void complete_options(const struct options *options, int argc, char **argv)
{
    const struct option *row;
    const hashattn_option *library;
    const char *word = argv[argc - 2];
    size_t operands = 0;
    bool only_operands = false;
    if (argc < 3) { /* `bench peak`: the word is the command itself, a kind of bench */
        complete_offer(word, "", word, options->command->summary);
        return;
    }
    for (int i = 1; i < argc - 2; i++) {
        if (!only_operands && strcmp(argv[i], "--") == 0)
            only_operands = true;
        else if (only_operands || strncmp(argv[i], "--", 2) != 0)
            operands++;
        else if (takes_value(options, argv[i], &row, &library) && strchr(argv[i], '=') == NULL) {
            if (i == argc - 3) {
                offer_values(row, library, word, "");
                return;
            }
            i++;
        }
    }
    const char *equals = strchr(word, '=');
    if (only_operands || word[0] != '-') {
        offer_operand(options, operands, word);
    } else if (strncmp(word, "--", 2) == 0 && equals != NULL) {
        char prefix[100];
        snprintf(prefix, sizeof prefix, "%.*s", (int)(equals + 1 - word), word);
        if (takes_value(options, word, &row, &library))
            offer_values(row, library, equals + 1, prefix);
    } else if (strncmp("--", word, 2) == 0 || strcmp(word, "-") == 0) {
        offer_names(options, word + (word[1] == '-' ? 2 : 1));
    }
}
