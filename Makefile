# The two commands are `make demo` and `make test`; everything else is listed by `make help`.
# Both install what is missing with apt when run as root, and say what is missing otherwise (tools/setup.sh).
# `make` builds the library and the tool; `make test` builds the tests too.
BUILD ?= build
TYPE ?= Release
JOBS ?= $(shell nproc)

.PHONY: all tests demo test install help clean format check fuzz bench valgrind mutants

all:
	@tools/setup.sh
	@JOBS=$(JOBS) tools/build.sh $(BUILD) all -DCMAKE_BUILD_TYPE=$(TYPE)

tests:
	@tools/setup.sh libcmocka-dev clang-format gnuplot-nox
	@JOBS=$(JOBS) tools/build.sh $(BUILD) tests -DCMAKE_BUILD_TYPE=$(TYPE)

# The tool and what it links: no static library, no tests.
demo:
	@tools/setup.sh
	@JOBS=$(JOBS) tools/build.sh $(BUILD) tool -DCMAKE_BUILD_TYPE=$(TYPE)
	@python3 tools/demo.py $(BUILD)

test: tests
	@tools/check.sh
	@tools/run_tests.sh $(BUILD)

# Everything that is slow: both pairs of sanitizers, and every instruction set that runs here.
check: test
	@tools/sanitize.sh isa
	@tools/sanitize.sh address,undefined
	@tools/sanitize.sh thread

PREFIX ?= /usr/local
install: all
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD) --prefix $(PREFIX) > /dev/null
	@echo "installed in $(DESTDIR)$(PREFIX)"

SECONDS ?= 60
fuzz:
	@tools/fuzz.sh $(SECONDS)

# What the tests allocate and read, under valgrind with the AVX2 cap (it knows no AVX-512).
valgrind: tests
	@tools/valgrind.sh $(BUILD)

# Changes the source in NUMBER places, one at a time, and lists what no test notices (docs/TESTING.md).
SEED ?= 1
NUMBER ?= 200
FOLDERS ?=
mutants:
	@tools/setup.sh libcmocka-dev
	@tools/mutants.py --seed $(SEED) --number $(NUMBER) $(FOLDERS)

# Side by side with PyTorch, transformers and ONNX Runtime, which go into BUILD/peers-env; fills docs/PERFORMANCE.md.
bench: all
	@[ -e $(BUILD)/peers-env ] || bench/peers.py $(BUILD) --setup
	@bench/peers.py $(BUILD) --docs

format:
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format -i

clean:
	@rm -rf $(BUILD)

help:
	@echo 'make          build the library and the tool, build/hashattn'
	@echo 'make demo     build, then measure and train yoso beside softmax (two to four minutes)'
	@echo 'make test     structure checks and every test (ten minutes)'
	@echo 'make install  library, headers, tool, pkg-config and CMake files into PREFIX=/usr/local (and DESTDIR)'
	@echo 'make check    make test, then ASan+UBSan, TSan and every instruction set (half an hour)'
	@echo 'make fuzz     run every fuzz target for SECONDS=60 under libFuzzer, ASan and UBSan (needs clang)'
	@echo 'make valgrind every quick test under memcheck, with the AVX2 kernels'
	@echo 'make mutants  change the source in NUMBER=200 places drawn by SEED=1 in FOLDERS= and see whether a test fails (an hour)'
	@echo 'make bench    times and errors beside PyTorch and others, which it installs into build/ (quarter of an hour)'
	@echo 'make format   lay out the source with clang-format'
	@echo 'make clean    remove build/'
