"""Cache for `generate`: logits and texts as of the library's own attention and cache, for families with groups, windows,
left padding, batches, beams, continued prompts; states of constant size; other implementations and models are refused.

Planted and caught: a layer with a window that ran the mechanism over the window's cache; learned tensors, the scale, the
mask and the seed not given to a state; a model in float16 or float64 refused; a cache under its old name, which warns.

SPDX-License-Identifier: Apache-2.0
"""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import hashattn  # noqa: E402
import hashattn.torch.transformers as ours  # noqa: E402
from conftest import holding  # noqa: E402

pytestmark = pytest.mark.filterwarnings("error::FutureWarning", "error::DeprecationWarning")

SIZES = dict(vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, max_position_embeddings=512, pad_token_id=0, bos_token_id=1,
             eos_token_id=None)
FAMILIES = {
    "Llama": {}, "SmolLM3": {}, "Qwen2": {}, "Qwen3": {}, "Mistral": dict(sliding_window=9),
    "Gemma": {}, "Gemma3Text": dict(sliding_window=7, layer_types=["sliding_attention", "full_attention"] * 2),
}


def pair(family, dtype=torch.float32, **more):
    """A model with the library's attention, and the same with hashattn's."""
    config_type = getattr(transformers, family + "Config", None)
    model_type = getattr(transformers, family.replace("Text", "") + "ForCausalLM", None)
    if config_type is None or model_type is None:
        pytest.skip(f"transformers {transformers.__version__} has no {family}")
    sizes = {**SIZES, **FAMILIES[family], **more}
    if "layer_types" in sizes:
        sizes["num_hidden_layers"] = len(sizes["layer_types"])
    torch.manual_seed(0)
    theirs = model_type._from_config(config_type(**sizes), attn_implementation="eager").to(dtype).eval()
    mine = model_type._from_config(config_type(**sizes), attn_implementation="hashattn-softmax").to(dtype).eval()
    mine.load_state_dict(theirs.state_dict())
    return theirs, mine


def prompts():
    """Two prompts, the second with left padding."""
    ids = torch.randint(2, 97, (2, 21), generator=torch.Generator().manual_seed(3))
    mask = torch.ones_like(ids)
    mask[1, :8] = 0
    return dict(input_ids=ids * mask, attention_mask=mask)


@pytest.mark.parametrize("family, beams", [*((family, 1) for family in FAMILIES), ("Qwen2", 3), ("Gemma3Text", 3)])
def test_generate_is_that_of_the_library(family, beams):
    theirs, mine = pair(family)
    kept = dict(max_new_tokens=12, return_dict_in_generate=True, output_scores=True, num_beams=beams, do_sample=False)
    expected = theirs.generate(**prompts(), **kept)
    for options in (dict(), dict(mechanism="hashed", budget=1000)):
        found = mine.generate(**prompts(), **holding(ours.Cache(mine.config, **options)), **kept)
        assert torch.equal(found.sequences, expected.sequences)
        for one, other in zip(found.scores, expected.scores):
            assert torch.allclose(one, other, atol=1e-4)


def test_a_conversation_goes_on():
    theirs, mine = pair("Llama")
    cache = ours.Cache(mine.config, mechanism="hashed", budget=1000)
    with torch.no_grad():
        ids = prompts()["input_ids"]
        whole = theirs(ids).logits
        first = mine(ids[:, :10], **holding(cache)).logits
        second = mine(ids[:, 10:], **holding(cache)).logits
        assert torch.allclose(torch.cat([first, second], 1), whole, atol=1e-4)
        assert cache.get_seq_length() == 21 and cache.nbytes > 0
        assert repr(cache) == "<hashattn.torch.transformers.Cache layers=3 columns=21 mechanism='hashed' budget=1000>"
        cache.crop(6) if ours.Cache.crop.__code__.co_varnames[1] == "tokens_to_remove" else cache.crop(15)
        assert cache.get_seq_length() == 15
        assert torch.allclose(mine(ids[:, 15:], **holding(cache)).logits, whole[:, 15:], atol=1e-4)
        cache.reset()
        assert torch.allclose(mine(ids, **holding(cache)).logits, whole, atol=1e-4)


def test_few_rows_are_read():
    _, mine = pair("Llama")
    cache = ours.Cache(mine.config, mechanism="hashed", budget=0.25)
    ids = torch.randint(2, 97, (1, 400), generator=torch.Generator().manual_seed(3))
    mine.generate(input_ids=ids, **holding(cache), max_new_tokens=5, do_sample=False)
    assert all(90 < layer.cache.rows_read < 110 for layer in cache.layers)


def test_bfloat16():
    theirs, mine = pair("Llama", torch.bfloat16)
    with torch.no_grad():
        ids = prompts()["input_ids"]
        cache = ours.Cache(mine.config)
        found = torch.cat([mine(ids[:, :20], **holding(cache)).logits, mine(ids[:, 20:], **holding(cache)).logits], 1)
        assert torch.allclose(found.float(), theirs(ids).logits.float(), atol=0.1)
        assert cache.layers[0].cache.dtype == "bfloat16"


@pytest.mark.parametrize("options", [{}, {"mechanism": "hashed", "budget": 1000}, {"mechanism": "linear"}])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_models_in_float16_and_float64(dtype, options):
    """As in float32, in the precision of the model around the attention."""
    name = options.get("mechanism") if options.get("mechanism") == "linear" else "softmax"
    ids, outputs = prompts()["input_ids"], []
    for each in (torch.float32, dtype):
        _, model = pair("Llama", each)
        model.set_attn_implementation(f"hashattn-{name}")
        cache = ours.Cache(model.config, **options)
        with torch.no_grad():
            outputs.append(torch.cat([model(part, **holding(cache)).logits for part in ids.split(20, 1)], 1))
    assert outputs[1].dtype == dtype
    assert torch.allclose(outputs[1].float(), outputs[0], atol=2e-2 if dtype == torch.float16 else 1e-4)


