/* ListOps of the Long Range Arena: nested lists of digits under MIN, MAX, MED and SM, 500 to 2,000 symbols;
   the class is the value of the whole expression (Nangia and Bowman 2018; Tay et al. 2021). Rules of the
   arena's generator: at depth 1 to 9 a node is a digit with probability 3/4, otherwise an operator with 2 to
   10 arguments; at depth 10 it is a digit; the operator is drawn after its arguments; trees with 500 < length
   < 2000 (without parentheses) are kept, duplicates are not. One draw in twelve is kept. The file format is
   the arena's: a header, then SOURCE<TAB>TARGET, lines ended by CR LF; SOURCE has redundant parentheses,
   which are dropped on reading. The ids are fixed (listops.h), and the vocabulary has 32 rows like that of
   the released models. Cost: about 0.1 ms to draw a tree, 7 KB per line.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/listops.h"

#include <assert.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "tasks/dataset.h"

enum { VOCAB_SIZE = 32, NUM_CLASSES = 10, DRAWS = 1000000 };

static const char *const names[LISTOPS_SYMBOLS] = {"",  "0", "1", "2",    "3",    "4",    "5",   "6",
                                                   "7", "8", "9", "[MIN", "[MAX", "[MED", "[SM", "]"};

static const struct option_row rows[] = {
    OPTION_ROW("min_len", OPTION_INT, offsetof(struct listops_options, min_len), 500, 0, 65535, NULL,
               "generated expressions have more symbols than this"),
    OPTION_ROW("max_len", OPTION_INT, offsetof(struct listops_options, max_len), 2000, 3, 65536, NULL,
               "generated expressions have fewer symbols than this; expressions from files are cut to it"),
    OPTION_ROW("max_depth", OPTION_INT, offsetof(struct listops_options, max_depth), 10, 1, LISTOPS_MAX_DEPTH,
               NULL, "greatest depth, at which every node is a digit"),
    OPTION_ROW("max_args", OPTION_INT, offsetof(struct listops_options, max_args), 10, 2, 1000, NULL,
               "maximum number of arguments of an operator"),
    OPTION_ROW("check_labels", OPTION_FLAG, offsetof(struct listops_options, check_labels), 1, 0, 1, NULL,
               "evaluate expressions from files and refuse wrong labels"),
    {.name = NULL},
};

static bool is_operator(uint32_t symbol)
{
    return symbol >= LISTOPS_MIN && symbol <= LISTOPS_SM;
}

/* ---- drawing ---- */

struct draw {
    struct random *random;
    const struct listops_options *options;
    uint32_t *symbols;
    size_t length;
};

/* Appends one node. Returns false as soon as the tree is too long to keep. */
static bool draw_node(struct draw *draw, int64_t depth)
{
    size_t limit = (size_t)draw->options->max_len, place = draw->length++;
    if (draw->length >= limit)
        return false;
    if (depth >= draw->options->max_depth || random_unit(draw->random) > 0.25f) {
        draw->symbols[place] = (uint32_t)(LISTOPS_DIGIT + random_below(draw->random, 10));
        return true;
    }
    uint32_t args = 2 + random_below(draw->random, (uint32_t)draw->options->max_args - 1);
    for (uint32_t i = 0; i < args; i++)
        if (!draw_node(draw, depth + 1))
            return false;
    draw->symbols[place] = (uint32_t)(LISTOPS_MIN + random_below(draw->random, 4));
    draw->symbols[draw->length++] = LISTOPS_CLOSE;
    return draw->length < limit;
}

size_t listops_draw(struct random *random, const struct listops_options *options, uint32_t *symbols)
{
    struct draw draw = {.random = random, .options = options, .symbols = symbols};
    return draw_node(&draw, 1) ? draw.length : 0;
}

/* ---- evaluating ---- */

/* How often each digit is an argument, which is all that the four operators need. */
struct list {
    uint32_t op;
    size_t digits[10], count;
};

static int digit_at(const struct list *list, size_t rank) /* among the sorted arguments */
{
    int digit = 0;
    for (size_t below = list->digits[0]; below <= rank; below += list->digits[digit])
        digit++;
    return digit;
}

