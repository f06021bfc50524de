"""Qwen2 (Yang et al., 2024, arXiv:2407.10671) and Qwen2.5: Llama with biases of queries, keys and
values; upper layers may attend to a sliding window.
"""

from dataclasses import dataclass, replace

from regard.core.checks import is_whole
from regard.core.errors import BadInput
from regard.models.facts import change, values_named
from regard.models.formats.config_map import Config, ConfigRow, Names
from regard.models.formats.rotary_keys import FULL, SLIDING
from regard.models.papers import llama

BASE = change(
    llama.LLAMA_2,
    vocab=152_064,
    width=3_584,
    depth=28,
    heads=28,
    kv_heads=4,
    inner=18_944,
    longest=131_072,
    base=1_000_000.0,
    eps=1e-6,
    qkv_bias=True,
)
SMALL = change(BASE, vocab=151_936, heads=14, kv_heads=2, output_heads=llama.TIED, longest=32_768)
SIZES = {
    "0.5b": change(SMALL, width=896, depth=24, inner=4_864),
    "1.5b": change(SMALL, width=1_536, heads=12, inner=8_960),
    "7b": BASE,
    "72b": change(BASE, width=8_192, depth=80, heads=64, kv_heads=8, inner=29_568, eps=1e-5),
}


@dataclass(frozen=True)
class LayerWindows(ConfigRow):
    """The window of each layer: a size, and ``layer_types`` or the number of the first layer."""

    key: str = "layer_types"

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        size, depth = config.get("sliding_window", 4_096), config.get("num_hidden_layers", 32)
        if not config.get("use_sliding_window", False) or size is None:
            return {"windows": ()}
        first, kinds = config.get("max_window_layers", 28), config.get(self.key)
        if not (is_whole(size, 1) and is_whole(depth, 1) and is_whole(first, 0)):
            raise BadInput(f"sliding_window must be a number of tokens, not {size!r}")
        kinds = kinds or [SLIDING if number >= first else FULL for number in range(depth)]
        if len(kinds) != depth or {*kinds} - {FULL, SLIDING}:
            raise BadInput(f"{self.key} must be {depth} of {FULL!r} and {SLIDING!r}, not {kinds!r}")
        windows = tuple(size if name == SLIDING else 0 for name in kinds)
        return {"windows": windows if any(windows) else ()}

    def write(self, facts: object) -> dict[str, object]:
        (windows,), (depth,) = values_named(facts, "windows"), values_named(facts, "depth")
        every = (windows * depth)[:depth] or (0,) * depth
        return {
            "use_sliding_window": any(every),
            "sliding_window": max(every) or None,
            "max_window_layers": next((n for n, size in enumerate(every) if size), depth),
            self.key: [SLIDING if size else FULL for size in every],
        }


HF = replace(
    llama.HF,
    name="Qwen2",
    model_type="qwen2",
    defaults=change(
        BASE,
        vocab=151_936,
        width=4_096,
        depth=32,
        heads=32,
        kv_heads=32,
        inner=22_016,
        longest=32_768,
        base=10_000.0,
        output_heads=(),
    ),
    config_map=(*llama.CONFIG, LayerWindows(), llama.architectures("Qwen2")),
)

PAPER = replace(
    llama.PAPER,
    name="Qwen2",
    year=2024,
    title="Qwen2 Technical Report",
    authors="An Yang, Baosong Yang, Binyuan Hui, Bo Zheng, Bowen Yu, others",
    arxiv="2407.10671",
    after="Llama",
    sizes=SIZES,
    formats={"hf": HF},
)
