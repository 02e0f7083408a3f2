#!/bin/sh
# Cross-builds for AArch64 into build-aarch64, without oneDNN, and runs the tests of FLOORS under qemu-user. test_exact_bits
# compares the results of EXACT slots with constants, which x86 gives too.
set -eu
build=build-aarch64
packages="make cmake pkg-config gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user librandom123-dev
    libjansson-dev:arm64 libutf8proc-dev:arm64 libcmocka-dev:arm64"
missing=""
for package in $packages; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || missing="$missing $package"
done
if [ -n "$missing" ]; then
    echo "missing packages:$missing" >&2
    echo "install them with: sudo dpkg --add-architecture arm64 && sudo apt-get update && sudo apt-get install$missing" >&2
    exit 1
fi
tools/build.sh $build tests -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake -DHASHATTN_ONEDNN=OFF
# The emulator ignores requests for huge pages, which test_host looks for, and limits of threads, which test_pool sets.
LEAVE_OUT='^test_(host|pool)$' FLOORS=${FLOORS:-base|io|kernels|parts|attention|nn} tools/run_tests.sh $build
