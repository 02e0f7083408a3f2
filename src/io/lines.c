/* One memchr per line and per field.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/lines.h"

#include <stdio.h>
#include <string.h>

struct lines lines_open(const char *bytes, size_t size)
{
    struct piece text = piece_unmarked((struct piece){bytes, size});
    return (struct lines){.at = text.bytes, .end = bytes + size, .number = 0};
}

bool lines_next(struct lines *lines, struct piece *line)
{
    if (lines->at == lines->end)
        return false;
    size_t left = (size_t)(lines->end - lines->at);
    const char *feed = memchr(lines->at, '\n', left);
    line->bytes = lines->at;
    line->size = feed == NULL ? left : (size_t)(feed - lines->at);
    lines->at += line->size + (feed != NULL);
    lines->number++;
    if (feed != NULL && line->size > 0 && feed[-1] == '\r')
        line->size--;
    return true;
}

void lines_prefix(struct host *host, const struct lines *lines)
{
    char text[40];
    snprintf(text, sizeof text, "line %zu", lines->number);
    host_prefix(host, text);
}

size_t lines_split(struct piece line, struct piece *fields, size_t capacity)
{
    size_t count = 0;
    while (count < capacity) {
        const char *tab = count + 1 < capacity && line.size > 0 ? memchr(line.bytes, '\t', line.size) : NULL;
        size_t size = tab == NULL ? line.size : (size_t)(tab - line.bytes);
        fields[count++] = (struct piece){.bytes = line.bytes, .size = size};
        if (tab == NULL)
            break;
        line.bytes = tab + 1;
        line.size -= size + 1;
    }
    return count;
}

struct piece piece_unmarked(struct piece piece)
{
    bool has_mark = piece.size >= 3 && memcmp(piece.bytes, "\xef\xbb\xbf", 3) == 0;
    return has_mark ? (struct piece){piece.bytes + 3, piece.size - 3} : piece;
}

struct piece piece_trimmed(struct piece piece)
{
    while (piece.size > 0 && piece.bytes[0] == ' ')
        piece = (struct piece){piece.bytes + 1, piece.size - 1};
    while (piece.size > 0 && piece.bytes[piece.size - 1] == ' ')
        piece.size--;
    return piece;
}

bool piece_is(struct piece piece, const char *word)
{
    return strlen(word) == piece.size && memcmp(piece.bytes, word, piece.size) == 0;
}
