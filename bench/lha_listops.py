# SPDX-License-Identifier: Apache-2.0
"""The ListOps part of lha_section4.py, in PyTorch with hashattn.torch, because the models of the tool have a norm after
the embedding or before each layer, and this encoder has neither.

The encoder (github.com/imanefjer/LongListOps, models/TransformerClassifier.ipynb): embedding + learned positions;
layers x = norm1(x + attention(x)), x = norm2(x + ff(x)) with ReLU; the mean over positions; a linear layer. Parentheses
are dropped. A row is computed alone, so there is no padding. Training here has no dropout; a training that was stopped
starts again."""

import json
import math
import os
import statistics
import struct

import torch
import torch.nn.functional as F

import hashattn
from hashattn.torch import attention, attention_and_loss
from runs import once

HEADS = 4
IDS = {"[MIN": 1, "[MAX": 2, "[MED": 3, "[SM": 4, "]": 5, **{str(digit): digit + 8 for digit in range(10)}}
HASH_LOSS = 0.05  # its share, as in the tool and in the paper
CLIP = 1.0


def read_weights(path):
    """The tensors of a safetensors file in float32."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), bytearray(file.read())
    return {name: torch.frombuffer(data[slice(*facts["data_offsets"])], dtype=torch.float32).view(facts["shape"])
            for name, facts in header.items() if name != "__metadata__"}


def read_rows(path, count):
    """(ids, label) of the first rows: "label TAB expression", or with a header "expression TAB label" (the arena's)."""
    rows, expression = [], 1
    with open(path) as file:
        for line in file:
            cells = line.rstrip("\r\n").split("\t")
            if cells[0] == "Source":
                expression = 0
            elif len(rows) < count:
                words = [word for word in cells[expression].split() if word not in "()"]
                rows.append((torch.tensor([IDS[word] for word in words]), int(cells[1 - expression])))
    return rows


def layers_of(weights):
    return sum(name.endswith("in_proj_weight") for name in weights)


def forward(weights, ids, attend):
    """The scores of the classes. attend(layer, q, k, v): attention of (heads, n, d)."""
    n = len(ids)
    x = weights["embedding.weight"][ids] + weights["pos_embedding.weight"][:n]
    for layer in range(layers_of(weights)):
        def of(name, prefix=f"transformer_encoder.layers.{layer}."):
            return weights[prefix + name + ".weight"], weights[prefix + name + ".bias"]

        place = f"transformer_encoder.layers.{layer}.self_attn.in_proj_"
        qkv = F.linear(x, weights[place + "weight"], weights[place + "bias"])
        q, k, v = qkv.view(n, 3, HEADS, -1).permute(1, 2, 0, 3)
        mixed = attend(layer, q, k, v).transpose(0, 1).reshape(n, -1)
        x = F.layer_norm(x + F.linear(mixed, *of("self_attn.out_proj")), x.shape[-1:], *of("norm1"))
        x = F.layer_norm(x + F.linear(F.relu(F.linear(x, *of("linear1"))), *of("linear2")), x.shape[-1:], *of("norm2"))
    return F.linear(x.mean(0), weights["fc_out.weight"], weights["fc_out.bias"])


class Heads:
    """Attention of a mechanism in all layers, with options_of(mechanism, buckets, n). hashes: the learned tensors of
    lha, (heads, floats) per layer."""

    def __init__(self, mechanism, buckets, options_of, seed):
        self.mechanism, self.buckets, self.options_of, self.seed = mechanism, buckets, options_of, seed
        self.hashes = None

    def options(self, n):
        return self.options_of(self.mechanism, self.buckets, n)

    def start(self, layers, dim):
        """Draws the hashes."""
        if self.mechanism.startswith("lha"):
            with hashattn.Attention("lha", **self.options(0)) as made:
                drawn = [made.params(HEADS, dim // HEADS, seed=self.seed * layers + layer) for layer in range(layers)]
            self.hashes = [torch.cat([torch.from_numpy(each).flatten(1) for each in one.values()], 1) for one in drawn]

    def call(self, row, losses=None):
        """The function for `forward`. (seed, row) determine what is random. losses: receives the loss of the hashes by
        layer."""
        def attend(layer, q, k, v):
            given = {"mechanism": self.mechanism.split()[0], "seed": (self.seed << 40) + (row << 8) + layer,
                     **self.options(q.shape[1])}
            if self.hashes is None:
                return attention(q, k, v, **given)
            if losses is None:
                return attention(q, k, v, params=self.hashes[layer], **given)
            out, loss = attention_and_loss(q, k, v, self.hashes[layer], **given)
            losses.append(loss / HEADS)
            return out
        return attend


def train(weights, heads, rows, steps, batch, rate, hashes_only):
    """Adam with warm-up and linear decay, as in the tool. Changes the tensors of weights and heads in place."""
    learned = [*(heads.hashes or []), *([] if hashes_only else weights.values())]
    for tensor in learned:
        tensor.requires_grad_()
    optimizer = torch.optim.Adam(learned, lr=rate, eps=1e-6)
    warmup = max(1, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warmup, (steps - step) / max(1, steps - warmup)))
    for step in range(steps):
        optimizer.zero_grad()
        for i in range(batch):
            number = step * batch + i
            ids, label = rows[number % len(rows)]
            losses = []
            found = forward(weights, ids, heads.call(number, losses))
            loss = sum(losses) / len(losses) if losses else 0
            if not hashes_only:
                task = F.cross_entropy(found[None], torch.tensor([label]))
                loss = (1 - HASH_LOSS) * task + HASH_LOSS * loss if losses else task
            (loss / batch).backward()
        torch.nn.utils.clip_grad_norm_(learned, CLIP)
        optimizer.step()
        schedule.step()
    for tensor in learned:
        tensor.requires_grad_(False)


def answers(weights, heads, rows):
    with torch.inference_mode():
        return [int(forward(weights, ids, heads.call(number)).argmax()) for number, (ids, _) in enumerate(rows)]


def right(found, rows):
    return sum(answer == label for answer, (_, label) in zip(found, rows))


def normed(x):
    """As lha in mode released."""
    return F.layer_norm(x, x.shape[-1:], eps=1e-6)


def caught(weights, heads, rows):
    """Means over queries, heads, layers and rows: the share of full attention on the pairs that meet, the share of these
    pairs, and the most that as many pairs could hold. The pairs that meet are those with a weight, and attention over unit
    vectors as values is the matrix of weights. For it queries and keys are scaled by a power of two, which changes no choice of
    pairs (hashes are linear, and other choices relative), so that no weight underflows."""
    sums = {"utility": 0.0, "pairs": 0.0, "bound": 0.0}
    count = 0
    with torch.inference_mode():
        for number, (ids, _) in enumerate(rows):
            call = heads.call(number)

            def attend(layer, q, k, v):
                nonlocal count
                n = q.shape[1]
                released = heads.options(n).get("mode") == "released"
                a, b = (normed(q), normed(k)) if released else (q, k)
                scores = a @ b.transpose(1, 2) / q.shape[-1] ** 0.5
                full = torch.softmax(scores, -1)
                scale = 1.0 if released else 0.5 ** max(0, math.ceil(math.log2(float(scores.abs().max()) / 16) / 2))
                met = call(layer, q * scale, k * scale, torch.eye(n).expand(HEADS, n, n)) > 0
                for head in range(HEADS):
                    pairs = int(met[head].sum())
                    sums["utility"] += float((full[head] * met[head]).sum()) / n
                    sums["pairs"] += pairs / n**2
                    sums["bound"] += float(full[head].topk(-(-pairs // n), -1).values.sum()) / n
                    count += 1
                return call(layer, q, k, v)
            forward(weights, ids, attend)
    return {name: value / count for name, value in sums.items()}


class ListOps:
    """As Masked of lha_section4.py."""

    def __init__(self, given, options_of):
        torch.set_num_threads(given.threads)
        self.given, self.options_of = given, options_of
        self.tests = {"long": read_rows(os.path.join(given.data, "basic_test.tsv"), given.rows)}
        for path in given.known:
            self.tests[os.path.basename(path)] = read_rows(path, given.rows)
        self.train_rows = None
        mean = statistics.mean(len(ids) for ids, _ in self.tests["long"])
        self.title = (f"per cent of {len(self.tests['long']):,} generated rows (mean {mean:.0f} tokens) answered correctly (and "
                      "as the exact model does)" + "".join(
                          f"; of {len(rows)} rows of {name}" for name, rows in list(self.tests.items())[1:]))

    def place(self, way, buckets, seed):
        name = way[0].replace(" ", "-") + (f"-{buckets}" if buckets else "")
        return os.path.join(self.given.out, name, f"{way[1]}-seed{seed}")

    def model(self, way, buckets, seed):
        """Weights and heads, trained unless they are there already."""
        (mechanism, stage), given = way, self.given
        weights = read_weights(given.weights)
        heads = Heads(mechanism, buckets, self.options_of, seed)
        heads.start(layers_of(weights), weights["fc_out.weight"].shape[1])
        path = os.path.join(self.place(way, buckets, seed), "model.pt")
        if stage == "replaced":
            return weights, heads
        if os.path.exists(path):
            stored = torch.load(path)
            heads.hashes = stored["hashes"]
            return stored["weights"], heads
        if stage == "all" and mechanism.startswith("lha"):
            weights, heads = self.model((mechanism, "hashes"), buckets, seed)
        if self.train_rows is None:
            steps = max(given.steps, given.hash_steps)
            self.train_rows = read_rows(os.path.join(given.data, "basic_train.tsv"), steps * given.batch)
        steps, rate = (given.hash_steps, given.hash_rate) if stage == "hashes" else (given.steps, given.rate)
        train(weights, heads, self.train_rows, steps, given.batch, rate, stage == "hashes")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        torch.save({"weights": weights, "hashes": heads.hashes}, path + ".next")
        os.replace(path + ".next", path)
        return weights, heads

    def exact(self):
        """Answers of the softmax model as it was stored."""
        def compute():
            weights, heads = self.model(("softmax", "replaced"), 0, 1)
            return {name: answers(weights, heads, rows) for name, rows in self.tests.items()}
        return once(os.path.join(self.given.out, "exact.json"), compute)

    def figure(self, way, buckets, seed):
        def compute():
            weights, heads = self.model(way, buckets, seed)
            found = {}
            for name, rows in self.tests.items():
                given = answers(weights, heads, rows)
                same = sum(a == b for a, b in zip(given, self.exact()[name]))
                found[name] = {"right": right(given, rows) / len(rows), "same": same / len(rows)}
            return found
        return once(os.path.join(self.place(way, buckets, seed), "scores.json"), compute)

    def caught(self, way, buckets, seed):
        """Per cent; see `caught` above."""
        found = once(os.path.join(self.place(way, buckets, seed), "caught.json"), lambda: caught(
            *self.model(way, buckets, seed), self.tests["long"][:self.given.inspected]))
        return {name: 100 * share for name, share in found.items()}

    @staticmethod
    def cell(figures):
        def mean(name, what):
            return 100 * statistics.mean(each[name][what] for each in figures)
        return "; ".join(f"{mean(name, 'right'):.1f} ({mean(name, 'same'):.1f})" for name in figures[0])
