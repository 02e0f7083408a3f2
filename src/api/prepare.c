/* Data from texts: converts the public structs to those of the tasks.
   SPDX-License-Identifier: Apache-2.0 */
#include "api/floating.h"
#include "api/setup.h"
#include "api/versions/versions.h"
#include "base/file.h"

#include <string.h>

void hashattn_sources_default_sized(hashattn_sources *sources, size_t struct_size)
{
    const hashattn_sources own = {.files = NULL};
    version_fill_options(sources, struct_size, &own, sizeof own);
}

static bool tell(void *user, uint64_t done, uint64_t total)
{
    const hashattn_sources *sources = user;
    return sources->progress(sources->user, done, total) != 0;
}

static hashattn_status check(struct host *host, const hashattn_sources *sources)
{
    FAIL_IF(sources->files == NULL || sources->num_files == 0, host, HASHATTN_INVALID,
            "there are no files of text");
    for (size_t i = 0; i < sources->num_files; i++)
        FAIL_IF(sources->files[i] == NULL, host, HASHATTN_INVALID, "file %zu is NULL", i);
    FAIL_IF(sources->tokenizer == NULL, host, HASHATTN_INVALID, "the directory of the tokenizer is NULL");
    return HASHATTN_OK;
}

hashattn_status hashattn_setup_prepare(hashattn_setup *setup, const hashattn_sources *sources,
                                       const char *directory, hashattn_prepared *prepared)
{
    FLOATING_DEFAULT;
    hashattn_sources own;
    struct task_prepared found;
    if (setup == NULL)
        return HASHATTN_INVALID;
    struct host *host = &setup->context->host;
    const struct task *task = setup->config.task;
    FAIL_IF(sources == NULL || directory == NULL, host, HASHATTN_INVALID, "%s is NULL",
            sources == NULL ? "sources" : "directory");
    FAIL_IF(task->prepare == NULL, host, HASHATTN_REFUSED, "%s is not made from texts", task->name);
    hashattn_sources_default(&own);
    TRY(version_take(host, &own, sizeof own, sources, first_sizes.sources, "sources"));
    TRY(check(host, &own));
    const struct task_sources given = {.files = own.files,
                                       .num_files = own.num_files,
                                       .valid = own.valid,
                                       .test = own.test,
                                       .tokenizer = own.tokenizer,
                                       .seed = own.seed,
                                       .pool = setup->context->pool,
                                       .progress = own.progress == NULL ? NULL : tell,
                                       .user = &own};
    bool is_new = !file_exists(directory);
    TRY(file_make_directory(host, directory, true));
    hashattn_status status = task->prepare(host, setup->data_options, &given, directory, &found);
    if (status != HASHATTN_OK && is_new)
        file_remove_directory(host, directory, (const char *const[]){NULL});
    TRY(status);
    if (prepared == NULL)
        return HASHATTN_OK;
    hashattn_prepared result = {.documents = found.documents, .dropped = found.dropped};
    memcpy(result.examples, found.examples, sizeof result.examples);
    memcpy(result.tokens, found.tokens, sizeof result.tokens);
    version_give(prepared, &result, sizeof result);
    return HASHATTN_OK;
}
