# SPDX-License-Identifier: Apache-2.0
"""Trainings and evaluations by the tool that a script makes once: what was finished is read again, what was stopped
continues. `given` has the build directory (build) and the number of threads (threads)."""

import os

import runs

LEARN_HASHES = ("lha",)  # mechanisms
# A training of what mechanisms learn, with all else frozen. A rate of 1e-2 gives an F1 on MRPC 0.3 points lower.
TUNING = ("--freeze", "all-but-own", "--learning-rate", 1e-3, "--warmup", 0)


def tool(given, *words):
    return runs.tool(given.build, *words, threads=given.threads)


def train(given, run, *words):
    """Trains by `train WORDS --out RUN`, or continues the run."""
    if os.path.exists(os.path.join(run, "config.json")):
        return tool(given, "train", "--resume", run)
    os.makedirs(os.path.dirname(run), exist_ok=True)
    return tool(given, "train", *words, "--out", run)


def scores(found, prefix=""):
    """The scores of masked tokens, and of the order of texts if the model has it. prefix: "valid_" in what a training prints."""
    names = {"perplexity": "masked_tokens.perplexity", "order": "classify.accuracy"}
    if prefix + "perplexity" in found:  # the only objective
        names = {"perplexity": "perplexity"}
    return {key: found[prefix + name] for key, name in names.items()}


def replaced(given, run, task, *words):
    """A run with another mechanism: a training that changes nothing, because `eval` keeps the mechanism. WORDS: with --from,
    --attention and --data."""
    return train(given, run, task, *words, "--epochs", 0, "--steps", 1, "--warmup", 0, "--learning-rate", 0,
                 "--eval-every", 1, "--batch", 1)
