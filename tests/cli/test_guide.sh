#!/bin/sh
# The user guide, docs/guide: its commands run as written, page by page in one directory, with an installed hashattn. Blocks
# that install things for the whole system or build everything are marked "not run", and only on the page that installs.
# Planted and caught: a misspelt option; a C program that does not compile; a command without its file; a page without a
# link to the next one.
. "$(dirname "$0")/checks.sh"

DESTDIR="$work/stage" cmake --install "$build" --prefix /usr/local >log 2>&1 || { failed install "$(tail -n 3 log)"; finish; }
root=$work/stage/usr/local
library=$(dirname "$(find "$root" -name libhashattn.so)")
PATH=$root/bin:$PATH PKG_CONFIG_PATH=$library/pkgconfig LD_LIBRARY_PATH=$library MANPATH=$root/share/man
export PATH PKG_CONFIG_PATH LD_LIBRARY_PATH MANPATH
if nm -D "$library/libhashattn.so" | grep -qE '__(asan|tsan)_init'; then
    echo "SKIPPED: the guide with a library that is sanitized"
    finish
fi
(cd "$source_dir" && DESTDIR='' cmake --install "$build" --component python --prefix "$work/python/hashattn") >log 2>&1
cp -r "$source_dir/python/hashattn" "$work/python/"
PYTHONPATH=$work/python
export PYTHONPATH

cat >blocks.py <<'P'
# Writes the blocks of a page as files: NN.sh, NN.py; blocks with a file name as that file, in the directory of commands.
import pathlib, re, sys
page, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
folder.mkdir(parents=True)
python = ""
for number, found in enumerate(re.finditer(r"(<!-- not run: [^\n]* -->\n)?```(\w+)(?: ([\w.]+))?\n(.*?)```\n", page.read_text(), re.S)):
    skipped, language, name, text = found.groups()
    if skipped:
        assert page.name == "1-install.md", f"{page.name} has a block that is not run"
    elif name:
        pathlib.Path("guide", name).write_text(text)
    elif language == "sh":
        (folder / f"{number:02}.sh").write_text(text)
    elif language == "python":
        python += text  # one session a page
if python:
    (folder / "session.py").write_text(python)
P
mkdir guide
numpy=$(python3 -c 'import numpy' 2>/dev/null && echo yes)
[ -n "$numpy" ] || echo "SKIPPED: commands of the guide that need numpy"
ran=0
for page in "$source_dir"/docs/guide/[1-9]-*.md "$source_dir"/docs/guide/11-*.md "$source_dir"/docs/guide/densities.md; do
    name=$(basename "$page" .md)
    python3 blocks.py "$page" "blocks/$name" >err 2>&1 || failed "blocks_of_$name" "$(tail -n 1 err)"
    for block in "blocks/$name"/*; do
        [ -e "$block" ] || continue
        [ -n "$numpy" ] || ! grep -qE 'numpy|\.npy' "$block" || continue
        command -v man >/dev/null || ! grep -q '^man ' "$block" || { echo "SKIPPED: a command of the guide (man is not installed)"; continue; }
        case $block in
        *.sh) (cd guide && sh -eu "../$block") >out 2>err </dev/null ;;
        *.py) (cd guide && python3 -B "../$block") >out 2>err </dev/null ;;
        esac && passed "runs_$name/$(basename "$block")" || failed "runs_$name/$(basename "$block")" "$(tail -n 5 out err)"
        ran=$((ran + 1))
    done
done
holds blocks_were_run test $ran -ge 15
"$tool" eval guide/run --json >out 2>err
holds needle_is_learned_as_the_guide_says json out 'd["accuracy"] >= 0.985 and 0.085 <= d["majority"] < 0.1'

# Every link of the guide leads to a file, and each page to the next one.
python3 - "$source_dir" >told 2>&1 <<'P'
import pathlib, re, sys
guide = pathlib.Path(sys.argv[1], "docs", "guide")
pages = sorted(guide.glob("[1-9]-*.md"))
for page in [guide / "README.md"] + pages:
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert link.startswith("http") or (guide / link).resolve().exists(), f"{page.name}: {link}"
for page, following in zip(pages, pages[1:]):
    assert f"]({following.name})" in page.read_text().split("Next:")[-1], f"{page.name} does not lead to {following.name}"
listed = re.findall(r"\]\((\d-[\w-]+\.md)\)", (guide / "README.md").read_text())
assert listed == [page.name for page in pages], listed
P
holds links_lead_somewhere sh -c '[ ! -s told ] || { tail -n 1 told; exit 1; }'
finish
