#!/bin/sh
# Builds with musl-gcc, and runs the tests of base, io, kernels, parts and attention: musl.sh BUILD. Debian has no libraries for
# musl, so jansson, utf8proc and cmocka are built from Debian's sources and linked statically. oneDNN is C++, for which Debian
# has no library for musl either; products are computed by our own kernels.
set -eu
build=$1
jobs=${JOBS:-$(nproc)}
mkdir -p "$build/musl/lists/partial" "$build/musl/prefix/include"
root=$(cd "$build/musl" && pwd)
prefix=$root/prefix

if [ ! -e "$prefix/done" ]; then
    # The sources of the archives that apt already uses.
    apt-get indextargets 'Created-By: Packages' 'Origin: Debian' --format \
        'deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(SITE) $(RELEASE) $(COMPONENT)' |
        sort -u >"$root/sources.list"
    (
        cd "$root"
        apt() { apt-get -qq -o Dir::Etc::sourcelist="$root/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$root/lists" \
            -o APT::Sandbox::User=root "$@"; }
        apt update
        apt source --download-only jansson utf8proc cmocka
        for archive in ./*.orig.tar.?z; do
            tar xf "$archive"
        done
        for source in jansson-* utf8proc-* cmocka-*; do
            cmake -S "$source" -B "objects-${source%-*}" -DCMAKE_C_COMPILER=musl-gcc -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_BUILD_TYPE=Release \
                -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DJANSSON_BUILD_DOCS=OFF -DJANSSON_EXAMPLES=OFF \
                -DJANSSON_WITHOUT_TESTS=ON -DUTF8PROC_ENABLE_TESTING=OFF -DWITH_EXAMPLES=OFF
            cmake --build "objects-${source%-*}" -j "$jobs"
            cmake --install "objects-${source%-*}"
        done
    ) >"$root/libraries.log" 2>&1 || { tail -n 20 "$root/libraries.log" >&2; exit 1; }
    ln -sfn /usr/include/Random123 "$prefix/include/Random123" # headers only
    touch "$prefix/done"
fi

export PKG_CONFIG_LIBDIR="$prefix/lib/pkgconfig"
options="-DCMAKE_C_COMPILER=musl-gcc -DHASHATTN_ONEDNN=OFF -DHASHATTN_MPI=OFF"
JOBS=$jobs tools/build.sh "$root/hashattn" all $options "-DCMAKE_C_FLAGS=-isystem $prefix/include"
JOBS=$jobs tools/build.sh "$root/hashattn" tests $options "-DCMAKE_C_FLAGS=-isystem $prefix/include"
programs=$(find tests/base tests/io tests/kernels tests/parts tests/attention -name 'test_*.c' | sed 's|.*/||; s/\.c$//' | paste -sd '|')
LEAVE_OUT='' ctest --test-dir "$root/hashattn" -R "^($programs)\$" -j "$jobs" --output-on-failure
