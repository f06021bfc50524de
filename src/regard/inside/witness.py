"""A beam that remembers what it saw: how ``BeamTree`` is recorded, without a second beam."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from regard.inside.beamtree import BeamTree, Choice, Fate, Found, Node
from regard.search.beam import Beam
from regard.search.candidates import Candidates
from regard.search.finished import FinishedHypotheses
from regard.search.hypothesis import ActiveHypotheses, Hypothesis
from regard.search.length_penalty import Length, formula, normalised, rescore
from regard.tasks.translate import Translator

BEGIN, BEGINNING = "⟨begin⟩", -1
# The length rules that are asked what they would have chosen.
RULES: tuple[tuple[Length, float], ...] = (
    ("none", 0.0),
    ("mean", 1.0),
    *(("gnmt", alpha) for alpha in (0.2, 0.6, 1.0)),
    *(("power", alpha) for alpha in (0.2, 0.6, 1.4)),
)


def tree(translator: Translator, text: str, beam: Beam | None = None) -> BeamTree:
    """The search for the translation of ``text``."""
    target = translator.text.target
    witness = Witness.of(Beam() if beam is None else beam)
    # A captured search leaves nothing to see, and another process would remember it for itself.
    replace(translator, house=None, workers=None).translate([text], witness)
    return witness.tree(text, lambda token: target.pieces([token])[0], target.decode)


@dataclass(frozen=True)
class Witness(Beam):
    """A beam for one sentence. It decides as ``Beam`` does, by its very functions, and takes notes.

    It can be called once; then ``tree`` tells what happened.
    """

    nodes: list[Node] = field(default_factory=list, repr=False, compare=False)
    rows: list[int] = field(default_factory=list, repr=False, compare=False)  # nodes alive
    shelf: list[FinishedHypotheses] = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def of(cls, beam: Beam) -> "Witness":
        """The same beam, with nothing seen yet."""
        return cls(**{one.name: getattr(beam, one.name) for one in fields(Beam)})

    def new_finished(self, sentences: int) -> FinishedHypotheses:
        """As the beam's; here the search begins."""
        if sentences != 1 or self.nodes:
            raise ValueError("a witness follows the search for one sentence, once")
        self.nodes.append(Node(None, 0, BEGINNING, BEGIN, 0.0, 0.0, 0.0, 1, "kept"))
        self.rows.append(0)
        self.shelf.append(super().new_finished(sentences))
        return self.shelf[0]

    def store_stuck(
        self, alive: ActiveHypotheses, candidates: Candidates, results: FinishedHypotheses
    ) -> None:
        """As the beam does."""
        for row in candidates.stuck(len(alive)).tolist():
            self.nodes[self.rows[row]] = replace(self.nodes[self.rows[row]], fate="stuck")
        super().store_stuck(alive, candidates, results)

    def advance(
        self,
        alive: ActiveHypotheses,
        candidates: Candidates,
        eos: int,
        longest_B: np.ndarray,
        results: FinishedHypotheses,
    ) -> tuple[ActiveHypotheses, np.ndarray]:
        """As the beam does; and what became of each candidate is written down."""
        grown, going = super().advance(alive, candidates, eos, longest_B, results)
        ended, able = candidates.select(self.size, eos)
        at_limit = bool(longest_B[0] == alive.length + 1)
        fates: list[Fate] = ["outranked"] * len(candidates.token)
        for one in able.tolist():
            fates[one] = self._end(at_limit, bool(candidates.place[one] < self.size), results)
        for one in going.tolist():
            fates[one] = "kept"
        for one in ended.tolist():
            fates[one] = "finished"
        first = len(self.nodes)
        self.nodes.extend(self._nodes(alive, candidates, fates))
        self.rows[:] = (first + going).tolist()
        return grown, going

    def _end(self, at_limit: bool, among_first: bool, results: FinishedHypotheses) -> Fate:
        """What becomes of a candidate that could go on, where its sentence is over."""
        if at_limit:
            return "unfinished" if among_first or not self.follows_transformers else "outranked"
        return "enough" if results.count_B[0] >= self.enough else "beaten"

    def _nodes(
        self, alive: ActiveHypotheses, candidates: Candidates, fates: list[Fate]
    ) -> list[Node]:
        n = alive.length + 1
        total = alive.total_R[candidates.parent] + candidates.logprob
        columns = (
            [self.rows[row] for row in candidates.parent.tolist()],
            candidates.token.tolist(),
            candidates.logprob.tolist(),
            total.tolist(),
            normalised(total, n, self.length, self.alpha).tolist(),
            (candidates.place + 1).tolist(),
            fates,
        )
        return [
            Node(parent, n, token, "", logprob, total, score, rank, fate)
            for parent, token, logprob, total, score, rank, fate in zip(*columns, strict=True)
        ]

    def tree(
        self,
        title: str,
        piece: Callable[[int], str],
        decode: Callable[[Sequence[int]], str],
    ) -> BeamTree:
        """What was seen, its tokens as ``piece`` and its hypotheses as ``decode`` write them."""
        if not self.nodes:
            raise ValueError("nothing was searched yet")
        (results,) = self.shelf
        ranked = sorted(results.found[0] + results.spare[0], key=self.sort_key)
        ends = self._ends()
        found = tuple(Found(one, ends[_written(one)], decode(one.tokens)) for one in ranked)
        nodes = [replace(one, piece=one.piece or piece(one.token)) for one in self.nodes]
        for one in found:  # where there is a coverage penalty, only these have their whole score
            nodes[one.node] = replace(nodes[one.node], score=one.hypothesis.score)
        beam = Beam(**{one.name: getattr(self, one.name) for one in fields(Beam)})
        choices = tuple(self._choice(ranked, *rule) for rule in RULES)
        return BeamTree(title, beam, tuple(nodes), found, choices)

    def _ends(self) -> dict[tuple[tuple[int, ...], bool], int]:
        """The node in which each hypothesis set aside ends."""
        tokens: list[tuple[int, ...]] = []
        ends = {}
        for number, node in enumerate(self.nodes):
            finished = node.fate == "finished"
            before = () if node.parent is None else tokens[node.parent]
            tokens.append(before if finished or node.parent is None else (*before, node.token))
            if node.fate in ("finished", "unfinished", "stuck"):
                ends[tokens[number], finished] = number
        return ends

    def _choice(self, ranked: list[Hypothesis], length: Length, alpha: float) -> Choice:
        scored = [rescore([one], length, alpha, self.coverage or 0.0)[0] for one in ranked]
        best = min(range(len(scored)), key=lambda one: self.sort_key(scored[one]))
        return Choice(formula(length, alpha, self.coverage), best, scored[best].score)


def _written(one: Hypothesis) -> tuple[tuple[int, ...], bool]:
    return one.tokens, one.finished
