/* An option that cannot be set ends the process.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/task_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fuzz targets use this file too, so it needs no test library. */
static void must(int held, const char *what)
{
    if (held)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

struct task_options task_options_of(const char *name, const char *settings)
{
    const struct task *task = task_find(name);
    struct task_options options;
    struct host host;
    host_init(&host);
    must(task->options_size <= sizeof options.bytes, "a task has larger options");
    memset(&options, 0, sizeof options);
    options_preset(task->options, options.bytes);
    char text[200];
    snprintf(text, sizeof text, "%s", settings);
    for (char *at = strtok(text, " "); at != NULL; at = strtok(NULL, " ")) {
        char *equals = strchr(at, '=');
        *equals = '\0';
        must(option_set(&host, task->options, name, options.bytes, at, equals + 1) == HASHATTN_OK,
             host.message);
    }
    return options;
}

static hashattn_status keep(struct host *host, void *context, struct dataset *part)
{
    (void)host;
    struct dataset *kept = context;
    must(kept->count == 0, "more than one part");
    *kept = *part;
    *part = (struct dataset){0};
    return HASHATTN_OK;
}

hashattn_status task_stream_whole(struct host *host, const char *task, const void *options,
                                  const struct task_facts *facts, const char *path, struct dataset *dataset)
{
    *dataset = (struct dataset){0};
    const struct dataset_stream stream = {
        .batch = SIZE_MAX, .lines = strcmp(path, "-") != 0, .visit = keep, .context = dataset};
    hashattn_status status = task_find(task)->stream_file(host, options, facts, path, &stream);
    if (status != HASHATTN_OK) { /* it may have the examples before a bad line */
        dataset_free(host, dataset);
        *dataset = (struct dataset){0};
    }
    return status;
}
