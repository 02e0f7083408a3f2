/* The facts of a task as a section of config.json, and the vocabulary in a file beside it.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/run_facts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "models/model_config.h"
#include "tasks/words.h"
#include "text/files/tokenizer_json.h"
#include "text/tokenizer.h"

/* More than any task has, and few enough to be allocated safely. */
enum { READING = 2 }; /* how data are read: task_facts.first_reading is 1, which has no member */
enum { MOST_LABELS = 1 << 16, MOST_TOKENS = 1 << 24, MOST_COLUMNS = 1 << 16 };

/* ---- writing ---- */

static hashattn_status put_quantiles(struct host *host, struct json *object,
                                     const struct task_objective *entry)
{
    struct json *list;
    if (entry->quantiles.count == 0)
        return HASHATTN_OK;
    TRY(json_new_array(host, &list));
    TRY(json_put(host, object, "quantiles", list));
    for (size_t q = 0; q < entry->quantiles.count; q++)
        TRY(json_put_real(host, list, NULL, entry->quantiles.levels[q]));
    return HASHATTN_OK;
}

static hashattn_status put_objectives(struct host *host, struct json *facts_object,
                                      const struct task_facts *facts)
{
    struct json *list, *object;
    TRY(json_new_array(host, &list));
    TRY(json_put(host, facts_object, "objectives", list));
    for (size_t i = 0; i < facts->num_objectives; i++) {
        const struct task_objective *entry = &facts->objectives[i];
        TRY(json_new_object(host, &object));
        TRY(json_put(host, list, NULL, object));
        TRY(json_put_string(host, object, "name", entry->name));
        TRY(json_put_real(host, object, "weight", entry->weight));
        TRY(json_put_int(host, object, "outputs", (int64_t)entry->num_outputs));
        TRY(json_put_int(host, object, "first_output", (int64_t)entry->first_output));
        if (entry->positive > 0)
            TRY(json_put_int(host, object, "positive", (int64_t)entry->positive));
        if (entry->selects[0] != '\0')
            TRY(json_put_string(host, object, "selects", entry->selects));
        TRY(put_quantiles(host, object, entry));
    }
    return HASHATTN_OK;
}

static hashattn_status put_columns(struct host *host, struct json *facts_object,
                                   const struct task_facts *facts)
{
    struct json *list, *object;
    TRY(json_new_array(host, &list));
    TRY(json_put(host, facts_object, "columns", list));
    for (size_t i = 0; i < facts->num_columns; i++) {
        TRY(json_new_object(host, &object));
        TRY(json_put(host, list, NULL, object));
        TRY(json_put_string(host, object, "name", facts->columns[i].name));
        TRY(json_put_real(host, object, "mean", facts->columns[i].mean));
        TRY(json_put_real(host, object, "deviation", facts->columns[i].deviation));
        if (facts->columns[i].scale > 0)
            TRY(json_put_real(host, object, "scale", facts->columns[i].scale));
    }
    if (facts->num_series > 0) {
        TRY(json_new_array(host, &list));
        TRY(json_put(host, facts_object, "series", list));
    }
    for (size_t i = 0; i < facts->num_series; i++)
        TRY(json_put_string(host, list, NULL, facts->series[i]));
    if (facts->dates.column[0] == '\0')
        return HASHATTN_OK;
    TRY(json_new_object(host, &object));
    TRY(json_put(host, facts_object, "dates", object));
    TRY(json_put_string(host, object, "column", facts->dates.column));
    TRY(json_put_string(host, object, "freq", facts->dates.freq));
    return json_put_string(host, object, "format", facts->dates.format);
}

hashattn_status run_facts_put(struct host *host, struct json *task, const struct task_facts *facts)
{
    struct json *object, *labels;
    TRY(json_new_object(host, &object));
    TRY(json_put(host, task, "facts", object));
    TRY(json_put_int(host, object, "vocab_size", (int64_t)facts->vocab_size));
    TRY(json_put_int(host, object, "max_len", (int64_t)facts->max_len));
    TRY(json_put_bool(host, object, "pairs", facts->pairs));
    if (facts->row_width > 0)
        TRY(json_put_int(host, object, "row_width", (int64_t)facts->row_width));
    if (facts->decoder_rows > 0) {
        TRY(json_put_int(host, object, "decoder_rows", (int64_t)facts->decoder_rows));
        TRY(json_put_int(host, object, "decoded_rows", (int64_t)facts->decoded_rows));
    }
    if (facts->num_segments > 0)
        TRY(json_put_int(host, object, "segments", (int64_t)facts->num_segments));
    if (facts->bytes)
        TRY(json_put_bool(host, object, "bytes", true));
    if (!facts->first_reading)
        TRY(json_put_int(host, object, "reading", READING));
    TRY(put_objectives(host, object, facts));
    if (facts->num_words > 0)
        TRY(json_put_int(host, object, "words", (int64_t)facts->num_words));
    if (facts->num_tokens > 0)
        TRY(json_put_int(host, object, "tokens", (int64_t)facts->num_tokens));
    if (facts->num_columns > 0)
        TRY(put_columns(host, object, facts));
    TRY(json_new_array(host, &labels));
    TRY(json_put(host, object, "labels", labels));
    for (size_t i = 0; i < facts->num_classes; i++)
        TRY(json_put_string(host, labels, NULL, facts->labels[i]));
    return HASHATTN_OK;
}

