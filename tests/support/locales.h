/* Locales whose decimal point is not a dot, for tests that numbers in text do not depend on the caller's
   locale. localedef, a part of libc-bin, makes them, so that no locale has to be installed.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_LOCALES_H
#define TESTS_SUPPORT_LOCALES_H

/* "comma" writes 1.5 as "1,5"; "arabic" has a point of two bytes, U+066B. */
extern const char *const foreign_locales[]; /* ended by NULL */

/* Makes the locales in a new folder; call it in the directory in which tests start. */
void locales_make(void);
/* Sets the process's number format to a locale, "C" or a foreign one; fails the test if that fails. */
void locales_set(const char *name);
/* Returns to "C" and removes the folder. */
void locales_remove(void);

#endif
