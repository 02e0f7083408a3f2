# SPDX-License-Identifier: Apache-2.0
"""Trains a PyTorch encoder with YosoAttention on sequences of 4,096 tokens.

    pip install torch matplotlib
    python examples/torch_long_classifier.py

To be read from top to bottom; the lines "# %%" divide it into cells for editors that run them one by one. The task is
`needle`: 128 of 4,096 tokens are marked and carry the same symbol out of 16; which one? The model answers at the first
token, so attention must carry the symbol there. Guessing is right one time in 16. On two cores it takes a minute or
two, and writes the curve of the loss to torch_long_classifier.png.
"""

# %% Settings
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import hashattn
import hashattn.torch

TOKENS, SYMBOLS, BATCH, ENOUGH = 4096, 16, 8, 0.95
SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 300  # at most
torch.manual_seed(1)

# %% Data: the files of `hashattn data needle`, a label and a line of letters for each example
folder = Path(tempfile.mkdtemp()) / "needle"
hashattn.make_data("needle", folder, train=2000, valid=64, test=200, seed=1, seq_len=TOKENS)
IDS = {letter: index for index, letter in enumerate("abcdefghijklmnopABCDEFGHIJKLMNOP?")}


def read(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids (examples, TOKENS) and labels (examples)."""
    lines = [line.split("\t") for line in (folder / name).read_text().splitlines()]
    return torch.tensor([[IDS[letter] for letter in text] for _, text in lines]), \
        torch.tensor([IDS[label] for label, _ in lines])


train, valid, test = (read(name) for name in ("train.tsv", "valid.tsv", "test.tsv"))


# %% Model: an ordinary pre-LN encoder; only its attention comes from hashattn
class Block(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = hashattn.torch.YosoAttention(dim, heads, num_hashes=32, hash_bits=8)
        self.feed_forward = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        rows = rows + self.attention(self.norm1(rows))
        return rows + self.feed_forward(self.norm2(rows))


class Classifier(nn.Module):
    def __init__(self, dim: int = 64, heads: int = 2, layers: int = 2) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(len(IDS), dim), nn.Embedding(TOKENS, dim)
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.positions.weight, std=0.02)
        self.blocks = nn.Sequential(*(Block(dim, heads) for _ in range(layers)))
        self.norm, self.answer = nn.LayerNorm(dim), nn.Linear(dim, SYMBOLS)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        rows = self.blocks(self.tokens(ids) + self.positions.weight[:ids.shape[1]])
        return self.answer(self.norm(rows[:, 0]))


def accuracy(model: nn.Module, ids: torch.Tensor, labels: torch.Tensor) -> float:
    with torch.inference_mode():
        right = [(model(a).argmax(1) == b).sum() for a, b in zip(ids.split(BATCH), labels.split(BATCH))]
    return float(sum(right)) / len(labels)


# %% Training, until 95 % of the sequences set aside for validation are right
model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0)
warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 20))
losses: list[float] = []
checks: list[tuple[int, float]] = []  # steps, validation accuracy
start = time.perf_counter()
while not checks or (checks[-1][1] < ENOUGH and time.perf_counter() - start < SECONDS):
    rows = torch.randint(len(train[0]), (BATCH,))
    loss = F.cross_entropy(model(train[0][rows]), train[1][rows])
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    warmup.step()
    losses.append(loss.item())
    if len(losses) % 20 == 0:
        checks.append((len(losses), accuracy(model, *valid)))
        print(f"step {len(losses)}  loss {sum(losses[-20:]) / 20:.3f}  accuracy {checks[-1][1]:.1%}  "
              f"{time.perf_counter() - start:.0f} s", flush=True)
seconds = time.perf_counter() - start
print(f"{len(losses)} steps of {BATCH} sequences of {TOKENS} tokens in {seconds:.0f} s, test accuracy "
      f"{accuracy(model, *test):.1%}")

# %% The curve
try:
    import matplotlib
except ImportError:
    sys.exit("matplotlib is not installed: no picture")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

figure, left = pyplot.subplots(figsize=(7, 4), layout="constrained")
left.plot(range(1, len(losses) + 1), losses, color="tab:blue", linewidth=1)
left.set(xlabel="step", ylabel="training loss", ylim=(0, None))
left.yaxis.label.set_color("tab:blue")
right = left.twinx()
right.plot(*zip(*checks), color="tab:orange", marker="o", markersize=4)
right.set(ylabel="validation accuracy", ylim=(0, 1.02))
right.yaxis.label.set_color("tab:orange")
figure.suptitle(f"YosoAttention on needle, {TOKENS:,} tokens: {seconds:.0f} s")
figure.savefig("torch_long_classifier.png", dpi=120)
print("torch_long_classifier.png has the curve")
