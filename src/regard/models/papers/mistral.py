"""Mistral (Jiang et al., 2023, arXiv:2310.06825): Llama whose layers attend to a sliding window."""

from dataclasses import dataclass

from regard.ground.checks import is_whole
from regard.ground.errors import BadInput
from regard.models.facts import change, values_named
from regard.models.formats.config_map import Config, ConfigRow, Names
from regard.models.paper import Paper
from regard.models.papers import llama
from regard.models.papers.llama.hf import LlamaFormat
from regard.weights import WeightMap

BASE = change(
    llama.LLAMA_2,
    inner=14_336,
    kv_heads=8,
    longest=32_768,
    windows=(4_096,),
    output_heads=llama.UNTIED,
)


@dataclass(frozen=True)
class SlidingWindow(ConfigRow):
    """The window of all layers; null: no limit."""

    key: str = "sliding_window"
    default: int | None = 4_096

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        window = config.get(self.key, self.default)
        if window is not None and not is_whole(window, 1):
            raise BadInput(f"{self.key} must be null or a number of tokens, not {window!r}")
        return {"windows": () if window is None else (window,)}

    def write(self, facts: object) -> dict[str, object]:
        (windows,) = values_named(facts, "windows")
        return {self.key: windows[0] if windows else None}


class MistralFormat(LlamaFormat):
    """The format of Mistral, whose trunk has one prefix under all heads."""

    span_prefix = "model."


HF = MistralFormat(
    name="Mistral",
    model_type="mistral",
    defaults=change(BASE, longest=131_072, eps=1e-6, output_heads=()),
    config_map=(*llama.CONFIG, SlidingWindow(), llama.architectures("Mistral")),
    weights=WeightMap(llama.TRUNK, prefix="model.", unprefixed=llama.HEAD_RULES),
    tokenizer=llama.HF.tokenizer,
)

PAPER = Paper(
    name="Mistral",
    year=2023,
    title="Mistral 7B",
    arxiv="2310.06825",
    after="Llama",
    tokenizer=llama.PAPER.tokenizer,
    pretraining=llama.PAPER.pretraining,
    sizes={"7b": BASE},
    heads=llama.HEADS,
    formats={"hf": HF},
)
