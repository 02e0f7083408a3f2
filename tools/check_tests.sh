#!/bin/sh
# Every source file has a test: src/x/y.c has tests/x/test_y.c, or a test in tests/x (or tests/gpu, of what calls on a device
# pass through) names y.c on a line "Covers: ...".
bad=0
for source in $(git ls-files -co --exclude-standard 'src/*.c'); do
    folder=$(dirname "${source#src/}")
    unit=$(basename "$source" .c)
    [ -e "tests/$folder/test_$unit.c" ] && continue
    grep -rlE "Covers:.*\b$unit\.c" "tests/${folder%%/*}" tests/gpu >/dev/null 2>&1 && continue
    echo "$source has no tests/$folder/test_$unit.c, and no test in tests/${folder%%/*}/ names it under Covers:"
    bad=1
done
exit $bad
