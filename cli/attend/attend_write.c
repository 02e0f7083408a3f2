/* Writes the output and the gradients of `attend`.
   SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/attend/attend.h"
#include "cli/shared/tool/outputs.h"

/* data: (rows here, width), like `like` otherwise. With several ranks each writes NAME.RANK.npy. */
static int write_rows(struct attend *a, const char *name, const float *data, const hashattn_npy *like,
                      size_t width)
{
    char path[ATTEND_PATH];
    size_t shape[4];
    memcpy(shape, like->shape, sizeof shape);
    shape[like->rank - 1] = width;
    if (attend_is_shared(a)) {
        shape[like->rank - 2] = a->problem.num_queries;
        int code = attend_ranks_path(a, name, ".npy", path);
        if (code != EXIT_GOOD)
            return code;
        outputs_own(path);
        name = path;
    }
    hashattn_status status = hashattn_npy_write(a->context, name, data, like->rank, shape);
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(a->context, status);
}

static int write_one(struct attend *a, const char *directory, const char *name, const float *data,
                     const hashattn_npy *like)
{
    char path[ATTEND_PATH];
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        return tool_fail(EXIT_USAGE, "--grad-dir: a name of %zu bytes is too long", strlen(directory));
    outputs_own(path);
    return write_rows(a, path, data, like, like->shape[like->rank - 1]);
}

static int write_dparams(struct attend *a)
{
    const hashattn_problem *p = &a->problem;
    char path[ATTEND_PATH], own[ATTEND_PATH];
    if (snprintf(path, sizeof path, "%s/dparams.safetensors", a->grad_dir) >= (int)sizeof path)
        return tool_fail(EXIT_USAGE, "--grad-dir: a name of %zu bytes is too long", strlen(a->grad_dir));
    int code = attend_is_shared(a) ? attend_ranks_path(a, path, ".safetensors", own) : EXIT_GOOD;
    if (code != EXIT_GOOD)
        return code;
    hashattn_status status =
        hashattn_attention_write_params(a->attention, attend_is_shared(a) ? own : path, a->dparams,
                                        p->num_heads, p->head_dim, p->value_dim, p->max_len);
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(a->context, status);
}

int attend_write_arrays(struct attend *a)
{
    int code = write_rows(a, a->out, a->output, &a->query, a->problem.value_dim);
    if (code != EXIT_GOOD || a->grad_out == NULL)
        return code;
    if (mkdir(a->grad_dir, 0777) != 0 && errno != EEXIST)
        return tool_fail(EXIT_RESOURCE, "cannot create the directory %s: %s", a->grad_dir, strerror(errno));
    code = write_one(a, a->grad_dir, "dq.npy", a->dquery, &a->query);
    code = code != EXIT_GOOD ? code : write_one(a, a->grad_dir, "dk.npy", a->dkey, &a->key);
    code = code != EXIT_GOOD ? code : write_one(a, a->grad_dir, "dv.npy", a->dvalue, &a->value);
    return code != EXIT_GOOD || a->dparams == NULL ? code : write_dparams(a);
}
