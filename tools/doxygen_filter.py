#!/usr/bin/env python3
"""Turns the plain comments of a public header into documentation comments, for Doxygen: doxygen_filter.py HEADER.

A comment documents what follows it, or, behind code, what is before it. Declarations without a comment of their own that
directly follow a documented one share its comment. "---- title ----" begins a group.
SPDX-License-Identifier: Apache-2.0
"""

import re
import sys

COMMENT = re.compile(r"/\*.*?\*/", re.S)


def escaped(text):
    text = text.replace("SPDX-License-Identifier: Apache-2.0", "").rstrip()
    return re.sub(r"(?<!/)\*(?!/)|[<>\\@#]", lambda found: "\\" + found.group(), text)


def converted(source):
    """The header with other comments, and with as many lines."""
    place, parts, grouped = 0, [], False
    for found in COMMENT.finditer(source):
        before = source[source.rfind("\n", 0, found.start()) + 1:found.start()]
        inside = found.group()[2:-2]
        title = re.fullmatch(r" -+ (.*?)(: .*)? -+ ", inside, re.S)
        if "#define" in before or before.endswith("\\"):
            comment = found.group()
        elif title:
            comment = ("/** @} */ " if grouped else "") + f"/** @name {escaped(title[1])} */ /** @{{ */"
            grouped = True
        elif found.start() == 0:
            comment = f"/** @file\n{escaped(inside)} */"
        else:
            comment = f"/**{'<' if before.strip() else ''}{escaped(inside)} */"
        parts += [source[place:found.start()], comment]
        place = found.end()
    text = "".join(parts) + source[place:]
    if grouped:
        text = re.sub(r"\n(#ifdef __cplusplus\n}\n#endif\n)?#endif\n$", r"\n/** @} */\n\1#endif\n", text)
    return text


def shared(text):
    """Repeats a comment for the declarations that directly follow its own."""
    declaration = r"(?:HASHATTN_API |typedef struct \w+ \w+)[^;]*;\n"
    return re.sub(r"(/\*\*(?! @)(?:(?!\*/).)*\*/)\n((?:" + declaration + "){2,})",
                  lambda found: "".join(f"{found[1]}\n{line}" for line in re.findall(declaration, found[2])), text, flags=re.S)


if __name__ == "__main__":
    with open(sys.argv[1]) as header:
        sys.stdout.write(shared(converted(header.read())))
