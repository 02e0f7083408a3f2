/* Decimal numbers in files.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_DECIMAL_H
#define IO_DECIMAL_H

#include "io/lines.h"

/* Reads a finite decimal number, such as -2.5e1, between spaces; false for anything else, such as NaN, an
   empty text, hexadecimal numbers and more than 63 characters. Call it between c_locale_begin and
   c_locale_end (base/c_locale.h). */
bool decimal_read(struct piece text, double *value);

/* The mark before the fraction. */
enum decimal_mark { DECIMAL_AUTO, DECIMAL_POINT, DECIMAL_COMMA };
/* The mark that a text shows: the last of its points and commas. DECIMAL_AUTO: it has neither. */
enum decimal_mark decimal_mark_of(struct piece text);
/* True for a sign or none, one to three digits of which the first is not 0, a point or comma, and three
   digits: the mark of 1.234 may be before a fraction or between thousands. */
bool decimal_is_group(struct piece text);
/* decimal_read of a number with this mark, point or comma. The other one, and spaces, may divide the whole
   part into groups of three digits, as in 1.234.567,8. */
bool decimal_read_marked(struct piece text, enum decimal_mark mark, double *value);
/* True for a missing value: an empty cell, and the words that pandas reads as one, such as NA, NaN and
   null. */
bool decimal_is_missing(struct piece text);

#endif
