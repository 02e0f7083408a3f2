"""hashattn.torch in models of the transformers library whose masks are more than causal: sliding windows, packed
sequences, chunks; models in float16 and float64. Results are those of the library's own attention.

Planted and caught: a window one key too long or too short; keys in front of a window kept; the first packed sequence joined
with the second; a bool mask for a model that adds masks. SPDX-License-Identifier: Apache-2.0
"""

import copy

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import hashattn.torch  # noqa: E402
from conftest import skip_without_layers  # noqa: E402
from hashattn.torch import interface, masks  # noqa: E402
from hashattn.torch.transformers import layers  # noqa: E402

SMALL = dict(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, pad_token_id=0,
             intermediate_size=48, max_position_embeddings=64, head_dim=8, eos_token_id=2, bos_token_id=None)
WINDOWS = {"Mistral": {**SMALL, "sliding_window": 5},
           "Gemma3Text": {**SMALL, "sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"]},
           "Qwen2": {**SMALL, "sliding_window": 5, "use_sliding_window": True, "max_window_layers": 1}}
WIDE = {kind: {**sizes, "sliding_window": 4096} for kind, sizes in WINDOWS.items()}
NAMES = {"Gemma3Text": "Gemma3ForCausalLM"}


def made(kind, sizes, name=None):
    torch.manual_seed(0)
    configuration = getattr(transformers, kind + "Config")(**sizes)
    model = getattr(transformers, name or NAMES.get(kind, kind + "ForCausalLM"))(configuration).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return skip_without_layers(model)


def tokens(batch, rows, seed=1):
    return torch.randint(5, 60, (batch, rows), generator=torch.Generator().manual_seed(seed))


def near(a, b, atol=1e-4):
    return a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=atol)


def softmax(model):
    return hashattn.torch.replace_attention(copy.deepcopy(model), "softmax")


@pytest.mark.parametrize("left", [None, False, True])
@pytest.mark.parametrize("sizes", [WINDOWS, WIDE], ids=["window", "wide"])
@pytest.mark.parametrize("kind", WINDOWS)
def test_windows(kind, sizes, left):
    model = made(kind, sizes[kind])
    ids, mask = tokens(2, 16), torch.ones(2, 16, dtype=torch.long)
    if left is not None:
        mask[1] = (torch.arange(16) < 11).flip(0) if left else torch.arange(16) < 11
    losses = []
    for each in (model, softmax(model)):
        labels = ids.masked_fill((mask & mask.roll(1, 1)) == 0, -100)  # nor of what follows on padding
        out = each(ids, attention_mask=mask, labels=labels)
        out.loss.backward()
        losses.append((out.logits[mask.bool()], each.model.layers[0].self_attn.q_proj.weight.grad))
    assert near(losses[0][0], losses[1][0]) and near(losses[0][1], losses[1][1])


@pytest.mark.parametrize("kind", WINDOWS)
def test_generate_in_windows(kind):
    model = made(kind, WINDOWS[kind])
    ids, mask = tokens(2, 9), torch.ones(2, 9, dtype=torch.long)
    mask[1, :3] = 0
    for more in ({}, {"cache_implementation": "static"}, {"use_cache": False}):
        given = dict(attention_mask=mask, max_new_tokens=8, do_sample=False, **more)
        assert torch.equal(softmax(model).generate(ids, **given), model.generate(ids, **given))


@pytest.mark.parametrize("given", [{"prompt_lookup_num_tokens": 3}, {"prefill_chunk_size": 4}, {"num_beams": 2},
                                   {"prefill_chunk_size": 3, "cache_implementation": "static"}])
@pytest.mark.parametrize("kind", ["Mistral", "Llama"])
def test_several_queries_in_generate(kind, given):
    model = made(kind, {**SMALL, **({"sliding_window": 5} if kind == "Mistral" else {})})
    ids = tokens(1, 5).repeat(1, 3)
    given = dict(max_new_tokens=8, do_sample=False, **given)
    assert torch.equal(softmax(model).generate(ids, **given), model.generate(ids, **given))


def test_bidirectional_windows():
    if not hasattr(transformers, "ModernBertConfig"):
        pytest.skip("no ModernBERT")
    sizes = dict(vocab_size=60, hidden_size=32, num_hidden_layers=4, num_attention_heads=2, intermediate_size=48,
                 local_attention=8, global_attn_every_n_layers=2, pad_token_id=0, cls_token_id=1, sep_token_id=2)
    model = made("ModernBert", sizes, "ModernBertModel")
    ids, mask = tokens(2, 24), (torch.arange(24) < torch.tensor([[24], [15]])).long()
    with torch.no_grad():
        for given in (None, mask, mask.flip(1)):
            taking = torch.ones(2, 24).bool() if given is None else given.bool()
            a, b = (each(ids, attention_mask=given).last_hidden_state[taking] for each in (model, softmax(model)))
            assert near(a, b)


@pytest.mark.parametrize("kind", ["Llama", "Mistral"])
def test_packed_sequences(kind):
    """Their places start again in the middle of a row: each is as if it were alone."""
    if int(transformers.__version__.split(".")[0]) < 5:
        pytest.skip("4.57 does not tell packed sequences apart")
    model = made(kind, {**SMALL, **({"sliding_window": 4} if kind == "Mistral" else {})})
    ids = tokens(2, 12)
    places = torch.cat([torch.arange(7), torch.arange(5)])[None].repeat(2, 1)
    with torch.no_grad():
        expected = model(ids, position_ids=places, use_cache=False).logits
        exact = softmax(model)
        assert near(exact(ids, position_ids=places, use_cache=False).logits, expected)
        assert near(exact(ids[:, 7:]).logits, expected[:, 7:])
        one = places.clone()
        one[1] = torch.arange(12)
        assert near(exact(ids, position_ids=one, use_cache=False).logits, model(ids, position_ids=one, use_cache=False).logits)


