"""Attention: gradients with the bits of the tool, learned tensors, own loss, options.

Planted and caught: gradients of learned tensors not passed on; learned tensors of a call not set; dk and dv swapped;
learned tensors not split by head, or in another order than the library's; the gradients of padding left as they were;
options not typed; departures left out, or those of another mechanism. SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest

import hashattn
from conftest import numbers, run_tool, same_bits


@pytest.mark.parametrize("mechanism, options", [("yoso", {}), ("softmax", {}), ("yoso-e", {}),
                                                ("lha", {"num_buckets": 4}), ("sinkhorn", {"block_size": 8})])
def test_gradients_have_the_bits_of_the_tool(tmp_path, mechanism, options):
    shape = (2, 3, 30, 8)
    arrays = {name: numbers(*shape, seed=i) for i, name in enumerate(["q", "k", "v", "grad-out"])}
    words = []
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
        words += [f"--{name}", tmp_path / f"{name}.npy"]
    flags = [word for name, value in options.items() for word in ("--" + name.replace("_", "-"), str(value))]
    run_tool("attend", "--attention", mechanism, *flags, *words, "--grad-dir", tmp_path, "--out", tmp_path / "y.npy")
    with hashattn.Attention(mechanism, **options) as attention:
        out = attention.forward(arrays["q"], arrays["k"], arrays["v"])
        gradients = attention.backward(arrays["grad-out"])
        *again, learned = attention.backward_params(arrays["grad-out"])
        assert all(same_bits(a, b) for a, b in zip(again, gradients))
        assert (tmp_path / "dparams.safetensors").exists() == bool(learned)
        for name, gradient in learned.items():
            assert gradient.tobytes() in (tmp_path / "dparams.safetensors").read_bytes(), name
        assert same_bits(out, np.load(tmp_path / "y.npy"))
        for name, gradient in zip(("dq", "dk", "dv"), gradients):
            assert same_bits(gradient, np.load(tmp_path / f"{name}.npy")), name
        moved = arrays["grad-out"][..., ::-1].copy()[..., ::-1]
        assert same_bits(attention.backward(moved)[0], gradients[0])


def test_reformer_reads_no_keys():
    """As its departures and the docstrings say."""
    departures = hashattn.mechanisms()["reformer"].departures
    assert any("keys given are not read" in each and "dK is 0" in each for each in departures)
    q, k, v, g = (numbers(2, 90, 4, seed=i) for i in range(4))
    with hashattn.Attention("reformer", chunk_size=16) as attention:
        out = attention.forward(q, k, v)
        dq, dk, dv = attention.backward(g)
        assert np.any(dq) and not np.any(dk) and np.any(dv)
        assert same_bits(out, attention.forward(q, numbers(2, 90, 4, seed=5), v))
    assert hashattn.mechanisms()["softmax"].departures == ()


def test_gradients_are_slopes():
    q, k, v, g = numbers(2, 9, 4), numbers(2, 11, 4, seed=1), numbers(2, 11, 5, seed=2), numbers(2, 9, 5, seed=3)
    with hashattn.Attention("softmax") as attention:
        attention.forward(q, k, v)
        gradients = attention.backward(g)
        for which, array in enumerate((q, k, v)):
            direction = numbers(*array.shape, seed=7 + which)
            step = 1e-2
            sums = []
            for way in (step, -step):
                moved = [each + way * direction if i == which else each for i, each in enumerate((q, k, v))]
                sums.append(np.sum(attention.forward(*map(np.float32, moved)) * g, dtype=np.float64))
            slope = (sums[0] - sums[1]) / (2 * step)
            assert abs(np.sum(gradients[which] * direction, dtype=np.float64) - slope) < 2e-3 * max(1, abs(slope))


LEARN = [("rfa", {"num_features": 200}, {}), ("rfa", {"num_features": 200, "gate": True}, {"causal": True}),
         ("linformer", {"rank": 5}, {}), ("synthesizer", {"kind": "factorised", "rank": 2}, {}),
         ("local", {"block_size": 4, "relative": True}, {"causal": True})]


@pytest.mark.parametrize("mechanism, options, given", LEARN)
def test_gradients_of_learned_tensors_are_slopes(mechanism, options, given):
    q, k, v, g = (numbers(2, 3, 12, 8, seed=i) for i in range(4))
    mask = np.arange(12) % 5 != 2
    with hashattn.Attention(mechanism, **options) as attention:
        params = {name: array + 0.1 * numbers(*array.shape, seed=9)
                  for name, array in attention.params(3, 8, max_len=20).items()}
        given = dict(given, key_mask=mask, max_len=20, seed=2)

        def loss(moved):
            out = attention.forward(q, k, v, params=moved, **given)
            assert same_bits(out, hashattn.attention(q, k, v, mechanism=mechanism, params=moved, **given, **options))
            return np.sum(out * g, dtype=np.float64)

        loss(params)
        gradients = attention.backward_params(g)[3]
        assert {name: array.shape for name, array in gradients.items()} == {n: a.shape for n, a in params.items()}
        for name, gradient in gradients.items():
            direction, step = numbers(*gradient.shape, seed=7), 4e-3
            sums = [loss({**params, name: params[name] + np.float32(way * step) * direction}) for way in (1, -1)]
            slope, size = (sums[0] - sums[1]) / (2 * step), np.sqrt(np.sum(np.square(gradient, dtype=np.float64)))
            assert abs(np.sum(gradient * direction, dtype=np.float64) - slope) < 1e-2 * size, name
            assert size > 1e-2, name


def test_learned_tensors_may_be_given_to_any_mechanism():
    q, k, v = (numbers(3, 12, 8, seed=i) for i in range(3))
    out = hashattn.attention(q, k, v, mechanism="softmax", params={})
    assert same_bits(out, hashattn.attention(q, k, v, mechanism="softmax"))
    with hashattn.Attention("softmax") as attention:
        attention.forward(q, k, v, params=attention.params(3, 8))
        assert attention.backward_params(q)[3] == {}
    with pytest.raises(ValueError, match="softmax learns"):
        hashattn.attention(q, k, v, mechanism="softmax", params={"sigma": q})
    with hashattn.Attention("rfa") as attention:
        attention.forward(q, k, v)
        attention.set_params(attention.params(3, 8), 8)
        with pytest.raises(ValueError, match="no forward"):  # it had other parameters
            attention.backward_params(q)


@pytest.mark.parametrize("mechanism, has", [("lha", True), ("routing", True), ("rfa", False), ("yoso", False)])
def test_what_learns_from_its_own_loss_has_no_other_gradient(mechanism, has):
    q, k, v = (numbers(3, 40, 8, seed=i) for i in range(3))
    assert hashattn.mechanisms()[mechanism].has_own_loss == has
    with hashattn.Attention(mechanism) as attention:
        attention.forward(q, k, v)
        assert any(array.any() for array in attention.backward_params(v)[3].values()) == (mechanism == "rfa")
        loss, gradient = attention.own_loss()
        assert (loss > 0) == has and any(array.any() for array in gradient.values()) == has


def test_gradients_of_padded_and_packed_batches():
    q, k, v, g = (numbers(3, 2, 20, 8, seed=i) for i in range(4))
    lengths = [20, 0, 9]
    for sequence, length in enumerate(lengths):
        for array in (q, k, v, g):
            array[sequence, :, length:] = np.nan
    with hashattn.Attention("yoso") as padded, hashattn.Attention("yoso") as other:
        padded.forward(q, k, v, lengths=lengths)
        found = padded.backward(g)
        rows = [np.concatenate([a[s, :, :n] for s, n in enumerate(lengths)], 1).swapaxes(0, 1) for a in (q, k, v, g)]
        other.forward(*rows[:3], offsets=[0, 20, 20, 29])
        packed = other.backward(rows[3])
        for a, b in zip(found, packed):
            assert same_bits(np.concatenate([a[s, :, :n] for s, n in enumerate(lengths)], 1).swapaxes(0, 1).copy(), b)
            assert not a[1].any() and not a[2, :, 9:].any()


def test_learned_tensors():
    q, k, v = (numbers(3, 40, 8, seed=i) for i in range(3))
    with hashattn.Attention("lha", num_buckets=4) as attention:
        shapes = attention.tensors(8)
        drawn = attention.params(3, 8, seed=5)
        assert {name: array.shape for name, array in drawn.items()} == {n: (3, *s) for n, s in shapes.items()}
        before = attention.forward(q, k, v, seed=5)
        other = {name: numbers(*array.shape, seed=9) for name, array in drawn.items()}
        attention.set_params(other, 8)
        assert all(same_bits(attention.params(3, 8)[name], other[name]) for name in other)
        assert not same_bits(attention.forward(q, k, v, seed=5), before)
        attention.set_params(drawn, 8)
        assert same_bits(attention.forward(q, k, v, seed=6), before)  # the seed does not replace them
        loss, gradient = attention.own_loss()
        assert loss > 0 and {n: g.shape for n, g in gradient.items()} == {n: a.shape for n, a in drawn.items()}
        spoiled = {name: array.copy() for name, array in drawn.items()}
        next(iter(spoiled.values()))[1, 0, 0] = np.inf
        with pytest.raises(ValueError, match="inf at float 0 of head 1"):
            attention.set_params(spoiled, 8)
        with pytest.raises(ValueError, match=r"\(3, 8, 5\); \(3, 8, 4\) is needed"):
            attention.set_params({name: numbers(3, 8, 5) for name in drawn}, 8)
        with pytest.raises(ValueError, match="lha learns"):
            attention.set_params({}, 8)
        with pytest.raises(TypeError, match="float64"):
            attention.set_params({name: array.astype(float) for name, array in drawn.items()}, 8)
        with pytest.raises(ValueError, match="are for 3 heads"):
            attention.forward(q[:2], k[:2], v[:2])
        with pytest.raises(OSError, match="nowhere"):
            attention.read_params("nowhere.safetensors", 3, 8)


def test_own_loss_has_its_slope():
    q, k, v = (numbers(2, 60, 8, seed=i) for i in range(3))
    with hashattn.Attention("lha", num_buckets=4, targets="exact") as attention:
        params = attention.params(2, 8)
        attention.set_params(params, 8)
        attention.forward(q, k, v)
        _, gradient = attention.own_loss()
        biggest = max(gradient, key=lambda name: np.abs(gradient[name]).max())
        place = np.unravel_index(np.abs(gradient[biggest]).argmax(), gradient[biggest].shape)
        losses = []
        for step in (1e-3, -1e-3):
            moved = {name: array.copy() for name, array in params.items()}
            moved[biggest][place] += step
            attention.set_params(moved, 8)
            attention.forward(q, k, v)
            losses.append(attention.own_loss()[0])
        slope = (losses[0] - losses[1]) / 2e-3
        assert abs(slope - gradient[biggest][place]) < 0.05 * abs(slope) + 1e-3


def test_mechanisms_without_a_loss():
    q = numbers(10, 8)
    with hashattn.Attention("yoso") as attention:
        attention.forward(q, q, q)
        assert attention.own_loss() == (0.0, {}) and attention.tensors(8) == {} and attention.params(1, 8) == {}


def test_options_have_their_types():
    with hashattn.Attention("yoso", num_hashes=np.int64(17), recompute=True, normalize="sum") as attention:
        options = attention.options
        assert (options["num_hashes"], options["recompute"], options["normalize"]) == (17, True, "sum")
        attention.set(num_hashes=5)
        assert attention.options["num_hashes"] == 5
        assert set(options) == set(hashattn.mechanisms()["yoso"].options)
    rows = hashattn.mechanisms()["yoso"].options
    assert rows["num_hashes"].type is int and rows["num_hashes"].minimum == 1 and "l2" in rows["normalize"].choices
    assert hashattn.tasks()["needle"].attention == "yoso.hash_bits=8 yoso-e.hash_bits=8"
    assert all(row.help for task in hashattn.tasks().values() for row in task.options.values())


def test_save_false_keeps_nothing():
    q = numbers(10, 8)
    with hashattn.Attention("yoso") as attention:
        attention.forward(q, q, q, save=False)
        with pytest.raises(ValueError, match="no forward"):
            attention.backward(q)
        with pytest.raises(ValueError, match="no forward"):
            attention.own_loss()


def test_sample_ids_hash_sequences_apart():
    q = np.broadcast_to(numbers(1, 1, 30, 8), (3, 1, 30, 8))
    with hashattn.Attention("yoso", num_hashes=4) as attention:
        alike = attention.forward(q, q, q)
        apart = attention.forward(q, q, q, sample_ids=[4, 5, 4])
    assert same_bits(alike[0], alike[1]) and same_bits(apart[0], apart[2]) and not same_bits(apart[0], apart[1])
