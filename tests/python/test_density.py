"""Sketches of densities: scores against the kernel, the tool's bits, shards, windows, gradients, and every bad input.

Planted and caught: rows of another order than C read as they lie; float64 read as float32; fit that keeps old rows; errors
returned in place of densities; what a mask hides as rows.
SPDX-License-Identifier: Apache-2.0
"""

import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

import hashattn
from conftest import ROOT, numbers, run_tool, same_bits
from hashattn import Density


def kernel(points, rows, bits):
    points, rows = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (points.astype(float), rows.astype(float)))
    return np.mean((1 - np.arccos(np.clip(points @ rows.T, -1, 1)) / np.pi) ** bits, axis=1)


def test_scores_are_near_the_kernel():
    rows, points = numbers(500, 8, seed=1) + 0.5, numbers(40, 8, seed=2)
    got, errors = Density(num_hashes=1000, hash_bits=4, seed=1).fit(rows).score(points, errors=True)
    z = (got - kernel(points, rows, 4)) / errors
    assert got.shape == errors.shape == (40,) and np.abs(z).max() < 4 and np.sqrt(np.mean(z ** 2)) < 1.5
    assert np.abs(errors / got).max() < 0.1


def test_larger_is_denser():
    rows = np.concatenate([numbers(500, 8, seed=1) + 3, [[-3.0] * 8]])
    score = Density(seed=1).fit(rows).score(rows)
    assert score.argmin() == 500 and score.dtype == np.float32


def test_the_bits_are_those_of_the_tool(tmp_path):
    rows = numbers(9000, 5)
    np.save(tmp_path / "x.npy", rows.astype(np.float64))
    for number, map in enumerate(["none", "euclidean"]):
        files = [tmp_path / name for name in ("s", "d.npy", "own")]
        run_tool("density", "fit", tmp_path / "x.npy", "--out", files[0], "--seed", 7, "--map", map)
        run_tool("density", "score", files[0], tmp_path / "x.npy", "--out", files[1])
        own = Density(seed=7, map=map).fit(rows)
        own.save(files[2])
        assert files[2].read_bytes() == files[0].read_bytes()
        assert same_bits(own.score(rows), np.load(files[1]))
        loaded = Density.load(files[0])
        assert loaded.rows == 9000 and loaded.map == map and loaded.seed == 7
        assert same_bits(loaded.score(rows), own.score(rows))


@pytest.mark.parametrize("map", ["none", "euclidean"])
def test_shards_and_windows(map):
    rows = numbers(3000, 6)
    whole = Density(seed=2, map=map).fit(rows)
    first, second = whole.like().add(rows[:1000]), whole.like().add(rows[1000:])
    assert same_bits(whole.like().merge(first).merge(second).score(rows), whole.score(rows))
    assert same_bits(whole.remove(rows[:1000]).score(rows), second.score(rows)) and whole.rows == 2000
    assert whole.fit(rows[:10]).rows == 10
    if map == "none":
        assert same_bits(Density(seed=2).merge(first).score(rows), first.score(rows))


def test_layouts_and_dtypes():
    rows = numbers(400, 6)
    want = Density().fit(rows).score(rows)
    for given in (np.asfortranarray(rows), rows[::-1][::-1], rows.tolist(), np.stack([rows, rows], 2)[:, :, 0],
                  rows.astype(np.float64)):
        assert same_bits(Density().fit(given).score(given), want)
    assert Density().fit(np.arange(12).reshape(4, 3)).rows == 4


def test_gradients_are_those_of_differences():
    rows, points = numbers(60, 3, seed=3), numbers(4, 3, seed=4)
    mean, log = np.zeros((4, 3)), None
    for seed in range(200):
        sketch = Density(num_hashes=64, hash_bits=3, seed=seed).fit(rows)
        densities, dpoints, drows = sketch.gradient(points, rows)
        assert np.allclose(densities, sketch.score(points), rtol=1e-5) and drows.shape == rows.shape
        mean += dpoints / 200
    log = sketch.gradient(points, rows, logarithm=True)[1]
    assert np.allclose(log, dpoints / densities[:, None], rtol=1e-4)
    for c in range(3):
        step = np.zeros(3)
        step[c] = 1e-5
        want = (kernel(points + step, rows, 3) - kernel(points - step, rows, 3)) / 2e-5
        assert np.allclose(mean[:, c], want, atol=0.01), (mean[:, c], want)


