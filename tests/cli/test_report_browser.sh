#!/bin/sh
# `report` in a browser: Chromium without a window opens pages at 1280 and 400 pixels, in light and dark. Nothing is cut or
# overlaps, no script fails, every picture has a text, the table of runs fits 1280 pixels, a click on a head sorts a column and
# a second one turns it round, and a point of a curve shows its values.
# Planted and caught: a fixed width of 600 pixels for figures; ticks of 30 pixels; a variable that the script does not define;
# a picture without a text; cells of the table of runs that do not wrap; numbers sorted as text; "-" sorted as a number; a tip
# that stays hidden; muted text in the colour of the grid.
# Covers: html.c plot.c
. "$(dirname "$0")/checks.sh"
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
[ -n "$browser" ] || { echo "SKIPPED: report in a browser (no chromium)"; exit 0; }
tiny="--layers 1 --dim 16 --heads 2 --ffn 16 --batch 4 --threads 1 --quiet"

# ---- pages ----
for data in needles haystack-of-a-longer-name; do
    "$tool" data needle --out $data --train 40 --valid 12 --test 5 --seq-len 16 --marks 4 --seed 3 --quiet
done
for seed in 1 2; do
    "$tool" train needle --data needles --out yoso-$seed --steps 30 --eval-every 10 --seed $seed --num-hashes 16 $tiny
done
"$tool" train needle --data needles --out baseline-with-a-long-name --attention softmax --steps 400 --eval-every 40 $tiny
"$tool" train needle --data haystack-of-a-longer-name --out heads-of-two-kinds --attention local,lha --lha.num-buckets 4 --steps 50 --eval-every 25 --dropout 0.3 $tiny
"$tool" train needle --data needles --out stopped --steps 30 --eval-every 10 --max-seconds 0.0001 $tiny
for n in 64 128 256; do
    "$tool" bench attention --seq-len $n --heads 2 --backward --repeats 1 --num-hashes 8 --threads 1 --json
    "$tool" bench layer --dim 16 --heads 2 --ffn 16 --seq-len $n --repeats 1 --threads 1 --json
done >bench.json
"$tool" inspect heads-of-two-kinds --examples 1 --json >inspect.json
"$tool" report yoso-1 yoso-2 baseline-with-a-long-name heads-of-two-kinds stopped --bench bench.json --bench inspect.json --figures --out report.html --quiet
for i in $(seq 14); do cp -r yoso-1 many-$i; done
"$tool" report many-* baseline-with-a-long-name --out many.html --quiet

# ---- what is looked at, in a frame of the width ----
cat >look.js <<'J'
const found = {errors: [], cut: [], overlapping: [], untold: [], pale: []};
const name = e => e.tagName + '.' + (e.getAttribute('class') || '') + ' ' + (e.textContent || '').trim().slice(0, 40);
const meets = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
const colour = text => text.match(/[\d.]+/g).map(Number);
const light = c => c.slice(0, 3).map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
function look(frame) {
    const view = frame.contentWindow, page = frame.contentDocument, all = s => [...page.querySelectorAll(s)];
    found.width = view.innerWidth;
    found.dark = view.matchMedia('(prefers-color-scheme: dark)').matches;
    found.background = view.getComputedStyle(page.body).backgroundColor;
    if (page.documentElement.scrollWidth > view.innerWidth) found.cut.push('the page is ' + page.documentElement.scrollWidth + ' wide');
    for (const e of all('h1, h2, h3, p, figure, figcaption, .legend li, .frame, svg[role=img], pre, nav, section')) {
        const box = e.getBoundingClientRect();
        if (box.width > 0 && (box.left < -.5 || box.right > view.innerWidth + .5)) found.cut.push(name(e));
    }
    for (const svg of all('svg[role=img]')) {
        const frame = svg.getBoundingClientRect(), texts = [...svg.querySelectorAll('text')].map(t => [t, t.getBoundingClientRect()]);
        if (frame.width === 0) continue;
        texts.forEach(([t, a], i) => {
            if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1 || a.bottom > frame.bottom + 1) found.cut.push('text ' + name(t));
            texts.slice(i + 1).forEach(([u, b]) => { if (meets(a, b)) found.overlapping.push(name(t) + ' and ' + name(u)); });
        });
    }
    const boxes = all('figure, h2, h3, section > p').filter(e => e.checkVisibility()).map(e => [e, e.getBoundingClientRect()]);
    boxes.forEach(([e, a], i) => boxes.slice(i + 1).forEach(([o, b]) => {
        if (!e.contains(o) && !o.contains(e) && meets(a, b)) found.overlapping.push(name(e) + ' and ' + name(o)); }));
    for (const svg of all('svg'))
        if (svg.getAttribute('aria-hidden') !== 'true' && !(svg.getAttribute('role') === 'img' && (svg.getAttribute('aria-label') || '').length > 10)) found.untold.push(name(svg));
    for (const e of all('h1, p, figcaption, .legend li, th, td:not([style]), svg text')) {
        const style = view.getComputedStyle(e), ink = e.closest('svg') ? style.fill : style.color;
        const panel = e.closest('figure, pre'), paper = view.getComputedStyle(panel || page.body).backgroundColor;
        const ratio = contrast(colour(ink), colour(paper));
        if (ratio < 4.5) found.pale.push(name(e) + ' ' + ratio.toFixed(1));
    }
    const runs = page.querySelector('.runs .scroll');
    found.runs = runs ? [runs.scrollWidth, runs.clientWidth] : null;
    const table = page.querySelector('.runs table'), heads = [...table.tHead.rows[0].cells];
    const column = i => [...table.tBodies[0].rows].map(r => r.cells[i].textContent.trim());
    found.sorted = {};
    for (const [i, h] of heads.entries()) {
        h.click(); const up = column(i);
        h.click(); found.sorted[h.textContent.trim()] = [up, column(i), h.getAttribute('aria-sort')];
    }
    const plot = page.querySelector('figure.plot'), svg = plot.querySelector('svg'), box = svg.getBoundingClientRect();
    svg.dispatchEvent(new view.PointerEvent('pointermove', {clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true}));
    const tip = plot.querySelector('.tip');
    found.tip = tip.hidden ? '' : tip.textContent;
    found.scale = [...page.querySelectorAll('figure.plot')].map(f => [f.querySelector('figcaption').textContent, f.querySelector('svg').dataset.x]);
}
J
cat >look.py <<'P'
"""look.py BROWSER PAGE WIDTH dark|light: what look.js finds, as JSON."""
import html, json, re, subprocess, sys
browser, page, width, scheme = sys.argv[1:]
text = open(page, encoding="utf-8").read()
text = text.replace("<title>", "<script>onerror = m => parent.found.errors.push(String(m))</script><title>", 1)
frame = f'<iframe style="border:0;width:{width}px;height:1200px" srcdoc="{html.escape(text)}"></iframe>'
outer = f"<!doctype html><meta charset=utf-8><body style='margin:0'><script>{open('look.js').read()}</script>{frame}<pre id=found></pre>" \
    "<script>const frame = document.querySelector('iframe'); frame.onload = () => { try { look(frame) } catch (e) { found.errors.push('look: ' + e) }" \
    "document.getElementById('found').textContent = JSON.stringify(found) }</script>"
