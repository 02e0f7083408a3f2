#!/bin/sh
# No writable globals: no object symbol of the library in .data or .bss (constant tables of pointers are in .data.rel.ro).
build=${BUILD:-build}
[ -d "$build/CMakeFiles/objects.dir" ] || { echo "SKIPPED: writable globals ($build is not built)"; exit 0; }
found=$(find "$build/CMakeFiles/objects.dir" -name '*.o' | sort |
    xargs objdump -t 2>/dev/null | awk '
    /file format/ { file = $1 }
    / O \.(data|bss)(\.[A-Za-z_0-9.]*)?\t/ && !/\.data\.rel\.ro/ { print file, $NF }')
[ -z "$found" ] || { echo "writable globals:"; echo "$found"; exit 1; }
