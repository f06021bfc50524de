"""ERNIE (Sun et al., 2019, arXiv:1904.09223): BERT for Chinese, pre-trained with masked words,
phrases and entities, each masked as a whole. "large" is ERNIE 2.0 in English (arXiv:1907.12412),
which adds a vector of the task to every token: of task 0, by default of ``transformers``.
"""

from dataclasses import dataclass, replace

from torch import Tensor, nn

from regard.core.checks import is_whole
from regard.core.errors import BadFact, BadInput
from regard.layers.block import LAYER_NORM, Norm
from regard.models.embedding import EmbeddingModule, Learned
from regard.models.facts import at_least, change, values_named
from regard.models.formats import Architectures
from regard.models.formats.config_map import Config, ConfigRow, Names
from regard.models.paper import Paper
from regard.models.papers import bert
from regard.models.tokens import Tokens
from regard.weights import Rule, WeightMap


@dataclass(frozen=True)
class TaskTokens(Tokens):
    """Token embedding whose sum has a vector of the task too, one of ``task_types``; 0: none."""

    task_types: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(0, self, "task_types")
        if self.task_types and (self.characters is not None or not self.normed):
            raise BadFact("task_types", "needs normed = true, and no characters")

    def build(self, width: int, dropout: float, norm: Norm = LAYER_NORM) -> EmbeddingModule:
        embedding = super().build(width, dropout, norm)
        if self.task_types:
            embedding.norm = TaskNorm(self.task_types, self.embedding_size or width, norm.eps)
        return embedding


class TaskNorm(nn.LayerNorm):
    """Layer norm of the sum of an embedding and the vector of task 0."""

    def __init__(self, tasks: int, width: int, eps: float):
        super().__init__(width, eps=eps)
        self.task = nn.Embedding(tasks, width)

    def forward(self, x_TD: Tensor) -> Tensor:
        return super().forward(x_TD + self.task.weight[0])


class TaskTypes(ConfigRow):
    """Number of task vectors, from two keys: 0 unless ``use_task_id`` is true."""

    key = "use_task_id"
    size = "task_type_vocab_size"

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        used, size = config.get(self.key, False), config.get(self.size, 3)
        if not (isinstance(used, bool) and is_whole(size, 1)):
            values = f"must be true or false, and {self.size} at least 1"
            raise BadInput(f"{self.key} {values}, not {used!r} and {size!r}")
        return {"task_types": size if used else 0}

    def write(self, facts: object) -> dict[str, object]:
        (count,) = values_named(facts, "task_types")
        return {self.key: count > 0, **({self.size: count} if count else {})}


# The format of Hugging Face: BERT's, with task vectors; HF_DEFAULTS are those of an empty file.
EMBED = TaskTokens(vocab=30_522, position=Learned(512), segments=2, normed=True)
HF_DEFAULTS = change(bert.BASE, embed=EMBED)
BASE = change(HF_DEFAULTS, vocab=18_000, longest=513, activation="relu", eps=1e-5)
LARGE = change(bert.LARGE, embed=replace(EMBED, segments=4, task_types=3), eps=1e-5)
NAMES = {name.replace("Bert", "Ernie"): heads for name, heads in bert.ARCHITECTURES.heads.items()}
# Bidirectional as well, unless is_decoder is true. The last that fits names a model: MaskedLM.
ARCHITECTURES = Architectures({"ErnieForCausalLM": (bert.MLM,), **NAMES})
TASK = Rule("embeddings.task_type_embeddings.weight", "trunk.embed.norm.task.weight")
HF = replace(
    bert.HF,
    name="ERNIE",
    model_type="ernie",
    defaults=HF_DEFAULTS,
    config_map=(*bert.CONFIG, TaskTypes(), ARCHITECTURES),
    weights=WeightMap((*bert.TRUNK, TASK), prefix="ernie.", unprefixed=bert.HEADS, old=bert.OLD),
)

PAPER = Paper(
    name="ERNIE",
    year=2019,
    title="ERNIE: Enhanced Representation through Knowledge Integration",
    authors=(
        "Yu Sun, Shuohuan Wang, Yukun Li, Shikun Feng, Xuyi Chen, Han Zhang, Xin Tian, "
        "Danxiang Zhu, Hao Tian, Hua Wu"
    ),
    arxiv="1904.09223",
    after="BERT",
    tokenizer="wordpiece",
    pretraining={"masked-lm": {"whole_words": True}, "next-sentence": {}},
    sizes={"base": BASE, "large": LARGE},
    heads=bert.PAPER.heads,
    formats={"hf": HF},
)
