# What `hashattn --version` says about the build: the commit, if the source is a git repository of its own, and the compiler
# with its flags. Man pages have the date of the commit, otherwise that of the build, or SOURCE_DATE_EPOCH. A new commit runs
# CMake again. Only the tool knows all this, so only the tool is linked again.
set(COMMIT "")
string(TIMESTAMP DATE "%Y-%m-%d" UTC)
find_package(Git QUIET)
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --show-toplevel WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
                  OUTPUT_VARIABLE TOP OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(TOP STREQUAL CMAKE_SOURCE_DIR)
    execute_process(COMMAND ${GIT_EXECUTABLE} describe --always --abbrev=12 --exclude=* --dirty=-modified
                    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
                    OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    execute_process(COMMAND ${GIT_EXECUTABLE} log -1 --format=%cs WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
                    OUTPUT_VARIABLE DATE OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --path-format=absolute --git-path logs/HEAD
                    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
                    OUTPUT_VARIABLE HEADS OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(EXISTS "${HEADS}")
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${HEADS})
    endif()
  endif()
endif()

string(TOUPPER "${CMAKE_BUILD_TYPE}" TYPE)
set(COMPILER "${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}, ${CMAKE_BUILD_TYPE}: ${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${TYPE}}")
if(HASHATTN_SANITIZE)
  string(APPEND COMPILER " -fsanitize=${HASHATTN_SANITIZE}")
endif()
string(REGEX REPLACE " -f[a-z]+-prefix-map=[^ ]*" "" COMPILER "${COMPILER}") # names of folders of the build
string(REGEX REPLACE " +" " " COMPILER "${COMPILER}")
string(STRIP "${COMPILER}" COMPILER)
set_source_files_properties(cli/shared/output/facts_out.c PROPERTIES COMPILE_DEFINITIONS
                            "HASHATTN_COMMIT=\"${COMMIT}\";HASHATTN_COMPILER=\"${COMPILER}\"")
set_source_files_properties(cli/shared/options/page.c PROPERTIES COMPILE_DEFINITIONS "HASHATTN_DATE=\"${DATE}\"")
