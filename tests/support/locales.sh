#!/bin/sh
# Makes locales for the tests in the folder $1, whatever is installed: `comma` writes 1.5 as "1,5", `arabic`
# with U+066B, which has two bytes. They define only LC_NUMERIC; LOCPATH=$1 makes them known.
set -u
cd "$1" || exit 1
cat >utf8.charmap <<'MAP'
<code_set_name> UTF-8
<comment_char> %
<escape_char> /
<mb_cur_min> 1
<mb_cur_max> 2
CHARMAP
<U0000>..<U007F> /x00
<U066B> /xd9/xab
END CHARMAP
MAP
for locale in comma:U002C arabic:U066B; do
    name=${locale%:*}
    printf 'LC_NUMERIC\ndecimal_point "<%s>"\nthousands_sep ""\ngrouping -1\nEND LC_NUMERIC\n' "${locale#*:}" >"$name.source"
    localedef -c -i "./$name.source" -f ./utf8.charmap "./$name" 2>"$name.log" # warns of the other categories
    [ -e "$name/LC_NUMERIC" ] || { cat "$name.log" >&2; exit 1; }
done
