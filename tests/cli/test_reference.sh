#!/bin/sh
# The API reference: Doxygen makes it from the headers without a warning, and every function and status has its page and text.
# Planted and caught: a function without a comment; tags and commands of Doxygen in a comment, not escaped.
# Covers: doxygen_filter.py Doxyfile
. "$(dirname "$0")/checks.sh"

# The filter changes comments only.
for header in "$source_dir"/include/hashattn/*.h; do
    name=$(basename "$header")
    python3 -B "$source_dir/tools/doxygen_filter.py" "$header" >filtered.h
    cc -fpreprocessed -dD -E -P "$header" 2>/dev/null | tr -d ' \n' >want
    cc -fpreprocessed -dD -E -P filtered.h 2>/dev/null | tr -d ' \n' >got
    holds "filter_keeps_the_code_of_$name" cmp want got
done

command -v doxygen >/dev/null || { echo "SKIPPED: the API reference (doxygen is not installed)"; finish; }
holds makes_the_reference sh -c 'cd "$0" && { cat Doxyfile; echo GENERATE_XML=YES; } | DOCS="$1" doxygen -' "$source_dir" "$work"
cat >look.py <<'P'
import glob, re, sys, xml.etree.ElementTree as tree
found = {}
for name in glob.glob("xml/*_8h.xml"):
    for member in tree.parse(name).iter("memberdef"):
        text = "".join("".join(member.find(part).itertext()) for part in ("briefdescription", "detaileddescription"))
        found[member.find("name").text] = text.strip()
        found.update((value.find("name").text, "-") for value in member.findall("enumvalue"))
declared = set()
for name in glob.glob(sys.argv[1] + "/include/hashattn/*.h"):
    declared |= set(re.findall(r"^HASHATTN_API [^;(]*?(\w+)\(", open(name).read(), re.M))
assert len(declared) > 80, len(declared)
bare = [name for name in sorted(declared | {"HASHATTN_NO_DISK"}) if not found.get(name)]
assert not bare, f"without text: {bare}"
assert found["hashattn_context_new"].startswith("options: NULL = the defaults."), found["hashattn_context_new"]
page = open("html/attention_8h.html").read()
assert "out (n_q, heads, d_v per sequence) = attention." in page and "SPDX" not in page
P
holds every_function_has_text python3 look.py "$source_dir"
finish
