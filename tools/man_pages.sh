#!/bin/sh
# Writes the man pages of the tool, of each command and of each kind of bench into a directory: man_pages.sh TOOL DIRECTORY.
# The tool prints them from the rows of its help; hashattn.1 lists all of them under SEE ALSO.
set -eu
tool=$1 directory=$2
rm -rf "$directory"
mkdir -p "$directory"
"$tool" --help=man >"$directory/hashattn.1"
sed -n 's/^\.BR \(hashattn[a-z\\-]*\) (1).*/\1/p' "$directory/hashattn.1" | tr -d '\\' | while read -r page; do
    command=${page#hashattn-}
    "$tool" "$command" --help=man >"$directory/$page.1" 2>/dev/null && continue # a command, perhaps with a dash
    command=$(echo "$command" | tr - ' ')
    # shellcheck disable=SC2086
    "$tool" $command --help=man >"$directory/$page.1"
done
