"""Decoding with a key-value cache: perplexity, time and rows read of a real model, exact, hashed and the controls.

    python bench/decode.py MODEL TEXT [--length 4096] [--last 300] [--budgets 0.02 0.06] [--mechanisms ...] [--gguf FILE]

MODEL is a folder or a name that transformers loads; TEXT a file of text, of which the first `length` tokens count. The
first `length - last` tokens are the prompt, which is read with exact attention; the last ones follow one at a time. Every
line is a JSON record: perplexity of the last tokens, time of a token, rows read by a layer, bytes of the cache. `sdpa` is
PyTorch's attention with the dynamic cache of the library.
SPDX-License-Identifier: Apache-2.0
"""

import argparse
import json
import math
import time

import torch
import transformers

import hashattn.torch.transformers as ours


def tokens_of(model_name, text, length, **more):
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_name, **more)
    ids = tokenizer(text[: 12 * length], return_tensors="pt").input_ids[:, :length]
    if ids.shape[1] < length:
        raise SystemExit(f"the text has {ids.shape[1]} tokens, {length} are needed")
    return ids


@torch.no_grad()
def measure(model, ids, last, cache):
    """Perplexity of the last tokens, and the median time of one."""
    prompt = ids.shape[1] - last
    scores = model(ids[:, :prompt], past_key_values=cache, logits_to_keep=1).logits[:, -1]
    loss, times = 0.0, []
    for i in range(prompt, ids.shape[1]):
        loss -= torch.log_softmax(scores.float(), -1)[0, ids[0, i]].item()
        begun = time.perf_counter()
        scores = model(ids[:, i:i + 1], past_key_values=cache).logits[:, -1]
        times.append(time.perf_counter() - begun)
    return math.exp(loss / last), 1e3 * sorted(times)[len(times) // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--last", type=int, default=300)
    parser.add_argument("--budgets", type=float, nargs="+", default=[0.06])
    parser.add_argument("--mechanisms", nargs="+", default=["sdpa", "softmax", "hashed", "top", "lsh", "window"])
    parser.add_argument("--gguf", help="file of the weights in the folder MODEL")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    more = {"gguf_file": given.gguf} if given.gguf else {}
    with open(given.text, encoding="utf-8") as file:
        ids = tokens_of(given.model, file.read(), given.length, **more)
    model = transformers.AutoModelForCausalLM.from_pretrained(given.model, dtype=torch.float32, **more).eval()
    for mechanism in given.mechanisms:
        for budget in given.budgets if mechanism not in ("sdpa", "softmax") else given.budgets[:1]:
            model.set_attn_implementation("sdpa" if mechanism == "sdpa" else "hashattn-softmax")
            cache = (transformers.DynamicCache(config=model.config) if mechanism == "sdpa"
                     else ours.Cache(model.config, mechanism=mechanism, budget=budget))
            perplexity, token_ms = measure(model, ids, given.last, cache)
            record = {"mechanism": mechanism, "length": given.length, "last": given.last, "budget": budget,
                      "perplexity": round(perplexity, 4), "token_ms": round(token_ms, 3), "threads": given.threads}
            if mechanism != "sdpa":
                read = [layer.cache.rows_read for layer in cache.layers]
                record |= {"rows_read": round(sum(read) / len(read), 1), "cache_bytes": cache.nbytes}
            print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
