/* `tokenizer encode`: one JSON line of ids per line of text.
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/tokenizer/tokenizer_kinds.h"
#include "cli/tokenizer/tokenizer_lines.h"

struct encode {
    struct tokenizer_lines lines;
    hashattn_encode_options options;
    char bytes[1 << 16]; /* output that waits */
    size_t used;
};

/* Says a failure to write once. */
static int flush(struct encode *encode)
{
    if (encode->used == 0)
        return EXIT_GOOD;
    hashattn_status status = hashattn_file_write(encode->lines.out, encode->bytes, encode->used);
    encode->used = 0;
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(encode->lines.context, status);
}

/* Appends a short text; a full buffer is written. */
static int put(struct encode *encode, const char *text)
{
    size_t size = strlen(text);
    if (encode->used + size > sizeof encode->bytes && flush(encode) != EXIT_GOOD)
        return EXIT_RESOURCE;
    memcpy(encode->bytes + encode->used, text, size);
    encode->used += size;
    return EXIT_GOOD;
}

/* Appends a separator and a number. */
static int put_number(struct encode *encode, const char *before, size_t number)
{
    char text[32], *at = text + sizeof text - 1;
    *at = '\0';
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    int code = put(encode, before);
    return code == EXIT_GOOD ? put(encode, at) : code;
}

static int write_line(void *self, const char *bytes, size_t size, size_t number)
{
    struct encode *encode = self;
    hashattn_encoding encoding = {.struct_size = sizeof encoding};
    hashattn_status status =
        hashattn_tokenizer_encode(encode->lines.tokenizer, bytes, size, NULL, 0, &encode->options, &encoding);
    if (status != HASHATTN_OK)
        return tool_fail(hashattn_status_exit_code(status), "%s: line %zu: %s", encode->lines.path, number,
                         hashattn_context_message(encode->lines.context));
    int code = put(encode, "{\"ids\": [");
    for (size_t i = 0; i < encoding.count && code == EXIT_GOOD; i++)
        code = put_number(encode, i > 0 ? ", " : "", encoding.ids[i]);
    if (encoding.begins != NULL && code == EXIT_GOOD)
        code = put(encode, "], \"offsets\": [");
    for (size_t i = 0; encoding.begins != NULL && i < encoding.count && code == EXIT_GOOD; i++) {
        code = put_number(encode, i > 0 ? "], [" : "[", encoding.begins[i]);
        if (code == EXIT_GOOD)
            code = put_number(encode, ", ", encoding.ends[i]);
    }
    if (code == EXIT_GOOD)
        code = put(encode, encoding.begins != NULL && encoding.count > 0 ? "]]}\n" : "]}\n");
    return code;
}

static int end_lines(void *self)
{
    return flush(self);
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options;
    struct encode encode = {.used = 0};
    const char *out = "-";
    hashattn_encode_options_default(&encode.options);
    options_begin(&options, self);
    options_add_switch(&options, "special-tokens", &encode.options.special_tokens,
                       "add the special tokens of the tokenizer, for instance <s> and </s>");
    options_add_count(&options, "max-tokens", &encode.options.max_tokens, "N",
                      "keep the first N tokens, special tokens included; the rest of a line is not read "
                      "(default: all)",
                      1, 1e15);
    options_add_switch(&options, "offsets", &encode.options.offsets,
                       "add \"offsets\": the bytes [begin, end) of the line that each token stands for");
    options_add_text(&options, "out", &out, "FILE", "file to write (default: stdout)");
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    return tokenizer_lines_run(&encode.lines, &options, out, write_line, end_lines, &encode);
}

const struct command tokenizer_encode = {
    .name = "tokenizer encode",
    .operands = "DIR FILE",
    .summary = "Turns each line of a text (- for stdin) into one JSON line, {\"ids\": [...]}",
    .example = "  for i in $(seq 200); do echo \"The cat sat on the mat, and the dog on the log.\"; done > "
               "cats.txt\n"
               "  hashattn tokenizer train cats.txt --vocab-size 300 --out cats\n"
               "  echo 'the cat and the dog' | hashattn tokenizer encode cats - --special-tokens\n",
    .run = run,
};
