#!/bin/sh
# Checks the files of an unpacked wheel: wheel_contents.sh FOLDER. It has no library of others, its programs need only the C library of
# glibc 2.28, and the licence of everything inside is there.
export LC_ALL=C
bad=0
complain() { echo "$*"; bad=1; }
[ -z "$(find "$1" -name '*.so*' ! -name 'libhashattn*')" ] || complain "libraries of others: $(find "$1" -name '*.so*')"
for file in "$1"/hashattn/lib/* "$1"/hashattn/bin/*; do
    needs=$(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -vE '^(lib(c|m|pthread|dl|rt)\.so\.[0-9]|ld-linux-.*|libhashattn\.so\.0)$')
    [ -z "$needs" ] || complain "$file needs" $needs
    newest=$(readelf -V "$file" | grep -oE 'GLIBC_2\.[0-9]+' | sort -Vu | tail -n 1)
    [ "$(printf '%s\nGLIBC_2.28\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.28 ] || complain "$file needs $newest"
done
for name in LICENSE jansson.txt utf8proc.txt Random123.txt; do
    [ -n "$(find "$1" -path "*dist-info/licenses/*$name")" ] || complain "no licence $name"
done
exit $bad
