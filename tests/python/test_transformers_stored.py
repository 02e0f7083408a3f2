"""A model of the transformers library keeps its mechanism: saved, loaded, copied, pickled, in this process and in others.

Planted and caught: the name left out of a part of a configuration; options left out of the name.
SPDX-License-Identifier: Apache-2.0
"""

import copy
import json
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import hashattn.torch  # noqa: E402
import hashattn.torch.transformers as interface  # noqa: E402

SIZES = dict(vocab_size=90, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
             max_position_embeddings=80, initializer_range=0.3)
IDS = torch.arange(5, 45)[None]


def made(kind="BertModel", implementation=None):
    torch.manual_seed(0)
    configuration = getattr(transformers, kind.replace("Model", "Config").replace("ForCausalLM", "Config"))(**SIZES)
    if implementation is not None:
        configuration._attn_implementation = implementation
    return getattr(transformers, kind)(configuration).eval()


@torch.no_grad()
def out(model):
    return model.eval()(IDS)[0]


def run(code, *arguments):
    """`code` in a new Python, which prints True."""
    return subprocess.run([sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)], capture_output=True, text=True)


@pytest.mark.parametrize("kind", ["BertModel", "YosoModel", "LlamaForCausalLM"])
def test_a_saved_model_is_the_same(kind, tmp_path):
    model = hashattn.torch.replace_attention(made(kind), "yoso", num_hashes=8, seed=3)
    expected = out(model)
    assert not torch.allclose(expected, out(made(kind)), atol=1e-3)
    model.save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())["attn_implementation"]
    assert stored == "hashattn-yoso,num_hashes=8,seed=3 (needs: import hashattn.torch)"
    loaded = getattr(transformers, kind).from_pretrained(tmp_path)
    assert torch.equal(out(loaded), expected)
    for again in (copy.deepcopy(loaded), type(loaded)(copy.deepcopy(loaded.config))):
        assert [each.runs for each in interface.layers(again)] == [each.runs for each in interface.layers(loaded)]
    loaded.save_pretrained(tmp_path / "again")
    assert torch.equal(out(getattr(transformers, kind).from_pretrained(tmp_path / "again")), expected)
    exact = getattr(transformers, kind).from_pretrained(tmp_path, attn_implementation="hashattn-softmax")
    assert {each.runs for each in interface.layers(exact)} == {"hashattn-softmax"} or kind == "YosoModel"
    own = getattr(transformers, kind).from_pretrained(tmp_path, attn_implementation="eager")
    assert torch.allclose(out(own), out(made(kind)), rtol=0, atol=1e-5)

    torch.save(expected, tmp_path / "expected.pt")
    for imports in ("import hashattn.torch, torch, transformers", "import torch, transformers, hashattn.torch",
                    "import torch, transformers.modeling_utils, hashattn.torch"):
        done = run(f"{imports}; import sys; m = transformers.{kind}.from_pretrained(sys.argv[1]).eval(); "
                   "print(torch.equal(m(torch.arange(5, 45)[None])[0], torch.load(sys.argv[1] + '/expected.pt')))", tmp_path)
        assert done.stdout.strip() == "True", done.stderr
    done = run(f"import sys, transformers; transformers.{kind}.from_pretrained(sys.argv[1])", tmp_path)
    assert "ValueError" in done.stderr and "(needs: import hashattn.torch)" in done.stderr
    torch.save(model, tmp_path / "model.pt")
    done = run("import sys, torch; m = torch.load(sys.argv[1] + '/model.pt', weights_only=False); "
               "print(torch.equal(m(torch.arange(5, 45)[None])[0], torch.load(sys.argv[1] + '/expected.pt')))", tmp_path)
    assert done.stdout.strip() == "True", done.stderr


def test_a_registered_name_is_stored_with_what_it_stands_for(tmp_path):
    interface.register("of-mine", "yoso", num_hashes=4, planes="gaussian", recompute=True)
    model = made(implementation="of-mine")
    expected = out(model)
    model.save_pretrained(tmp_path)
    loaded = transformers.AutoModel.from_pretrained(tmp_path)
    assert torch.equal(out(loaded), expected)
    assert interface.layers(loaded)[0].runs == "hashattn-yoso,num_hashes=4,planes=gaussian,recompute=true"


def test_others_are_stored_as_before(tmp_path):
    made(implementation="sdpa").save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())
    assert not {"attn_implementation", "_attn_implementation"} & set(stored)


def test_a_part_of_a_model(tmp_path):
    sizes = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48)
    configuration = transformers.CLIPConfig(text_config=dict(vocab_size=90, **sizes),
                                            vision_config=dict(image_size=32, patch_size=8, **sizes))
    model = transformers.CLIPModel(configuration).eval()
    hashattn.torch.replace_attention(model.text_model, "yoso", num_hashes=8)
    runs = [each.runs for each in interface.layers(model)]
    assert sorted(runs) == ["hashattn-yoso,num_hashes=8", "sdpa"]
    model.save_pretrained(tmp_path)
    loaded = transformers.CLIPModel.from_pretrained(tmp_path)
    assert [each.runs for each in interface.layers(loaded)] == runs


def test_a_name_that_does_not_fit():
    for name, why in [("hashattn-yoso,x=1", "yoso has no option 'x'"), ("hashattn-nothing", "nothing"),
                      ("hashattn-yoso,8", "'8' is not OPTION=VALUE")]:
        with pytest.raises(ValueError, match=why):
            made(implementation=name)
