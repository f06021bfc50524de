"""The recipe table [model]: the facts of a model, and the weights it starts from."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import permutations
from typing import Annotated, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from regard.core.config import Config
from regard.core.errors import BadInput, shown
from regard.models.encoder_decoder import EncoderDecoder, ModelFacts
from regard.models.facts import Facts, change, difference, values_named
from regard.models.folders.loaded_model import LoadedModel
from regard.models.formats.config_map import wrong_part
from regard.models.paper import Paper
from regard.models.papers import paper, sized
from regard.models.trunk_with_heads import TrunkWithHeads

SCRATCH = ("", "scratch")  # TOML has no word for nothing
TOKEN_VECTORS = tuple(f"{side}.embed.token." for side in ("trunk", "source", "target"))
LayerNumber = Annotated[int, Field(ge=0)]
DECIDED_FACTS = {"vocab", "outputs", "output_heads", "pool"}  # by the data and the task
EVERY_SECOND: Literal["every second"] = "every second"
Optional = Annotated[str | None, AfterValidator(lambda name: name or None)]


def _with_tuples(changes: dict[str, object]) -> dict[str, object]:
    """Convert the lists of TOML in changes to tuples, as facts hold tuples (ELMo's filters)."""

    def frozen(value: object) -> object:
        return tuple(map(frozen, value)) if isinstance(value, list) else value

    return {name: frozen(value) for name, value in changes.items()}


class StartConfig(Config):
    """Model folder that a run starts from: the whole model or, with ``parts``, some of its weights.

    With parts, the recipe has its own facts and may name another paper. A part is named by the
    prefix of its weights: "trunk", "source.layers", "target.embed.token". The weights of both parts
    must have the same names and shapes. Token vectors come with the tokenizer of the folder.
    """

    folder: str
    """A model folder, here or under the data root, or an id of the Hugging Face hub."""
    parts: dict[str, str] = Field(default_factory=dict)
    """Parts of the new model, each with the part of the folder's model that initialises it:
    `{ "trunk.embed" = "source.embed" }`."""

    @field_validator("parts")
    @classmethod
    def _apart(cls, parts: dict[str, str]) -> dict[str, str]:
        for outer, inner in permutations(parts, 2):
            if f"{inner}.".startswith(f"{outer}."):
                raise ValueError(f"{inner!r} is a part of {outer!r}: name one of them")
        return parts

    @classmethod
    def given(cls, start: object) -> object:
        """Convert a ``start`` that is only a folder name to a table, and "scratch" to None."""
        if start in SCRATCH:
            return None
        return {"folder": start} if isinstance(start, str) else start

    @property
    def token_side(self) -> str | None:
        """The side of the folder's model whose token vectors and tokenizer are used, if any."""
        for part, other in (self.parts or {"trunk": "trunk"}).items():
            ours = f"{part}."
            if any(ours.startswith(name) or name.startswith(ours) for name in TOKEN_VECTORS):
                return other.split(".")[0]
        return None


class ModelConfig(Config):
    """Paper, one of its sizes, and the facts that differ.

    ``source`` or ``target`` takes that side from another "PAPER:SIZE", such as a recurrent encoder
    under the decoder of a Transformer; a model with one side has a source only. With ``start``, an
    encoder starts with the facts, the vocabulary and the weights of a folder; ``layers`` selects
    some of its layers, in this order. If ``start`` is a table, it names parts of the model instead.
    """

    paper: str = "transformer"
    """A paper of `regard papers`."""
    size: Optional = None
    """A size of the paper; default: "base", or the first."""
    start: Annotated[StartConfig | None, BeforeValidator(StartConfig.given)] = None
    """A model folder, or an id of the Hugging Face hub (a string), whose facts, vocabulary and
    weights the run starts with, or a table that names parts of it."""
    vocabulary: Literal["start", "text"] = "start"
    """The vocabulary of `start`, or one learned from the texts by `[text]`: tokens that `start`
    knows keep their vectors, others begin with the mean of all vectors."""
    layers: (
        Literal["all", "every second"] | Annotated[tuple[LayerNumber, ...], Field(min_length=1)]
    ) = "all"
    """The layers of `start` that are used, counted from 0: `[0, 2, 4]`, or "every second"."""
    source: Optional = None
    """Take the encoder from another model, "PAPER:SIZE"."""
    target: Optional = None
    """Take the decoder from another model, "PAPER:SIZE"."""
    features: Optional = None
    """The folder of an ELMo model or a translator whose layers are features of words; it is not
    trained. Needs `text.kind = "words"`."""
    features_at: Literal["input", "output", "both"] | Annotated[int, Field(ge=1)] | None = None
    """Where features are added: beside word vectors ("input"), beside the states of the trunk
    ("output"), both, or beside the states after a layer (1 is the first); default: as in the paper,
    or "input"."""
    features_layers: Literal["all", "top"] | None = None
    """All layers of the feature model, mixed by learned weights, or its top layer; default: as in
    the paper, or all."""
    vectors: Optional = None
    """A file of word vectors (GloVe, word2vec; text or binary) that initialise the embedding; other
    words are initialised at random. Needs `text.kind = "words"`."""
    change: Annotated[dict[str, object], AfterValidator(_with_tuples)] = Field(default_factory=dict)
    """Facts that differ from the size: `depth = 3`, `"source.depth" = 6`."""

    @model_validator(mode="after")
    def _starts_once(self) -> "ModelConfig":
        for key in ("size", "source", "target") if self.starts_whole else ():
            if getattr(self, key) is not None:
                raise ValueError(
                    f'{key} cannot be used with start, which has its own facts: {key}="" removes it'
                )
        for key in ("features_at", "features_layers") if self.features is None else ():
            if key in self.model_fields_set:
                raise ValueError(f"{key} needs model.features: set it as well")
        has_words = self.start is not None and self.start.token_side is not None
        for key in ("features", "vectors") if has_words else ():
            if getattr(self, key) is not None:
                raise ValueError(f"{key} cannot be used with start, which has its own word vectors")
        if not self.starts_whole and self.layers != "all":
            advice = "set model.start" if self.start is None else "start.parts names the layers"
            raise ValueError(f"layers selects layers of the whole model of start: {advice}")
        if self.learns_vocabulary and not self.starts_whole:
            raise ValueError('vocabulary = "text" needs model.start, a folder without parts')
        return self

    @property
    def starts_whole(self) -> bool:
        """Whether the run starts from the whole model of a folder."""
        return self.start is not None and not self.start.parts

    @property
    def learns_vocabulary(self) -> bool:
        """Whether the vocabulary of ``start`` is replaced by one learned from the texts."""
        return self.vocabulary == "text"

    @property
    def name(self) -> str:
        """The paper and its size."""
        return self.paper if self.size is None else f"{self.paper}:{self.size}"

    def with_facts(self, facts: ModelFacts) -> "ModelConfig":
        """The table of a model with these facts, as changes of its size.

        What data and task decide, such as the vocabulary, is not taken from them.
        """
        for key in ("start", "source", "target"):
            if getattr(self, key) is not None:
                raise BadInput(f"facts cannot be used with model.{key}, which decides facts")
        before = sized(self.name)
        if facts.__class__ is not before.__class__:
            kinds = f"{type(before).__name__} of model.paper, {self.name}"
            raise BadInput(f"facts: give the {kinds}, not {shown(facts)}")
        values = {path: new for path, (_, new) in difference(before, facts).items()}
        changes = {
            path: new
            for path, new in values.items()
            if _is_plain(new) and DECIDED_FACTS.isdisjoint(path.split("."))
        }
        try:
            after = change(before, **changes)
        except BadInput as error:
            fault = f"facts: not those of {self.name} with changes: {error}"
            raise BadInput(fault) from None
        for path in difference(after, facts):
            if DECIDED_FACTS.isdisjoint(path.split(".")):
                raise BadInput(f"facts: {path}: a recipe of {self.name} cannot hold this change")
        return self.model_copy(update={"change": changes})

    def changed(self, facts: Facts, names: Iterable[str]) -> Facts:
        """Apply the changes of these names to the facts; errors name the key of the recipe."""
        changes = {name: self.change[name] for name in names}
        try:
            return change(facts, **changes)
        except BadInput as error:
            parts = [(f"model.change.{name}", {name: value}) for name, value in changes.items()]
            key = wrong_part(error, facts, parts) or "model.change"
            raise BadInput((error,), key=key) from None

    def check_changes(self, decided: Mapping[str, str]) -> None:
        """Raise BadInput if a change sets a fact that another key decides (``decided``)."""
        for name in self.change:
            if (fact := name.split(".")[-1]) in decided:
                raise BadInput(
                    f"model.change.{name} cannot be set: it follows from {decided[fact]}"
                )


def _is_plain(value: object) -> bool:
    """Whether a recipe can hold a value: a number, a text, or a list of them."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | str)


def encoder_decoder_facts(config: ModelConfig, *, joint: bool) -> tuple[Paper, EncoderDecoder]:
    """The paper and the encoder-decoder of a recipe, before its vocabularies are known."""
    config.check_changes({"vocab": "text.vocab: set that"})
    facts = _encoder_decoder(config.name, "size")
    if config.source is not None:
        facts = replace(facts, source=_encoder_decoder(config.source, "source").source)
    if config.target is not None:
        facts = replace(facts, target=_encoder_decoder(config.target, "target").target)
    facts = config.changed(facts, config.change)
    if facts.tie in ("all", "sides") and not joint:  # two vocabularies share no vectors
        if "tie" in config.change:
            raise BadInput("model.change.tie must be 'target' or 'none' with text.joint = false")
        facts = change(facts, tie="target" if facts.tie == "all" else "none")
    return paper(config.paper), facts


def _sized(name: str, key: str) -> ModelFacts:
    """The facts of "PAPER:SIZE", which ``model.key`` names."""
    try:
        return sized(name)
    except BadInput as error:
        raise BadInput(f"model.{key}: {error}") from None


def _encoder_decoder(name: str, key: str) -> EncoderDecoder:
    facts = _sized(name, key)
    if facts.sides != EncoderDecoder.sides:
        raise BadInput(f"model.paper: {name} is not an encoder-decoder, which this task needs")
    return cast(EncoderDecoder, facts)


def trunk_facts(
    config: ModelConfig,
    start: LoadedModel | None,
    with_heads: Callable[[TrunkWithHeads], TrunkWithHeads],
    decided: Mapping[str, str],
) -> tuple[Paper, TrunkWithHeads]:
    """The paper and the model of a recipe with the heads of a task, before the data are known.

    ``with_heads`` replaces the heads after the trunk is changed, so that a changed dropout reaches
    heads only if their paper says so. ``decided`` are facts that the recipe cannot change, with the
    keys that decide them.
    """
    config.check_changes(decided)
    if config.target is not None:
        raise BadInput("model.target: models of this task have no decoder; remove the key")
    known = _sized(config.name, "size") if start is None else start.facts
    if known.sides != TrunkWithHeads.sides:
        folder = config.start
        name = f"paper: {config.paper}" if folder is None else f"start: {folder.folder}"
        raise BadInput(f"model.{name} is an encoder-decoder; this task needs an encoder")
    facts = cast(TrunkWithHeads, known)
    if start is None and config.source is not None:
        facts = replace(facts, trunk=_sized(config.source, "source").encoder)
    depth = facts.trunk.stack.depth
    in_trunk = [name for name in config.change if values_named(facts.trunk, name)]
    in_heads = [name for name in config.change if name not in in_trunk]
    facts = with_heads(config.changed(facts, in_trunk))
    if "pool" in config.change and facts.pool is None:
        raise BadInput("model.change.pool: no head of this task reads pooled rows; remove the key")
    facts = config.changed(facts, in_heads)
    if start is not None and (less := facts.trunk.stack.depth) < depth:
        fault = f"a depth of {less} would drop layers of model.start, which has {depth}"
        raise BadInput(f"model.change: {fault}; use model.layers to choose layers")
    return (paper(config.paper) if start is None else start.paper), facts
