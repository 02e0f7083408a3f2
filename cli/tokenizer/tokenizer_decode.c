/* `tokenizer decode`: one line of text per JSON line of ids, as `tokenizer encode` writes them. A line feed
   in a text is written as it is.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli/tokenizer/tokenizer_kinds.h"
#include "cli/tokenizer/tokenizer_lines.h"

struct decode {
    struct tokenizer_lines lines;
    int special_tokens;
    uint32_t *ids;
    size_t capacity;
};

static const char *skip_space(const char *at)
{
    return at + strspn(at, " \t\r");
}

/* Adds an id to the list. */
static int keep(struct decode *decode, size_t count, uint32_t id)
{
    if (count == decode->capacity) {
        size_t capacity = count < 64 ? 64 : 2 * count;
        uint32_t *larger = realloc(decode->ids, capacity * sizeof *larger);
        if (larger == NULL)
            return tool_fail(EXIT_RESOURCE, "no memory for %zu ids", capacity);
        decode->ids = larger;
        decode->capacity = capacity;
    }
    decode->ids[count] = id;
    return EXIT_GOOD;
}

/* Reads "[1, 2, 3]", alone or behind the key "ids" of an object. */
static int read_ids(struct decode *decode, const char *line, size_t number, size_t *count)
{
    const char *key = strstr(line, "\"ids\""), *at = skip_space(line);
    *count = 0;
    if (*at == '{' && key != NULL) {
        at = skip_space(key + 5);
        at = skip_space(at + (*at == ':'));
    }
    if (*at != '[')
        return tool_fail(EXIT_FILE, "%s: line %zu: neither {\"ids\": [...]} nor a list of ids",
                         decode->lines.path, number);
    at = skip_space(at + 1);
    while (*at != ']') {
        char *end;
        unsigned long long id = *at >= '0' && *at <= '9' ? strtoull(at, &end, 10) : UINT32_MAX;
        if (id >= UINT32_MAX)
            return tool_fail(EXIT_FILE, "%s: line %zu, byte %zu: an id is needed, a number from 0 to %zu",
                             decode->lines.path, number, (size_t)(at - line),
                             hashattn_tokenizer_num_ids(decode->lines.tokenizer) - 1);
        int code = keep(decode, *count, (uint32_t)id);
        if (code != EXIT_GOOD)
            return code;
        ++*count;
        at = skip_space(end);
        if (*at == ',' && *skip_space(at + 1) != ']')
            at = skip_space(at + 1);
        else if (*at != ']')
            return tool_fail(EXIT_FILE, "%s: line %zu, byte %zu: ',' or ']' is needed after an id",
                             decode->lines.path, number, (size_t)(at - line));
    }
    return EXIT_GOOD;
}

static int write_line(void *self, const char *bytes, size_t size, size_t number)
{
    struct decode *decode = self;
    const char *text;
    size_t count, text_size;
    if (memchr(bytes, '\0', size) != NULL)
        return tool_fail(EXIT_FILE, "%s: line %zu has a NUL", decode->lines.path, number);
    int code = read_ids(decode, bytes, number, &count);
    if (code != EXIT_GOOD)
        return code;
    hashattn_status status = hashattn_tokenizer_decode(decode->lines.tokenizer, decode->ids, count,
                                                       !decode->special_tokens, &text, &text_size);
    if (status == HASHATTN_INVALID)
        return tool_fail(EXIT_FILE, "%s: line %zu: %s", decode->lines.path, number,
                         hashattn_context_message(decode->lines.context));
    if (status == HASHATTN_OK)
        status = hashattn_file_write(decode->lines.out, text, text_size);
    if (status == HASHATTN_OK)
        status = hashattn_file_write(decode->lines.out, "\n", 1);
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(decode->lines.context, status);
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options;
    struct decode decode = {.ids = NULL};
    const char *out = "-";
    options_begin(&options, self);
    options_add_switch(&options, "special-tokens", &decode.special_tokens, "write special tokens too");
    options_add_text(&options, "out", &out, "FILE", "file to write (default: stdout)");
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    code = tokenizer_lines_run(&decode.lines, &options, out, write_line, NULL, &decode);
    free(decode.ids);
    return code;
}

const struct command tokenizer_decode = {
    .name = "tokenizer decode",
    .operands = "DIR FILE",
    .summary = "Turns JSON lines of ids (- for stdin), as encode writes them, into lines of text",
    .example = "  for i in $(seq 200); do echo \"The cat sat on the mat, and the dog on the log.\"; done > "
               "cats.txt\n"
               "  hashattn tokenizer train cats.txt --vocab-size 300 --out cats\n"
               "  echo 'the cat' | hashattn tokenizer encode cats - | hashattn tokenizer decode cats -\n",
    .run = run,
};
