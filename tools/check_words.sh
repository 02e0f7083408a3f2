#!/bin/sh
# Words that are allowed in one place only: instruction sets in kernels/, each external library in its own file, locales in
# base/c_locale.h, printing and exit in the tool. The tool never sets a locale, so its numbers have a decimal point
# everywhere.
bad=0
only() { # only PATTERN WHERE WHAT: WHAT, which matches PATTERN, occurs only in files that match WHERE
    found=$(git ls-files -co --exclude-standard 'src/*.[ch]' 'cli/*.[ch]' 'include/*.h' | grep -vE "$2" | xargs grep -nE "$1" /dev/null)
    [ -z "$found" ] || { echo "$3 outside of $2:"; echo "$found" | head -n 10; bad=1; }
}
only 'immintrin|cpuid\.h|arm_(neon|sve)\.h|__(AVX|SSE|FMA|ARM_|x86|aarch64)|_mm(256|512)?_|__m(128|256|512)|__builtin_(cpu|ia32)|__asm__' \
    '^src/kernels/(vec_.*\.h|simd_(turn_avx512|share_avx512|[a-z0-9]+_amx)\.h|cpu_.*\.c)$' 'instruction sets'
only 'dnnl' '^src/kernels/product\.[ch]$' 'oneDNN'
only 'omp_|<omp\.h>' '^src/kernels/product\.c$' 'OpenMP'
only '<jansson\.h>|json_t\b' '^src/io/json\.[ch]$' 'jansson'
only 'utf8proc' '^src/io/utf8\.c$' 'utf8proc'
only 'Random123' '^src/base/random\.[ch]$' 'Random123'
only 'setlocale|uselocale|newlocale' '^src/base/c_locale\.[ch]$' 'locales'
only '\b(strto(d|f|ld)|atof|[fs]?scanf) *\(' '^(src/base/options\.c|src/io/decimal\.c|cli/.*)$' 'reading real numbers'
only '\bMPI_[A-Z]|<mpi\.h>' '^(src/comm/comm_mpi\.c|include/hashattn/mpi\.h)$' 'MPI'
only 'pthread_' '^src/base/(pool|signal_mask)\.c$' 'threads'
only '\b(printf|puts|putchar|perror|exit|abort) *\(' '^cli/' 'printing or exit'
only '\b(malloc|calloc|realloc|free|aligned_alloc) *\(' '^(src/base/host\.c|src/io/json\.c|src/comm/comm_mpi\.c|cli/.*)$' 'allocation without the host'
exit $bad
