/* Needle: find the symbol of the marked tokens. The first token is the question, then follow random symbols
   out of 16. A few of them are marked, all with the same symbol: the class. The model reads its answer at the
   first token, so attention has to carry it there from the marked positions; without attention accuracy is
   chance (1 in 16). The unmarked tokens are independent of the class.
   A file has one example per line, LABEL<TAB>TEXT with one letter per token: '?' is the question, 'a' to 'p'
   are unmarked symbols, 'A' to 'P' marked ones; the label is the lower-case letter. Ids: unmarked 1 + s,
   marked 17 + s, the question 33. Cost: linear, a few nanoseconds per token.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
#include "base/memory.h"
#include "base/random.h"
#include "tasks/dataset.h"

enum { SYMBOLS = 16, QUESTION = 1 + 2 * SYMBOLS, VOCAB_SIZE = QUESTION + 1, LONGEST = 1 << 20 };

struct needle_options {
    int64_t seq_len, marks;
};

static const struct option_row rows[] = {
    OPTION_ROW("seq_len", OPTION_INT, offsetof(struct needle_options, seq_len), 1024, 2, LONGEST, NULL,
               "tokens of a generated example, including the question"),
    OPTION_ROW("marks", OPTION_INT, offsetof(struct needle_options, marks), 0, 0, LONGEST, NULL,
               "number of marked tokens; 0 means one in 32, at least one"),
    {.name = NULL},
};

static const char *const endings[] = {".tsv", NULL};
static const struct split_files files = {{"train", "valid", "test"}, endings, false, false, false};

struct generation {
    size_t seq_len, marks;
    uint64_t seed;
    char *line;
};

static hashattn_status write_example(struct host *host, void *context, enum split split, size_t index,
                                     struct file_writer *writer)
{
    (void)host;
    const struct generation *generation = context;
    uint64_t key = random_key(generation->seed, RANDOM_DATA, (uint64_t)split);
    struct random random = random_open(random_key(key, RANDOM_DATA, index));
    unsigned answer = random_below(&random, SYMBOLS);
    char *out = generation->line;
    *out++ = (char)('a' + answer);
    *out++ = '\t';
    *out++ = '?';
    /* Selection sampling: each position is marked with probability (marks left) / (positions left), so every
       set of positions is equally likely. */
    size_t marks = generation->marks;
    uint32_t symbols = 0;
    for (size_t left = generation->seq_len - 1, i = 0; left > 0; left--, i++) {
        if (i % 8 == 0)
            symbols = random_next(&random);
        bool marked = random_below(&random, (uint32_t)left) < marks;
        marks -= marked;
        *out++ = (char)(marked ? 'A' + answer : 'a' + symbols % SYMBOLS);
        symbols /= SYMBOLS;
    }
    *out++ = '\n';
    file_write(writer, generation->line, (size_t)(out - generation->line));
    return HASHATTN_OK;
}

static hashattn_status generate(struct host *host, const void *options, const char *directory,
                                const size_t *counts, uint64_t seed)
{
    const struct needle_options *needle = options;
    size_t seq_len = (size_t)needle->seq_len, marks = (size_t)needle->marks;
    if (marks == 0)
        marks = seq_len < 64 ? 1 : seq_len / 32;
    FAIL_IF(marks > seq_len - 1, host, HASHATTN_INVALID,
            "needle: %zu marks do not fit into %zu tokens of which one is the question", marks, seq_len);
    void *line;
    TRY(memory_new(host, seq_len + 3, 1, "a line", &line)); /* label, tab, tokens, newline */
    struct generation generation = {.seq_len = seq_len, .marks = marks, .seed = seed, .line = line};
    hashattn_status status = split_write(host, &files, directory, counts, "", write_example, &generation);
    memory_free(host, line);
    return status;
}

/* ---- reading ---- */

struct reading {
    size_t longest; /* length limit, from the training file; 0 while it is being found */
    struct dataset_builder *builder;
};

