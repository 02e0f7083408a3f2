#!/bin/sh
# Man pages: one of the tool, of each command and of each kind of bench, with the words of --help and no warning from man or
# mandoc.
# Planted and caught: the first letter of a help lost; a kind of bench without a page; a page of an earlier build; quotes or
# dashes that are not escaped.
# Covers: page.c help.c man_pages.sh
. "$(dirname "$0")/checks.sh"

holds pages_are_written "$source_dir/tools/man_pages.sh" "$tool" man1
[ "$(ls man1 | tr '\n' ' ')" = "hashattn-attend.1 hashattn-bench-attention.1 hashattn-bench-cluster.1 hashattn-bench-decode.1 hashattn-bench-error.1 hashattn-bench-layer.1 hashattn-bench-peak.1 \
hashattn-bench-step.1 hashattn-bench-stream.1 hashattn-bench-suggest.1 hashattn-bench.1 hashattn-data-describe.1 hashattn-data.1 hashattn-density-fit.1 hashattn-density-merge.1 hashattn-density-modes.1 hashattn-density-remove.1 \
hashattn-density-score.1 hashattn-density.1 hashattn-embed.1 hashattn-eval.1 hashattn-export.1 hashattn-fill-mask.1 hashattn-generate.1 hashattn-info.1 \
hashattn-inspect.1 hashattn-predict.1 hashattn-report.1 hashattn-tokenizer-decode.1 hashattn-tokenizer-encode.1 hashattn-tokenizer-train.1 \
hashattn-tokenizer.1 hashattn-train.1 hashattn.1 " ] && passed a_page_each || failed a_page_each "$(ls man1)"
[ -e "$build/man/hashattn.1" ] && { diff -r "$build/man" man1 >differ && passed pages_of_the_build || failed pages_of_the_build "$(head -n 5 differ)"; }

# The words of a page, without layout, are those of the help. Each form has its own headings.
cat >words.py <<'P'
import re, subprocess, sys
tool, page = sys.argv[1:]
name = page[len("man1/hashattn-"):-2]
command = [name] if name == "fill-mask" else name.replace("-", " ").split()
names = {"\\-": "-", "\\e": "\\", "\\(aq": "'", "\\(ga": "`", "\\(ha": "^", "\\(ti": "~", "\\&": "", "\\fB": "", "\\fI": "", "\\fR": ""}
lines = open(page).read().split("\n")
while lines[0] != ".SH SYNOPSIS":
    lines.pop(0)
lines = lines[:lines.index(".SH SEE ALSO")]
plain = lambda text: re.sub(r"\\(\(..|f.|.)", lambda found: names[found.group(0)], text)
said = []
for line in lines:
    assert not line.startswith("'") and (not line.startswith(".") or re.match(r"\.(SH|SS|TP|EX|EE|PP|B)\b", line)), line
    assert not re.search(r"(?<!\\)[-'`^~]", line), line
    if re.match(r"\.(TP|EX|EE|PP|SH SYNOPSIS)$", line) or (line == ".SH OPTIONS" and ".SS" in lines[lines.index(line) + 1]):
        continue
    said += plain(re.sub(r"^\.(SH|SS|B) ", "", line)).lower().split()
text = subprocess.run([tool, *command, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
summary = text.split("\n\n")[1]
want = re.sub(r"^(?!.*\busage)(\w[^\n]*):$", r"\1", text.replace(summary + "\n", "", 1), flags=re.M).lower().split()[1:]
assert said == want, [pair for pair in zip(said, want) if pair[0] != pair[1]][:5] or (len(said), len(want))
assert plain(open(page).read().split("\n")[2]).endswith("- " + " ".join(summary.split())[:-1]), summary
P
for page in man1/*; do
    holds "words_of_$(basename "$page" .1)" python3 words.py "$tool" "$page"
done

if command -v man >/dev/null && command -v groff >/dev/null; then
    for page in man1/*; do
        MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null
    done >warnings
    [ ! -s warnings ] && passed man_warns_of_nothing || failed man_warns_of_nothing "$(head -n 5 warnings)"
    MANWIDTH=80 man -l man1/hashattn-train.1 2>/dev/null | col -b >out
    holds man_shows_the_page grep -q -- "--learning-rate X" out
else
    echo "SKIPPED: warnings of man (man-db and groff are not installed)"
fi
if command -v mandoc >/dev/null; then
    mandoc -T lint -W warning man1/* >warnings 2>&1
    [ ! -s warnings ] && passed mandoc_warns_of_nothing || failed mandoc_warns_of_nothing "$(head -n 5 warnings)"
else
    echo "SKIPPED: warnings of mandoc (not installed)"
fi
expect other_forms_of_help 2 "--help takes no value" info --help=html
finish
