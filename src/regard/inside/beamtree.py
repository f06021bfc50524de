"""A beam search as a tree: every candidate of every step, what became of it, and why."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from regard.search.beam import Beam
from regard.search.hypothesis import Hypothesis

Fate = Literal["kept", "finished", "unfinished", "outranked", "enough", "beaten", "stuck"]
WHY: dict[Fate, str] = {
    "kept": "goes on: among the {k} most probable that do not end",
    "finished": "set aside, finished: it ends, and is among the {k} most probable",
    "unfinished": "set aside, unfinished: the limit of its length is reached",
    "outranked": "pruned: {k} others are more probable",
    "enough": "pruned, for the sentence is over: enough hypotheses are finished",
    "beaten": "pruned, for the sentence is over: nothing alive can win any more",
    "stuck": "set aside, unfinished: nothing may follow it",
}
BRIEFLY: dict[Fate, str] = {
    "kept": "",
    "finished": "finished",
    "unfinished": "limit reached",
    "outranked": "outranked",
    "enough": "over: enough are finished",
    "beaten": "over: none alive can win",
    "stuck": "nothing may follow",
}
PRUNED = ("outranked", "enough", "beaten")


@dataclass(frozen=True)
class Node:
    """A candidate: a hypothesis of ``step`` tokens, by its last one and the node it continues.

    ``logprob`` is the token's. ``total`` is that of all tokens so far, by which the candidates of a
    step are ranked, 1 being the first; ``score`` is the total after the length rule. Node 0 is the
    beginning, which continues none.
    """

    parent: int | None
    step: int
    token: int
    piece: str
    logprob: float
    total: float
    score: float
    rank: int
    fate: Fate


@dataclass(frozen=True)
class Found:
    """A hypothesis that was set aside, the node it ends in, and its words."""

    hypothesis: Hypothesis
    node: int
    text: str


@dataclass(frozen=True)
class Choice:
    """What a length rule would have chosen: an index into what was found, and its score."""

    formula: str
    found: int
    score: float


@dataclass(frozen=True)
class BeamTree:
    """The search for one sentence. ``found`` is all that was set aside, the best first."""

    title: str
    beam: Beam
    nodes: tuple[Node, ...]
    found: tuple[Found, ...]
    choices: tuple[Choice, ...]

    @property
    def steps(self) -> int:
        """How many tokens were looked for, one after the other."""
        return self.nodes[-1].step

    @property
    def summary(self) -> str:
        """How it was searched and scored, and what was looked at."""
        pruned = sum(node.fate in PRUNED for node in self.nodes)
        return (
            f"beam of {self.beam.size}, score = {self.beam.formula}; {self.steps} steps, "
            f"{len(self.nodes) - 1} candidates, {pruned} of them pruned, "
            f"{len(self.found)} set aside"
        )

    @cached_property
    def winner(self) -> tuple[int, ...]:
        """The nodes of the best hypothesis, from the beginning to its last token."""
        return self.path(self.found[0].node)

    def path(self, number: int) -> tuple[int, ...]:
        """The nodes from the beginning to this one."""
        path = [number]
        while (parent := self.nodes[path[-1]].parent) is not None:
            path.append(parent)
        return tuple(reversed(path))

    def at(self, step: int) -> list[int]:
        """The candidates of a step, the most probable first."""
        return [number for number, node in enumerate(self.nodes) if node.step == step]

    def why(self, number: int) -> str:
        """What became of a candidate, in words."""
        return WHY[self.nodes[number].fate].format(k=self.beam.size)

    def written(self, number: int) -> str:
        """All tokens up to this one, as one text."""
        pieces = (self.nodes[each].piece for each in self.path(number)[1:])
        return "".join(pieces).replace("▁", " ").strip()
