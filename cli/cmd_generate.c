/* `generate`: text from a trained language model, as it comes. The first text goes to stdout token by token;
   others, which grow beside it, follow when they are complete. SIGINT and SIGTERM end the texts where they
   are, once there are tokens.
   SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/shared/options/arguments.h"
#include "cli/shared/output/json_out.h"
#include "cli/shared/tool/grow.h"
#include "cli/shared/tool/run_open.h"
#include "cli/shared/tool/signals.h"

static volatile sig_atomic_t stop_signal, has_begun;

/* The first signal after the first token asks for the end of the texts; any other one ends the tool. */
static void on_signal(int number)
{
    if (has_begun == 0) {
        signals_end(number);
        return;
    }
    stop_signal = number;
    signal(number, signals_end);
}

static void watch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

struct bytes {
    void *data;
    size_t size, capacity;
};

static bool add_bytes(struct bytes *bytes, const char *more, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (!grow(&bytes->data, &bytes->capacity, bytes->size, 1))
            return false;
        ((char *)bytes->data)[bytes->size++] = more[i];
    }
    return true;
}

struct text {
    struct bytes bytes; /* not written yet */
    size_t tokens;
    double tokens_per_second;
    bool begun, done, stopped;
};

struct generating {
    const struct options *options;
    struct text *texts; /* (num) */
    size_t num, next;   /* next: the text that is written now */
    bool no_memory;
    hashattn_generated prompt; /* of the first call */
};

/* ---- output ------------------------------------------------------------------------------------------- */

static void write_record(const struct generating *g, const struct text *text)
{
    struct json_out json = json_out_to(stdout);
    json_out_object(&json, NULL);
    json_out_bytes(&json, "text", text->bytes.size > 0 ? text->bytes.data : "", text->bytes.size);
    json_out_count(&json, "tokens", text->tokens);
    json_out_number(&json, "tokens_per_second", text->tokens_per_second);
    json_out_text(&json, "stopped_by", !text->done ? "signal" : text->stopped ? "stop" : "tokens");
    json_out_count(&json, "prompt_tokens", g->prompt.prompt_tokens);
    json_out_number(&json, "prompt_seconds", g->prompt.prompt_seconds);
    json_out_end_object(&json);
}

/* What is known of the text whose turn it is; an empty line is between texts. */
static void write_text(struct generating *g, struct text *text, bool ends)
{
    if (g->options->common.json) {
        if (ends)
            write_record(g, text);
    } else {
        if (text->bytes.size > 0)
            fwrite(text->bytes.data, 1, text->bytes.size, stdout);
        text->bytes.size = 0;
        if (ends)
            fputs(g->next + 1 < g->num && stop_signal == 0 ? "\n\n" : "\n", stdout);
    }
    fflush(stdout);
}

/* Writes texts in their order, as far as they are known. */
static void write_known(struct generating *g)
{
    for (; g->next < g->num && g->texts[g->next].done; g->next++)
        write_text(g, &g->texts[g->next], true);
    if (g->next < g->num && g->texts[g->next].begun)
        write_text(g, &g->texts[g->next], false);
}

static void say_prompt(const struct generating *g)
{
    const hashattn_generated *prompt = &g->prompt;
    if (g->options->common.quiet)
        return;
    if (prompt->recomputes != NULL)
        fprintf(stderr, "%s keeps nothing of earlier tokens: every token is a pass over the whole text\n",
                prompt->recomputes);
    if (prompt->prompt_unknown > 0)
        fprintf(stderr, "%zu word%s of the prompt %s <unk>\n", prompt->prompt_unknown,
                prompt->prompt_unknown == 1 ? "" : "s", prompt->prompt_unknown == 1 ? "is" : "are");
}

static int take(void *user, const hashattn_generated *generated)
{
    struct generating *g = user;
    struct text *text = &g->texts[generated->text];
    has_begun = 1;
    if (generated->tokens == 0) {
        g->prompt = *generated;
        say_prompt(g);
        return stop_signal != 0;
    }
    if (!add_bytes(&text->bytes, generated->added, generated->size)) {
        g->no_memory = true;
        return 1;
    }
    text->tokens = generated->tokens;
    text->tokens_per_second = generated->tokens_per_second;
    text->begun = true;
    text->done = generated->done != 0;
    text->stopped = generated->stopped != 0;
    if (generated->text == g->next)
        write_known(g);
    return stop_signal != 0 || ferror(stdout) != 0;
}

/* Ends texts where a signal stopped them. */
static void write_rest(struct generating *g)
{
    for (; g->next < g->num && g->texts[g->next].begun; g->next++)
        write_text(g, &g->texts[g->next], true);
}

static void say_rate(const struct generating *g)
{
    size_t tokens = 0;
    for (size_t i = 0; i < g->num; i++)
        tokens += g->texts[i].tokens;
    if (!g->options->common.quiet && !g->options->common.json && g->prompt.prompt_tokens > 0)
        fprintf(stderr, "%zu token%s of prompt in %.3g s; %zu token%s, %.3g tokens/s for each text\n",
                g->prompt.prompt_tokens, g->prompt.prompt_tokens == 1 ? "" : "s", g->prompt.prompt_seconds,
                tokens, tokens == 1 ? "" : "s", g->texts[0].tokens_per_second);
}

