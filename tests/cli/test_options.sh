#!/bin/sh
# The command line: what is read as a value, where options end, limits of the tables, the layout of every help, and every
# suggestion, which a program of its own derives from the names.
# Planted and caught: --isa or --quiet left out; every distance 0; a loop over one name too many; operands that are not kept;
# flags of the library not found; help that does not name the task; hexadecimal numbers; numbers too small for anything but 0.
# Covers: arguments.c command_options.c suggest.c
. "$(dirname "$0")/checks.sh"

# Whole numbers and numbers: all of the text is read, and both ends of a range belong to it.
for value in "" 1x x -1 " -1" 18446744073709551616; do
    expect "seed_is_no_number_'$value'" 2 "--seed is '$value'; it must be a whole number from 0 to 2^64 - 1 (see hashattn info --help)" info "--seed=$value"
done
for value in "" 7x -0 1000000001; do
    expect "count_is_no_number_'$value'" 2 "--examples is '$value'; it must be a whole number from 0 to 1000000000 (" inspect run "--examples=$value"
done
for value in "" 7x nan -0.1 1000000001 0x10 1e-400 1e400; do
    expect "number_is_none_'$value'" 2 "--max-seconds is '$value'; it must be a number from 0 to 1e+09 (" train needle "--max-seconds=$value"
done
says largest_count "softmax" info --attention softmax --head-dim 65536
expect larger_count 2 "--head-dim is '65537'" info --attention softmax --head-dim 65537
expect least_number 1 "no m up to 128 is predicted" bench suggest --seq-len 8 --error 0.001
says largest_number "--num-hashes 1 " bench suggest --seq-len 8 --error 1.5 --heads 1

# Flags of the library: alone, negated, with a value.
flag() { # flag NAME WANT ARGS...: the value of lha's flag `joint`
    name=$1 want=$2
    shift 2
    says "$name" "\"joint\": \"$want\"" bench attention --attention lha --seq-len 8 --heads 1 --head-dim 4 --repeats 1 --json "$@"
}
flag flag_is_false false
flag flag_alone true --joint
flag flag_of_one_mechanism true --lha.joint
flag flag_negated false --joint --no-joint
flag flag_with_a_value false --joint --joint=false
expect negated_flag_has_no_value 2 "--no-joint takes no value" bench attention --no-joint=true
expect negation_has_a_dash 2 "info has no option --no_joint" info --no_joint
expect only_flags_are_negated 2 "info has no option --no-num-hashes" info --no-num-hashes

# A usage error points to the help of the task that the line names.
expect help_of_the_task 2 "train has no option --nope (see hashattn train text --help)" train text --nope
expect help_without_a_task 2 "train has no option --nope (see hashattn train --help)" train --nope text

expect long_name 2 "info has no option --$(printf '%063d' 1) (see" info "--$(printf '%063d' 1)"
expect longer_name 2 "info has no option --$(printf '%063d' 1) (see" info "--$(printf '%063d' 1)x"

# Where options end; operands; the limit of options of the library.
for word in -j --json -h --help; do
    expect "operand_$word" 2 "info takes no operand, got '$word' (see" info -- $word
done
expect four_operands 2 "info takes no operand, got 'a' (see" info a b c d
expect most_operands 2 "info takes no operand, got '1' (see" info $(seq 1024)
expect too_many_operands 2 "more than 1024 operands; the first one too many is 'last' (see" info $(seq 1024) last
many() { count=$1; shift; while [ "$count" -gt 0 ]; do set -- "$@" --num-hashes 3; count=$((count - 1)); done; run "$@"; }
many 64 info --attention yoso
[ "$code" = 0 ] && passed most_settings || failed most_settings "$(cat err)"
many 65 info --attention yoso
[ "$code" = 2 ] && grep -q "more than 64 options of mechanisms, task, model and training (see" err && passed too_many_settings || failed too_many_settings "$(cat err)"

