"""Densities, outliers and modes of points in the plane, as the picture density.svg. Needs NumPy.

    python density_picture.py [FILE.svg]

SPDX-License-Identifier: Apache-2.0
"""

import sys

import numpy as np

import hashattn

SIZE, CELL, LEVELS = (640, 400), 8, 9
rng = np.random.default_rng(2)
arc = rng.uniform(0, np.pi, 1500)
rows = np.concatenate([
    np.stack([3 * np.cos(arc), 3 * np.sin(arc)], 1) + rng.normal(0, 0.25, (1500, 2)),  # an arc
    rng.normal([0, 0], 0.35, (700, 2)),  # a cloud below it
    rng.uniform([-5, -2], [5, 4.25], (22, 2)),  # and what belongs to neither
]).astype(np.float32)


def place(points):
    """Where points of [-5, 5] x [-2, 4.25] are in the picture."""
    return (points - [-5, 4.25]) * [SIZE[0] / 10, -SIZE[1] / 6.25]


# 12 bits see about a fifth of the plane's width; 512 hashes make the picture smooth.
sketch = hashattn.Density(num_hashes=512, hash_bits=12, map="euclidean", seed=1).fit(rows)
densities = sketch.score(rows)
lowest = np.argsort(densities)[:22]

columns, lines = SIZE[0] // CELL, SIZE[1] // CELL
x, y = np.meshgrid((np.arange(columns) + 0.5) * 10 / columns - 5, 4.25 - (np.arange(lines) + 0.5) * 6.25 / lines)
grid = sketch.score(np.stack([x.ravel(), y.ravel()], 1)).reshape(lines, columns)
level = np.minimum(LEVELS * grid / np.quantile(grid, 0.995), LEVELS - 1).astype(int)

# Mean shift from some of the rows: where many end is a mode.
moved = sketch.shift(rows[::20], rows, steps=30)

svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE[0]} {SIZE[1]}" font-family="sans-serif" font-size="13">',
       f'<rect width="{SIZE[0]}" height="{SIZE[1]}" fill="#fff"/>']
for line in range(lines):
    start = 0
    for column in range(1, columns + 1):  # cells of one level are one rectangle
        if column == columns or level[line, column] != level[line, start]:
            if level[line, start] > 0:
                shade = 255 - 19 * int(level[line, start])
                svg.append(f'<rect x="{CELL * start}" y="{CELL * line}" width="{CELL * (column - start)}" height="{CELL}" '
                           f'fill="rgb({shade},{(shade + 255) // 2},255)"/>')
            start = column
dots = "".join(f"M{x:.0f} {y:.0f}h1" for x, y in place(rows[::4]))
svg.append(f'<path d="{dots}" stroke="#345" stroke-width="1.5" stroke-linecap="round" opacity="0.6"/>')
svg += [f'<circle cx="{x:.0f}" cy="{y:.0f}" r="6" fill="none" stroke="#c22" stroke-width="2"/>' for x, y in place(rows[lowest])]
dots = "".join(f"M{x - 4:.0f} {y:.0f}h8m-4 -4v8" for x, y in np.unique(np.round(place(moved)), axis=0))
svg.append(f'<path d="{dots}" stroke="#e80" stroke-width="2"/>')
svg.append("</svg>")
with open(sys.argv[1] if len(sys.argv) > 1 else "density.svg", "w") as file:
    file.write("\n".join(svg) + "\n")
print(f"{len(set(lowest) & set(range(2200, 2222)))} of 22 outliers are among the 22 rows of lowest density")
