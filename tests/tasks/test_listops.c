/* The generator against the published statistics of its rules, its text against an independent parser, its
   reader against damaged files, and labels of real data.
   Bugs planted and caught: operators at 26 %, 2 to 9 arguments, one level deeper, no nines, no sums, MIN for
   MAX, upper or rounded-up median, sum modulo 9, lengths 500 and 2000 kept, one parenthesis less, LF for CR
   LF, splits alike, repeats kept, unknown symbols accepted, symbols after the expression, empty lists with a
   value, unbounded nesting, evaluation after the cut.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/listops.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/folder.h"
#include "support/labels.h"
#include "support/task_case.h"
#include "tasks/task.h"

static struct listops_options preset(void)
{
    struct listops_options options;
    options_preset(task_find("listops")->options, &options);
    return options;
}

/* ---- the rules ---- */

/* |got - want| within 4.5 standard errors. `error` is that of `got`. The published figure comes from 200,000
   trees, so its own error is that of got x sqrt(count / 200000), and it is rounded to `digit`. */
static void check_published(double got, double want, double error, double count, double digit,
                            const char *what)
{
    check_near(got, want, 4.5 * error * sqrt(1 + count / 200000) + digit / 2, what);
}

static void check_share(double hits, double count, double want, double digit, const char *what)
{
    check_published(hits / count, want, sqrt(want * (1 - want) / count), count, digit, what);
}

struct moments {
    double sum, square, fourth, count;
};

static void add(struct moments *moments, double x, double around)
{
    x -= around;
    moments->sum += x;
    moments->square += x * x;
    moments->fourth += x * x * x * x;
    moments->count++;
}

static double mean_of(const struct moments *m)
{
    return m->sum / m->count;
}

static double variance_of(const struct moments *m)
{
    return m->square / m->count - mean_of(m) * mean_of(m);
}

/* Depth of the deepest node, and the numbers of the operators' arguments. */
static size_t depth_of(const uint32_t *symbols, size_t length)
{
    size_t depth = 1, deepest = 1;
    for (size_t i = 0; i < length; i++) {
        if (symbols[i] == LISTOPS_CLOSE)
            depth--;
        else if (symbols[i] >= LISTOPS_MIN)
            depth++;
        else if (depth > deepest)
            deepest = depth;
    }
    return deepest;
}

static void the_statistics_of_the_rules(void **state)
{
    (void)state;
    enum { TREES = 4000 };
    static const double labels[10] = {.170, .089, .078, .084, .089, .086, .076, .072, .087, .169};
    static const double lengths[12] = {.159, .144, .126, .109, .095, .081,
                                       .070, .059, .050, .042, .035, .030};
    static uint32_t symbols[2000];
    struct listops_options options = preset();
    struct random random = random_open(2024);
    struct moments length = {0}, operators = {0}, args = {0};
    double draws = 0, label[10] = {0}, share[12] = {0}, which[4] = {0}, digit[10] = {0};
    while (length.count < TREES) {
        size_t n = listops_draw(&random, &options, symbols);
        draws++;
        assert_true(n < 2000);
        if (n <= 500)
            continue;
        double count[LISTOPS_SYMBOLS] = {0}, ops = 0;
        for (size_t i = 0; i < n; i++)
            count[symbols[i]]++;
        for (int op = 0; op < 4; op++) {
            ops += count[LISTOPS_MIN + op];
            which[op] += count[LISTOPS_MIN + op];
        }
        for (int d = 0; d < 10; d++)
            digit[d] += count[LISTOPS_DIGIT + d];
        assert_true(ops == count[LISTOPS_CLOSE]);
        assert_int_equal(depth_of(symbols, n), 10);
        add(&length, (double)n, 1035);
        add(&operators, ops, 147);
        add(&args, ((double)n - ops - 1) / ops, 6.02); /* every node except the root is an argument */
        label[listops_value(symbols, n)]++;
        share[((int)n - 501) * 12 / 1500]++;
    }
    check_share(TREES, draws, .0825, 1e-4, "share of draws that are kept");
    check_published(1035 + mean_of(&length), 1035, sqrt(variance_of(&length) / TREES), TREES, 1, "length");
    double variance = variance_of(&length);
    double kurtosis = length.fourth / TREES / (variance * variance);
    check_published(sqrt(variance), 394, sqrt(variance * (kurtosis - 1) / 4 / TREES), TREES, 1,
                    "spread of the length");
    check_published(147 + mean_of(&operators), 147, sqrt(variance_of(&operators) / TREES), TREES, 1,
                    "operators");
    check_published(6.02 + mean_of(&args), 6.02, sqrt(variance_of(&args) / TREES), TREES, .01, "arguments");
    for (int i = 0; i < 10; i++)
        check_share(label[i], TREES, labels[i], 1e-3, "share of a label");
    for (int i = 0; i < 12; i++)
        check_share(share[i], TREES, lengths[i], 1e-3, "share of a length");
    double all_operators = which[0] + which[1] + which[2] + which[3], all_digits = 0;
    for (int op = 0; op < 4; op++)
        check_share(which[op], all_operators, .25, 0, "share of an operator");
    for (int d = 0; d < 10; d++)
        all_digits += digit[d];
    for (int d = 0; d < 10; d++)
        check_share(digit[d], all_digits, .1, 0, "share of a digit");
}

