#!/bin/sh
# MPI in the build: with an mpicc that finds no mpi.h, as that of Debian's openmpi-bin alone, the project is configured without
# libhashattn-mpi, MPI=1 installs what is missing, and MPI=0 asks for nothing. A working mpicc is used.
# Planted and caught: find_package(MPI) without the trial of mpicc; packages chosen by the name mpicc alone; `make demo` that
# ignores MPI; a missing mpirun not noticed.
. "$(dirname "$0")/checks.sh"
unset MPI BUILD MAKEFLAGS MPI_HOME

mkdir bare
cat >bare/mpicc <<'C'
#!/bin/sh
# As Open MPI's, without its headers and libraries.
folder=/nowhere/openmpi
case "$*" in
*-showme:compile*) echo "-I$folder/include -I$folder/include/openmpi" ;;
*-showme:link*) echo "-L$folder/lib -lmpi" ;;
*-showme:incdirs*) echo "$folder/include $folder/include/openmpi" ;;
*-showme:libdirs*) echo "$folder/lib" ;;
*-showme:libs*) echo mpi ;;
*-showme:version*) echo 'mpicc: Open MPI 4.1.4 (Language: C)' ;;
*-show*) exit 1 ;;
*) exec cc -nostdinc -I$folder/include "$@" -L$folder/lib -lmpi ;;
esac
C
printf '#!/bin/sh\nexit 0\n' >bare/mpirun
chmod +x bare/mpicc bare/mpirun

configure() { # configure PATH FOLDER OPTION...
    path=$1 folder=$2
    shift 2
    PATH=$path cmake -S "$source_dir" -B "$folder" -DHASHATTN_TESTS=OFF "$@" >out 2>err
}
has_library() { cmake --build "$1" --target help >targets && grep -q 'hashattn-mpi' targets; }

configure "$work/bare:$PATH" auto && ! has_library auto && passed without_headers_no_library || failed without_headers_no_library "$(head -c 600 err)"
configure "$work/bare:$PATH" off -DHASHATTN_MPI=OFF && passed off || failed off "$(head -c 300 err)"
if configure "$work/bare:$PATH" on -DHASHATTN_MPI=ON; then
    failed on_says_what_is_missing "exit code 0"
elif tr -s '\n ' ' ' <err | grep -q "$work/bare/mpicc does not compile a program with mpi.h; on Debian, libopenmpi-dev"; then
    passed on_says_what_is_missing
else
    failed on_says_what_is_missing "$(head -c 300 err)"
fi

# make_says NAME WANTED LINE PATH ARGS...: the command with `LINE` that make would run, with (yes) or without (no) LINE.
make_says() {
    name=$1 wanted=$2 line=$3 path=$4
    shift 4
    (cd "$source_dir" && PATH=$path make -n "$@") >out 2>err || { failed "$name" "$(head -c 300 err)"; return; }
    grep -qF -- "$line" out && found=yes || found=no
    [ $found = "$wanted" ] && passed "$name" || failed "$name" "$(head -c 600 out)"
}
packages='libopenmpi-dev openmpi-bin'
make_says installs_headers yes "setup.sh $packages" "$work/bare:$PATH" MPI=1
make_says installs_headers_for_demo yes "setup.sh $packages" "$work/bare:$PATH" demo MPI=1
make_says offers_headers_to_tests yes "OPTIONAL=\"g++ $packages\"" "$work/bare:$PATH" tests
make_says wants_nothing_by_itself no "$packages" "$work/bare:$PATH" demo
for target in all demo tests; do
    make_says "nothing_for_${target}_without_MPI" no "$packages" "$work/bare:$PATH" $target MPI=0
    make_says "${target}_without_MPI" yes -DHASHATTN_MPI=OFF "$work/bare:$PATH" $target MPI=0
    make_says "${target}_with_MPI" yes -DHASHATTN_MPI=ON "$work/bare:$PATH" $target MPI=1
    make_says "${target}_by_what_is_there" yes -DHASHATTN_MPI=AUTO "$work/bare:$PATH" $target
done

if ! printf '\043include <mpi.h>' | mpicc -fsyntax-only -x c - 2>/dev/null || ! command -v mpirun >/dev/null; then
    echo "SKIPPED: a build with MPI (no mpicc that works, or no mpirun)"
    finish
fi
configure "$PATH" works && has_library works && passed working_mpicc_is_used || failed working_mpicc_is_used "$(head -c 300 err)"
make_says nothing_is_missing no "$packages" "$PATH" MPI=1
# mpicc alone: programs could be built and not be run.
mkdir compiler
ln -s "$(command -v mpicc)" compiler/mpicc
for program in sh dash printf nproc cc gcc as ld make; do
    [ -z "$(command -v $program)" ] || ln -sf "$(command -v $program)" compiler/$program
done
make_says mpirun_is_missing yes "setup.sh $packages" "$work/compiler" MPI=1
finish
