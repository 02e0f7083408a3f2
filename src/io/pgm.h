/* PGM, grey pictures of the Netpbm family: binary (P5) and text (P2), one picture after another in a file.
   A header has the magic number, width, height and the largest value, separated by white space, with comments
   from '#' to the end of the line. Values are scaled to 0..255. Two bytes per value are not read. Memory:
   nothing is allocated; a picture of more than PGM_PIXELS is refused before a pixel is read, whatever its
   header promises. Source: the format's description, pgm(5).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_PGM_H
#define IO_PGM_H

#include <stdbool.h>

#include "io/lines.h"

enum { PGM_PIXELS = 65536 }; /* of the largest picture: 256 x 256 */

struct pgm {
    const char *at, *end; /* the text that is left */
    size_t count;         /* number of pictures read */
    /* The last picture. */
    size_t width, height;
    struct piece comment; /* the last of its header, without '#'; size 0: none */
};

struct pgm pgm_open(const char *bytes, size_t size);
/* Reads the next picture into pixels (height, width), which holds PGM_PIXELS. *more is false at the
   end of the text. BAD_FILE: anything else; the message begins with the number of the picture, from 1. */
hashattn_status pgm_next(struct host *host, struct pgm *pgm, unsigned char *pixels, bool *more);

#endif
