/* GLUE: single sentences and pairs of sentences with a class, or with a score (Wang et al. 2018). The files
   are the official ones: train.tsv and dev.tsv (MNLI: dev_matched.tsv as validation, dev_mismatched.tsv as
   test) in a directory with the name of the set, such as RTE; fields between tabs, without quoting, in
   columns that the first line names (CoLA: none, but in test.tsv). The labels of test.tsv are not public;
   such a file can be predicted. An example is one sequence: a sentence, or both with the separators of the
   tokenizer between, in two segments if the model has two. Tokens are those of the stored model that training
   starts from, or of a BPE learned from the training file.
   SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "tasks/dataset.h"
#include "tasks/tokens.h"
#include "text/learning/learn_bpe.h"

/* ---- the sets ------------------------------------------------------------------------------------------ */

struct glue_set {
    const char *name;
    const char *label, *texts[2]; /* names of columns; label NULL: only test.tsv names them; texts[1] NULL:
                                     single sentences */
    const char *labels[4];        /* sorted, ended by NULL; none: the label is a score */
    const char *selects;          /* the metric that chooses the best model */
    bool has_gaps;                /* the official file has rows that lack columns; they are skipped */
};

enum { GLUE_AUTO, GLUE_COLA, GLUE_MNLI = 6, GLUE_SETS = 8 };
static const char *const set_names[] = {"auto",  "CoLA", "SST-2", "MRPC", "QQP",
                                        "STS-B", "MNLI", "QNLI",  "RTE",  NULL};
static const struct glue_set sets[GLUE_SETS] = {
    {"CoLA", NULL, {"sentence", NULL}, {"0", "1"}, "matthews", false},
    {"SST-2", "label", {"sentence", NULL}, {"0", "1"}, "accuracy", false},
    {"MRPC", "Quality", {"#1 String", "#2 String"}, {"0", "1"}, "f1", false},
    {"QQP", "is_duplicate", {"question1", "question2"}, {"0", "1"}, "f1", true},
    {"STS-B", "score", {"sentence1", "sentence2"}, {NULL}, "pearson", false},
    {"MNLI",
     "gold_label",
     {"sentence1", "sentence2"},
     {"contradiction", "entailment", "neutral"},
     "accuracy",
     false},
    {"QNLI", "label", {"question", "sentence"}, {"entailment", "not_entailment"}, "accuracy", false},
    {"RTE", "label", {"sentence1", "sentence2"}, {"entailment", "not_entailment"}, "accuracy", false},
};

struct glue_options {
    int name; /* index in set_names */
    int64_t max_len, vocab_size;
};

#define FIELD(member) offsetof(struct glue_options, member)
static const struct option_row rows[] = {
    OPTION_ROW("name", OPTION_CHOICE, FIELD(name), GLUE_AUTO, 0, 0, set_names,
               "which set the directory holds; auto: its last name says it"),
    OPTION_ROW(
        "max_len", OPTION_INT, FIELD(max_len), 128, 8, 65536, NULL,
        "tokens read of an example, special ones included; the longer sentence of a pair is cut first"),
    OPTION_ROW("vocab_size", OPTION_INT, FIELD(vocab_size), 8192, LEARN_LEAST, VOCABULARY_MOST_IDS - 1, NULL,
               "tokens to learn from the training file, unless training starts from a stored model",
               .learning = true),
    {.name = NULL},
};

static const char *const endings[] = {".tsv", NULL};
static const struct split_files usual = {{"train", "dev", "test"}, endings, false, false, false};
static const struct split_files of_mnli = {
    {"train", "dev_matched", "dev_mismatched"}, endings, false, false, false};

/* True if both are the same letters and digits: "sst2" is "SST-2". */
static bool same_name(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += *a == '-';
        b += *b == '-';
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return false;
        if (*a == '\0')
            return true;
    }
}

