/* `attend` under mpirun: ranks share the rows of every sequence. Each reads its span of the arrays and writes
   its rows to files of its own.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli/attend/attend.h"
#include "cli/shared/tool/halves.h"

int attend_ranks_refuse(const struct attend *a)
{
    const struct {
        bool given;
        const char *option;
    } refused[] = {{a->chunk_rows > 0, "--chunk"},
                   {a->mask != NULL, "--mask"},
                   {halves_wanted(a->context), "--precision bf16"},
                   {strcmp(a->out, "-") == 0, "--out -"},
                   {strcmp(a->q, "-") == 0, "--q -"},
                   {strcmp(a->k, "-") == 0, "--k -"},
                   {strcmp(a->v, "-") == 0, "--v -"},
                   {a->params != NULL && strcmp(a->params, "-") == 0, "--params -"},
                   {a->grad_out != NULL && strcmp(a->grad_out, "-") == 0, "--grad-out -"}};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (refused[i].given)
            return tool_fail(EXIT_USAGE, "%s cannot be used by several ranks", refused[i].option);
    return EXIT_GOOD;
}

/* This rank's rows of an array, of all heads. */
static int read_span(struct attend *a, hashattn_npy_reader *reader, size_t width, float **rows)
{
    const hashattn_problem *p = &a->problem;
    size_t heads = p->num_sequences * p->num_heads, count = p->num_queries * width;
    *rows = malloc(heads * count * sizeof(float) + 1);
    if (*rows == NULL)
        return tool_fail(EXIT_RESOURCE, "no memory for %zu x %zu rows of width %zu", heads, p->num_queries,
                         width);
    for (size_t head = 0; head < heads; head++) {
        hashattn_status status = hashattn_npy_read_part(reader, (head * a->total_rows + a->first) * width,
                                                        count, *rows + head * count);
        if (status != HASHATTN_OK)
            return tool_fail_status(a->files, status);
    }
    return EXIT_GOOD;
}

int attend_ranks_read(struct attend *a)
{
    hashattn_problem *p = &a->problem;
    if (p->num_queries != p->num_keys)
        return tool_fail(EXIT_USAGE, "%s has %zu rows and %s has %zu; ranks share sequences of equal numbers",
                         a->q, p->num_queries, a->k, p->num_keys);
    a->total_rows = p->total_rows = p->num_queries;
    p->num_queries = p->num_keys = hashattn_shared_rows(a->context, a->total_rows, &a->first);
    int code = read_span(a, a->chunks.query, p->head_dim, &a->inputs[0]);
    code = code != EXIT_GOOD ? code : read_span(a, a->chunks.key, p->head_dim, &a->inputs[1]);
    code = code != EXIT_GOOD ? code : read_span(a, a->chunks.value, p->value_dim, &a->inputs[2]);
    if (a->grad_out != NULL)
        code = code != EXIT_GOOD ? code : read_span(a, a->dout_reader, p->value_dim, &a->inputs[3]);
    return code;
}

int attend_ranks_path(const struct attend *a, const char *name, const char *suffix, char path[ATTEND_PATH])
{
    size_t stem = strlen(name), end = strlen(suffix);
    bool has = stem > end && strcmp(name + stem - end, suffix) == 0;
    int size =
        snprintf(path, ATTEND_PATH, "%.*s.%d%s", (int)(has ? stem - end : stem), name, a->rank, suffix);
    return size < ATTEND_PATH ? EXIT_GOOD
                              : tool_fail(EXIT_USAGE, "a file name of %zu bytes is too long", stem);
}
