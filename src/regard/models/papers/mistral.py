"""Mistral (Jiang et al., 2023, arXiv:2310.06825): Llama whose layers attend to a sliding window."""

from dataclasses import dataclass, replace

from regard.core.checks import is_whole
from regard.core.errors import BadInput
from regard.models.facts import change, values_named
from regard.models.formats.config_map import Config, ConfigRow, Names
from regard.models.papers import llama

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


HF = replace(
    llama.HF,
    name="Mistral",
    model_type="mistral",
    defaults=change(BASE, longest=131_072, eps=1e-6, output_heads=()),
    config_map=(*llama.CONFIG, SlidingWindow(), llama.architectures("Mistral")),
    span_prefix="model.",
)

PAPER = replace(
    llama.PAPER,
    name="Mistral",
    title="Mistral 7B",
    authors=(
        "Albert Q. Jiang, Alexandre Sablayrolles, Arthur Mensch, Chris Bamford, Devendra "
        "Singh Chaplot, others"
    ),
    arxiv="2310.06825",
    after="Llama",
    sizes={"7b": BASE},
    formats={"hf": HF},
)
