/* Decimal numbers in files.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_DECIMAL_H
#define IO_DECIMAL_H

#include "io/lines.h"

/* Reads a finite decimal number, such as -2.5e1, between spaces; false for anything else, such as NaN, an
   empty text, hexadecimal numbers and more than 63 characters. Call it between c_locale_begin and
   c_locale_end (base/c_locale.h). */
bool decimal_read(struct piece text, double *value);

#endif