hashattn_status run_facts_save_vocabulary(struct host *host, const char *run, const struct task_facts *facts)
{
    char path[FILE_PATH];
    if (facts->words != NULL) {
        TRY(file_join(host, run, "vocab.txt", path, sizeof path));
        TRY(words_save(host, path, facts->words));
    }
    if (facts->tokenizer == NULL)
        return HASHATTN_OK;
    TRY(file_join(host, run, "tokenizer.json", path, sizeof path));
    return tokenizer_write_json(host, path, facts->tokenizer);
}

/* ---- reading ---- */

static hashattn_status get_quantiles(struct host *host, const struct json *root, const char *where,
                                     struct task_objective *entry)
{
    const struct json *list;
    char path[100];
    snprintf(path, sizeof path, "%s.quantiles", where);
    TRY(json_get_array(host, root, path, &list));
    FAIL_IF(json_count(list) > MOST_QUANTILES, host, HASHATTN_BAD_FILE,
            "%s has %zu levels, at most %d are allowed", path, json_count(list), MOST_QUANTILES);
    entry->quantiles.count = json_count(list);
    for (size_t q = 0; q < entry->quantiles.count; q++) {
        snprintf(path, sizeof path, "%s.quantiles.%zu", where, q);
        TRY(json_get_real(host, root, path, &entry->quantiles.levels[q]));
    }
    return HASHATTN_OK;
}

static hashattn_status get_objective(struct host *host, const struct json *root, size_t index,
                                     struct task_facts *facts)
{
    static const char *const members[] = {"name",     "weight",  "outputs",   "first_output",
                                          "positive", "selects", "quantiles", NULL};
    const struct json *object;
    const char *name;
    char where[60];
    double weight;
    int64_t outputs, first;
    snprintf(where, sizeof where, "task.facts.objectives.%zu", index);
    TRY(json_get_object(host, root, where, &object));
    TRY(json_only_members(host, object, where, members));
    TRY(json_get_string(host, object, "name", &name));
    TRY(json_get_real(host, object, "weight", &weight));
    TRY(json_get_int(host, object, "outputs", 0, MODEL_MOST_VOCAB, &outputs));
    TRY(json_get_int(host, object, "first_output", 0, MODEL_MOST_VOCAB, &first));
    task_facts_add(facts, name, (size_t)outputs, (size_t)first);
    facts->objectives[index].weight = weight;
    if (json_find(object, "positive") != NULL) {
        TRY(json_get_int(host, object, "positive", 1, outputs, &first));
        facts->objectives[index].positive = (size_t)first;
    }
    if (json_find(object, "selects") != NULL) {
        TRY(json_get_string(host, object, "selects", &name));
        snprintf(facts->objectives[index].selects, TASK_OBJECTIVE_NAME, "%s", name);
    }
    if (json_find(object, "quantiles") != NULL)
        TRY(get_quantiles(host, root, where, &facts->objectives[index]));
    return HASHATTN_OK;
}

/* Files of version 1 have no list: a run predicted next tokens, with ids from 1, or classes. */
static hashattn_status get_objectives(struct host *host, const struct json *root, struct task_facts *facts)
{
    const struct json *list, *object;
    bool next_token = false;
    TRY(json_get_object(host, root, "task.facts", &object));
    if (json_find(object, "objectives") != NULL) {
        TRY(json_get_array(host, root, "task.facts.objectives", &list));
        FAIL_IF(json_count(list) > TASK_OBJECTIVES, host, HASHATTN_BAD_FILE,
                "task.facts.objectives has %zu entries, at most %d are allowed", json_count(list),
                TASK_OBJECTIVES);
        for (size_t i = 0; i < json_count(list); i++)
            TRY(get_objective(host, root, i, facts));
        return HASHATTN_OK;
    }
    if (json_find(object, "next_token") != NULL)
        TRY(json_get_bool(host, root, "task.facts.next_token", &next_token));
    if (next_token) {
        facts->bytes = facts->num_words == 0;
        task_facts_add(facts, "next_token", facts->vocab_size - 1, 1);
    } else {
        task_facts_add(facts, "classify", facts->num_classes, 0);
    }
    return HASHATTN_OK;
}

