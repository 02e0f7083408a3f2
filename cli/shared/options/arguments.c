/* Options are --name value or --name=value, anywhere among the operands; "--" ends them.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/options/arguments.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/shared/options/complete.h"
#include "cli/shared/options/help.h"
#include "cli/shared/options/suggest.h"

static size_t first_named(const struct options *options, const char *name)
{
    size_t i = 0;
    while (strcmp(options->library[i].name, name) != 0)
        i++;
    return i;
}

static int fail_unknown(const struct options *options, const char *name)
{
    const char *names[MOST_OPTIONS + MOST_LIBRARY];
    char dashed[MOST_LIBRARY][OPTION_NAME], near[200];
    size_t count = 0;
    for (size_t i = 0; i < options->num_rows; i++)
        names[count++] = options->rows[i].name;
    for (size_t i = 0; i < options->num_library; i++) {
        if (first_named(options, options->library[i].name) != i)
            continue;
        options_dashed(options->library[i].name, dashed[i]);
        names[count++] = dashed[i];
    }
    suggest(name, names, count, "--", near, sizeof near);
    return options_fail(options, "%s has no option --%s%s", options->command->name, name, near);
}

enum { MOST_NAMES = 128 };

/* The names, for a message. */
static const char *list_names(const char *const *names, size_t count, char *text, size_t size)
{
    size_t used = 0;
    *text = '\0';
    for (size_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i == 0 ? "" : ", ", names[i]);
    return text;
}

int options_check_name(const struct options *options, const char *what, const char *word,
                       const char *const *names, size_t count)
{
    char near[200], all[1000];
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], word) == 0)
            return EXIT_GOOD;
    suggest(word, names, count, "", near, sizeof near);
    list_names(names, count, all, sizeof all);
    return *near == '\0' ? options_fail(options, "no %s '%.60s', there are: %s", what, word, all)
                         : options_fail(options, "no %s '%.60s'%s There are: %s", what, word, near, all);
}

int options_check_task(const struct options *options, const char *word)
{
    const char *names[MOST_NAMES];
    size_t count = 0;
    hashattn_task_info task = {.struct_size = sizeof task};
    for (; count < MOST_NAMES && hashattn_task_get(count, &task); count++)
        names[count] = task.name;
    return options_check_name(options, "task", word, names, count);
}

int options_check_mechanism(const struct options *options, const char *word)
{
    const char *names[MOST_NAMES];
    size_t count = 0;
    hashattn_mechanism_info info = {.struct_size = sizeof info};
    for (; count < MOST_NAMES && hashattn_mechanism_get(count, &info); count++)
        names[count] = info.name;
    for (;; word++) {
        char part[64];
        size_t size = strcspn(word, ",/*");
        snprintf(part, sizeof part, "%.*s", (int)size, word);
        int code = options_check_name(options, "mechanism", part, names, count);
        if (code != EXIT_GOOD)
            return code;
        word += size;
        if (*word == '*') /* and its number of heads */
            word += strcspn(word, ",/");
        if (*word == '\0')
            return EXIT_GOOD;
    }
}

static int set_count(const struct options *options, const struct option *row, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    bool is_number = end != text && *end == '\0' && text[strspn(text, " \t")] != '-' && errno == 0;
    if (row->kind == OPTION_SEED) {
        *(uint64_t *)row->target = value;
        return is_number
                   ? EXIT_GOOD
                   : options_fail(options, "--%s is '%.60s'; it must be a whole number from 0 to 2^64 - 1",
                                  row->name, text);
    }
    if (!is_number || (double)value < row->minimum || (double)value > row->maximum)
        return options_fail(options, "--%s is '%.60s'; it must be a whole number from %.0f to %.0f",
                            row->name, text, row->minimum, row->maximum);
    *(size_t *)row->target = (size_t)value;
    return EXIT_GOOD;
}

bool options_read_number(const char *text, double *number)
{
    char *end;
    errno = 0;
    *number = strtod(text, &end);
    bool lost = *number == 0 && errno == ERANGE;
    return end != text && *end == '\0' && strpbrk(text, "xX") == NULL && isfinite(*number) && !lost;
}

static int set_number(const struct options *options, const struct option *row, const char *text)
{
    double value;
    if (!options_read_number(text, &value) || !(value >= row->minimum && value <= row->maximum))
        return options_fail(options, "--%s is '%.60s'; it must be a number from %g to %g", row->name, text,
                            row->minimum, row->maximum);
    *(double *)row->target = value;
    return EXIT_GOOD;
}

static int add_to_list(const struct options *options, const struct option *row, const char *text)
{
    struct text_list *list = row->target;
    if (list->count == MOST_OPERANDS)
        return options_fail(options, "--%s is given more than %d times", row->name, MOST_OPERANDS);
    list->items[list->count++] = text;
    return EXIT_GOOD;
}

static int set_row(const struct options *options, const struct option *row, const char *text)
{
    switch (row->kind) {
    case OPTION_LIST:
        return add_to_list(options, row, text);
    case OPTION_TEXT:
        *(const char **)row->target = text;
        return strcmp(row->name, "attention") == 0 ? options_check_mechanism(options, text) : EXIT_GOOD;
    case OPTION_SEED:
    case OPTION_COUNT:
        return set_count(options, row, text);
    case OPTION_NUMBER:
        return set_number(options, row, text);
    case OPTION_SWITCH:
        *(int *)row->target = 1;
        return EXIT_GOOD;
    }
    return EXIT_USAGE;
}

