#!/bin/sh
# BUILD/gpu-env: a Python environment with NVRTC, the compiler of kernels for GPUs, from PyPI. Usage: gpu_env.sh BUILD
set -eu
environment=$1/gpu-env
[ -e "$environment/made" ] && exit 0
python3 -m venv "$environment"
"$environment/bin/pip" install -q 'nvidia-cuda-nvrtc-cu12==12.4.*'
touch "$environment/made"
