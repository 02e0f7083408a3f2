#!/bin/sh
# The shared library exports exactly the functions that the public headers declare.
build=${BUILD:-build}
library=$build/libhashattn.so
[ -e "$library" ] || { echo "SKIPPED: exports ($library is not built)"; exit 0; }
declared=$(grep -hv 'define HASHATTN_API' include/hashattn/*.h | tr '\n' ' ' | grep -oE 'HASHATTN_API [^;]*\(' |
    sed -E 's/ *\(.*//; s/.*[ *]//' | sort -u)
exported=$(nm -D --defined-only "$library" | awk '$2 ~ /[TDBRVW]/ { sub(/@.*/, "", $3); print $3 }' | grep -v '^HASHATTN_' | sort -u)
[ "$declared" = "$exported" ] && exit 0
printf '%s\n' "$declared" >"$build/declared.txt"
printf '%s\n' "$exported" >"$build/exported.txt"
echo "declared (-) and exported (+) differ:"
diff -u "$build/declared.txt" "$build/exported.txt" | grep -E '^[-+][a-z]'
exit 1
