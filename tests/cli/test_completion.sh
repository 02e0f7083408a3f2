#!/bin/sh
# Completion of commands, options, values and file names: as the tool prints it, and in bash, zsh and fish, as far as they are
# installed.
# Planted and caught: the value of an option counted as an operand; tasks that cannot be generated offered for `data`; only the
# first mechanism of a list completed; text after --name= completed as a name; file names that are cut at a space; names of
# options offered after "--"; a preset of a task that is not offered, or offered twice.
# Covers: complete.c
. "$(dirname "$0")/checks.sh"

PATH=$build:$PATH
export PATH
mkdir -p "here/run one" && touch here/a.npy here/b.txt "here/c d.npy"
tasks=$("$tool" info --json | python3 -c 'import json, sys; print(" ".join(t["name"] for t in json.load(sys.stdin)["tasks"]))')
mechanisms=$("$tool" info --json | python3 -c 'import json, sys; print(" ".join(m["name"] for m in json.load(sys.stdin)["mechanisms"]))')

# offers NAME WANT WORD...: the candidates for the last word, without help, are those of WANT, in its order.
offers() {
    name=$1 want=$2
    shift 2
    run "$@" --complete
    got=$(cut -f 1 out | tr '\n' '|')
    [ "$code" = 0 ] && [ "$got" = "$want" ] && passed "$name" || failed "$name" "got '$got', want '$want'; $(cat err)"
}
list() { echo "$*" | tr ' ' '|'; }

offers commands "info|attend|data|train|eval|predict|generate|embed|fill-mask|export|inspect|report|bench|tokenizer|density|" ""
offers commands_of_nothing "info|attend|data|train|eval|predict|generate|embed|fill-mask|export|inspect|report|bench|tokenizer|density|"
offers a_command "info|inspect|" in
offers options_of_the_tool "--help|--version|" --
offers tasks "$(list "$tasks")|" train ""
offers tasks_that_data_makes "needle|listops|mlm|pathfinder|" data ""
offers kinds "attention|error|suggest|layer|step|stream|peak|decode|cluster|" bench ""
offers kinds_of_tokenizer "train|encode|decode|" tokenizer ""
offers kinds_of_density "fit|score|merge|remove|modes|" density ""
offers files_one_after_another ":files|" tokenizer train a ""
offers a_kind_after_an_option "peak|" bench --json p
offers a_whole_kind "peak|" bench peak
offers task_of_a_kind "needle|" bench step n
offers one_option "--num-hashes|" eval run --num-h
offers option_in_the_help_text "--split|" eval --sp
grep -q "^--split	train, valid or test" out && passed help_of_an_option || failed help_of_an_option "$(cat out)"
offers flag_that_is_on "--no-check-labels|--no-attention-biases|" train listops --no-
offers dashes_of_a_mechanism "--lha.hash|--lha.hash-width|--lha.hash-loss|" train lm --lha.ha
offers options_where_nothing_else_fits "$("$tool" info - --complete | cut -f 1 | tr '\n' '|')" info ""
[ "$(wc -l <out)" -gt 30 ] && passed all_options || failed all_options "$(wc -l <out)"
offers no_option_twice "$(cut -f 1 out | awk '!seen[$0]++' | tr '\n' '|')" info --
offers values_of_the_tool "train|valid|test|" eval --split ""
offers values_after_equals "--split=train|" eval --split=tr
offers values_of_the_library "lower|true|released|" train needle --gradient ""
offers values_of_one_mechanism "--lha.hash=mlp|" train needle --lha.hash=m
offers instruction_sets "$("$tool" info --json | python3 -c 'import json, sys; print("|".join(s["name"] for s in json.load(sys.stdin)["instruction_sets"]))')|auto|" info --isa ""
offers precisions "bf16|" info --precision b
offers inputs "iid|clustered|matched|same|" bench attention --input ""
offers presets "$("$tool" info --json | python3 -c 'import json, sys; print("|".join(dict.fromkeys(p for t in json.load(sys.stdin)["tasks"] for p in t["presets"])))')|" train --preset ""
offers a_preset "lra|lra-small|" train --preset lr
offers mechanisms "$(list "$mechanisms")|" attend --attention ""
offers mechanisms_of_a_list "local*5,lha|local*5,lsh|local*5,local|local*5,linear|local*5,linformer|local*5,longformer|local*5,lss|" train needle --attention "local*5,l"
offers mechanisms_of_layers "--attention=yoso/softmax|" train needle --attention=yoso/sof
offers numbers_have_no_values "" eval --num-hashes ""
offers numbers_in_lists_are_no_files "" bench error --seq-len ""
offers arrays ":files npy|" attend --q ""
offers parameters ":files safetensors|" attend --params=
offers files ":files|" predict "run one" ""
offers runs ":directories|" predict --num-hashes 4 ""
offers directories ":directories|" data needle --out ""
offers operands_after_dashes ":directories|" eval -- --
offers nothing_after_the_operands "" eval run x
offers further_runs ":directories|" report one two ""
offers results ":files json|" report one --bench a.json --bench ""
offers nothing_for_no_option "" eval --xyzzy
offers unknown_option_has_no_value ":directories|" eval --xyzzy r
run trian "" --complete
[ "$code" = 2 ] && [ ! -s out ] && passed no_such_command || failed no_such_command "code $code, $(cat out)"

