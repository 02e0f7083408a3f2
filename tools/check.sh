#!/bin/sh
# Runs every structure check, tools/check_*.sh, and names those that fail. Run by `make test`.
set -u
cd "$(dirname "$0")/.." || exit 1
failed=0
for check in tools/check_*.sh; do
    [ -e "$check" ] || continue
    sh "$check" || { echo "failed: $check" >&2; failed=1; }
done
exit $failed
