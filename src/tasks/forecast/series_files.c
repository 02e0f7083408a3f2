/* Paths and names are in one block each.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/forecast/series_files.h"

#include <string.h>

#include "base/memory.h"

void series_files_free(struct host *host, struct series_files *files)
{
    memory_free(host, files->paths);
    memory_free(host, files->list);
    memory_free(host, files->names);
}

static hashattn_status files_new(struct host *host, size_t count, size_t names, struct series_files *files)
{
    void *block;
    files->count = count;
    TRY(memory_new(host, count, sizeof *files->paths, "paths of files", &block));
    files->paths = block;
    TRY(memory_new_zeroed(host, count, sizeof *files->list, "paths of files", &block));
    files->list = block;
    TRY(memory_new(host, size_sum(names, 1), 1, "names of series", &block));
    files->names = block;
    return HASHATTN_OK;
}

/* Several files are a series each, called by the name of the file; `several`: one is, too. */
static hashattn_status list_files(struct host *host, const char *data, bool several,
                                  struct series_files *files)
{
    static const char ending[] = ".csv";
    const char **names;
    size_t count, size = 0;
    TRY(file_list(host, data, ending, &names, &count));
    for (size_t i = 0; i < count; i++)
        size += strlen(names[i]) + 1;
    hashattn_status status = count > 0 ? files_new(host, count, size, files)
                                       : host_fail(host, HASHATTN_BAD_FILE, "%s has no .csv file", data);
    char *at = files->names;
    for (size_t i = 0; i < count && status == HASHATTN_OK; i++) {
        size_t stem = strlen(names[i]) - (sizeof ending - 1);
        status = file_join(host, data, names[i], files->paths[i], FILE_PATH);
        memcpy(at, names[i], stem);
        at[stem] = '\0';
        files->list[i] =
            (struct series_file){.path = files->paths[i], .name = count > 1 || several ? at : NULL};
        at += stem + 1;
    }
    memory_free(host, (void *)names);
    return status;
}

hashattn_status series_files_find(struct host *host, const char *data, bool several,
                                  struct series_files *files)
{
    *files = (struct series_files){.source = file_is_directory(data) ? FILE_FOUND : FILE_TYPED};
    if (files->source == FILE_FOUND)
        return list_files(host, data, several, files);
    FAIL_IF(strlen(data) >= FILE_PATH, host, HASHATTN_INVALID, "the path of the file has %zu bytes, %d fit",
            strlen(data), FILE_PATH - 1);
    const char *name = strrchr(data, '/') == NULL ? data : strrchr(data, '/') + 1;
    const char *dot = strrchr(name, '.');
    size_t stem = dot == NULL || dot == name ? strlen(name) : (size_t)(dot - name);
    TRY(files_new(host, 1, stem, files));
    strcpy(files->paths[0], data);
    memcpy(files->names, name, stem);
    files->names[stem] = '\0';
    files->list[0] = (struct series_file){.path = files->paths[0], .name = several ? files->names : NULL};
    return HASHATTN_OK;
}
