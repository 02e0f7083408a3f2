#!/bin/sh
# Every public function that returns a status, or an option or a number as text, holds the default floating-point
# environment (api/floating.h): its body has FLOATING_DEFAULT or floating_begin, or calls a function of its own file, or a
# public one, that has. Exempt, because they compute nothing: files of bytes, the start of a profile, the start of MPI, and
# texts of a status.
exempt=' hashattn_file_begin hashattn_file_write hashattn_file_commit hashattn_profile_start hashattn_mpi_open hashattn_status_text '
found=$(git ls-files -co --exclude-standard 'src/*.c' | xargs awk -v exempt="$exempt" '
    function key(name) { return name ~ /^hashattn_/ ? name : FILENAME ":" name }
    FNR == 1 || /^}/ { if (inside != "" && FNR > 1) text[inside] = body; inside = head = ""; next }
    inside != "" { body = body " " $0; next }
    /^{/ && match(head, /[a-z_0-9]+\(/) {
        inside = key(substr(head, RSTART, RLENGTH - 1)); file[inside] = FILENAME; body = ""
        checked[inside] = head ~ /^hashattn_status hashattn_|^(int |const char \*)hashattn_[a-z_]*(option|text)\(/
        next
    }
    /^[a-z]/ { head = $0; next }
    { head = head $0 }
    END {
        for (name in text)
            holds[name] = text[name] ~ /FLOATING_DEFAULT|floating_begin/
        for (changed = 1; changed;) {
            changed = 0
            for (name in text)
                for (rest = text[name]; !holds[name] && match(rest, /[a-z_0-9]+\(/); rest = substr(rest, RSTART + RLENGTH)) {
                    called = substr(rest, RSTART, RLENGTH - 1)
                    if (holds[called] || holds[file[name] ":" called])
                        holds[name] = changed = 1
                }
        }
        for (name in text)
            if (checked[name] && !holds[name] && !index(exempt, " " name " "))
                print file[name] ": " name " lacks FLOATING_DEFAULT"
    }')
[ -z "$found" ] || { echo "$found" | sort; exit 1; }
