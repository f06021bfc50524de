"""Facts: a paper's model as a value, and the one way to say how another differs from it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, get_type_hints

from regard.ground.errors import BadInput, did_you_mean
from regard.models.checks import at_least, one_of, share
from regard.models.sides import Convolved, Looking, Reader, Side, Writer
from regard.parts.mask import Mask, PermutationMask, WindowMask, full
from regard.parts.mlp import ACTIVATIONS
from regard.parts.pooling import QUERIES
from regard.parts.position import Learned, Position, Relative, Sinusoid
from regard.parts.rnn_attention import SCORES


@dataclass(frozen=True)
class Embed:
    """Token, position and segment vectors; ``scaled`` multiplies tokens by √width."""

    vocab: int
    position: Position | None
    segments: int = 0
    scaled: bool = False
    normed: bool = False

    def __post_init__(self) -> None:
        at_least(1, "vocab", self.vocab)
        at_least(0, "segments", self.segments)


@dataclass(frozen=True)
class Stack(Side):
    """N like blocks. ``key`` and ``value`` are sizes per head where they do not share the width.

    ``dropout`` falls on embeddings and on what each part adds to the residual, as in Vaswani et
    al.; ``attention_dropout`` on weights and ``inner_dropout`` inside the feed-forward layer came
    with later code.
    """

    width: int
    depth: int
    heads: int
    inner: int
    key: int | None = None
    value: int | None = None
    norm: str = "post"
    final_norm: bool = False
    activation: str = "relu"
    eps: float = 1e-5
    dropout: float = 0.1
    attention_dropout: float = 0.0
    inner_dropout: float = 0.0
    mask: Mask = full
    cross: bool = False

    def __post_init__(self) -> None:
        for name in ("width", "depth", "heads", "inner", "key", "value"):
            at_least(1, name, getattr(self, name))
        for name in ("dropout", "attention_dropout", "inner_dropout"):
            share(name, getattr(self, name))
        one_of(ACTIVATIONS, "activation", self.activation)

    @property
    def writes(self) -> bool:
        return self.cross

    @property
    def looks(self) -> tuple[int, int]:
        return (self.depth, self.heads) if self.cross else (0, 0)


@dataclass(frozen=True)
class Facts:
    """A model of one stack, or a side of a translator."""

    embed: Embed
    stack: Stack | Reader | Writer | Convolved

    def __post_init__(self) -> None:
        if isinstance(self.embed.position, Relative) and not isinstance(self.stack, Stack):
            raise BadInput("position: only layers of attention score by distance")


@dataclass(frozen=True)
class PairFacts:
    """A model that reads a source and writes a target.

    ``tie``: "all" shares source, target and output embeddings, "target" the last two, "none" none.
    ``head_bias`` adds a number to the logit of every word.
    """

    source: Facts
    target: Facts
    tie: str = "all"
    head_bias: bool = False

    def __post_init__(self) -> None:
        if self.source.stack.writes or not self.target.stack.writes:
            raise BadInput("cross: the target looks at the source, and the source at nothing else")


@dataclass(frozen=True)
class Pooling:
    """How the states of a text become one vector: Σ_i α_i h_i, by a ``score`` of one query.

    The ``query`` is "learned", "zeros" (to a dot product all states are alike then: their mean) or
    "mean", of the states. ``inner`` and ``positions`` are as in ``Looking``.
    """

    score: str = "additive"
    query: str = "learned"
    inner: int | None = None
    positions: int = 128

    def __post_init__(self) -> None:
        one_of(SCORES, "score", self.score)
        one_of(QUERIES, "query", self.query)
        for name in ("inner", "positions"):
            at_least(1, name, getattr(self, name))


@dataclass(frozen=True)
class ClassifierFacts:
    """A model that reads a text and says which of ``classes`` it is.

    It judges by its states as ``pooling`` sums them up, or without one by the last state alone.
    ``dropout`` falls on what it judges by.
    """

    reader: Facts
    classes: int
    pooling: Pooling | None = Pooling()
    dropout: float = 0.0

    def __post_init__(self) -> None:
        at_least(2, "classes", self.classes)
        share("dropout", self.dropout)
        if self.reader.stack.writes:
            raise BadInput("cross: a reader looks at nothing but its text")


OF_ROWS, OF_TOKENS = ("classify", "choose"), ("tag", "answer")


@dataclass(frozen=True)
class Head:
    """One more layer for a ``task``, with ``outputs`` for each row or each token.

    ``dropout`` falls on what it reads.
    """

    task: str
    outputs: int
    dropout: float = 0.1

    def __post_init__(self) -> None:
        one_of((*OF_ROWS, *OF_TOKENS), "task", self.task)
        at_least(1, "outputs", self.outputs)
        share("dropout", self.dropout)

    @property
    def of_rows(self) -> bool:
        """Whether it judges whole rows."""
        return self.task in OF_ROWS


@dataclass(frozen=True)
class EncoderFacts:
    """A stack that sees both ways, and what is read off its states.

    ``pooled`` takes the first state of a row through a layer of its own. ``fills`` names the words
    at hidden places, by vectors of the words themselves if ``tied``; ``follows`` says whether the
    second text of a row follows the first. New weights are drawn with a standard deviation of
    ``spread``.
    """

    embed: Embed
    stack: Stack
    pooled: bool = True
    fills: bool = False
    tied: bool = True
    follows: bool = False
    head: Head | None = None
    spread: float = 0.02

    def __post_init__(self) -> None:
        if self.stack.cross:
            raise BadInput("cross: an encoder looks at nothing but its text")
        if not self.pooled and (self.follows or (self.head is not None and self.head.of_rows)):
            raise BadInput("pooled: what is said of a whole row is read off its pooled state")


AnyFacts = Facts | PairFacts | ClassifierFacts | EncoderFacts
VALUES = {
    kind.__name__: kind
    for kind in (
        *(Embed, Stack, Facts, PairFacts, Sinusoid, Learned, Relative, WindowMask, PermutationMask),
        *(Reader, Writer, Looking, Convolved, Pooling, ClassifierFacts),
        *(EncoderFacts, Head),
    )
}


POSITIONS: dict[str, Position | None] = {
    "none": None,
    "sinusoid": Sinusoid(),
    "learned": Learned(512),  # as many as BERT's
    "relative": Relative(16),  # as far as in Shaw et al. (2018)
}


def change(facts: Any, **changes: Any) -> Any:
    """The same facts but for the named fields, wherever they stand.

    ``change(BASE, depth=2)`` changes every stack of a pair; ``**{"source.depth": 12}`` only one.
    A position may be called by its name in ``POSITIONS``; one of that kind stays as it is. All
    changes are made at once, in whatever order; where two name one field, the later holds.
    """
    before, given = dict(paths(facts)), dict[str, Any]()

    def of_parts(name: str) -> bool:
        """Whether a value with fields of its own comes or goes: other changes may name those."""
        now = [before[path] for path in _places(before, name)]
        return any(
            is_dataclass(one)
            for value in now
            for one in (value, _meant(name, changes[name], value))
        )

    for name in sorted(changes, key=of_parts, reverse=True):
        known = dict(paths(facts, given=given))
        places = _places(known, name)
        if not places:
            raise BadInput(f"no fact is called {name!r}{did_you_mean(name, _names(known))}")
        given |= {path: _meant(name, changes[name], known[path]) for path in places}
    return _rebuilt(facts, given)


def paths(
    facts: Any, prefix: str = "", given: Mapping[str, Any] = MappingProxyType({})
) -> list[tuple[str, Any]]:
    """Every field with its dotted path, values of several fields after their own fields.

    Some values may be ``given`` instead, by their paths.
    """
    found: list[tuple[str, Any]] = []
    for field in fields(facts):
        path = prefix + field.name
        value = given.get(path, getattr(facts, field.name))
        if is_dataclass(value):
            found += paths(value, f"{path}.", given)
        found.append((path, value))
    return found


def difference(one: Any, other: Any) -> dict[str, tuple[Any, Any]]:
    """The fields in which two papers differ: path to (this, that); ``None`` where one has none."""
    here, there = dict(paths(one)), dict(paths(other))
    pairs = {path: (here.get(path), there.get(path)) for path in {**here, **there}}
    return {
        path: (this, that)
        for path, (this, that) in pairs.items()
        if this != that and not is_dataclass(this) and not is_dataclass(that)
    }


def to_json(value: Any) -> Any:
    """Facts as plain JSON, each value under its name."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            "is": type(value).__name__,
            **{field.name: to_json(getattr(value, field.name)) for field in fields(value)},
        }
    return value


