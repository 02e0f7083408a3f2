/* A message is one line on standard error. Under mpirun it names the rank; a failure of all ranks together is
   printed by rank 0 alone.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/tool/tool.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "cli/shared/tool/ranks.h"
#include "cli/shared/tool/signals.h"

int tool_fail(int code, const char *format, ...)
{
    char text[800], sentence[900], whose[24] = "";
    int rank, size;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    hashattn_message_clean(text);
    ranks_place(&rank, &size);
    if (size > 1 && strncmp(text, "rank ", 5) != 0)
        snprintf(whose, sizeof whose, "rank %d: ", rank);
    snprintf(sentence, sizeof sentence, "%s%s", whose, text);
    /* If all ranks fail, as with a wrong option, the launcher ends the others before they print it too. */
    if (rank > 0)
        sleep(3);
    signals_remove_unfinished();
    ranks_end(sentence);
    fprintf(stderr, "hashattn: %s\n", sentence);
    return code;
}

int tool_fail_status(const hashattn_context *context, hashattn_status status)
{
    int code = hashattn_status_exit_code(status), rank, size;
    ranks_place(&rank, &size);
    if (!hashattn_context_failed_together(context))
        return tool_fail(code, "%s", hashattn_context_message(context));
    if (rank == 0)
        fprintf(stderr, "hashattn: %s\n", hashattn_context_message(context));
    return code;
}

static void print_clean(FILE *stream, const char *format, va_list arguments)
{
    char text[9000]; /* two paths and more */
    vsnprintf(text, sizeof text, format, arguments);
    hashattn_message_clean(text);
    fputs(text, stream);
}

void tool_words(FILE *stream, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_clean(stream, format, arguments);
    va_end(arguments);
}

void tool_line(FILE *stream, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_clean(stream, format, arguments);
    va_end(arguments);
    fputc('\n', stream);
}

void tool_say_repairs(const hashattn_context *context, bool quiet)
{
    int repaired;
    const char *note = hashattn_context_note(context, &repaired);
    if (repaired && !quiet)
        fprintf(stderr, "%s\n", note);
}

int tool_finish(void)
{
    bool failed = ferror(stdout) != 0;
    if (fflush(stdout) != 0 || failed)
        return tool_fail(EXIT_RESOURCE, "cannot write standard output: %s", strerror(errno));
    return EXIT_GOOD;
}

int tool_open(const struct common *common, hashattn_context **context)
{
    char message[512];
    hashattn_context_options options;
    hashattn_context_options_default(&options);
    if (common->joins) {
        int code = ranks_open(common->comm_timeout, &options.communicator, message, sizeof message);
        if (code != EXIT_GOOD)
            return tool_fail(code, "%s", message);
    }
    options.threads = (int)common->threads;
    options.isa = common->isa;
    options.precision = common->precision;
    options.device = common->device;
    options.option_dashes = 1;
    hashattn_status status = hashattn_context_new(&options, message, sizeof message, context);
    if (status != HASHATTN_OK)
        return tool_fail(hashattn_status_exit_code(status), "%s", message);
    hashattn_context_cap_products(*context);
    signals_watch(*context);
    return EXIT_GOOD;
}

void tool_close(hashattn_context *context)
{
    signals_forget(context);
    hashattn_context_free(context);
    ranks_close();
}
