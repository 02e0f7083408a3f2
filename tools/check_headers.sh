#!/bin/sh
# Every header compiles on its own; public headers also compile as C++, if a C++ compiler is installed.
bad=0
flags="-std=gnu11 -D_GNU_SOURCE -Isrc -Iinclude -I. -Itests -Wall -Wextra -Werror -fsyntax-only"
for header in $(git ls-files -co --exclude-standard 'src/*.h' 'include/*.h' 'cli/*.h' 'tests/*.h' | grep -vE '^src/kernels/(vec|simd)_'); do
    printf '#include "%s"\nextern int headers_alone;\n' "$header" | cc $flags -x c - || { echo "$header does not compile on its own"; bad=1; }
done
if command -v c++ >/dev/null; then
    for header in $(git ls-files -co --exclude-standard 'include/*.h'); do
        printf '#include "%s"\n' "$header" | c++ -std=c++11 -Iinclude -I. -Wall -Wextra -Werror -fsyntax-only -x c++ - || { echo "$header does not compile as C++"; bad=1; }
    done
fi
exit $bad
