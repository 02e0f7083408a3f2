#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decoding with a key-value cache (question 27 of docs/RESULTS.md): speed beside PyTorch's SDPA, and what few rows cost in
quality with a real model.

    tools/stage_python.sh BUILD                                   puts the Python package together
    bench/decode.py speed BUILD --out FILE                        a row of attention: exact, hashed, SDPA; the memory's rate
    bench/decode.py errors BUILD MODEL TEXT --out FILE            errors of attention outputs at equal rows read
    bench/decode.py perplexity BUILD MODEL TEXT... --out FILE     perplexity of the last tokens of each text
    bench/decode.py needles BUILD MODEL TEXT --out FILE           sentences hidden at nine depths
    bench/decode.py token BUILD MODEL TEXT --out FILE             the time of a whole token, and of its attention
    bench/decode.py show FILE                                     prints the lines; FILE: docs/results/decode.jsonl
    bench/decode.py figure FILE > docs/guide/decode.svg           the picture of guide page 11: errors by rows read

MODEL is a folder or a name that transformers loads (--gguf: the file of its weights); a TEXT is a file, of which the
characters from --skip on are read. A prompt is read with exact attention. A line of JSON for each figure; lines that FILE
has are not measured again. Times are processor times of one thread, medians of contenders in turn."""

import argparse
import inspect
import itertools
import json
import math
import os
import statistics
import sys
import time

import page
import runs

MECHANISMS = ("hashed", "top", "top-uniform", "lsh", "hamming", "window")
HEADS, KV_HEADS = 32, 8
CHUNK = 2048  # tokens of a prompt at a time
FACT, QUESTION = " The secret number of the house is {}. ", " The secret number of the house is"


def settings(given):
    """(mechanism, budget), exact first."""
    yield "softmax", 0
    for budget in given.budgets:
        yield from ((mechanism, budget) for mechanism in given.mechanisms)


# ---- speed --------------------------------------------------------------------------------------------------------------


def memory_rate(megabytes=256):
    """GB/s at which a thread sums a block that no cache holds, the best of five, by processor time."""
    import torch

    block = torch.ones(megabytes << 18)
    best = math.inf
    for _ in range(5):
        begun = time.thread_time()
        block.sum()
        best = min(best, time.thread_time() - begun)
    return block.nbytes / best / 1e9


def in_turn(contenders, rounds):
    """The median milliseconds of processor time of each function, called in turn."""
    times = {name: [] for name in contenders}
    for _ in range(rounds + 1):
        for name, call in contenders.items():
            begun = time.thread_time()
            call()
            times[name].append(1e3 * (time.thread_time() - begun))
    return {name: statistics.median(each[1:]) for name, each in times.items()}


def speed(given, save, have):
    import torch

    import hashattn

    torch.set_num_threads(1)
    context = hashattn.Context(threads=1)
    for n, d, dtype in itertools.product(given.lengths, given.head_dims, ("bfloat16", "float32")):
        point = {"part": "speed", "n": n, "d": d, "dtype": dtype}
        if have(point):
            continue
        torch.manual_seed(1)
        q, k, v = (torch.randn(1, heads, rows, d, dtype=getattr(torch, dtype))
                   for heads, rows in ((HEADS, 1), (KV_HEADS, n), (KV_HEADS, n)))
        caches = {}
        for mechanism in ("softmax", "hashed"):
            cache = hashattn.Cache(HEADS, KV_HEADS, d, mechanism=mechanism, budget=0.02, dtype=dtype, context=context)
            for at in range(0, n, 4096):
                cache.append(k[0, :, at:at + 4096].float().numpy(), v[0, :, at:at + 4096].float().numpy())
            caches[mechanism] = cache
        query = q[0].float().numpy()
        attend = torch.nn.functional.scaled_dot_product_attention
        contenders = {name: (lambda cache=cache: cache.attend(query)) for name, cache in caches.items()}
        contenders["sdpa"] = lambda: attend(q, k, v, enable_gqa=True)
        repeated = [each.repeat_interleave(HEADS // KV_HEADS, 1) for each in (k, v)] if n * d <= 1 << 22 else None
        if repeated:
            contenders["sdpa, heads repeated"] = lambda: attend(q, *repeated)
        with torch.inference_mode():
            ms = in_turn(contenders, given.rounds)
        bytes_read = 2 * KV_HEADS * n * d * k.element_size()
        save(point | {"ms": {name: round(each, 4) for name, each in ms.items()},
                      "read_gbytes_per_s": round(bytes_read / ms["softmax"] / 1e6, 2),
                      "memory_gbytes_per_s": round(memory_rate(), 2),
                      "rows_read": caches["hashed"].rows_read})


# ---- quality ------------------------------------------------------------------------------------------------------------


def load(given, attention):
    import torch
    import transformers

    torch.set_num_threads(given.threads)
    os.environ["HASHATTN_THREADS"] = str(given.threads)
    more = {"gguf_file": given.gguf} if given.gguf else {}
    tokenizer = transformers.AutoTokenizer.from_pretrained(given.model, **more)
    model = transformers.AutoModelForCausalLM.from_pretrained(given.model, dtype=torch.float32,
                                                             attn_implementation=attention, **more)
    return tokenizer, model.eval()


def tokens_of(tokenizer, path, given):
    with open(path, encoding="utf-8") as file:
        text = file.read()[given.skip:]
    ids = tokenizer(text[: 12 * given.length], return_tensors="pt").input_ids[:, : given.length]
    if ids.shape[1] < given.length:
        raise SystemExit(f"{path} has {ids.shape[1]} tokens, {given.length} are needed")
    return ids


def holding(model, cache):
    """The cache by the name that this version of the transformers library has for it."""
    return {"cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values": cache}


def read_prompt(model, ids):
    """PyTorch's cache of a prompt, which is read in chunks, and the scores of the token after it."""
    import torch
    import transformers

    cache = transformers.DynamicCache(config=model.config)
    model.set_attn_implementation("sdpa")
    with torch.inference_mode():
        for chunk in ids.split(CHUNK, 1):
            scores = model(chunk, **holding(model, cache), logits_to_keep=1).logits[:, -1]
    return cache, scores


