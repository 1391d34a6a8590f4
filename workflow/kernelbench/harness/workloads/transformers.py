"""A model of transformers by its class, with random weights and the configuration of the study: never one of a hub.

A size is a batch of images, as in 64, or of texts with their tokens, as in 32x128.
"""

import re
from dataclasses import dataclass, field
from inspect import signature

from kernelbench.errors import InputError
from kernelbench.harness.architecture import Architecture
from kernelbench.harness.package import Package
from kernelbench.harness.workload import length

PHASES = ("forward", "prefill", "decode")


@dataclass(frozen=True)
class Transformers(Architecture):
    """images: (batch, 3, image, image), or tokens: (batch, tokens); the output is the first that the model returns.

    config: what is not as in the class's own default configuration; image: the edge of the images, of a model that
    takes these; phase, of a language model: `forward`, all logits or hidden states of a text; `prefill`, the logits of
    its last token, from which generation goes on; `decode`, those of one token more, whose text so far is in a static
    cache. The cache has room for as many tokens as the size says; the new one is the last of them, at every call.
    """

    config: dict = field(default_factory=dict)
    image: int = 0
    phase: str = "forward"

    packages = (Package("transformers", "transformers", requirements="envs/models.txt"),)

    def __post_init__(self):
        super().__post_init__()
        if self.phase not in PHASES:
            raise InputError(f"phase: {self.phase} is not allowed; allowed: {', '.join(PHASES)}")
        if self.image and self.phase != "forward":
            raise InputError(f"phase: {self.phase} is not allowed with image; allowed: forward")
        if self.trains and (self.image or self.phase != "forward"):
            raise InputError("trains: true is not allowed here; allowed: with tokens, in the phase forward")

    def load(self):
        self._class()

    @property
    def bound(self):
        return "memory" if self.phase == "decode" else "compute"

    def shapes(self, size, itemsize):
        batch, tokens = self._read(size)
        if self.image:
            return {"images": (batch, 3, self.image, self.image)}
        return {"tokens": (batch, 1 if self.phase == "decode" else tokens)}

    def bounds(self):
        return {} if self.image else {"tokens": self._configured().vocab_size}

    def made(self, size):
        kind, (batch, tokens) = self._class(), self._read(size)
        model = kind(self._configured())
        if self.phase == "decode":
            return _decoding(model, batch, tokens)
        return _forward(model, "images" if self.image else "tokens", self.phase == "prefill")

    def loss(self, model):
        from torch import nn
        from torch.nn.functional import cross_entropy

        class Loss(nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, tokens):
                logits, following = self.model(tokens)[:, :-1], tokens[:, 1:]
                return cross_entropy(logits.flatten(0, 1), following.flatten(), reduction="none")

        return Loss()

    def _read(self, size: str) -> tuple[int, int]:
        """Return (batch, tokens) of a size; (batch, 0) of images."""
        if self.image:
            return length(size), 0
        found = re.fullmatch("([1-9][0-9]*)x([1-9][0-9]*)", size)
        if not found:
            raise InputError(f"size {size} is not allowed; allowed: texts and tokens of each, as in 32x128")
        return int(found[1]), int(found[2])

    def _class(self) -> type:
        import transformers

        found = getattr(transformers, self.model, None)
        if not hasattr(found, "config_class"):
            raise ValueError(f"transformers {transformers.__version__} has no model class {self.model}")
        return found

    def _configured(self):
        return self._class().config_class(**self.config)


def _forward(model, kind: str, last_only: bool):
    """Return the module that takes a tensor and returns the model's first output, if asked for of the last token."""
    from torch import nn

    name = "pixel_values" if kind == "images" else "input_ids"
    options = {"logits_to_keep": 1} if last_only else {}
    model.config.use_cache = False

    class Forward(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, given):
            return self.model(**{name: given}, **options)[0]

    return Forward()


def _decoding(model, batch: int, tokens: int):
    """Return the module that takes a token of each text and returns the logits of the one that follows.

    The cache's keys and values are N(0, 1); a call writes those of its token to the last place, at every call the
    same: transformers' own cache would run out.
    """
    import torch
    from torch import nn
    from transformers import Cache
    from transformers.cache_utils import CacheLayerMixin

    config = model.config
    # Its name differs from version to version.
    name = next(name for name in ("cache", "past_key_values") if name in signature(model.forward).parameters)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads

    class Layer(nn.Module, CacheLayerMixin):
        is_compileable, is_sliding, is_initialized = True, False, True

        def __init__(self):
            nn.Module.__init__(self)
            for name in ("keys", "values"):
                self.register_buffer(name, torch.randn(batch, heads, tokens, width))

        def lazy_initialization(self, keys, values):
            pass  # They are there.

        def update(self, keys, values, *args, **kwargs):
            place = torch.arange(tokens - 1, tokens, device=keys.device)
            self.keys.index_copy_(2, place, keys)
            self.values.index_copy_(2, place, values)
            return self.keys, self.values

        def get_seq_length(self, *args) -> int:
            return tokens - 1

        def get_mask_sizes(self, *args) -> tuple[int, int]:
            return tokens, 0

        def get_max_length(self) -> int:
            return tokens

        get_max_cache_shape = get_max_length

    class Decoding(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model
            self.layers = nn.ModuleList(Layer() for _ in range(config.num_hidden_layers))
            self.cache = Cache(layers=list(self.layers))

        def forward(self, tokens):
            return self.model(input_ids=tokens, **{name: self.cache})[0]

    return Decoding()


WORKLOAD = Transformers
