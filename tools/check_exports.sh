#!/bin/sh
# The shared library exports exactly the functions that the public headers declare. Inline functions are exported too, for
# programs of the first version. The functions of mpi.h are in libhashattn-mpi, and neither the library nor the tool loads
# MPI. No global name of the tool exists in a library that it loads: the library would
# call the tool's function instead of its own, unless its names are hidden.
export LC_ALL=C
build=${BUILD:-build}
library=$build/libhashattn.so
[ -e "$library" ] || { echo "SKIPPED: exports ($library is not built)"; exit 0; }
newer=$(find include/hashattn -name '*.h' ! -name mpi.h -newer "$library" | head -n 1)
[ -z "$newer" ] || { echo "SKIPPED: exports ($newer is newer than $library, which must be built again)"; exit 0; }
bad=0
exports_of() { nm -D --defined-only "$@" | awk '$2 ~ /[TDBRVWi]/ { sub(/@.*/, "", $3); print $3 }' | sort -u; }

compare() { # LIBRARY HEADER...
    shared_library=$1
    shift
    grep -hvE 'define HASHATTN_(API|INLINE)' "$@" | tr '\n' ' ' | grep -oE 'HASHATTN_(API|INLINE) [^;]*\(' |
        sed -E 's/ *\(.*//; s/.*[ *]//' | sort -u >"$build/declared.txt"
    exports_of "$shared_library" | grep -v '^HASHATTN_' >"$build/exported.txt"
    cmp -s "$build/declared.txt" "$build/exported.txt" && return
    echo "$shared_library: declared (-) and exported (+) differ:"
    diff -u "$build/declared.txt" "$build/exported.txt" | grep -E '^[-+][a-z]'
    bad=1
}
compare "$library" $(ls include/hashattn/*.h | grep -v /mpi.h)
if [ -e "$build/libhashattn-mpi.so" ]; then
    compare "$build/libhashattn-mpi.so" include/hashattn/mpi.h
else
    echo "SKIPPED: exports of libhashattn-mpi (it is not built)"
fi

[ -e "$build/hashattn" ] || { echo "SKIPPED: names of the tool ($build/hashattn is not built)"; exit $bad; }
loaded=$(ldd "$build/hashattn" | awk '$3 ~ /^\// { print $3 }')
# By the names of the files, because the folder may have any.
echo "$loaded" | sed 's|.*/||' | grep -i 'mpi' && { echo "the tool loads MPI"; bad=1; }
exports_of $loaded >"$build/loaded.txt"
find "$build/CMakeFiles/tool_objects.dir" -name '*.o' | xargs nm -g --defined-only | awk 'NF == 3 { print $3 }' | sort -u >"$build/tool_names.txt"
for list in loaded tool_names; do
    [ -s "$build/$list.txt" ] || { echo "no names in $build/$list.txt, so the tool cannot be checked"; bad=1; }
done
shared=$(comm -12 "$build/tool_names.txt" "$build/loaded.txt")
[ -z "$shared" ] || { echo "names of the tool that also exist in a library:"; echo "$shared"; bad=1; }
exit $bad
