#!/bin/sh
# A file includes only its own floor and the floors below it (the table of CONTRIBUTING.md), and files of attention/, tasks/
# and cli/ never include a sibling beyond the interface header of their folder. Units of parts/ do not include each other in
# a circle; a file that carries the name of another on (tile_attention_parts.h) belongs to that unit.
bad=0
circle=$(git ls-files -co --exclude-standard 'src/parts/*.[ch]' | xargs awk '
/^#include "parts\// {
    from = FILENAME; sub(/.*\//, "", from); sub(/\..*/, "", from)
    to = $2; sub(/.*\//, "", to); sub(/\..*/, "", to)
    if (from != to && index(from, to "_") != 1 && index(to, from "_") != 1) print from, to
}' | tsort 2>&1 >/dev/null)
[ -z "$circle" ] || { echo "units of parts/ include each other:"; echo "$circle"; bad=1; }
awk '
BEGIN {
    allowed["base"] = "base hashattn/status.h"
    allowed["comm"] = "comm base"
    allowed["kernels"] = "kernels base"
    allowed["parts"] = "parts base kernels"
    allowed["attention"] = "attention base comm kernels parts"
    allowed["io"] = "io base"
    allowed["text"] = "text base io"
    allowed["nn"] = "nn base comm kernels attention"
    allowed["tasks"] = "tasks base io text"
    allowed["objectives"] = "objectives base comm kernels nn"
    allowed["models"] = "models base io kernels attention nn objectives"
    allowed["train"] = "train base comm io kernels attention nn objectives models tasks"
    allowed["measure"] = "measure base io kernels parts attention nn objectives models tasks train"
    allowed["api"] = "api base comm kernels parts attention io nn objectives models tasks text train measure hashattn"
    allowed["cli"] = "cli hashattn"
    allowed["examples"] = "hashattn"
    # What a file may take from its own folder where siblings do not know each other; a unit may always include its own
    # header, and those of files that carry its name on (yoso.c: yoso_stream.h).
    seam["attention"] = "attention/attention.h attention/mechanism.h attention/kept.h attention/work_order.h attention/in_buckets.h"
    seam["tasks"] = "tasks/task.h tasks/dataset.h tasks/documents.h tasks/words.h"
    seam["objectives"] = "objectives/objective.h"
    seam["text"] = "text/tokenizer.h"
    seam["cli"] = "cli/command.h cli/attend_chunks.h cli/arguments.h cli/progress.h cli/signals.h cli/profile_out.h cli/json_out.h cli/metrics_out.h cli/suggest.h cli/bench.h cli/inputs.h cli/noise.h cli/halves.h cli/findings.h"
}
function within(list, word,    parts, i, n) {
    n = split(list, parts, " ")
    for (i = 1; i <= n; i++)
        if (parts[i] == word) return 1
    return 0
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    target = quoted[2]
    floor = FILENAME
    sub(/^src\//, "", floor); sub(/\/.*/, "", floor)
    top = target; sub(/\/.*/, "", top)
    if (target !~ /\//) { print FILENAME ": include \"" target "\" is not rooted at src/ or include/"; bad = 1; next }
    if (!within(allowed[floor], top) && !within(allowed[floor], target)) {
        print FILENAME ": " floor " may not include " target; bad = 1
    }
    if (top == floor && floor in seam && FILENAME ~ /\.c$/) {
        stem = FILENAME; sub(/^src\//, "", stem); sub(/\.c$/, "", stem)
        if (target != stem ".h" && index(target, stem "_") != 1 && !within(seam[floor], target)) {
            print FILENAME ": sibling " target " included; what two of them need moves one floor down"; bad = 1
        }
    }
}
END { exit bad }
' $(git ls-files -co --exclude-standard 'src/*.[ch]' 'cli/*.[ch]' 'examples/*.[ch]') || bad=1
exit $bad
