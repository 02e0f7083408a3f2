#!/bin/sh
# tools/demo.py with short sequences: every row of both tables, and a picture with every point of every curve. On a slow
# machine it ends well: shorter sequences, fewer lengths, and tables without what was not reached.
# Planted and caught: a field of `bench attention`, of `train` or of the log by another name; the curves of one
# mechanism drawn for both; words outside the picture; an & in the name of the machine; the limit of
# time not handed on; the end of a training without an evaluation; the length of needle not chosen by the time of softmax;
# lengths measured without regard to the time left.
# Faults that it shows: Ctrl-C as a traceback; a second training after Ctrl-C; a picture that needs an evaluation, or two
# lengths.
. "$(dirname "$0")/checks.sh"

PYTHONDONTWRITEBYTECODE=1 python3 "$source_dir/tools/demo.py" "$build" --quick --out demo >out 2>err && passed demo_runs ||
    { failed demo_runs "$(tail -n 5 err)"; finish; }
for row in ' 256 .* ms .* ms  *[0-9.]*x' ' 512 .* ms .* ms ' ' 1,024 .* ms$' 'needle: 512 tokens, 32 of them' \
    'accuracy on 100 new sequences .* % .* %' 'most frequent class .* % .* %' 'every 20 steps  *[^ ][^ ]*  *[^ ][^ ]*$' \
    'steps of training  *40  *40$' 'end of training  *out of steps  *out of steps$' 'time of a training step .* ms .*x$' \
    'peak memory .* MiB .* MiB .*x$'; do
    grep -q -- "$row" out || { failed rows_of_the_demo "no line like '$row'"; finish; }
done
passed rows_of_the_demo
head -n -2 out | cmp -s - demo/demo.txt && passed text_is_kept || failed text_is_kept "$(diff out demo/demo.txt | head -n 5)"

# demo NAME BUILD ARGS...: runs the demo into the folder NAME. It must end well within two minutes, and later under sanitizers.
limit=${HASHATTN_SANITIZED:+1800}
demo() {
    name=$1 folder=$2
    shift 2
    PYTHONDONTWRITEBYTECODE=1 timeout "${limit:-600}" python3 "$source_dir/tools/demo.py" "$folder" --quick --out "$name" "$@" >out 2>err &&
        [ -s "$name/demo.txt" ] && python3 -c "import xml.etree.ElementTree as t; t.parse('$name/demo.svg')" &&
        passed "${name}_ends_well" || failed "${name}_ends_well" "exit code $?; $(tail -n 5 err)"
}
rows() { # rows NAME PATTERN...
    name=$1
    shift
    for row; do
        grep -q -- "$row" out || { failed "$name" "no line like '$row' in: $(cat out)"; return; }
    done
    passed "$name"
}

# No time at all: the first length is measured, and a training that is stopped is evaluated once.
demo no_time "$build" --seconds 0
rows shows_what_it_has ' 256 .* ms .* ms ' 'needle: 256 tokens (512 would take too long here), 16 of them' 'new sequences  *[0-9.]* %  *[0-9.]* %$' \
    'every 20 steps  *[^n ][^ ]*  *[^n ]' 'steps of training  *[1-9][0-9]*  *[1-9][0-9]*$' 'end of training  *out of time  *out of time$' \
    'time of a training step .* ms .* ms' 'peak memory .* MiB .* MiB' "^tools/demo.py $build --seconds 600$"
grep -q ' 512 .* ms' out && failed no_more_lengths "$(cat out)" || passed no_more_lengths

# Ctrl-C, which reaches the demo and the tool: the training ends with an evaluation, and the report has what there is.
# twice: it may end before the evaluation; in the first table: nothing more is measured.
cat >stop.py <<'P'
import os, signal, subprocess, sys, time
folder, word, signals, *command = sys.argv[1:]
signal.signal(signal.SIGINT, signal.default_int_handler)
with open("out", "wb") as out, open("err", "wb") as err:
    demo = subprocess.Popen([*command, "--out", folder], stdout=out, stderr=err, start_new_session=True)
    while demo.poll() is None and not (word.encode() in open("out", "rb").read() + open("err", "rb").read() and
                                       (word == "tokens" or os.path.exists(folder + "/yoso/config.json"))):
        time.sleep(0.02)
    for _ in range(int(signals)):
        os.killpg(demo.pid, signal.SIGINT)
        time.sleep(0.2)
    sys.exit(demo.wait())
P
stop() { # stop NAME WORD SIGNALS
    PYTHONDONTWRITEBYTECODE=1 timeout "${limit:-600}" python3 stop.py "$@" python3 "$source_dir/tools/demo.py" "$build" --quick
    code=$?
    [ "$code" = 130 ] && grep -q "demo: interrupted" err && ! grep -q Traceback err && passed "$1" || failed "$1" "$code $(cat out err)"
}
stop interrupted "needle, yoso" 1
rows interrupted_is_evaluated 'new sequences  *[0-9.]* %  *none$' 'steps of training  *[1-9][0-9]*  *none$' 'end of training  *interrupted  *none$'
grep -q 'continue with: hashattn train --resume interrupted/yoso' err && [ -s interrupted/demo.svg ] && passed interrupted_goes_on || failed interrupted_goes_on "$(cat err)"
stop twice "needle, yoso" 2
rows twice_ends 'end of training  *interrupted  *none$'
stop table tokens 1
grep -q needle out && failed table_is_the_end "$(cat out)" || passed table_is_the_end

