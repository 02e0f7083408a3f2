# SPDX-License-Identifier: Apache-2.0
"""The picture of the demo, written as SVG: time over length on logarithmic axes, accuracy over seconds of training."""

from itertools import count
from math import ceil, floor, log10
from xml.sax.saxutils import escape

COLOURS = {"yoso": "#c2410c", "softmax": "#1d4ed8"}
WIDTH, HEIGHT = 900, 396
TOP, BOTTOM = 64, 310  # of both plots


def sparkline(curve):
    """A curve of shares between 0 and 1 as a row of bars."""
    return "".join("▁▂▃▄▅▆▇█"[min(int(8 * share), 7)] for _, share in curve)


def text(x, y, words, anchor="middle", colour="#334155", extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"{extra}>{escape(words)}</text>'


class Plot:
    """A rectangle with a title, axes and curves; x and y map values to pixels."""

    def __init__(self, left, right, x_range, y_range, logarithmic):
        self.left, self.right = left, right
        self.scale = log10 if logarithmic else float
        self.x_range, self.y_range = x_range, y_range
        self.parts = []

    def place(self, value, bounds, start, end):
        low, high = map(self.scale, bounds)
        return start + (self.scale(value) - low) / (high - low) * (end - start)

    def x(self, value):
        return self.place(value, self.x_range, self.left, self.right)

    def y(self, value):
        return self.place(value, self.y_range, BOTTOM, TOP)

    def axes(self, title, x_name, y_name, x_ticks, y_ticks):
        """Ticks are pairs of a value and its label."""
        middle = (self.left + self.right) / 2
        self.parts.append(text(middle, TOP - 22, title, colour="#0f172a", extra=' font-size="15" font-weight="600"'))
        for value, label in y_ticks:
            y = self.y(value)
            self.parts.append(f'<path d="M{self.left} {y:.1f}H{self.right}" stroke="#e2e8f0"/>')
            self.parts.append(text(self.left - 8, y + 4, label, "end"))
        for value, label in x_ticks:
            x = self.x(value)
            self.parts.append(f'<path d="M{x:.1f} {BOTTOM}v5" stroke="#94a3b8"/>')
            self.parts.append(text(x, BOTTOM + 20, label))
        self.parts.append(f'<path d="M{self.left} {BOTTOM}H{self.right}" stroke="#94a3b8"/>')
        self.parts.append(text(middle, BOTTOM + 42, x_name))
        x, y = self.left - 58, (TOP + BOTTOM) / 2
        self.parts.append(text(x, y, y_name, extra=f' transform="rotate(-90 {x} {y})"'))

    def curve(self, name, points):
        path = "L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in points)
        colour = COLOURS[name]
        self.parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        self.parts.extend(f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="3.5" fill="{colour}"/>'
                          for x, y in points)

    def note(self, x, y, words, anchor, colour, bold=False):
        """Words at a point in pixels."""
        self.parts.append(text(x, y, words, anchor, colour, ' font-weight="600"' if bold else ""))


def time_ticks(low, high):
    """Powers of ten of milliseconds."""
    labels = {-2: "10 µs", -1: "0.1 ms", 0: "1 ms", 1: "10 ms", 2: "0.1 s", 3: "1 s", 4: "10 s", 5: "100 s"}
    return [(10.0**power, labels.get(power, f"1e{power} ms")) for power in range(low, high + 1)]


def speed_plot(points):
    """Time of a forward and backward pass over tokens."""
    times = [value for curve in points.values() for _, value in curve]
    lengths = sorted({length for curve in points.values() for length, _ in curve})
    low = floor(log10(min(times)))
    high = max(low + 1, ceil(log10(max(times))))
    plot = Plot(90, 420, (lengths[0], max(lengths[-1], 2 * lengths[0])), (10.0**low, 10.0**high), True)
    plot.axes("Attention, forward and backward", "sequence length n (tokens)", "time",
              [(n, f"{n:,}") for n in lengths[::2]], time_ticks(low, high))
    for name, curve in points.items():
        plot.curve(name, curve)
        length, value = curve[-1]
        plot.note(plot.x(length) - 10, plot.y(value) + (-6 if name == "softmax" else 46), name, "end", COLOURS[name], True)
    return plot


def learning_plot(curves, majority, learned, tokens):
    """Validation accuracy over seconds of training."""
    curves = {name: curve for name, curve in curves.items() if curve}  # empty: out of time before the first evaluation
    longest = max((curve[-1][0] for curve in curves.values()), default=1)
    step = next(s for power in count() for s in (10**power, 2 * 10**power, 5 * 10**power) if longest / s <= 8)
    plot = Plot(540, 860, (0, 1.1 * longest), (0, 1.1), False)
    plot.axes(f"Learning needle, {tokens:,} tokens", "training time (s)", "validation accuracy",
              [(s, f"{s}") for s in range(0, int(1.1 * longest) + 1, step)], [(i / 4, f"{25 * i} %") for i in range(5)])
    if majority is not None:
        y = plot.y(majority)
        plot.parts.append(f'<path d="M{plot.left} {y:.1f}H{plot.right}" stroke="#64748b" stroke-dasharray="4 4"/>')
        plot.note(plot.right, y + 16, "most frequent class", "end", "#64748b")
    for name, curve in curves.items():
        plot.curve(name, curve)
        seconds, accuracy = curve[-1]
        words = f"{name}, {seconds:.0f} s" if accuracy >= learned else f"{name}, unfinished"
        plot.note(plot.x(seconds), plot.y(accuracy) - 10, words, "middle", COLOURS[name], True)
    return plot


def draw(machine, points, curves, majority, learned, tokens):
    """The SVG. machine: words; points: (tokens, milliseconds) and curves: (seconds, accuracy) of each mechanism;
    majority: accuracy of the most frequent class, None if unknown; learned: accuracy that ends a training."""
    parts = [part for plot in (speed_plot(points), learning_plot(curves, majority, learned, tokens)) for part in plot.parts]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="12.5">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#ffffff"/>', *parts,
        text(WIDTH / 2, HEIGHT - 10, machine, colour="#64748b"), "</svg>", ""])
