/* Reads Linux's list of caches, files of one word each. Other systems have no such folder.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/caches.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads the first word of folder/indexN/name; "" if there is none. */
static void read_word(const char *folder, int index, const char *name, char word[16])
{
    char path[256], line[16] = "";
    snprintf(path, sizeof path, "%s/index%d/%s", folder, index, name);
    FILE *file = fopen(path, "r");
    if (file != NULL && fgets(line, sizeof line, file) == NULL)
        line[0] = '\0';
    if (file != NULL)
        fclose(file);
    snprintf(word, 16, "%.*s", (int)strcspn(line, "\n"), line);
}

void caches_read(const char *folder, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int index = 0; used < size; index++) {
        char level[16], type[16], amount[16];
        read_word(folder, index, "level", level);
        read_word(folder, index, "type", type);
        read_word(folder, index, "size", amount); /* always in KiB: "1024K" */
        if (level[0] == '\0')
            return;
        unsigned long kib = strtoul(amount, NULL, 10);
        if (kib == 0 || strcmp(type, "Instruction") == 0)
            continue;
        int wrote = snprintf(text + used, size - used, "%sL%s %lu %s", used == 0 ? "" : ", ", level,
                             kib % 1024 == 0 ? kib / 1024 : kib, kib % 1024 == 0 ? "MiB" : "KiB");
        used += (size_t)wrote;
    }
}
