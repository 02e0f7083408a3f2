#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The transformers library's own common tests of models, with its sdpa, and with softmax of hashattn in place of it.

    python -m pip download --no-deps --no-binary :all: transformers==5.24.0 && tar xf transformers-5.24.0.tar.gz
    PYTHONPATH=build/python env/bin/python bench/torch_reference.py transformers-5.24.0 bert llama

The environment needs that version of the library, torch, pytest, parameterized and Pillow. The source distribution has
tests/test_modeling_common.py, and neither the tests of the families nor those of generation. So the families are the tiny
models of torch_families.py. It prints how many of the tests that pass with sdpa pass with hashattn, and the others by
name. Tests of the name "sdpa" in configurations are left out.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import torch_families

FAMILIES = "bert albert distilbert roberta gpt2 llama mistral qwen2 gemma3_text bart vit clip_text_model".split()
CHOSEN = ("(eager_matches_sdpa or attention_outputs or hidden_states or retain_grad or equivalence or determinism or save_load "
          "or training or sliding or inputs_embeds or meta or problem_types or continue or static) and not can_dispatch")
ROWS, TOKENS = 5, 10
HEADS = "MODEL CAUSAL_LM MASKED_LM SEQUENCE_CLASSIFICATION TOKEN_CLASSIFICATION SEQ_TO_SEQ_CAUSAL_LM IMAGE_CLASSIFICATION".split()
MISSING = {"tests.exporters.test_export": "ExportTesterMixin", "tests.generation.test_utils": "GenerationTesterMixin"}
FILE = "import torch_reference\nglobals().update(torch_reference.cases())\n"


class Family:
    """What the tests ask about a family: its configuration and inputs."""

    is_training, batch_size, num_hidden_layers, hidden_size, num_attention_heads, type_sequence_label_size = True, ROWS, 2, 32, 4, 2

    def __init__(self, family):
        self.family = family
        self.seq_length = 17 + (family == "deit") if family in torch_families.PIXELS else TOKENS
        self.encoder_seq_length = self.decoder_seq_length = self.key_length = self.seq_length

    def prepare_config_and_inputs_for_common(self):
        import torch
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING

        kind = CONFIG_MAPPING[self.family]
        known = set(kind().to_dict()) | set(kind.attribute_map)
        made = kind(**{name: value for name, value in torch_families.TINY.items() if name in known})
        if self.family in torch_families.PIXELS:
            return made, {"pixel_values": torch.rand(ROWS, 3, 16, 16)}
        ids = torch.randint(5, 60, (ROWS, TOKENS))
        if self.family in (*torch_families.BOTH, "clip_text_model"):
            ids[:, -1] = 2  # some models look for the end of a sequence
        given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if self.family in torch_families.BOTH:
            given |= {"decoder_input_ids": ids.flip(1), "decoder_attention_mask": torch.ones_like(ids)}
        return made, given


def classes_of(family):
    """The models of a family with these heads."""
    import transformers
    from transformers.models.auto import modeling_auto

    heads = ("MODEL", "SEQ_TO_SEQ_CAUSAL_LM") if family in torch_families.BOTH else HEADS
    listed = [getattr(modeling_auto, "MODEL_MAPPING_NAMES" if head == "MODEL" else f"MODEL_FOR_{head}_MAPPING_NAMES").get(family)
              for head in heads]
    names = [each for name in listed if name for each in ([name] if isinstance(name, str) else name)]
    return tuple(getattr(transformers, name) for name in dict.fromkeys(names) if hasattr(transformers, name))


def cases():
    """{name: test class}, inside pytest; which, by the environment."""
    import unittest

    for module, kind in MISSING.items():
        for name in (module.rpartition(".")[0], module):
            sys.modules.setdefault(name, types.ModuleType(name))
        setattr(sys.modules[module], kind, type(kind, (), {}))
    from tests.test_modeling_common import ModelTesterMixin

    if os.environ["HASHATTN_REFERENCE"].split()[0] == "ours":
        use_ours()
    made = {}
    for family in os.environ["HASHATTN_REFERENCE"].split()[1:]:
        def start(self, family=family):
            self.model_tester = Family(family)

        made[f"Test_{family}"] = type(f"Test_{family}", (ModelTesterMixin, unittest.TestCase), {
            "all_model_classes": classes_of(family), "is_encoder_decoder": family in torch_families.BOTH, "setUp": start})
    return made


def use_ours():
    """Every model that would take sdpa takes softmax of hashattn."""
    import transformers

    import hashattn.torch.transformers  # noqa: F401

    own = transformers.PreTrainedModel._check_and_adjust_attn_implementation

    def check(self, *given, **named):
        found = own(self, *given, **named)
        return "hashattn-softmax" if found == "sdpa" else found

    transformers.PreTrainedModel._check_and_adjust_attn_implementation = check


def passed(distribution, which, families):
    """Names of the tests that pass."""
    with tempfile.TemporaryDirectory() as folder:
        tests = Path(folder) / "tests"
        tests.symlink_to(distribution / "tests")
        (Path(folder) / "test_reference.py").write_text(FILE)
        paths = [folder, str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH", "")]
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-rA", "-W", "ignore", "-p", "no:cacheprovider", "-k", CHOSEN,
                               "test_reference.py"], cwd=folder, capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": ":".join(paths), "HASHATTN_REFERENCE": " ".join([which, *families])})
    found = re.findall(r"^PASSED test_reference.py::(\S+)", done.stdout, re.MULTILINE)
    if not found:
        sys.exit(done.stdout[-2000:] + done.stderr[-2000:])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("distribution", type=Path, help="the unpacked source distribution")
    parser.add_argument("families", nargs="*", default=FAMILIES)
    asked = parser.parse_args()
    expected, ours = (passed(asked.distribution.resolve(), which, asked.families) for which in ("sdpa", "ours"))
    others = sorted(set(expected) - set(ours))
    print(f"{len(expected) - len(others)} of {len(expected)} tests that pass with sdpa pass with hashattn")
    print("\n".join(others))


if __name__ == "__main__":
    main()
