/* Confusion matrices, which are tables with coloured cells.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/report/report.h"
#include "cli/shared/pictures/html.h"

static void write_label(FILE *page, const hashattn_value *labels, size_t index)
{
    char path[24], number[HASHATTN_NUMBER_TEXT];
    snprintf(path, sizeof path, "%zu", index);
    const char *label = hashattn_value_text(hashattn_value_find(labels, path), number);
    html_text(page, label != NULL ? label : path);
}

void report_write_confusion(FILE *page, const char *title, const struct confusion *confusion,
                            const hashattn_value *labels)
{
    size_t classes = confusion->classes;
    if (classes == 0)
        return;
    fprintf(page, "<figure class=\"heat%s\">", classes > 12 ? " many" : "");
    html_table(page, title);
    fputs("<caption>", page);
    html_text(page, title);
    fprintf(page,
            "</caption><thead><tr><th rowspan=\"2\" scope=\"col\" class=\"t\">label<th colspan=\"%zu\" "
            "class=\"t\" scope=\"colgroup\">predicted label (examples)<tr>",
            classes);
    for (size_t k = 0; k < classes; k++) {
        fputs("<th scope=\"col\">", page);
        write_label(page, labels, k);
    }
    fputs("</thead><tbody>\n", page);
    for (size_t i = 0; i < classes; i++) {
        double all = 0;
        for (size_t k = 0; k < classes; k++)
            all += confusion->counts[i * classes + k];
        fputs("<tr><th scope=\"row\">", page);
        write_label(page, labels, i);
        for (size_t k = 0; k < classes; k++) {
            double count = confusion->counts[i * classes + k];
            if (count > 0)
                fprintf(page, "<td style=\"--v:%.2f\">%.0f", count / all, count);
            else
                fputs("<td class=\"z\" style=\"--v:0\">0", page);
        }
        fputc('\n', page);
    }
    fputs("</tbody>", page);
    html_table_end(page);
    fputs("</figure>\n", page);
}
