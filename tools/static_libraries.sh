#!/bin/sh
# Builds static libraries from Debian's sources with another compiler, in DIRECTORY/prefix with their pkg-config files:
# static_libraries.sh DIRECTORY COMPILER SOURCE... They are kept for the next time. CMAKE_OPTIONS are passed on.
set -eu
mkdir -p "$1/lists/partial" "$1/prefix/include"
root=$(cd "$1" && pwd) compiler=$2
shift 2
[ ! -e "$root/prefix/done" ] || exit 0
# The sources of the archives that apt already uses.
apt-get indextargets 'Created-By: Packages' 'Origin: Debian' --format \
    'deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(SITE) $(RELEASE) $(COMPONENT)' |
    sort -u >"$root/sources.list"
(
    cd "$root"
    apt() { apt-get -qq -o Dir::Etc::sourcelist="$root/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$root/lists" \
        -o APT::Sandbox::User=root "$@"; }
    apt update
    apt source --download-only "$@"
    for archive in ./*.orig.tar.?z; do
        tar xf "$archive"
    done
    for name; do
        source=$(echo "$name"-*/)
        cmake -S "$source" -B "objects-$name" -DCMAKE_C_COMPILER="$compiler" -DCMAKE_INSTALL_PREFIX="$root/prefix" \
            -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DJANSSON_BUILD_DOCS=OFF \
            -DJANSSON_EXAMPLES=OFF -DJANSSON_WITHOUT_TESTS=ON -DUTF8PROC_ENABLE_TESTING=OFF -DWITH_EXAMPLES=OFF ${CMAKE_OPTIONS:-}
        cmake --build "objects-$name" -j "${JOBS:-$(nproc)}"
        cmake --install "objects-$name"
    done
) >"$root/libraries.log" 2>&1 || { tail -n 20 "$root/libraries.log" >&2; exit 1; }
ln -sfn /usr/include/Random123 "$root/prefix/include/Random123" # headers only
touch "$root/prefix/done"
