# SPDX-License-Identifier: Apache-2.0
"""Every mechanism that has a file in bench/rivals/, in turn with the best that a Python user can install or write in twenty
lines of PyTorch. rivals/NAME.py is about the mechanism NAME and has

    RIVALS   [(label, function of (n, heads, d) that returns function(q, k, v))], arrays of shape (1, heads, n, d); if the
             function has a true `forward_only`, only its forward is timed
    OPTIONS  {option: value} of our mechanism; {} if absent
    FORWARD_ONLY  true if our mechanism has no backward pass; absent: it has
    EXACT    what it approximates: (name, options) of an exact mechanism, or (label, function(q, k, v, places) that returns
             the rows of the queries at these places), without the batch; absent: softmax

A rival is compiled by torch.compile if that works here and is faster forward. A new mechanism is a new file there.
"""

import importlib
import os

from contest import compete, optional

HERE = os.path.dirname(os.path.abspath(__file__))


def names():
    return sorted(name[:-3] for name in os.listdir(os.path.join(HERE, "rivals")) if name.endswith(".py"))


def described(name):
    """The rivals of a mechanism, its options, what it approximates, and whether it has a backward pass."""
    module = importlib.import_module(f"rivals.{name}")
    return (module.RIVALS, getattr(module, "OPTIONS", {}), getattr(module, "EXACT", ("softmax", {})),
            not getattr(module, "FORWARD_ONLY", False))


def reference(peers, torch, library, exact, how, data):
    """Exact rows of some queries, and their places."""
    if not callable(how):
        return peers.exact(torch, library, exact, data, **how)
    q, k, v = (x[0] for x in data[:3])
    places = peers.sampled_places(torch, q.shape[1])
    return how(q, k, v, places), places


def race(torch, peers, library, results, name, inputs, rounds, try_compiler):
    """One mechanism and its rivals: errors on all inputs, then times on independent vectors."""
    rivals, options, (exact, exact_options), both = described(name)
    data, n = inputs["iid"], inputs["iid"][0].shape[2]
    facts = dict(n=n, input="iid", mechanism=name)
    references = {kind: reference(peers, torch, library, exact, exact_options, d) for kind, d in inputs.items()}
    found = []

    def enter(label, make):
        def with_errors():
            errors = {kind: peers.error(torch, make(d).output(), references[kind]) for kind, d in inputs.items()}
            contender = make(data)
            contender.row["error"] = {"to": exact, "radians": errors}
            return contender
        contender = optional(results, "mechanisms", label, with_errors, **facts)
        if contender is not None:
            found.append(contender)

    enter(f"hashattn {name}", lambda d: peers.ours(torch, library, name, f"hashattn {name}", d, both, **options))
    for label, build in rivals:
        function = optional(results, "mechanisms", label, lambda: build(n, peers.HEADS, peers.DIM), **facts)
        if function is None:
            continue
        chosen, compiled = optional(results, "mechanisms", label + " by torch.compile", lambda: peers.fastest(
            torch, function, data[:3], try_compiler), **facts) or (function, False)

        def make(d):
            contender = peers.theirs(torch, label, label, function, d, both=not getattr(function, "forward_only", False))
            if compiled:
                contender.row["label"] = label + ", compiled"
                contender.calls["forward"] = peers.theirs(torch, label, label, chosen, d, both=False).calls["forward"]
            return contender
        enter(label, make)
    compete(results, "mechanisms", found, rounds, **facts)


def work(torch, peers, library, results, n, rounds, try_compiler, only=()):
    """only: names of mechanisms; none: all."""
    inputs = {kind: peers.arrays(torch, n, kind) for kind in peers.KINDS}
    for name in only or names():
        race(torch, peers, library, results, name, inputs, rounds, try_compiler)