static hashattn_status find_set(struct host *host, const struct glue_options *options, const char *directory,
                                const struct glue_set **set)
{
    char last[64] = "";
    size_t size = strlen(directory);
    while (size > 0 && directory[size - 1] == '/')
        size--;
    size_t start = size;
    while (start > 0 && directory[start - 1] != '/')
        start--;
    snprintf(last, sizeof last, "%.*s", (int)(size - start), directory + start);
    int name = options->name;
    for (int i = GLUE_AUTO + 1; name == GLUE_AUTO && i <= GLUE_SETS; i++)
        if (same_name(set_names[i], last))
            name = i;
    FAIL_IF(name == GLUE_AUTO, host, HASHATTN_INVALID,
            "glue: '%s' is not the name of a set, so `name` is needed: CoLA, SST-2, MRPC, QQP, STS-B, "
            "MNLI, QNLI or RTE",
            last);
    *set = &sets[name - 1];
    return HASHATTN_OK;
}

static const struct split_files *files_of(const struct glue_set *set)
{
    return set == &sets[GLUE_MNLI - 1] ? &of_mnli : &usual;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

/* The columns that are read, by index. */
struct columns {
    size_t label, texts[2], needed; /* needed: number of columns of a complete row */
};
enum { MOST_COLUMNS = 32 };

struct row {
    struct piece label,
        texts[2]; /* bytes NULL: rows to predict have no label, single sentences no second text */
};

/* Reads the rows of a file. */
struct reading {
    const struct glue_set *set;     /* NULL: to be found from the facts and the first line */
    const struct task_facts *facts; /* of a model that predicts, which needs no labels; otherwise NULL */
    bool named;                     /* the columns are known */
    struct columns columns;
    hashattn_status (*use)(struct host *host, void *context, const struct row *row);
    void *context;
};

static hashattn_status find_column(struct host *host, const struct piece *names, size_t count,
                                   const char *name, struct columns *columns, size_t *column)
{
    size_t i = 0;
    while (i < count && !piece_is(names[i], name))
        i++;
    FAIL_IF(i == count, host, HASHATTN_BAD_FILE, "no column is called '%s'%s", name,
            column == &columns->label ? "; the labels of GLUE's test sets are not public" : "");
    *column = i;
    columns->needed = columns->needed > i + 1 ? columns->needed : i + 1;
    return HASHATTN_OK;
}

/* CoLA without a first line of names: source, label, mark of the author, sentence. */
static const struct columns of_cola = {.label = 1, .texts = {3, 3}, .needed = 4};

/* True if a model with these facts was trained on the set. Sets of one kind differ in their columns. The
   files of CoLA and SST-2 to predict have the same columns and are read alike. */
static bool is_trained_on(const struct glue_set *set, const struct task_facts *facts)
{
    size_t same = 0;
    while (same < facts->num_classes && set->labels[same] != NULL &&
           strcmp(set->labels[same], facts->labels[same]) == 0)
        same++;
    return same == facts->num_classes && set->labels[same] == NULL &&
           strcmp(set->selects, facts->objectives[0].selects) == 0;
}

static bool has_column(const struct piece *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (piece_is(names[i], name))
            return true;
    return false;
}

/* The first set of the model whose sentences the first line names; otherwise the first of the model. */
static const struct glue_set *set_to_predict(const struct task_facts *facts, const struct piece *names,
                                             size_t count)
{
    const struct glue_set *first = NULL;
    for (size_t i = 0; i < GLUE_SETS; i++) {
        const struct glue_set *set = &sets[i];
        if (!is_trained_on(set, facts))
            continue;
        if (has_column(names, count, set->texts[0]) &&
            (set->texts[1] == NULL || has_column(names, count, set->texts[1])))
            return set;
        first = first == NULL ? set : first;
    }
    return first;
}

/* *is_row: the line is already a row, because the file does not name its columns. */
static hashattn_status name_columns(struct host *host, struct reading *reading, struct piece line,
                                    bool *is_row)
{
    struct columns *columns = &reading->columns;
    struct piece names[MOST_COLUMNS];
    size_t count = lines_split(line, names, MOST_COLUMNS);
    if (reading->set == NULL)
        reading->set = set_to_predict(reading->facts, names, count);
    const struct glue_set *set = reading->set;
    FAIL_IF(set == NULL, host, HASHATTN_BAD_FILE, "the model was trained on no set of GLUE");
    *is_row = set->label == NULL && count >= of_cola.needed && !has_column(names, count, set->texts[0]);
    if (*is_row) {
        *columns = of_cola;
        return HASHATTN_OK;
    }
    if (reading->facts == NULL)
        TRY(find_column(host, names, count, set->label, columns, &columns->label));
    for (int i = 0; i < 2 && set->texts[i] != NULL; i++)
        TRY(find_column(host, names, count, set->texts[i], columns, &columns->texts[i]));
    return HASHATTN_OK;
}

static hashattn_status read_row(struct host *host, void *context, struct piece line, size_t number)
{
    struct reading *reading = context;
    const struct columns *columns = &reading->columns;
    struct piece fields[MOST_COLUMNS];
    struct row row = {.texts = {{NULL, 0}}};
    bool is_row = true;
    if (!reading->named)
        TRY(name_columns(host, reading, line, &is_row));
    reading->named = true;
    if (!is_row)
        return HASHATTN_OK;
    size_t count = lines_split(line, fields, MOST_COLUMNS);
    bool may_lack = reading->set->has_gaps && reading->facts == NULL;
    if (line.size == 0 || (count < columns->needed && may_lack))
        return HASHATTN_OK;
    FAIL_IF(count < columns->needed && number == 1 && piece_is(fields[0], "index"), host, HASHATTN_BAD_FILE,
            "the row has %zu field%s, %s has %zu; the labels of GLUE's test sets are not public", count,
            count == 1 ? "" : "s", reading->set->name, columns->needed);
    FAIL_IF(count < columns->needed, host, HASHATTN_BAD_FILE, "the row has %zu field%s, %zu are needed",
            count, count == 1 ? "" : "s", columns->needed);
    if (reading->facts == NULL)
        row.label = fields[columns->label];
    for (int i = 0; i < 2 && reading->set->texts[i] != NULL; i++)
        row.texts[i] = fields[columns->texts[i]];
    return reading->use(host, reading->context, &row);
}

/* facts: NULL for labelled rows, which a data folder has; see struct reading. */
static hashattn_status
read_rows(struct host *host, const struct glue_set *set, const struct task_facts *facts, const char *path,
          hashattn_status (*use)(struct host *host, void *context, const struct row *row), void *context)
{
    struct reading reading = {.set = set, .facts = facts, .use = use, .context = context};
    if (facts == NULL && set->label == NULL) {
        reading.named = true;
        reading.columns = of_cola;
    }
    return file_each_line(host, path, facts == NULL ? FILE_FOUND : FILE_TYPED, read_row, &reading);
}

/* ---- facts --------------------------------------------------------------------------------------------- */

struct learning {
    const struct glue_set *set;
    struct word_counts counts;
};

static hashattn_status count_words(struct host *host, void *context, const struct row *row)
{
    struct learning *learning = context;
    for (int i = 0; i < (learning->set->texts[1] != NULL ? 2 : 1); i++)
        TRY(word_counts_add(host, &learning->counts, row->texts[i]));
    return HASHATTN_OK;
}

static hashattn_status learn(struct host *host, const struct glue_options *options,
                             const struct glue_set *set, const char *path, struct tokenizer **tokenizer)
{
    const struct learn_options learn = {.vocab_size = (size_t)options->vocab_size, .min_frequency = 2};
    struct learning learning = {.set = set};
    hashattn_status status = read_rows(host, set, NULL, path, count_words, &learning);
    if (status == HASHATTN_OK)
        status = learn_bpe(host, &learning.counts, &learn, tokenizer);
    word_counts_free(host, &learning.counts);
    return status;
}

static hashattn_status facts(struct host *host, const void *options, const char *directory,
                             struct tokenizer *given, struct task_facts *result)
{
    const struct glue_options *glue = options;
    const struct glue_set *set;
    struct tokenizer *tokenizer = given;
    char path[4096];
    size_t num_labels = 0;
    hashattn_status status;
    *result = (struct task_facts){0};
    TRY(find_set(host, glue, directory, &set));
    TRY(split_find_train(host, files_of(set), directory, path, sizeof path));
    if (given == NULL)
        TRY(learn(host, glue, set, path, &tokenizer));
    while (num_labels < 4 && set->labels[num_labels] != NULL)
        num_labels++;
    size_t ids = tokenizer_num_ids(tokenizer), max_len = (size_t)glue->max_len;
    TRY_DONE(task_facts_new(host, ids, max_len, set->labels, num_labels, result));
    if (num_labels == 0) {
        result->num_objectives = 0;
        task_facts_add(result, "regress", 1, 0);
    }
    snprintf(result->objectives[0].selects, TASK_OBJECTIVE_NAME, "%s", set->selects);
    if (set->texts[1] != NULL) {
        const struct token_choice choice = {.given = given};
        TRY_DONE(tokens_pair_segments(host, &choice, result));
    }
    result->num_tokens = ids;
    result->tokenizer = tokenizer;
done:
    if (status != HASHATTN_OK) {
        task_facts_free(host, result);
        if (given == NULL)
            tokenizer_free(host, tokenizer);
    }
    return status;
}

/* ---- examples ------------------------------------------------------------------------------------------ */

struct encoding_rows {
    const struct task_facts *facts;
    const struct glue_set *set; /* NULL: of the file to predict */
    bool labelled;              /* false: rows to predict */
    struct text_encoder texts;
    struct dataset_builder *builder;
};

static hashattn_status find_label(struct host *host, const struct task_facts *facts, struct piece label,
                                  uint32_t *class)
{
    char shown[SHOWN_SIZE];
    for (*class = 0; *class < facts->num_classes; ++*class)
        if (piece_is(label, facts->labels[*class]))
            return HASHATTN_OK;
    return host_fail(host, HASHATTN_BAD_FILE, "the label is '%s', allowed are %s, %s%s%s",
                     piece_shown(label, shown), facts->labels[0], facts->labels[1],
                     facts->num_classes > 2 ? ", " : "", facts->num_classes > 2 ? facts->labels[2] : "");
}

static const struct option_row score_row[] = {
    OPTION_ROW("score", OPTION_REAL, 0, 0, -1000, 1000, NULL, "a number"),
    {.name = NULL},
};

static hashattn_status read_score(struct host *host, struct piece text, float *score)
{
    char number[40], shown[SHOWN_SIZE];
    double value;
    FAIL_IF(text.size >= sizeof number, host, HASHATTN_BAD_FILE,
            "the score is '%s', a number from -1000 to 1000 is needed", piece_shown(text, shown));
    memcpy(number, text.bytes, text.size);
    number[text.size] = '\0';
    hashattn_status status = option_set(host, score_row, "STS-B", &value, "score", number);
    *score = status == HASHATTN_OK ? (float)value : 0;
    return status == HASHATTN_INVALID ? HASHATTN_BAD_FILE : status;
}

static hashattn_status push_row(struct host *host, void *context, const struct row *row)
{
    struct encoding_rows *e = context;
    const struct task_facts *facts = e->facts;
    struct dataset_builder *builder = e->builder;
    uint32_t class = 0;
    float score = 0;
    size_t at;
    bool pair = row->texts[1].bytes != NULL;
    if (e->labelled)
        TRY(facts->num_classes > 0 ? find_label(host, facts, row->label, &class)
                                   : read_score(host, row->label, &score));
    TRY(dataset_reserve(host, builder, facts->max_len, &at));
    struct dataset *dataset = &builder->dataset;
    struct token_row tokens = {.ids = dataset->ids + at,
                               .segments = dataset->segmented ? dataset->segments + at : NULL};
    TRY(pair ? text_encoder_write_pair(host, &e->texts, row->texts, &tokens)
             : text_encoder_write(host, &e->texts, row->texts[0], &tokens));
    if (facts->num_classes > 0) {
        dataset_push_label(builder, tokens.count, e->labelled ? (int32_t) class : -1, tokens.cut);
        return HASHATTN_OK;
    }
    dataset->targets[0].floats[dataset->count] = score;
    dataset_push(builder, tokens.count, tokens.cut);
    return HASHATTN_OK;
}

static hashattn_status read_file(struct host *host, const void *context, const char *path,
                                 struct dataset_builder *builder)
{
    struct encoding_rows e = *(const struct encoding_rows *)context;
    e.builder = builder;
    TRY(text_encoder_open(host, e.facts, &e.texts));
    hashattn_status status = read_rows(host, e.set, e.labelled ? NULL : e.facts, path, push_row, &e);
    text_encoder_close(&e.texts);
    return status;
}

/* The shape of a data set: a class or a score per example. */
static struct dataset shape_of(const struct task_facts *facts)
{
    struct dataset shape = {.segmented = facts->num_segments > 0};
    if (facts->num_classes > 0) {
        dataset_classified(&shape);
    } else {
        shape.num_targets = 1;
        shape.targets[0] = (struct target_set){.kind = TARGETS_EXAMPLE, .width = 1};
    }
    return shape;
}

static hashattn_status load(struct host *host, const void *options, const struct task_facts *facts,
                            const char *directory, enum split split, uint64_t seed, struct dataset *dataset)
{
    struct encoding_rows e = {.facts = facts, .labelled = true};
    const struct dataset shape = shape_of(facts);
    *dataset = (struct dataset){0};
    TRY(find_set(host, options, directory, &e.set));
    FAIL_IF((facts->num_classes == 0) != (e.set->labels[0] == NULL), host, HASHATTN_BAD_FILE,
            "%.200s is %s, and the model predicts %s", directory, e.set->name,
            facts->num_classes == 0 ? "scores" : "classes");
    hashattn_status status =
        split_load(host, files_of(e.set), facts, directory, split, seed, &shape, read_file, &e, dataset);
    dataset->absent = status == HASHATTN_BAD_FILE && split == SPLIT_TEST; /* it has no labels, as published */
    return status;
}

/* A file of any split, with or without labels. */
static hashattn_status stream_file(struct host *host, const void *options, const struct task_facts *facts,
                                   const char *path, const struct dataset_stream *stream)
{
    const struct glue_options *glue = options;
    const struct encoding_rows e = {.facts = facts,
                                    .set = glue->name == GLUE_AUTO ? NULL : &sets[glue->name - 1]};
    struct dataset_builder builder = {.dataset = shape_of(facts), .stream = stream};
    hashattn_status status = read_file(host, &e, path, &builder);
    return dataset_stream_end(host, &builder, path, "sentences", status);
}

const struct task task_glue = {
    .name = "glue",
    .summary =
        "classify or score sentences and pairs of sentences: GLUE's CoLA, SST-2, MRPC, QQP, STS-B, MNLI, "
        "QNLI, RTE",
    .options = rows,
    .options_size = sizeof(struct glue_options),
    .unread = UNREAD_BY_CLASSIFIERS,
    .preset = {ENCODER(2, 128, 2, 512), .steps = 1000, .batch = 32, .eval_every = 100, .warmup = 100,
               .learning_rate = 5e-4, .pooling = "first", .attention = YOSO_BITS(7),
               .model = "norm=post classifier=tanh scale_words=false initial_std=0.02 dropout=0.1",
               .training = "schedule=linear weight_decay=0.01"},
    .fine_tunes = true,
    .facts = facts,
    .load = load,
    .stream_file = stream_file,
};
