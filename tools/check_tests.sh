#!/bin/sh
# Every unit has a test: src/x/y.c has tests/x/test_y.c, or a test in tests/x names y.c on a line "Covers: ...".
bad=0
for source in $(git ls-files -co --exclude-standard 'src/*.c'); do
    floor=$(basename "$(dirname "$source")")
    unit=$(basename "$source" .c)
    [ -e "tests/$floor/test_$unit.c" ] && continue
    grep -lE "Covers:.*\b$unit\.c" tests/"$floor"/test_*.c >/dev/null 2>&1 && continue
    echo "$source has no tests/$floor/test_$unit.c, and no test of $floor says that it covers it"
    bad=1
done
exit $bad
