#!/usr/bin/env python3
"""Compiles the kernels of src/gpu/kernels for sm_80 and sm_90, and to PTX for later GPUs, and writes them as a C file in
place of src/gpu/images_none.c. Needs no GPU. The compiler is NVRTC: the library libnvrtc of the Python that runs this (from
PyPI, nvidia-cuda-nvrtc-cu12), of --nvrtc FOLDER, or of a CUDA toolkit. Usage: gpu_images.py OUT.c [--nvrtc FOLDER]
[--resources FILE]; FILE gets the registers of each kernel, and the bytes of local memory and of spills of its threads."""
import argparse
import ctypes as C
import glob
import os
import re
import sys

KERNELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src", "gpu", "kernels")
IMAGES = (("sm_80", 8), ("sm_90", 9), ("compute_80", 0))  # major version of the GPUs; 0: PTX


def find_nvrtc(folder):
    places = [folder] if folder else []
    places += [os.path.join(path, "nvidia", "cuda_nvrtc", "lib") for path in sys.path]
    places += ["/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu"]
    for place in places:
        found = [f for f in glob.glob(os.path.join(place, "libnvrtc.so*")) if "alt" not in f]
        if found:
            return C.CDLL(sorted(found)[-1], mode=C.RTLD_GLOBAL)
    sys.exit("gpu_images: no libnvrtc; pip install nvidia-cuda-nvrtc-cu12, or name its folder with --nvrtc")


def compile_for(nvrtc, architecture):
    source = open(os.path.join(KERNELS, "yoso.cu"), "rb").read()
    program = C.c_void_p()
    nvrtc.nvrtcCreateProgram(C.byref(program), source, b"yoso.cu", 0, None, None)
    options = [b"--std=c++17", b"-I" + KERNELS.encode(), b"--gpu-architecture=" + architecture.encode(),
               b"--ptxas-options=-v"]
    failed = nvrtc.nvrtcCompileProgram(program, len(options), (C.c_char_p * len(options))(*options))
    size = C.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, C.byref(size))
    log = C.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    log = log.value.decode(errors="replace")
    if failed:
        sys.exit("gpu_images: " + log[:4000])
    of_size, get = (nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX) if architecture.startswith("compute") else (
        nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
    of_size(program, C.byref(size))
    image = C.create_string_buffer(size.value)
    get(program, image)
    nvrtc.nvrtcDestroyProgram(C.byref(program))
    return image.raw, log


def resources(log):
    """Lines "kernel registers N local BYTES spilled BYTES", from what ptxas says."""
    for kernel, local, spilled, registers in re.findall(
            r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores.*?Used (\d+) registers",
            log, re.S):
        yield "%s registers %s local %s spilled %s" % (kernel, registers, local, spilled)


def write_c(out, images, made_by):
    with open(out, "w") as f:
        f.write("/* Made by tools/gpu_images.py with %s.\n   SPDX-License-Identifier: Apache-2.0 */\n" % made_by)
        f.write('#include "gpu/images.h"\n\n')
        for (name, _), (image, _) in images:
            f.write("static const unsigned char %s[] __attribute__((aligned(64))) = {" % name)
            for at in range(0, len(image), 24):
                f.write("\n    " + "".join("%d," % byte for byte in image[at:at + 24]))
            f.write("\n};\n")
        f.write("\nconst struct gpu_image gpu_images[] = {\n")
        for (name, major), _ in images:
            f.write('    {"%s", %d, %s},\n' % (name, major, name))
        f.write("    {0, 0, 0},\n};\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--nvrtc")
    parser.add_argument("--resources")
    arguments = parser.parse_args()
    nvrtc = find_nvrtc(arguments.nvrtc)
    major, minor = C.c_int(), C.c_int()
    nvrtc.nvrtcVersion(C.byref(major), C.byref(minor))
    images = [(row, compile_for(nvrtc, row[0])) for row in IMAGES]
    write_c(arguments.out, images, "NVRTC %d.%d" % (major.value, minor.value))
    if arguments.resources:
        with open(arguments.resources, "w") as f:
            for (name, _), (_, log) in images:
                for line in resources(log):
                    f.write("%s %s\n" % (name, line))


main()
