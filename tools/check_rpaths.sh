#!/bin/sh
# No program and no library loads a library from the working directory or from a path relative to it: every entry of a search
# path (RPATH or RUNPATH) is absolute or begins with $ORIGIN. An empty entry means the working directory. Reads every ELF
# file below the given folders, by default the build folder, but for packages of others in its Python environments:
# check_rpaths.sh [FOLDER...]
export LC_ALL=C
[ $# -gt 0 ] || set -- "${BUILD:-build}"
for folder; do
    [ -d "$folder" ] || { echo "SKIPPED: search paths of libraries ($folder does not exist)"; exit 0; }
done
# One line per search path: the file, a tab, the path in brackets. readelf names the file only if it is given several.
paths=$(find "$@" -type f ! -name '*.o' ! -name '*.a' ! -path '*/CMakeFiles/*' ! -path '*/site-packages/*' \( -perm -u+x -o -name '*.so*' \) \
    -exec readelf -d /dev/null {} + 2>/dev/null |
    sed -nE '/^File: /{ s///; h; }; /\((RPATH|RUNPATH)\)/{ s/.*(\[.*\])$/\1/; G; s/(.*)\n(.*)/\2\t\1/p; }')
bad=$(printf "%s\n" "$paths" | awk -F '\t' '{
    count = split(substr($2, 2, length($2) - 2), entries, ":")
    for (i = 1; i <= count; i++)
        if (entries[i] !~ /^(\/|\$ORIGIN(\/|$)|\$\{ORIGIN\}(\/|$))/ ) { print $1 ": " $2; break }
    if (NF && count == 0) print $1 ": " $2
}')
[ -z "$bad" ] || { echo "search paths with an empty or relative entry:"; echo "$bad"; exit 1; }
