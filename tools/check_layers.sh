#!/bin/sh
# The include rule (CONTRIBUTING.md). A file includes only its own floor and the floors listed for it. In parts/ the rule
# applies to rooms. In attention/, objectives/, tasks/ and cli/ siblings do not include each other, only the headers
# that all of them share. Modules do not include each other in a cycle; NAME_more.h belongs to module NAME. Modules of the
# Python package do not import each other in a cycle, late imports included.
# A folder of src/ or cli/ has at most 30 files, except src/kernels/.
bad=0
circle=$(git ls-files -co --exclude-standard 'src/*.[ch]' 'cli/*.[ch]' | xargs awk '
/^#include "/ {
    from = FILENAME; sub(/.*\//, "", from); sub(/\..*/, "", from)
    to = $2; sub(/.*\//, "", to); sub(/\..*/, "", to)
    if (to == "isa" && from == "kernels") next # the dispatch of kernels.c reads the table of each set
    if ($2 !~ /^"hashattn\// && from != to && index(from, to "_") != 1 && index(to, from "_") != 1) print from, to
}' | tsort 2>&1 >/dev/null)
[ -z "$circle" ] || { echo "modules include each other in a cycle:"; echo "$circle"; bad=1; }
imports() { # pairs of modules, "torch/names arrays"
    git ls-files -co --exclude-standard 'python/hashattn/*.py' | grep -v /__init__.py | xargs awk '
/^[ \t]*from \.+[a-z_]* import / {
    from = FILENAME; sub(/^python\/hashattn\//, "", from); sub(/\.py$/, "", from)
    folder = from ~ /\// ? "torch/" : ""
    if ($2 ~ /^\.\./) folder = ""
    target = $2; gsub(/\./, "", target)
    names = $0; sub(/.* import /, "", names); sub(/ as .*/, "", names); sub(/#.*/, "", names)
    if (target != "") names = target
    count = split(names, each, /[ ,]+/)
    for (i = 1; i <= count; i++) if (each[i] != "") print from, folder each[i]
}'
}
circle=$(imports | tsort 2>&1 >/dev/null)
[ -z "$circle" ] || { echo "modules of python/hashattn import each other in a cycle:"; echo "$circle"; bad=1; }
full=$(git ls-files -co --exclude-standard 'src/*.[ch]' 'cli/*.[ch]' | sed 's|/[^/]*$||' | sort | uniq -c |
    awk '$1 > 30 && $2 != "src/kernels" { print $2 ": " $1 " files, 30 are allowed" }')
[ -z "$full" ] || { echo "$full"; bad=1; }
awk '
BEGIN {
    allowed["base"] = "base hashattn/status.h"
    allowed["comm"] = "comm base hashattn/communicator.h hashattn/mpi.h"
    allowed["kernels"] = "kernels base"
    allowed["parts/rows"] = "parts/rows base kernels"
    allowed["parts/problem"] = "parts/problem parts/rows base kernels"
    allowed["parts/hashing"] = "parts/hashing parts/problem parts/rows base kernels"
    allowed["parts/collisions"] = "parts/collisions parts/problem parts/hashing parts/rows base kernels"
    allowed["parts/sampling"] = "parts/sampling parts/problem parts/collisions parts/hashing parts/rows base kernels"
    allowed["parts/tiles"] = "parts/tiles parts/problem parts/rows base kernels"
    allowed["parts/landmarks"] = "parts/landmarks parts/problem parts/tiles parts/rows base kernels"
    allowed["parts/patterns"] = "parts/patterns parts/problem parts/tiles parts/rows base kernels"
    allowed["parts/features"] = "parts/features parts/problem parts/hashing parts/rows base kernels"
    allowed["parts/groups"] = "parts/groups parts/problem parts/tiles parts/rows base kernels"
    allowed["parts/targets"] = "parts/targets parts/problem parts/groups parts/features parts/tiles parts/rows base kernels"
    allowed["parts/inspect"] = "parts/inspect parts/problem parts/groups parts/rows base kernels"
    allowed["gpu"] = "gpu base kernels parts"
    allowed["attention"] = "attention base comm kernels parts gpu"
    allowed["decoding"] = "decoding base kernels parts io"
    allowed["density"] = "density base kernels parts io"
    allowed["io"] = "io base"
    allowed["text"] = "text base io"
    allowed["nn"] = "nn base comm kernels attention"
    allowed["tasks"] = "tasks base io text"
    allowed["objectives"] = "objectives base comm kernels nn"
    allowed["models"] = "models base io kernels attention decoding nn objectives"
    allowed["train"] = "train base comm io kernels attention nn objectives models tasks text"
    allowed["measure"] = "measure base io kernels parts attention nn objectives models tasks train"
    allowed["api"] = "api base comm kernels parts gpu attention decoding density io nn objectives models tasks text train measure hashattn"
    allowed["cli"] = "cli hashattn"
    allowed["examples"] = "hashattn"
    # What all siblings of a floor may include: headers, or a room.
    shared["attention"] = "attention/mechanism.h attention/driver"
    shared["tasks"] = "tasks/task.h tasks/dataset.h tasks/splits.h tasks/documents/documents.h tasks/tokens.h tasks/words.h tasks/running_text.h tasks/pixels.h tasks/windows.h"
    shared["objectives"] = "objectives/objective.h objectives/squares.h"
    shared["cli"] = "cli/shared"
}
# True if a path is an entry of the list, or is in a folder of the list.
function within(list, path,    entries, i, n) {
    n = split(list, entries, " ")
    for (i = 1; i <= n; i++)
        if (path == entries[i] || index(path, entries[i] "/") == 1) return 1
    return 0
}
# True if both files belong to the same sibling: a folder of the floor, or files with the same name prefix (yoso.c,
# yoso_stream.h).
function is_own(floor, file, target,    mine, theirs) {
    mine = substr(file, length(floor) + 2); theirs = substr(target, length(floor) + 2)
    if (mine ~ /\//) return index(theirs, substr(mine, 1, index(mine, "/"))) == 1
    sub(/\.[ch]$/, "", mine)
    return theirs == mine ".h" || index(theirs, mine "_") == 1
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    target = quoted[2]
    file = FILENAME; sub(/^src\//, "", file)
    floor = file; sub(/\/.*/, "", floor)
    room = floor
    if (floor == "parts") { room = file; sub(/\/[^\/]*$/, "", room) }
    if (target !~ /\//) { print FILENAME ": include \"" target "\" is not rooted at src/ or include/"; bad = 1; next }
    if (!within(allowed[room], target)) { print FILENAME ": " room " may not include " target; bad = 1 }
    if (index(target, floor "/") == 1 && floor in shared && !within(shared[floor], target) && !is_own(floor, file, target)) {
        print FILENAME ": sibling " target " included; move what both need one floor down"; bad = 1
    }
}
END { exit bad }
' $(git ls-files -co --exclude-standard 'src/*.[ch]' 'cli/*.[ch]' 'examples/*.[ch]') || bad=1
exit $bad
