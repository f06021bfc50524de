"""Recipes: a training run as a typed, closed TOML file that carries its own promise."""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from regard.data.sources import JsonLines, Lines, Source, Table
from regard.ground.errors import BadInput
from regard.models.facts import did_you_mean
from regard.text.spaced import SPACED
from regard.text.training import KINDS

Share = Annotated[float, Field(ge=0, lt=1)]
BUILT_IN = Path(__file__).parent.parent / "recipes"


class _Closed(BaseModel):
    """A table of a recipe: unknown keys are errors, and values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class About(_Closed):
    """What the recipe is, for people."""

    title: str
    command: str
    hardware: str
    minutes: float


class Files(_Closed):
    """Where pairs come from: two files, or one table or JSON-lines file and two of its columns.

    ``spaced`` names the two languages by whose rules words are set apart, as aligners need them.
    """

    source: str | None = None
    target: str | None = None
    table: str | None = None
    jsonl: str | None = None
    columns: tuple[int | str, int | str] | None = None
    spaced: tuple[str, str] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "Files":
        two = self.source is not None and self.target is not None
        one = [self.table, self.jsonl].count(None) == 1 and self.columns is not None
        if two == one or (one and (self.source or self.target)) or (two and self.columns):
            raise ValueError("give source and target, or table and columns, or jsonl and columns")
        for language in self.spaced or ():
            if language not in SPACED:
                wrong = did_you_mean(language, list(SPACED))
                raise ValueError(f"words of {language!r} cannot be set apart{wrong}")
        return self

    def under(self, root: Path) -> Source:
        """The files, looked up under the data root."""

        def place(name: str | None) -> str:
            return "-" if name == "-" else str(root / str(name))

        spaced = self.spaced or ()
        if self.columns is None:
            return Lines((place(self.source), place(self.target)), spaced)
        if self.table is not None:
            return Table(place(self.table), self.columns, spaced)
        return JsonLines(place(self.jsonl), tuple(map(str, self.columns)), spaced)


class Data(_Closed):
    """The pairs: to learn from (perhaps standard input), to choose by, to be judged by."""

    train: Files
    dev: Files
    test: Files | None = None
    more_tests: dict[str, Files] = {}
    longest_characters: int = Field(5_000, ge=1)

    @model_validator(mode="after")
    def _read_again_and_again(self) -> "Data":
        for files in (self.dev, self.test, *self.more_tests.values()):
            if files is not None and "-" in files.under(Path()).paths:
                raise ValueError("only train can be standard input")
        return self


class Text(_Closed):
    """Subwords: kind, size, shared by both languages or not."""

    kind: str = "bpe"
    vocab: int = Field(8_000, ge=1)
    joint: bool = True
    normalise: Literal["none", "nfc", "nfkc"] = "nfc"
    lower: bool = False
    dropout: float = Field(0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _known(self) -> "Text":
        if self.kind not in KINDS:
            raise ValueError(f"no kind {self.kind!r}{did_you_mean(self.kind, list(KINDS))}")
        if self.dropout and "bpe" not in self.kind:
            raise ValueError(f"dropout is drawn over merges, which {self.kind!r} does not have")
        return self


class Model(_Closed):
    """A paper, one of its sizes, and the facts that differ.

    ``source`` or ``target`` takes that side from another, "PAPER:SIZE": a recurrent encoder under a
    Transformer's decoder, say. The paper is then the recurrent one.
    """

    paper: str = "transformer"
    size: str = "base"
    source: str | None = None
    target: str | None = None
    change: dict[str, Any] = {}


class Batches(_Closed):
    """A step reads ``accumulate`` batches, each within the three limits on either side."""

    tokens: int = Field(4_096, ge=1)
    rows: int = Field(512, ge=1)
    longest: int = Field(128, ge=1)
    accumulate: int = Field(1, ge=1)


class Optimiser(_Closed):
    """How weights follow gradients."""

    kind: Literal["adam", "adamw"] = "adam"
    rate: float = Field(gt=0)
    schedule: Literal["inverse-sqrt", "linear", "cosine", "constant"] = "inverse-sqrt"
    warmup: int = Field(4_000, ge=0)
    betas: tuple[Share, Share] = (0.9, 0.98)
    eps: float = Field(1e-9, gt=0)
    decay: float = Field(0.0, ge=0)
    clip: float = Field(0.0, ge=0)


class Train(_Closed):
    """How long, how exact, how often to look, what to keep."""

    steps: int = Field(ge=1)
    seed: int = 1
    smoothing: float = Field(0.1, ge=0, lt=1)
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    report_every: int = Field(50, ge=1)
    evaluate_every: int = Field(1_000, ge=1)
    checkpoint_every: int = Field(1_000, ge=1)
    judge: Literal["loss", "bleu"] = "loss"
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
    def _agrees(self) -> "Train":
        if self.ema and self.average > 1:
            raise ValueError("ema and average both say which weights to keep: choose one")
        return self


class Decode(_Closed):
    """How sentences are found when the model is judged on the test set."""

    beam: int = Field(5, ge=1)
    length: Literal["none", "mean", "gnmt", "power"] = "gnmt"
    alpha: float = Field(0.6, ge=0, allow_inf_nan=False)


class Measure(_Closed):
    """Which BLEU: sacreBLEU's tokeniser ("none" for text that is tokenised already), and case."""

    tokenize: str = "13a"
    lowercase: bool = False


