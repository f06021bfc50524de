"""Facts of the sides of a translator that are no stacks of attention: recurrent, convolutional."""

from dataclasses import dataclass

from regard.ground.errors import BadInput
from regard.models.checks import at_least, one_of, share
from regard.parts.bridge import KINDS as BRIDGES
from regard.parts.rnn import DIRECTIONS, KERNELS
from regard.parts.rnn_attention import SCORES

TIMINGS = ("previous", "current")


class Side:
    """What all kinds of sides can be asked."""

    width: int

    @property
    def states(self) -> int:
        """The size of what it says of a token."""
        return self.width

    @property
    def writes(self) -> bool:
        """Whether it is a decoder."""
        return False

    @property
    def looks(self) -> tuple[int, int]:
        """Layers and heads of cross-attention."""
        return 0, 0


@dataclass(frozen=True)
class Recurrent(Side):
    """Layers of one cell ("rnn", "gru", "lstm"), each state ``width`` numbers.

    ``embedding`` is the size of a token's vector. ``dropout`` falls on embeddings, between layers
    and on what is read out.
    """

    width: int
    embedding: int
    depth: int = 1
    cell: str = "lstm"
    residual: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("width", "embedding", "depth"):
            at_least(1, name, getattr(self, name))
        share("dropout", self.dropout)
        one_of(KERNELS, "cell", self.cell)


@dataclass(frozen=True)
class Reader(Recurrent):
    """A recurrent encoder that ``reads`` "forward", "backward" (from the last token) or "both"."""

    reads: str = "forward"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(DIRECTIONS, "way to read", self.reads)

    @property
    def states(self) -> int:
        return 2 * self.width if self.reads == "both" else self.width


@dataclass(frozen=True)
class Looking:
    """How a recurrent decoder looks at its source.

    ``timing`` "previous": the state before says where to look, and what was seen enters the next
    (Bahdanau et al., 2014). "current": the state says where to look, and what was seen joins it in
    h̃ = tanh(W[c; h]) (Luong et al., 2015), which the next step is told if there is ``feeding``.
    ``inner`` is the size within the additive score (the width if none is given), ``positions`` how
    many the location score knows.
    """

    score: str
    timing: str = "current"
    feeding: bool = False
    inner: int | None = None
    positions: int = 128

    def __post_init__(self) -> None:
        one_of(SCORES, "score", self.score)
        one_of(TIMINGS, "timing", self.timing)
        for name in ("inner", "positions"):
            at_least(1, name, getattr(self, name))
        if self.feeding and self.timing == "previous":
            raise BadInput("feeding: what was seen before enters every step with timing 'previous'")


@dataclass(frozen=True)
class Writer(Recurrent):
    """A recurrent decoder; its ``bridge`` to the source is "copy", "last", "backward" or "mean".

    ``summary``: every step reads the source in one vector (Cho et al., 2014). ``maxout`` is the
    size of a layer between state, last word, what was seen, and the next word.
    """

    bridge: str = "copy"
    summary: bool = False
    attention: Looking | None = None
    maxout: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(BRIDGES, "bridge", self.bridge)
        at_least(1, "maxout", self.maxout)
        if self.summary and self.attention is not None:
            raise BadInput("summary: a decoder reads the source in one vector, or looks at it")

    @property
    def states(self) -> int:
        return self.width if self.maxout is None else self.maxout

    @property
    def writes(self) -> bool:
        return True

    @property
    def looks(self) -> tuple[int, int]:
        return (0, 0) if self.attention is None else (1, 1)


@dataclass(frozen=True)
class Convolved(Side):
    """A convolutional encoder: ``depth`` gated layers of ``kernel`` tokens each."""

    width: int
    depth: int
    kernel: int = 3
    dropout: float = 0.1

    def __post_init__(self) -> None:
        for name in ("width", "depth", "kernel"):
            at_least(1, name, getattr(self, name))
        share("dropout", self.dropout)
        if self.kernel % 2 == 0:
            raise BadInput(f"kernel: as many tokens on either side make it odd, not {self.kernel}")
