# Shared by the tests of the tool; sourced with the build folder as $1. Each check prints one line in cmocka's form,
# which tools/run_tests.sh counts. Each script works in a temporary directory of its own.
set -u
build=$(cd "$1" && pwd)
tool=$build/hashattn
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d /tmp/hashattn-cli-XXXXXX)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
unset NO_COLOR
export HASHATTN_TEST=1

passed() { echo "[       OK ] $1"; }
failed() { # name, why
    echo "ERROR: $1: $2"
    echo "[  FAILED  ] $1"
    failures=$((failures + 1))
}

# run ARGS...: runs the tool; leaves its exit code in $code and its output in the files out and err.
run() {
    "$tool" "$@" >out 2>err
    code=$?
}

# A background process ignores SIGINT until the tool handles it. Waits for that, half a minute at most.
until_int_is_handled() { # PROCESS
    tries=0
    until grep -q '^SigCgt:.*[2367abef]$' /proc/$1/status 2>/dev/null || [ $tries -ge 600 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
}

# expect NAME CODE PART ARGS...: checks the exit code, and that stderr contains PART.
expect() {
    name=$1 want=$2 part=$3
    shift 3
    run "$@"
    if [ "$code" != "$want" ]; then
        failed "$name" "exit code $code, want $want; stderr: $(head -c 300 err)"
    elif ! grep -qF -- "$part" err; then
        failed "$name" "stderr lacks '$part': $(head -c 300 err)"
    elif [ "$want" != 0 ] && [ -s out ]; then
        failed "$name" "a failure wrote to stdout: $(head -c 100 out)"
    else
        passed "$name"
    fi
}

# says NAME PART ARGS...: checks that the tool succeeds, and that stdout contains PART.
says() {
    name=$1 part=$2
    shift 2
    run "$@"
    if [ "$code" != 0 ]; then
        failed "$name" "exit code $code; stderr: $(head -c 300 err)"
    elif ! grep -qF -- "$part" out; then
        failed "$name" "stdout lacks '$part': $(head -c 300 out)"
    else
        passed "$name"
    fi
}

# holds NAME COMMAND...: checks that the command succeeds.
holds() {
    name=$1
    shift
    if message=$("$@" 2>&1); then passed "$name"; else failed "$name" "$message"; fi
}

# json FILE EXPRESSION: evaluates a python expression of the file's object d and the module math.
json() { python3 -c 'import json, math, sys; d = json.load(open(sys.argv[1])); sys.exit(0 if eval(sys.argv[2]) else "not so: " + sys.argv[2] + " in " + str(d)[:600])' "$1" "$2"; }

# Runs the tool with a file size limit of 0, so that every write fails as on a full disk.
without_room() { (trap '' XFSZ; ulimit -f 0; exec "$tool" "$@") >out 2>err; code=$?; }

finish() { [ "$failures" -eq 0 ]; exit $?; }