# complete_line NAME LINE WANT: the shell completes the last word of LINE; WANT has the results, separated by |.
if command -v bash >/dev/null; then
    cat >complete.bash <<'B'
. "$1/cli/completions/hashattn.bash"
compopt() { :; }
# As readline splits words: an equals sign is a word of its own.
read -ra COMP_WORDS <<<"${2//=/ = }"
[[ $2 == *[\ =] ]] && { [[ $2 == *= ]] || COMP_WORDS+=(""); }
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_hashattn hashattn
printf '%s\n' "${COMPREPLY[@]}"
B
    complete_line() {
        got=$(cd here && bash ../complete.bash "$source_dir" "$2" 2>&1 | sort | tr '\n' '|')
        [ "$got" = "$3" ] && passed "bash_$1" || failed "bash_$1" "got '$got', want '$3'"
    }
    complete_line commands "hashattn in" "info|inspect|"
    complete_line options "hashattn eval --sp" "--split|"
    complete_line values "hashattn eval --split " "test|train|valid|"
    complete_line values_after_equals "hashattn eval --split=" "test|train|valid|"
    complete_line values_begun_after_equals "hashattn eval --split=t" "test|train|"
    complete_line next_after_equals "hashattn eval --split=test --da" "--data|"
    complete_line files "hashattn predict run " "a.npy|b.txt|c d.npy|run one|"
    complete_line arrays "hashattn attend --q " "a.npy|c d.npy|run one|"
    complete_line arrays_after_equals "hashattn attend --q=c" "c d.npy|"
    complete_line directories "hashattn eval r" "run one|"
    complete_line nothing "hashattn eval --xyzzy" "|"
else
    echo "SKIPPED: completion in bash (not installed)"
fi

if command -v fish >/dev/null; then
    complete_line() {
        got=$(cd here && HOME=$work fish -c "source '$source_dir/cli/completions/hashattn.fish'; complete -C '$2'" 2>&1 | cut -f 1 | sort | tr '\n' '|')
        [ "$got" = "$3" ] && passed "fish_$1" || failed "fish_$1" "got '$got', want '$3'"
    }
    complete_line commands "hashattn in" "info|inspect|"
    complete_line options "hashattn eval --sp" "--split|"
    complete_line values "hashattn eval --split " "test|train|valid|"
    complete_line values_after_equals "hashattn eval --split=v" "--split=valid|"
    complete_line files "hashattn predict run " "a.npy|b.txt|c d.npy|run one/|"
    complete_line arrays_after_equals "hashattn attend --q=c" "--q=c d.npy|"
    complete_line directories "hashattn eval r" "run one/|"
else
    echo "SKIPPED: completion in fish (not installed)"
fi

if command -v zsh >/dev/null; then
    # On a terminal of its own: what the line becomes after two tabs.
    cat >zsh.py <<'P'
import os, pty, re, select, sys, time
folder, line, want = sys.argv[1:]
process, terminal = pty.fork()
if process == 0:
    os.environ.update(TERM="dumb", PS1="ready> ")
    os.execvp("zsh", ["zsh", "-f", "-i"])
def read_until(pattern, seconds=60):
    text, end = "", time.monotonic() + seconds
    while not re.search(pattern, text) and time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            text += os.read(terminal, 65536).decode(errors="replace").replace("\a", "")
    return text
def send(text):
    os.write(terminal, text.encode())
read_until("ready> ")
send(f"fpath=('{folder}' $fpath); autoload -Uz compinit; compinit -u -D; stty cols 200; print set-'up'\n")
read_until("set-up\r\n(.|\n)*ready> ")
send(line + "\t\t")
text = read_until(want, 20)
send("\x03\x04")
os.close(terminal)
os.waitpid(process, 0)
sys.exit(0 if re.search(want, text) else repr(text))
P
    complete_line() { holds "zsh_$1" sh -c 'cd here && python3 ../zsh.py "$@"' zsh "$source_dir/cli/completions" "$2" "$3"; }
    complete_line commands "hashattn ins" "hashattn inspect "
    complete_line options "hashattn eval --sp" "hashattn eval --split "
    complete_line values "hashattn eval --split " "test +train +valid"
    complete_line values_after_equals "hashattn eval --split=va" "hashattn eval --split=valid "
    complete_line arrays_after_equals "hashattn attend --q=c" 'hashattn attend --q=c\\ d.npy '
    complete_line directories "hashattn eval r" 'run\\ one/'
else
    echo "SKIPPED: completion in zsh (not installed)"
fi
finish
