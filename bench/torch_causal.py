# SPDX-License-Identifier: Apache-2.0
"""Whether decoders of the transformers library with hashattn's attention see the future, for bench/torch_models.py --causal.

Every family of causal language models and of encoder-decoders that the library lists is made tiny, with random weights.
The last token of both sequences changes, without padding, with padding at the end of one, and in front. No logit of an
earlier token may change, with `softmax` and with `yoso`. A cell is

    causal         no earlier logit changes by more than 1e-5 of the largest one
    FUTURE         one does
    own code       no layer of the decoder takes an attention function of others
    refused        hashattn refuses the model, with the reason
    not causal     the library's own model sees the future too
    fails          another error
    not built      no tiny configuration was found, or not in a minute
"""

import copy
import inspect
import itertools
import logging
import signal
import sys
import textwrap
import warnings

import torch_families

HEADING = "## Decoders and the future"
MOST_NUMBERS = 300_000_000
SECONDS = 60  # for a family
MODELS = ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES")
SIZES = {
    **{name: value for name, value in torch_families.TINY.items() if not name.startswith("conv_")},
    "num_encoder_layers": 2, "num_decoder_layers": 2, "n_routed_experts": 4, "n_group": 1, "topk_group": 1,
    "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16, "kv_lora_rank": 8, "q_lora_rank": 8,
    "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "emb_dim": 32, "ffn_size": 48, "max_position": 64,
    "d_inner": 48, "d_head": 8, "ffn_hidden_size": 48, "global_head_dim": 8, "num_channels": 3,
    "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 60, "mamba_n_heads": 4, "mamba_d_head": 16,
    "mamba_n_groups": 1, "mamba_d_state": 8, "state_size": 8, "linear_num_value_heads": 2, "linear_num_key_heads": 2,
    "linear_key_head_dim": 8, "linear_value_head_dim": 8, "lru_width": 32, "index_n_heads": 2, "index_head_dim": 16,
    "index_topk": 64, "max_window_layers": 2, "first_k_dense_replace": 1}
# Tried in turn until a model is made that the library itself can run.
VARIANTS = ({}, {"num_key_value_heads": 4}, {"head_dim": 16, "num_key_value_heads": 4, "num_attention_heads": 2},
            {"rotary_dim": 4}, {"num_hidden_layers": 4, "num_layers": 4}, {"sliding_window": None},
            {"num_hidden_layers": 6, "num_layers": 6})
LEFT_OUT = ((), ("sliding_window",), ("head_dim", "num_key_value_heads"),
            ("hidden_dim", "num_layers", "dim", "n_layers", "d_model"))


class TooLong(Exception):
    pass


def _late(*_):
    raise TooLong


def families():
    """{name: class of the model, whether it has an encoder}; an encoder-decoder is told by its name."""
    from transformers.models.auto import modeling_auto

    found = {}
    for which, listed in enumerate(getattr(modeling_auto, name) for name in MODELS):
        for family, kind in listed.items():
            found[f"{family} (with encoder)" if which else family] = kind if isinstance(kind, str) else kind[0], bool(which)
    return found


def _known(kind):
    parameters = set(inspect.signature(kind.__init__).parameters) | set(getattr(kind, "attribute_map", {}))
    return parameters | set(getattr(kind, "__dataclass_fields__", {})) | {"pad_token_id", "bos_token_id", "eos_token_id"}


def _configuration(kind, sizes):
    """A configuration, and those of its parts, with the sizes that they know."""
    named = {name: part for name, part in getattr(kind, "sub_configs", {}).items()
             if inspect.isclass(part) and part is not kind}
    parts = {name: _configuration(part, sizes) for name, part in named.items() if "Auto" not in part.__name__}
    known = _known(kind)
    made = kind(**{name: value for name, value in sizes.items() if name in known and name not in named}, **parts)
    for name in set(named) - set(parts):  # of any kind, so it is known now
        part = getattr(made, name, None)
        if hasattr(part, "to_dict"):
            setattr(made, name, _configuration(type(part), sizes))
    return made


def _model(family, name):
    """A tiny model that runs, with layers that take an implementation if a configuration has some; else the last reason why
    there is none, as text."""
    import torch
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    from hashattn.torch.layers import candidates

    plain, reason = None, ""
    for left_out, of_text in itertools.product(LEFT_OUT, (False, True)):
        for variant in VARIANTS:
            sizes = {key: value for key, value in {**SIZES, **variant}.items() if key not in left_out}
            try:
                configuration = _configuration(CONFIG_MAPPING[family], sizes)
                if of_text:
                    configuration = configuration.get_text_config(decoder=True)
                for each in (configuration, getattr(configuration, "decoder", None)):
                    if not configuration.is_encoder_decoder and hasattr(each, "is_decoder"):
                        each.is_decoder = True
                kind = getattr(transformers, name)
                with torch.device("meta"):
                    numbers = sum(each.numel() for each in kind._from_config(copy.deepcopy(configuration)).parameters())
                if numbers > MOST_NUMBERS:
                    raise RuntimeError(f"{numbers} parameters")
                torch.manual_seed(0)
                model = kind._from_config(configuration).eval().float()
                with torch.no_grad():
                    for each in model.parameters():
                        each.copy_(each.nan_to_num() + 0.1 * torch.randn_like(each))
                    logits(model, family, _tokens())
                if candidates(model):
                    return model
                plain = model
            except TooLong:
                raise
            except Exception as error:
                reason = f"{type(error).__name__}: {' '.join(str(error).split())[:80]}"
        if plain is not None:
            return plain
    return reason


