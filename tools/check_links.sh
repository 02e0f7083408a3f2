#!/bin/sh
# Relative links of documents lead to files, their anchors to headings, and paths in backquotes to files.
command -v python3 >/dev/null || { echo "SKIPPED: links (python3 is not installed)"; exit 0; }
git ls-files -co --exclude-standard '*.md' | python3 -c '
import pathlib, re, subprocess, sys
bad = 0
files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], stdout=subprocess.PIPE, text=True).stdout.split()
heading = lambda text: re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
for name in sys.stdin.read().split():
    page = pathlib.Path(name)
    if not page.exists():
        continue
    for path in re.findall(r"`((?:\w[\w.-]*/)+[\w.-]+\.(?:c|h|py|sh|md|jsonl|cmake))`", page.read_text()):
        if not re.search(r"NAME|^[a-z]/|/[a-z]/", path) and not any(f"/{file}".endswith(f"/{path}") for file in files):
            print(f"{name}: there is no file {path}")
            bad = 1
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if link.startswith(("http:", "https:", "mailto:")):
            continue
        if not target.exists():
            print(f"{name}: the link {link} leads nowhere")
        elif anchor and anchor not in map(heading, re.findall(r"^#+ (.*)$", target.read_text(), re.M)):
            print(f"{name}: the link {link} leads to no heading")
        else:
            continue
        bad = 1
sys.exit(bad)'
