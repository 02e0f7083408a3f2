/* Parses each line as JSON: a few microseconds per line.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/jsonl.h"

static bool is_blank(struct piece line)
{
    for (size_t i = 0; i < line.size; i++)
        if (line.bytes[i] != ' ' && line.bytes[i] != '\t' && line.bytes[i] != '\r')
            return false;
    return true;
}

hashattn_status jsonl_next(struct host *host, struct lines *lines, struct json **object)
{
    struct piece line;
    *object = NULL;
    do {
        if (!lines_next(lines, &line))
            return HASHATTN_OK;
    } while (is_blank(line));
    struct json *root;
    const struct json *found;
    hashattn_status status = json_parse(host, line.bytes, line.size, &root);
    if (status == HASHATTN_OK)
        status = json_get_object(host, root, "", &found);
    if (status != HASHATTN_OK) {
        json_free(root);
        lines_prefix(host, lines);
        return status;
    }
    *object = root;
    return HASHATTN_OK;
}
