/* A block for each name.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/documents/document_names.h"

#include <string.h>

#include "base/file.h"
#include "base/memory.h"

hashattn_status document_names_keep(struct host *host, struct document_names *names,
                                    const struct document_name *name)
{
    size_t size = strlen(name->file) + 1;
    void *block;
    TRY(memory_grow(host, &names->list, &names->capacity, names->count, 1, sizeof *names->list,
                    "names of documents"));
    TRY(memory_new_zeroed(host, size_sum(size, size_sum(name->id_size, 1)), 1, "the name of a document",
                          &block));
    struct named *named = &names->list[names->count++];
    *named = (struct named){block, name->id == NULL ? NULL : (char *)block + size, name->id_is_number};
    memcpy(named->file, name->file, size);
    if (named->id != NULL)
        memcpy(named->id, name->id, name->id_size);
    return HASHATTN_OK;
}

void document_names_drop(struct host *host, struct document_names *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        memory_free(host, names->list[i].file);
    names->count -= count;
    if (names->count > 0)
        memmove(names->list, names->list + count, names->count * sizeof *names->list);
}

void document_names_free(struct host *host, struct document_names *names)
{
    document_names_drop(host, names, names->count);
    memory_free(host, names->list);
    *names = (struct document_names){.list = NULL};
}

const char *document_names_file(const struct named *named)
{
    return file_is_standard(named->file) ? NULL : named->file;
}