def test_mean_shift_finds_modes():
    rows = np.concatenate([numbers(200, 4, seed=5) * 0.2 + [3, 0, 0, 0], numbers(200, 4, seed=6) * 0.2 - [0, 2, 0, 0]])
    moved = Density(map="euclidean", num_hashes=64).fit(rows).shift(rows, rows, steps=15)
    assert np.allclose(moved[:200], [3, 0, 0, 0], atol=0.4) and np.allclose(moved[200:], [0, -2, 0, 0], atol=0.4)
    modes, labels = Density(map="euclidean", num_hashes=64).fit(rows).modes(rows)
    assert len(modes) == 2 and np.allclose(modes, [[3, 0, 0, 0], [0, -2, 0, 0]], atol=0.3)
    assert (labels == np.repeat([0, 1], 200)).all()


def test_the_example_draws_its_picture(tmp_path):
    example = ROOT / "examples" / "density_picture.py"
    done = subprocess.run([sys.executable, example, "density.svg"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "14 of 22 outliers are among the 22 rows of lowest density\n", done.stderr
    assert ElementTree.parse(tmp_path / "density.svg").getroot().get("viewBox") == "0 0 640 400"


def test_bad_input_is_named():
    rows = numbers(50, 4)
    sketch = Density().fit(rows)
    bad = rows.copy()
    bad[7, 2] = np.nan
    for call in (sketch.fit, sketch.add, sketch.remove, sketch.score):
        with pytest.raises(ValueError, match="row 7, column 2 is nan"):
            call(bad)
    assert sketch.rows == 50
    for call in (sketch.add, sketch.remove, sketch.score):
        with pytest.raises(ValueError, match="X has 3 columns, the sketch has 4"):
            call(rows[:, :3])
    with pytest.raises(ValueError, match=r"X has shape \(4,\); \(rows, columns\) is needed"):
        sketch.score(rows[0])
    with pytest.raises(TypeError, match="numbers are needed"):
        sketch.score([["a", "b", "c", "d"]])
    with pytest.raises(TypeError, match="X is a masked array; what its mask hides would take part"):
        hashattn.Density().fit(np.ma.masked_invalid([[1.0, np.nan]]))
    with pytest.raises(TypeError, match="X is no array|numbers are needed"):
        sketch.score([[1, 2], [3]])
    with pytest.raises(ValueError, match="row 0, column 0 is inf"):
        sketch.score(np.full((1, 4), 1e300))
    with pytest.raises(ValueError, match="the sketch has no rows"):
        Density().score(rows)
    with pytest.raises(ValueError, match="never added"):
        sketch.remove(-5 * rows)
    with pytest.raises(ValueError, match="num_hashes is 0, allowed are 1 to 4096"):
        Density(num_hashes=0).fit(rows)
    with pytest.raises(ValueError, match="no map 'log', there are: none, euclidean"):
        Density(map="log").fit(rows)
    with pytest.raises(TypeError, match="map is 3"):
        Density(map=3)
    with pytest.raises(ValueError, match="seed is -1"):
        Density(seed=-1)
    for other, words in ((Density(seed=5), "seed is 0 in one and 5"), (Density(num_hashes=4), "num_hashes is 32"),
                         (Density(hash_bits=4), "hash_bits is 9"), (Density(map="euclidean"), "the map is none")):
        with pytest.raises(ValueError, match=words):
            sketch.merge(other.fit(rows))
    with pytest.raises(TypeError, match="a Density is needed"):
        sketch.merge(rows)
    with hashattn.Context(threads=1) as context, pytest.raises(ValueError, match="different contexts"):
        sketch.merge(Density(context=context).fit(rows))
    with pytest.raises(ValueError, match=r"of_density has shape \(3,\); \(50,\) is needed"):
        sketch.gradient(rows, rows, of_density=[1, 2, 3])


def test_bad_files_are_named(tmp_path):
    sketch = Density().fit(numbers(50, 4))
    sketch.save(tmp_path / "s")
    bytes = bytearray((tmp_path / "s").read_bytes())
    bytes[200] ^= 1
    (tmp_path / "bad").write_bytes(bytes)
    with pytest.raises(OSError, match="bad: a damaged sketch: the checksum is wrong"):
        Density.load(tmp_path / "bad")
    with pytest.raises(OSError, match="cannot open"):
        Density.load(tmp_path / "none")
    with pytest.raises(OSError):
        sketch.save(tmp_path / "no" / "such")
    closed = Density().fit(numbers(5, 4))
    closed.close()
    with pytest.raises(ValueError, match="closed"):
        closed.score(numbers(5, 4))
    with pytest.raises(ValueError, match="closed"):
        sketch.merge(closed)
    assert "rows=50" in repr(sketch)