static int value_of(const struct list *list)
{
    size_t sum = 0;
    switch (list->op) {
    case LISTOPS_MIN:
        return digit_at(list, 0);
    case LISTOPS_MAX:
        return digit_at(list, list->count - 1);
    case LISTOPS_MED: /* for an even count the mean of the middle two, rounded down */
        return (digit_at(list, (list->count - 1) / 2) + digit_at(list, list->count / 2)) / 2;
    default:
        for (size_t digit = 0; digit < 10; digit++)
            sum += digit * list->digits[digit];
        return (int)(sum % 10);
    }
}

int listops_value(const uint32_t *symbols, size_t length)
{
    struct list open[LISTOPS_MAX_DEPTH];
    size_t depth = 0;
    for (size_t i = 0; i < length; i++) {
        int value;
        if (is_operator(symbols[i])) {
            if (depth == LISTOPS_MAX_DEPTH)
                return -1;
            open[depth++] = (struct list){.op = symbols[i]};
            continue;
        }
        if (symbols[i] == LISTOPS_CLOSE) {
            if (depth == 0 || open[depth - 1].count == 0)
                return -1;
            value = value_of(&open[--depth]);
        } else {
            value = (int)symbols[i] - LISTOPS_DIGIT;
        }
        if (depth == 0)
            return i + 1 == length ? value : -1;
        open[depth - 1].digits[value]++;
        open[depth - 1].count++;
    }
    return -1;
}

/* ---- writing ---- */

size_t listops_text_size(size_t length)
{
    /* A symbol has at most four letters and a blank. An argument adds a pair of parentheses and an operator
       another pair, each with a blank. */
    return 13 * length;
}

static char *put(char *start, const char *word, size_t times)
{
    for (size_t i = 0, bytes = strlen(word); i < times; i++) {
        start -= bytes;
        memcpy(start, word, bytes);
    }
    return start;
}

char *listops_text(const uint32_t *symbols, size_t length, char *text, size_t size)
{
    /* OP a b is "( ( ( OP a ) b ) ] )": one "( " more than arguments. Their number is known at the end of the
       list, so the text is written backwards, every word with a blank before it. */
    assert(size >= listops_text_size(length));
    size_t args[LISTOPS_MAX_DEPTH], depth = 0;
    char *start = text + size;
    for (size_t i = length; i-- > 0;) {
        if (!is_operator(symbols[i]) && depth > 0) { /* the end of an argument, digit or list */
            start = put(start, " )", 1);
            args[depth - 1]++;
        }
        if (symbols[i] == LISTOPS_CLOSE) {
            start = put(start, " ] )", 1);
            args[depth++] = 0;
            continue;
        }
        start = put(start, names[symbols[i]], 1);
        start = put(start, " ", 1);
        if (is_operator(symbols[i]))
            start = put(start, " (", args[--depth] + 1);
    }
    return start + 1;
}

/* ---- generating files ---- */

static const char *const endings[] = {".tsv", NULL};
static const struct split_files files = {
    {"basic_train", "basic_val", "basic_test"}, endings, false, false, false};

struct generation {
    const struct listops_options *options;
    uint64_t seed;
    uint32_t *symbols;
    char *text;
    size_t text_size;
    uint64_t *seen; /* fingerprints of the trees so far, an open-addressing table; 0 marks a free slot */
    size_t places;  /* a power of two */
};

/* Returns false if an equal tree (or one with the same 64-bit fingerprint) was entered before. */
static bool enter(struct generation *generation, size_t length)
{
    uint64_t print = 0xcbf29ce484222325u; /* FNV-1a, with a final multiplication that mixes the low bits */
    for (size_t i = 0; i < length; i++)
        print = (print ^ generation->symbols[i]) * 0x100000001b3u;
    print = (print ^ print >> 32) * 0x9e3779b97f4a7c15u;
    print = (print ^ print >> 32) | 1;
    size_t place = print >> 1 & (generation->places - 1);
    while (generation->seen[place] != 0) {
        if (generation->seen[place] == print)
            return false;
        place = (place + 1) & (generation->places - 1);
    }
    generation->seen[place] = print;
    return true;
}

