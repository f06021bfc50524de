"""Minimum-Bayes-risk decoding (Eikema & Aziz, 2020, arXiv:2005.10283).

The most probable hypothesis may be atypical. Here samples represent the model's distribution, and
the candidate with the highest mean utility is selected: u(h) = 1/n Σ_i utility(h, sample_i).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from regard.core.checks import check_whole
from regard.core.errors import BadInput
from regard.generation.hypothesis import Hypothesis
from regard.generation.sample import Sample
from regard.generation.step import Search, SearchBatch
from regard.metrics.pairwise import UTILITIES, Utility
from regard.text.continuation import Decode

DRAWS = Sample(count=32)


@dataclass(frozen=True)
class MinimumRisk(Search):
    """Minimum-Bayes-risk search: the ``best`` candidates by mean utility over samples, their score.

    The utility ("chrf" or "bleu") compares texts, which ``decode`` makes of tokens: by default with
    the model's tokenizer, truncated at stop strings. Candidates are the draws of ``sample``, or,
    for a sentence whose id is in ``candidates``, the n-best list of another search. Candidates with
    the same text are returned once, as the first of them. The result does not depend on the batch.
    """

    sample: Sample = DRAWS
    utility: Utility = "chrf"
    best: int = 1
    decode: Decode | None = field(default=None, repr=False)
    candidates: Mapping[int, Sequence[Hypothesis]] = field(
        default_factory=dict, repr=False, hash=False
    )

    def __post_init__(self) -> None:
        if self.utility not in UTILITIES:
            raise BadInput(f"utility must be one of {', '.join(UTILITIES)}, not {self.utility!r}")
        check_whole("best", self.best, 1)

    def __str__(self) -> str:
        best = f", {self.best} best" if self.best > 1 else ""
        return f"minimum Bayes risk{best}"

    @property
    def formula(self) -> str:
        """Formula of the score."""
        name = {"chrf": "chrF", "bleu": "BLEU"}[self.utility]
        return f"mean sentence {name} over {self.sample.count} samples"

    def with_decode(self, decode: Decode | None) -> Self:
        return self if self.decode is not None else replace(self, decode=decode)

    def search(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        return [
            self.ranked(self.candidates.get(number, samples), samples)
            for number, samples in zip(batch.ids, self.sample.search(batch), strict=True)
        ]

    def ranked(
        self, candidates: Sequence[Hypothesis], samples: Sequence[Hypothesis]
    ) -> list[Hypothesis]:
        """Best candidates, highest mean utility first; ties keep their order."""
        if (decode := self.decode) is None:
            raise BadInput(
                "minimum Bayes risk compares texts, but there is no tokenizer: pass decode="
            )
        counts = Counter(decode(sample.tokens) for sample in samples)
        distinct: dict[str, Hypothesis] = {}
        for candidate in candidates:
            distinct.setdefault(decode(candidate.tokens), candidate)
        utility = UTILITIES[self.utility](list(distinct), list(counts))
        means = utility @ np.array(list(counts.values())) / len(samples)
        scored = map(
            lambda candidate, mean: replace(candidate, score=mean),
            distinct.values(),
            means.tolist(),
        )
        return sorted(scored, key=lambda candidate: -candidate.score)[: self.best]
