# SPDX-License-Identifier: Apache-2.0
"""Families of models of the transformers library with hashattn's attention: what works, for bench/torch_models.py --families.

Each family is a tiny model with random weights. `softmax` of hashattn takes the place of its attention, and every
result is compared with the model's own, because exact attention must not change it:

    forward        outputs of two sequences of 12 tokens
    padded         the same with 4 tokens of padding in one of them, at the end and in front; the other tokens
    generate       8 greedy tokens after a padded batch
    save and load  outputs after save_pretrained and from_pretrained, which restores the mechanism
    train a step   gradients of all parameters

"equal": to 1e-4 of the largest number (gradients: 1e-3). Otherwise the difference, or what was said. "refused:
softcap": the model changes its scores in a way that hashattn does not have. "own code": no layer asks the library for
an attention function, so hashattn cannot change it (hashattn.torch.transformers.layers tells).
YosoModel is compared by `yoso-e`; its own code ignores padding.
The library's source distribution has its common tests of models, and neither those of the families nor those of
generation. This table, and tests/python/test_transformers*.py on caches, masks and windows, stand for them.
"""

import copy
import logging
import re
import tempfile
import warnings
from pathlib import Path

STEPS = ("forward", "padded", "generate", "save and load", "train a step")
ENCODERS = ("bert roberta xlm-roberta camembert electra albert distilbert modernbert ernie data2vec-text mpnet deberta-v2 "
            "longformer big_bird yoso clip_text_model").split()
DECODERS = ("gpt2 opt gpt_neox llama mistral mixtral qwen2 qwen3 gemma gemma2 gemma3_text phi phi3 olmo2 starcoder2 stablelm "
            "cohere granite smollm3 gpt_oss bloom falcon gptj").split()
BOTH = "bart mbart pegasus marian blenderbot m2m_100 t5".split()
PIXELS = "vit deit dinov2 beit clip_vision_model siglip_vision_model".split()
SOUNDS = "wav2vec2 hubert whisper".split()
TINY = dict(
    vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
    max_position_embeddings=64, n_embd=32, n_layer=2, n_head=4, n_positions=64, n_inner=48, d_model=32, num_layers=2,
    num_heads=4, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
    decoder_ffn_dim=48, d_ff=48, d_kv=8, head_dim=8, ffn_dim=48, embedding_size=32, n_heads=4, n_layers=2,
    word_embed_proj_dim=32, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, sliding_window=5, dim=32,
    hidden_dim=48, num_experts=4, num_local_experts=4, num_experts_per_tok=2, image_size=16, patch_size=4, local_attention=8,
    attention_window=8, num_mel_bins=8, max_source_positions=12, conv_dim=(16, 16), conv_kernel=(4, 4), conv_stride=(2, 2),
    num_feat_extract_layers=2, num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, attention_types=None,
    cls_token_id=1, sep_token_id=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attention_dropout=0.0,
    hidden_dropout=0.0, dropout=0.0, activation_dropout=0.0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, layerdrop=0.0,
    drop_path_rate=0.0, rotary_dim=8, encoder_layerdrop=0.0, decoder_layerdrop=0.0, apply_spec_augment=False, classifier_dropout=0.0)


PAGE = Path(__file__).resolve().parent.parent / "python" / "MODELS.md"


def all_families():
    return ENCODERS + DECODERS + BOTH + PIXELS + SOUNDS


def made(family):
    """A tiny model with random weights."""
    import torch
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = CONFIG_MAPPING[family]
    known = set(kind().to_dict()) | set(kind.attribute_map)
    configuration = kind(**{name: value for name, value in TINY.items() if name in known})
    if family in DECODERS:
        auto = transformers.AutoModelForCausalLM
    elif family in BOTH or family == "whisper":
        auto = transformers.AutoModelForSpeechSeq2Seq if family == "whisper" else transformers.AutoModelForSeq2SeqLM
    else:
        auto = transformers.AutoModel
    torch.manual_seed(0)
    model = auto.from_config(configuration).eval()
    with torch.no_grad():
        for parameter in (each for each in model.parameters() if each.requires_grad):
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def inputs(family, model):
    """(arguments of forward, those with padding [(arguments, tokens that count)], arguments of generate or None)."""
    import torch

    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 60, (2, 12), generator=draw)
    end = torch.ones(2, 12, dtype=torch.long)
    end[1, 8:] = 0
    padding, everything = (end, end.flip(1)), torch.ones(2, 12, dtype=torch.bool)
    if family in PIXELS:
        return {"pixel_values": torch.randn(2, 3, 16, 16, generator=draw)}, [], None
    if family == "whisper":
        sounds = {"input_features": torch.randn(2, 8, 24, generator=draw)}
        return {**sounds, "decoder_input_ids": ids}, [], {**sounds, "max_new_tokens": 8}
    if family in SOUNDS:
        sound, taking = torch.randn(2, 400, generator=draw), torch.ones(2, 400, dtype=torch.long)
        taking[1, 240:] = 0
        rows = int(model._get_feat_extract_output_lengths(torch.tensor(240)))
        total = int(model._get_feat_extract_output_lengths(torch.tensor(400)))
        real = torch.arange(total) < torch.tensor([[total], [rows]])
        return {"input_values": sound}, [({"input_values": sound, "attention_mask": taking}, real)], None
    if family in BOTH:
        given = {"input_ids": ids, "decoder_input_ids": ids.flip(1)}
        return given, [({**given, "attention_mask": mask}, everything) for mask in padding], {
            "input_ids": ids, "attention_mask": end, "max_new_tokens": 8, "decoder_start_token_id": 1}
    masks = [({"input_ids": ids, "attention_mask": mask}, mask.bool()) for mask in padding]
    return {"input_ids": ids}, masks, {**masks[1][0], "max_new_tokens": 8} if family in DECODERS else None


