#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stored checkpoints compared with the transformers library: random models of several sizes, saved by that library, read
here, and the other way round.

    bench/checkpoints.py --setup            once: PyTorch and transformers into BUILD/checkpoints-env (1 GB)
    bench/checkpoints.py                    hidden states and logits, float32, with and without padding
    bench/checkpoints.py --docs             the same, and the table goes to docs/results/tables.jsonl
    bench/checkpoints.py --speed            documents of 4,096 tokens, a YOSO model of BERT-base's size, against YosoModel
    bench/checkpoints.py --vectors          writes the small checkpoints of tests/models/checkpoints

Exit code 1 if a difference is larger than allowed: 1e-4 at most, 1e-5 in the mean.
"""

import argparse
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

from environment import enter
from page import Table

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PACKAGES = ["torch==2.13.0", "transformers==5.23.0", "numpy"]
MOST, MEAN = 1e-4, 1e-5


def setup(environment):
    """PyTorch first and pinned, so that transformers does not choose another build of it."""
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    pip = [os.path.join(environment, "bin", "pip"), "install", "-q"]
    for package in PACKAGES:
        subprocess.run(pip + [package], check=True)
    found = subprocess.run([os.path.join(environment, "bin", "python"), "-c", "import torch; print(torch.__version__)"],
                           check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    if not found.startswith("2.13.0"):
        sys.exit(f"PyTorch was replaced: {found}")


class Ours:
    """A checkpoint through the public functions."""

    def __init__(self, library, directory, attention=None):
        from library import _library
        self.library, self.handle, self.info = library, ctypes.c_void_p(), _library.PretrainedInfo()
        library.check(library.call.pretrained_load(library.context, directory.encode(), attention and attention.encode(),
                                                   ctypes.byref(self.handle)))
        library.call.pretrained_describe(self.handle, ctypes.byref(self.info))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.library.call.pretrained_free(self.handle)

    def _sequences(self, ids, segments):
        import numpy
        from library import _library
        offsets = numpy.cumsum([0] + [len(one) for one in ids]).astype(numpy.uintp)
        self.kept = [offsets, numpy.concatenate(ids).astype(numpy.uint32),
                     None if segments is None else numpy.concatenate(segments).astype(numpy.uint8)]
        offsets_at, ids_at, segments_at = [None if array is None else array.ctypes.data for array in self.kept]
        sequences = _library.Sequences(num_sequences=len(ids), offsets=offsets_at, ids=ids_at, segments=segments_at)
        return sequences, int(offsets[-1])

    def rows(self, ids, segments=None):
        import numpy
        sequences, count = self._sequences(ids, segments)
        out = numpy.empty((count, self.info.dim), numpy.float32)
        self.library.check(self.library.call.pretrained_rows(self.handle, ctypes.byref(sequences), 1, out.ctypes.data))
        return out

    def scores(self, ids, segments=None):
        import numpy
        sequences, count = self._sequences(ids, segments)
        places, out = numpy.arange(count, dtype=numpy.uintp), numpy.empty((count, self.info.num_scores), numpy.float32)
        self.library.check(self.library.call.pretrained_scores(self.handle, ctypes.byref(sequences), 1, places.ctypes.data,
                                                               count, out.ctypes.data))
        return out

    def save(self, directory):
        self.library.check(self.library.call.pretrained_save(self.handle, directory.encode()))


# ---- random models --------------------------------------------------------------------------------------------------

SIZES = {  # vocabulary, width, layers, heads, feed-forward, positions
    "tiny": (120, 32, 2, 2, 64, 40),
    "odd": (301, 60, 3, 5, 100, 70),
    "small": (2000, 256, 4, 4, 1024, 600),
    "base": (30000, 768, 12, 12, 3072, 512),
}


def models():
    """(type, size, options of the config) of every model compared."""
    for size in SIZES:
        yield "bert", size, {}
        yield "roberta", size, {"layer_norm_eps": 1e-5, "type_vocab_size": 1}
        yield "yoso", size, {}
    yield "yoso", "small", {"conv_window": 5, "hash_code_len": 7}
    yield "yoso", "odd", {"layer_norm_eps": 1e-5, "type_vocab_size": 2, "conv_window": 33}


def make(kind, size, options, seed=0, whole=None):
    """A model with random weights. Biases and norms are moved away from 0 and 1, so that a forgotten one shows; queries and
    keys are scaled so that attention is far from uniform."""
    import torch
    import transformers
    names = {"bert": "Bert", "roberta": "Roberta", "yoso": "Yoso", "distilbert": "DistilBert", "electra": "Electra",
             "camembert": "Camembert"}
    vocab, dim, layers, heads, wide, positions = SIZES[size]
    whole = whole or names[kind] + "ForMaskedLM"
    sizes = (dict(dim=dim, n_layers=layers, n_heads=heads, hidden_dim=wide) if kind == "distilbert" else
             dict(hidden_size=dim, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=wide))
    config = getattr(transformers, names[kind] + "Config")(
        vocab_size=vocab, max_position_embeddings=positions + (2 if kind in ("roberta", "camembert") else 0), **sizes, **options)
    torch.manual_seed(seed)
    model = getattr(transformers, whole)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += 0.1 * torch.randn_like(parameter)
        for name, parameter in model.named_parameters():
            if name.endswith(("query.weight", "key.weight", "q_lin.weight", "k_lin.weight")):
                parameter *= 1.3 / (0.02 * dim ** 0.5)
    return model, positions


def reference(model, ids, segments, mask=None):
    import torch
    with torch.no_grad():
        out = model(input_ids=torch.tensor(ids), attention_mask=torch.tensor(mask) if mask is not None else None,
                    token_type_ids=torch.tensor(segments) if segments is not None else None, output_hidden_states=True)
    return out.hidden_states[-1].numpy(), out.logits.numpy()


def random_ids(generator, model, count, length):
    """No padding id: RoBERTa computes positions from it."""
    return generator.integers(5, model.config.vocab_size, (count, length))


def differences(theirs, ours):
    import numpy
    gap = numpy.abs(theirs.astype(numpy.float64) - ours.astype(numpy.float64))
    return float(gap.max()), float(gap.mean())


def compare(library, kind, size, options, shards):
    """Rows of the table: without padding, and with it where the transformers library masks it."""
    import numpy
    generator = numpy.random.default_rng(3)
    model, positions = make(kind, size, options)
    with tempfile.TemporaryDirectory() as scratch:
        there, back = os.path.join(scratch, "there"), os.path.join(scratch, "back")
        model.save_pretrained(there, **({"max_shard_size": shards} if shards else {}))
        cases = []
        with Ours(library, there) as ours:
            for length in (positions, 7):
                ids = random_ids(generator, model, 2, length)
                types = model.config.type_vocab_size
                segments = generator.integers(0, types, ids.shape) if types > 1 else None
                hidden, logits = reference(model, ids, segments, numpy.ones_like(ids))
                cases.append((f"all ones, {length} tokens", hidden.reshape(-1, hidden.shape[-1]),
                              ours.rows(ids, segments), logits.reshape(-1, logits.shape[-1]), ours.scores(ids, segments)))
            if kind != "yoso":
                lengths = [positions // 2, positions]
                ids = random_ids(generator, model, 2, positions)
                mask = numpy.arange(positions)[None] < numpy.array(lengths)[:, None]
                ids = numpy.where(mask, ids, model.config.pad_token_id)
                hidden, logits = reference(model, ids, None, mask.astype(int))
                packed = [ids[i, :n] for i, n in enumerate(lengths)]
                cases.append(("padded", hidden[mask], ours.rows(packed), logits[mask], ours.scores(packed)))
            ours.save(back)
        again = type(model).from_pretrained(back).eval()
        ids = random_ids(generator, model, 1, 7)
        same = all((a == b).all() for a, b in zip(reference(model, ids, None), reference(again, ids, None)))
    return [(name, differences(a, b), differences(c, d), same) for name, a, b, c, d in cases]


def parity(library):
    rows, failed = [], False
    for number, (kind, size, options) in enumerate(models()):
        shards = {"tiny": "20KB", "base": "200MB"}.get(size)
        for name, hidden, logits, same in compare(library, kind, size, options, shards):
            bad = max(hidden[0], logits[0]) > MOST or max(hidden[1], logits[1]) > MEAN or not same
            failed |= bad
            extra = ", ".join(f"{key} {value}" for key, value in options.items() if key not in ("type_vocab_size",))
            rows.append((kind, size, extra, name, hidden, logits, same))
            print(f"{kind:8} {size:6} {name:20} hidden {hidden[0]:.1e} {hidden[1]:.1e}  logits {logits[0]:.1e} "
                  f"{logits[1]:.1e}  saved {'equal' if same else 'DIFFERS'}{'  TOO LARGE' if bad else ''}", flush=True)
    return rows, failed


def table(rows):
    cells = lambda hidden, logits, same: {
        "hidden: largest": f"{hidden[0]:.1e}", "hidden: mean": f"{hidden[1]:.1e}", "logits: largest": f"{logits[0]:.1e}",
        "logits: mean": f"{logits[1]:.1e}", "saved": "equal" if same else "differs"}
    return Table(["model", "input"], [((f"{kind} {size}{', ' + extra if extra else ''}", name), cells(hidden, logits, same))
                                      for kind, size, extra, name, hidden, logits, same in rows], named=True)


# ---- speed ------------------------------------------------------------------------------------------------------------

LONG, BASE = 4096, (50265, 768, 12, 12, 3072, 4096)


def speed_child(what, directory, build, threads):
    """One contender in a process of its own: seconds per document, and the peak memory of the process."""
    import numpy
    ids = numpy.random.default_rng(1).integers(5, BASE[0], (2, LONG))
    if what == "transformers":
        import torch
        import transformers
        torch.set_num_threads(threads)
        model = transformers.YosoModel.from_pretrained(directory).eval()

        def embed(one):
            with torch.no_grad():
                return model(input_ids=torch.tensor(one[None])).last_hidden_state.mean(1).numpy()
    else:
        import library as shared
        name, _, precision = what.partition(" ")
        ours = Ours(shared.Library(build, threads, precision or "float32"), directory, name)

        def embed(one):
            return ours.rows([one]).mean(0)
        embed(ids[0, :64])  # prepares the weights
    times = []
    for one in ids:
        start = time.perf_counter()
        embed(one)
        times.append(time.perf_counter() - start)
    print(json.dumps([min(times), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def speed(build, threads):
    SIZES["long"] = BASE
    with tempfile.TemporaryDirectory() as scratch:
        make("yoso", "long", {}, whole="YosoModel")[0].save_pretrained(scratch)
        found = {}
        for what in ("transformers", "yoso-e", "yoso", "yoso bf16"):
            out = subprocess.run([sys.executable, os.path.abspath(__file__), "--speed-child", what, scratch, "--build", build,
                                  "--env", sys.prefix, "--threads", str(threads)], check=True, stdout=subprocess.PIPE, text=True)
            found[what] = json.loads(out.stdout.splitlines()[-1])
            seconds, memory = found[what]
            theirs = found["transformers"]
            print(f"{what:13} {seconds:7.2f} s a document, {memory:6.0f} MiB: {theirs[0] / seconds:.1f} times as many, "
                  f"{memory / theirs[1]:.2f} of the memory", flush=True)


# ---- vectors of the tests ---------------------------------------------------------------------------------------------

VECTORS = {  # directory: (type, class, options of the config, largest file)
    "yoso": ("yoso", None, {"conv_window": 3, "hash_code_len": 5}, None),
    "bert": ("bert", "BertForPreTraining", {"layer_norm_eps": 1e-3}, None),
    "roberta": ("roberta", None, {"layer_norm_eps": 1e-5, "type_vocab_size": 1}, "3KB"),
    "distilbert": ("distilbert", None, {}, None),
    "electra": ("electra", None, {"embedding_size": 8}, None),
    "camembert": ("camembert", None, {"type_vocab_size": 1}, None),
}


def write_vectors(folder):
    import numpy
    import torch
    from safetensors.numpy import save_file
    SIZES["vector"] = (24, 8, 2, 2, 12, 10)
    generator = numpy.random.default_rng(5)
    for name, (kind, whole, options, shards) in VECTORS.items():
        model, positions = make(kind, "vector", options, whole=whole)
        there = os.path.join(folder, name)
        model.save_pretrained(there, **({"max_shard_size": shards} if shards else {}))
        ids = random_ids(generator, model, 1, positions)
        segments = generator.integers(0, getattr(model.config, "type_vocab_size", 1), ids.shape)
        types = {} if kind == "distilbert" else {"token_type_ids": torch.tensor(segments)}
        with torch.no_grad():
            out = model(input_ids=torch.tensor(ids), **types, output_hidden_states=True)
        logits = out.prediction_logits if hasattr(out, "prediction_logits") else out.logits
        save_file({"ids": ids[0].astype(numpy.float32), "segments": segments[0].astype(numpy.float32),
                   "hidden": out.hidden_states[-1][0].numpy(), "logits": logits[0].numpy()},
                  os.path.join(there, "expected.safetensors"))


# ---- main -----------------------------------------------------------------------------------------------------------

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="where libhashattn.so is (default: build)")
    parser.add_argument("--env", help="another environment with PyTorch and transformers (default: BUILD/checkpoints-env)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--setup", action="store_true")
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--vectors", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--speed-child", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    environment = asked.env or os.path.join(asked.build, "checkpoints-env")
    if asked.setup:
        return setup(environment)
    enter(environment, "bench/checkpoints.py --setup")
    sys.path.insert(0, HERE)
    import library as shared
    if asked.speed_child:
        return speed_child(*asked.speed_child, asked.build, asked.threads)
    if asked.speed:
        return speed(asked.build, asked.threads)
    if asked.vectors:
        return write_vectors(os.path.join(ROOT, "tests", "models", "checkpoints"))
    import torch
    torch.set_num_threads(asked.threads)
    ours = shared.Library(asked.build, asked.threads)
    rows, failed = parity(ours)
    if asked.docs:
        import results
        import runs
        origin = runs.origin(asked.build)
        results.publish({"checkpoints": table(rows)}, origin["machine"], origin["commit"], time.strftime("%Y-%m-%d"))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
