#!/bin/sh
# Every default, kind and range that the tool reports is the one listed in defaults.txt, so that none changes unnoticed. A line
# has the commands that report it; "train *" are all kinds of train. After a deliberate change,
# `sh tests/cli/test_defaults.sh build write` rewrites the list.
# Planted and caught: beta1 0.8; balance 2; another number of examples in the help of inspect; another learning
# rate of one task.
. "$(dirname "$0")/checks.sh"

cat >list.py <<'P'
import json, re, subprocess, sys
tool = sys.argv[1]
said = lambda *words: subprocess.run([tool, *words], stdout=subprocess.PIPE, check=True, text=True).stdout
info = json.loads(said("info", "--json"))
for mechanism in info["mechanisms"]:
    for option in json.loads(said("info", "--attention", mechanism["name"], "--json"))["options"]:
        bounds = f"{option['minimum']:g} to {option['maximum']:g}" if "minimum" in option else ", ".join(option.get("choices", []))
        print(f"{mechanism['name']} {option['name']}: {option['default']}; {bounds}".rstrip())
commands = ["attend", "data", "embed", "eval", "export", "fill-mask", "generate", "inspect", "predict"] + ["bench " + kind for kind in (
    "attention", "error", "layer", "peak", "step", "stream", "suggest")]
for kind in ("data", "train"):
    commands += [f"{kind} {task['name']}" for task in info["tasks"] if kind == "train" or task["generates"] or task["prepares"]]
facts = {}  # "--dim: 1 to 16384; default 64": the commands that say so
for command in commands:
    text, mechanisms = said(*command.split(), "--help"), False
    for line in text.replace("\n                              ", " ").split("\n"):
        if line.endswith(":"):
            owners = line[len("options of "):-1].split(", ") if line.startswith("options of ") else []
            mechanisms = any(mechanism["name"] in owners for mechanism in info["mechanisms"])
        found = re.match(r"  (--[\w.-]+).*\(([^()]*\bdefault [^()]*)\)$", line)
        if found and not mechanisms:  # those of mechanisms are above
            facts.setdefault(f"{found.group(1)}: {found.group(2)}", []).append(command)

# Kind and range of the tool's own options, as refused values tell them.
for command in ["info", "data needle", "train needle"] + [c for c in commands if not re.match("data|train", c)]:
    own = "\n\n".join(part for part in said(*command.split(), "--help").split("\n\n") if not re.match("options of (?!every)", part))
    for name in re.findall(r"^  (--[\w-]+)", own, flags=re.M):
        if command != "info" and name in common:
            continue
        refused = subprocess.run([tool, *command.split(), name + "=x", "--unknown"], stderr=subprocess.PIPE, text=True).stderr
        found = re.search(r"must be a (.*) \(see|takes (no value)|has no option (--unknown)|no (mechanism) 'x'", refused)
        kind = (found.group(1) or found.group(2) or found.group(4) or "text") if found else refused
        facts.setdefault(f"{name}: {kind}", []).append(command)
    common = re.findall(r"^  (--[\w-]+)", own, flags=re.M)[-7:]

for fact, reporters in facts.items():
    for family in "bench ", "data ", "train ":
        members = [command for command in commands if command.startswith(family)]
        if set(members) <= set(reporters):
            reporters = [reporter for reporter in reporters if reporter not in members] + [family + "*"]
    print(f"{fact} ({', '.join(reporters)})")
P
python3 list.py "$tool" >got
[ "${2:-}" = write ] && cp got "$source_dir/tests/cli/defaults.txt"
holds list_is_long test "$(wc -l <got)" -gt 150
holds defaults_are_those_of_the_list diff "$source_dir/tests/cli/defaults.txt" got
finish
