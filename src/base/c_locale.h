/* The C locale for a few lines of code. printf, strtod and jansson use the decimal point of the caller's
   locale, which may be a comma; numbers in options, files and messages always have a point. Put every
   conversion between text and real numbers between c_locale_begin and c_locale_end. Only the calling thread
   is affected. Source: POSIX.1-2008, uselocale.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_C_LOCALE_H
#define BASE_C_LOCALE_H

#include <locale.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

struct c_locale {
    locale_t own, before;
};

struct c_locale c_locale_begin(void);
void c_locale_end(struct c_locale locale); /* restores the thread's locale */

#endif
