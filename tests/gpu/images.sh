#!/bin/sh
# The images of the kernels, where a compiler is there (BUILD/gpu-env from `make GPU=1`, or a python3 that has NVRTC): they compile
# for sm_80 and sm_90 and to PTX, no kernel spills more than 4 registers or has arrays in local memory, and the C file made of them
# compiles. Leaves the registers of each kernel in BUILD/gpu/resources.txt. Found so: a unit's rows indexed by side, 96 bytes a thread.
set -eu
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
python=$build/gpu-env/bin/python
[ -x "$python" ] || python=python3
"$python" -c 'import importlib.util as i, sys; sys.exit(i.find_spec("nvidia.cuda_nvrtc") is None)' 2>/dev/null ||
    { echo "SKIPPED: images (no NVRTC; make GPU=1 installs it)"; exit 0; }
mkdir -p "$build/gpu"
"$python" tools/gpu_images.py "$build/gpu/tested_images.c" --resources "$build/gpu/resources.txt"
gcc -std=c11 -Isrc -c "$build/gpu/tested_images.c" -o "$build/gpu/tested_images.o"
bad=0
wanted=$(sed -n 's/^ *X([A-Z0-9_]*, \([a-z0-9_]*\)).*/\1/p' src/gpu/kernels/kernel_names.h)
for architecture in sm_80 sm_90; do
    for name in $wanted; do
        grep -qE "^$architecture yoso_${name}(_32|_64|_128)? " "$build/gpu/resources.txt" ||
            { echo "$architecture has no kernel $name"; bad=1; }
    done
done
awk '$6 > 16 || $8 > 16 { print; bad = 1 } END { exit bad }' "$build/gpu/resources.txt" || { echo "kernels use local memory"; bad=1; }
sort -t ' ' -k 4 -n -r "$build/gpu/resources.txt" | head -n 6
rm "$build/gpu/tested_images.c" "$build/gpu/tested_images.o"
exit $bad
