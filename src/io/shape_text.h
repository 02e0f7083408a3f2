/* The shape of an array as Python writes it: "(2, 3)", "(3,)", "()".
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_SHAPE_TEXT_H
#define IO_SHAPE_TEXT_H

#include <stddef.h>

/* Bytes that the longest text of `rank` sizes takes, with its end. */
#define SHAPE_TEXT(rank) ((rank)*22 + 4)

/* Writes at most `size` bytes, at least 1; a text that is longer is cut. */
void shape_text(int rank, const size_t *shape, char *text, size_t size);

#endif
