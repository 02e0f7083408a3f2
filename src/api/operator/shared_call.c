/* Each rank writes what must be equal as lines, which are compared with those of rank 0. Cost: five short
   exchanges per call.
   SPDX-License-Identifier: Apache-2.0 */
#include "api/operator/shared_call.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"

enum { LINES = 3000, LINE = 200 }; /* bytes */

static void add_line(char *lines, const char *line)
{
    strncat(lines, line, LINES - 1 - strlen(lines));
}

static void write_lines(const hashattn_attention *attention, const hashattn_problem *p, const char *function,
                        char *lines)
{
    char line[LINE], value[OPTION_TEXT_SIZE];
    snprintf(lines, LINES, "function: %s\nattention: %s\n", function, attention->mechanism->name);
    for (const struct option_row *row = attention->mechanism->options; row->name != NULL; row++) {
        option_text(row, attention->options, value, sizeof value);
        snprintf(line, sizeof line, "%s: %s\n", row->name, value);
        add_line(lines, line);
    }
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {{"sequences", p->num_sequences},
                   {"heads", p->num_heads},
                   {"rows of a sequence", p->total_rows},
                   {"head_dim", p->head_dim},
                   {"value_dim", p->value_dim},
                   {"max_len", p->max_len},
                   {"causal", p->causal != 0},
                   {"seed", p->seed}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        snprintf(line, sizeof line, "%s: %" PRIu64 "\n", numbers[i].name, numbers[i].value);
        add_line(lines, line);
    }
}

hashattn_status shared_call_agree(const hashattn_attention *attention, const hashattn_problem *problem,
                                  const char *function, hashattn_status status)
{
    struct host *host = &attention->context->host;
    struct comm *comm = &attention->context->comm;
    if (problem->total_rows == 0)
        return status;
    TRY(comm_agree(host, comm, status));
    if (comm_size(comm) == 1)
        return HASHATTN_OK;
    char lines[LINES];
    write_lines(attention, problem, function, lines);
    return comm_same(host, comm, lines);
}
