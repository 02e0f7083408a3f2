#!/bin/sh
# The library that tests link has assertions; the installed library and tool have none. Checked in their object files.
build=${BUILD:-build}
[ -d "$build/CMakeFiles/objects.dir" ] || { echo "SKIPPED: assertions ($build is not built)"; exit 0; }
bad=0
found=$(git grep -lE '\bassert\(' -- 'src/kernels/*.h' 'src/kernels/isa_*.c')
[ -z "$found" ] || { echo "assertions that no test would have, because these files are compiled once:"; echo "$found"; bad=1; }
with_assertions() { [ $# = 0 ] || nm -uA "$@" | sed -nE 's/:.*__assert_fail.*//p' | sort -u; }

# A Debug build has one set of objects, with assertions.
checked=$build/CMakeFiles/checked_objects.dir
if grep -q '^CMAKE_BUILD_TYPE:[A-Z]*=Debug$' "$build/CMakeCache.txt"; then
    checked=$build/CMakeFiles/objects.dir
else
    # `make demo` builds no static library.
    found=$(with_assertions $(ls "$build/libhashattn.so" "$build/libhashattn.a" "$build/hashattn" 2>/dev/null))
    [ -z "$found" ] || { echo "assertions in installed files:"; echo "$found"; bad=1; }
fi
[ -d "$build/tests" ] || { echo "SKIPPED: assertions of tests ($build/tests is not built)"; exit $bad; }
git ls-files -co --exclude-standard 'src/*.c' | xargs grep -lE '\bassert\(' | sed "s|.*|$checked/&.o|" | while read -r file; do
    [ ! -e "$file" ] || echo "$file"
done | sort >"$build/expected.txt"
with_assertions $(cat "$build/expected.txt") | comm -23 "$build/expected.txt" - >"$build/without.txt"
[ ! -s "$build/without.txt" ] || { echo "no assertions in:"; head -n 10 "$build/without.txt"; bad=1; }
exit $bad