static hashattn_status read_line(struct host *host, void *context, struct piece line, size_t number)
{
    (void)number;
    struct reading *reading = context;
    struct piece fields[2];
    char shown[SHOWN_SIZE];
    size_t count = lines_split(line, fields, 2);
    FAIL_IF(count != 2, host, HASHATTN_BAD_FILE, "no tab between label and tokens");
    struct piece label = fields[0], text = fields[1];
    FAIL_IF(label.size != 1 || label.bytes[0] < 'a' || label.bytes[0] >= 'a' + SYMBOLS, host,
            HASHATTN_BAD_FILE, "the label is '%s', not a letter from a to p", piece_shown(label, shown));
    FAIL_IF(text.size == 0 || text.size > LONGEST, host, HASHATTN_BAD_FILE, "%zu tokens, allowed are 1 to %d",
            text.size, LONGEST);
    if (reading->builder == NULL) {
        reading->longest = text.size > reading->longest ? text.size : reading->longest;
        return HASHATTN_OK;
    }
    FAIL_IF(text.size > reading->longest, host, HASHATTN_BAD_FILE,
            "%zu tokens, the longest of the training file has %zu", text.size, reading->longest);
    size_t row;
    TRY(dataset_reserve(host, reading->builder, text.size, &row));
    uint32_t *tokens = reading->builder->dataset.ids + row;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.bytes[i];
        if (c >= 'a' && c < 'a' + SYMBOLS)
            tokens[i] = (uint32_t)(1 + c - 'a');
        else if (c >= 'A' && c < 'A' + SYMBOLS)
            tokens[i] = (uint32_t)(1 + SYMBOLS + c - 'A');
        else if (c == '?')
            tokens[i] = QUESTION;
        else
            return host_fail(host, HASHATTN_BAD_FILE, "0x%02x at byte %zu is none of a to p, A to P, ?",
                             (unsigned)(unsigned char)c, 2 + i);
    }
    dataset_push_label(reading->builder, text.size, label.bytes[0] - 'a', false);
    return HASHATTN_OK;
}

static hashattn_status read_file(struct host *host, const void *context, const char *path,
                                 struct dataset_builder *builder)
{
    const struct task_facts *known = context;
    struct reading reading = {.longest = known->max_len, .builder = builder};
    return file_each_line(host, path, FILE_FOUND, read_line, &reading);
}

static hashattn_status load(struct host *host, const void *options, const struct task_facts *facts,
                            const char *directory, enum split split, uint64_t seed, struct dataset *dataset)
{
    (void)options; /* options affect generation only */
    struct dataset shape = {0};
    dataset_classified(&shape);
    return split_load(host, &files, facts, directory, split, seed, &shape, read_file, facts, dataset);
}

static hashattn_status facts(struct host *host, const void *options, const char *directory,
                             struct tokenizer *given, struct task_facts *result)
{
    (void)given; /* ids are not tokens */
    (void)options;
    static const char *const labels[SYMBOLS] = {"a", "b", "c", "d", "e", "f", "g", "h",
                                                "i", "j", "k", "l", "m", "n", "o", "p"};
    char path[FILE_PATH];
    struct reading reading = {.longest = 0, .builder = NULL};
    *result = (struct task_facts){0};
    TRY(split_find_train(host, &files, directory, path, sizeof path));
    TRY(file_each_line(host, path, FILE_FOUND, read_line, &reading));
    FAIL_IF(reading.longest == 0, host, HASHATTN_BAD_FILE, "%s has no examples", path);
    return task_facts_new(host, VOCAB_SIZE, reading.longest, labels, SYMBOLS, result);
}

const struct task task_needle = {
    .name = "needle",
    .summary = "which symbol do the few marked tokens of a long sequence carry? (generated)",
    .options = rows,
    .options_size = sizeof(struct needle_options),
    .unread = UNREAD_BY_CLASSIFIERS,
    .preset = {SMALL_ENCODER, .steps = 1000, .batch = 32, .eval_every = 100, .warmup = 50,
               .learning_rate = 1e-3, .pooling = "first", .attention = YOSO_BITS(8)},
    .generate = generate,
    .facts = facts,
    .load = load,
};
