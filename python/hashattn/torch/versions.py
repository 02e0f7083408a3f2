"""The names of the transformers library that hashattn uses, from the first version that has them to the newest.

InvalidError: the library is too old. Made with 5.24.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

import transformers  # type: ignore[import-not-found,unused-ignore]

from ..errors import InvalidError

OLDEST = (4, 57)


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in version.split(".")[:2] if each.isdigit())


if _parts(transformers.__version__) < OLDEST:
    raise InvalidError(f"hashattn.torch needs transformers {OLDEST[0]}.{OLDEST[1]} or later; "
                       f"this is {transformers.__version__}")

from transformers import AttentionInterface as AttentionInterface  # type: ignore[import-not-found,unused-ignore]  # noqa: E402
from transformers import AttentionMaskInterface as AttentionMaskInterface  # noqa: E402
from transformers import masking_utils  # noqa: E402
from transformers.configuration_utils import PretrainedConfig  # noqa: E402
from transformers.modeling_utils import PreTrainedModel  # noqa: E402

Configuration: Any = PretrainedConfig
Model: Any = PreTrainedModel

causal_mask_function: Any = masking_utils.causal_mask_function
bidirectional_functions: tuple[Any, ...] = tuple(
    getattr(masking_utils, name) for name in ("bidirectional_mask_function",) if hasattr(masking_utils, name))
