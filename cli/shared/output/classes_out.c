/* The scores of a label come from its three counts. In the confusion, row c is the examples of class c, and
   column c what is taken for it.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/output/classes_out.h"
#include "cli/shared/tool/tool.h"

enum { MATRIX_MOST = 10, LABEL_COLUMNS = 20, CELL = 9 };

struct scores {
    size_t count; /* examples that have the label */
    double precision, recall, f1;
};

static struct scores scores_of(const hashattn_evaluation *result, size_t c)
{
    const size_t *counts = result->label_counts + 3 * c;
    size_t right = counts[0], taken = right + counts[1];
    struct scores scores = {.count = right + counts[2]};
    scores.precision = taken == 0 ? 0 : (double)right / (double)taken;
    scores.recall = scores.count == 0 ? 0 : (double)right / (double)scores.count;
    scores.f1 = taken + scores.count == 0 ? 0 : 2 * (double)right / (double)(taken + scores.count);
    return scores;
}

void classes_words(const hashattn_model *model, const hashattn_evaluation *result)
{
    size_t n = result->num_labels, confused = result->num_confused;
    if (n == 0)
        return;
    printf("%-*s %9s %9s %9s %9s\n", LABEL_COLUMNS, "label", "precision", "recall", "F1", "examples");
    for (size_t c = 0; c < n; c++) {
        const struct scores of = scores_of(result, c);
        tool_line(stdout, "%-*.60s %9.4f %9.4f %9.4f %9zu", LABEL_COLUMNS, hashattn_model_label(model, c),
                  of.precision, of.recall, of.f1, of.count);
    }
    double macro = hashattn_metric_value(&result->metrics, "macro_f1");
    if (macro == macro) /* there is one */
        printf("%-*s %9s %9s %9.4f %9zu\n", LABEL_COLUMNS, "macro-F1", "", "", macro, result->examples);
    if (confused == 0 || confused > MATRIX_MOST)
        return;
    printf("%-*s", LABEL_COLUMNS, "taken for");
    for (size_t c = 0; c < n; c++)
        tool_words(stdout, " %*.*s", CELL, CELL, hashattn_model_label(model, c));
    putchar('\n');
    for (size_t c = 0; c < n; c++) {
        tool_words(stdout, "%-*.60s", LABEL_COLUMNS, hashattn_model_label(model, c));
        for (size_t i = 0; i < n; i++)
            printf(" %*zu", CELL, result->confusion[c * n + i]);
        putchar('\n');
    }
}

void classes_json(struct json_out *json, const hashattn_model *model, const hashattn_evaluation *result)
{
    size_t n = result->num_confused;
    if (result->num_labels == 0)
        return;
    json_out_object(json, "per_class");
    for (size_t c = 0; c < result->num_labels; c++) {
        const struct scores of = scores_of(result, c);
        json_out_object(json, hashattn_model_label(model, c));
        json_out_number(json, "precision", of.precision);
        json_out_number(json, "recall", of.recall);
        json_out_number(json, "f1", of.f1);
        json_out_count(json, "examples", of.count);
        json_out_end_object(json);
    }
    json_out_end_object(json);
    if (n == 0)
        return;
    json_out_array(json, "labels");
    for (size_t c = 0; c < n; c++)
        json_out_text(json, NULL, hashattn_model_label(model, c));
    json_out_end_array(json);
    json_out_array(json, "confusion");
    for (size_t c = 0; c < n; c++) {
        json_out_array(json, NULL);
        for (size_t i = 0; i < n; i++)
            json_out_count(json, NULL, result->confusion[c * n + i]);
        json_out_end_array(json);
    }
    json_out_end_array(json);
}