static hashattn_status get_column(struct host *host, const struct json *root, size_t index,
                                  struct task_column *column)
{
    static const char *const members[] = {"name", "mean", "deviation", "scale", NULL};
    const struct json *object;
    const char *name;
    char where[60];
    void *block;
    snprintf(where, sizeof where, "task.facts.columns.%zu", index);
    TRY(json_get_object(host, root, where, &object));
    TRY(json_only_members(host, object, where, members));
    TRY(json_get_string(host, object, "name", &name));
    TRY(json_get_real(host, object, "mean", &column->mean));
    TRY(json_get_real(host, object, "deviation", &column->deviation));
    FAIL_IF(!isfinite(column->mean) || !(column->deviation > 0) || !isfinite(column->deviation), host,
            HASHATTN_BAD_FILE, "%s has mean %g and deviation %g, a number and one above 0 are needed", where,
            column->mean, column->deviation);
    if (json_find(object, "scale") != NULL)
        TRY(json_get_real(host, object, "scale", &column->scale));
    FAIL_IF(!(column->scale >= 0) || !isfinite(column->scale), host, HASHATTN_BAD_FILE,
            "%s has scale %g, a number from 0 on is needed", where, column->scale);
    TRY(memory_new(host, strlen(name) + 1, 1, "the name of a column", &block));
    column->name = block;
    strcpy(column->name, name);
    return HASHATTN_OK;
}

static hashattn_status get_columns(struct host *host, const struct json *root, struct task_facts *facts)
{
    const struct json *list;
    void *block;
    TRY(json_get_array(host, root, "task.facts.columns", &list));
    size_t count = json_count(list);
    FAIL_IF(count == 0 || count > MOST_COLUMNS, host, HASHATTN_BAD_FILE,
            "task.facts.columns has %zu entries, allowed are 1 to %d", count, MOST_COLUMNS);
    TRY(memory_new_zeroed(host, count, sizeof *facts->columns, "columns", &block));
    facts->columns = block;
    facts->num_columns = count;
    for (size_t i = 0; i < count; i++)
        TRY(get_column(host, root, i, &facts->columns[i]));
    return HASHATTN_OK;
}

/* Copies a text of the object, if it is there and fits. */
static hashattn_status get_short(struct host *host, const struct json *object, const char *name,
                                 char text[OPTION_TEXT_SIZE])
{
    const char *found;
    TRY(json_get_string(host, object, name, &found));
    FAIL_IF(strlen(found) >= OPTION_TEXT_SIZE, host, HASHATTN_BAD_FILE,
            "task.facts.dates.%s has %zu bytes, at most %d are allowed", name, strlen(found),
            OPTION_TEXT_SIZE - 1);
    strcpy(text, found);
    return HASHATTN_OK;
}

static hashattn_status get_dates(struct host *host, const struct json *root, struct task_facts *facts)
{
    static const char *const members[] = {"column", "freq", "format", NULL};
    const struct json *object;
    TRY(json_get_object(host, root, "task.facts.dates", &object));
    TRY(json_only_members(host, object, "task.facts.dates", members));
    TRY(get_short(host, object, "column", facts->dates.column));
    TRY(get_short(host, object, "freq", facts->dates.freq));
    return get_short(host, object, "format", facts->dates.format);
}

/* The columns of each series follow each other, with the same names. */
/* Texts of a list, owned; none if it is empty. what: of one, for a message. */
static hashattn_status get_texts(struct host *host, const struct json *root, const char *list,
                                 const char *what, char ***texts, size_t *num_texts)
{
    const struct json *array;
    void *block;
    TRY(json_get_array(host, root, list, &array));
    size_t count = json_count(array);
    if (count == 0)
        return HASHATTN_OK;
    TRY(memory_new_zeroed(host, count, sizeof **texts, list, &block));
    *texts = block;
    *num_texts = count;
    for (size_t i = 0; i < count; i++) {
        char path[64];
        const char *text;
        snprintf(path, sizeof path, "%s.%zu", list, i);
        TRY(json_get_string(host, root, path, &text));
        size_t size = strlen(text) + 1;
        TRY(memory_new(host, size, 1, what, &block));
        (*texts)[i] = block;
        memcpy((*texts)[i], text, size);
    }
    return HASHATTN_OK;
}

static hashattn_status get_series(struct host *host, const struct json *root, struct task_facts *facts)
{
    TRY(get_texts(host, root, "task.facts.series", "the name of a series", &facts->series,
                  &facts->num_series));
    FAIL_IF(facts->num_series == 0 || facts->num_columns % facts->num_series != 0, host, HASHATTN_BAD_FILE,
            "task.facts.series has %zu names, which do not divide the %zu columns", facts->num_series,
            facts->num_columns);
    return HASHATTN_OK;
}

