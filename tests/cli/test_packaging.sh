#!/bin/sh
# The page and the metadata of the Python package, and the check of wheels (tools/wheel_contents.sh) on folders that look like one.
# Planted and caught: cli/bench left out of the source with bench. Wrong wheels and pages are made by the script itself.
. "$(dirname "$0")/checks.sh"

page=$source_dir/$(sed -n 's/^readme = "\(.*\)"$/\1/p' "$source_dir/pyproject.toml")
has_extras() {
    for extra in torch transformers; do
        grep -q "^$extra = \[" "$source_dir/pyproject.toml" && grep -qF "hashattn[$extra]" "$page" || return 1
    done
}
holds page_begins_with_pip_install sh -c "sed -n 2p '$page' | grep -q '^pip install hashattn'"
holds page_has_no_link_into_the_repository sh -c "! grep -nE '\]\([^h#]' '$page'"
holds extras_are_on_the_page has_extras
# A pattern without a slash in front leaves out cli/bench too.
holds left_out_of_the_source_are_folders_of_the_top sh -c "! grep '^sdist.exclude' '$source_dir/pyproject.toml' | grep -E '[\[ ]\"[^/]'"

# A wheel by its files: a library and a program that need no other library, and the licences.
mkdir -p wheel/hashattn/lib wheel/hashattn/bin wheel/hashattn-1.dist-info/licenses
licences=wheel/hashattn-1.dist-info/licenses
cp "$source_dir/LICENSE" "$source_dir"/licenses/*.txt $licences/
echo 'int one(void) { return 1; }' >one.c
make_library() { gcc -shared -fPIC -nostdlib -o "$@"; }
make_library wheel/hashattn/lib/libhashattn.so.0 one.c
make_library wheel/hashattn/bin/hashattn one.c
holds a_good_wheel_is_accepted sh "$source_dir/tools/wheel_contents.sh" wheel

# refused NAME PART: the check refuses the wheel and names the part.
refused() {
    if sh "$source_dir/tools/wheel_contents.sh" wheel >found; then
        failed "$1" "accepted"
    elif grep -q "$2" found; then
        passed "$1"
    else
        failed "$1" "no '$2' in: $(cat found)"
    fi
}
rm $licences/utf8proc.txt
refused licences_are_needed 'no licence utf8proc.txt'
cp "$source_dir/licenses/utf8proc.txt" $licences/
mkdir wheel/hashattn.libs
cp wheel/hashattn/lib/libhashattn.so.0 wheel/hashattn.libs/libOpenCL-1.so.1
refused libraries_of_others_are_refused 'libraries of others: .*libOpenCL'
rm -r wheel/hashattn.libs
make_library libgomp.so.1 -Wl,-soname,libgomp.so.1 one.c
make_library wheel/hashattn/bin/hashattn -Wl,--no-as-needed one.c libgomp.so.1
refused needed_libraries_are_named 'bin/hashattn needs libgomp.so.1'
printf 'GLIBC_2.29 { one; };\n' >versions.map
make_library libc.so.6 -Wl,-soname,libc.so.6 -Wl,--version-script=versions.map one.c
echo 'int one(void); int two(void) { return one(); }' >two.c
make_library wheel/hashattn/bin/hashattn two.c libc.so.6
refused newer_c_libraries_are_named 'bin/hashattn needs GLIBC_2.29'
finish
