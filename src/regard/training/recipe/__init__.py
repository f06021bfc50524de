"""Recipes: a training run as a typed, closed TOML file that says which score to expect."""

import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from regard.ground.errors import BadInput, did_you_mean
from regard.ground.files import read_bytes
from regard.search.beam import Beam
from regard.tasks.published import search_of
from regard.text.train_tokenizer import KINDS
from regard.training.recipe.applicable import misplaced, unusable
from regard.training.recipe.data_config import ConfigTable, DataConfig
from regard.training.recipe.errors import faults_of, refusal
from regard.training.recipe.overrides import lay_over, merged

Share = Annotated[float, Field(ge=0, lt=1)]
EMPTY_IS_NONE = AfterValidator(lambda name: name or None)  # TOML has no word for nothing
SCRATCH = "scratch"  # where a model starts that starts from nothing
BUILT_IN = Path(__file__).parents[2] / "recipes"


class AboutConfig(ConfigTable):
    """What the recipe is, for people. Its title is the file's name unless it has another."""

    title: str = ""
    command: str = ""
    hardware: str = ""
    minutes: float | None = None


class TextConfig(ConfigTable):
    """Subwords: kind, size, shared by both languages or not."""

    kind: str = "bpe"
    vocab: int = Field(8_000, ge=1)
    joint: bool = True
    normalise: Literal["none", "nfc", "nfkc"] = "nfc"
    lower: bool = False
    dropout: float = Field(0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _known(self) -> "TextConfig":
        if self.kind not in KINDS:
            raise ValueError(f"no kind {self.kind!r}{did_you_mean(self.kind, list(KINDS))}")
        if self.dropout and "bpe" not in self.kind:
            raise ValueError(f"dropout is drawn over merges, which {self.kind!r} does not have")
        return self


class LabelsConfig(ConfigTable):
    """How classes are called, where files write them otherwise, and how much each counts.

    Weights are one for each class (1 where none is given), or "balanced": all classes together
    count the same. A text has "one" label, "several", or a "number". Tags of entities are learned
    in a ``scheme``, or as they stand; ``positive`` is the class that F1 is about; "" is none.
    """

    names: dict[str, str] | None = None
    weights: dict[str, Annotated[float, Field(gt=0)]] | Literal["balanced"] | None = None
    kind: Literal["one", "several", "number"] = "one"
    scheme: Annotated[
        Literal["IOB1", "IOB2", "BIOES", "BILOU", ""] | None,
        EMPTY_IS_NONE,
    ] = None
    positive: Annotated[str | None, EMPTY_IS_NONE] = None


class AnswersConfig(ConfigTable):
    """Windows over a context: their tokens, those two share, and how long things may be.

    ``threshold``: how much better "no answer" must be than the best answer; without it, every
    question is answered.
    """

    stride: int = Field(128, ge=0)
    question: int = Field(64, ge=1)
    longest: int = Field(30, ge=1)
    threshold: float | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The same as whoever answers calls them."""
        return {
            "stride": self.stride,
            "question": self.question,
            "longest_answer": self.longest,
            "threshold": self.threshold,
        }


class PretrainConfig(ConfigTable):
    """What an encoder learns from documents: words at blanks, and which passage follows another.

    With ``next_sentence`` rows are pairs of passages, those of a share ``short`` of all documents
    of any length; without it they are full of sentences. Of the tokens of a row a share ``rate``
    become blanks, by ``whole_words`` or piece by piece.
    """

    next_sentence: bool = True
    rate: float = Field(0.15, gt=0, le=0.5)
    whole_words: bool = False
    short: float = Field(0.1, ge=0, le=1)


class ModelConfig(ConfigTable):
    """A paper, one of its sizes, and the facts that differ.

    ``source`` or ``target`` takes that side from another, "PAPER:SIZE": a recurrent encoder under a
    Transformer's decoder, say. The paper is then the recurrent one. A classifier's reader is its
    source. With ``start``, a folder (here or under the data root), an encoder begins with the
    facts, the vocabulary and the weights found there; "scratch" (or "") is none.
    """

    paper: str = "transformer"
    size: str = "base"
    start: Annotated[
        str | None, AfterValidator(lambda name: None if name in ("", SCRATCH) else name)
    ] = None
    source: str | None = None
    target: str | None = None
    change: dict[str, Any] = Field(default_factory=dict)


class BatchConfig(ConfigTable):
    """A step reads ``accumulate`` batches, each within the three limits on either side.

    ``mixed`` batches hold long and short rows as they come; others rows of like length. On CUDA a
    batch is filled up to ``tokens``, or to the next multiple of ``rung``.
    """

    tokens: int = Field(4_096, ge=1)
    rows: int = Field(512, ge=1)
    longest: int = Field(128, ge=1)
    accumulate: int = Field(1, ge=1)
    mixed: bool = False
    rung: int = Field(0, ge=0)


class OptimiserConfig(ConfigTable):
    """How weights follow gradients.

    A model has levels: embeddings, blocks, heads (``regard.training.optim.layer_groups``).
    Each learns at ``layer_decay`` times the rate of the one above it. With ``unfreeze_every``, the
    highest learns first, and one more after every so many steps. What is called by a name in
    ``freeze``, such as "embed", "blocks.0" or "trunk", does not learn at all.
    """

    kind: Literal["adam", "adamw"] = "adam"
    rate: float = Field(gt=0)
    schedule: Literal["inverse-sqrt", "linear", "cosine", "slanted", "constant"] = "inverse-sqrt"
    warmup: int = Field(4_000, ge=0)
    betas: tuple[Share, Share] = (0.9, 0.98)
    eps: float = Field(1e-9, gt=0)
    decay: float = Field(0.0, ge=0)
    clip: float = Field(0.0, ge=0)
    layer_decay: float = Field(1.0, gt=0, le=1)
    freeze: tuple[str, ...] = ()
    unfreeze_every: int = Field(0, ge=0)


class TrainConfig(ConfigTable):
    """How long, how exact, how often to look, what to keep."""

    steps: int = Field(ge=1)
    seed: int = 1
    smoothing: float = Field(0.1, ge=0, lt=1)
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    report_every: int = Field(50, ge=1)
    evaluate_every: int = Field(1_000, ge=1)
    checkpoint_every: int = Field(1_000, ge=1)
    judge: str = "loss"
    judge_sentences: int = Field(1_000, ge=1)
    patience: int = Field(0, ge=0)
    ema: float = Field(0.0, ge=0, lt=1)
    average: int = Field(1, ge=1)
    deterministic: bool = False
    compile: bool = True

    def regular(self, steps: Iterable[int]) -> list[int]:
        """Of these checkpoints those due by the clock: not of a stop, nor of a new best."""
        return [step for step in steps if step and step % self.checkpoint_every == 0]

    @model_validator(mode="after")
    def _agrees(self) -> "TrainConfig":
        if self.ema and self.average > 1:
            raise ValueError("ema and average both say which weights to keep: choose one")
        return self


class DecodeConfig(ConfigTable):
    """How sentences are found on the test set, and later, unless told otherwise."""

    beam: int = Field(5, ge=1)
    length: Literal["none", "mean", "gnmt", "power"] = "gnmt"
    alpha: float = Field(0.6, ge=0, allow_inf_nan=False)

    @property
    def search(self) -> Beam:
        """The beam search it describes."""
        return search_of(self.model_dump())

    @model_validator(mode="after")
    def _can_be_searched(self) -> "DecodeConfig":
        search_of(self.model_dump())
        return self


class MeasureConfig(ConfigTable):
    """Which BLEU: sacreBLEU's tokeniser ("none" for text that is tokenised already), and case."""

    tokenize: str = "13a"
    lowercase: bool = False


class ExpectConfig(ConfigTable):
    """The score that the test set must reach at the end, and who says so."""

    metric: str = "BLEU"
    score: float
    tolerance: float = Field(ge=0)
    source: str


LABELLED = ("accuracy", "macro-F1", "Matthews", "F1", "Pearson", "Spearman", "micro-F1")
MEASURES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "translate": (("bleu",), ("BLEU", "chrF", "TER")),
    "classify": (LABELLED, LABELLED),
    "tag": (("F1", "accuracy", "Pearson"), ("F1", "accuracy", "Pearson", "precision", "recall")),
    "answer": (("exact match", "F1"), ("exact match", "F1")),
    "choose": (("accuracy",), ("accuracy",)),
    "pretrain": ((), ()),
}
"""By what a task may choose its best weights, and what it may expect."""


