/* Locales whose decimal point is no dot, for tests that numbers in text do not depend on the caller's locale.
   They are made by localedef, which is part of libc-bin, so that no locale has to be installed.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_LOCALES_H
#define TESTS_SUPPORT_LOCALES_H

/* "comma" writes 1.5 as "1,5"; "arabic" has a point of two bytes, U+066B. */
extern const char *const foreign_locales[]; /* ended by NULL */

/* Makes the locales in a folder of their own, from the directory in which tests start. */
void locales_make(void);
/* Numbers of this process are those of the locale, "C" or a foreign one; the test fails if they are not. */
void locales_set(const char *name);
/* "C" again, and the folder is removed. */
void locales_remove(void);

#endif
