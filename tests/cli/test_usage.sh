#!/bin/sh
# The tool as a program: help, version, suggestions, exit codes, stdout and stderr.
# Planted and caught: usage errors with exit code 1; help on stderr; an unknown option treated as an operand; a
# switch that swallows the next word; write errors of stdout ignored; --precision ignored; an example with a wrong option
# name; a heading of help for each option; the locale of the environment used; the choices of the first mechanism shown for
# all that have an option of that name; a name suggested twice; exchanged letters as two errors; names that are further away
# than others; the option looked at before the task; pages of 100 columns; `help train` as `help`; an operand of help lost;
# options of other tasks in the help of one.
# Covers: main.c tool.c arguments.c command_options.c kinds.c suggest.c
. "$(dirname "$0")/checks.sh"

says help_lists_commands "attend" --help
says help_is_a_command "train" help
says version_tells_what_runs "instruction set" --version
cp out version
"$tool" info >out
holds version_is_the_first_paragraph_of_info sh -c 'sed "/^devices/,\$d" out | sed "\$d" | diff - version'
holds version_is_the_first_line sh -c 'head -n 1 version | grep -qxE "hashattn [0-9]+\.[0-9]+\.[0-9]+"'
for word in -h help --help; do
    run $word
    [ "$code" = 0 ] && [ ! -s err ] && [ "$(sed -n '/^options:/q; s/^  \([a-z-]*\)  *[A-Z].*/\1/p' out | tr '\n' ' ')" = "info attend data train eval predict generate embed fill-mask export inspect report bench tokenizer density " ] && passed "usage_by_$word" || failed "usage_by_$word" "$(cat out err)"
done
run
[ "$code" = 2 ] && [ ! -s out ] && grep -q "commands:" err && passed no_command_is_usage || failed no_command_is_usage "code $code"
expect unknown_command_suggests 2 "no command 'trian'; did you mean train?" trian
[ "$(wc -l <err)" = 1 ] && [ -z "$(tail -c 1 err)" ] && passed a_message_is_a_line || failed a_message_is_a_line "$(od -c err | tail -n 3)"
expect unknown_command_alone 2 "no command 'xyzzy' (" xyzzy

# ---- habits ----
for word in -V version; do
    run $word
    holds "version_by_$word" cmp out version
done
run help train text
cp out by_help
run train text --help
holds help_of_a_task sh -c 'grep -q "usage: hashattn train" out && cmp out by_help'
run help bench peak
holds help_of_a_kind grep -q "usage: hashattn bench peak" out
# The help of a task has the options that apply to it, and the presets that it has.
shows() { # NAME TASK "OPTIONS THAT IT HAS" "OPTIONS THAT IT LACKS"
    "$tool" train $2 --help >out
    for word in $3; do grep -q "^  --$word " out || echo "no $word"; done >missing
    for word in $4; do grep -q "^  --$word " out && echo "$word"; done >>missing
    holds "$1" sh -c '[ ! -s missing ] || { cat missing; exit 1; }'
}
shows help_applies_to_text text "pooling classifier class-weight preset causal" "draw column distil decoder-layers cutoffs div-value scale-words"
shows help_applies_to_lm lm "cutoffs div-value scale-words causal" "pooling classifier class-weight draw distil decoder-layers"
shows help_applies_to_mlm mlm "pooling scale-words" "cutoffs class-weight draw distil"
shows help_applies_to_forecast forecast "draw column distil decoder-layers columns" "pooling classifier class-weight cutoffs scale-words"
shows help_of_all "" "draw column distil cutoffs pooling class-weight" ""
"$tool" train text --help | tr -s ' \n' ' ' >out
holds presets_of_the_task sh -c 'grep -q "lra: model and training" out && ! grep -q "Informer on ETTh1" out && ! grep -q "lha-lm" out'
expect a_hidden_option_is_known 2 "--draw draws forecasts, text makes none" train text --draw x.svg --data d --out r
"$tool" train lm --dis --complete >out
holds hidden_options_are_not_completed test ! -s out
expect help_of_nothing 2 "no command 'trian'; did you mean train?" help trian
run train text --attention yoso --help
sections=$(grep -E '^options' out | tr '\n' ' ')
[ "$sections" = "options: options of the training: options of the task: options of the model: options of every command: options of yoso: options of yoso, yoso-e: " ] && passed training_first_mechanisms_last || failed training_first_mechanisms_last "$sections"
python3 - "$tool" <<'P' >told 2>&1
import fcntl, os, pty, struct, sys, termios
def longest(columns):
    child, fd = pty.fork()
    if child == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.execv(sys.argv[1], [sys.argv[1], "train", "--help"])
    text = b""
    try:
        while piece := os.read(fd, 65536):
            text += piece
    except OSError:
        pass
    os.waitpid(child, 0)
    lines = text.decode().replace("\r", "").split("\n\nexample:")[0].split("\n")
    return max(len(line) for line in lines)
