/* Which columns of a table are read. A name that is written as the rules have it comes before one that
   differs in the case of letters.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/documents/document_parts.h"

static char small(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
}

static bool same_letters(struct piece piece, const char *name)
{
    if (strlen(name) != piece.size)
        return false;
    for (size_t i = 0; i < piece.size; i++)
        if (small(piece.bytes[i]) != small(name[i]))
            return false;
    return true;
}

/* *found: how many fields have the name. Returns the first. */
static size_t find(const struct piece *fields, size_t count, const char *name, size_t *found)
{
    size_t first = SIZE_MAX;
    *found = 0;
    for (int any_case = 0; any_case < 2 && *found == 0; any_case++)
        for (size_t i = count; i-- > 0;)
            if (any_case ? same_letters(fields[i], name) : piece_is(fields[i], name)) {
                first = i;
                ++*found;
            }
    return first;
}

bool document_columns_named(const struct document_rules *rules, const struct piece *fields, size_t count)
{
    size_t found;
    for (size_t i = 0; i < (rules->pairs ? 2u : 1u); i++)
        if (find(fields, count, rules->texts[i], &found) == SIZE_MAX)
            return false;
    bool label = find(fields, count, rules->label, &found) != SIZE_MAX;
    return label || (!rules->label_needed && count == (rules->pairs ? 2u : 1u)) ||
           (!rules->label_needed && find(fields, count, "id", &found) != SIZE_MAX);
}

/* The number from 1 that a name is; 0: it is none. */
static size_t number_of(const char *name)
{
    char *end;
    unsigned long number = strtoul(name, &end, 10);
    return *name >= '0' && *name <= '9' && *end == '\0' ? (size_t)number : 0;
}

/* By its name, or by its number if no column has that name. option: that names the column, as in
   " (`text_column`)"; NULL: none, and it has no number. */
static hashattn_status find_named(struct host *host, const struct document_rules *rules,
                                  const struct piece *fields, size_t count, const char *name,
                                  const char *option, bool needed, size_t *column)
{
    size_t found, number = number_of(name), used = 0;
    char shown[SHOWN_SIZE], list[200] = "";
    *column = find(fields, count, name, &found);
    FAIL_IF(found > 1, host, HASHATTN_BAD_FILE, "%zu of the %zu columns are named '%s'", found, count, name);
    if (found == 1)
        return HASHATTN_OK;
    if (number >= 1 && number <= count && option != NULL && !rules->pairs) {
        *column = number - 1;
        return HASHATTN_OK;
    }
    for (size_t i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i == 0 ? "" : ", ",
                                 piece_shown(fields[i], shown));
    FAIL_IF(needed, host, HASHATTN_BAD_FILE, "no column is named '%s'%s; there are: %s%s", name,
            document_named_by(rules, option), list, used < sizeof list ? "" : "...");
    return HASHATTN_OK;
}

/* Without a header: the number that stands for the name, or the usual place. */
static hashattn_status find_numbered(struct host *host, const char *name, size_t usual, size_t count,
                                     bool needed, size_t *column)
{
    bool is_number = number_of(name) > 0;
    *column = is_number ? number_of(name) - 1 : usual;
    bool there = *column < count;
    FAIL_IF(!there && needed, host, HASHATTN_BAD_FILE,
            "there are %zu columns and no header, and column %s is wanted", count, is_number ? name : "2");
    if (!there)
        *column = SIZE_MAX;
    return HASHATTN_OK;
}

/* A column has one role. A label that nobody needs gives way to a text of its name. */
static hashattn_status check_roles(struct host *host, const struct document_rules *rules,
                                   const struct piece *fields, struct document_columns *columns)
{
    size_t texts = rules->pairs ? 2 : 1;
    for (size_t i = 0; i < texts && !rules->label_needed; i++)
        if (columns->label == columns->texts[i])
            columns->label = SIZE_MAX;
    const struct {
        const char *is;
        size_t column;
    } roles[] = {{rules->pairs ? "first text" : "text", columns->texts[0]},
                 {"second text", columns->texts[1]},
                 {"label", columns->label},
                 {"id", columns->id}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        for (size_t k = 0; k < i; k++) {
            char shown[SHOWN_SIZE] = "";
            bool same = roles[i].column != SIZE_MAX && roles[i].column == roles[k].column;
            if (same && fields != NULL)
                piece_shown(fields[roles[i].column], shown);
            FAIL_IF(same, host, HASHATTN_BAD_FILE, "column %zu%s%s%s is both the %s and the %s%s",
                    roles[i].column + 1, fields != NULL ? " '" : "", shown, fields != NULL ? "'" : "",
                    roles[k].is, roles[i].is, document_roles_by(rules));
        }
    return HASHATTN_OK;
}

static void tell(const struct document_rules *rules, const struct piece *fields,
                 const struct document_columns *columns)
{
    char shown[SHOWN_SIZE];
    size_t used = 0;
    const struct {
        const char *what;
        size_t column;
    } all[] = {{"label", columns->label},
               {rules->pairs ? "text 1" : "text", columns->texts[0]},
               {"text 2", rules->pairs ? columns->texts[1] : SIZE_MAX},
               {"id", columns->id}};
    for (size_t i = 0; rules->columns != NULL && i < sizeof all / sizeof *all && used < DOCUMENT_COLUMNS;
         i++) {
        if (all[i].column == SIZE_MAX)
            continue;
        used += (size_t)snprintf(rules->columns + used, DOCUMENT_COLUMNS - used, "%s%s: column %zu",
                                 used > 0 ? ", " : "", all[i].what, all[i].column + 1);
        if (fields != NULL && used < DOCUMENT_COLUMNS)
            used += (size_t)snprintf(rules->columns + used, DOCUMENT_COLUMNS - used, " '%s'",
                                     piece_shown(fields[all[i].column], shown));
    }
}

hashattn_status document_columns_find(struct host *host, const struct document_rules *rules,
                                      const struct piece *fields, size_t count,
                                      struct document_columns *columns)
{
    size_t texts = rules->pairs ? 2 : 1, lone = !rules->label_needed && count == texts ? 0 : 1;
    *columns = (struct document_columns){count, {SIZE_MAX, SIZE_MAX}, SIZE_MAX, SIZE_MAX};
    for (size_t i = 0; i < texts; i++)
        TRY(rules->no_header ? find_numbered(host, rules->texts[i], i + lone, count, true, &columns->texts[i])
                             : find_named(host, rules, fields, count, rules->texts[i], " (`text_column`)",
                                          true, &columns->texts[i]));
    if (rules->no_header)
        TRY(find_numbered(host, rules->label, lone == 0 ? SIZE_MAX : 0, count, rules->label_needed,
                          &columns->label));
    else
        TRY(find_named(host, rules, fields, count, rules->label, " (`label_column`)", rules->label_needed,
                       &columns->label));
    if (!rules->no_header && document_ids_pass(rules))
        TRY(find_named(host, rules, fields, count, "id", NULL, false, &columns->id));
    TRY(check_roles(host, rules, rules->no_header ? NULL : fields, columns));
    tell(rules, rules->no_header ? NULL : fields, columns);
    return HASHATTN_OK;
}

void document_take(const struct document_visit *visit, const struct document_columns *columns,
                   const struct piece *fields, struct document *document)
{
    for (size_t i = 0; i < documents_texts(visit); i++)
        document->texts[i] = fields[columns->texts[i]];
    if (columns->label != SIZE_MAX)
        document->label = fields[columns->label];
    if (columns->id != SIZE_MAX)
        document->id = fields[columns->id];
}