cat >judge.py <<'P'
import json, re, subprocess, sys
tool = sys.argv[1]
def ran(*words):
    return subprocess.run([tool, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
def distance(a, b):
    if not a or not b:
        return len(a) + len(b)
    rows = {(i, j): i + j for i in range(len(a) + 1) for j in range(len(b) + 1) if i * j == 0}
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            rows[i, j] = min(rows[i - 1, j - 1] + (a[i - 1] != b[j - 1]), rows[i - 1, j] + 1, rows[i, j - 1] + 1)
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                rows[i, j] = min(rows[i, j], rows[i - 2, j - 2] + 1)
    return rows[len(a), len(b)]
def near(word, names, prefix):
    limit = 1 if len(word) < 6 else len(word) // 3
    away = {name: distance(word, name) for name in names}
    least = min(away.values())
    found = [name for name in names if away[name] == least <= limit and least < len(name)]
    found += [name for name in names if name.startswith(word) and name not in found]
    return "; did you mean " + ", ".join(prefix + name for name in found[:3]) + "?" if found and len(word) > 1 and len(word) < 49 else ""
def words_near(names):
    for name in names:
        third = max(1, len(name) // 3)
        yield from (name[:-1] + "~", "~" + name, name[1:], name[1:2] + name[:1] + name[2:], name[:3], name[:1], name[:-2] + "~~~",
                    "~" * third + name[third:], "~" * (third + 1) + name[third + 1:], name + "~" * third, name + "~~~~")
    yield from ("x" * 20, "x" * 48, "x" * 49, "train" * 12)

def suggestions():
    commands = "info attend data train eval predict inspect bench".split()
    for word in sorted(set(words_near(commands)) - set(commands)):
        want = f"hashattn: no command '{word}'{near(word, commands, '')} (see hashattn --help)\n"
        got = ran(word)
        assert (got.returncode, got.stderr, got.stdout) == (2, want[:15] + want[15:].replace(word, word[:60], 1), ""), (got, want)
    own = "threads isa precision seed json quiet help attention q k v mask params causal chunk out grad-out grad-dir".split()
    names = list(own)
    for mechanism in json.loads(ran("info", "--json").stdout)["mechanisms"]:
        for option in json.loads(ran("info", "--json", "--attention", mechanism["name"]).stdout)["options"]:
            if (dashed := option["name"].replace("_", "-")) not in names:
                names.append(dashed)
    for word in sorted(set(words_near(own + names[-6:])) - set(names)):
        got = ran("attend", "--" + word + "=1")
        want = f"hashattn: attend has no option --{word}{near(word, names, '--')} (see hashattn attend --help)\n"
        assert (got.returncode, got.stderr, got.stdout) == (2, want, ""), (got, want)

def helps():
    for command in ("info", "attend", "data", "train", "train lm", "eval", "predict", "inspect", "bench", "bench attention", "bench error",
                    "bench layer", "bench peak", "bench step", "bench stream", "bench suggest"):
        text = ran(*command.split(), "--help").stdout
        assert ran(*command.split(), "-h").stdout == text
        assert ("\noptions:\n" in text) == (command != "bench"), command
        lines = text.split("\n\nexample:\n")[0].split("\n")
        assert sum(line.startswith("  --") for line in lines) > 6
        for line, after in zip(lines, lines[1:] + [""]):
            alone = re.fullmatch(r"  --[\w.-]+( \S+)?", line)  # a name of 30 columns or more has a line of its own
            if alone:
                assert len(line) >= 30 and after.startswith(" " * 30), line
            elif line.startswith("  --"):
                assert line[29] == " " != line[30], line
            if after.startswith(" " * 30):
                assert after[30] != " " and len(after) <= 80 and (alone or len(line) + 1 + len(after.split()[0]) > 80), (line, after)

globals()[sys.argv[2]]()
P
holds every_suggestion python3 judge.py "$tool" suggestions
holds every_help python3 judge.py "$tool" helps
finish
