"""Beam search that records its decisions as a ``BeamTree``."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor

from regard.core.errors import BadInput
from regard.generation.beam import Beam
from regard.generation.beam_loop import BeamLoop
from regard.generation.beam_rules import Length, formula, normalised, rescore
from regard.generation.hypothesis import Hypothesis
from regard.generation.step import Search, SearchBatch
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


class RecordingBeam(Search):
    """Beam search for one sentence that records every candidate.

    A ``RecordingBeam`` searches once; ``tree`` then returns the record.
    """

    def __init__(self, beam: Beam):
        self.beam = beam
        self.nodes: list[BeamNode] = []
        self.slots: list[int] = []  # live nodes
        self.hypotheses: list[Hypothesis] = []

    @property
    def needs_attention(self) -> bool:
        return self.beam.needs_attention

    def search(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        if len(batch.ids) != 1 or self.nodes:
            raise ValueError("a RecordingBeam records the search for one sentence, once")
        self.nodes.append(BeamNode(None, 0, BEGIN_TOKEN, BEGIN, 0.0, 0.0, 0.0, 1, "kept"))
        self.slots.append(0)
        loop = BeamLoop(self.beam, batch, self._record)
        best = loop.run()
        (self.hypotheses,) = loop.hypotheses(len(self.nodes))
        return best

    def _record(self, loop: BeamLoop, before_BW: Tensor, ranked: Tensor) -> None:
        """Record the candidates of a step, and their fates."""
        token, slot, logprob, _ = ranked[:, 0].cpu().numpy()
        slot = slot.astype(np.int64)
        total = before_BW[0].cpu().numpy()[slot] + logprob
        (known,) = np.nonzero(total > -np.inf)
        token, slot, logprob, total = (x[known] for x in (token, slot, logprob, total))
        for stuck in set(range(len(self.slots))).difference(slot.tolist()):
            node = self.slots[stuck]
            self.nodes[node] = replace(self.nodes[node], fate="stuck")
        size, ends = self.beam.size, loop.constraints.is_end(token)
        going = np.flatnonzero(~ends)[:size]
        fates = np.full(len(token), "outranked", dtype=object)
        fates[:size][ends[:size]] = "finished"
        fates[going] = [self._fate(loop, rank < size) for rank in going.tolist()]
        first = len(self.nodes)
        self.nodes.extend(self._nodes(loop.n, token, slot, logprob, total, fates.tolist()))
        self.slots[:] = (first + going).tolist()

    def _fate(self, loop: BeamLoop, among_first: bool) -> Fate:
        """Fate of a candidate that could continue."""
        if not loop.over_at_B[0]:
            return "kept"
        if loop.longest_B[0] == loop.n:
            stored = among_first or not self.beam.follows_transformers
            return "unfinished" if stored else "outranked"
        return "enough" if loop.count_B[0] >= self.beam.enough else "beaten"

    def _nodes(
        self,
        n: int,
        token: np.ndarray,
        slot: np.ndarray,
        logprob: np.ndarray,
        total: np.ndarray,
        fates: list[Fate],
    ) -> list[BeamNode]:
        columns = (
            [self.slots[parent] for parent in slot.tolist()],
            token.astype(np.int64).tolist(),
            logprob.tolist(),
            total.tolist(),
            normalised(total, n, self.beam.length, self.beam.alpha).tolist(),
            range(1, len(token) + 1),
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
        ranked, ends = sorted(self.hypotheses, key=self.beam.sort_key), self._ends()
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
