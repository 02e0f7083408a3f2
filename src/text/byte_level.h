/* Byte-level text as in GPT-2: the 256 characters that stand for bytes in a vocabulary, and the words that
   BPE works on.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXT_BYTE_LEVEL_H
#define TEXT_BYTE_LEVEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The character of a byte: printable Latin-1 stands for itself, the other 68 bytes for U+0100 to U+0143 in
   order. */
int32_t byte_level_character(unsigned char byte);
/* The byte of a character; false if it stands for none. */
bool byte_level_byte(int32_t character, unsigned char *byte);

/* The end of the word that begins at `at` < `end`, by the pattern of GPT-2:
   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
   A byte that is not UTF-8 is neither letter, number nor space. */
const char *byte_level_word(const char *at, const char *end);

/* True if a text may be cut at `at`, inside it, and its parts have the words of the whole. */
bool byte_level_splits(const char *begin, const char *at, const char *end);

#endif