open("outer.html", "w", encoding="utf-8").write(outer)
scheme = {"dark": 0, "light": 1}[scheme]
import os
shown = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,1300", f"--user-data-dir={os.getcwd()}/profile",
                        f"--blink-settings=preferredColorScheme={scheme}", "--virtual-time-budget=20000", "--dump-dom", "file://" + os.path.abspath("outer.html")],
                       capture_output=True, text=True, timeout=300).stdout
print(html.unescape(re.search(r'<pre id="found">(.*?)</pre>', shown, re.S)[1]))
P
cat >judge.py <<'P'
import json, sys
name, what = sys.argv[1:]
d = json.load(open(name))
width, scheme = int(name.split(".")[1]), name.split(".")[2]
def ordered(cells, down):
    full = [c for c in cells if c != "-" and c != ""]
    assert cells[:len(full)] == full, ("empty cells come last", cells)
    try:
        keys = [float(c.split()[0]) for c in full]
    except ValueError:
        return
    assert keys == sorted(keys, reverse=down), (cells, down)
if what == "fits":
    assert d["width"] == width and not d["cut"], d["cut"][:5]
if what == "overlaps_nothing":
    assert not d["overlapping"], d["overlapping"][:5]
if what == "runs_no_failing_script":
    assert not d["errors"], d["errors"]
if what == "tells_its_pictures":
    assert not d["untold"], d["untold"][:5]
if what == "has_colours_of_the_scheme":
    assert d["dark"] == (scheme == "dark") and d["background"] == {"dark": "rgb(20, 24, 28)", "light": "rgb(255, 255, 255)"}[scheme], (d["dark"], d["background"])
    assert not d["pale"], d["pale"][:5]
if what == "fits_the_runs":
    assert width < 1280 or d["runs"][0] <= d["runs"][1], d["runs"]
if what == "sorts":
    assert len(d["sorted"]) == 14, list(d["sorted"])
    for up, down, state in d["sorted"].values():
        assert state == "descending" and sorted(up) == sorted(down)
        ordered(up, False), ordered(down, True)
if what == "shows_values":
    assert any(c.isdigit() for c in d["tip"]) and len(d["tip"]) > 5, d["tip"]
P
for page in report many; do
    for width in 1280 400; do
        for scheme in light dark; do
            found=$page.$width.$scheme
            python3 look.py "$browser" $page.html $width $scheme >$found 2>err || { failed "opens_$found" "$(tail -n 2 err)"; continue; }
            for what in fits overlaps_nothing runs_no_failing_script tells_its_pictures has_colours_of_the_scheme fits_the_runs sorts shows_values; do
                holds "${what}_$found" python3 judge.py $found $what
            done
        done
    done
done
holds long_and_short_runs_share_a_logarithmic_axis python3 -c '
import json
scales = dict(json.load(open("report.1280.light"))["scale"])
loss = [x for name, x in scales.items() if name.endswith("validation loss over steps")]
assert loss and loss[0].split()[2] == "1", scales'
finish
