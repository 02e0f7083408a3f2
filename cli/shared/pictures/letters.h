/* Letters of 5 x 7 dots, as on the displays of instruments.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_LETTERS_H
#define CLI_LETTERS_H

#include <stdint.h>

enum { LETTER_WIDTH = 5, LETTER_HEIGHT = 8 /* one below the line */, LETTER_STEP = 6 };

/* The columns of the character at *text, of which the lowest bit is the top; moves *text behind it. A
   character that is not ASCII is a question mark. */
const uint8_t *letter_next(const char **text);

#endif