/* ---- the command -------------------------------------------------------------------------------------- */

/* Reads standard input to its end. */
static int read_prompt(struct bytes *prompt)
{
    char block[1 << 14];
    for (size_t size; (size = fread(block, 1, sizeof block, stdin)) > 0;)
        if (!add_bytes(prompt, block, size))
            return tool_fail(EXIT_RESOURCE, "no memory for a prompt of more than %zu bytes", prompt->size);
    return ferror(stdin)
               ? tool_fail(EXIT_FILE, "the prompt cannot be read from standard input: %s", strerror(errno))
               : EXIT_GOOD;
}

static int generate(const struct options *options, hashattn_context *context, hashattn_model *model,
                    hashattn_generate_options *wanted, const char *prompt, size_t size)
{
    struct generating g = {.options = options, .num = wanted->num_texts};
    g.texts = calloc(g.num, sizeof *g.texts);
    if (g.texts == NULL)
        return tool_fail(EXIT_RESOURCE, "no memory for %zu texts", g.num);
    hashattn_model_info info = {.struct_size = sizeof info};
    hashattn_model_describe(model, &info);
    wanted->seed = options->common.seed_given ? options->common.seed : info.seed;
    watch_signals();
    hashattn_status status = hashattn_model_generate(model, prompt, size, wanted, take, &g);
    bool stopped = stop_signal != 0;
    write_rest(&g);
    say_rate(&g);
    for (size_t i = 0; i < g.num; i++)
        free(g.texts[i].bytes.data);
    free(g.texts);
    if (g.no_memory)
        return tool_fail(EXIT_RESOURCE, "no memory for the texts");
    if (status != HASHATTN_OK && status != HASHATTN_INTERRUPTED)
        return tool_fail_status(context, status);
    int code = tool_finish();
    return code != EXIT_GOOD ? code : stopped ? EXIT_STOPPED : EXIT_GOOD;
}

static int work(const struct options *options, hashattn_context *context, hashattn_generate_options *wanted)
{
    hashattn_model *model = NULL;
    struct bytes input = {.data = NULL};
    const char *prompt = options->num_operands > 1 ? options->operands[1] : "";
    size_t size = strlen(prompt);
    hashattn_status status = run_open(context, options->operands[0], &model);
    for (size_t i = 0; i < options->num_settings && status == HASHATTN_OK; i++)
        status = hashattn_model_set(model, options->settings[i].name, options->settings[i].text);
    int code = status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(context, status);
    if (code == EXIT_GOOD && strcmp(prompt, "-") == 0) {
        code = read_prompt(&input);
        prompt = input.data;
        size = input.size;
    }
    if (code == EXIT_GOOD)
        code = generate(options, context, model, wanted, prompt, size);
    free(input.data);
    hashattn_model_free(model);
    return code;
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options;
    struct text_list stops = {.count = 0};
    hashattn_generate_options wanted;
    hashattn_generate_options_default(&wanted);
    options_begin(&options, self);
    options_add_count(&options, "max-tokens", &wanted.max_tokens, "N",
                      "tokens of a text (default 256, or as many as the model has learned positions for)", 1,
                      1e9);
    options_add_number(&options, "temperature", &wanted.temperature, "T",
                       "divides the scores of tokens: below 1 likely tokens become likelier; 0 takes the "
                       "likeliest (default 1)",
                       0, 1e6);
    options_add_count(&options, "top-k", &wanted.top_k, "K",
                      "choose among the K likeliest tokens (default all)", 1, 1e9);
    options_add_number(&options, "top-p", &wanted.top_p, "P",
                       "choose among the likeliest tokens that together have probability P (default 1)", 0,
                       1);
    options_add_list(&options, "stop", &stops, "TEXT",
                     "end a text before TEXT; may be repeated (default: only --max-tokens ends it)");
    options_add_count(&options, "num", &wanted.num_texts, "N", "texts after the prompt (default 1)", 1, 1e6);
    options_add_mechanisms(&options);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands < 1 || options.num_operands > 2)
        return options_fail(&options,
                            "generate needs the run and at most one prompt, in quotes; got %zu operands",
                            options.num_operands);
    wanted.stops = stops.items;
    wanted.num_stops = stops.count;
    hashattn_context *context;
    code = tool_open(&options.common, &context);
    if (code == EXIT_GOOD)
        code = work(&options, context, &wanted);
    tool_close(context);
    return code;
}

const struct command command_generate = {
    .name = "generate",
    .operands = "RUN [PROMPT|-]",
    .summary = "Writes text that follows a prompt (- for stdin) with a trained language model",
    .example = "  for i in $(seq 200); do echo \"The cat sat on mat $i. The dog lay on log $i.\"; done > "
               "tales.txt\n"
               "  hashattn train lm --data tales.txt --steps 30 --eval-every 10 --out teller\n"
               "  hashattn generate teller \"The cat\" --max-tokens 40 --temperature 0.8\n",
    .run = run,
};
