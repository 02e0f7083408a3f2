/* `tokenizer train`: learns a byte-level BPE from text files.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/output/json_out.h"
#include "cli/shared/output/progress.h"
#include "cli/shared/tool/outputs.h"
#include "cli/shared/tool/tool.h"
#include "cli/tokenizer/tokenizer_kinds.h"

static int show(void *user, size_t tokens, size_t vocab_size)
{
    progress_show(user, (int64_t)tokens, (int64_t)vocab_size, "tokens");
    return 0;
}

static int work(const struct options *options, hashattn_context *context, hashattn_learn_options *learn,
                const char *out)
{
    struct progress progress = progress_begin(options->common.quiet);
    hashattn_tokenizer *tokenizer = NULL;
    learn->progress = show;
    learn->user = &progress;
    hashattn_status status =
        hashattn_tokenizer_learn(context, options->operands, options->num_operands, learn, &tokenizer);
    progress_end(&progress);
    if (status == HASHATTN_OK)
        status = hashattn_tokenizer_save(tokenizer, out);
    size_t size = hashattn_tokenizer_num_ids(tokenizer);
    hashattn_tokenizer_free(tokenizer);
    if (status != HASHATTN_OK)
        return tool_fail_status(context, status);
    if (options->common.json) {
        struct json_out json = json_out_to(stdout);
        json_out_object(&json, NULL);
        json_out_text(&json, "tokenizer", out);
        json_out_count(&json, "vocab_size", size);
        json_out_end_object(&json);
    } else if (!options->common.quiet) {
        tool_line(stderr, "%s/tokenizer.json has %zu tokens%s", out, size,
                  size < learn->vocab_size ? "; the text has no more pairs that are frequent enough" : "");
    }
    return tool_finish();
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options;
    hashattn_learn_options learn;
    const char *out = NULL;
    hashattn_learn_options_default(&learn);
    options_begin(&options, self);
    options_add_count(&options, "vocab-size", &learn.vocab_size, "N",
                      "tokens, with 5 special tokens and 256 bytes (default: 30000)", 261, 1 << 20);
    options_add_count(&options, "min-frequency", &learn.min_frequency, "N",
                      "a pair of tokens that occurs less often is not joined (default: 2)", 1, 1e15);
    options_add_text(&options, "out", &out, "DIR", "directory for tokenizer.json");
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands == 0)
        return options_fail(&options, "tokenizer train needs a text file");
    if (out == NULL)
        return options_fail(&options, "tokenizer train needs --out DIR");
    hashattn_context *context;
    code = tool_open(&options.common, &context);
    char path[4096];
    snprintf(path, sizeof path, "%s/tokenizer.json", out); /* a longer one is not written */
    if (code == EXIT_GOOD)
        code = outputs_check_inputs("out", path, options.operands, options.num_operands);
    if (code == EXIT_GOOD)
        code = outputs_check_directory(out);
    if (code == EXIT_GOOD)
        code = work(&options, context, &learn, out);
    tool_close(context);
    return code;
}

const struct command tokenizer_train = {
    .name = "tokenizer train",
    .operands = "FILE...",
    .summary = "Learns a byte-level BPE from text files (- for stdin) and writes DIR/tokenizer.json",
    .example = "  for i in $(seq 200); do echo \"The cat sat on the mat, and the dog on the log.\"; done > "
               "cats.txt\n"
               "  hashattn tokenizer train cats.txt --vocab-size 300 --out cats\n",
    .run = run,
};