# A tool that says that attention takes $SLOWER times as long, and that trains no longer than $LIMIT, if that is set.
mkdir slow
cat >slow/hashattn <<S
#!/bin/sh
case "\$1 \$2" in
'bench attention')
    "$tool" "\$@" | python3 -c '
import json, sys
result = json.load(sys.stdin)
result["forward_ms"] *= '\$SLOWER'
result["backward_ms"] *= '\$SLOWER'
print(json.dumps(result))' ;;
train*) case "\$*" in
    *'--attention softmax'*) exec "$tool" "\$@" \${LIMIT:+--max-seconds \$LIMIT} ;;
    *) exec "$tool" "\$@" ;;
    esac ;;
*) exec "$tool" "\$@" ;;
esac
S
chmod +x slow/hashattn
# One slow core: a pass of 256 tokens takes seconds, so one length is measured, and needle has the shortest sequences.
SLOWER=100000 HASHATTN_THREADS=1 demo slow_core slow
rows slow_core_learns_less ' 256 .* ms .* ms ' 'needle: 256 tokens (512 would take' 'new sequences .* % .* %$' 'every 20 steps  *[^n ][^ ]*  *[^n ]' \
    'steps of training  *40  *40$'
grep -q ' 512 .* ms' out && failed slow_core_stops_early "$(cat out)" || passed slow_core_stops_early
# One of the two is out of time: the other's results are shown.
SLOWER=1 LIMIT=0.000001 demo half slow
rows shows_the_other 'needle: 512 tokens, 32 of them' 'new sequences  *[0-9.]* %  *[0-9.]* %$' 'frequent class  *[0-9.]* %  *[0-9.]* %$' \
    'steps of training  *40  *[1-9]' 'end of training  *out of steps  *out of time$' '^tools/demo.py slow --seconds 600$'
holds picture_of_one grep -q 'softmax, unfinished' half/demo.svg
holds picture_of_the_other grep -q 'yoso, unfinished' half/demo.svg
# 450 passes of both must fit: from 2.7 s on 512 tokens, from 122.4 s on 4,096.
holds length_by_the_time_left python3 -B -c "
import sys
sys.argv = ['demo.py', '$build']
sys.path.insert(0, '$source_dir/tools')
import demo
points = {'yoso': [(256, 1), (512, 2), (1024, 4), (2048, 8), (4096, 16), (8192, 32)], 'softmax': [(256, 1), (512, 4), (1024, 16), (2048, 64), (4096, 256)]}
lengths = [demo.affordable_length(points, seconds) for seconds in (-1, 0.9, 2.6, 2.7, 9, 32, 122, 123, 1000)]
assert lengths == [256, 256, 256, 512, 1024, 1024, 2048, 4096, 4096], lengths"

cat >look.py <<'P'
import json, xml.etree.ElementTree as tree
svg = tree.parse("demo/demo.svg").getroot()
width, height = (float(svg.get(name)) for name in ("width", "height"))
name = lambda element: element.tag.rsplit("}", 1)[1]
dots = [element for element in svg.iter() if name(element) == "circle"]
colours = [dot.get("fill") for dot in dots]
# Lengths 256, 512, 1024 and two evaluations of yoso; lengths 256, 512 and two evaluations of softmax.
assert sorted(colours.count(colour) for colour in set(colours)) == [4, 5], colours
# Seconds of the log, from the tick labelled 0 on, in pixels.
zero = next(float(element.get("x")) for element in svg.iter() if element.text == "0")
shown = [float(dot.get("cx")) - zero for dot in dots[5:]]
logs = [map(json.loads, open(f"demo/{name}/log.jsonl")) for name in ("yoso", "softmax")]
logged = [entry["seconds"] for log in logs for entry in log if "valid_accuracy" in entry]
scale = max(shown) / max(logged)
assert all(abs(scale * seconds - x) < 1 for seconds, x in zip(logged, shown)), (logged, shown)
for element in svg.iter():
    x, y = (element.get("cx") or element.get("x"), element.get("cy") or element.get("y"))
    assert x is None or (0 <= float(x) <= width and 0 <= float(y) <= height), (element.tag, x, y)
words = [element.text for element in svg.iter() if name(element) == "text"]
for word in ("sequence length n (tokens)", "time", "training time (s)", "validation accuracy", "yoso", "softmax", "1,024"):
    assert word in words, word
P
holds picture_shows_every_point python3 look.py
holds words_are_escaped_and_honest python3 -B -c "
import sys, xml.etree.ElementTree as tree
sys.path.insert(0, '$source_dir/tools')
import demo_picture
curves = {'yoso': [(1, 0.5)], 'softmax': []}
svg = demo_picture.draw('A & B <C>', {'yoso': [(256, 1), (512, 2)], 'softmax': [(256, 1)]}, curves, 0.1, 0.99, 256)
words = list(tree.fromstring(svg).itertext())
assert 'A & B <C>' in words and 'yoso, unfinished' in words, words"
finish
