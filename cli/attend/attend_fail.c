/* The library's message begins with the name of the wrong argument, as in "key_mask[2] is 2". The name of its
   file is put in front.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/attend/attend_fail.h"

#include <ctype.h>
#include <string.h>

/* The file of the argument that the message begins with, or NULL. */
static const char *path_in(const struct attend_paths *paths, const char *message)
{
    const struct {
        const char *name, *path;
    } arguments[] = {{"query", paths->query},
                     {"key", paths->key},
                     {"value", paths->value},
                     {"key_mask", paths->key_mask},
                     {"dout", paths->dout}};
    for (size_t i = 0; i < sizeof arguments / sizeof arguments[0]; i++) {
        size_t size = strlen(arguments[i].name);
        bool begins = strncmp(message, arguments[i].name, size) == 0;
        if (begins && message[size] != '_' && !isalnum((unsigned char)message[size]))
            return arguments[i].path;
    }
    return NULL;
}

int attend_fail_data(const struct attend_paths *paths, const hashattn_context *context,
                     hashattn_status status)
{
    const char *message = hashattn_context_message(context);
    const char *path = status == HASHATTN_INVALID ? path_in(paths, message) : NULL;
    int code = path != NULL && !hashattn_context_failed_together(context)
                   ? tool_fail(EXIT_FILE, "%s: %s", path, message)
                   : tool_fail_status(context, status);
    return status == HASHATTN_INVALID ? EXIT_FILE : code;
}
