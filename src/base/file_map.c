/* mmap.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/file_map.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"

hashattn_status file_map_open(struct host *host, const char *path, struct file_map *map)
{
    int file;
    size_t size;
    *map = (struct file_map){NULL, 0};
    TRY(file_open_regular(host, path, &file, &size));
    hashattn_status status = HASHATTN_OK;
    if (size > 0) {
        void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
        if (bytes == MAP_FAILED)
            status =
                file_fail(host, errno == ENOMEM ? HASHATTN_NO_MEMORY : HASHATTN_BAD_FILE, path, "map", errno);
        else
            *map = (struct file_map){bytes, size};
    }
    close(file);
    return status;
}

void file_map_close(struct file_map *map)
{
    if (map->bytes != NULL)
        munmap((void *)(uintptr_t)map->bytes, map->size);
    *map = (struct file_map){NULL, 0};
}

/* Whole pages inside the bytes only: the others may hold something else. */
void file_map_release(const struct file_map *map, const void *bytes, size_t count)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), at = (size_t)((const char *)bytes - map->bytes);
    size_t first = (at + page - 1) / page * page, end = (at + count) / page * page;
    if (end > first)
        madvise((void *)(uintptr_t)(map->bytes + first), end - first, MADV_DONTNEED);
}