def _tokens():
    import torch

    return torch.randint(5, 60, (2, 12), generator=torch.Generator().manual_seed(1))


def logits(model, family, ids, mask=None):
    """Of the decoder's tokens. mask: of them too; an encoder reads another text, without padding."""
    import torch

    if getattr(model.config, "is_encoder_decoder", False):
        source = torch.arange(5, 17)[None].expand(2, -1)
        given = {"input_ids": source, "decoder_input_ids": ids, "decoder_attention_mask": mask}
        if mask is not None:
            given["attention_mask"] = torch.ones_like(mask)
    else:
        given = {"input_ids": ids, "attention_mask": mask}
    takes = inspect.signature(model.forward).parameters
    return model(**{key: value for key, value in given.items() if value is not None and (key in takes or "kwargs" in takes)},
                 use_cache=False).logits


def change(model, family, mask):
    """The largest change of an earlier logit of a token when the last token of its sequence changes, as a part of the
    largest logit."""
    import torch

    ids = _tokens()
    taking = torch.ones_like(ids) if mask is None else mask
    other, earlier = ids.clone(), taking.bool().clone()
    for row in range(len(ids)):
        last = int(taking[row].nonzero().max())
        other[row, last] = (int(ids[row, last]) + 7) % 50 + 5
        earlier[row, last] = False
    with torch.no_grad():
        a, b = (logits(model, family, each, mask)[earlier] for each in (ids, other))
    return float((a - b).abs().max() / a.abs().max().clamp(min=1e-30))


def masks():
    import torch

    end = torch.ones(2, 12, dtype=torch.long)
    end[1, 8:] = 0
    return {"": None, "padding at the end": end, "padding in front": end.flip(1)}


def _cell(family, name):
    import hashattn
    import hashattn.torch

    model = _model(family, name)
    if isinstance(model, str):
        return f"not built: {model}"
    own = {}
    for which, mask in masks().items():
        try:
            own[which] = change(model, family, mask)
        except TooLong:
            raise
        except Exception:
            own[which] = None
    if own[""] > 1e-5:
        return "not causal"
    for mechanism in ("softmax", "yoso"):
        try:
            hashattn.torch.replace_attention(model, mechanism)
        except hashattn.InvalidError as error:
            return "own code" if "has no attention" in str(error) else f"refused: {str(error)[:90]}"
        for which, mask in masks().items():
            if own[which] is None or own[which] > 1e-5:
                continue
            try:
                found = change(model, family, mask)
            except hashattn.Error as error:
                return f"refused: {' '.join(str(error).split())[:90]}"
            if found > 1e-5 or found != found:
                return f"FUTURE: {mechanism} {which} changes by {found:.1g}"
    return "causal"


def row(family, name):
    """The cell of a family."""
    import torch

    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(SECONDS)
    try:
        return _cell(family, name)
    except TooLong:
        return f"not built: more than {SECONDS} s"
    except Exception as error:
        return f"fails: {type(error).__name__}: {' '.join(str(error).split())[:90]}"
    finally:
        signal.alarm(0)


def walk(only=""):
    """{family: cell} of all families, or of those named, separated by commas."""
    found = {}
    for family, (name, _) in families().items():
        if not only or {family, family.split(" ")[0]} & set(only.split(",")):
            found[family] = row(family.split(" ")[0], name)
            print(f"{family}: {found[family]}", file=sys.stderr, flush=True)
    return found


def text(found):
    """Counts, and the families of each cell."""
    by = {}
    for family, cell in found.items():
        by.setdefault(cell.split(":")[0], []).append(family)
    return "\n\n".join(f"**{kind}: {len(names)}.** " + ", ".join(names) for kind, names in by.items())


def write_page(found, measured):
    """The section of python/MODELS.md."""
    page, columns = torch_families.PAGE, __doc__.split("\n\n", 1)[1].strip()
    lines = [textwrap.fill(each, 118, break_on_hyphens=False) for each in text(found).split("\n\n")]
    page.write_text("\n\n".join([page.read_text().split(HEADING)[0].rstrip(), HEADING, f"Made by `bench/torch_models.py "
                                  f"--causal --docs`:\n{measured}.", columns, *lines]) + "\n")
