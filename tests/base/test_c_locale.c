/* The C locale in a span of code, whatever locale the process or thread has set. Planted and caught: the C
   locale not undone; the process's locale restored although the thread had its own; only the first of two
   nested spans undone; the environment's LC_NUMERIC instead of C; a locale not
   freed.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/c_locale.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/locales.h"

/* Counts, and calls the library's. */
static int freed;
void freelocale(locale_t locale)
{
    void (*library)(locale_t);
    *(void **)&library = dlsym(RTLD_NEXT, "freelocale");
    freed += locale != (locale_t)0;
    library(locale);
}

static void check_point(const char *want)
{
    char text[8];
    snprintf(text, sizeof text, "%.1f", 1.5);
    assert_string_equal(text, want);
    assert_true(strtod(want, NULL) == 1.5);
}

static void numbers_have_a_dot_until_the_end(void **state)
{
    (void)state;
    locales_set("comma");
    struct c_locale outer = c_locale_begin();
    check_point("1.5");
    struct c_locale inner = c_locale_begin();
    check_point("1.5");
    c_locale_end(inner);
    check_point("1.5");
    freed = 0;
    c_locale_end(outer);
    assert_int_equal(freed, 1);
    check_point("1,5");
    locales_set("C");
    check_point("1.5");
}

static void the_locale_of_the_thread_comes_back(void **state)
{
    (void)state;
    locales_set("comma"); /* skips the test if there is none */
    locales_set("C");
    locale_t comma = newlocale(LC_NUMERIC_MASK, "comma", (locale_t)0), before = uselocale(comma);
    assert_true(comma != (locale_t)0);
    check_point("1,5");
    struct c_locale locale = c_locale_begin();
    check_point("1.5");
    c_locale_end(locale);
    check_point("1,5");
    assert_true(uselocale((locale_t)0) == comma);
    uselocale(before);
    freelocale(comma);
    check_point("1.5");
}

int main(void)
{
    locales_make();
    setenv("LC_ALL", "comma", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_a_dot_until_the_end),
        cmocka_unit_test(the_locale_of_the_thread_comes_back),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    locales_remove();
    return failed;
}