def codes_of(given):
    """The options of codes, a dictionary for each of --bits."""
    more = {"sharpness": given.sharpness} if given.sharpness else {}
    return [{"bits": bits} | more for bits in given.bits] or [more]


def cache_of(model, prompt, length, mechanism, budget, bits=None, sharpness=None):
    """Our cache with the rows of a prompt. PyTorch's layers with a window hold the last rows only, so zeros come first."""
    import torch
    import hashattn.torch.transformers as ours
    from hashattn.torch.cached import Runs

    model.set_attn_implementation("hashattn-softmax")
    options = {} if mechanism == "softmax" else {"budget": budget, "bits": bits, "sharpness": sharpness}
    cache = ours.Cache(model.config, mechanism=mechanism, **options)
    for layer, read in zip(cache.layers, prompt.layers):
        heads, d = model.config.num_attention_heads, read.keys.shape[-1]
        layer.update(*(torch.nn.functional.pad(each, (0, 0, length - each.shape[2], 0)) for each in (read.keys, read.values)))
        layer.attend(model, read.keys.new_zeros(1, heads, 1, d), None, d ** -0.5, {}, Runs("softmax", {}, 0, None))
    return cache


def rows_read(cache):
    """Of the layers without a window."""
    read = [layer.cache.rows_read for layer in cache.layers if layer.window is None]
    return round(sum(read) / len(read), 1)


def perplexity(given, save, have):
    """The last tokens follow in one call: a row of it sees what it would alone, and reads what it would alone."""
    import torch

    tokenizer, model = load(given, "sdpa")
    for path in given.texts:
        points = [{"part": "perplexity", "model": given.name, "text": os.path.basename(path), "skip": given.skip,
                   "length": given.length, "last": given.last, "mechanism": mechanism, "budget": budget, **codes}
                  for mechanism, budget in settings(given) for codes in (codes_of(given) if budget else [{}])]
        points = [point for point in points if not have(point)]
        if not points:
            continue
        ids = tokens_of(tokenizer, path, given)
        prompt, first = read_prompt(model, ids[:, : -given.last])
        for point in points:
            cache = cache_of(model, prompt, given.length - given.last, point["mechanism"], point["budget"],
                             point.get("bits"), point.get("sharpness"))
            with torch.inference_mode():
                scores = model(ids[:, -given.last:-1], **holding(model, cache)).logits[0]
            scores = torch.log_softmax(torch.cat([first, scores]), -1)
            loss = -scores.gather(1, ids[0, -given.last:, None]).mean().item()
            save(point | {"perplexity": round(math.exp(loss), 4), "rows_read": rows_read(cache), "cache_bytes": cache.nbytes})


