"""hashattn.torch in models of the transformers library: what is decided from the call of a layer, in every layout of masks
and caches. Logits are those of the library's own attention; no row sees a later token; padding changes no other token.

Planted and caught: places of a cache that are still empty taken as keys; padding left out of the keys only, and of the
queries of cross attention too; causality taken from the layer where the mask has it, or lost in a dense mask; a slice of a
mask that is not the whole; a warning left out; a layer counted as taking an implementation because its model checks names; a
seed drawn in evaluation; one query at the first key, or at a place of a static cache that is empty; a query of cross
attention at the first place, or with others that compete with it left out; several at the first place where a cache does not
tell, its cache among unnamed arguments, or not the whole one, overlooked; a first part refused.
SPDX-License-Identifier: Apache-2.0
"""

import copy
import warnings

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import hashattn.torch  # noqa: E402
from conftest import holding, skip_without_layers  # noqa: E402
import hashattn.torch.transformers as interface  # noqa: E402
from hashattn.torch import masks  # noqa: E402

ENCODER = dict(vocab_size=90, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
               max_position_embeddings=300, pad_token_id=0)
LLAMA = dict(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=48, max_position_embeddings=64, pad_token_id=0)
SEQ2SEQ = dict(vocab_size=60, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
               decoder_attention_heads=2, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64,
               decoder_start_token_id=2)
DECODERS = {"Llama": LLAMA, "Qwen2": {**LLAMA, "sliding_window": None}, "Gemma": {**LLAMA, "head_dim": 8},
            "GPT2": dict(vocab_size=60, n_embd=32, n_layer=2, n_head=2, n_positions=64),
            "OPT": dict(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, ffn_dim=48,
                        max_position_embeddings=64, word_embed_proj_dim=32),
            "GPTNeoX": {**LLAMA, "num_attention_heads": 2}}
# Attention whose queries influence each other, so that padding has to be left out of them too.
COMPETING = [("lsh", {}), ("smyrf", {}), ("probsparse", {}), ("nystrom", {"num_landmarks": 16}), ("clustered", {}),
             ("reformer", {}), ("softmax", {})]


