#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Learned codes of keys beside random ones (question 27 of docs/RESULTS.md): planes that are trained on a model's own queries
and keys, one set for each key-value head, so that softmax of the estimated scores is near softmax of the true ones.

    bench/decode_learned.py MODEL TEXT [--gguf FILE] --out FILE     a line of JSON for each bits, planes, choice and budget
    bench/decode_learned.py --show FILE                             prints the lines; FILE: docs/results/decode.jsonl

Planes are trained on the tokens from --train-skip on, and judged on those from --skip on: |out - exact| / |exact| of 16 queries of
the last 300, the mean over layers and the worst layer. Codes are signs, and the estimate is that of src/decoding/kv_codes.h, in
PyTorch, with a choice for each query head. "exact" planes choose by the true scores: what better codes can gain at most."""

import argparse
import json
import math
import os
import statistics

import page

FIRST, LAST, BLOCK, T = 4, 32, 64, 0.8  # rows always read; rows with one mean; exponent of importance
STEPS, BATCH, RATE = 300, 64, 3e-3


def caught(model, ids, every, last):
    """(queries, positions, keys, values) of each layer: `every` n-th of the last queries."""
    import torch
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    layers = []

    def catch(module, query, key, value, mask, **more):
        at = torch.arange(key.shape[2] - last, key.shape[2], every)
        layers.append((query[0][:, at].float().clone(), at, key[0].float().clone(), value[0].float().clone()))
        return sdpa_attention_forward(module, query, key, value, mask, **more)

    AttentionInterface.register("catching", catch)
    model.set_attn_implementation("catching")
    with torch.inference_mode():
        model.model(ids)
    return layers


def centred(key):
    """Keys less the mean of their block, and the means, a row each."""
    import torch

    pad = -len(key) % BLOCK
    blocks = torch.cat([key, key[-1:].expand(pad, -1)]).unflatten(0, (-1, BLOCK))
    mean = blocks.mean(1, keepdim=True).expand_as(blocks).flatten(0, 1)[: len(key)]
    return key - mean, mean


def random_planes(bits, d, generator):
    import torch

    turns = [torch.linalg.qr(torch.randn(d, d, generator=generator))[0] for _ in range(math.ceil(bits / d))]
    return torch.cat(turns)[:bits]


def estimate(planes, query, x, mean, soft):
    """Scores (queries, keys). soft: signs have the gradient of tanh."""
    import torch

    turned = x @ planes.T
    signs = torch.where(turned > 0, 1.0, -1.0)
    if soft:
        smooth = torch.tanh(turned / turned.detach().abs().mean())
        signs = signs + smooth - smooth.detach()
    scale = x.square().sum(-1) / (turned * signs).sum(-1).clamp_min(1e-6)
    return query @ mean.T + (query @ planes.T) @ signs.T * scale


def learn(planes, query, at, key, generator):
    """Planes that make softmax of the estimates near that of the scores, by their divergence."""
    import torch

    planes = planes.clone().requires_grad_()
    adam = torch.optim.Adam([planes], RATE)
    (x, mean), places = centred(key), torch.arange(len(key))
    for _ in range(STEPS):
        pick = torch.randint(len(at), (BATCH,), generator=generator)
        hidden = torch.where(places > at[pick, None], -math.inf, 0.0)
        width = key.shape[1] ** -0.5
        want = torch.log_softmax(query[pick] @ key.T * width + hidden, -1)
        got = torch.log_softmax(estimate(planes, query[pick], x, mean, True) * width + hidden, -1)
        loss = (want.exp() * (want - got).nan_to_num()).sum(-1).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
    return planes.detach()


def chosen(scores, certain, wanted, sample, generator):
    """Weights of the rows that are read, 0 for others."""
    import torch

    if not sample:
        scores = torch.where(certain, math.inf, scores)
        return torch.zeros_like(scores).scatter(0, scores.topk(int(certain.sum()) + wanted).indices, 1)
    share = torch.where(certain, 0.0, torch.exp(T * (scores - scores[~certain].max())))
    bound = share.sum() / wanted
    for _ in range(50):  # the bound with which probabilities sum to `wanted`
        sure = share >= bound
        bound = share[~sure].sum() / max(1, wanted - int(sure.sum()))
    chance = torch.where(certain, 1.0, (share / bound).clamp(max=1)).clamp_min(1e-12)
    sums = torch.where(certain, 0.0, chance).cumsum(0) + torch.rand((), generator=generator)
    taken = certain | (sums.floor() > torch.cat([sums.new_zeros(1) + sums[0] - chance[0], sums[:-1]]).floor())
    return taken / chance


def error_of(query, at, key, value, estimated, budget, sample, generator):
    import torch

    exact_scores, errors = query @ key.T * key.shape[1] ** -0.5, []
    for i, end in enumerate((at + 1).tolist()):
        certain = torch.zeros(end, dtype=torch.bool)
        certain[:FIRST] = certain[end - LAST:] = True
        wanted = max(16, round(budget * end) - FIRST - LAST)
        weight = chosen(estimated[i, :end] * key.shape[1] ** -0.5, certain, wanted, sample, generator)
        scores = exact_scores[i, :end]
        exact = torch.softmax(scores, 0) @ value[:end]
        part = weight * torch.exp(scores - scores.max())
        errors.append(float((part @ value[:end] / part.sum() - exact).norm() / exact.norm()))
    return errors


def measure(given):
    import torch
    import transformers

    torch.set_num_threads(given.threads)
    more = {"gguf_file": given.gguf} if given.gguf else {}
    tokenizer = transformers.AutoTokenizer.from_pretrained(given.model, **more)
    model = transformers.AutoModelForCausalLM.from_pretrained(given.model, dtype=torch.float32, **more).eval()
    with open(given.text, encoding="utf-8") as file:
        text = file.read()
    to_learn, to_judge = (tokenizer(text[skip:skip + 12 * given.length], return_tensors="pt").input_ids[:, : given.length]
                          for skip in (given.train_skip, given.skip))
    layers = list(zip(caught(model, to_learn, 4, given.length - 512), caught(model, to_judge, given.last // 16, given.last)))
    generator = torch.Generator().manual_seed(given.seed)
    found = {}
    for (train_query, train_at, train_key, _), (query, at, key, value) in layers:
        group, by_layer = len(query) // len(key), {}
        for head, bits in ((head, bits) for head in range(len(key)) for bits in given.bits):
            of_group = slice(head * group, (head + 1) * group)
            random = random_planes(bits, key.shape[2], generator)
            learned = learn(random, train_query[of_group].flatten(0, 1), train_at.repeat(group), train_key[head], generator)
            x, mean = centred(key[head])
            for q in query[of_group]:
                scores = {"random": estimate(random, q, x, mean, False), "learned": estimate(learned, q, x, mean, False),
                          "exact": q @ key[head].T}
                for planes, budget, sample in ((p, b, s) for p in scores for b in given.budgets for s in (False, True)):
                    by_layer.setdefault((bits, planes, budget, sample), []).extend(
                        error_of(q, at, key[head], value[head], scores[planes], budget, sample, generator))
        for point, errors in by_layer.items():
            found.setdefault(point, []).append(statistics.mean(errors))
    for (bits, planes, budget, sample), errors in found.items():
        line = {"part": "learned", "model": given.name, "text": os.path.basename(given.text), "skip": given.skip,
                "train_skip": given.train_skip, "length": given.length, "bits": bits, "planes": planes,
                "choice": "sample" if sample else "top", "budget": budget, "error": round(statistics.mean(errors), 4),
                "worst_layer": round(max(errors), 4), "seed": given.seed}
        print(json.dumps(line), flush=True)
        with open(given.out, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?")
    parser.add_argument("text", nargs="?")
    parser.add_argument("--show")
    parser.add_argument("--out")
    parser.add_argument("--gguf")
    parser.add_argument("--name", default="SmolLM2-135M")
    parser.add_argument("--skip", type=int, default=20000)
    parser.add_argument("--train-skip", type=int, default=300000)
    parser.add_argument("--length", type=int, default=3900)
    parser.add_argument("--last", type=int, default=300)
    parser.add_argument("--bits", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--budgets", type=float, nargs="+", default=[0.02, 0.06])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.show:
        page.may_be_cut()
        with open(given.show, encoding="utf-8") as file:
            for line in (json.loads(line) for line in file):
                if line["part"] == "learned":
                    print("  ".join(str(line[name]) for name in ("bits", "planes", "choice", "budget", "error", "worst_layer")))
        return
    measure(given)


if __name__ == "__main__":
    main()
