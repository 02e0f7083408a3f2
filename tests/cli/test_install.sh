#!/bin/sh
# Installation: for all users, into a prefix that is then moved, used through pkg-config (shared and static), through CMake and from C++;
# the examples run; the library exports only hashattn_*; no search path has an empty or relative entry.
# Planted and caught: an absolute prefix in hashattn.pc; the version script left out; a header that is not
# installed; internal names of the static library that clash with those of a program; a
# relative entry in the search path of the installed tool; folders that a umask of 077 closes to other users;
# a DESTDIR with a blank.
. "$(dirname "$0")/checks.sh"

(umask 077; make -C "$source_dir" -o all install BUILD="$build" DESTDIR="$work/a stage" PREFIX=/usr/local >log 2>&1) || { failed install "$(tail -n 3 log)"; finish; }
passed install
holds others_can_read_what_is_installed sh -c '[ -z "$(find "a stage" -type d ! -perm -055 -o -type f ! -perm -044)" ]'
mv "a stage/usr/local" moved
prefix=$work/moved
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name hashattn.pc)")
LD_LIBRARY_PATH=$(dirname "$(find "$prefix" -name libhashattn.so)")
export PKG_CONFIG_PATH LD_LIBRARY_PATH
env -u LD_LIBRARY_PATH "$prefix/bin/hashattn" --version >out 2>err && passed moved_tool_finds_its_library || failed moved_tool_finds_its_library "$(cat err)"
cmake --install "$build" --component python --prefix "$work/package" >log 2>&1
holds search_paths sh "$source_dir/tools/check_rpaths.sh" moved package
holds tool_of_the_python_package env -u LD_LIBRARY_PATH package/bin/hashattn --version
holds man_pages_are_installed test -s "$prefix/share/man/man1/hashattn.1" -a -s "$prefix/share/man/man1/hashattn-bench-peak.1"
for file in bash-completion/completions/hashattn zsh/site-functions/_hashattn fish/vendor_completions.d/hashattn.fish; do
    holds "installs_${file%%/*}" test -s "$prefix/share/$file"
done
[ "$(pkg-config --modversion hashattn)" = 0.1.0 ] && passed version_of_pkg_config || failed version_of_pkg_config "$(pkg-config --modversion hashattn 2>&1)"
holds soname_is_that_of_the_abi sh -c 'objdump -p "$0"/libhashattn.so | grep -q "SONAME *libhashattn.so.0$"' "$LD_LIBRARY_PATH"

holds symbols_have_a_version sh -c 'nm -D "$0"/libhashattn.so | grep -q "hashattn_context_new@@HASHATTN_0"' "$LD_LIBRARY_PATH"

flags=$(pkg-config --cflags --libs hashattn)
case $("$tool" --version >/dev/null 2>&1; nm -D "$LD_LIBRARY_PATH/libhashattn.so" | grep -E '__(asan|tsan)_init') in
*_init) echo "SKIPPED: programs against an installed library that is sanitized"; finish ;;
esac
for example in 01_attention 02_train_needle 03_predict_text 04_stream 05_density; do
    # shellcheck disable=SC2086
    holds "compiles_$example" cc -std=c11 -Wall -Wextra -Wpedantic -Werror -D_ISOC11_SOURCE "$source_dir/examples/$example.c" $flags -o "$example"
done
./01_attention >out 2>err && grep -q "an n x n matrix would be 16384.0 KiB" out && passed runs_01_attention || failed runs_01_attention "$(cat out err)"
./02_train_needle data run >out 2>err && grep -q "^test: accuracy 0.9\|^test: accuracy 1.0" out && passed runs_02_train_needle || failed runs_02_train_needle "$(tail -n 3 out err)"
./04_stream >out 2>err && grep -q "^100000 rows: .* held in [1-9][0-9.]* MiB" out && grep -q "^100 tokens, one at a time" out && passed runs_04_stream || failed runs_04_stream "$(cat out err)"
./05_density >out 2>err && grep -q "^row 777 has the lowest" out && passed runs_05_density || failed runs_05_density "$(cat out err)"
mkdir mail
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do printf 'spam\tbuy now %s\nham\tsee you at noon %s\n' $i $i; done >mail/train.tsv
"$prefix/bin/hashattn" train text --data mail --steps 20 --eval-every 10 --layers 1 --out filter --quiet 2>err
printf '{"text": "see you at noon 77"}\n{"text": "buy now"}\n' >new.jsonl
./03_predict_text filter new.jsonl >out 2>err && [ "$(cut -f 1 out | tr '\n' ' ')" = "1 2 " ] && passed runs_03_predict_text || failed runs_03_predict_text "$(cat out err)"
./03_predict_text nowhere new.jsonl >out 2>err
[ $? = 3 ] && grep -q "nowhere/config.json" err && passed failure_of_an_example || failed failure_of_an_example "$(cat err)"

# A program with names of internal functions, linked with the static library.
cat >own.c <<'P'
#include <hashattn/hashattn.h>
void product(void);
void product(void) {}
int evaluate;
int main(void) { product(); return evaluate + (int)hashattn_mechanism_count() == 0; }
P
static=$(pkg-config --static --libs hashattn | sed 's/-lhashattn/-l:libhashattn.a/')
# shellcheck disable=SC2086
holds static_library cc own.c $(pkg-config --cflags hashattn) $static -o own
holds static_program_runs env -u LD_LIBRARY_PATH ./own
if command -v c++ >/dev/null; then
    printf '#include <hashattn/hashattn.h>\nint main() { hashattn_context *c = nullptr; auto s = hashattn_context_new(nullptr, nullptr, 0, &c); hashattn_context_free(c); return s; }\n' >plus.cc
    # shellcheck disable=SC2086
    holds cplusplus c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror plus.cc $flags -o plus
    holds cplusplus_runs ./plus
else
    echo "SKIPPED: C++ (no compiler)"
fi
mkdir consumer
cat >consumer/CMakeLists.txt <<'P'
cmake_minimum_required(VERSION 3.22)
project(consumer C)
find_package(hashattn 0.1 CONFIG REQUIRED)
add_executable(consumer consumer.c)
target_link_libraries(consumer PRIVATE hashattn::hashattn)
P
cp own.c consumer/consumer.c
holds cmake_package sh -c "cmake -S consumer -B consumer/build -DCMAKE_PREFIX_PATH='$prefix' && cmake --build consumer/build"
holds cmake_consumer_runs consumer/build/consumer
finish