static void small_rules_are_kept(void **state)
{
    (void)state;
    struct listops_options options = {.min_len = 0, .max_len = 40, .max_depth = 3, .max_args = 4};
    struct random random = random_open(1);
    uint32_t symbols[41];
    size_t longest = 0, deepest = 0, widest = 0;
    for (int i = 0; i < 3000; i++) {
        symbols[40] = 99; /* one past the room */
        size_t n = listops_draw(&random, &options, symbols);
        assert_true(n < 40 && symbols[40] == 99);
        size_t depth = depth_of(symbols, n), args[41] = {0}, open = 0;
        for (size_t k = 0; k < n; k++) {
            if (symbols[k] == LISTOPS_CLOSE) {
                assert_true(args[open] >= 2);
                widest = args[open] > widest ? args[open] : widest;
                open--;
                continue;
            }
            args[open]++;
            if (symbols[k] >= LISTOPS_MIN)
                args[++open] = 0;
        }
        longest = n > longest ? n : longest;
        deepest = depth > deepest ? depth : deepest;
    }
    assert_int_equal(deepest, 3);
    assert_int_equal(widest, 4);
    assert_true(longest > 15); /* 2 + 4 x (2 + 4) = 26 is the longest possible, and rare */
}

/* ---- text, checked by a parser that shares no code with the source ---- */

