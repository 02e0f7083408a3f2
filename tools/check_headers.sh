#!/bin/sh
# Every header compiles alone; the public ones as C++ too, where a C++ compiler is there.
bad=0
flags="-std=gnu11 -D_GNU_SOURCE -Isrc -Iinclude -I. -Itests -Wall -Wextra -Werror -fsyntax-only"
for header in $(git ls-files -co --exclude-standard 'src/*.h' 'include/*.h' 'cli/*.h' 'tests/*.h' | grep -vE '^src/kernels/(vec|simd)_'); do
    printf '#include "%s"\nextern int headers_alone;\n' "$header" | cc $flags -x c - || { echo "$header does not compile alone"; bad=1; }
done
if command -v c++ >/dev/null; then
    for header in $(git ls-files -co --exclude-standard 'include/*.h'); do
        printf '#include "%s"\n' "$header" | c++ -std=c++11 -Iinclude -I. -Wall -Wextra -Werror -fsyntax-only -x c++ - || { echo "$header is not C++"; bad=1; }
    done
fi
exit $bad
