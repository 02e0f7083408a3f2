"""The ListOps part of bench/lha_section4.py: its encoder beside PyTorch's layers, rows of both formats, shares of
attention, and what each stage of training changes.

Planted and caught: norm1 and norm2 exchanged; heads cut in another order; parentheses counted as tokens; the share of the
pairs that do not meet; pairs lost whose weight underflows; hashes left out where all is trained; hashes drawn by the
call.
SPDX-License-Identifier: Apache-2.0
"""

import json
import struct
import sys

import pytest

torch = pytest.importorskip("torch")

from conftest import ROOT  # noqa: E402

sys.path.insert(0, str(ROOT / "bench"))
import lha_listops  # noqa: E402
import lha_section4  # noqa: E402

DIM, CLASSES, N = 16, 10, 21


@pytest.fixture
def encoder():
    """PyTorch's own encoder and the classifier's weights, by the names of the stored file."""
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(DIM, lha_listops.HEADS, 24, dropout=0, batch_first=True)
    layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    for tensor in layers.parameters():  # no weight is at its initial 0 or 1, and the layers differ
        torch.nn.init.normal_(tensor, std=0.3)
    weights = {"transformer_encoder." + name: tensor.detach() for name, tensor in layers.state_dict().items()}
    weights |= {"embedding.weight": torch.randn(18, DIM), "pos_embedding.weight": torch.randn(50, DIM),
                "fc_out.weight": torch.randn(CLASSES, DIM), "fc_out.bias": torch.randn(CLASSES)}
    return layers, weights


def heads_of(mechanism, buckets=3):
    heads = lha_listops.Heads(mechanism, buckets, lha_section4.options_of, seed=1)
    heads.start(2, DIM)
    return heads


def some_rows(count):
    return [(torch.randint(1, 18, (N,)), i % CLASSES) for i in range(count)]


def test_encoder_is_that_of_torch(encoder):
    layers, weights = encoder
    ids = torch.randint(1, 18, (N,))
    x = weights["embedding.weight"][ids] + weights["pos_embedding.weight"][:N]
    with torch.inference_mode():
        wanted = layers(x[None])[0].mean(0) @ weights["fc_out.weight"].T + weights["fc_out.bias"]
        found = lha_listops.forward(weights, ids, heads_of("softmax").call(0))
    assert torch.allclose(found, wanted, atol=1e-4)


def test_files(encoder, tmp_path):
    _, weights = encoder
    header, data = {"__metadata__": {}}, b""
    for name, tensor in weights.items():
        bytes_ = tensor.numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(bytes_)]}
        data += bytes_
    text = json.dumps(header).encode()
    (tmp_path / "model").write_bytes(struct.pack("<Q", len(text)) + text + data)
    read = lha_listops.read_weights(tmp_path / "model")
    assert set(read) == set(weights) and all(torch.equal(read[name], weights[name]) for name in weights)

    (tmp_path / "known").write_text("3\t( ( [MIN 3 ) ( ( [SM 9 ) 8 ) ] )\n7\t7\n1\t1\n")
    (tmp_path / "arena").write_text("Source\tTarget\r\n( ( [MIN 3 ) ( ( [SM 9 ) 8 ) ] )\t3\r\n7\t7\r\n")
    known, arena = (lha_listops.read_rows(tmp_path / name, 2) for name in ("known", "arena"))
    assert [(ids.tolist(), label) for ids, label in known] == [([1, 11, 4, 17, 16, 5], 3), ([15], 7)]
    assert [(ids.tolist(), label) for ids, label in arena] == [([1, 11, 4, 17, 16, 5], 3), ([15], 7)]


def test_shares_of_attention(encoder):
    _, weights = encoder
    rows = some_rows(2)
    all_pairs = pytest.approx(dict(utility=1, pairs=1, bound=1), abs=1e-5)
    assert lha_listops.caught(weights, heads_of("softmax"), rows) == all_pairs
    steep = {name: 30 * tensor if "in_proj" in name else tensor for name, tensor in weights.items()}  # weights underflow
    assert lha_listops.caught(steep, heads_of("softmax"), rows) == all_pairs
    shares = lha_listops.caught(weights, heads_of("local"), rows)
    size = lha_section4.options_of("local", 3, N)["block_size"]
    block = torch.arange(N) // size
    near = (block[:, None] - block[None]).abs() <= 1
    assert shares["pairs"] == pytest.approx(float(near.double().mean()))
    sums = []

    def attend(layer, q, k, v):
        scores = q @ k.transpose(1, 2) / (DIM / lha_listops.HEADS) ** 0.5
        sums.append(float((torch.softmax(scores, -1) * near).sum(-1).mean()))
        return torch.softmax(scores.masked_fill(~near, -1e9), -1) @ v
    with torch.inference_mode():
        for ids, _ in rows:
            lha_listops.forward(weights, ids, attend)
    assert shares["utility"] == pytest.approx(sum(sums) / len(sums), abs=1e-5)
    assert shares["utility"] < shares["bound"] < 1


@pytest.mark.parametrize("mechanism, hashes_only", [("lha", True), ("lha", False), ("lsh", False)])
def test_what_is_trained(encoder, mechanism, hashes_only):
    _, weights = encoder
    heads = heads_of(mechanism)
    before = {name: tensor.clone() for name, tensor in weights.items()}
    hashes = [tensor.clone() for tensor in heads.hashes or []]
    lha_listops.train(weights, heads, some_rows(4), steps=2, batch=2, rate=1e-3, hashes_only=hashes_only)
    assert all(torch.equal(weights[name], before[name]) for name in before) == hashes_only
    assert not any(torch.equal(a, b) for a, b in zip(hashes, heads.hashes or []))
    if not hashes:
        return
    ids, _ = some_rows(1)[0]
    with torch.inference_mode():
        one, again = (lha_listops.forward(weights, ids, heads.call(0)) for _ in range(2))
        heads.hashes = [torch.randn_like(tensor) for tensor in hashes]
        other = lha_listops.forward(weights, ids, heads.call(0))
    assert torch.equal(one, again) and not torch.equal(one, other)