/* Parses one argument that begins with "--"; *used becomes 2 if the next one is its value. */
static int parse_option(struct options *options, int left, char **argv, int *used)
{
    char name[64];
    const char *equals = strchr(argv[0], '=');
    int length = equals != NULL ? (int)(equals - argv[0] - 2) : (int)strlen(argv[0]) - 2;
    snprintf(name, sizeof name, "%.*s", length, argv[0] + 2);
    const hashattn_option *library = NULL;
    bool negated = false;
    size_t scope = options_scope(name);
    const struct option *row = options_find(options, name + scope, &library, &negated);
    if ((row == NULL && library == NULL) ||
        (scope > 0 && (library == NULL || strcmp(library->owner, "attention") != 0)))
        return fail_unknown(options, name);
    bool is_switch = row != NULL ? row->kind == OPTION_SWITCH : library->type == HASHATTN_OPTION_FLAG;
    const char *text = equals != NULL ? equals + 1 : NULL;
    if (text != NULL && (negated || (row != NULL && is_switch)))
        return options_fail(options, "--%s takes no value", name);
    if (text == NULL && is_switch)
        text = negated ? "false" : "true";
    if (text == NULL) {
        if (left < 2)
            return options_fail(options, "--%s needs a value", name);
        text = argv[1];
        *used = 2;
    }
    if (row != NULL) {
        options->common.seed_given |= row->target == (const void *)&options->common.seed;
        return set_row(options, row, text);
    }
    if (options->num_settings == MOST_SETTINGS)
        return options_fail(options, "more than %d options of mechanisms, task, model and training",
                            MOST_SETTINGS);
    struct setting *setting = &options->settings[options->num_settings++];
    snprintf(setting->name, sizeof setting->name, "%.*s%.40s", (int)scope, name, library->name);
    setting->text = text;
    return EXIT_GOOD;
}

static int parse(struct options *options, int argc, char **argv)
{
    bool only_operands = false;
    for (int i = 1, used = 1; i < argc; i += used, used = 1) {
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = true;
        } else if (!only_operands && strncmp(argv[i], "--", 2) == 0) {
            int code = parse_option(options, argc - i, argv + i, &used);
            if (code != EXIT_GOOD)
                return code;
        } else if (!only_operands && argv[i][0] == '-' && argv[i][1] != '\0') {
            return options_fail(options, "unknown option %.60s: options begin with two dashes", argv[i]);
        } else if (options->num_operands == MOST_OPERANDS) {
            return options_fail(options, "more than %d operands; the first one too many is '%.60s'",
                                MOST_OPERANDS, argv[i]);
        } else {
            options->operands[options->num_operands++] = argv[i];
        }
    }
    return EXIT_GOOD;
}

/* The value of --attention, for the help; NULL: none. */
static const char *given_attention(int argc, char **argv)
{
    static const char option[] = "--attention";
    for (int i = 1; i < argc; i++) {
        size_t size = sizeof option - 1;
        if (strncmp(argv[i], option, size) == 0 && argv[i][size] == '=')
            return argv[i] + size + 1;
        if (strcmp(argv[i], option) == 0 && i + 1 < argc && argv[i + 1][0] != '-')
            return argv[i + 1];
    }
    return NULL;
}

bool options_parse(struct options *options, int argc, char **argv, int *code)
{
    if (complete_wanted(argc, argv)) {
        complete_options(options, argc, argv);
        *code = tool_finish();
        return false;
    }
    /* --help works even if the rest of the line is wrong. */
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        struct page page = {.stream = stdout};
        if (page_wanted(argv[i], &page)) {
            help_print(options, given_attention(argc, argv), &page);
            *code = tool_finish();
            return false;
        }
    }
    *code = parse(options, argc, argv);
    return *code == EXIT_GOOD;
}

/* ---- what was given, for the library ---- */

hashattn_status options_mechanism(const struct options *options, hashattn_context *context, const char *name,
                                  hashattn_attention **attention)
{
    hashattn_status status = hashattn_attention_new(context, name, attention);
    for (size_t i = 0; i < options->num_settings && status == HASHATTN_OK; i++)
        status = hashattn_attention_set(*attention, options->settings[i].name, options->settings[i].text);
    return status;
}

hashattn_status options_setup(const struct options *options, hashattn_context *context, const char *task,
                              const char *preset, const char *from, const char *mechanism,
                              hashattn_setup **setup)
{
    hashattn_status status = hashattn_setup_new(context, task, setup);
    if (status == HASHATTN_OK && preset != NULL)
        status = hashattn_setup_preset(*setup, preset);
    if (status == HASHATTN_OK && from != NULL)
        status = hashattn_setup_from(*setup, from);
    if (status == HASHATTN_OK && options->size != NULL)
        status = hashattn_setup_size(*setup, options->size);
    if (status == HASHATTN_OK && mechanism != NULL)
        status = hashattn_setup_mechanism(*setup, mechanism);
    for (size_t i = 0; i < options->num_settings && status == HASHATTN_OK; i++)
        status = hashattn_setup_set(*setup, options->settings[i].name, options->settings[i].text);
    char seed[32];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)options->common.seed);
    return status != HASHATTN_OK ? status : hashattn_setup_set(*setup, "seed", seed);
}