for columns, least, most in ((70, 66, 70), (90, 86, 90), (300, 96, 100), (20, 56, 60), (0, 76, 80)):
    assert least <= longest(columns) <= most, (columns, longest(columns))
P
holds help_has_the_width_of_the_terminal sh -c '[ ! -s told ] || { cat told; exit 1; }'
expect mechanism_suggests 2 "no mechanism 'yoos'; did you mean yoso? There are: softmax" info --attention yoos
expect mechanism_of_a_plan_suggests 2 "no mechanism 'lah'; did you mean lha, lsh? There are" bench layer --attention 'local*5,lah*5'
expect mechanism_unlike_all 2 "no mechanism 'transformer', there are: softmax" info --attention transformer
expect task_before_the_rest 2 "no task 'txt'; did you mean text? There are: needle" train txt
expect suggestions_are_near 2 "train has no option --dat; did you mean --data? (" train text --dat x
expect nothing_is_near 2 "embed has no option --draw (" embed --draw

for command in info attend data train eval predict generate embed fill-mask export inspect bench; do
    says "help_of_$command" "example:" "$command" --help
    tail -n 1 out | grep -q "hashattn $command" && passed "example_of_$command" || failed "example_of_$command" "$(tail -n 1 out)"
    says "short_help_of_$command" "usage: hashattn $command" "$command" --no-such-thing -h
    expect "unknown_option_of_$command" 2 "$command has no option --thread; did you mean --threads?" "$command" --thread 2
    expect "precision_of_$command" 2 "" "$command" --precision float64
done
# Numbers have a decimal point in every locale.
holds locales_are_made sh "$source_dir/tests/support/locales.sh" "$work"
for locale in comma arabic; do
    holds "is_known_$locale" test "$(LOCPATH=$work LC_ALL=$locale locale decimal_point)" != .
    LOCPATH=$work LC_ALL=$locale says "numbers_are_written_in_$locale" '"default": 0.' info --attention lha --json
    LOCPATH=$work LC_ALL=$locale says "numbers_are_read_in_$locale" '"float32_gflops": ' bench peak --seconds 0.02 --json
    LOCPATH=$work LC_ALL=$locale expect "numbers_are_told_in_$locale" 2 "it must be a number from 0.01 to" bench peak --seconds 0,5
done
expect precisions_are_named 2 "no precision 'float64', there are: float32, bf16" info --precision float64
says float32_is_there '"precision": "float32"' info --precision float32 --json
says bf16_is_there '"precision": "bf16"' info --precision bf16 --json
HASHATTN_ISA=ref says bf16_without_the_instruction '"bf16": "by widening"' info --json
expect value_is_missing 2 "--threads needs a value" info --threads
expect value_is_no_number 2 "--threads is 'two'; it must be a whole number from 1 to 1024" info --threads two
expect value_is_negative 2 "--threads is '-1'" info --threads -1
expect value_is_too_large 2 "--threads is '1025'" info --threads 1025
expect value_is_empty 2 "--threads is ''" info --threads=
expect seed_is_too_large 2 "--seed is '18446744073709551616'" info --seed 18446744073709551616
says largest_seed "mechanisms" info --seed 18446744073709551615
says value_after_equals '"threads": 1' info --threads=1 --json
expect switch_takes_no_value 2 "--json takes no value" info --json=yes
expect one_dash 2 "options begin with two dashes" info -j
expect switch_leaves_the_next_word 2 "info takes no operand, got 'word'" info --json word
expect dashes_end_options 2 "info takes no operand, got '--json'" info -- --json
expect unknown_isa 2 "isa 'mmx': " info --isa mmx
says plain_isa '"isa": "ref"' info --isa ref --json
HASHATTN_ISA=ref says isa_cap_of_the_environment '"isa": "ref"' info --json
HASHATTN_ISA=nonsense expect unknown_cap 2 "HASHATTN_ISA" info