@pytest.mark.parametrize("queries", [1, 3])
def test_the_last_queries_in_a_window(queries):
    """Over a cache that keeps the keys in front of it."""
    function = interface.AttentionInterface()["hashattn-yoso"]
    q, k, v = (torch.randn(2, 2, rows, 8, generator=torch.Generator().manual_seed(rows)) for rows in (queries, 12, 12))
    for key_mask in (None, torch.arange(12) >= torch.tensor([[0], [10]])):
        mask = masks.make(2, queries, 12, key_mask, True, 12 - queries, reach=3)
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask & True)
        found = function(torch.nn.Module(), q, k, v, mask)[0].transpose(1, 2)
        assert near(found.nan_to_num(), expected.nan_to_num())


def test_masks_of_other_functions_are_read_by_their_values():
    if int(transformers.__version__.split(".")[0]) < 5:
        pytest.skip("before 5.0 functions of masks have other arguments")
    function = interface.AttentionInterface()["hashattn-softmax"]
    masks_of = interface.AttentionMaskInterface()["hashattn-softmax"]
    q = torch.randn(1, 2, 8, 16)
    causal = masks_of(batch_size=1, q_length=8, kv_length=8, mask_function=lambda b, h, q, k: k <= q)
    expected = torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    assert near(function(torch.nn.Module(), q, q, q, causal)[0].transpose(1, 2), expected)
    other = masks_of(batch_size=1, q_length=8, kv_length=8, mask_function=lambda b, h, q, k: k // 4 == q // 4)
    with pytest.raises(ValueError, match="differs between queries in another way"):
        function(torch.nn.Module(), q, q, q, other)


@pytest.mark.parametrize("chunk", [64, 4])
def test_chunks(chunk):
    """A mask of a function that is not known comes in full, and is read by its values."""
    sizes = {**SMALL, "intermediate_size_mlp": 48, "num_local_experts": 2, "attention_chunk_size": chunk,
             "layer_types": ["chunked_attention", "full_attention"], "no_rope_layers": [1, 0]}
    model = made("Llama4Text", sizes, "Llama4ForCausalLM")
    ids, mask = tokens(2, 12), (torch.arange(12) < torch.tensor([[12], [8]])).long()
    with torch.no_grad():
        if chunk < 12:
            with pytest.raises(ValueError, match="differs between queries in another way"):
                softmax(model)(ids, attention_mask=mask, use_cache=False)
            return
        for given in (None, mask):
            taking = torch.ones(2, 12).bool() if given is None else given.bool()
            a, b = (each(ids, attention_mask=given, use_cache=False).logits[taking] for each in (model, softmax(model)))
            assert near(a, b)


def test_own_code_beside_layers_that_change():
    """A GitModel's text layers have an attention of their own, which adds the mask; its image's layers take ours."""
    sizes = dict(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
                 max_position_embeddings=64, vision_config=dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                                                                intermediate_size=48, image_size=16, patch_size=8))
    model = made("Git", sizes)
    exact = softmax(model)
    assert {each.runs for each in layers(exact)} == {"hashattn-softmax", "its own code"}
    pixels = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        for given in ({}, {"pixel_values": pixels}):
            assert near(exact(tokens(2, 12), **given).logits, model(tokens(2, 12), **given).logits)


def test_masks_with_windows_stand_for_the_full_ones():
    sequences = torch.tensor([[0, 0, 0, 1, 1, 1]])
    mask = masks.make(1, 6, 6, None, True, 0, reach=1, sequences=sequences)
    full = torch.ones(6, 6).bool().tril() & torch.ones(6, 6).bool().triu(-1)
    full[3, 2] = False
    assert torch.equal((mask & True)[0, 0], full)
    both = masks.make(1, 6, 6, None, False, 0, reach=2) & True
    assert torch.equal(both[0, 0], torch.ones(6, 6).bool().tril(2).triu(-2))
    assert masks.make(1, 6, 6, None, True, 0, reach=5).reach is None and masks.make(1, 2, 6, None, True, 4, reach=4).reach == 4
    assert masks.offsets_of(torch.tensor([[0, 0, 1], [0, 0, 0]])).tolist() == [0, 2, 3, 6]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("kind", ["Llama", "Bert"])
def test_models_of_other_types(kind, dtype):
    sizes = SMALL if kind == "Llama" else {name: SMALL[name] for name in SMALL if "key" not in name and name != "head_dim"}
    model = made(kind, sizes, kind + "Model").to(dtype)
    ids, mask = tokens(2, 12), (torch.arange(12) < torch.tensor([[12], [8]])).long()
    with torch.no_grad():
        a, b = (each(ids, attention_mask=mask).last_hidden_state for each in (model, softmax(model)))
    assert b.dtype == dtype
    tolerance = {torch.float16: 2e-2, torch.bfloat16: 2e-1, torch.float64: 1e-4}[dtype]
    assert near(a[mask.bool()].double(), b[mask.bool()].double(), tolerance)
