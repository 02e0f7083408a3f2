/* A page of help, written as text for a terminal or as the source of a man page. Both forms come from the
   same calls, so they have the same words.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PAGE_H
#define CLI_PAGE_H

#include <stdbool.h>
#include <stdio.h>

struct page {
    FILE *stream;
    bool man;     /* troff with the man macros, as `man` reads it; otherwise text of at most 100 columns */
    bool options; /* man: the heading OPTIONS is written */
    bool refers;  /* man: a reference is written */
};

/* True if the word asks for help: --help, -h, or --help=man, which sets page->man. */
bool page_wanted(const char *word, struct page *page);

/* Title, usage and summary. command: "" for the tool as a whole, "bench peak" for hashattn-bench-peak(1). */
void page_begin(struct page *page, const char *command, const char *operands, const char *summary);
void page_section(struct page *page, const char *title); /* lower case, without a colon */
/* One entry of a list: "--name VALUE" or another term, and its help. The help begins at this column of the
   text. */
void page_entry(struct page *page, int column, const char *term, const char *help);
void page_paragraph(struct page *page, const char *text);
/* Command lines, each indented by two spaces and ended by a newline. */
void page_example(struct page *page, const char *lines);
/* Adds a man page to the section "see also", the last one of a page. Text has no such section. */
void page_refer(struct page *page, const char *command);
void page_end(struct page *page);

#endif