class RungConfig(ConfigTable):
    """One model of a ladder: what differs from the recipe it stands in."""

    name: str = Field(min_length=1)
    model: ModelConfig
    batches: dict[str, Any] = Field(default_factory=dict)
    optimiser: dict[str, Any] = Field(default_factory=dict)
    train: dict[str, Any] = Field(default_factory=dict)
    expect: ExpectConfig | None = None


class Recipe(ConfigTable):
    """Everything that decides a run; with rungs, several runs on the same data."""

    task: Literal["translate", "classify", "tag", "answer", "choose", "pretrain"] = "translate"
    about: AboutConfig = AboutConfig()
    data: DataConfig
    text: TextConfig = TextConfig()
    labels: LabelsConfig = LabelsConfig()
    answers: AnswersConfig = AnswersConfig()
    pretrain: PretrainConfig = PretrainConfig()
    model: ModelConfig = ModelConfig()
    batches: BatchConfig = BatchConfig()
    optimiser: OptimiserConfig
    train: TrainConfig
    decode: DecodeConfig = DecodeConfig()
    measure: MeasureConfig = MeasureConfig()
    expect: ExpectConfig | None = None
    rung: tuple[RungConfig, ...] = ()

    @model_validator(mode="after")
    def _means_something(self) -> "Recipe":
        """What belongs to another task is refused, not left unread."""
        faults, task = misplaced(self), self.task
        judges, measures = MEASURES[task]
        faults += _unless("train.judge", self.train.judge, ("loss", *judges), task)
        if self.expect is not None:
            faults += _unless("expect.metric", self.expect.metric, measures, task)
        if faults:
            raise ValueError("\n".join(faults))
        return self

    @property
    def names_labels(self) -> bool:
        """Whether a text or a word gets one label of several."""
        return self.task in ("classify", "tag") and self.labels.kind == "one"

    @property
    def smooths(self) -> bool:
        """Whether its goals can be smoothed: labels and words can, numbers and places cannot."""
        return self.names_labels or self.task in ("translate", "pretrain")

    def only(self, names: Iterable[str]) -> "Recipe":
        """The same ladder with no other rungs than these."""
        known = [rung.name for rung in self.rung]
        if not known:
            raise BadInput("this recipe is no ladder: it has no rungs to choose from")
        there = ", ".join(map(repr, known))
        for name in names:
            if name not in known:
                raise BadInput(f"no rung is called {name!r}; there are {there}")
        chosen = tuple(rung for rung in self.rung if rung.name in names)
        return self.model_copy(update={"rung": chosen})

    def at(self, rung: RungConfig) -> "Recipe":
        """The recipe of one rung."""
        own = {"model": rung.model.model_dump(), "expect": rung.expect, "rung": ()}
        tables = {name: getattr(rung, name) for name in ("batches", "optimiser", "train")}
        return Recipe.model_validate({**merged(self.model_dump(), tables), **own})


