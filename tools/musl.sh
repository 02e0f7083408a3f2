#!/bin/sh
# Builds with musl-gcc, and runs the tests of base, io, kernels, parts and attention: musl.sh BUILD. Debian has no libraries for
# musl, so jansson, utf8proc and cmocka are built from Debian's sources and linked statically. oneDNN is C++, for which Debian
# has no library for musl either; products are computed by our own kernels.
set -eu
build=$1
jobs=${JOBS:-$(nproc)}
tools/static_libraries.sh "$build/musl" musl-gcc jansson utf8proc cmocka
root=$(cd "$build/musl" && pwd)
prefix=$root/prefix

export PKG_CONFIG_LIBDIR="$prefix/lib/pkgconfig"
options="-DCMAKE_C_COMPILER=musl-gcc -DHASHATTN_ONEDNN=OFF -DHASHATTN_MPI=OFF"
JOBS=$jobs tools/build.sh "$root/hashattn" all $options "-DCMAKE_C_FLAGS=-isystem $prefix/include"
JOBS=$jobs tools/build.sh "$root/hashattn" tests $options "-DCMAKE_C_FLAGS=-isystem $prefix/include"
programs=$(find tests/base tests/io tests/kernels tests/parts tests/attention -name 'test_*.c' | sed 's|.*/||; s/\.c$//' | paste -sd '|')
LEAVE_OUT='' ctest --test-dir "$root/hashattn" -R "^($programs)\$" -j "$jobs" --output-on-failure