def needles(given, save, have):
    """The fact at depths 0.1 to 0.9 of the prompt; found: the next tokens are the number's."""
    import torch

    tokenizer, model = load(given, "sdpa")
    ids = tokens_of(tokenizer, given.texts[0], given)
    question = tokenizer(QUESTION, add_special_tokens=False, return_tensors="pt").input_ids
    for depth in range(1, 10):
        points = [{"part": "needles", "model": given.name, "text": os.path.basename(given.texts[0]), "skip": given.skip,
                   "length": given.length, "depth": depth / 10, "mechanism": mechanism, "budget": budget, **codes}
                  for mechanism, budget in settings(given) for codes in (codes_of(given) if budget else [{}])]
        points = [point for point in points if not have(point)]
        if not points:
            continue
        number, at = 10000 + 7919 * depth, given.length * depth // 10
        fact = tokenizer(FACT.format(number), add_special_tokens=False, return_tensors="pt").input_ids
        hiding = torch.cat([ids[:, :at], fact, ids[:, at:]], 1)
        prompt, _ = read_prompt(model, hiding)
        for point in points:
            cache, told = cache_of(model, prompt, hiding.shape[1], point["mechanism"], point["budget"],
                                   point.get("bits"), point.get("sharpness")), []
            with torch.inference_mode():
                scores = model(question, **holding(model, cache)).logits[:, -1]
                for _ in range(8):
                    told.append(int(scores.argmax()))
                    scores = model(torch.tensor([told[-1:]]), **holding(model, cache)).logits[:, -1]
            save(point | {"found": str(number) in tokenizer.decode(told), "told": tokenizer.decode(told)})


def token(given, save, have):
    """The last tokens one by one, in turn with PyTorch's cache under SDPA and with each of ours; medians of processor time."""
    import torch
    from transformers import AttentionInterface

    point = {"part": "token", "model": given.name, "text": os.path.basename(given.texts[0]), "skip": given.skip,
             "length": given.length, "last": given.last}
    if have(point):
        return
    tokenizer, model = load(given, "sdpa")
    ids = tokens_of(tokenizer, given.texts[0], given)
    prompt, _ = read_prompt(model, ids[:, : -given.last])
    contenders = {"sdpa": ("sdpa", prompt)}
    for mechanism, budget in settings(given):
        cache = cache_of(model, prompt, given.length - given.last, mechanism, budget)
        contenders[mechanism + (f" {budget:g}" if budget else "")] = "hashattn-softmax", cache
    spent = 0

    def timed(attention):
        def attend(*words, **more):
            nonlocal spent
            begun = time.thread_time()
            out = attention(*words, **more)
            spent += time.thread_time() - begun
            return out
        return attend

    for name in ("sdpa", "hashattn-softmax"):
        AttentionInterface.register(name, timed(AttentionInterface()[name]))
    times = {name: ([], []) for name in contenders}
    with torch.inference_mode():
        for one in ids[:, -given.last:].split(1, 1):
            for name, (attention, cache) in contenders.items():
                model.set_attn_implementation(attention)
                held = holding(model, cache)
                spent, begun = 0, time.thread_time()
                model(one, **held)
                times[name][0].append(1e3 * (time.thread_time() - begun))
                times[name][1].append(1e3 * spent)
    save(point | {"token_ms": {name: round(statistics.median(each[0]), 3) for name, each in times.items()},
                  "attention_ms": {name: round(statistics.median(each[1]), 3) for name, each in times.items()}})


