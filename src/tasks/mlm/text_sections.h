/* Documents of text files, in blocks that are tokenised in parallel. What a document is:
   - .txt: with blank lines between documents, each line ending a sentence (BERT's input); or the whole file,
     with wrapped lines and blank lines between paragraphs (a book);
   - .jsonl: one on each line, {"text": "..."}; its line feeds end sentences;
   - .tokens (WikiText): begins at a heading of the first level, " = Title = "; each line ends a sentence.
   A document longer than a section is divided at a line feed, for wrapped lines at a blank line, so that work
   is balanced; a section counts as a document of its own. Memory: one block and the section or line that
   crosses its end, whatever the size of the files.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_TEXT_SECTIONS_H
#define TASKS_TEXT_SECTIONS_H

#include <stdint.h>

#include "io/line_blocks.h"

enum document_rule { DOCUMENTS_BLANK_LINES, DOCUMENTS_FILE };

struct text_section {
    size_t start, size; /* bytes of the block's text */
    uint64_t index;     /* of the section among those of all files */
    bool wrapped;       /* as in sentences.h */
};

/* Zeroed at first; reused from block to block. */
struct section_block {
    char *text;
    struct text_section *list; /* (count) */
    size_t count, used, text_capacity, list_capacity;
};
void section_block_free(struct host *host, struct section_block *block);

enum { SECTION_BLOCK = 1 << 23 }; /* bytes, at which a block ends with its section */

struct section_reader {
    struct host *host;
    const char *const *files; /* (num_files), borrowed */
    size_t num_files;
    enum document_rule rule;
    size_t section; /* bytes, from which on a document is divided */
    /* The state of reading. */
    size_t file; /* index of the current one */
    bool open;
    struct line_blocks lines;
    struct piece rest;       /* lines that were read and not used yet */
    size_t line;             /* number of the last line */
    uint64_t bytes, indices; /* read from all files; sections so far */
    struct section_block *block;
    size_t start;  /* of the current section */
    bool has_text; /* it has more than white space */
};

/* BAD_FILE: the name of a file ends in neither of the three, or it cannot be read. */
hashattn_status section_reader_open(struct host *host, const char *const *files, size_t num_files,
                                    enum document_rule rule, size_t section, struct section_reader *reader);
void section_reader_close(struct section_reader *reader);
/* The next sections; none at the end of the last file. BAD_FILE, with file and line: a line of .jsonl is not
   an object with a string "text". */
hashattn_status section_reader_next(struct section_reader *reader, struct section_block *block);

#endif
