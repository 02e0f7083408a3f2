/* One line is in memory at a time; the standard library buffers the file.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/tokenizer/tokenizer_lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/shared/tool/outputs.h"

static int each_line(const char *path, tokenizer_line *line, void *self)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (file == NULL)
        return tool_fail(EXIT_FILE, "%s: cannot open: %s", path, strerror(errno));
    char *bytes = NULL;
    size_t capacity = 0, number = 0;
    ssize_t size;
    int code = EXIT_GOOD;
    while (code == EXIT_GOOD && (size = getline(&bytes, &capacity, file)) > 0) {
        size -= bytes[size - 1] == '\n';
        size -= size > 0 && bytes[size - 1] == '\r' && bytes[size] == '\n';
        code = line(self, bytes, (size_t)size, ++number);
    }
    if (code == EXIT_GOOD && !feof(file))
        code = tool_fail(errno == ENOMEM ? EXIT_RESOURCE : EXIT_FILE, "%s: cannot read: %s", path,
                         strerror(errno));
    free(bytes);
    if (file != stdin)
        fclose(file);
    return code;
}

static int write_lines(struct tokenizer_lines *lines, const char *directory, const char *out,
                       tokenizer_line *line, int (*end)(void *self), void *self)
{
    int code = EXIT_GOOD;
    hashattn_status status = hashattn_file_begin(lines->context, out, &lines->out);
    if (status != HASHATTN_OK)
        return tool_fail_status(lines->context, status);
    status = hashattn_tokenizer_load(lines->context, directory, &lines->tokenizer);
    if (status != HASHATTN_OK)
        code = tool_fail_status(lines->context, status);
    if (code == EXIT_GOOD)
        code = each_line(lines->path, line, self);
    if (end != NULL) {
        int ended = end(self);
        code = code == EXIT_GOOD ? ended : code;
    }
    hashattn_tokenizer_free(lines->tokenizer);
    if (code != EXIT_GOOD) {
        hashattn_file_drop(lines->out);
        return code;
    }
    status = hashattn_file_commit(lines->out);
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(lines->context, status);
}

int tokenizer_lines_run(struct tokenizer_lines *lines, const struct options *options, const char *out,
                        tokenizer_line *line, int (*end)(void *self), void *self)
{
    if (options->num_operands != 2)
        return options_fail(options, "%s needs two operands, the directory and the file; got %zu",
                            options->command->name, options->num_operands);
    lines->path = options->operands[1];
    int code = tool_open(&options->common, &lines->context);
    if (code == EXIT_GOOD)
        code = outputs_check_inputs("out", out, &lines->path, 1);
    if (code == EXIT_GOOD)
        code = outputs_check_model("out", out, options->operands[0]);
    if (code == EXIT_GOOD)
        code = write_lines(lines, options->operands[0], out, line, end, self);
    tool_close(lines->context);
    return code;
}
