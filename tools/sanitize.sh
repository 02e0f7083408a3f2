#!/bin/sh
# Builds with the given sanitizers and runs all tests; with isa: runs all tests of the plain build on each instruction set.
# Usage: tools/sanitize.sh address,undefined | thread | isa
set -eu
kind=$1
case $kind in
isa)
    for isa in $(build/hashattn info --json | grep -oE '"name": "[^"]*", "runs"' | cut -d '"' -f 4); do
        build/hashattn info --isa "$isa" --json >/dev/null 2>&1 || { echo "SKIPPED: $isa does not run here"; continue; }
        printf '%s: ' "$isa"
        # With the plain loops of ref, training would take half an hour.
        [ "$isa" = ref ] && slow='^(test_learning|test_info)$' || slow='^$'
        LEAVE_OUT=$slow HASHATTN_ISA=$isa tools/run_tests.sh build
    done
    ;;
*)
    build=build-$(echo "$kind" | tr ',' '-')
    tools/build.sh "$build" tests -DCMAKE_BUILD_TYPE=Release -DHASHATTN_SANITIZE="$kind"
    printf '%s: ' "$kind"
    # oneDNN is not instrumented, so the sanitizer does not see its locks.
    echo 'called_from_lib:libdnnl.so' >"$build/suppressed"
    # glibc's newlocale does not free the path that it makes if LOCPATH is set, as test_c_locale does.
    echo 'leak:__argz_add_sep' >"$build/leaks"
    # A sanitizer intercepts dlopen, which then does not know the search path of the tool: for libhashattn-mpi.
    LD_LIBRARY_PATH=$PWD/$build \
        ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 LSAN_OPTIONS=suppressions=$PWD/$build/leaks:print_suppressions=0 \
        UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
        TSAN_OPTIONS=halt_on_error=1:suppressions=$PWD/$build/suppressed HASHATTN_SANITIZED=$kind tools/run_tests.sh "$build"
    ;;
esac
