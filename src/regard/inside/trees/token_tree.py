"""Searches without branching as trees: each token, and its alternatives."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from regard.core.checks import check_whole
from regard.core.errors import BadInput
from regard.generation.constraints import Repetition
from regard.generation.step import Search, SearchBatch, TokenSteps
from regard.generation.token_loop import TokenSearch
from regard.inference.generator import Generation, Generator
from regard.inside.trees.beam_tree import SearchTree
from regard.inside.trees.recording_beam import BEGIN, BEGIN_TOKEN
from regard.inside.trees.tree_nodes import BeamNode, Fate, TreeHypothesis

ENDINGS = {
    "eos": "chosen: the end",
    "stop": "chosen: completes a stop string",
    "length": "chosen: the length limit is reached",
    "positions": "chosen: the model has no more positions",
}
MOST = 1_000  # alternatives


@dataclass(frozen=True)
class TokenTree(SearchTree):
    """Continuation of a prompt: at each step the most probable tokens and the chosen one.

    ``sampling`` holds the probability of each node under the search, after temperature, top-k and
    top-p; the probability under the model follows from the node's ``logprob``.
    """

    kind: ClassVar[str] = "token_tree"
    title: str
    search: str
    nodes: tuple[BeamNode, ...]
    sampling: tuple[float, ...]
    hypotheses: tuple[TreeHypothesis, ...]
    ended: str

    @property
    def summary(self) -> str:
        return f"{self.search}; {self.steps} steps, {len(self.nodes) - 1} candidates"

    def probability(self, number: int) -> float:
        """Probability of the token under the model, after the tokens before it."""
        return math.exp(self.nodes[number].logprob)

    def chance(self, number: int) -> float | None:
        return self.probability(number)

    def label(self, number: int) -> str:
        return f"{self.probability(number):.3f}"

    def figures(self, number: int) -> str:
        return f"p {self.probability(number):.4f}, chance {self.sampling[number]:.4f}"

    def why(self, number: int) -> str:
        if number == self.winner[-1]:
            return ENDINGS[self.ended]
        return "chosen" if number in self.winner else "not chosen"

    def _node(self, number: int) -> dict[str, object]:
        chances = {"probability": self.probability(number), "chance": self.sampling[number]}
        return {**super()._node(number), **chances}

    def to_json(self) -> dict[str, object]:
        """Record for JSON: each step with its candidates, the most probable first."""
        steps = [[*map(self._candidate, self.at(step))] for step in range(1, self.steps + 1)]
        best = {"prompt": self.title, "text": self.hypotheses[0].text}
        return {**best, "search": self.search, "ended": self.ended, "steps": steps}

    def _candidate(self, number: int) -> dict[str, object]:
        node = self.nodes[number]
        token = {"id": node.token, "token": node.piece, "rank": node.rank}
        chance = {"probability": self.probability(number), "chance": self.sampling[number]}
        return {**token, **chance, "chosen": number in self.winner}


def record_tokens(
    generator: Generator, prompt: str, search: Search, alternatives: int, number: int = 0
) -> TokenTree:
    """Record the search for the continuation of a prompt; ``number`` is the index of the prompt."""
    token_search = cast(TokenSearch, search)
    if not search.streams or token_search.copies != 1:
        raise BadInput("a tree of tokens needs greedy search, or sampling with one sample")
    recording = RecordingTokens(token_search, check_whole("alternatives", alternatives, 1, MOST))
    ((result,),) = generator.generate([prompt], recording, first=number)
    return recording.tree(prompt, result, generator.vocabulary.pieces)


class Candidate(NamedTuple):
    """Candidate for the next token: its rank, log-probability, and probability of being chosen."""

    rank: int
    token: int
    logprob: float
    sampling: float


class RecordedStep(NamedTuple):
    """Candidates of a step, the most probable first, and the token that was chosen."""

    candidates: list[Candidate]
    chosen: int


class RecordingTokens(TokenSearch):
    """Greedy search or a sample that records the most probable tokens of each step."""

    def __init__(self, search: TokenSearch, alternatives: int):
        self.inner, self.alternatives = search, alternatives
        self.logit_bias = search.logit_bias
        self.recorded: list[RecordedStep] = []

    @property
    def copies(self) -> int:
        return self.inner.copies

    @property
    def repetition(self) -> Repetition:
        return self.inner.repetition

    def draws(self, ids: Sequence[int], steps: int) -> np.ndarray:
        return self.inner.draws(ids, steps)

    def probabilities(self, logprobs_RV: Tensor) -> Tensor:
        return self.inner.probabilities(logprobs_RV)

    def choose(self, logprobs_RV: Tensor, draws_R: Tensor) -> Tensor:
        token_R = self.inner.choose(logprobs_RV, draws_R)
        logprobs_V, chosen = logprobs_RV[0], int(token_R[0])
        sampling_V = self.probabilities(logprobs_RV)[0]
        ranked = torch.sort(logprobs_V, descending=True, stable=True).indices.tolist()
        place = ranked.index(chosen)
        shown = ranked[: self.alternatives] + ([chosen] if place >= self.alternatives else [])
        ranks = {token: rank for rank, token in enumerate(shown, 1)} | {chosen: place + 1}
        candidates = (
            Candidate(rank, token, float(logprobs_V[token]), float(sampling_V[token]))
            for token, rank in ranks.items()
        )
        allowed = [candidate for candidate in candidates if math.isfinite(candidate.logprob)]
        self.recorded.append(RecordedStep(allowed, chosen))
        return token_R

    def steps(self, batch: SearchBatch) -> TokenSteps:
        return self._steps_on_host(batch)

    def tree(
        self, title: str, result: Generation, pieces: Callable[[Sequence[int]], list[str]]
    ) -> TokenTree:
        """Tree of the search; ``pieces`` returns the texts of tokens."""
        hypothesis = result.hypothesis
        recorded = self.recorded[: len(hypothesis.logprobs)]  # a last one may have no token
        if not recorded:
            raise BadInput("no token may follow this prompt")
        nodes = [BeamNode(None, 0, BEGIN_TOKEN, BEGIN, 0.0, 0.0, 0.0, 1, "kept")]
        sampling, parent = [1.0], 0
        last: Fate = "finished" if hypothesis.finished else "unfinished"
        for step, (candidates, chosen) in enumerate(recorded, 1):
            before, next_parent = nodes[parent], parent
            for rank, token, logprob, probability in candidates:
                fate: Fate = "passed"
                if token == chosen:
                    fate, next_parent = "kept" if step < len(recorded) else last, len(nodes)
                total, (piece,) = before.total + logprob, pieces([token])
                scores = logprob, total, total
                nodes.append(BeamNode(parent, step, token, piece, *scores, rank, fate))
                sampling.append(probability)
            parent = next_parent
        best, name = TreeHypothesis(hypothesis, parent, result.text), str(self.inner)
        return TokenTree(title, name, tuple(nodes), tuple(sampling), (best,), result.ended)
