#!/usr/bin/env python3
"""Writes src/text/unicode_classes.h: unicode_classes.py >src/text/unicode_classes.h, with pip `tokenizers` installed.

Asks the reference library about every character, because it mixes versions of Unicode: letters and numbers are those of
Unicode 16, punctuation, controls and marks of Unicode 8, the order of combining marks of Unicode 9. utf8proc has one version,
which differs between systems."""
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

LETTER, NUMBER, SPACE, PUNCTUATION, CONTROL, MARK, WORD, MOVES = (1 << i for i in range(8))
gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
bert = pre_tokenizers.BertPreTokenizer()
clean = normalizers.BertNormalizer(True, False, False, False)
strip = normalizers.BertNormalizer(False, False, True, False)
nfd = normalizers.NFD()
words = Tokenizer(models.WordLevel({"u": 0}, unk_token="u"))
words.add_tokens([AddedToken("XX", single_word=True)])


def flags(c):
    result = 0
    if len(gpt2.pre_tokenize_str("a" + c)) == 1:
        result |= LETTER
    elif len(gpt2.pre_tokenize_str("1" + c)) == 1:
        result |= NUMBER
    elif len(gpt2.pre_tokenize_str("!" + c)) != 1:
        result |= SPACE
    if len(bert.pre_tokenize_str("a" + c + "b")) == 3:
        result |= PUNCTUATION
    if clean.normalize_str(c) == "":
        result |= CONTROL
    if strip.normalize_str(c) == "":
        result |= MARK
    if 1 not in words.encode(c + "XX").ids:
        result |= WORD
    if nfd.normalize_str(c) == c and any(nfd.normalize_str(t) != t for t in ("a" + c + "\u0334", "a\u0300" + c, "a" + c + "\u0300")):
        result |= MOVES
    return result


def print_table(title, values, per_line):
    print(title)
    for i in range(0, len(values), per_line):
        print("    " + ", ".join(values[i : i + per_line]) + ",")
    print("};")


ascii_flags, runs, previous = [], [], None
for point in range(0x110000):
    value = flags(chr(point)) if not 0xD800 <= point < 0xE000 else 0
    if point < 128:
        ascii_flags.append(value)
    elif value != previous:
        runs.append(point << 8 | value)
        previous = value
print("/* Written by tools/unicode_classes.py. The flags of characters.h: of ASCII, and the runs of equal flags above\n"
      "   it as (first character << 8 | flags), in order. Only characters.c includes this.\n"
      "   SPDX-License-Identifier: Apache-2.0 */")
print("#ifndef TEXT_UNICODE_CLASSES_H\n#define TEXT_UNICODE_CLASSES_H\n\n#include <stdint.h>\n\n// clang-format off")
print_table("const uint8_t character_ascii[128] = {", [str(v) for v in ascii_flags], 20)
print_table("static const uint32_t runs[] = {", [f"0x{v:x}" for v in runs], 10)
print("// clang-format on\n\n#endif")
