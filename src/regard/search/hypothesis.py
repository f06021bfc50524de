"""Hypotheses: results of a search, and the table of active ones."""

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Hypothesis:
    """Tokens without BOS and EOS; ``logprobs`` has one entry more, for EOS, when finished.

    ``coverage`` is Σ_i log min(Σ_j a_ij, 1) over the source, if the search computed it.
    """

    tokens: tuple[int, ...]
    logprob: float
    score: float
    logprobs: tuple[float, ...]
    finished: bool
    coverage: float | None = None


@dataclass(frozen=True)
class ActiveHypotheses:
    """The active hypotheses, one for each row of the state; rows of a sentence are adjacent.

    They are on the host: the operations are many and small, and on a GPU each would cost a launch.
    """

    sentence_R: np.ndarray
    tokens_RL: np.ndarray  # after BOS, or after nothing (-1) and a prompt
    logprobs_RL: np.ndarray
    total_R: np.ndarray
    coverage_RS: np.ndarray | None = None  # attention summed over the steps

    @classmethod
    def begin(cls, before_BL: np.ndarray) -> "ActiveHypotheses":
        """One empty hypothesis per sentence, after BOS or a prompt."""
        sentences = len(before_BL)
        return cls(
            sentence_R=np.arange(sentences),
            tokens_RL=before_BL,
            logprobs_RL=np.zeros((sentences, 0)),
            total_R=np.zeros(sentences),
        )

    def __len__(self) -> int:
        return len(self.sentence_R)

    @property
    def length(self) -> int:
        """n, the tokens so far, without BOS."""
        return self.logprobs_RL.shape[1]

    @property
    def seen_RL(self) -> np.ndarray:
        """The tokens that count as repeated: of the prompt and so far; -1 is none."""
        return self.tokens_RL[:, 1:]

    @property
    def written_RL(self) -> np.ndarray:
        """The tokens so far, without BOS and prompt."""
        return self.tokens_RL[:, self.tokens_RL.shape[1] - self.length :]

    @property
    def last_R(self) -> np.ndarray:
        """The tokens to feed next."""
        return np.ascontiguousarray(self.tokens_RL[:, -1])

    def take(self, rows: np.ndarray) -> "ActiveHypotheses":
        """Those rows, in that order."""
        covered = self.coverage_RS
        return ActiveHypotheses(
            sentence_R=self.sentence_R[rows],
            tokens_RL=self.tokens_RL[rows],
            logprobs_RL=self.logprobs_RL[rows],
            total_R=self.total_R[rows],
            coverage_RS=None if covered is None else covered[rows],
        )

    def grow(
        self, parents: np.ndarray, tokens_R: np.ndarray, logprobs_R: np.ndarray
    ) -> "ActiveHypotheses":
        """Each parent with one more token."""
        rows = self.take(parents)
        return replace(
            rows,
            tokens_RL=np.column_stack([rows.tokens_RL, tokens_R]),
            logprobs_RL=np.column_stack([rows.logprobs_RL, logprobs_R]),
            total_R=rows.total_R + logprobs_R,
        )

    def hypothesis(
        self, row: int, finished: bool, score: float | None = None, coverage: float | None = None
    ) -> Hypothesis:
        """One row as a result; its score is its log-probability unless another is given."""
        tokens = self.written_RL[row].tolist()
        logprob = float(self.total_R[row])
        return Hypothesis(
            tokens=tuple(tokens[:-1] if finished else tokens),
            logprob=logprob,
            score=logprob if score is None else score,
            logprobs=tuple(self.logprobs_RL[row].tolist()),
            finished=finished,
            coverage=coverage,
        )


def by_sentence(hypotheses: list[Hypothesis], copies: int) -> list[list[Hypothesis]]:
    """``copies`` hypotheses for each sentence, the most probable first."""
    groups = (hypotheses[at : at + copies] for at in range(0, len(hypotheses), copies))
    return [sorted(group, key=lambda one: -one.score) for group in groups]
