#!/bin/sh
# Words that are allowed in one place only: instruction sets in kernels/, each external library in its own file, locales in
# base/c_locale.h, printing and exit in the tool. The tool never sets a locale, so its numbers have a decimal point
# everywhere. And names that are retired, because the glossary (docs/MATH.md, section 1) has the field's word for them.
bad=0
only() { # only PATTERN WHERE WHAT: WHAT, which matches PATTERN, occurs only in files that match WHERE
    found=$(git ls-files -co --exclude-standard 'src/*.[ch]' 'cli/*.[ch]' 'include/*.h' | grep -vE "$2" | xargs grep -nE "$1" /dev/null)
    [ -z "$found" ] || { echo "$3 outside of $2:"; echo "$found" | head -n 10; bad=1; }
}
only 'immintrin|cpuid\.h|arm_(neon|sve)\.h|__(AVX|SSE|FMA|ARM_|x86|aarch64)|_mm(256|512)?_|__m(128|256|512)|__builtin_(cpu|ia32)|__asm__' \
    '^src/kernels/(vec_.*\.h|simd_(permute_avx512|pool_avx512|[a-z0-9]+_amx)\.h|cpu_.*\.c)$' 'instruction sets'
only 'dnnl' '^src/kernels/product\.[ch]$' 'oneDNN'
only 'omp_|<omp\.h>' '^src/kernels/product\.c$' 'OpenMP'
only '<jansson\.h>|json_t\b' '^src/io/json\.[ch]$' 'jansson'
only 'utf8proc' '^src/io/utf8\.c$' 'utf8proc'
only 'Random123' '^src/base/random\.[ch]$' 'Random123'
only 'setlocale|uselocale|newlocale' '^src/base/c_locale\.[ch]$' 'locales'
only '\b(strto(d|f|ld)|atof|[fs]?scanf) *\(' '^(src/base/options\.c|src/io/decimal\.c|cli/.*)$' 'reading real numbers'
only '\bMPI_[A-Z]|<mpi\.h>' '^(src/comm/comm_mpi\.c|include/hashattn/mpi\.h)$' 'MPI'
only '\bcu[A-Z][A-Za-z]*_?v?2?\b *[(,]|libcuda\.so' '^(src/gpu/driver\.c|include/hashattn/device\.h)$' 'the NVIDIA driver'
only 'pthread_' '^src/base/(pool|signal_mask)\.c$' 'threads'
only '\b(printf|puts|putchar|perror|exit|abort) *\(' '^cli/' 'printing or exit'
only '\b(malloc|calloc|realloc|free|aligned_alloc) *\(' '^(src/base/host\.c|src/io/json\.c|src/comm/comm_mpi\.c|cli/.*)$' 'allocation without the host'
retired() { # retired NAMES INSTEAD: no identifier or file has one of NAMES
    found=$(git ls-files -co --exclude-standard 'src/*.[ch]' 'cli/*.[ch]' | xargs grep -nwE "$1" /dev/null)
    [ -z "$found" ] || { echo "retired name, use $2:"; echo "$found" | head -n 10; bad=1; }
}
retired '[a-z_]+_room|EXIT_ROOM' 'capacity (elements that fit), scratch or packed (memory)'
retired 'bucket_carry|pairs_carry|pairs\.carry' 'bucket_sums'
retired 'pairs_meetings|pairs\.meetings' 'equal_codes'
retired 'hash_share|hash\.share' 'pooled_codes'
retired 'product_turned_bf16|pack_turned|sum_range_turn|struct turn' 'transposed, permuted, or what is done in turn'
retired 'row_ranks_trade' 'exchange'
retired 'comm_share(_of)?|ranks_share_state' 'span (of a rank), broadcast'
retired 'struct asked' 'targets, or options'
retired 'crowd(s|_[a-z_]+)?|struct crowd|CROWD_ROWS' 'dense (of a bucket)'
retired 'meetings(_[a-z_]+)?|meeting_space(_[a-z_]+)?|MEETING_TILE' 'colliding (pairs)'
retired 'table_carry|(partner_)?tables_carry(_fixed)?' 'table_sums'
retired 'homes(_[a-z_]+)?|[a-z]+_homes' 'token_groups'
retired 'self_attention(_[a-z_]+)?' 'attention_layer (it is cross attention too)'
retired 'hadamard_turn(ed)?|planes_turn(ed_count)?|query_turned' 'rotate, or transposed'
retired '(hasher|tables|buckets|partners|pair_(rows|work))_lay_out' 'X_init'
retired 'lha_trade|lha_carry|struct trade' 'exchange'
exit $bad