def from_json(data: Any, where: str) -> Any:
    """The facts that ``to_json`` wrote; anything else is an error that names ``where``."""
    if not isinstance(data, dict):
        raise BadInput(f"{where}: {data!r} is not a set of facts")
    kind = VALUES.get(str(data.get("is")))
    if kind is None:
        raise BadInput(f"{where}: facts of unknown kind {data.get('is')!r}")
    given = {
        name: from_json(value, where) if isinstance(value, dict) else value
        for name, value in data.items()
        if name != "is"
    }
    try:
        facts = kind(**given)
        for name, value in given.items():
            _check(facts, name, value)
    except (TypeError, AttributeError, BadInput) as error:
        raise BadInput(f"{where}: {error}") from None
    return facts


def _ends(path: str, name: str) -> bool:
    """ "source.depth" names "source.stack.depth": the first and the last step, others left out."""
    steps, named = path.split("."), name.split(".")
    return steps[-1] == named[-1] and steps[: len(named) - 1] == named[:-1]


def _names(known: dict[str, Any]) -> list[str]:
    return sorted({path.split(".")[-1] for path in known})


def _check(facts: Any, name: str, value: Any) -> None:
    wanted = get_type_hints(type(facts))[name]
    fits = isinstance(value, wanted) or (wanted is float and type(value) is int)
    if not fits or (isinstance(value, bool) and wanted is not bool):
        kind = getattr(wanted, "__name__", wanted)
        raise BadInput(f"{name} of {type(facts).__name__} is {kind}, so it cannot be {value!r}")


def _places(known: Mapping[str, Any], name: str) -> list[str]:
    """The paths that a name means: all that end in it, else those it abbreviates."""
    chosen = [path for path in known if path == name or path.endswith("." + name)]
    return chosen or [path for path in known if "." in name and _ends(path, name)]


def _meant(name: str, value: Any, now: Any) -> Any:
    """A value as it stands in facts: positions have names."""
    if name.split(".")[-1] != "position" or not isinstance(value, str):
        return value
    one_of(POSITIONS, "position", value)
    named = POSITIONS[value]
    return now if type(now) is type(named) else named


def _rebuilt(facts: Any, given: Mapping[str, Any], prefix: str = "") -> Any:
    """The facts with these values, by their paths; every part is made once, inner ones first."""
    changed = {}
    for field in fields(facts):
        path, before = prefix + field.name, getattr(facts, field.name)
        value = given.get(path, before)
        if path in given:
            _check(facts, field.name, value)
        if is_dataclass(value) and any(one.startswith(f"{path}.") for one in given):
            value = _rebuilt(value, given, f"{path}.")
        if value is not before:
            changed[field.name] = value
    return replace(facts, **changed) if changed else facts
