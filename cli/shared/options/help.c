/* Options of mechanisms are grouped by the mechanisms that have them, the others by what they belong to.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/options/help.h"

#include <string.h>

enum { OPTION_COLUMN = 30, KIND_COLUMN = 29 };

static void print_own(const struct options *options, size_t from, size_t to, struct page *page)
{
    for (size_t i = from; i < to; i++) {
        const struct option *row = &options->rows[i];
        char left[80];
        if (row->hidden)
            continue;
        snprintf(left, sizeof left, "--%s%s%s", row->name, row->argument == NULL ? "" : " ",
                 row->argument == NULL ? "" : row->argument);
        page_entry(page, OPTION_COLUMN, left, row->help);
    }
}

static void print_library_entry(const hashattn_option *row, struct page *page)
{
    char left[80], right[500], dashed[OPTION_NAME];
    static const char *const arguments[] = {" N", " X", " NAME", "", " TEXT"};
    options_dashed(row->name, dashed);
    snprintf(left, sizeof left, "--%s%s", dashed, arguments[row->type]);
    size_t used = (size_t)snprintf(right, sizeof right, "%s", row->help);
    if (row->type == HASHATTN_OPTION_INT || row->type == HASHATTN_OPTION_REAL)
        snprintf(right + used, sizeof right - used, " (%.12g to %.12g; default %s)", row->minimum,
                 row->maximum, row->preset);
    for (const char *const *choice = row->choices; choice != NULL && *choice != NULL; choice++) {
        used = strlen(right);
        snprintf(right + used, sizeof right - used, "%s%s", choice == row->choices ? ": " : ", ", *choice);
    }
    used = strlen(right);
    bool told = row->type == HASHATTN_OPTION_CHOICE || row->type == HASHATTN_OPTION_TEXT;
    if (told && row->preset[0] != '\0') /* the sentence tells what an empty text means */
        snprintf(right + used, sizeof right - used, " (default %s)", row->preset);
    if (row->type == HASHATTN_OPTION_FLAG && strcmp(row->preset, "true") == 0)
        snprintf(right + used, sizeof right - used, " (default true; --no-%s turns it off)", dashed);
    page_entry(page, OPTION_COLUMN, left, right);
}

static void print_library(const struct options *options, const char *owner, const char *title,
                          struct page *page)
{
    bool titled = false;
    for (size_t i = 0; i < options->num_library; i++) {
        if (strcmp(options->library[i].owner, owner) != 0 || options->library[i].unread)
            continue;
        if (!titled)
            page_section(page, title);
        titled = true;
        print_library_entry(&options->library[i], page);
    }
}

/* The word is a part of the plan, "local*5,lha*5". NULL: any is. */
static bool is_named(const char *plan, const char *word)
{
    if (plan == NULL)
        return true;
    for (;; plan++) {
        size_t size = strcspn(plan, ",/*");
        if (size == strlen(word) && strncmp(plan, word, size) == 0)
            return true;
        plan += strcspn(plan, ",/");
        if (*plan == '\0')
            return false;
    }
}

/* The mechanisms that have exactly this option: "lha, lsh, random"; "" if the plan names none of them. */
static void name_owners(const hashattn_option *option, const char *plan, char *text, size_t size)
{
    bool named = false;
    hashattn_mechanism_info mechanism = {.struct_size = sizeof mechanism};
    hashattn_option row = {.struct_size = sizeof row};
    size_t used = 0;
    *text = '\0';
    for (size_t i = 0; hashattn_mechanism_get(i, &mechanism); i++)
        for (size_t j = 0; hashattn_mechanism_option(i, j, &row) && used < size; j++)
            if (options_same(&row, option)) {
                named |= is_named(plan, mechanism.name);
                used +=
                    (size_t)snprintf(text + used, size - used, "%s%s", used == 0 ? "" : ", ", mechanism.name);
            }
    if (!named)
        *text = '\0';
}

/* Groups options by the set of mechanisms that have them: of all mechanisms, or those of the plan. */
static void print_mechanisms(const struct options *options, const char *plan, struct page *page)
{
    char owners[MOST_LIBRARY][200];
    for (size_t i = 0; i < options->num_library; i++) /* "" for options of a task, a model or training */
        name_owners(&options->library[i], plan, owners[i], sizeof owners[i]);
    for (size_t i = 0; i < options->num_library; i++) {
        bool titled = *owners[i] == '\0';
        for (size_t j = 0; j < i && !titled; j++)
            titled = strcmp(owners[i], owners[j]) == 0;
        if (titled)
            continue;
        char title[240];
        snprintf(title, sizeof title, "options of %.200s", owners[i]);
        page_section(page, title);
        for (size_t j = i; j < options->num_library; j++)
            if (strcmp(owners[i], owners[j]) == 0)
                print_library_entry(&options->library[j], page);
    }
}

/* "yoso.hash_bits=8 joint=1" as "--yoso.hash-bits 8 --joint 1". */
static void print_task_sets(const char *sets, struct page *page)
{
    char text[300] = "Defaults of this task: --";
    size_t used = strlen(text);
    for (; *sets != '\0' && used + 4 < sizeof text; sets++)
        if (*sets == ' ')
            used += (size_t)snprintf(text + used, sizeof text - used, " --");
        else
            text[used++] = *sets == '_' ? '-' : *sets == '=' ? ' ' : *sets;
    text[used] = '\0';
    page_paragraph(page, text);
}

static void print_kinds(const struct command *command, struct page *page)
{
    if (command->kinds == NULL)
        return;
    page_section(page, "kinds, each with its own help");
    for (const struct command *const *kind = command->kinds; *kind != NULL; kind++) {
        char left[60];
        snprintf(left, sizeof left, "hashattn %s", (*kind)->name);
        page_entry(page, KIND_COLUMN, left, (*kind)->summary);
    }
}

void help_print(const struct options *options, const char *plan, struct page *page)
{
    const struct command *command = options->command;
    size_t num_common = 0;
    while (options->rows[num_common].target != (const void *)&options->help)
        num_common++;
    page_begin(page, command->name, command->operands, command->summary);
    print_kinds(command, page);
    if (options->num_rows > num_common + 1) {
        page_section(page, "options");
        print_own(options, num_common + 1, options->num_rows, page);
    }
    print_library(options, "training", "options of the training", page);
    print_library(options, "task", "options of the task", page);
    print_library(options, "data", "options of the data", page);
    print_library(options, "model", "options of the model", page);
    page_section(page, "options of every command");
    print_own(options, 0, num_common + 1, page);
    if (options->task_sets != NULL && *options->task_sets != '\0')
        print_task_sets(options->task_sets, page);
    print_mechanisms(options, plan, page);
    page_section(page, "example");
    page_example(page, command->example);
    page_refer(page, "");
    for (const struct command *const *kind = command->kinds; kind != NULL && *kind != NULL; kind++)
        page_refer(page, (*kind)->name);
    page_end(page);
}