static int compare_ints(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static const char *expect(const char *text, const char *word)
{
    size_t bytes = strlen(word);
    if (strncmp(text, word, bytes) != 0)
        fail_msg("'%s' expected, '%.20s' found", word, text);
    return text + bytes;
}

/* Reads one expression by the grammar of the serialisation, parentheses included, and evaluates it. */
static const char *parse(const char *text, int *value)
{
    if (isdigit((unsigned char)*text)) {
        *value = *text - '0';
        return text + 1;
    }
    int args = -1, values[16], sum = 0;
    for (; *text == '('; text = expect(text, "( "))
        args++;
    const char *name = expect(text, "[");
    for (text = name; *text != ' ';)
        text++;
    assert_in_range(args, 2, 10);
    for (int i = 0; i < args; i++) {
        text = expect(parse(expect(text, " "), &values[i]), " )");
        sum += values[i];
    }
    text = expect(text, " ] )");
    qsort(values, (size_t)args, sizeof values[0], compare_ints);
    if (strncmp(name, "MIN ", 4) == 0)
        *value = values[0];
    else if (strncmp(name, "MAX ", 4) == 0)
        *value = values[args - 1];
    else if (strncmp(name, "MED ", 4) == 0)
        *value = (int)(args % 2 ? values[args / 2] : (values[args / 2 - 1] + values[args / 2]) / 2.0);
    else if (strncmp(name, "SM ", 3) == 0)
        *value = sum % 10;
    else
        fail_msg("unknown operator '%.6s'", name);
    return text;
}

static void texts_have_the_value_of_their_trees(void **state)
{
    (void)state;
    struct listops_options options = preset();
    static uint32_t symbols[2000];
    static char text[13 * 2000 + 1];
    struct random random = random_open(77);
    for (int i = 0; i < 4000; i++) {
        size_t n = listops_draw(&random, &options, symbols);
        if (n == 0)
            continue;
        size_t size = listops_text_size(n);
        assert_true(size < sizeof text);
        char *start = listops_text(symbols, n, text, size);
        assert_true(start >= text);
        text[size] = '\0';
        int value;
        const char *end = parse(start, &value);
        assert_string_equal(end, "");
        assert_int_equal(listops_value(symbols, n), value);
    }
}

/* ---- files ---- */

static void generate(struct folder *folder, const struct listops_options *options, size_t train, size_t valid,
                     size_t test, uint64_t seed, hashattn_status want, const char *part)
{
    const size_t counts[SPLIT_COUNT] = {train, valid, test};
    check_status(&folder->host,
                 task_find("listops")->generate(&folder->host, options, folder->path, counts, seed), want,
                 part);
}

static void load(struct folder *folder, const struct listops_options *options, enum split split,
                 struct dataset *dataset, hashattn_status want, const char *part)
{
    const struct task *task = task_find("listops");
    struct task_facts facts;
    check_status(&folder->host, task->facts(&folder->host, options, folder->path, NULL, &facts), HASHATTN_OK,
                 NULL);
    check_status(&folder->host, task->load(&folder->host, options, &facts, folder->path, split, 1, dataset),
                 want, part);
    task_facts_free(&folder->host, &facts);
}

static void remove_splits(struct folder *folder)
{
    folder_remove(folder, "basic_train.tsv");
    folder_remove(folder, "basic_val.tsv");
    folder_remove(folder, "basic_test.tsv");
}

static void what_was_generated_is_read(void **state)
{
    struct folder *folder = *state;
    struct listops_options options = preset();
    generate(folder, &options, 40, 10, 10, 3, HASHATTN_OK, NULL);
    for (enum split split = 0; split < SPLIT_COUNT; split++) {
        struct dataset data;
        load(folder, &options, split, &data, HASHATTN_OK, NULL);
        assert_int_equal(data.count, split == SPLIT_TRAIN ? 40 : 10);
        assert_int_equal(data.num_cut, 0);
        for (size_t i = 0; i < data.count; i++) {
            const uint32_t *symbols = data.ids + data.offsets[i];
            size_t length = data.offsets[i + 1] - data.offsets[i];
            assert_true(length > 500 && length < 2000);
            assert_int_equal(listops_value(symbols, length), label_of(&data, i));
            /* The tree is the first long enough one in the stream of (seed, split, index). */
            static uint32_t drawn[2000];
            struct random random = random_open(random_key(random_key(3, RANDOM_DATA, split), RANDOM_DATA, i));
            size_t n;
            do
                n = listops_draw(&random, &options, drawn);
            while (n <= 500);
            assert_int_equal(n, length);
            check_same_bits(drawn, symbols, n * sizeof *drawn, "a drawn and a read tree");
        }
        dataset_free(&folder->host, &data);
    }
    size_t size, lines = 0, returns = 0;
    char *bytes = folder_get(folder, "basic_val.tsv", &size);
    assert_memory_equal(bytes, "Source\tTarget\r\n( ( ", 19);
    for (size_t i = 0; i < size; i++) {
        lines += bytes[i] == '\n';
        returns += bytes[i] == '\r';
    }
    assert_true(lines == 11 && returns == 11 && bytes[size - 1] == '\n');
    free(bytes);
}

static void examples_depend_on_seed_split_and_index_alone(void **state)
{
    struct folder *folder = *state;
    struct listops_options options = preset();
    size_t sizes[3], size;
    generate(folder, &options, 4, 3, 3, 1, HASHATTN_OK, NULL);
    char *few = folder_get(folder, "basic_train.tsv", &sizes[0]);
    char *valid = folder_get(folder, "basic_val.tsv", &sizes[1]);
    char *test = folder_get(folder, "basic_test.tsv", &sizes[2]);
    remove_splits(folder);
    generate(folder, &options, 9, 3, 0, 1, HASHATTN_OK, NULL);
    char *many = folder_get(folder, "basic_train.tsv", &size);
    assert_true(size > sizes[0]);
    check_same_bits(few, many, sizes[0], "the first examples of more");
    free(many);
    many = folder_get(folder, "basic_val.tsv", &size);
    assert_int_equal(size, sizes[1]);
    check_same_bits(valid, many, size, "validation beside more training");
    assert_memory_not_equal(valid, test, 300);
    assert_memory_not_equal(valid, few, 300);
    free(many);
    remove_splits(folder);
    generate(folder, &options, 4, 0, 0, 2, HASHATTN_OK, NULL);
    many = folder_get(folder, "basic_train.tsv", &size);
    assert_memory_not_equal(few, many, 300);
    free(few), free(valid), free(test), free(many);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void every_tree_occurs_once_in_all_splits(void **state)
{
    struct folder *folder = *state;
    /* 10 digits, and 4 x (10^2 + ...) short lists: 400 independent draws would repeat some. */
    struct listops_options options = {.min_len = 0, .max_len = 6, .max_depth = 2, .max_args = 3};
    generate(folder, &options, 200, 100, 100, 1, HASHATTN_OK, NULL);
    static const char *const names[] = {"basic_train.tsv", "basic_val.tsv", "basic_test.tsv"};
    char *files[3], *texts[403];
    size_t count = 0, size;
    for (int i = 0; i < 3; i++) {
        files[i] = folder_get(folder, names[i], &size);
        char *rest = files[i];
        for (char *line; (line = strsep(&rest, "\n")) != NULL;)
            if (*line != '\0' && *line != 'S')
                texts[count++] = line;
    }
    assert_int_equal(count, 400);
    qsort(texts, count, sizeof texts[0], compare_texts);
    for (size_t i = 1; i < count; i++)
        assert_string_not_equal(texts[i - 1], texts[i]);
    for (int i = 0; i < 3; i++)
        free(files[i]);

    remove_splits(folder);
    options.min_len = 1; /* exclusive: single digits are too short now */
    generate(folder, &options, 50, 0, 0, 1, HASHATTN_OK, NULL);
    files[0] = folder_get(folder, names[0], &size);
    assert_null(strstr(files[0], "\n0\t"));
    assert_null(strstr(files[0], "\n7\t"));
    free(files[0]);

    remove_splits(folder);
    options.min_len = 0;
    options.max_len = 4; /* the ten digits, but no list, which has at least four symbols */
    generate(folder, &options, 6, 2, 2, 1, HASHATTN_OK, NULL);
    remove_splits(folder);
    generate(folder, &options, 7, 2, 2, 1, HASHATTN_INVALID,
             "1000000 draws gave no new expression for example 6 of train with 0 < length < 4");
    options.min_len = 3;
    generate(folder, &options, 1, 1, 1, 1, HASHATTN_INVALID, "above min_len 3 and below max_len 4");
}

static const char header[] = "Source\tTarget\n";

static void put_row(struct folder *folder, const char *name, const char *row)
{
    char text[2000];
    snprintf(text, sizeof text, "%s%s", header, row);
    folder_put_text(folder, name, text);
}

/* Predict reads the examples of a split by the path of the file. */
static void a_file_is_read_by_its_path(void **state)
{
    struct folder *folder = *state;
    const struct task *task = task_find("listops");
    struct listops_options options = preset();
    struct task_facts facts;
    struct dataset split, file;
    char path[4096];
    generate(folder, &options, 3, 2, 4, 5, HASHATTN_OK, NULL);
    load(folder, &options, SPLIT_TEST, &split, HASHATTN_OK, NULL);
    check_status(&folder->host, task->facts(&folder->host, &options, folder->path, NULL, &facts), HASHATTN_OK,
                 NULL);
    snprintf(path, sizeof path, "%s/basic_test.tsv", folder->path);
    check_status(&folder->host, task_stream_whole(&folder->host, "listops", &options, &facts, path, &file),
                 HASHATTN_OK, NULL);
    assert_int_equal(file.count, 4);
    check_same_bits(file.ids, split.ids, split.offsets[4] * sizeof *file.ids, "tokens of file and split");
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(label_of(&file, i), label_of(&split, i));
    dataset_free(&folder->host, &file);
    dataset_free(&folder->host, &split);
    folder_put_text(folder, "empty.tsv", header);
    snprintf(path, sizeof path, "%s/empty.tsv", folder->path);
    check_status(&folder->host, task_stream_whole(&folder->host, "listops", &options, &facts, path, &file),
                 HASHATTN_BAD_FILE, "empty.tsv has no expressions");
    task_facts_free(&folder->host, &facts);
}

static void values_are_those_of_the_arena(void **state)
{
    struct folder *folder = *state;
    static const struct {
        const char *source;
        int value;
    } cases[] = {
        {"7", 7},
        {"( ( ( [MAX 2 ) 3 ) ] )", 3},
        {"( ( ( [MIN 2 ) 3 ) ] )", 2},
        {"[MED 1 2 ]", 1},
        {"[MED 9 0 ]", 4},
        {"[MED 9 0 5 ]", 5},
        {"[MED 0 0 9 9 9 1 ]", 5},
        {"[SM 9 9 9 ]", 7},
        {"[SM 5 5 ]", 0},
        {"[MED 4 ]", 4},
        {"  [MAX   2 1 ]  ", 2},
        {"[MAX [MIN 4 9 ] [SM 8 4 ] ]", 4},
        {"[SM [MED 8 7 1 ] 0 [MAX 9 9 [MIN 6 5 ] ] ]", 6},
    };
    struct listops_options options = preset();
    put_row(folder, "basic_train.tsv", "1\t1\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int label = 0; label < 10; label++) {
            char row[200], part[100];
            struct dataset data;
            snprintf(row, sizeof row, "%s\t%d%s", cases[i].source, label, label % 2 ? "\r\n" : "\n");
            snprintf(part, sizeof part, "line 2: the label is %d, the value of the expression is %d", label,
                     cases[i].value);
            put_row(folder, "basic_val.tsv", row);
            load(folder, &options, SPLIT_VALID, &data,
                 label == cases[i].value ? HASHATTN_OK : HASHATTN_BAD_FILE, part);
            options.check_labels = 0;
            dataset_free(&folder->host, &data);
            load(folder, &options, SPLIT_VALID, &data, HASHATTN_OK, NULL);
            assert_int_equal(label_of(&data, 0), label);
            options.check_labels = 1;
            dataset_free(&folder->host, &data);
        }
}

static void damaged_files_are_refused_by_line(void **state)
{
    struct folder *folder = *state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"", "basic_val.tsv has no examples"},
        {"Source\tTarget\r\n", "basic_val.tsv has no examples"},
        {"Target\tSource\n1\t1\n", "basic_val.tsv: line 1: the header is 'Target?Source', not Source, tab"},
        {"Source\tTarget\textra\n1\t1\n", "line 1: the header"},
        {"1\t1\n", "line 1: the header"},
        {"Source\tTarget\n1\t1\n[MAX 1 2 ]\n", "line 3: no tab"},
        {"Source\tTarget\n1\t1\t1\n", "line 2: more than one tab"},
        {"Source\tTarget\n\n", "line 2: no tab"},
        {"Source\tTarget\n1\t\n", "line 2: the label is '', not a digit"},
        {"Source\tTarget\n1\t10\n", "line 2: the label is '10', not a digit"},
        {"Source\tTarget\n1\tx\n", "line 2: the label is 'x', not a digit"},
        {"Source\tTarget\n\t1\n", "line 2: no symbols"},
        {"Source\tTarget\n( ( ) )\t1\n", "line 2: no symbols"},
        {"Source\tTarget\n( [FIRST 1 ) ] )\t1\n", "line 2: unknown symbol '[FIRST' at byte 2"},
        {"Source\tTarget\n[MAX 1 10 ]\t1\n", "line 2: unknown symbol '10' at byte 7"},
        {"Source\tTarget\n[max 1 ]\t1\n", "line 2: unknown symbol '[max' at byte 0"},
        {"Source\tTarget\n[MAX 1 \xff\x01 ]\t1\n", "line 2: unknown symbol '?"
                                                   "?' at byte 7"},
        {"Source\tTarget\n[MAX 1 2\t2\n", "line 2: its 3 symbols are not one expression"},
        {"Source\tTarget\n[MAX ]\t2\n", "line 2: its 2 symbols are not one expression"},
        {"Source\tTarget\n1 2\t2\n", "line 2: its 2 symbols are not one expression"},
        {"Source\tTarget\n]\t2\n", "line 2: its 1 symbols are not one expression"},
        {"Source\tTarget\n[MAX 1 ] ]\t1\n", "line 2: its 4 symbols are not one expression"},
    };
    struct listops_options options = preset();
    struct dataset data;
    put_row(folder, "basic_train.tsv", "1\t1\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        folder_put_text(folder, "basic_val.tsv", cases[i].text);
        load(folder, &options, SPLIT_VALID, &data, HASHATTN_BAD_FILE, cases[i].part);
        assert_null(data.ids);
    }
    /* Nested to the depth limit, and one deeper. */
    for (int depth = LISTOPS_MAX_DEPTH; depth <= LISTOPS_MAX_DEPTH + 1; depth++) {
        char row[1000] = "";
        for (int i = 0; i < depth; i++)
            strcat(row, "[MAX ");
        strcat(row, "3 ");
        for (int i = 0; i < depth; i++)
            strcat(row, "] ");
        strcat(row, "\t3\n");
        put_row(folder, "basic_val.tsv", row);
        load(folder, &options, SPLIT_VALID, &data,
             depth > LISTOPS_MAX_DEPTH ? HASHATTN_BAD_FILE : HASHATTN_OK,
             "line 2: its 131 symbols are not one expression of lists nested at most 64 deep");
        dataset_free(&folder->host, &data);
    }
    folder_remove(folder, "basic_train.tsv");
    struct task_facts facts;
    check_status(&folder->host,
                 task_find("listops")->facts(&folder->host, &options, folder->path, NULL, &facts),
                 HASHATTN_BAD_FILE, "has no basic_train.tsv");
}

