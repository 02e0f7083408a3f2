/* Labels are ordered by their number of training examples, if there are too many for the table.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/output/data_out.h"
#include "cli/shared/tool/tool.h"

#include <stdlib.h>
#include <string.h>

enum { SHOWN_LABELS = 10, SHOWN_EACH = 3, LABEL_COLUMNS = 24 };

/* Label and its number of training examples. */
struct data_label {
    size_t label, count;
};

/* ---- keeping ---- */

static int keep_labels(struct data_read *read, const hashattn_data_part *part)
{
    size_t *counts = calloc(part->num_labels, sizeof *counts);
    read->label_counts[read->count] = counts;
    if (counts == NULL)
        return 1;
    memcpy(counts, part->label_counts, part->num_labels * sizeof *counts);
    if (read->count > 0)
        return 0;
    read->parts[0].num_labels = part->num_labels; /* for data_read_free, if memory runs out here */
    read->labels = calloc(part->num_labels, sizeof *read->labels);
    read->labels_by_count = calloc(part->num_labels, sizeof *read->labels_by_count);
    for (size_t i = 0; read->labels != NULL && i < part->num_labels; i++)
        if ((read->labels[i] = strdup(part->labels[i])) == NULL)
            return 1;
    return read->labels == NULL || read->labels_by_count == NULL;
}

int data_read_add(void *user, const hashattn_data_part *part)
{
    struct data_read *read = user;
    if (read->count == DATA_PARTS)
        return 0;
    if (part->num_labels > 0 && keep_labels(read, part) != 0)
        return read->no_memory = true;
    if (read->count == 0) {
        snprintf(read->columns, DATA_COLUMNS, "%s", part->columns == NULL ? "" : part->columns);
        snprintf(read->examples[0], DATA_TEXT, "%s", part->first_example == NULL ? "" : part->first_example);
        snprintf(read->examples[1], DATA_TEXT, "%s", part->last_example == NULL ? "" : part->last_example);
    }
    read->parts[read->count++] = *part;
    return 0;
}

void data_read_free(struct data_read *read)
{
    for (size_t i = 0; i < DATA_PARTS; i++)
        free(read->label_counts[i]);
    for (size_t i = 0; read->labels != NULL && i < read->parts[0].num_labels; i++)
        free(read->labels[i]);
    free(read->labels);
    free(read->labels_by_count);
    *read = (struct data_read){.count = 0};
}

/* ---- words --------------------------------------------------------------------------------------------- */

static double mean_length(const hashattn_data_part *part)
{
    return part->sequences == 0 ? 0 : (double)part->tokens / (double)part->sequences;
}

static void table_of_parts(const struct data_read *read, FILE *stream)
{
    bool numbers = read->parts[0].numbers, tokens = read->parts[0].tokens > 0;
    fprintf(stream, "%-10s %9s", "part", "examples");
    if (tokens)
        fprintf(stream, " %12s %8s %8s", "mean tokens", "longest", "cut");
    if (numbers)
        fprintf(stream, " %10s %10s %10s", "least", "mean", "greatest");
    fputc('\n', stream);
    for (size_t i = 0; i < read->count; i++) {
        const hashattn_data_part *part = &read->parts[i];
        fprintf(stream, "%-10s %9zu", part->split, part->examples);
        if (tokens)
            fprintf(stream, " %12.1f %8zu %8zu", mean_length(part), part->longest, part->num_cut);
        if (numbers)
            fprintf(stream, " %10.4g %10.4g %10.4g", part->least, part->mean, part->greatest);
        fprintf(stream, "%s\n", part->drawn && i > 0 ? "  (drawn from the training file)" : "");
    }
}

static int most_first(const void *a, const void *b)
{
    const struct data_label *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count ? 1 : -1)
                                : (x->label > y->label) - (x->label < y->label);
}

static void row_of_label(const struct data_read *read, size_t label, FILE *stream)
{
    tool_words(stream, "%-*s", LABEL_COLUMNS, read->labels[label]);
    for (size_t i = 0; i < read->count; i++)
        fprintf(stream, " %8zu", read->label_counts[i][label]);
    const hashattn_data_part *train = &read->parts[0];
    fprintf(stream, "  %5.1f %%\n",
            train->examples == 0 ? 0
                                 : 100.0 * (double)read->label_counts[0][label] / (double)train->examples);
}

static void table_of_labels(const struct data_read *read, FILE *stream)
{
    size_t count = read->parts[0].num_labels;
    struct data_label *order = read->labels_by_count;
    for (size_t i = 0; i < count; i++)
        order[i] = (struct data_label){i, read->label_counts[0][i]};
    if (count > SHOWN_LABELS)
        qsort(order, count, sizeof *order, most_first);
    char title[40];
    snprintf(title, sizeof title, "%zu label%s", count, count == 1 ? "" : "s");
    fprintf(stream, "%-*s", LABEL_COLUMNS, title);
    for (size_t i = 0; i < read->count; i++)
        fprintf(stream, " %8s", read->parts[i].split);
    fputc('\n', stream);
    for (size_t i = 0; i < count; i++) {
        if (count > SHOWN_LABELS && i == SHOWN_EACH) {
            i = count - SHOWN_EACH;
            fprintf(stream, "  and %zu more, the rarest:\n", i - SHOWN_EACH);
        }
        row_of_label(read, order[i].label, stream);
    }
}

void data_read_words(const struct data_read *read, FILE *stream)
{
    if (read->count == 0)
        return;
    const hashattn_data_part *train = &read->parts[0];
    if (read->columns[0] != '\0')
        tool_line(stream, "read %s", read->columns);
    table_of_parts(read, stream);
    if (train->num_labels > 0)
        table_of_labels(read, stream);
    if (read->examples[0][0] == '\0')
        return;
    const char *names[2] = {"least", "greatest"};
    for (int i = 0; i < 2; i++)
        tool_line(stream, "%s: \"%s\"",
                  train->num_labels > 0 ? read->labels[i == 0 ? 0 : train->num_labels - 1] : names[i],
                  read->examples[i]);
}

/* ---- JSON ---------------------------------------------------------------------------------------------- */

void data_read_json(const struct data_read *read, struct json_out *json)
{
    const hashattn_data_part *train = &read->parts[0];
    json_out_text(json, "columns", read->columns[0] == '\0' ? NULL : read->columns);
    json_out_object(json, "parts");
    for (size_t i = 0; i < read->count; i++) {
        const hashattn_data_part *part = &read->parts[i];
        json_out_object(json, part->split);
        json_out_flag(json, "drawn", part->drawn);
        json_out_count(json, "examples", part->examples);
        json_out_count(json, "tokens", part->tokens);
        json_out_number(json, "mean_tokens", mean_length(part));
        json_out_count(json, "longest", part->longest);
        json_out_count(json, "num_cut", part->num_cut);
        if (part->numbers) {
            json_out_number(json, "least", part->least);
            json_out_number(json, "mean", part->mean);
            json_out_number(json, "greatest", part->greatest);
        }
        if (part->num_labels > 0) {
            json_out_object(json, "labels");
            for (size_t c = 0; c < part->num_labels; c++)
                json_out_count(json, read->labels[c], read->label_counts[i][c]);
            json_out_end_object(json);
        }
        json_out_end_object(json);
    }
    json_out_end_object(json);
    json_out_count(json, "max_len", train->max_len);
    if (read->examples[0][0] == '\0')
        return;
    json_out_text(json, "first_example", read->examples[0]);
    json_out_text(json, "last_example", read->examples[1]);
}
