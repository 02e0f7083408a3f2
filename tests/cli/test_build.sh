#!/bin/sh
# tools/build.sh on a project of nine files: a few lines on a pipe, one line on a terminal; messages of the compiler and
# the exit code are passed on.
# Planted and caught: the exit code of the pipe's last command returned as that of the build; a line per object file;
# messages treated as progress.
. "$(dirname "$0")/checks.sh"

build_sh="$source_dir/tools/build.sh"
unset CMAKE_GENERATOR
cat >CMakeLists.txt <<'C'
cmake_minimum_required(VERSION 3.22)
project(nine LANGUAGES C)
add_executable(nine main.c one.c two.c three.c four.c five.c six.c seven.c eight.c)
C
echo 'int main(void) { return 0; }' >main.c
for name in one two three four five six seven eight; do echo "int $name;" >$name.c; done

sh "$build_sh" folder all >out 2>err && [ -x folder/nine ] && passed builds || failed builds "$(cat out err)"
[ "$(wc -l <out)" -le 5 ] && ! grep -q '\.o' out && [ ! -s err ] && grep -q '^folder: all built in [0-9]* s$' out &&
    passed few_lines || failed few_lines "$(cat out err)"
sh "$build_sh" folder all >out 2>err && [ ! -s out ] && passed nothing_to_do_is_silent || failed nothing_to_do_is_silent "$(cat out)"

if command -v script >/dev/null; then
    touch two.c
    TERM=xterm script -qec "sh $build_sh folder all" /dev/null >out </dev/null
    [ "$(wc -l <out)" = 1 ] && grep -q 'two.c' out && passed one_line_on_a_terminal || failed one_line_on_a_terminal "$(cat out)"
else
    echo "SKIPPED: a build on a terminal (script is not installed)"
fi

echo '#warning "look here"' >>two.c
sh "$build_sh" folder all >out 2>err && grep -q 'look here' err && passed warnings_are_shown || failed warnings_are_shown "$(cat out err)"
echo 'int wrong = ;' >>two.c
sh "$build_sh" folder all >out 2>err && failed failure "exit code 0" ||
    { grep -q 'two.c:3:13: error' err && grep -q '^folder: all is not built$' err && passed failure || failed failure "$(cat out err)"; }
echo 'nonsense(' >CMakeLists.txt
sh "$build_sh" folder all >out 2>err && failed bad_project "exit code 0" ||
    { grep -q 'CMakeLists.txt:1' err && passed bad_project || failed bad_project "$(cat out err)"; }
finish