static void long_expressions_are_cut_and_counted(void **state)
{
    struct folder *folder = *state;
    struct listops_options options = preset();
    struct dataset data;
    options.max_len = 4;
    put_row(folder, "basic_train.tsv", "1\t1\n[MAX 1 2 ]\t2\n[MAX 1 2 3 ]\t3\n");
    put_row(folder, "basic_val.tsv", "1\t1\n");
    load(folder, &options, SPLIT_TRAIN, &data, HASHATTN_OK, NULL);
    static const uint32_t tokens[] = {2, 12, 2, 3, 15, 12, 2, 3, 4};
    assert_int_equal(data.count, 3);
    assert_int_equal(data.num_cut, 1);
    assert_int_equal(data.offsets[3], 9);
    check_same_bits(data.ids, tokens, sizeof tokens, "cut tokens");
    dataset_free(&folder->host, &data);
}

static void facts_are_those_of_the_released_models(void **state)
{
    struct folder *folder = *state;
    struct listops_options options = preset();
    struct task_facts facts;
    put_row(folder, "basic_train.tsv", "1\t1\n");
    check_status(&folder->host,
                 task_find("listops")->facts(&folder->host, &options, folder->path, NULL, &facts),
                 HASHATTN_OK, NULL);
    assert_int_equal(facts.vocab_size, 32);
    assert_int_equal(facts.max_len, 2048);
    assert_int_equal(facts.num_classes, 10);
    for (int i = 0; i < 10; i++)
        assert_true(facts.labels[i][0] == '0' + i && facts.labels[i][1] == '\0');
    task_facts_free(&folder->host, &facts);
    static const int64_t lengths[][2] = {{1, 1}, {2, 2}, {3, 4}, {512, 512}, {513, 1024}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        options.max_len = lengths[i][0]; /* rounded up to a power of 2 */
        check_status(&folder->host,
                     task_find("listops")->facts(&folder->host, &options, folder->path, NULL, &facts),
                     HASHATTN_OK, NULL);
        assert_int_equal(facts.max_len, lengths[i][1]);
        task_facts_free(&folder->host, &facts);
    }
}

