"""PyTorch's SDPA on a GPU, each backend that runs: a line of JSON for each length and width, for bench/gpu.sh.
SPDX-License-Identifier: Apache-2.0
"""
import json
import statistics

try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention
except ImportError as error:
    raise SystemExit(f"no torch: {error}")
if not torch.cuda.is_available():
    raise SystemExit("torch finds no GPU")

REPEATS = 3


def milliseconds(work):
    times = []
    for _ in range(REPEATS + 1):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[1:])


def measure(heads, rows, width, backend):
    q, k, v = (torch.randn(1, heads, rows, width, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    torch.cuda.reset_peak_memory_stats()
    with sdpa_kernel(backend):
        with torch.no_grad():
            forward = milliseconds(lambda: scaled_dot_product_attention(q, k, v))
        both = milliseconds(lambda: scaled_dot_product_attention(q, k, v).sum().backward())
    return {"forward_ms": forward, "forward_and_backward_ms": both, "peak_bytes": torch.cuda.max_memory_allocated()}


for rows, heads in ((4096, 16), (16384, 16), (65536, 16), (262144, 1)):
    for width in (64, 128):
        for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
            row = {"kind": "sdpa", "backend": backend.name, "heads": heads, "seq_len": rows, "head_dim": width}
            try:
                row.update(measure(heads, rows, width, backend))
            except RuntimeError as error:
                row["error"] = str(error)[:200]
            print(json.dumps(row), flush=True)
