#!/bin/sh
# Configures and builds: build.sh BUILD TARGET [CMAKE_OPTION...]. JOBS compilers run in parallel (default: all processors).
# Progress is one redrawn line on a terminal, otherwise a line per quarter. Messages of compilers are passed on.
set -eu
build=$1 target=$2
shift 2
begun=$(date +%s)
[ -t 1 ] && [ "${TERM:-dumb}" != dumb ] && redraw=yes || redraw=''
cmake -S . -B "$build" "$@" >/dev/null

show() {
    compiled=0 quarter=0 code=0
    while IFS= read -r line; do
        case $line in
        '['*'%] Built target'*) ;;
        '['*'%]'*)
            compiled=$((compiled + 1))
            percent=${line%%\%*}
            percent=${percent##*[ [-]}
            file=${line##* }
            file=${file#CMakeFiles/*.dir/}
            if [ -n "$redraw" ]; then
                printf '\r\033[K%s: %3d %%  %.50s' "$build" "$percent" "${file%.o}"
            elif [ $((percent / 25)) -gt $quarter ]; then
                quarter=$((percent / 25))
                echo "$build: $((quarter * 25)) %"
            fi
            ;;
        *'ing directory '*|*'jobserver'*|'Consolidate compiler'*|'Scanning dep'*) ;;
        'exit code '*) code=${line#exit code } ;;
        *) echo "${redraw:+$(printf '\r\033[K')}$line" >&2 ;;
        esac
    done
    [ -z "$redraw" ] || printf '\r\033[K'
    [ "$code" = 0 ] || { echo "$build: $target is not built" >&2; exit 1; }
    [ $compiled = 0 ] || echo "$build: $target built in $(($(date +%s) - begun)) s"
}
{
    cmake --build "$build" --target "$target" -j "${JOBS:-$(nproc)}" 2>&1 || echo "exit code $?"
} | show
