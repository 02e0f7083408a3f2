# The two commands are `make demo` and `make test`; everything else is listed by `make help`.
# Both install what is missing with apt when run as root, and say what is missing otherwise (tools/setup.sh).
BUILD ?= build
TYPE ?= Release
JOBS ?= $(shell nproc)

.PHONY: all demo test help clean format check setup

all: setup
	@cmake -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=$(TYPE) > /dev/null
	@cmake --build $(BUILD) -j $(JOBS) -- --no-print-directory

setup:
	@tools/setup.sh

demo: all
	@tools/demo.sh $(BUILD)

test: all
	@tools/check.sh
	@tools/run_tests.sh $(BUILD)

format:
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format -i

clean:
	@rm -rf $(BUILD)

help:
	@echo 'make          build into build/, the tool is build/hashattn'
	@echo 'make demo     train yoso and softmax side by side and print the table (five minutes)'
	@echo 'make test     structure checks and every test (ten minutes)'
	@echo 'make format   lay out the source with clang-format'
	@echo 'make clean    remove build/'
