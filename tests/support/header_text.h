/* The text of a public header, for tests that compare its sentences with the tables of the library.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_HEADER_TEXT_H
#define TESTS_SUPPORT_HEADER_TEXT_H

/* include/hashattn/NAME with every stretch of white space as one space; free it. */
char *header_text(const char *name);

#endif
