#!/bin/sh
# Libraries in the working directory are not loaded: neither by the tool of the build folder nor by libhashattn-mpi. No file of
# the build folder has a search path with an empty or relative entry, and tools/check_rpaths.sh sees every such entry.
# test_install.sh looks at installed files.
# Planted and caught: CMake's padding of the tool's search path; a search path that ends with a colon; entries of an
# RPATH not read; a path that only begins like $ORIGIN taken for it.
. "$(dirname "$0")/checks.sh"

holds build_folder_has_no_such_path sh "$source_dir/tools/check_rpaths.sh" "$build"

# One program per search path. Old linkers' tags are RPATH.
echo 'int main(void) { return 0; }' >main.c
number=0
program_with() { # program_with FLAG PATH: in a folder of its own, $folder
    number=$((number + 1))
    folder=program$number
    mkdir $folder
    cc main.c -o $folder/main "-Wl,$1,-rpath,$2"
}
for path in '$ORIGIN:' ':$ORIGIN' '/usr/lib::/lib' 'lib' './lib' '$ORIGIN:lib' '$ORIGINAL/lib' '/usr/lib:..'; do
    for flag in --enable-new-dtags --disable-new-dtags; do
        program_with $flag "$path"
        message=$(sh "$source_dir/tools/check_rpaths.sh" $folder)
        [ $? = 1 ] && echo "$message" | grep -qF "$folder/main: [$path]" && passed "refuses_$path" || failed "refuses_$path" "$message"
    done
done
for path in '$ORIGIN' '$ORIGIN/../lib:/usr/lib' '${ORIGIN}/lib'; do
    program_with --enable-new-dtags "$path"
    holds "allows_$path" sh "$source_dir/tools/check_rpaths.sh" $folder
done
printf 'int nothing;\n' >nothing.c
mkdir library
cc -shared -fPIC nothing.c -o library/libnothing.so.1 -Wl,-rpath,.
chmod -x library/libnothing.so.1
sh "$source_dir/tools/check_rpaths.sh" library >/dev/null && failed reads_libraries "no finding" || passed reads_libraries
mkdir -p environment/lib/python3/site-packages
mv library environment/lib/python3/site-packages
holds leaves_out_packages_of_others sh "$source_dir/tools/check_rpaths.sh" environment

# Every library that the tool and ours need, as one that leaves a mark. A tool that loads it may also fail before that, because
# functions are missing.
mkdir attack
cat >attack.c <<'C'
#include <stdio.h>
static __attribute__((constructor)) void attack(void) { fclose(fopen("loaded", "w")); }
C
cc -shared -fPIC attack.c -o attack.so
for file in "$tool" "$build"/libhashattn*.so; do
    for name in $(readelf -d "$file" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p'); do
        case $name in
        libhashattn* | libc.so*) ;; # the first is beside the tool; a wrong libc would end the tool before it leaves a mark
        *) cp attack.so "attack/$name" ;;
        esac
    done
done
holds attack_has_libm test -e attack/libm.so.6
cd attack || exit 1
env -u LD_LIBRARY_PATH "$tool" --version >../out 2>../err
code=$?
[ $code = 0 ] && [ ! -s ../err ] && [ ! -e loaded ] && passed tool_loads_nothing_from_here || failed tool_loads_nothing_from_here "exit code $code $(ls loaded 2>/dev/null) $(head -c 300 ../err)"
for library in "$build"/libhashattn*.so; do
    # ldd shows "NAME => PATH", and only "NAME" for a file of the working directory.
    found=$(env -u LD_LIBRARY_PATH ldd "$library" | grep -vE '=> /|=> not found|^[[:space:]]*/|linux-vdso')
    [ -z "$found" ] && passed "${library##*/}_finds_nothing_here" || failed "${library##*/}_finds_nothing_here" "$found"
done
finish