static hashattn_status write_example(struct host *host, void *context, enum split split, size_t index,
                                     struct file_writer *writer)
{
    struct generation *generation = context;
    const struct listops_options *options = generation->options;
    uint64_t key = random_key(generation->seed, RANDOM_DATA, (uint64_t)split);
    struct random random = random_open(random_key(key, RANDOM_DATA, index));
    size_t length = 0, draws = 0;
    while (length <= (size_t)options->min_len || !enter(generation, length)) {
        FAIL_IF(draws++ == DRAWS, host, HASHATTN_INVALID,
                "listops: %d draws gave no new expression for example %zu of %s with %lld < length < %lld at "
                "`max_depth` %lld, `max_args` %lld",
                DRAWS, index, split_name(split), (long long)options->min_len, (long long)options->max_len,
                (long long)options->max_depth, (long long)options->max_args);
        length = listops_draw(&random, options, generation->symbols);
    }
    char *start = listops_text(generation->symbols, length, generation->text, generation->text_size);
    file_write(writer, start, (size_t)(generation->text + generation->text_size - start));
    char label[] = {'\t', (char)('0' + listops_value(generation->symbols, length)), '\r', '\n'};
    file_write(writer, label, sizeof label);
    return HASHATTN_OK;
}

static hashattn_status generate(struct host *host, const void *options, const char *directory,
                                const size_t *counts, uint64_t seed)
{
    struct generation generation = {.options = options, .seed = seed, .places = 64};
    size_t max_len = (size_t)generation.options->max_len, count = 0;
    FAIL_IF(generation.options->min_len >= generation.options->max_len - 1, host, HASHATTN_INVALID,
            "listops: no length is above `min_len` %lld and below `max_len` %lld",
            (long long)generation.options->min_len, (long long)generation.options->max_len);
    for (int split = 0; split < SPLIT_COUNT; split++)
        count = size_sum(count, counts[split]);
    FAIL_IF(count > UINT32_MAX, host, HASHATTN_INVALID, "listops: %zu examples, at most %u are allowed",
            count, UINT32_MAX);
    while (generation.places / 2 < count)
        generation.places = size_product(generation.places, 2);
    generation.text_size = listops_text_size(max_len);

    void *symbols = NULL, *text = NULL, *seen = NULL;
    hashattn_status status;
    TRY_DONE(memory_new(host, max_len, sizeof(uint32_t), "an expression", &symbols));
    TRY_DONE(memory_new(host, generation.text_size, 1, "a line", &text));
    TRY_DONE(memory_new_zeroed(host, generation.places, sizeof(uint64_t), "fingerprints", &seen));
    generation.symbols = symbols;
    generation.text = text;
    generation.seen = seen;
    status = split_write(host, &files, directory, counts, "Source\tTarget\r\n", write_example, &generation);
done:
    memory_free(host, seen);
    memory_free(host, text);
    memory_free(host, symbols);
    return status;
}

/* ---- reading files ---- */

struct reading {
    const struct listops_options *options;
    struct dataset_builder *builder;
};

static uint32_t symbol_of(struct piece word)
{
    if (word.size == 1 && word.bytes[0] >= '0' && word.bytes[0] <= '9')
        return (uint32_t)(LISTOPS_DIGIT + word.bytes[0] - '0');
    for (uint32_t symbol = LISTOPS_MIN; symbol < LISTOPS_SYMBOLS; symbol++)
        if (piece_is(word, names[symbol]))
            return symbol;
    return 0;
}

/* Reads the symbols of a source, separated by blanks, without parentheses. `symbols` has room for half its
   bytes. */
static hashattn_status read_source(struct host *host, struct piece source, uint32_t *symbols, size_t *length)
{
    const char *at = source.bytes, *end = source.bytes + source.size;
    char shown[SHOWN_SIZE];
    *length = 0;
    for (; at < end; at++) {
        if (*at == ' ')
            continue;
        struct piece word = {at, 0};
        for (; at < end && *at != ' '; at++) /* words are short: a call of memchr costs more */
            word.size++;
        if (word.size == 1 && (word.bytes[0] == '(' || word.bytes[0] == ')'))
            continue;
        uint32_t symbol = symbol_of(word);
        FAIL_IF(symbol == 0, host, HASHATTN_BAD_FILE, "unknown symbol '%s' at byte %zu",
                piece_shown(word, shown), (size_t)(word.bytes - source.bytes));
        symbols[(*length)++] = symbol;
    }
    FAIL_IF(*length == 0, host, HASHATTN_BAD_FILE, "no symbols before the tab");
    return HASHATTN_OK;
}

