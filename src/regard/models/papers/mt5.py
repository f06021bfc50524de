"""mT5 (Xue et al., 2020, arXiv:2010.11934): T5 1.1 for 101 languages."""

from regard.models.facts import change
from regard.models.formats.config_map import Config, Names, begins
from regard.models.paper import Paper
from regard.models.papers import t5
from regard.models.papers.t5 import hf

SMALL = change(t5.SIZES["v1.1-small"], vocab=250_112)
SIZES = {
    "small": SMALL,
    **{
        name: change(t5.SIZES[f"v1.1-{size}"], vocab=250_112)
        for name, size in {"base": "base", "large": "large", "xl": "3b", "xxl": "11b"}.items()
    },
}


class OutputTensor(hf.OutputKeys):
    """Whether the output layer is tied: if files lack its tensor. States are not scaled."""

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        return {"scaled_output": False, "tie": "sides" if begins(tensors, self.output) else "all"}

    def write(self, facts: object) -> dict[str, object]:
        return {self.key: False}


PAPER = Paper(
    name="mT5",
    year=2020,
    title="mT5: A massively multilingual pre-trained text-to-text transformer",
    authors=(
        "Linting Xue, Noah Constant, Adam Roberts, Mihir Kale, Rami Al-Rfou, Aditya "
        "Siddhant, Aditya Barua, Colin Raffel"
    ),
    arxiv="2010.11934",
    after="T5",
    tokenizer=t5.PAPER.tokenizer,
    pretraining=t5.PAPER.pretraining,
    sizes=SIZES,
    published={
        "small": 300_000_000,
        "base": 580_000_000,
        "large": 1_200_000_000,
        "xl": 3_700_000_000,
        "xxl": 13_000_000_000,
    },
    formats={"hf": hf.t5_format("MT5", change(SMALL, tie="all"), OutputTensor())},
)