def _unless(key: str, value: str, known: tuple[str, ...], task: str) -> list[str]:
    """What is wrong with a measure, if it is none of those that are known."""
    if value in known:
        return []
    return [f"{key}: {value!r} is no measure of task {task!r}{did_you_mean(value, list(known))}"]


def find(name: str) -> Path:
    """A recipe by file name, or one of those that come with regard by its bare name."""
    path = Path(name)
    if path.is_file():
        return path
    if path.suffix == ".toml":
        raise BadInput(f"{name}: no such recipe file")
    built_in = {one.stem: one for one in built_in_recipes()}
    if name not in built_in:
        raise BadInput(f"no recipe is called {name!r}{did_you_mean(name, list(built_in))}")
    return built_in[name]


def built_in_recipes() -> list[Path]:
    """The recipes that come with regard."""
    return sorted(BUILT_IN.glob("*.toml"))


def read(path: Path, settings: Sequence[str] = ()) -> Recipe:
    """The recipe in a file, with ``table.key=value`` settings laid over it.

    ``like = "NAME"`` at its top begins with another recipe; the file says what differs.
    """
    content = _content(path)
    for setting in settings:
        lay_over(content, setting)
    if isinstance(about := content.setdefault("about", {}), dict):
        about.setdefault("title", path.stem)
    try:
        recipe = Recipe.model_validate(content)
    except ValidationError as error:
        raise refusal(str(path), faults_of(error, Recipe), settings) from None
    faults = []
    if content["train"].get("smoothing") and not recipe.smooths:
        faults += [("train.smoothing", unusable("train.smoothing", recipe))]
    for rung in recipe.rung:
        try:
            recipe.at(rung)
        except ValidationError as error:
            own = faults_of(error, Recipe)
            faults += [(name, f"rung {rung.name!r}: {fault}") for name, fault in own]
    if faults:
        raise refusal(str(path), faults, settings)
    return recipe


def _content(path: Path, depth: int = 0) -> dict[str, Any]:
    written = read_bytes(path)
    try:
        content = tomllib.loads(written.decode())
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: not TOML ({error})") from None
    like = content.pop("like", None)
    if like is None:
        return content
    if depth > 8:
        raise BadInput(f"{path}: recipes that are like each other in a circle")
    beside = path.with_name(f"{like}.toml")
    under = _content(beside if beside.is_file() else find(str(like)), depth + 1)
    under.pop("about", None)  # that recipe's title, command and minutes are not this one's
    both = merged(under, content)
    if isinstance(content.get("data"), dict):  # where examples come from is said as a whole
        own = "train" in content["data"]
        both["data"] = content["data"] if own else {**under.get("data", {}), **content["data"]}
    return both
