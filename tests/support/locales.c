/* Makes locales once with localedef, in a folder of the test.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/locales.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"

const char *const foreign_locales[] = {"comma", "arabic", NULL};

static char folder[] = "/tmp/hashattn_locales.XXXXXX";

void locales_make(void)
{
    char command[200];
    if (mkdtemp(folder) == NULL)
        fail_msg("cannot make %s", folder);
    snprintf(command, sizeof command, "sh tests/support/locales.sh %s", folder);
    if (system(command) != 0)
        fail_msg("'%s' failed", command);
    setenv("LOCPATH", folder, 1);
}

void locales_set(const char *name)
{
    char text[8];
#if !defined(__GLIBC__)
    if (strcmp(name, "C") != 0) {
        print_message("SKIPPED: locales (only glibc reads those that localedef makes)\n");
        skip();
    }
#endif
    if (setlocale(LC_NUMERIC, name) == NULL)
        fail_msg("no locale %s", name);
    snprintf(text, sizeof text, "%.1f", 1.5);
    assert_string_equal(text, strcmp(name, "comma") == 0    ? "1,5"
                              : strcmp(name, "arabic") == 0 ? "1\xd9\xab"
                                                              "5"
                                                            : "1.5");
}

void locales_remove(void)
{
    char command[200];
    setlocale(LC_NUMERIC, "C");
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}
