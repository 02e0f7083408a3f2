# Start with `make demo` and `make test`; `make help` lists all targets.
# If packages are missing, they are installed with apt when run as root, and listed otherwise (tools/setup.sh).
# `make` builds the library and the tool; `make test` also builds the tests.
BUILD ?= build
TYPE ?= Release
JOBS ?= $(shell nproc)
# MPI=1 builds libhashattn-mpi and installs Open MPI unless mpicc finds mpi.h and there is an mpirun; MPI=0 does not build it.
# Otherwise it is built if mpicc works.
MPI ?=
MPI_BUILD = -DHASHATTN_MPI=$(if $(filter 1,$(MPI)),ON,$(if $(filter 0,$(MPI)),OFF,AUTO))
MPI_PACKAGES = $(if $(shell printf '\043include <mpi.h>' | mpicc -fsyntax-only -x c - 2>/dev/null && command -v mpirun),,libopenmpi-dev openmpi-bin)

# GPU=1 compiles the kernels for NVIDIA GPUs into the library, with NVRTC from PyPI, which needs no GPU (BUILD/gpu-env).
GPU ?=
GPU_BUILD = -DHASHATTN_GPU=$(if $(filter 1,$(GPU)),ON,OFF) $(if $(filter 1,$(GPU)),-DHASHATTN_GPU_PYTHON=$(abspath $(BUILD))/gpu-env/bin/python)

.PHONY: all tests demo test test-aarch64 test-python test-python-asan wheel sdist deb install help clean format check fuzz \
        bench valgrind mutants docs musl

all:
	@tools/setup.sh $(if $(filter 1,$(MPI)),$(MPI_PACKAGES)) $(if $(filter 1,$(GPU)),python3-venv)
	@$(if $(filter 1,$(GPU)),tools/gpu_env.sh $(BUILD))
	@JOBS=$(JOBS) tools/build.sh "$(BUILD)" all -DCMAKE_BUILD_TYPE=$(TYPE) $(MPI_BUILD) $(GPU_BUILD)

tests:
	@OPTIONAL="g++ $(if $(filter 0,$(MPI)),,$(MPI_PACKAGES))" tools/setup.sh libcmocka-dev clang-format gnuplot-nox
	@$(if $(filter 1,$(GPU)),tools/gpu_env.sh $(BUILD))
	@JOBS=$(JOBS) tools/build.sh "$(BUILD)" tests -DCMAKE_BUILD_TYPE=$(TYPE) $(MPI_BUILD) $(GPU_BUILD)

# The tool and what it links: no static library, no tests.
demo:
	@tools/setup.sh $(if $(filter 1,$(MPI)),$(MPI_PACKAGES))
	@JOBS=$(JOBS) tools/build.sh "$(BUILD)" tool -DCMAKE_BUILD_TYPE=$(TYPE) $(MPI_BUILD)
	@python3 tools/demo.py $(BUILD)

test: tests
	@tools/check.sh
	@tools/run_tests.sh $(BUILD)

# The Python package as a wheel for glibc 2.28 and later, which needs neither a compiler nor libraries of the system:
# BUILD/wheel/hashattn-*.whl. ARCH=aarch64 builds that of another architecture with Debian's cross compiler.
ARCH ?= $(shell uname -m)
CROSS_PACKAGES = $(if $(filter-out $(shell uname -m),$(ARCH)),gcc-$(ARCH)-linux-gnu libc6-dev-arm64-cross)
wheel:
	@tools/setup.sh $(CROSS_PACKAGES) $(if $(filter 1,$(GPU)),python3-venv)
	@GPU=$(GPU) tools/wheel.sh $(BUILD) $(ARCH)

# The source distribution of the Python package, BUILD/sdist/hashattn-*.tar.gz, and a wheel that is built from it.
sdist:
	@tools/setup.sh
	@tools/sdist.sh $(BUILD)

# The Debian packages, BUILD/deb/*.deb. Their build runs no tests, because `make test` does.
deb:
	@tools/setup.sh debhelper dh-python dpkg-dev fakeroot lintian
	@DEB_BUILD_OPTIONS="nocheck parallel=$(JOBS)" tools/deb.sh $(BUILD)

# Builds the wheel and tests it in a clean environment of each of PYTHONS, beside the packages of TORCH if any: TORCH=oldest
# and TORCH=newest are the oldest and the newest pair of torch and transformers, TORCH="torch==2.13.0" other packages.
PYTHONS ?= python3
TORCH ?=
test-python: wheel
	@PYTHONS="$(PYTHONS)" TORCH="$(TORCH)" tools/test_wheel.sh $(BUILD)

