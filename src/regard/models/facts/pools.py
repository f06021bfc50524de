"""Facts of pools: how the states of a row become one vector."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from torch import nn

from regard.models.build.pools import FirstTokenModule, PlainPoolModule, first_states
from regard.models.facts.checks import at_least, one_of
from regard.models.facts.flops import Products, score_products
from regard.models.sites import AttentionSite
from regard.parts.pooling import QUERIES, AttentionPoolModule, concat_states
from regard.parts.recurrent.bridge import last_state, mean_state
from regard.parts.recurrent.rnn_attention import SCORES

Summaries = tuple[str | None, ...]
"""Where the template of a tokenizer may put the summary token; None is for "nowhere"."""
ANYWHERE: Summaries = ("first", "last", None)


class AnyPool:
    """What every pool can be asked."""

    summaries: ClassVar[Summaries] = ANYWHERE

    @property
    def first_read(self) -> int | None:
        """How many first tokens of a row it reads; None: others, or all."""
        return None

    def build(self, width: int) -> nn.Module:
        """The module for states of that size."""
        raise NotImplementedError

    def output_width(self, width: int) -> int:
        """The size of its output for states of that size."""
        return width

    def products(self, width: int) -> Products:
        """Products for each token and each row."""
        return Products(0)

    def attention(self, side: str) -> AttentionSite | None:
        """Its attention over the tokens of that side."""
        return None


@dataclass(frozen=True)
class FirstToken(AnyPool):
    """The first token's state; if ``dense``, through a layer tanh(W h + b) (BERT's pooler)."""

    summaries: ClassVar[Summaries] = ("first",)
    dense: bool = True

    @property
    def first_read(self) -> int:
        return 1

    def build(self, width: int) -> nn.Module:
        return FirstTokenModule(nn.Linear(width, width) if self.dense else None)

    def products(self, width: int) -> Products:
        return Products(0, row=width * width * self.dense)


@dataclass(frozen=True)
class FirstTokens(AnyPool):
    """The states of the first ``count`` tokens, side by side (DeiT's class and distillation)."""

    summaries: ClassVar[Summaries] = ("first",)
    count: int = 2

    def __post_init__(self) -> None:
        at_least(1, "count", self.count)

    @property
    def first_read(self) -> int:
        return self.count

    def build(self, width: int) -> nn.Module:
        return PlainPoolModule(partial(first_states, count=self.count))

    def output_width(self, width: int) -> int:
        return self.count * width


@dataclass(frozen=True)
class LastToken(AnyPool):
    """The final state of a recurrent trunk, else the last token's state."""

    summaries: ClassVar[Summaries] = ("last", None)

    def build(self, width: int) -> nn.Module:
        return PlainPoolModule(last_state)


@dataclass(frozen=True)
class MeanPool(AnyPool):
    """The mean of all states."""

    def build(self, width: int) -> nn.Module:
        return PlainPoolModule(mean_state)


@dataclass(frozen=True)
class ConcatPool(AnyPool):
    """[h_T; max over t of h_t; mean of h_t], side by side (Howard & Ruder, 2018, section 3.3)."""

    summaries: ClassVar[Summaries] = ("last", None)

    def build(self, width: int) -> nn.Module:
        return PlainPoolModule(concat_states)

    def output_width(self, width: int) -> int:
        return 3 * width


@dataclass(frozen=True)
class AttentionPool(AnyPool):
    """Σ_i α_i h_i, where α is the softmax of a ``score`` of one query with all states.

    The ``query`` is "learned", "zeros" (a dot product then gives the mean of the states) or "mean",
    that of the states. ``inner`` and ``positions`` are as in ``CrossAttentionFacts``.
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

    def build(self, width: int) -> nn.Module:
        """The module for states of that size."""
        sizes = {"inner": self.inner or width, "positions": self.positions}
        return AttentionPoolModule(width, self.score, self.query, **sizes)

    def products(self, width: int) -> Products:
        """The score of one query for each row, and the weighted sum."""
        query, key, pair = score_products(
            self.score, width, width, self.inner or width, self.positions
        )
        return Products(key + pair + width, row=query)

    def attention(self, side: str) -> AttentionSite:
        """One query for each row."""
        return AttentionSite(side, "pool", (1,), "pool")


POOLS: dict[str, AnyPool] = {
    "first": FirstToken(dense=False),
    "last": LastToken(),
    "mean": MeanPool(),
    "concat": ConcatPool(),
    "attention": AttentionPool(),
}