static hashattn_status get_labels(struct host *host, const struct json *root, struct task_facts *facts)
{
    TRY(get_texts(host, root, "task.facts.labels", "a label", &facts->labels, &facts->num_classes));
    FAIL_IF(facts->num_classes > MOST_LABELS, host, HASHATTN_BAD_FILE,
            "task.facts.labels has %zu labels, at most %d are allowed", facts->num_classes, MOST_LABELS);
    return HASHATTN_OK;
}

hashattn_status run_facts_get(struct host *host, const struct json *root, struct task_facts *facts)
{
    static const char *const members[] = {
        "vocab_size",   "row_width",    "segments", "max_len", "pairs",   "bytes",
        "objectives",   "next_token",   "words",    "tokens",  "labels",  "columns",
        "decoder_rows", "decoded_rows", "series",   "dates",   "reading", NULL};
    const struct json *object;
    int64_t number;
    TRY(json_get_object(host, root, "task.facts", &object));
    TRY(json_only_members(host, object, "task.facts", members));
    TRY(json_get_int(host, root, "task.facts.vocab_size", 0, MODEL_MOST_VOCAB, &number));
    facts->vocab_size = (size_t)number;
    if (json_find(object, "row_width") != NULL) {
        TRY(json_get_int(host, root, "task.facts.row_width", 1, 65536, &number));
        facts->row_width = (size_t)number;
    }
    if (json_find(object, "decoder_rows") != NULL) {
        TRY(json_get_int(host, root, "task.facts.decoder_rows", 1, MOST_TOKENS, &number));
        facts->decoder_rows = (size_t)number;
        TRY(json_get_int(host, root, "task.facts.decoded_rows", 1, number, &number));
        facts->decoded_rows = (size_t)number;
    }
    if (json_find(object, "segments") != NULL) {
        TRY(json_get_int(host, root, "task.facts.segments", 1, 256, &number));
        facts->num_segments = (size_t)number;
    }
    if (json_find(object, "bytes") != NULL)
        TRY(json_get_bool(host, root, "task.facts.bytes", &facts->bytes));
    facts->first_reading = json_find(object, "reading") == NULL;
    if (!facts->first_reading)
        TRY(json_get_int(host, root, "task.facts.reading", READING, READING, &number));
    TRY(json_get_int(host, root, "task.facts.max_len", 1, MOST_TOKENS, &number));
    facts->max_len = (size_t)number;
    if (json_find(object, "pairs") != NULL)
        TRY(json_get_bool(host, root, "task.facts.pairs", &facts->pairs));
    if (json_find(object, "words") != NULL) {
        TRY(json_get_int(host, root, "task.facts.words", 2, WORDS_MOST, &number));
        facts->num_words = (size_t)number;
        FAIL_IF(facts->num_words + 1 != facts->vocab_size, host, HASHATTN_BAD_FILE,
                "task.facts.words is %zu with a vocab_size of %zu, which counts them and the unused id 0",
                facts->num_words, facts->vocab_size);
    }
    if (json_find(object, "tokens") != NULL) {
        TRY(json_get_int(host, root, "task.facts.tokens", 1, VOCABULARY_MOST_IDS, &number));
        facts->num_tokens = (size_t)number;
        FAIL_IF(facts->num_tokens > facts->vocab_size, host, HASHATTN_BAD_FILE,
                "task.facts.tokens is %zu, more than the vocab_size of %zu", facts->num_tokens,
                facts->vocab_size);
    }
    if (json_find(object, "columns") != NULL)
        TRY(get_columns(host, root, facts));
    if (json_find(object, "series") != NULL)
        TRY(get_series(host, root, facts));
    if (json_find(object, "dates") != NULL)
        TRY(get_dates(host, root, facts));
    TRY(get_labels(host, root, facts));
    return get_objectives(host, root, facts);
}

/* Messages have the path. */
static hashattn_status load_tokenizer(struct host *host, const char *run, struct task_facts *facts)
{
    TRY(tokenizer_load(host, run, &facts->tokenizer));
    size_t found = tokenizer_num_ids(facts->tokenizer);
    FAIL_IF(found != facts->num_tokens, host, HASHATTN_BAD_FILE,
            "%s/tokenizer.json has %zu tokens, config.json says %zu", run, found, facts->num_tokens);
    return HASHATTN_OK;
}

hashattn_status run_facts_load_vocabulary(struct host *host, const char *run, struct task_facts *facts)
{
    char path[FILE_PATH];
    if (facts->num_tokens > 0)
        TRY(load_tokenizer(host, run, facts));
    if (facts->num_words == 0)
        return HASHATTN_OK;
    TRY(file_join(host, run, "vocab.txt", path, sizeof path));
    return words_load(host, path, facts->num_words, &facts->words);
}
