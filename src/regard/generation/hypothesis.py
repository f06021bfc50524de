"""Hypotheses: results of a search, and the table of active hypotheses."""

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Hypothesis:
    """Hypothesis of a search: tokens without BOS and EOS, log-probabilities and score.

    A finished hypothesis has one more entry in ``logprobs``, for EOS. ``coverage`` is
    Σ_i log min(Σ_j a_ij, 1) over the source, if the search computed it.
    """

    tokens: tuple[int, ...]
    logprob: float
    score: float
    logprobs: tuple[float, ...]
    finished: bool
    coverage: float | None = None


@dataclass(frozen=True)
class ActiveHypotheses:
    """Table of active hypotheses, one for each row of the state; rows of a sentence are adjacent.

    The table is on the host: its operations are small, and on a GPU each would cost a launch.
    """

    sentence_R: np.ndarray
    tokens_RL: np.ndarray  # with BOS in front, or padding (-1) and a prompt
    logprobs_RL: np.ndarray
    total_R: np.ndarray
    coverage_RS: np.ndarray | None = None  # attention summed over the steps

    @classmethod
    def initial(cls, tokens_BL: np.ndarray) -> "ActiveHypotheses":
        """One empty hypothesis per sentence, after BOS or a prompt."""
        B = len(tokens_BL)
        return cls(np.arange(B), tokens_BL, np.zeros((B, 0)), np.zeros(B))

    def __len__(self) -> int:
        return len(self.sentence_R)

    @property
    def length(self) -> int:
        """Number of tokens so far, n, without BOS and prompt."""
        return self.logprobs_RL.shape[1]

    @property
    def seen_RL(self) -> np.ndarray:
        """Tokens of prompt and hypothesis, which rules against repetition read; -1: padding."""
        return self.tokens_RL[:, 1:]

    @property
    def written_RL(self) -> np.ndarray:
        """Tokens so far, without BOS and prompt."""
        return self.tokens_RL[:, self.tokens_RL.shape[1] - self.length :]

    @property
    def last_R(self) -> np.ndarray:
        """Last tokens, to be fed next."""
        return np.ascontiguousarray(self.tokens_RL[:, -1])

    def take(self, rows: np.ndarray) -> "ActiveHypotheses":
        """Table of these rows, in that order."""
        columns = self.sentence_R, self.tokens_RL, self.logprobs_RL, self.total_R
        sentence_R, tokens_RL, logprobs_RL, total_R = (column[rows] for column in columns)
        coverage_RS = None if self.coverage_RS is None else self.coverage_RS[rows]
        return ActiveHypotheses(sentence_R, tokens_RL, logprobs_RL, total_R, coverage_RS)

    def grow(
        self, parents: np.ndarray, tokens_R: np.ndarray, logprobs_R: np.ndarray
    ) -> "ActiveHypotheses":
        """Table of the parents, each with one more token."""
        rows = self.take(parents)
        tokens_RL = np.column_stack([rows.tokens_RL, tokens_R])
        logprobs_RL = np.column_stack([rows.logprobs_RL, logprobs_R])
        total_R = rows.total_R + logprobs_R
        return replace(rows, tokens_RL=tokens_RL, logprobs_RL=logprobs_RL, total_R=total_R)

    def hypothesis(
        self, row: int, finished: bool, score: float | None = None, coverage: float | None = None
    ) -> Hypothesis:
        """Row as a result; ``score`` defaults to its log-probability."""
        tokens, logprobs = self.written_RL[row].tolist(), self.logprobs_RL[row].tolist()
        tokens, total = tokens[:-1] if finished else tokens, float(self.total_R[row])
        score = total if score is None else score
        return Hypothesis(tuple(tokens), total, score, tuple(logprobs), finished, coverage)


def by_sentence(hypotheses: list[Hypothesis], copies: int) -> list[list[Hypothesis]]:
    """Hypotheses in groups of ``copies``, one per sentence, the most probable first."""
    groups = (hypotheses[at : at + copies] for at in range(0, len(hypotheses), copies))
    return [sorted(group, key=lambda hypothesis: -hypothesis.score) for group in groups]
