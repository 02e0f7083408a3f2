/* Names are kept in order, as far as there is room; the count has all.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/documents/document_unread.h"

#include <stdio.h>
#include <string.h>

void unread_add(struct unread_files *unread, const char *path, bool is_folder)
{
    if (unread == NULL)
        return;
    size_t used = strlen(unread->names), left = sizeof unread->names - used;
    unread->full |= strlen(path) + 4 > left;
    if (!unread->full)
        snprintf(unread->names + used, left, "%s%s%s", used == 0 ? "" : ", ", path, is_folder ? "/" : "");
    unread->count++;
}

enum { SENTENCE = UNREAD_SHOWN + 160 };

static void write_sentence(const struct unread_files *unread, char text[SENTENCE])
{
    bool one = unread->count == 1, named = unread->names[0] != '\0';
    snprintf(text, SENTENCE,
             "%zu %s not read%s%s%s (a folder gives its .txt, .jsonl, .csv and .tsv files and those of its "
             "folders)",
             unread->count, one ? "file or folder is" : "files or folders are", named ? ": " : "",
             unread->names, named && unread->full ? ", ..." : "");
}

void unread_note(struct host *host, const struct unread_files *unread)
{
    char sentence[SENTENCE], before[sizeof host->note];
    if (unread->count == 0)
        return;
    write_sentence(unread, sentence);
    memcpy(before, host->note, sizeof before);
    host_note(host, 1, "%s%s%.200s", sentence, before[0] == '\0' ? "" : "; ", before);
}

hashattn_status unread_explain(struct host *host, const struct unread_files *unread, hashattn_status status)
{
    char sentence[SENTENCE], message[sizeof host->message];
    if (unread == NULL || unread->count == 0)
        return status;
    write_sentence(unread, sentence);
    memcpy(message, host->message, sizeof message);
    return host_fail(host, status, "%s; %s", message, sentence);
}
