#!/bin/sh
# Layout, length of files, head comments and unique file names.
bad=0
complain() { echo "$*"; bad=1; }
sources=$(git ls-files -co --exclude-standard '*.c' '*.h')
texts=$(git ls-files -co --exclude-standard '*.c' '*.h' '*.sh' '*.md' '*.txt' '*.py' Makefile | grep -v '^tests/fuzz/corpus/')
for file in $sources; do
    lines=$(wc -l <"$file")
    [ "$lines" -le 800 ] || complain "$file: $lines lines, 800 are allowed"
    head -n 30 "$file" | grep -qE '^(/\*|  ) SPDX-License-Identifier: Apache-2\.0 \*/$' ||
        complain "$file: no SPDX line of its own at the end of its head comment"
    head -c 2 "$file" | grep -q '/\*' || complain "$file: does not begin with a comment"
done
for file in $texts; do
    [ -s "$file" ] || { complain "$file: empty"; continue; }
    [ -z "$(tail -c 1 "$file")" ] || complain "$file: no newline at the end"
    grep -nE ' +$' "$file" /dev/null && complain "$file: trailing space"
done
# The tables of PERFORMANCE.md have a column for each kind of processor, so they may be wider.
LC_ALL=C.UTF-8 grep -nP '^.{121}' $(git ls-files -co --exclude-standard '*.md') /dev/null |
    grep -vE '^docs/PERFORMANCE\.md:[0-9]*:\|' && complain "lines of documents over 120 characters"
grep -nP '\t' $sources /dev/null && complain "tabs in C sources"
grep -nE '\b(TODO|FIXME|XXX)\b|^#if 0' $sources /dev/null && complain "unfinished code"
# Public headers are installed under hashattn/, so they may have the name of an internal header.
twice=$(for file in $sources; do echo "$file"; done | grep -v '^include/' | sed 's|.*/||' | sort | uniq -d)
[ -z "$twice" ] || complain "duplicate file names: $twice"
if command -v clang-format >/dev/null; then
    clang-format --dry-run -Werror $sources 2>&1 | head -n 20 | grep . && complain "run make format"
else
    echo "SKIPPED: layout (clang-format is not installed)"
fi
exit $bad
