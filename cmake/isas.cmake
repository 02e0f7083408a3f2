# Instruction sets beside `ref`, narrowest first: architecture, name, and the flags of src/kernels/isa_NAME.c.
set(AVX512 "-mavx512f -mavx512vl -mavx512bw -mavx512dq -mavx2 -mfma -mprefer-vector-width=512")
set(ISAS "x86 avx2       -mavx2 -mfma"
         "x86 avx512     ${AVX512}"
         "x86 avx512bf16 -mavx512bf16 -mavx512vnni ${AVX512}"
         "x86 amx        -mamx-tile -mamx-int8 -mamx-bf16 -mavx512vbmi2 -mavx512bf16 -mavx512vnni ${AVX512}"
         "aarch64 neon")

# The architecture decides which of them are built, and which cpu_ARCHITECTURE.c reads the features of the processor.
# An architecture without that file uses cpu_none.c. For `none`, only the plain loops of `ref` run.
set(ARCHITECTURE none)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  set(ARCHITECTURE x86)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(ARCHITECTURE aarch64)
endif()
set(HASHATTN_ARCHITECTURE ${ARCHITECTURE} CACHE STRING "whose instruction sets are built: x86, aarch64, or none")

# Sums that start at 0 must stay in registers: GCC takes clearing them for a memset.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  set(NO_MEMSET -fno-tree-loop-distribute-patterns)
endif()

set(HERE ${HASHATTN_ARCHITECTURE})
if(NOT EXISTS ${CMAKE_SOURCE_DIR}/src/kernels/cpu_${HASHATTN_ARCHITECTURE}.c)
  list(APPEND HERE none)
endif()
set(KERNELS_ISAS "")
foreach(row ${ISAS})
  separate_arguments(row UNIX_COMMAND "${row}")
  list(POP_FRONT row architecture name)
  if(architecture STREQUAL HASHATTN_ARCHITECTURE)
    list(APPEND row -O3 ${NO_MEMSET})
    set_source_files_properties(src/kernels/isa_${name}.c PROPERTIES COMPILE_OPTIONS "${row}")
    list(APPEND HERE ${name})
    string(APPEND KERNELS_ISAS "ISA(${name})")
  endif()
endforeach()
set_source_files_properties(src/kernels/kernels.c PROPERTIES COMPILE_DEFINITIONS "KERNELS_ISAS=${KERNELS_ISAS}")

# Removes the files of other architectures from a list: [test_]cpu_ARCHITECTURE.c and [test_]isa_NAME.c.
function(keep_this_architecture list)
  set(kept "")
  foreach(file ${${list}})
    if(NOT file MATCHES "/kernels/(test_)?(cpu|isa)_([a-z0-9]+)\\.c$" OR CMAKE_MATCH_3 IN_LIST HERE)
      list(APPEND kept ${file})
    endif()
  endforeach()
  set(${list} ${kept} PARENT_SCOPE)
endfunction()