# Entries of the help: names and values on the left, sentences broken at 100 columns, a long name on its own line.
"$tool" eval --help >out
holds help_of_a_value grep -qxF -- "  --split NAME                train, valid or test (default test)" out
holds help_of_a_switch grep -qxF -- "  --quiet                     print only errors on stderr" out
holds help_of_a_flag grep -qxE -- "  --recompute                 keep no hash codes .*" out
holds help_of_a_number grep -qxE -- " {30}.*\(1 to 4096; default 32\)" out
holds help_is_no_wider awk '/^  [- ]/ && length($0) > 80 { exit 1 }' out
holds help_begins_with_the_usage sh -c 'head -n 1 out | grep -qxF "usage: hashattn eval RUN [options]"'
[ "$(sed -n '/^options of every command:/,/^$/p' out | grep -oE '^  --[a-z]+' | tr -d '\n')" = "  --threads  --isa  --precision  --seed  --json  --quiet  --help" ] && passed help_of_common_options || failed help_of_common_options "$(sed -n '/^options of every/,$p' out)"

# train TASK --help shows the options and defaults of this task only.
says help_of_a_task "--marks" train needle --help
says help_of_a_task_of_mechanisms "Defaults of this task: --yoso.hash-bits 8 --yoso-e.hash-bits 8" train needle --help
grep -q -- "--max-depth" out && failed help_of_a_task_alone "shows options of listops" || passed help_of_a_task_alone
says help_of_all_tasks "--max-depth" train --help
says help_names_mechanisms "options of lha, lsh, random:" train --help
[ "$(grep -c -- "^  --membership " out)" = 1 ] && passed help_has_each_option_once || failed help_has_each_option_once "$(grep -- --membership out)"

# Options of one name that differ between mechanisms: each is listed with its own choices and help.
of_mechanisms() { sed -n "/^options of $1:\$/,/^\$/p" out | tr -s ' \n' ' '; }
run attend --help
of_mechanisms yoso >yoso.txt
of_mechanisms yoso-e >yoso-e.txt
holds help_of_yoso_has_its_choices grep -q -- '--gradient NAME gradient of.*lower, true, released (default lower)' yoso.txt
holds help_of_yoso_e_has_its_choices grep -q -- '--gradient NAME gradient of.*: lower, true (default lower)' yoso-e.txt
holds help_of_yoso_e_lacks_others sh -c '! grep -q "released\|rare tokens" yoso-e.txt'
expect other_choices_are_refused 2 "yoso-e: --gradient is 'released', allowed are lower, true" bench attention --attention yoso-e --gradient released
expect suggested_once 2 "; did you mean --gradient, --gradient-hashes? (" attend --gradien true

# Every help ends with an example that works on a machine with only the tool (and numpy for .npy files).
PATH=$build:$PATH
export PATH
for command in info attend data train eval predict generate embed fill-mask export inspect report bench tokenizer; do
    if [ $command = attend ] && ! python3 -c 'import numpy' 2>/dev/null; then
        echo "SKIPPED: example of attend (no numpy)"
        continue
    fi
    "$tool" $command --help | sed '1,/^example:$/d' >example.sh
    mkdir "of_$command"
    (cd "of_$command" && sh -e ../example.sh >../out 2>../err) && passed "example_of_${command}_works" || failed "example_of_${command}_works" "$(tail -n 2 err)"
done

for command in "info" "info --json" "info --attention yoso" "--version" "--help" "train --help"; do
    name=full_stdout_$(echo "$command" | tr -cd 'a-z')
    # shellcheck disable=SC2086
    "$tool" $command >/dev/full 2>err
    code=$?
    [ $code = 4 ] && grep -q "cannot write standard output: No space left" err && passed "$name" || failed "$name" "code $code, $(cat err)"
done
finish