def made(kind, sizes, suffix="Model"):
    torch.manual_seed(0)
    model = getattr(transformers, kind + suffix)(getattr(transformers, kind + "Config")(**sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model if kind == "Yoso" else skip_without_layers(model)


def tokens(batch, rows, seed=1):
    return torch.randint(5, 60, (batch, rows), generator=torch.Generator().manual_seed(seed))


def near(a, b):
    return torch.allclose(a, b, rtol=0, atol=1e-4)


def padded(rows, length, left=False):
    mask = (torch.arange(rows) < torch.tensor([[rows], [length]])).long()
    return mask.flip(1) if left else mask


@pytest.mark.parametrize("mechanism, options", COMPETING)
@pytest.mark.parametrize("kind", ["XLMRoberta", "Electra", "Bert"])
def test_padding_changes_no_token(kind, mechanism, options):
    model = hashattn.torch.replace_attention(made(kind, ENCODER), mechanism, seed=1, **options)
    ids = tokens(1, 200)
    mask = padded(200, 70)[1:]
    with torch.no_grad():
        alone = model(ids[:, :70], attention_mask=mask[:, :70]).last_hidden_state
        assert near(model(ids, attention_mask=mask).last_hidden_state[:, :70], alone)
        left = model(ids.roll(130, 1), attention_mask=mask.flip(1)).last_hidden_state[:, 130:]
        if kind != "XLMRoberta":  # positions of the others count the padding
            left = model(ids.roll(130, 1), attention_mask=mask.flip(1),
                         position_ids=(torch.arange(200) - 130).clamp(min=0)[None]).last_hidden_state[:, 130:]
            assert near(left, alone)


def test_a_layer_of_another_class_keeps_its_padding():
    model = made("Bert", ENCODER)
    kind = type(model.encoder.layer[0].attention.self)

    class Own(kind):
        def forward(self, *arguments, **named):
            return super().forward(*arguments, **named)

    for layer in model.encoder.layer:
        layer.attention.self.__class__ = Own
    hashattn.torch.replace_attention(model, "lsh", seed=1)
    ids, mask = tokens(2, 200), padded(200, 70)
    with torch.no_grad():
        assert near(model(ids, attention_mask=mask).last_hidden_state[1, :70],
                    model(ids[1:, :70]).last_hidden_state[0])


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("mechanism, options", COMPETING)
def test_encoder_and_cross_attention_of_equal_length(mechanism, options, left):
    """The same class does both; only the call tells which rows are padding."""
    model = hashattn.torch.replace_attention(made("Bart", SEQ2SEQ), mechanism, seed=1, **options)
    ids, mask = tokens(2, 40), padded(40, 25, left)
    real = slice(15, 40) if left else slice(0, 25)
    with torch.no_grad():
        encoded = model.encoder(ids, attention_mask=mask)
        other = ids.clone()
        other[1, mask[1] == 0] = 7
        assert near(encoded.last_hidden_state[1, real],
                    model.encoder(other, attention_mask=mask).last_hidden_state[1, real])
        if mechanism not in ("softmax", "probsparse"):  # no causal form, or queries are placed by the number of keys
            return
        found = model(encoder_outputs=encoded, attention_mask=mask, decoder_input_ids=ids).last_hidden_state
        cut = transformers.modeling_outputs.BaseModelOutput(encoded.last_hidden_state[1:, real])
        alone = model(encoder_outputs=cut, decoder_input_ids=ids[1:]).last_hidden_state
        assert near(found[1:], alone) and (found[1, 25:] - found[1, :1]).abs().max() > 0.1


@pytest.mark.parametrize("kind", DECODERS)
def test_padded_decoders(kind):
    model = made(kind, DECODERS[kind], "Model" if kind != "GPT2" else "LMHeadModel")
    ids = tokens(2, 12)
    exact = hashattn.torch.replace_attention(copy.deepcopy(model), "softmax")
    with torch.no_grad():
        for mask in (None, padded(12, 8), padded(12, 8, left=True)):
            taking = padded(12, 8, left=True) if mask is not None and not mask[1, 0] else torch.ones(2, 12)
            a, b = (each(ids, attention_mask=mask)[0][taking.bool()] for each in (model, exact))
            assert near(a, b)


@pytest.mark.parametrize("left", [False, True])
def test_the_text_tower_of_clip(left):
    model = made("CLIPText", {**ENCODER, "vocab_size": 60, "eos_token_id": 2})
    mask = padded(12, 8, left)
    with torch.no_grad():
        a, b = (each(tokens(2, 12), attention_mask=mask).last_hidden_state[mask.bool()] for each in (
            model, hashattn.torch.replace_attention(copy.deepcopy(model), "softmax")))
    assert near(a, b)


def test_the_loss_of_a_padded_batch():
    ids, mask = tokens(2, 12), padded(12, 8)
    model = made("GPT2", DECODERS["GPT2"], "LMHeadModel")
    labels = ids.masked_fill(mask == 0, -100)
    losses = []
    for each in (model, hashattn.torch.replace_attention(copy.deepcopy(model), "softmax")):
        loss = each(ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        losses.append((loss.detach(), each.transformer.h[0].attn.c_attn.weight.grad))
    assert near(losses[0][0], losses[1][0]) and near(losses[0][1], losses[1][1])


def caches(config):
    yield lambda: transformers.DynamicCache()
    yield lambda: transformers.StaticCache(config=config, max_cache_len=20)


@pytest.mark.parametrize("left", [None, True, False])
@pytest.mark.parametrize("prompt", [1, 4])
def test_any_cache_gives_the_logits_of_the_own_attention(prompt, left):
    if left is None and torch.__version__.startswith("2.4."):
        pytest.skip("the library's own mask fails with torch 2.4")
    model = made("Llama", LLAMA, "ForCausalLM")
    ids = tokens(2, 8)
    mask = torch.ones(2, 8, dtype=torch.long)
    if left is not None:
        mask[1, :prompt] = padded(prompt, prompt // 2, left)[1]
    exact = hashattn.torch.replace_attention(copy.deepcopy(model), "softmax")

    @torch.no_grad()
    def logits(each, cache):
        steps = [ids[:, :prompt]] + [ids[:, t:t + 1] for t in range(prompt, 8)]
        found, done = [], 0
        for step in steps:
            places = torch.arange(done, done + step.shape[1])
            done += step.shape[1]
            given = {} if left is None else {"attention_mask": mask[:, :done]}
            found.append(each(step, **holding(cache), position_ids=places[None], **given).logits)
        return torch.cat(found, 1)

    for cache in caches(model.config):
        a, b = logits(model, cache()), logits(exact, cache())
        assert near(a[mask.bool()], b[mask.bool()])


@pytest.mark.parametrize("left", [None, True])
def test_several_queries_over_a_cache(left):
    """A second turn of a chat, prompts in chunks, and guesses that are checked together."""
    model = made("Llama", LLAMA, "ForCausalLM")
    ids, mask = tokens(2, 9), padded(9, 6, left=True) if left else torch.ones(2, 9, dtype=torch.long)
    exact = hashattn.torch.replace_attention(copy.deepcopy(model), "softmax")
    with torch.no_grad():
        for make in caches(model.config):
            found = []
            for each in (model, exact):
                cache, logits = make(), []
                for part in (slice(0, 4), slice(4, 7), slice(7, 9)):
                    logits.append(each(ids[:, part], **holding(cache), attention_mask=mask[:, :part.stop],
                                       position_ids=torch.arange(9)[None, part]).logits)
                found.append(torch.cat(logits, 1)[mask.bool()])
            assert near(*found)
        lsh = hashattn.torch.replace_attention(exact, "lsh")
        cache = transformers.DynamicCache()
        lsh(ids[:, :4], **holding(cache))
        with pytest.raises(ValueError, match="lsh: causal attention of 3 queries over 7 keys needs all 7 queries"):
            lsh(ids[:, 4:7], **holding(cache))


PLACED = [("local", {"block_size": 2}), ("longformer", {"window": 2}), ("sparse", {"block_size": 2, "summary_width": 1}),
          ("random", {"num_buckets": 2}), ("synthesizer", {"kind": "random+dot"}), ("rfa", {"gate": True}), ("rfa", {})]


@pytest.mark.parametrize("kind, suffix", [("Llama", "ForCausalLM"), ("GPT2", "LMHeadModel"), ("OPT", "ForCausalLM")])
@pytest.mark.parametrize("mechanism, options", PLACED)
def test_one_query_over_a_cache_has_its_place(kind, suffix, mechanism, options):
    """The keys of a token depend on where it stands, and do not if its place is taken from the call that has it alone."""
    model = hashattn.torch.replace_attention(made(kind, DECODERS[kind], suffix), mechanism, **options)
    ids, mask, places = tokens(2, 9), padded(9, 7, left=True), torch.arange(9)[None]
    with torch.no_grad():
        whole = model(ids, attention_mask=mask, position_ids=places, use_cache=False).logits
        for make, keys in zip(caches(model.config), (None, 20)):
            for dense in (False, True):
                cache, steps = make(), []
                for part in [slice(0, 5), *(slice(t, t + 1) for t in range(5, 9))]:
                    seen = mask[:, :part.stop]
                    if dense and part.start > 0:  # one row for the query, which has the places behind it too
                        seen = torch.nn.functional.pad(seen, (0, (keys or part.stop) - part.stop))[:, None, None].bool()
                    steps.append(model(ids[:, part], **holding(cache), attention_mask=seen,
                                       position_ids=places[:, part]).logits)
                assert near(torch.cat(steps, 1)[mask.bool()], whole[mask.bool()])
    with pytest.raises(ValueError, match="causal attention of 1 queries over 6 keys needs all 6 .* use_cache=False"):
        model = hashattn.torch.replace_attention(model, "lsh")
        model.generate(ids[:, :5], max_new_tokens=2, do_sample=False, pad_token_id=0, eos_token_id=99)
    model.generate(ids[:, :5], max_new_tokens=2, do_sample=False, pad_token_id=0, eos_token_id=99, use_cache=False)


@pytest.mark.parametrize("kind", ["static", None])
@pytest.mark.parametrize("left", [True, False])
def test_generate(kind, left):
    model = made("Llama", LLAMA, "ForCausalLM")
    given = dict(attention_mask=padded(6, 4, left), max_new_tokens=5, do_sample=False, pad_token_id=0, eos_token_id=99)
    if kind is not None:
        given["cache_implementation"] = kind
    expected = model.generate(tokens(2, 6), **given)
    assert torch.equal(hashattn.torch.replace_attention(model, "softmax").generate(tokens(2, 6), **given), expected)


def translated(model, **given):
    """The scores of each new token, from a batch with padding."""
    found = model.generate(tokens(2, 24), attention_mask=padded(24, 17), max_new_tokens=12, do_sample=False, pad_token_id=0,
                           eos_token_id=99, return_dict_in_generate=True, output_scores=True, **given)
    return torch.stack(found.scores)


def crossing(kind, suffix, mechanism, **options):
    """An encoder-decoder of which the cross attention alone runs on the mechanism."""
    return hashattn.torch.replace_attention(made(kind, {**SEQ2SEQ, "pad_token_id": 0}, suffix), mechanism,
                                            filter=lambda name, _: "encoder_attn" in name, **options)


@pytest.mark.parametrize("kind, suffix", [("Bart", "ForConditionalGeneration"), ("Marian", "MTModel")])
@pytest.mark.parametrize("mechanism, options", [*PLACED[:3], ("synthesizer", {}), ("sinkhorn", {"block_size": 4}), ("hbe", {})])
def test_cross_attention_over_a_cache_has_its_place(kind, suffix, mechanism, options):
    model = crossing(kind, suffix, mechanism, **options)
    expected = translated(model, use_cache=False)
    assert near(translated(model), expected)
    assert near(translated(model, cache_implementation="static"), expected)


def test_cross_attention_that_keeps_its_part_of_a_cache():
    sizes = dict(SEQ2SEQ, pad_token_id=0, num_mel_bins=8, max_source_positions=300, max_target_positions=64)
    model = hashattn.torch.replace_attention(made("Whisper", sizes), "local", block_size=2,
                                             filter=lambda name, _: "encoder_attn" in name)
    ids, encoded = tokens(1, 8), transformers.modeling_outputs.BaseModelOutput(torch.randn(1, 20, 32))
    with torch.no_grad():
        expected = model(decoder_input_ids=ids, encoder_outputs=encoded, use_cache=False).last_hidden_state
        found, held = [], {}
        for part in (slice(0, 4), slice(4, 7), slice(7, 8)):
            out = model(decoder_input_ids=ids[:, part], encoder_outputs=encoded, use_cache=True, **held)
            found.append(out.last_hidden_state)
            held = holding(getattr(out, "cache", None) or out.past_key_values)
        assert near(torch.cat(found, 1), expected)


@pytest.mark.parametrize("mechanism", ["lsh", "nystrom", "random", "bigbird"])
def test_cross_attention_that_needs_all_queries(mechanism):
    model = crossing("Bart", "ForConditionalGeneration", mechanism)
    with pytest.raises(ValueError, match=f"{mechanism}: cross attention of 1 queries in BartAttention with a cache needs all 2, "
                                         "because the keys of a query depend on the other queries; use use_cache=False"):
        translated(model)
    assert translated(model, use_cache=False).shape[0] == 12


def with_images():
    """Its cache holds the keys of its images beside those of its text."""
    sizes = dict(vocab_size=60, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                 intermediate_size=48, cross_attention_layers=[1], max_position_embeddings=64, pad_token_id=0,
                 rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
    torch.manual_seed(0)
    model = transformers.MllamaForCausalLM(transformers.models.mllama.MllamaTextConfig(**sizes)).eval()
    hashattn.torch.replace_attention(model, "local", block_size=2, filter=lambda name, _: "cross_attn" in name)
    return model, torch.randn(1, 9, 32, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("rows", [1, 3])
def test_cross_attention_with_a_cache_that_tells_no_place(rows):
    model, images = with_images()
    ids = tokens(1, 4 + rows)
    with torch.no_grad():
        held = model(ids[:, :4], cross_attention_states=images, use_cache=True)
        assert near(held.logits, model(ids[:, :4], cross_attention_states=images, use_cache=False).logits)
        with pytest.raises(ValueError, match=f"local: cross attention of {rows} queries in MllamaTextCrossAttention with a "
                                             "cache does not know their place, which counts; use use_cache=False"):
            model(ids[:, 4:], **holding(held[-1]), use_cache=True)


def test_several_queries_of_cross_attention_in_a_compiled_graph():
    """They are taken as the first ones: a graph does not tell whether there is a cache, and training has none."""
    model, images = with_images()
    layer, rows = model.model.layers[1].cross_attn, torch.randn(1, 4, 32)
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    assert near(compiled(rows, cross_attention_states=images)[0], layer(rows, cross_attention_states=images)[0])


class Crossing(torch.nn.Module):
    """Cross attention of a decoder, whose cache comes without a parameter of its own, or to another method."""

    def __init__(self):
        super().__init__()
        self.layer_idx, self.is_causal = 0, False

    def forward(self, rows, others, **more):
        return self.attend(rows, others)

    def attend(self, rows, others):
        function = transformers.AttentionInterface()["hashattn-local"]
        return function(self, rows[:, None], others[:, None], others[:, None], None)[0]


class Alone(Crossing):
    def forward(self, rows, others):
        return self.attend(rows, others)


def test_cross_attention_whose_cache_comes_in_some_other_way():
    rows, others = torch.randn(1, 130, 8), torch.randn(1, 300, 8)
    layer, text = Crossing(), transformers.DynamicCache()
    text.update(torch.zeros(1, 1, 130, 8), torch.zeros(1, 1, 130, 8), 0)
    cache = transformers.EncoderDecoderCache(text, transformers.DynamicCache())
    expected = layer(rows, others)
    assert torch.equal(layer(rows, others, past_key_values=cache), expected)
    for last in (1, 2):  # in the second block
        assert near(layer(rows[:, -last:], others, past_key_values=cache), expected[:, -last:])
    for length in (1, 130):
        with pytest.raises(ValueError, match=f"cross attention of {length} queries in Crossing with a cache does not know"):
            layer.attend(rows[:, :length], others)
    assert torch.equal(layer.attend(rows, rows), layer(rows, rows))
    assert torch.equal(Alone().attend(rows, others), expected)


BIG = {"BigBirdPegasus": {**SEQ2SEQ, "block_size": 4, "num_random_blocks": 1}, "PegasusX": SEQ2SEQ,
       "NllbMoe": {**SEQ2SEQ, "num_experts": 2, "encoder_sparse_step": 2, "decoder_sparse_step": 2, "expert_capacity": 64},
       "Bart": SEQ2SEQ}


@pytest.mark.parametrize("kind", BIG)
def test_no_decoder_sees_the_future(kind):
    model = made(kind, BIG[kind])
    ids = tokens(2, 12)
    other = ids.clone()
    other[:, -1] = 5 + other[:, -1] % 50
    with torch.no_grad():
        for mask in (None, padded(12, 8), padded(12, 8, left=True)):
            given = dict(input_ids=ids, attention_mask=mask, use_cache=False)
            expected = model(**given, decoder_input_ids=ids).last_hidden_state
            exact = hashattn.torch.replace_attention(copy.deepcopy(model), "softmax")
            assert near(exact(**given, decoder_input_ids=ids).last_hidden_state, expected)
            sampled = hashattn.torch.replace_attention(exact, "yoso", num_hashes=8, seed=1)
            a, b = (sampled(**given, decoder_input_ids=each).last_hidden_state for each in (ids, other))
            assert torch.equal(a[:, :-1], b[:, :-1]) and not torch.equal(a, b)


def test_masks_stand_for_the_full_ones():
    key_mask = padded(6, 4).bool()
    full = key_mask[:, None, None, :].expand(2, 1, 6, 6)
    for causal in (False, True):
        mask = masks.make(2, 6, 6, key_mask, causal, 0)
        expected = full.tril() if causal else full
        assert mask.shape == (2, 1, 6, 6) and mask.dtype == torch.bool and mask.ndim == 4
        assert torch.equal(mask & True, expected) and torch.equal(torch.where(mask, 1, 0), expected.long())
        assert type(mask[:, :, :, :4]) is torch.Tensor and torch.equal(mask[:, :, :, :4], expected[..., :4])
        assert mask[:, :, :, :6] is mask and mask.to("cpu") is mask
        for given in (mask, mask & True, torch.where(mask, 0.0, -1e9)):  # and back
            found = masks.read(given, 6, 6, not causal)
            assert found.causal == causal and torch.equal(found.key_mask, key_mask) and found.first == 0
        numbers = masks.make(2, 6, 6, key_mask, causal, 0, torch.float32)
        assert torch.equal(numbers + 0.0, torch.where(expected, 0.0, torch.finfo(torch.float32).min))
    later = masks.make(1, 2, 6, None, True, 3) & True
    assert later[0, 0].tolist() == [[True] * 4 + [False] * 2, [True] * 5 + [False]]


def test_layers_tells_what_runs_on_what():
    model = made("Bert", ENCODER)
    assert {each.runs for each in interface.layers(model)} == {"sdpa"}
    hashattn.torch.replace_attention(model, "yoso", num_hashes=8)
    found = interface.layers(model)
    kind = type(model.encoder.layer[1].attention.self).__name__
    assert len(found) == 2 and found[1] == ("encoder.layer.1.attention.self", kind, "hashattn-yoso,num_hashes=8")
    yoso = made("Yoso", {**ENCODER, "num_hash": 16, "hash_code_len": 6})
    assert [each.runs for each in interface.layers(yoso)] == ["its own code"] * 2
    hashattn.torch.replace_attention(yoso, seed=2)
    assert {each.runs for each in interface.layers(yoso)} == {"hashattn-yoso,num_hashes=16,hash_bits=6,seed=2"}
    assert "mechanism=yoso, seed=2, num_hashes=16, hash_bits=6" in repr(yoso)


OWN_CODE = {"Bloom": dict(vocab_size=60, hidden_size=32, n_layer=1, n_head=2),
            "MPNet": {**ENCODER, "num_hidden_layers": 1}, "RemBert": {**ENCODER, "num_hidden_layers": 1},
            "DebertaV2": {**ENCODER, "num_hidden_layers": 1},
            "Falcon": dict(vocab_size=60, hidden_size=32, num_hidden_layers=1, num_attention_heads=2),
            "GPTNeo": dict(vocab_size=60, hidden_size=32, num_layers=2, num_heads=2, attention_types=[[["global", "local"], 1]],
                           max_position_embeddings=64)}


@pytest.mark.parametrize("kind", OWN_CODE)
def test_an_implementation_that_nothing_takes(kind):
    """It changes nothing, and a warning says so."""
    configuration = getattr(transformers, kind + "Config")(**OWN_CODE[kind])
    torch.manual_seed(0)
    expected = transformers.AutoModel.from_config(copy.deepcopy(configuration)).eval()
    torch.manual_seed(0)
    with pytest.warns(UserWarning, match=f"{kind}Model has no layer that takes attn_implementation='hashattn-softmax'"):
        model = transformers.AutoModel.from_config(configuration, attn_implementation="hashattn-softmax").eval()
    assert {each.runs for each in interface.layers(model)} == {"its own code"}
    for mask in (None, padded(12, 8)):
        a, b = (each(tokens(2, 12), attention_mask=mask).last_hidden_state for each in (model, expected))
        assert torch.equal(a, b)


def test_a_model_that_takes_it_gives_no_warning():
    for kind in ("Bert", "Yoso"):
        made(kind, ENCODER)
        configuration = getattr(transformers, kind + "Config")(**ENCODER)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            model = transformers.AutoModel.from_config(configuration, attn_implementation="hashattn-softmax")
        assert {each.runs.split(",")[0] for each in interface.layers(model)} == {"hashattn-softmax"}


@pytest.mark.parametrize("kind", ["Bert", "Yoso"])
def test_evaluation_repeats_itself(kind):
    model = hashattn.torch.replace_attention(made(kind, ENCODER), "yoso", num_hashes=4)
    ids = tokens(1, 30)
    with torch.no_grad():
        assert torch.equal(model(ids).last_hidden_state, model(ids).last_hidden_state)
        model.train()
        model.config.hidden_dropout_prob = 0
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        assert not torch.equal(model(ids).last_hidden_state, model(ids).last_hidden_state)
