#!/bin/sh
# Only base/ calls what an operating system adds to POSIX. Everything else compiles with C11 and POSIX.1-2008 alone, whose
# headers hide the rest, includes no header of one system and opens no path of one. base/ also compiles for a system that is
# not Linux and whose libc is not glibc. comm_mpi.c is left out: its header is that of MPI, which may be missing.
bad=0
# What CMake defines: no rows, and any text.
built="-DKERNELS_ISAS= -DHASHATTN_COMMIT=__FILE__ -DHASHATTN_COMPILER=__FILE__ -DHASHATTN_DATE=__FILE__"
files() { git ls-files -co --exclude-standard "$@"; }
compile() { # compile FLAGS: the files named on standard input
    xargs -P 2 -n 8 sh -c 'flags=$0; for file; do cc $flags -fsyntax-only "$file" 2>&1 | grep -E "error:"; done' \
        "-std=c11 -Isrc -Iinclude -I. $built -Wall -Werror $1"
}
found=$(files 'src/*.c' 'cli/*.c' 'examples/*.c' | grep -vE '^src/(base|kernels/isa_|comm/comm_mpi)' | compile -D_XOPEN_SOURCE=700)
[ -z "$found" ] || { echo "outside base/, beyond POSIX:"; echo "$found" | head -n 20; bad=1; }
found=$(files 'src/base/*.c' | compile "-D_XOPEN_SOURCE=700 -D_DEFAULT_SOURCE -U__linux__")
[ -z "$found" ] || { echo "base/ without Linux:"; echo "$found" | head -n 20; bad=1; }
found=$(files 'src/*.[ch]' 'cli/*.[ch]' 'include/*.h' 'examples/*.[ch]' | grep -v '^src/base/' |
    xargs grep -nE '__(linux|APPLE|GLIBC|gnu_linux)__|<(linux|asm|mach|xlocale|malloc|execinfo)[./]|<sys/(auxv|epoll|eventfd|inotify|prctl|random|sendfile|signalfd|syscall|sysctl|sysinfo|timerfd|vfs|xattr)\.h>|"/(proc|sys)/|CLOCK_[A-Z_]*(RAW|COARSE|BOOTTIME)' /dev/null)
[ -z "$found" ] || { echo "names of one system outside of base/:"; echo "$found" | head -n 20; bad=1; }
exit $bad
