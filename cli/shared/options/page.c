/* Text is broken at spaces. Man pages use the macros of man(7) that groff and mandoc both have. Their date is
   that of the source, HASHATTN_DATE of the build (cmake/facts.cmake).
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/options/page.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "hashattn/hashattn.h"

#ifndef HASHATTN_DATE /* a compiler that only checks this file */
#define HASHATTN_DATE ""
#endif

enum { WIDTH = 80, LEAST_WIDTH = 60, MOST_WIDTH = 100 }; /* WIDTH: without a terminal */

/* Columns of the terminal, within what reads well. */
static int width_of(FILE *out)
{
    struct winsize window;
    int columns = ioctl(fileno(out), TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col : WIDTH;
    return columns < LEAST_WIDTH ? LEAST_WIDTH : columns > MOST_WIDTH ? MOST_WIDTH : columns;
}

bool page_wanted(const char *word, struct page *page)
{
    bool man = strcmp(word, "--help=man") == 0;
    page->man |= man;
    return man || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* Text for troff, which would print plain quotes and dashes as typographic ones, and would read a line that
   begins with a dot or an apostrophe as a command. */
static void put_escaped(FILE *out, const char *text, size_t length)
{
    static const struct {
        char c;
        const char *name;
    } special[] = {{'\\', "\\e"},  {'-', "\\-"},   {'\'', "\\(aq"},
                   {'`', "\\(ga"}, {'^', "\\(ha"}, {'~', "\\(ti"}};
    if (length > 0 && text[0] == '.')
        fputs("\\&", out);
    for (size_t i = 0; i < length; i++) {
        size_t kind = 0;
        while (kind < sizeof special / sizeof special[0] && text[i] != special[kind].c)
            kind++;
        if (kind < sizeof special / sizeof special[0])
            fputs(special[kind].name, out);
        else
            putc(text[i], out);
    }
}

static void put_all(FILE *out, const char *text)
{
    put_escaped(out, text, strlen(text));
}

/* "hashattn-bench-peak" */
static void put_name(FILE *out, const char *command, bool upper)
{
    char name[80];
    snprintf(name, sizeof name, "hashattn%s%s", *command == '\0' ? "" : "-", command);
    for (char *c = name; *c != '\0'; c++)
        *c = *c == ' ' ? '-' : upper ? (char)toupper((unsigned char)*c) : *c;
    put_all(out, name);
}

/* Breaks text at spaces into lines that begin at `column`; `at` columns of the first are filled already. */
static void put_wrapped(FILE *out, int at, int column, const char *text)
{
    int width = width_of(out);
    while (*text != '\0') {
        at += fprintf(out, "%*s", column - at, "");
        size_t columns = (size_t)(width - at), length = strlen(text);
        if (length > columns) {
            length = columns;
            while (length > 1 && text[length] != ' ')
                length--;
        }
        fprintf(out, "%.*s\n", (int)length, text);
        text += length + strspn(text + length, " ");
        at = 0;
    }
}

void page_begin(struct page *page, const char *command, const char *operands, const char *summary)
{
    char usage[200], sentence[400];
    snprintf(usage, sizeof usage, "hashattn%s%s%s%s [options]", *command == '\0' ? "" : " ", command,
             *operands == '\0' ? "" : " ", operands);
    if (!page->man) {
        snprintf(sentence, sizeof sentence, "%s.", summary);
        fprintf(page->stream, "usage: %s\n\n", usage);
        put_wrapped(page->stream, 0, 0, sentence);
        return;
    }
    fprintf(page->stream, ".TH ");
    put_name(page->stream, command, true);
    fprintf(page->stream, " 1 %s \"hashattn %s\" \"User Commands\"\n.SH NAME\n", HASHATTN_DATE,
            HASHATTN_VERSION);
    put_name(page->stream, command, false);
    fprintf(page->stream, " \\- ");
    put_all(page->stream, summary);
    fprintf(page->stream, "\n.SH SYNOPSIS\n.B ");
    put_all(page->stream, usage);
    putc('\n', page->stream);
}

void page_section(struct page *page, const char *title)
{
    if (!page->man) {
        fprintf(page->stream, "\n%s:\n", title);
        return;
    }
    bool options = strncmp(title, "options", 7) == 0, all = strcmp(title, "options") == 0;
    if (options && !page->options)
        fprintf(page->stream, ".SH OPTIONS\n");
    page->options |= options;
    if (options && !all) { /* "options of lha, lsh": the names keep their case */
        fprintf(page->stream, ".SS O");
        put_all(page->stream, title + 1);
        putc('\n', page->stream);
    } else if (!options) {
        fprintf(page->stream, ".SH ");
        for (; *title != '\0'; title++)
            putc(toupper((unsigned char)*title), page->stream);
        putc('\n', page->stream);
    }
}

/* Option names and other first words are bold, values italic. */
static void put_term(FILE *out, const char *term)
{
    size_t bold = term[0] == '-' ? strcspn(term, " ") : strlen(term);
    fprintf(out, ".TP\n\\fB");
    put_escaped(out, term, bold);
    fprintf(out, "\\fR");
    if (term[bold] == ' ') {
        fprintf(out, " \\fI");
        put_all(out, term + bold + 1);
        fprintf(out, "\\fR");
    }
    putc('\n', out);
}

void page_entry(struct page *page, int column, const char *term, const char *help)
{
    if (page->man) {
        put_term(page->stream, term);
        put_all(page->stream, help);
        putc('\n', page->stream);
        return;
    }
    int at = fprintf(page->stream, "  %s", term);
    if (at >= column) {
        putc('\n', page->stream);
        at = 0;
    }
    put_wrapped(page->stream, at, column, help);
}

void page_paragraph(struct page *page, const char *text)
{
    if (page->man) {
        fprintf(page->stream, ".PP\n");
        put_all(page->stream, text);
        putc('\n', page->stream);
    } else {
        putc('\n', page->stream);
        put_wrapped(page->stream, 0, 0, text);
    }
}

void page_example(struct page *page, const char *lines)
{
    if (!page->man) {
        fputs(lines, page->stream);
        return;
    }
    fprintf(page->stream, ".EX\n");
    for (const char *line = lines; *line != '\0'; line += strcspn(line, "\n") + 1) {
        size_t indent = strspn(line, " ");
        put_escaped(page->stream, line + indent, strcspn(line + indent, "\n"));
        putc('\n', page->stream);
    }
    fprintf(page->stream, ".EE\n");
}

void page_refer(struct page *page, const char *command)
{
    if (!page->man)
        return;
    fprintf(page->stream, page->refers ? ",\n.BR " : ".SH SEE ALSO\n.BR ");
    put_name(page->stream, command, false);
    fprintf(page->stream, " (1)");
    page->refers = true;
}

void page_end(struct page *page)
{
    if (page->refers)
        putc('\n', page->stream);
}