@pytest.mark.parametrize("name", ["eager", "sdpa", "hashattn-yoso"])
def test_another_implementation_is_refused_by_name(name):
    _, mine = pair("Llama")
    mine.set_attn_implementation(name)
    with pytest.raises(ValueError, match='attn_implementation="hashattn-softmax"'):
        mine.generate(**prompts(), **holding(ours.Cache(mine.config)), max_new_tokens=2)


def test_models_that_cannot_be_served():
    with pytest.raises(ValueError, match="has an encoder"):
        ours.Cache(transformers.T5Config())
    with pytest.raises(ValueError, match="linear_attention|mamba|kind"):
        ours.Cache(transformers.LlamaConfig(**{**SIZES, "layer_types": ["linear_attention"] * 3}))
    with pytest.raises(ValueError, match="sotfmax"):
        ours.Cache(transformers.LlamaConfig(**SIZES), mechanism="sotfmax")
    with pytest.raises(TypeError, match="configuration of a model"):
        ours.Cache("llama")


def summed_pair(name, family="Llama", **more):
    """A model of which the attention has a state."""
    _, model = pair(family, **more)
    ours.register(name, **mechanism_of(name))
    model.set_attn_implementation(name)
    return model


def mechanism_of(name):
    mechanism, *options = name.removeprefix("hashattn-").split(",")
    return {"mechanism": mechanism, **{each.split("=")[0]: int(each.split("=")[1]) for each in options}}


@pytest.mark.parametrize("cache", [None, "yoso"])
def test_rows_behind_a_window(cache):
    """Token by token as all at once, where the library's cache holds the window alone."""
    model = summed_pair("hashattn-yoso", "Gemma3Text")
    ids = prompts()["input_ids"]
    kept = transformers.DynamicCache(config=model.config) if cache is None else ours.Cache(model.config, mechanism=cache)
    with torch.no_grad():
        whole = model(ids, use_cache=False).logits
        parts = [model(part, **holding(kept)).logits for part in (ids[:, :15], *ids[:, 15:].split(1, 1))]
    assert torch.allclose(torch.cat(parts, 1), whole, atol=1e-4)


@pytest.mark.parametrize("name, family, beams", [
    ("hashattn-yoso", "Llama", 1), ("hashattn-yoso", "Llama", 3), ("hashattn-yoso,num_hashes=8,hash_bits=5,seed=3", "Qwen2", 1),
    ("hashattn-yoso", "Gemma3Text", 1), ("hashattn-linear", "Llama", 1), ("hashattn-performer", "Gemma3Text", 1),
    ("hashattn-race", "Llama", 1)])
def test_a_state_of_constant_size(name, family, beams):
    """As the library's own cache, which keeps all keys."""
    model = summed_pair(name, family)
    kept = dict(max_new_tokens=12, return_dict_in_generate=True, output_scores=True, num_beams=beams, do_sample=False)
    expected = model.generate(**prompts(), **kept)
    cache = ours.Cache(model.config, mechanism=name.partition(",")[0].removeprefix("hashattn-"))
    found = model.generate(**prompts(), **holding(cache), **kept)
    assert torch.equal(found.sequences, expected.sequences)
    for one, other in zip(found.scores, expected.scores):
        assert torch.allclose(one, other, atol=1e-4)


def test_a_state_does_not_grow():
    model, sizes = summed_pair("hashattn-yoso,num_hashes=4,hash_bits=4"), []
    ids = torch.randint(2, 97, (2, 300), generator=torch.Generator().manual_seed(3))
    cache = ours.Cache(model.config, mechanism="yoso")
    with torch.no_grad():
        whole = model(ids).logits
        parts = []
        for part in ids.split(100, 1):
            parts.append(model(part, **holding(cache)).logits)
            sizes.append(cache.nbytes)
        assert torch.allclose(torch.cat(parts, 1), whole, atol=1e-4)
    assert sizes[0] == sizes[1] == sizes[2] > 0 and cache.get_seq_length() == 300
    with pytest.raises(ValueError, match="sums of rows, from which none can be removed"):
        cache.crop(3)
    cache.reset()
    with torch.no_grad():
        assert torch.allclose(model(ids, **holding(cache)).logits, whole, atol=1e-4)


def test_a_state_of_what_is_learned():
    model = summed_pair("hashattn-softmax")
    import hashattn.torch

    hashattn.torch.replace_attention(model, "rfa")
    with torch.no_grad():
        for name, each in model.named_parameters():
            if ".own." in name:
                each.add_(torch.randn(each.shape, generator=torch.Generator().manual_seed(1)))
        ids = prompts()["input_ids"]
        cache = ours.Cache(model.config, mechanism="rfa")
        found = torch.cat([model(ids[:, :9], **holding(cache)).logits, model(ids[:, 9:], **holding(cache)).logits], 1)
        assert torch.allclose(found, model(ids).logits, atol=1e-4)


def test_what_states_refuse():
    model = summed_pair("hashattn-softmax")
    with pytest.raises(ValueError, match='mechanism="yoso" works with attn_implementation="hashattn-yoso" alone'):
        model.generate(**prompts(), **holding(ours.Cache(model.config, mechanism="yoso")), max_new_tokens=2)
    with pytest.raises(ValueError, match='num_hashes: a cache of yoso has the options of the model'):
        ours.Cache(model.config, mechanism="yoso", num_hashes=8)
    with pytest.raises(hashattn.RefusedError, match="lha"):
        ours.Cache(model.config, mechanism="lha")
