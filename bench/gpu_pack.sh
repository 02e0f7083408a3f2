#!/bin/sh
# What bench/gpu.sh needs on a bare machine, in FOLDER: the tool, the library, the tests of GPUs and the libraries of the system
# that they use, without symbols. A build without oneDNN keeps it small:
#     tools/gpu_env.sh build
#     tools/build.sh build-gpu tests -DCMAKE_BUILD_TYPE=Release -DHASHATTN_ONEDNN=OFF -DHASHATTN_GPU=ON \
#         -DHASHATTN_GPU_PYTHON=$PWD/build/gpu-env/bin/python
#     bench/gpu_pack.sh build-gpu gpu-pack
# and on the machine, which gets the repository and FOLDER: bench/gpu.sh gpu-pack OUT.jsonl
# Usage: gpu_pack.sh BUILD FOLDER
set -eu
build=$1 folder=$2
mkdir -p "$folder/tests" "$folder/libs"
cp -P "$build"/libhashattn.so* "$folder/"
cp "$build/hashattn" "$folder/"
for test in small forward gradients codes same_bits late unbiased; do
    if [ -e "$build/tests/test_gpu_$test" ]; then cp "$build/tests/test_gpu_$test" "$folder/tests/"; fi
done
for file in "$folder"/libhashattn.so.*.* "$folder"/hashattn "$folder"/tests/*; do strip "$file"; done
for file in "$folder"/libhashattn.so.*.* "$folder"/tests/*; do ldd "$file"; done | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u |
    grep -vE '/(libc|libm|libdl|libpthread|librt|libhashattn)\.so' | while read -r library; do cp -L "$library" "$folder/libs/"; done
echo "$folder: $(du -sk "$folder" | cut -f 1) KiB, $(ls "$folder/tests" | wc -l) tests, $(ls "$folder/libs" | tr '\n' ' ')"
