"""Beam search that records its decisions as a ``BeamTree``."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from regard.core.errors import BadInput
from regard.generation.beam import Beam, HostBeam
from regard.generation.beam_rules import Length, formula, normalised, rescore
from regard.generation.candidates import Candidates
from regard.generation.hypothesis import ActiveHypotheses, Hypothesis
from regard.generation.step import SearchBatch
from regard.inference.translator import Translator
from regard.inside.trees.beam_tree import BeamTree, LengthRuleChoice
from regard.inside.trees.tree_nodes import ENDED, BeamNode, Fate, TreeHypothesis

BEGIN, BEGIN_TOKEN = "⟨begin⟩", -1
# The length penalties under which the hypotheses are ranked again.
RULES: tuple[tuple[Length, float], ...] = (
    ("none", 0.0),
    ("mean", 1.0),
    *(("gnmt", alpha) for alpha in (0.2, 0.6, 1.0)),
    *(("power", alpha) for alpha in (0.2, 0.6, 1.4)),
)


def record_tree(
    translator: Translator, text: str, beam: Beam | None = None, prefix: str | None = None
) -> BeamTree:
    """Record the beam search for the translation of ``text``, which begins with the ``prefix``."""
    if not text.strip():
        raise BadInput("the text is empty: there is no search to show")
    target = translator.vocabularies.target
    recording = RecordingBeam(Beam() if beam is None else beam)
    translator.translate([text], recording, prefixes=None if prefix is None else [prefix])
    return recording.tree(text, lambda token: target.pieces([token])[0], target.decode)


class RecordingBeam(HostBeam):
    """Beam search for one sentence that records every candidate.

    A ``RecordingBeam`` searches once; ``tree`` then returns the record.
    """

    def __init__(self, beam: Beam):
        super().__init__(beam)
        self.beam = beam
        self.nodes: list[BeamNode] = []
        self.rows: list[int] = []  # live nodes

    def search(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        if len(batch.ids) != 1 or self.nodes:
            raise ValueError("a RecordingBeam records the search for one sentence, once")
        self.nodes.append(BeamNode(None, 0, BEGIN_TOKEN, BEGIN, 0.0, 0.0, 0.0, 1, "kept"))
        self.rows.append(0)
        return super().search(batch)

    def store_stuck(self, alive: ActiveHypotheses, candidates: Candidates) -> None:
        for row in candidates.stuck(len(alive)).tolist():
            self.nodes[self.rows[row]] = replace(self.nodes[self.rows[row]], fate="stuck")
        super().store_stuck(alive, candidates)

    def advance(
        self, alive: ActiveHypotheses, candidates: Candidates
    ) -> tuple[ActiveHypotheses, np.ndarray]:
        grown, going = super().advance(alive, candidates)
        ended, able = candidates.select(self.beam.size, self.batch.constraints)
        at_limit = bool(self.batch.longest_B[0] == alive.length + 1)
        fates = np.full(len(candidates.token), "outranked", dtype=object)
        for index in able.tolist():
            fates[index] = self._end(at_limit, bool(candidates.place[index] < self.beam.size))
        fates[going], fates[ended] = "kept", "finished"
        first = len(self.nodes)
        self.nodes.extend(self._nodes(alive, candidates, fates.tolist()))
        self.rows[:] = (first + going).tolist()
        return grown, going

    def _end(self, at_limit: bool, among_first: bool) -> Fate:
        """Fate of a candidate that could continue when the search ends."""
        if at_limit:
            stored = among_first or not self.beam.follows_transformers
            return "unfinished" if stored else "outranked"
        return "enough" if self.results.count_B[0] >= self.beam.enough else "beaten"

    def _nodes(
        self, alive: ActiveHypotheses, candidates: Candidates, fates: list[Fate]
    ) -> list[BeamNode]:
        n = alive.length + 1
        total = alive.total_R[candidates.parent] + candidates.logprob
        columns = (
            [self.rows[row] for row in candidates.parent.tolist()],
            candidates.token.tolist(),
            candidates.logprob.tolist(),
            total.tolist(),
            normalised(total, n, self.beam.length, self.beam.alpha).tolist(),
            (candidates.place + 1).tolist(),
            fates,
        )
        return [
            BeamNode(parent, n, token, "", logprob, total, score, rank, fate)
            for parent, token, logprob, total, score, rank, fate in zip(*columns, strict=True)
        ]

    def tree(
        self, title: str, piece: Callable[[int], str], decode: Callable[[Sequence[int]], str]
    ) -> BeamTree:
        """Tree of the search; ``piece`` returns the text of a token, ``decode`` of a hypothesis."""
        if not self.nodes:
            raise ValueError("this beam has not searched yet")
        candidates = self.results.finished[0] + self.results.spare[0]
        ranked, ends = sorted(candidates, key=self.beam.sort_key), self._ends()
        hypotheses = tuple(
            TreeHypothesis(hyp, ends[hyp.tokens, hyp.finished], decode(hyp.tokens))
            for hyp in ranked
        )
        nodes = [replace(node, piece=node.piece or piece(node.token)) for node in self.nodes]
        for each in hypotheses:  # the coverage penalty is part of the score of these nodes only
            nodes[each.node] = replace(nodes[each.node], score=each.hypothesis.score)
        choices = tuple(self._choice(ranked, *rule) for rule in RULES)
        return BeamTree(title, self.beam, tuple(nodes), hypotheses, choices)

    def _ends(self) -> dict[tuple[tuple[int, ...], bool], int]:
        """Last node of each hypothesis, by its tokens and whether it is finished."""
        tokens: list[tuple[int, ...]] = []
        ends = {}
        for number, node in enumerate(self.nodes):
            finished = node.fate == "finished"
            before = () if node.parent is None else tokens[node.parent]
            tokens.append(before if finished or node.parent is None else (*before, node.token))
            if node.fate in ENDED:
                ends[tokens[number], finished] = number
        return ends

    def _choice(self, ranked: list[Hypothesis], length: Length, alpha: float) -> LengthRuleChoice:
        coverage, key = self.beam.coverage, self.beam.sort_key
        scored = [rescore([hyp], length, alpha, coverage or 0.0)[0] for hyp in ranked]
        best = min(range(len(scored)), key=lambda index: key(scored[index]))
        return LengthRuleChoice(formula(length, alpha, coverage), best, scored[best].score)
