/* The tool hashattn: finds the command and runs it. Data goes to stdout, messages go to stderr. Exit codes:
   0 success, 1 the work failed, 2 usage error, 3 bad input file, 4 out of memory or disk space, 130
   interrupted after saving.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/shared/options/complete.h"
#include "cli/shared/options/page.h"
#include "cli/shared/options/suggest.h"
#include "cli/shared/output/facts_out.h"
#include "cli/shared/tool/command.h"
#include "cli/shared/tool/standard.h"

/* In the order in which a new user needs them. */
static const struct command *const commands[] = {
    &command_info,    &command_attend,   &command_data,  &command_train,     &command_eval,
    &command_predict, &command_generate, &command_embed, &command_fill_mask, &command_export,
    &command_inspect, &command_report,   &command_bench, &command_tokenizer, &command_density,
};
enum { NUM_COMMANDS = sizeof commands / sizeof commands[0] };

static int print_version(void)
{
    hashattn_context *context;
    const struct common common = {.isa = "auto"};
    int code = tool_open(&common, &context);
    if (code != EXIT_GOOD)
        return code;
    facts_words(context);
    tool_close(context);
    return tool_finish();
}

static void print_usage(struct page *page)
{
    static const char *const entries[][3] = {
        {"options", "--help", "print this help; after a command: its options, with an example"},
        {"options", "--version, -V", "print version, build and machine, for reports of bugs"},
        {"options", "help COMMAND", "the same as COMMAND --help"},
        {"exit codes", "0", "success"},
        {"exit codes", "1", "the work failed"},
        {"exit codes", "2", "wrong usage"},
        {"exit codes", "3", "bad input file"},
        {"exit codes", "4", "out of memory or disk space"},
        {"exit codes", "130", "interrupted, after saving"},
        {"environment", "HASHATTN_ISA", "widest instruction set to use, as in --isa"},
        {"environment", "OMPI_COMM_WORLD_SIZE, PMI_SIZE, PMIX_RANK",
         "set by mpirun and srun: train, eval and predict then work with the other ranks"},
    };
    page_begin(page, "", "COMMAND",
               "Attention by hashing: Transformers whose attention grows linearly with the sequence");
    page_section(page, "commands");
    for (size_t i = 0; i < NUM_COMMANDS; i++)
        page_entry(page, 12, commands[i]->name, commands[i]->summary);
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        if (i == 0 || strcmp(entries[i][0], entries[i - 1][0]) != 0)
            page_section(page, entries[i][0]);
        page_entry(page, 16, entries[i][1], entries[i][2]);
    }
    page_section(page, "example");
    page_example(page, "  hashattn info\n");
    for (size_t i = 0; i < NUM_COMMANDS; i++) {
        page_refer(page, commands[i]->name);
        for (const struct command *const *kind = commands[i]->kinds; kind != NULL && *kind != NULL; kind++)
            page_refer(page, (*kind)->name);
    }
    page_end(page);
}

static int complete_command(const char *word)
{
    for (size_t i = 0; i < NUM_COMMANDS; i++)
        complete_offer(word, "", commands[i]->name, commands[i]->summary);
    if (word[0] == '-') {
        complete_offer(word, "", "--help", NULL);
        complete_offer(word, "", "--version", NULL);
    }
    return tool_finish();
}

int main(int argc, char **argv)
{
    struct page page = {.stream = stdout};
    standard_hold();
    if (argc < 2) {
        page.stream = stderr;
        print_usage(&page);
        return EXIT_USAGE;
    }
    if (complete_wanted(argc, argv) && argc < 4)
        return complete_command(argc == 3 ? argv[1] : "");
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0 || strcmp(argv[1], "version") == 0)
        return print_version();
    bool help = strcmp(argv[1], "help") == 0;
    if (page_wanted(argv[1], &page) || (help && argc == 2)) {
        print_usage(&page);
        return tool_finish();
    }
    if (help) { /* `help train text` is `train text --help` */
        static char option[] = "--help";
        memmove(argv + 1, argv + 2, (size_t)(argc - 2) * sizeof *argv);
        argv[argc - 1] = option;
    }
    const char *names[NUM_COMMANDS];
    for (size_t i = 0; i < NUM_COMMANDS; i++) {
        names[i] = commands[i]->name;
        if (strcmp(argv[1], names[i]) == 0)
            return commands[i]->run(commands[i], argc - 1, argv + 1);
    }
    char near[200];
    suggest(argv[1], names, NUM_COMMANDS, "", near, sizeof near);
    return tool_fail(EXIT_USAGE, "no command '%.60s'%s (see hashattn --help)", argv[1], near);
}