def errors(given, save, have):
    """|out - exact| / |exact| of the last query of each layer and head, by position; the same rows for all mechanisms."""
    import numpy as np
    import torch
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    import hashattn

    caught = {}

    def catch(module, query, key, value, mask, **more):
        if getattr(module, "sliding_window", None) is None:  # layers that see all rows
            queries = query[:, :, -given.last::given.last // 16]
            caught[module.layer_idx] = [each[0].float().numpy().copy() for each in (queries, key, value)]
        return sdpa_attention_forward(module, query, key, value, mask, **more)

    AttentionInterface.register("catching", catch)
    points = [{"part": "errors", "model": given.name, "text": os.path.basename(given.texts[0]), "skip": given.skip,
               "length": given.length, "mechanism": mechanism, "budget": budget, **codes}
              for budget in given.budgets for mechanism in given.mechanisms for codes in codes_of(given)]
    points = [point for point in points if not have(point)]
    if not points:
        return
    tokenizer, model = load(given, "catching")
    with torch.inference_mode():
        model.model(tokens_of(tokenizer, given.texts[0], given))
    for point in points:
        by_layer, read = [], []
        for query, key, value in caught.values():
            heads, rows, d = query.shape
            caches = [hashattn.Cache(heads, key.shape[0], d, **options)
                      for options in ({}, {"mechanism": point["mechanism"], "budget": point["budget"],
                                            "bits": point.get("bits"), "sharpness": point.get("sharpness")})]
            begin, outs = 0, ([], [])
            for r in range(rows):
                end = key.shape[1] - given.last + r * (given.last // 16) + 1
                for cache, out in zip(caches, outs):
                    cache.append(key[:, begin:end], value[:, begin:end])
                    out.append(cache.attend(query[:, r:r + 1]))
                read.append(caches[1].rows_read)
                begin = end
            exact, out = (np.concatenate(each, 1) for each in outs)
            by_layer.append(float(np.mean(np.linalg.norm(out - exact, axis=-1) / np.linalg.norm(exact, axis=-1))))
        save(point | {"error": round(statistics.mean(by_layer), 4), "worst_layer": round(max(by_layer), 4),
                      "rows_read": round(statistics.mean(read), 1)})


# ---- the record ---------------------------------------------------------------------------------------------------------


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def show(given):
    for part in ("speed", "errors", "perplexity", "needles", "token"):
        for line in (line for line in lines(given.file) if line["part"] == part):
            print("  ".join(f"{name} {value}" for name, value in line.items() if name not in ("commit", "machine")))


def figure(given):
    """Errors against the share of rows read, both on logarithmic axes."""
    points = [line for line in lines(given.file) if line["part"] == "errors" and line["model"] == given.name]
    shares, errors_ = sorted({point["budget"] for point in points}), [point["error"] for point in points]
    left, top, width, height = 60, 20, 400, 260

    def x(share):
        return left + width * math.log(share / shares[0]) / math.log(shares[-1] / shares[0])

    def y(error):
        return top + height * math.log(1 / error) / math.log(1 / (0.8 * min(errors_)))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 110} {top + height + 50}" '
           'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="#fff"/>']
    for error in (1, 0.5, 0.2, 0.1, 0.05):
        out.append(f'<path d="M{left} {y(error):.1f}h{width}" stroke="#ddd"/>'
                   f'<text x="{left - 6}" y="{y(error) + 4:.1f}" text-anchor="end">{error:g}</text>')
    for share in shares:
        out.append(f'<text x="{x(share):.1f}" y="{top + height + 18}" text-anchor="middle">{100 * share:g} %</text>')
    out.append(f'<text x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle">rows read</text>'
               f'<text transform="translate(16 {top + height / 2}) rotate(-90)" text-anchor="middle">relative error</text>')
    colours, free = dict(zip(MECHANISMS, ("#c33", "#36c", "#093", "#808", "#a60", "#777"))), math.inf
    ends = {point["mechanism"]: point["error"] for point in points if point["budget"] == shares[-1]}
    for mechanism in sorted(ends, key=ends.get):  # from below; names keep a distance
        colour = colours[mechanism]
        line = sorted((point["budget"], point["error"]) for point in points if point["mechanism"] == mechanism)
        free = min(y(line[-1][1]) + 4, free - 14)
        path = "L".join(f"{x(share):.1f} {y(error):.1f}" for share, error in line)
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="{3 if mechanism == "hashed" else 1.5}"/>'
                   f'<text x="{x(line[-1][0]) + 6:.1f}" y="{free:.1f}" fill="{colour}">{mechanism}</text>')
    print("\n".join(out + ["</svg>"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    for name, run in (("speed", speed), ("errors", errors), ("perplexity", perplexity), ("needles", needles),
                      ("token", token)):
        part = parts.add_parser(name)
        part.set_defaults(run=run)
        part.add_argument("build")
        part.add_argument("--out", required=True)
        if name == "speed":
            part.add_argument("--lengths", type=int, nargs="+", default=[4096, 8192, 16384, 32768, 65536, 131072])
            part.add_argument("--head-dims", type=int, nargs="+", default=[64, 128])
            part.add_argument("--rounds", type=int, default=15)
            continue
        part.add_argument("--threads", type=int, default=2)
        part.add_argument("model")
        part.add_argument("texts", nargs="+")
        part.add_argument("--name", default="SmolLM2-135M")
        part.add_argument("--gguf")
        part.add_argument("--skip", type=int, default=20000)
        part.add_argument("--length", type=int, default=3900)
        part.add_argument("--last", type=int, default=300)
        part.add_argument("--budgets", type=float, nargs="+", default=[0.02, 0.06, 0.12])
        part.add_argument("--mechanisms", nargs="+", default=list(MECHANISMS))
        if name in ("errors", "perplexity", "needles"):
            part.add_argument("--bits", type=int, nargs="+", default=[])
            part.add_argument("--sharpness", type=float)
    for name, run in (("show", show), ("figure", figure)):
        part = parts.add_parser(name)
        part.set_defaults(run=run)
        part.add_argument("file")
        part.add_argument("--name", default="SmolLM2-135M")
    given = parser.parse_args()
    if given.part in ("show", "figure"):
        page.may_be_cut()
        given.run(given)
        return
    sys.path.insert(0, os.path.join(os.path.abspath(given.build), "python"))
    done = lines(given.out) if os.path.exists(given.out) else []
    origin = runs.origin(given.build)

    def have(point):
        return any(all(line.get(name) == value for name, value in point.items()) for line in done)

    def save(line):
        done.append(line)
        print(json.dumps(line), flush=True)
        with open(given.out, "a", encoding="utf-8") as file:
            file.write(json.dumps(line | origin) + "\n")

    given.run(given, save, have)


if __name__ == "__main__":
    main()
