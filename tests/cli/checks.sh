# What the tests of the tool share: sourced with the build folder as $1. A check prints one line as cmocka does,
# so that tools/run_tests.sh counts it. Every script works in a directory of its own, which goes away.
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

# run ARGS...: the tool's answer in $code and the files out and err.
run() {
    "$tool" "$@" >out 2>err
    code=$?
}

# expect NAME CODE PART ARGS...: this exit code, and PART in what was said on stderr.
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

# says NAME PART ARGS...: success, and PART on stdout.
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

# holds NAME COMMAND...: the command succeeds.
holds() {
    name=$1
    shift
    if message=$("$@" 2>&1); then passed "$name"; else failed "$name" "$message"; fi
}

# json FILE EXPRESSION: python's view of an object d and the module math.
json() { python3 -c 'import json, math, sys; d = json.load(open(sys.argv[1])); sys.exit(0 if eval(sys.argv[2]) else "not so: " + sys.argv[2] + " in " + str(d)[:600])' "$1" "$2"; }

# A file of 0 bytes is all that may be written: every write fails as on a full disk.
without_room() { (trap '' XFSZ; ulimit -f 0; exec "$tool" "$@") >out 2>err; code=$?; }

finish() { [ "$failures" -eq 0 ]; exit $?; }