# The Python tests on a library built with ASan and UBSan, in a Python that has NumPy and pytest: PYTHON=python3.
PYTHON ?= python3
test-python-asan:
	@tools/setup.sh
	@JOBS=$(JOBS) tools/python_asan.sh $(PYTHON)

# The slow checks: ASan+UBSan, TSan, and every instruction set of this machine. `make test` leaves a Python with NumPy and
# pytest in BUILD/python-env, if the system has none.
check: test
	@tools/sanitize.sh isa
	@tools/sanitize.sh address,undefined
	@python=python3; python3 -c 'import numpy, pytest' 2>/dev/null || python=$(BUILD)/python-env/bin/python; \
		JOBS=$(JOBS) tools/python_asan.sh $$python
	@tools/sanitize.sh thread

# Cross-builds for AArch64 and runs the tests of some floors under qemu-user.
test-aarch64:
	@JOBS=$(JOBS) tools/test_aarch64.sh

PREFIX ?= /usr/local
install: all
	@umask 022; DESTDIR="$(DESTDIR)" cmake --install "$(BUILD)" --prefix "$(PREFIX)" > /dev/null
	@echo "installed in $(DESTDIR)$(PREFIX)"

SECONDS ?= 60
fuzz:
	@tools/fuzz.sh $(SECONDS)

# Runs the tests under valgrind, limited to AVX2, because valgrind does not support AVX-512.
valgrind: tests
	@tools/valgrind.sh $(BUILD)

# Changes the source in NUMBER places, one at a time, and lists the changes that no test detects (docs/TESTING.md). With
# SANITIZE=address,undefined leaks and overruns count too.
SEED ?= 1
NUMBER ?= 200
FOLDERS ?=
SANITIZE ?=
mutants:
	@tools/setup.sh libcmocka-dev
	@tools/mutants.py --seed $(SEED) --number $(NUMBER) --sanitize "$(SANITIZE)" $(FOLDERS)

# Builds with the C library musl, without oneDNN, in BUILD/musl, and runs the tests that need no tool.
musl:
	@tools/setup.sh musl-tools cmake librandom123-dev
	@JOBS=$(JOBS) tools/musl.sh $(BUILD)

# Compares with PyTorch, transformers and ONNX Runtime, installed into BUILD/peers-env, and writes docs/results/tables.jsonl.
bench: all
	@[ -e $(BUILD)/peers-env ] || bench/peers.py $(BUILD) --setup
	@bench/peers.py $(BUILD) --docs

# The API reference as HTML, from the public headers: BUILD/docs/html/index.html.
docs:
	@tools/setup.sh doxygen
	@mkdir -p $(BUILD)/docs
	@DOCS=$(BUILD)/docs doxygen Doxyfile
	@echo "$(BUILD)/docs/html/index.html"

format:
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format -i

clean:
	@rm -rf $(BUILD)

help:
	@echo 'make          build the library and the tool, build/hashattn; MPI=1: and libhashattn-mpi, for ranks under mpirun;'
	@echo '              GPU=1: with kernels for NVIDIA GPUs, compiled without one'
	@echo 'make demo     build, then measure and train yoso beside softmax (two to four minutes)'
	@echo 'make test     run the structure checks and all tests (ten minutes)'
	@echo 'make wheel    build the Python package, build/wheel/hashattn-*.whl, with everything it needs inside; ARCH=aarch64'
	@echo 'make sdist    build its source distribution, build/sdist/hashattn-*.tar.gz, and try it'
	@echo 'make deb      build the Debian packages, build/deb/*.deb'
	@echo 'make test-python  build the wheel and test it in a clean environment of each of PYTHONS=python3'
	@echo 'make test-python-asan  run the Python tests on a library built with ASan and UBSan, in PYTHON=python3'
	@echo 'make test-aarch64  cross-build for AArch64 and run tests of the lower floors under qemu-user'
	@echo 'make install  install library, headers, tool, pkg-config and CMake files into PREFIX=/usr/local (under DESTDIR)'
	@echo 'make docs     make the API reference from the headers, build/docs/html/index.html'
	@echo 'make check    run make test, then ASan+UBSan, TSan and every instruction set (half an hour)'
	@echo 'make musl     build with musl and run the tests of base, io, kernels, parts and attention'
	@echo 'make fuzz     run each fuzz target for SECONDS=60 under libFuzzer, ASan and UBSan (needs clang)'
	@echo 'make valgrind run the quick tests under memcheck, with the AVX2 kernels'
	@echo 'make mutants  change the source in NUMBER=200 random places (SEED=1, FOLDERS=) and check that a test fails (an hour)'
	@echo 'make bench    compare times and errors with PyTorch and others, installed into build/ (15 minutes)'
	@echo 'make format   format the source with clang-format'
	@echo 'make clean    remove build/'