class Expect(_Closed):
    """The promise: what the test set must say at the end, and who says so."""

    metric: Literal["BLEU", "chrF", "TER"] = "BLEU"
    score: float
    tolerance: float = Field(ge=0)
    source: str


class Recipe(_Closed):
    """Everything that decides a run."""

    about: About
    data: Data
    text: Text = Text()
    model: Model = Model()
    batches: Batches = Batches()
    optimiser: Optimiser
    train: Train
    decode: Decode = Decode()
    measure: Measure = Measure()
    expect: Expect | None = None


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


def read(path: Path, settings: Iterable[str] = ()) -> Recipe:
    """The recipe in a file, with ``table.key=value`` settings laid over it.

    ``like = "NAME"`` at its top begins with another recipe; the file says what differs.
    """
    content = _content(path)
    for setting in settings:
        _lay_over(content, setting)
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        raise BadInput(f"{path}: {_first_fault(error)}") from None


def _content(path: Path, depth: int = 0) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: not TOML ({error})") from None
    like = content.pop("like", None)
    if like is None:
        return content
    if depth > 8:
        raise BadInput(f"{path}: recipes that are like each other in a circle")
    beside = path.with_name(f"{like}.toml")
    return _merged(_content(beside if beside.is_file() else find(str(like)), depth + 1), content)


def _merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Tables are merged key by key."""
    both = {**under, **over}
    for name in under.keys() & over.keys():
        if isinstance(under[name], dict) and isinstance(over[name], dict):
            both[name] = _merged(under[name], over[name])
    return both


def _lay_over(content: dict[str, Any], setting: str) -> None:
    name, equals, value = setting.partition("=")
    *tables, key = name.strip().split(".")
    if not equals or not tables:
        raise BadInput(f"--set {setting}: write it as table.key=value, as in train.steps=100")
    place = content
    for number, table in enumerate(tables):
        if tables[:number] == ["model", "change"]:  # facts have dotted names of their own
            key = ".".join([*tables[number:], key])
            break
        place = place.setdefault(table, {})
        if not isinstance(place, dict):
            raise BadInput(f"--set {setting}: {table} is a value, not a table")
    try:
        place[key] = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        place[key] = value.strip()


def _first_fault(error: ValidationError) -> str:
    fault = error.errors()[0]
    place = [str(step) for step in fault["loc"]]
    name = ".".join(place)
    if fault["type"] == "extra_forbidden":
        known = _keys(place[:-1])
        return f"unknown key {name!r}{did_you_mean(place[-1], known)}"
    if fault["type"] == "missing":
        return f"{name} is missing"
    message = fault["msg"].removeprefix("Value error, ")
    given = "" if isinstance(fault["input"], dict) else f" (given {fault['input']!r})"
    return f"{name}: {message}{given}"


def _keys(tables: list[str]) -> list[str]:
    kind: type[BaseModel] = Recipe
    for table in tables:
        annotation = kind.model_fields[table].annotation
        choices = getattr(annotation, "__args__", (annotation,))
        kind = next(c for c in choices if isinstance(c, type) and issubclass(c, BaseModel))
    return list(kind.model_fields)
