"""Searches as trees: every candidate of every step, and why it was kept or pruned."""

from abc import abstractmethod
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from regard.generation.beam import Beam
from regard.inside.trees.beam_svg import BeamDrawing, draw_columns
from regard.inside.trees.tree_nodes import FATES, PRUNED, BeamNode, TreeHypothesis
from regard.views.markup import write_rendering
from regard.views.pages import RecordPage
from regard.views.view_record import ViewRecord


@dataclass(frozen=True)
class LengthRuleChoice:
    """Best hypothesis under another length penalty: its index in the tree, and its score."""

    formula: str
    hypothesis: int
    score: float


class SearchTree(RecordPage):
    """Base class of search trees for one sentence; ``hypotheses`` have ended, the best first."""

    kind: ClassVar[str]  # of the record for views
    title: str
    nodes: tuple[BeamNode, ...]
    hypotheses: tuple[TreeHypothesis, ...]

    @property
    @abstractmethod
    def summary(self) -> str:
        """One-line description of the search and the size of the tree."""

    @abstractmethod
    def label(self, number: int) -> str:
        """Figures of a candidate that are shown beside its token, as text."""

    @abstractmethod
    def figures(self, number: int) -> str:
        """All figures of a candidate, with their names."""

    @abstractmethod
    def why(self, number: int) -> str:
        """Reason why a candidate was kept or pruned."""

    def chance(self, number: int) -> float | None:
        """Probability that is drawn as a bar; None: there is no bar."""
        return None

    def __str__(self) -> str:
        return "\n".join((self.title, self.hypotheses[0].text, self.summary))

    def svg(self) -> str:
        """Standalone SVG file: one row per step, with the candidates that were not pruned."""
        return BeamDrawing(self).svg()

    def save(self, path: str | Path) -> None:
        """Write a page (.html) or a drawing (.svg), by the suffix of ``path``.

        Missing folders are created.
        """
        write_rendering(path, {".html": self.html, ".svg": self.svg})

    def view_record(self) -> ViewRecord:
        return ViewRecord.of(
            self.kind,
            title=self.title,
            caption=self.hypotheses[0].text,
            summary=self.summary,
            nodes=[*map(self._node, range(len(self.nodes)))],
            winner=self.winner,
            pruned=PRUNED,
            drawing=draw_columns(self).encode(),
            hypotheses=[
                {"node": each.node, "text": each.text, "score": each.hypothesis.score}
                for each in self.hypotheses
            ],
            **self.fields,
        )

    @property
    def fields(self) -> dict[str, object]:
        """Further fields of the record for views."""
        return {}

    def _node(self, number: int) -> dict[str, object]:
        """Fields of a candidate in the record."""
        node = self.nodes[number]
        place = {"parent": node.parent, "step": node.step, "rank": node.rank, "fate": node.fate}
        texts = {"piece": node.piece, "label": self.label(number), "text": self.prefix_text(number)}
        return {**place, **texts, "figures": self.figures(number), "why": self.why(number)}

    @property
    def steps(self) -> int:
        """Number of decoding steps."""
        return self.nodes[-1].step

    @cached_property
    def winner(self) -> tuple[int, ...]:
        """Nodes of the best hypothesis, from the root to its last token."""
        return self.path(self.hypotheses[0].node)

    def path(self, number: int) -> tuple[int, ...]:
        """Nodes from the root to this one."""
        path = [number]
        while (parent := self.nodes[path[-1]].parent) is not None:
            path.append(parent)
        return tuple(reversed(path))

    def at(self, step: int) -> list[int]:
        """Candidates of a step, the most probable first."""
        return [number for number, node in enumerate(self.nodes) if node.step == step]

    def prefix_text(self, number: int) -> str:
        """All tokens up to this one, as one text."""
        pieces = (self.nodes[each].piece for each in self.path(number)[1:])
        return "".join(pieces).replace("▁", " ").strip()


@dataclass(frozen=True)
class BeamTree(SearchTree):
    """Tree of a beam search, with the best hypothesis under other length penalties."""

    kind: ClassVar[str] = "beam_tree"
    title: str
    beam: Beam
    nodes: tuple[BeamNode, ...]
    hypotheses: tuple[TreeHypothesis, ...]
    choices: tuple[LengthRuleChoice, ...]

    @property
    def summary(self) -> str:
        pruned = sum(node.fate in PRUNED for node in self.nodes)
        counts = f"{len(self.nodes) - 1} candidates, {pruned} of them pruned"
        search = f"beam of {self.beam.size}, score = {self.beam.formula}; {self.steps} steps"
        return f"{search}, {counts}, {len(self.hypotheses)} hypotheses"

    @property
    def fields(self) -> dict[str, object]:
        return {"choices": [asdict(choice) for choice in self.choices]}

    def label(self, number: int) -> str:
        node = self.nodes[number]
        return f"{node.total:.2f}" + ("" if node.fate == "kept" else f" → {node.score:.2f}")

    def figures(self, number: int) -> str:
        node = self.nodes[number]
        return f"token {node.logprob:.3f}, log p {node.total:.3f}, score {node.score:.3f}"

    def why(self, number: int) -> str:
        return FATES[self.nodes[number].fate][1].format(k=self.beam.size)
