/* What the files of a command call of cli/shared/tool/tool.c, without messages. It is for one file of a
   program that has these files.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_SILENT_TOOL_H
#define TESTS_SUPPORT_SILENT_TOOL_H

#include <assert.h>

#include "cli/shared/tool/tool.h"

int tool_fail(int code, const char *format, ...)
{
    (void)format;
    return code;
}

int tool_fail_status(const hashattn_context *context, hashattn_status status)
{
    assert(hashattn_context_message(context)[0] != '\0');
    return hashattn_status_exit_code(status);
}

void tool_words(FILE *stream, const char *format, ...)
{
    (void)stream, (void)format;
}

void tool_line(FILE *stream, const char *format, ...)
{
    (void)stream, (void)format;
}

int tool_finish(void)
{
    return EXIT_GOOD;
}

int tool_open(const struct common *common, hashattn_context **context)
{
    (void)common;
    *context = NULL;
    return EXIT_WORK;
}

void tool_close(hashattn_context *context)
{
    hashattn_context_free(context);
}

#endif
