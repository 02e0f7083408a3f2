"""Reads and writes .npy files with the standard library only, and computes softmax attention and its gradients by
plain loops, as a reference for `attend`. Arrays are nested lists."""
import ast
import math
import random
import struct
import sys


def shape_of(a):
    return (len(a),) + shape_of(a[0]) if isinstance(a, list) else ()


def flat(a):
    return [x for row in a for x in flat(row)] if isinstance(a, list) else [a]


def nest(values, shape):
    if not shape:
        return values[0]
    step = len(values) // shape[0] if shape[0] else 0
    return [nest(values[i * step:(i + 1) * step], shape[1:]) for i in range(shape[0])]


def write_raw(path, descr, shape, data, fortran=False, version=1):
    head = repr({"descr": descr, "fortran_order": fortran, "shape": tuple(shape)}).encode()
    size = 10 if version == 1 else 12
    head += b" " * (-(size + len(head) + 1) % 64) + b"\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY" + bytes([version, 0]))
        file.write(struct.pack("<H" if version == 1 else "<I", len(head)) + head + data)


def write(path, a):
    values = flat(a)
    write_raw(path, "<f4", shape_of(a), struct.pack(f"<{len(values)}f", *values))


def read(path):
    text = open(path, "rb").read()
    assert text[:6] == b"\x93NUMPY" and text[6] == 1
    size, = struct.unpack("<H", text[8:10])
    head = ast.literal_eval(text[10:10 + size].decode())
    assert head["descr"] == "<f4" and not head["fortran_order"]
    data = text[10 + size:]
    return nest(list(struct.unpack(f"<{len(data) // 4}f", data)), head["shape"])


def normal(shape, seed):
    rng = random.Random(seed)
    if not shape:
        return struct.unpack("<f", struct.pack("<f", rng.gauss(0, 1)))[0]
    return [normal(shape[1:], (seed * 1009 + i) & 0xffffffff) for i in range(shape[0])]


def softmax(q, k, v, g, keep):
    """One head: output and the gradients of sum(out * g) with respect to q, k, v."""
    d = len(q[0])
    out, dq = [], []
    dk, dv = [[0.0] * d for _ in k], [[0.0] * len(v[0]) for _ in v]
    for qi, gi in zip(q, g):
        scores = [sum(a * b for a, b in zip(qi, kj)) / math.sqrt(d) if keep[j] else None for j, kj in enumerate(k)]
        top = max((s for s in scores if s is not None), default=0)
        weights = [math.exp(s - top) if s is not None else 0.0 for s in scores]
        total = sum(weights)
        p = [w / total if total else 0.0 for w in weights]
        out.append([sum(p[j] * v[j][c] for j in range(len(v))) for c in range(len(v[0]))])
        dp = [sum(a * b for a, b in zip(gi, vj)) for vj in v]
        mean = sum(a * b for a, b in zip(p, dp))
        ds = [p[j] * (dp[j] - mean) / math.sqrt(d) for j in range(len(k))]
        dq.append([sum(ds[j] * k[j][c] for j in range(len(k))) for c in range(d)])
        for j in range(len(k)):
            dk[j] = [a + ds[j] * b for a, b in zip(dk[j], qi)]
            dv[j] = [a + p[j] * b for a, b in zip(dv[j], gi)]
    return out, dq, dk, dv


def largest_difference(a, b):
    assert shape_of(a) == shape_of(b), (shape_of(a), shape_of(b))
    return max((abs(x - y) for x, y in zip(flat(a), flat(b))), default=0.0)


def make(rank):
    """Writes q, k, v and g with shape (batch, heads, n, d), or with only the last `rank` of these axes."""
    lead = {2: (), 3: (3,), 4: (2, 3)}[rank]
    for i, (name, tail) in enumerate((("q", (5, 4)), ("k", (7, 4)), ("v", (7, 6)), ("g", (5, 6)))):
        write(f"{name}.npy", normal(lead + tail, 100 + i))


def heads_of(a):
    """All heads of the batch as one axis: (batch * heads, n, d)."""
    shape = shape_of(a)
    return nest(flat(a), (math.prod(shape[:-2]),) + shape[-2:])


def judge(rank, keep):
    """Compares y.npy and grads/ with the loops above. keep: 1 or 0 for each key."""
    q, k, v, g, *got = [heads_of(read(f"{name}.npy"))
                        for name in ("q", "k", "v", "g", "y", "grads/dq", "grads/dk", "grads/dv")]
    worst = 0.0
    for i in range(len(q)):
        for ours, theirs in zip(softmax(q[i], k[i], v[i], g[i], keep), got):
            worst = max(worst, largest_difference(theirs[i], ours))
    # About fifty float32 operations on numbers below 10.
    if worst > 50 * 10 * 2 ** -24:
        sys.exit(f"rank {rank}: largest difference {worst}")


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(int(sys.argv[2]))
    elif sys.argv[1] == "judge":
        judge(int(sys.argv[2]), [int(c) for c in sys.argv[3]])
    elif sys.argv[1] == "raw":  # path descr shape bytes-of-data [fortran]
        write_raw(sys.argv[2], sys.argv[3], ast.literal_eval(sys.argv[4]), bytes.fromhex(sys.argv[5]), len(sys.argv) > 6)
