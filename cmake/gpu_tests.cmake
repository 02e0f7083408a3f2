# Tests of src/gpu, on an emulator: a libcuda.so.1 with the kernels compiled by g++ (tests/gpu/emulator). The test programs find
# it first; with LD_LIBRARY_PATH=FOLDER they use the driver in FOLDER, so the same programs test a GPU (bench/gpu.sh).
# One of them also runs with an emulator that AddressSanitizer and the check of alignments, or ThreadSanitizer, watch.
find_program(EMULATOR_COMPILER g++)
get_filename_component(C_COMPILER_NAME ${CMAKE_C_COMPILER} NAME)
if(NOT EMULATOR_COMPILER OR CMAKE_CROSSCOMPILING OR C_COMPILER_NAME MATCHES "musl")
  message(STATUS "No tests of GPUs: the emulator needs g++, and a C library that is g++'s own")
  return()
endif()
set(EMULATOR ${CMAKE_SOURCE_DIR}/tests/gpu/emulator)
set(EMULATOR_FLAGS -std=c++17 -fPIC -shared -Wall -Wextra -Wno-unused-function -Wno-unknown-pragmas -ffp-contract=off
                   -fno-strict-aliasing -fno-gnu-unique -Wl,-soname,libcuda.so.1 -I${CMAKE_SOURCE_DIR}/src/gpu/kernels -I${EMULATOR})
file(GLOB EMULATED CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/gpu/kernels/* ${EMULATOR}/*)
# libcuda.so.1 in the folder tests/gpu/NAME of the build.
function(add_emulator name)
  set(library ${CMAKE_BINARY_DIR}/tests/gpu/${name}/libcuda.so.1)
  add_custom_command(OUTPUT ${library} DEPENDS ${EMULATED} VERBATIM
                     COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/tests/gpu/${name}
                     COMMAND ${EMULATOR_COMPILER} ${EMULATOR_FLAGS} ${ARGN} ${EMULATOR}/fake_cuda.cpp -o ${library})
  add_custom_target(emulator_${name} DEPENDS ${library})
  add_dependencies(tests emulator_${name})
endfunction()

set(EMULATOR_SANITIZER "")
if(HASHATTN_SANITIZE)
  set(EMULATOR_SANITIZER -fsanitize=${HASHATTN_SANITIZE})
endif()
add_emulator(plain -O2 -g1 ${EMULATOR_SANITIZER})
file(GLOB GPU_TESTS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/gpu/test_*.c)
foreach(source ${GPU_TESTS})
  get_filename_component(name ${source} NAME_WE)
  add_test_program(${name} ${source})
  add_dependencies(${name} emulator_plain)
  set_target_properties(${name} PROPERTIES BUILD_RPATH ${CMAKE_BINARY_DIR}/tests/gpu/plain)
  # A sanitizer intercepts dlopen, which then does not know the search path of the program.
  if(HASHATTN_SANITIZE AND NOT name STREQUAL test_gpu_no_driver)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/gpu/plain")
  endif()
endforeach()
set_target_properties(test_gpu_no_driver PROPERTIES BUILD_RPATH "")

# A sanitizer's library must be loaded first, because the test program itself is an ordinary one.
function(add_watched name sanitizer options)
  execute_process(COMMAND ${EMULATOR_COMPILER} -print-file-name=lib${sanitizer}.so OUTPUT_VARIABLE library
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(HASHATTN_SANITIZE OR NOT EXISTS ${library})
    return()
  endif()
  set(addresses 0) # libtsan of gcc 12 stops where more than 28 bits of addresses are random
  if(EXISTS /proc/sys/vm/mmap_rnd_bits)
    file(READ /proc/sys/vm/mmap_rnd_bits addresses)
  endif()
  if(addresses GREATER 28)
    message(STATUS "No test gpu_${name}: vm.mmap_rnd_bits is above 28")
    return()
  endif()
  add_emulator(${name} -O1 -g ${ARGN})
  add_custom_target(gpu_${name})
  add_dependencies(gpu_${name} emulator_${name} test_gpu_small)
  add_test(NAME gpu_${name} COMMAND test_gpu_small WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(gpu_${name} PROPERTIES TIMEOUT ${TEST_SECONDS} LABELS gpu ENVIRONMENT
                       "LD_PRELOAD=${library};LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/gpu/${name};${options}")
endfunction()
add_watched(memory asan "ASAN_OPTIONS=detect_leaks=0" -fsanitize=address,alignment -fno-sanitize-recover=alignment)
add_watched(races tsan "TSAN_OPTIONS=report_signal_unsafe=0 history_size=3" -fsanitize=thread)

add_custom_target(gpu_images)
add_test(NAME gpu_images COMMAND sh tests/gpu/images.sh ${CMAKE_BINARY_DIR} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(gpu_images PROPERTIES TIMEOUT ${TEST_SECONDS} LABELS gpu)