static void every_failing_allocation_is_survived(void **state)
{
    struct folder *folder = *state;
    const struct task *task = task_find("listops");
    struct listops_options options = preset();
    const size_t counts[SPLIT_COUNT] = {70, 0, 0};
    bool done = false;
    for (long n = 0; !done; n++) {
        struct failing_host failing;
        struct task_facts facts;
        struct dataset data = {0};
        failing_host_init(&failing, n);
        hashattn_status status = task->generate(&failing.host, &options, folder->path, counts, 1);
        assert_int_equal(folder_temporaries(folder->path), 0);
        if (status == HASHATTN_OK)
            status = task->facts(&failing.host, &options, folder->path, NULL, &facts);
        if (status == HASHATTN_OK) {
            status = task->load(&failing.host, &options, &facts, folder->path, SPLIT_TRAIN, 1, &data);
            task_facts_free(&failing.host, &facts);
        }
        done = status == HASHATTN_OK;
        assert_true(done || status == HASHATTN_NO_MEMORY);
        assert_true(done == (data.count == 56));
        dataset_free(&failing.host, &data);
        assert_int_equal(failing.outstanding, 0);
        folder_remove(folder, "basic_train.tsv");
        assert_true(n < 100 && (!done || n > 10));
    }
}

/* The published d20s test file of Nangia and Bowman (label, tab, expression): same operators, other order. */
static void labels_of_real_data(void **state)
{
    struct folder *folder = *state;
    const char *packed = "../shared/data/listops/test_d20s.tsv.xz";
    FILE *probe = fopen(packed, "rb"), *pipe = NULL;
    if (probe != NULL) {
        fclose(probe);
        pipe = popen("xz -dc ../shared/data/listops/test_d20s.tsv.xz 2>/dev/null", "r");
    }
    char *line = NULL, *out = NULL;
    size_t room = 0, size = 0, rows = 0;
    FILE *text = open_memstream(&out, &size);
    fputs("Source\tTarget\r\n", text);
    while (pipe != NULL && getline(&line, &room, pipe) > 0) {
        line[strcspn(line, "\r\n")] = '\0';
        assert_int_equal(line[1], '\t');
        fprintf(text, "%s\t%c\r\n", line + 2, line[0]);
        rows++;
    }
    fclose(text);
    free(line);
    if (pipe != NULL)
        pclose(pipe);
    folder_put(folder, "basic_train.tsv", out, size);
    free(out);
    if (rows == 0) {
        puts("SKIPPED: labels of real ListOps data (no file, or no xz to unpack it)");
        skip();
    }
    struct listops_options options = preset();
    struct dataset data;
    folder_put_text(folder, "basic_val.tsv", "Source\tTarget\r\n1\t1\r\n");
    load(folder, &options, SPLIT_TRAIN, &data, HASHATTN_OK, NULL);
    assert_int_equal(data.count, rows);
    assert_int_equal(data.num_cut, 0);
    dataset_free(&folder->host, &data);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_enter, folder_leave)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_statistics_of_the_rules),
        cmocka_unit_test(small_rules_are_kept),
        cmocka_unit_test(texts_have_the_value_of_their_trees),
        IN_FOLDER(what_was_generated_is_read),
        IN_FOLDER(a_file_is_read_by_its_path),
        IN_FOLDER(examples_depend_on_seed_split_and_index_alone),
        IN_FOLDER(every_tree_occurs_once_in_all_splits),
        IN_FOLDER(values_are_those_of_the_arena),
        IN_FOLDER(damaged_files_are_refused_by_line),
        IN_FOLDER(long_expressions_are_cut_and_counted),
        IN_FOLDER(facts_are_those_of_the_released_models),
        IN_FOLDER(every_failing_allocation_is_survived),
        IN_FOLDER(labels_of_real_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
