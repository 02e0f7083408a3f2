/* Lines of a text in memory, and the fields of a line. Nothing is copied: pieces point into the text.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_LINES_H
#define IO_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/host.h"

/* A piece of a text; no NUL after it. */
struct piece {
    const char *bytes;
    size_t size;
};

struct lines {
    const char *at, *end;
    size_t number; /* of the last line returned; the first is 1 */
};

/* A byte order mark at the beginning is skipped. */
struct lines lines_open(const char *bytes, size_t size);
/* The next line without its LF or CR LF; false at the end. The last line may lack its LF. */
bool lines_next(struct lines *lines, struct piece *line);

/* Puts "line N: " before the message. */
void lines_prefix(struct host *host, const struct lines *lines);

/* Splits a line at tabs into at most `capacity` fields; the last one keeps the rest, tabs included. Returns
   the number of fields, at least 1 if capacity >= 1. */
size_t lines_split(struct piece line, struct piece *fields, size_t capacity);

/* The piece without a byte order mark at its beginning. */
struct piece piece_unmarked(struct piece piece);
/* The piece without the spaces around it. */
struct piece piece_trimmed(struct piece piece);
/* True if the piece is this word. */
bool piece_is(struct piece piece, const char *word);

#endif
