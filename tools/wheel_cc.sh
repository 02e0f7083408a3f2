#!/bin/sh
# The compiler of wheels: GCC compiles, as for everything else, and zig links against its stubs of glibc 2.28, so that a wheel
# runs on systems from 2018 on. WHEEL_ARCH is the architecture, ZIG the program zig, WHEEL_LAUNCHER what starts GCC (ccache).
set -eu
gcc=$WHEEL_ARCH-linux-gnu-gcc
[ "$WHEEL_ARCH" != "$(uname -m)" ] || gcc=gcc
links=no
for argument; do
    case $argument in
    -c | -E | -S) links=no && break ;;
    *.o | *.a) links=yes ;;
    esac
done
[ $links = yes ] || exec $WHEEL_LAUNCHER "$gcc" "$@"
exec "$ZIG" cc -target "$WHEEL_ARCH-linux-gnu.2.28" -Wl,-z,defs "$@"
