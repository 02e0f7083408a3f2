/* Records of comma-separated values (RFC 4180), from a file or from text in memory, one at a time.
   Fields are separated by commas, or by another delimiter that csv_delimit sets, records by LF or CR LF; the
   last record may lack its end. A field that begins with a quote ends at the next single one: inside, two
   quotes are one, and delimiters and line breaks belong to the field. The first record may begin with a byte
   order mark. Errors, with the line: a quote inside an unquoted field, anything but a delimiter or the end of
   the line after the closing quote, a carriage return without a line feed outside quotes, a quote that is not
   closed, a record of more than CSV_LARGEST bytes or CSV_FIELDS fields. Bytes are not checked otherwise.
   Cost: one pass; a record is copied once.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_CSV_H
#define IO_CSV_H

#include "io/line_blocks.h"

enum {
    CSV_LARGEST = 1 << 26, /* bytes of a record, so that an open quote does not read the whole file */
    CSV_FIELDS = 1 << 16,  /* of a record; each takes 24 bytes, a comma in the file one */
};

struct csv {
    struct line_blocks blocks; /* of a file */
    const char *at, *end;      /* of the current block */
    bool from_file, begun;
    char delimiter; /* 0: a comma */
    size_t lines;   /* line feeds read so far */
    size_t line;    /* on which the last record begins; the first is 1 */
    /* The last record. */
    char *bytes;
    size_t used, bytes_capacity;
    struct piece *fields;
    size_t *ends; /* of the fields in `bytes` */
    size_t count, fields_capacity, ends_capacity;
    bool empty; /* it is an empty line */
};

/* path must outlive the reader. On failure there is nothing to close. */
hashattn_status csv_open(struct host *host, const char *path, enum file_source source, struct csv *csv);
struct csv csv_of(const char *bytes, size_t size); /* reads text in memory */
void csv_close(struct host *host, struct csv *csv);

/* The delimiter of the fields. Before the first record; 0: the character that the first line has most often
   outside quotes, of comma, semicolon, tab and |; of several the first of these. Commas between digits do not
   count beside semicolons and tabs. *found is set. */
hashattn_status csv_delimit(struct host *host, struct csv *csv, char delimiter, char *found);

/* Reads the next record: csv->fields[0 .. count), valid until the next call; count is 0 at the end of the
   file. An empty line is a record of one empty field. Messages have no path and begin with the line. */
hashattn_status csv_next(struct host *host, struct csv *csv);
/* After a failure of csv_next: the next record begins after the next line feed. */
hashattn_status csv_skip_line(struct host *host, struct csv *csv);

#endif
