/* The command that repeats a run, from its config.json. Options are set in a fresh setup of the same task,
   stored model and mechanism; those that change it are written. If the stored model is gone, all are written
   that differ from the task's.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/report/report.h"
#include "cli/shared/pictures/html.h"

struct replay {
    report_take *take;
    void *user;
    hashattn_setup *setup; /* NULL: this version lacks the task or the mechanism; every option is taken */
    const char *scope;     /* "lha." for options of one mechanism of several, or "" */
    bool has_epochs;       /* steps follow from epochs */
};

/* Text as one word of a shell, escaped for the page. */
static void write_word(FILE *page, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,/:@%";
    if (*text != '\0' && text[strspn(text, plain)] == '\0') {
        html_text(page, text);
        return;
    }
    fputs("&#39;", page);
    char part[256]; /* ends at a whole character */
    while (*text != '\0') {
        size_t size = strcspn(text, "'");
        if (size == 0) {
            fputs("&#39;\\&#39;&#39;", page);
            text++;
            continue;
        }
        if (size >= sizeof part)
            for (size = sizeof part - 1;
                 size > sizeof part - 4 && ((unsigned char)text[size] & 0xc0) == 0x80;)
                size--;
        memcpy(part, text, size);
        part[size] = '\0';
        html_text(page, part);
        text += size;
    }
    fputs("&#39;", page);
}

/* A flag has no value: --name or --no-name. */
static void write_option(void *page, const char *name, const char *text, bool is_flag)
{
    char option[2 * REPORT_KEY + 8];
    snprintf(option, sizeof option, "--%s%s", is_flag && strcmp(text, "false") == 0 ? "no-" : "", name);
    fputc(' ', page);
    write_word(page, option);
    if (is_flag)
        return;
    fputc(' ', page);
    write_word(page, text);
}

/* name: with the scope, which the rows have not. */
static bool is_flag(const struct replay *replay, const char *name)
{
    hashattn_option row = {.struct_size = sizeof row};
    const char *own = name + strlen(replay->scope);
    for (size_t i = 0; replay->setup != NULL && hashattn_setup_option(replay->setup, i, &row); i++)
        if (strcmp(row.name, own) == 0)
            return row.type == HASHATTN_OPTION_FLAG;
    return false;
}

/* As on the command line, with hyphens. */
static void take_option(const struct replay *replay, const char *name, const char *text)
{
    char hyphens[2 * REPORT_KEY];
    snprintf(hyphens, sizeof hyphens, "%s", name);
    for (char *c = hyphens; *c != '\0'; c++)
        *c = *c == '_' ? '-' : *c;
    replay->take(replay->user, hyphens, text, is_flag(replay, name));
}

static int replay_option(void *user, const char *key, const hashattn_value *value)
{
    struct replay *replay = user;
    char name[2 * REPORT_KEY], before[300] = "", after[300] = "", number[HASHATTN_NUMBER_TEXT];
    const char *text = hashattn_value_text(value, number);
    if (key == NULL)
        return 0;
    if (text == NULL) {
        struct replay inner = *replay;
        snprintf(name, sizeof name, "%.60s.", key);
        inner.scope = name;
        if (hashattn_value_count(value) > 0 && replay->scope[0] == '\0')
            hashattn_value_each(value, replay_option, &inner);
        return 0;
    }
    if (replay->has_epochs && strcmp(key, "steps") == 0)
        return 0;
    snprintf(name, sizeof name, "%s%.60s", replay->scope, key);
    bool known = replay->setup != NULL &&
                 hashattn_setup_get(replay->setup, name, before, sizeof before) == HASHATTN_OK &&
                 hashattn_setup_set(replay->setup, name, text) == HASHATTN_OK &&
                 hashattn_setup_get(replay->setup, name, after, sizeof after) == HASHATTN_OK;
    if (known ? strcmp(before, after) != 0 : replay->setup == NULL)
        take_option(replay, name, text);
    return 0;
}

/* A fresh setup of the run's task and mechanism, from the stored model unless that is ""; NULL if it cannot
   be made. */
static hashattn_setup *setup_of(hashattn_context *context, const struct report_run *run, const char *from)
{
    char task[HASHATTN_NUMBER_TEXT], plan[HASHATTN_NUMBER_TEXT];
    hashattn_setup *setup = NULL;
    hashattn_status status = hashattn_setup_new(context, report_run_setting(run, "task.name", task), &setup);
    if (status == HASHATTN_OK && *from != '\0')
        status = hashattn_setup_from(setup, from);
    if (status == HASHATTN_OK)
        status = hashattn_setup_mechanism(setup, report_run_setting(run, "attention.name", plan));
    if (status != HASHATTN_OK) {
        hashattn_setup_free(setup);
        return NULL;
    }
    return setup;
}

void report_each_option(hashattn_context *context, const struct report_run *run, report_take *take,
                        void *user)
{
    static const char *const owners[] = {"task.options", "model", "attention.options", "training"};
    static const char *const others[][3] = {{"precision", "model.precision", "float32"},
                                            {"freeze", "freeze", ""}}; /* name, path, default */
    char other[HASHATTN_NUMBER_TEXT];
    const char *from = report_run_setting(run, "from", other);
    struct replay replay = {.take = take, .user = user, .scope = ""};
    if (*from != '\0')
        take(user, "from", from, false);
    replay.setup = setup_of(context, run, from);
    if (replay.setup == NULL && *from != '\0')
        replay.setup = setup_of(context, run, "");
    replay.has_epochs = hashattn_value_number(hashattn_value_find(run->config, "training.epochs")) > 0;
    for (size_t i = 0; i < sizeof owners / sizeof *owners; i++)
        hashattn_value_each(hashattn_value_find(run->config, owners[i]), replay_option, &replay);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *text = report_run_setting(run, others[i][1], other);
        if (*text != '\0' && strcmp(text, others[i][2]) != 0)
            take(user, others[i][0], text, false);
    }
    hashattn_setup_free(replay.setup);
}

void report_write_command(FILE *page, hashattn_context *context, const struct report_run *run)
{
    char number[HASHATTN_NUMBER_TEXT];
    fputs("hashattn train ", page);
    write_word(page, report_run_setting(run, "task.name", number));
    write_option(page, "data", report_run_setting(run, "data", number), false);
    write_option(page, "attention", report_run_setting(run, "attention.name", number), false);
    report_each_option(context, run, write_option, page);
    write_option(page, "out", run->name, false);
    if (*report_run_setting(run, "extended_at", number) != '\0')
        fprintf(page, " # planned for fewer steps, and changed at step %s", number);
}