static hashattn_status read_line(struct host *host, void *context, struct piece line, size_t number)
{
    const struct reading *reading = context;
    struct piece fields[3];
    char shown[SHOWN_SIZE];
    size_t count = lines_split(line, fields, 3), length, max_len = (size_t)reading->options->max_len;
    if (number == 1) {
        FAIL_IF(count != 2 || !piece_is(fields[0], "Source") || !piece_is(fields[1], "Target"), host,
                HASHATTN_BAD_FILE, "the header is '%s', not Source, tab, Target", piece_shown(line, shown));
        return HASHATTN_OK;
    }
    FAIL_IF(count != 2, host, HASHATTN_BAD_FILE, "%s tab between expression and label, one is needed",
            count == 1 ? "no" : "more than one");
    struct piece label = fields[1];
    FAIL_IF(label.size != 1 || label.bytes[0] < '0' || label.bytes[0] > '9', host, HASHATTN_BAD_FILE,
            "the label is '%s', not a digit", piece_shown(label, shown));

    size_t row;
    TRY(dataset_reserve(host, reading->builder, fields[0].size / 2 + 1, &row));
    uint32_t *symbols = reading->builder->dataset.ids + row;
    TRY(read_source(host, fields[0], symbols, &length));
    if (reading->options->check_labels) {
        int value = listops_value(symbols, length);
        FAIL_IF(value < 0, host, HASHATTN_BAD_FILE,
                "its %zu symbols are not one expression of lists nested at most %d deep", length,
                LISTOPS_MAX_DEPTH);
        FAIL_IF(value != label.bytes[0] - '0', host, HASHATTN_BAD_FILE,
                "the label is %c, the value of the expression is %d", label.bytes[0], value);
    }
    bool cut = length > max_len;
    dataset_push_label(reading->builder, cut ? max_len : length, label.bytes[0] - '0', cut);
    return HASHATTN_OK;
}

static hashattn_status read_file(struct host *host, const void *context, const char *path,
                                 struct dataset_builder *builder)
{
    struct reading reading = {.options = context, .builder = builder};
    return file_each_line(host, path, dataset_source(builder), read_line, &reading);
}

static hashattn_status load(struct host *host, const void *options, const struct task_facts *facts,
                            const char *directory, enum split split, uint64_t seed, struct dataset *dataset)
{
    (void)facts; /* the facts of listops do not depend on the files */
    struct dataset shape = {0};
    dataset_classified(&shape);
    return split_load(host, &files, facts, directory, split, seed, &shape, read_file, options, dataset);
}

/* Files to predict have the format of a split, labels and header included. */
static hashattn_status stream_file(struct host *host, const void *options, const struct task_facts *facts,
                                   const char *path, const struct dataset_stream *stream)
{
    (void)facts;
    struct dataset_builder builder = {.stream = stream};
    dataset_classified(&builder.dataset);
    hashattn_status status = read_file(host, options, path, &builder);
    return dataset_stream_end(host, &builder, path, "expressions", status);
}

static hashattn_status facts(struct host *host, const void *options, const char *directory,
                             struct tokenizer *given, struct task_facts *result)
{
    (void)given; /* ids are not tokens */
    const struct listops_options *listops = options;
    char path[FILE_PATH];
    *result = (struct task_facts){0};
    TRY(split_find_train(host, &files, directory, path, sizeof path));
    size_t max_len = 1;
    while (max_len < (size_t)listops->max_len)
        max_len *= 2;
    return task_facts_new(host, VOCAB_SIZE, max_len, names + LISTOPS_DIGIT, NUM_CLASSES, result);
}

const struct task task_listops = {
    .name = "listops",
    .summary = "compute the value of a nested list expression of 500 to 2,000 symbols (Long Range Arena)",
    .options = rows,
    .options_size = sizeof(struct listops_options),
    .unread = UNREAD_BY_CLASSIFIERS,
    .preset = {SMALL_ENCODER, .steps = 2000, .batch = 32, .eval_every = 100, .warmup = 100,
               .learning_rate = 5e-4, .pooling = "mean", .attention = YOSO_BITS(9)},
    .presets =
        (const struct task_preset[]){{LRA_PRESET, .steps = 5000, .batch = 32, .eval_every = 50,
                                      .warmup = 1000, .attention = YOSO_BITS(11)},
                                     {LRA_SMALL_PRESET, .steps = 5000, .warmup = 50, .learning_rate = 2e-3,
                                      .pooling = "mean", .attention = YOSO_BITS(7), .model = LRA_SMALL_MODEL,
                                      .task = "max_len=100"},
                                     {.name = NULL}},
    .generate = generate,
    .facts = facts,
    .load = load,
    .stream_file = stream_file,
};