def difference(found, expected, most=1e-4):
    """"equal", or the largest difference as a part of the largest number."""
    part = float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-30))
    return "equal" if part <= most else f"differs by {part:.1g}"


def worst(cells):
    return next((each for each in cells if each != "equal"), "equal")


def steps(family):
    """The functions of the columns, by name; None: the family has no such thing."""
    import torch

    import hashattn.torch

    own = made(family)
    exact = "yoso-e" if family == "yoso" else "softmax"
    ours = hashattn.torch.replace_attention(copy.deepcopy(own), exact)
    given, masks, asked = inputs(family, own)
    first = lambda model, more: model(**more)[0]

    def padded():
        with torch.no_grad():
            return worst([difference(first(ours, more)[real], first(own, more)[real]) for more, real in masks])

    def generate():
        found = [each.generate(**asked, do_sample=False) for each in (ours, own)]
        return "equal" if torch.equal(*found) else "other tokens"

    def saved():
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            ours.save_pretrained(folder)
            again = type(ours).from_pretrained(folder).eval()
            from hashattn.torch.transformers import layers

            if [each.runs for each in layers(again)] != [each.runs for each in layers(ours)]:
                return "another attention"
            return difference(first(again, given), first(ours, given))

    def trained():
        gradients = []
        for each in (ours, own):
            each.zero_grad()
            out = first(each.train(), given)
            (out * torch.linspace(-1, 1, out.shape[-1])).sum().backward()
            gradients.append(torch.cat([p.grad.flatten() for p in each.parameters() if p.grad is not None]))
            each.eval()
        return difference(*gradients, most=1e-3)

    def forward():
        with torch.no_grad():
            return difference(first(ours, given), first(own, given))

    return dict(zip(STEPS, (forward, padded if masks else None, generate if asked else None, saved, trained)))


def row(family):
    """{column: cell} of a family."""
    import torch

    import hashattn

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)

    def cell(function):
        try:
            return "-" if function is None else function()
        except hashattn.Error as error:
            passed = re.search(r"passes (\w+) to its attention", str(error))
            return "refused: " + (passed[1] if passed else str(error).split("; ")[-1][:90])
        except Exception as error:
            return f"{type(error).__name__}: {str(error).splitlines()[0][:60] if str(error) else ''}"

    try:
        columns = steps(family)
    except hashattn.InvalidError as error:
        return {name: "own code" if "has no attention" in str(error) else str(error)[:60] for name in STEPS}
    except Exception as error:
        return {name: f"not built: {type(error).__name__}" for name in STEPS}
    found = {name: cell(function).replace("|", "/") for name, function in columns.items()}
    first = found["forward"]
    return {name: "refused" if name != "forward" and text == first and text.startswith("refused: ") else text
            for name, text in found.items()}


def table(columns_of):
    """The table; columns_of: {family: {column: cell}}."""
    from page import Table

    kinds = {"encoder": ENCODERS, "decoder": DECODERS, "both": BOTH, "images": PIXELS, "sound": SOUNDS}
    rows = [((kind, family), columns_of[family]) for kind, families in kinds.items() for family in families
            if family in columns_of]
    return Table(["kind", "family"], rows, named=True)


def write_page(made_table, measured):
    """python/MODELS.md: the table, and what its columns are. Sections behind it stay."""
    columns, (_, section, rest) = __doc__.split("\n\n", 1)[1].strip(), PAGE.read_text().partition("\n## ")
    PAGE.write_text(f"# Models of the transformers library with hashattn.torch\n\nMade by `bench/torch_models.py --families "
                    f"--docs`:\n{measured}.\n\n{columns}\n\n{made_table.text()}\n{section}{rest}")
