/* Files mapped into memory for reading: pages are read when they are first used, and shared between
   processes. A file that another program shortens while it is mapped ends the process with SIGBUS at the next
   read, so only files that are replaced as a whole should be mapped.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FILE_MAP_H
#define BASE_FILE_MAP_H

#include "base/host.h"

struct file_map {
    const char *bytes; /* NULL for an empty file */
    size_t size;
};

/* Maps a regular file. Messages name the path and the system's reason. */
hashattn_status file_map_open(struct host *host, const char *path, struct file_map *map);
void file_map_close(struct file_map *map); /* an unopened one, of zeros, is allowed */
/* The bytes are not needed soon: their pages no longer count as memory of the process. They stay readable. */
void file_map_release(const struct file_map *map, const void *bytes, size_t count);

#endif
