#!/bin/sh
# tools/demo.py with short sequences: every row of both tables, and a picture with every point of every curve.
# Planted and caught: a field of `bench attention`, of `train` or of the log by another name; the curves of one
# mechanism drawn for both; words outside the picture; an & in the name of the machine; the limit of
# time not handed on.
. "$(dirname "$0")/checks.sh"

PYTHONDONTWRITEBYTECODE=1 python3 "$source_dir/tools/demo.py" "$build" --quick --out demo >out 2>err && passed demo_runs ||
    { failed demo_runs "$(tail -n 5 err)"; finish; }
for row in ' 256 .* ms .* ms  *[0-9.]*x' ' 512 .* ms .* ms ' ' 1,024 .* ms$' 'needle: 128 tokens, 8 of them' \
    'accuracy on 100 new sequences .* % .* %' 'most frequent class .* % .* %' 'every 20 steps  *[^ ][^ ]*  *[^ ][^ ]*$' \
    'steps of training  *40  *40$' 'end of training  *out of steps  *out of steps$' 'time of a training step .* ms .*x$' \
    'peak memory .* MiB .* MiB .*x$'; do
    grep -q -- "$row" out || { failed rows_of_the_demo "no line like '$row'"; finish; }
done
passed rows_of_the_demo
head -n -2 out | cmp -s - demo/demo.txt && passed text_is_kept || failed text_is_kept "$(diff out demo/demo.txt | head -n 5)"

PYTHONDONTWRITEBYTECODE=1 python3 "$source_dir/tools/demo.py" "$build" --quick --seconds 0 --out short >out 2>err
if [ $? = 1 ] && grep -q 'yoso had no evaluation within its 0.01 s: [0-9]* of 20 steps; --seconds' err; then
    passed stops_in_time
else
    failed stops_in_time "$(tail -n 5 err)"
fi

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
