"""Minimum-Bayes-risk decoding (Eikema & Aziz, 2020, arXiv:2005.10283).

The most probable hypothesis may be atypical. Here samples represent the model's distribution, and
the candidate with the highest mean utility is selected: u(h) = 1/n Σ_i utility(h, sample_i).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from regard.ground.checks import check_whole
from regard.ground.errors import BadInput
from regard.metrics.pairwise import UTILITIES, Utility
from regard.search.hypothesis import Hypothesis
from regard.search.sample import Sample
from regard.search.step import Search, SearchBatch
from regard.text.continuation import Decode

DRAWS = Sample(count=32)


@dataclass(frozen=True)
class MinimumRisk(Search):
    """The ``best`` candidates by their mean utility over the draws of ``sample``: their score.

    Utilities ("chrf" or "bleu") compare texts, which ``decode`` makes of tokens: by default the
    model that searches, cut at stop strings. Candidates are the samples, or, for a sentence whose
    id is in ``candidates``, the n-best list of another search. A text that several candidates share
    is returned once, as the first of them. Samples, and so the result, do not depend on the batch.
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
        """The score in use."""
        name = {"chrf": "chrF", "bleu": "BLEU"}[self.utility]
        return f"mean sentence {name} over {self.sample.count} samples"

    def with_decode(self, decode: Decode | None) -> Self:
        return self if self.decode is not None else replace(self, decode=decode)

    def search(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        drawn = self.sample.search(batch)
        return [
            self.ranked(self.candidates.get(one, samples), samples)
            for one, samples in zip(batch.ids, drawn, strict=True)
        ]

    def ranked(
        self, candidates: Sequence[Hypothesis], samples: Sequence[Hypothesis]
    ) -> list[Hypothesis]:
        """The ``best`` candidates, highest mean utility first; ties in the order given."""
        if (decode := self.decode) is None:
            raise BadInput("minimum Bayes risk compares texts, and there is no tokenizer: decode=")
        drawn = Counter(decode(one.tokens) for one in samples)
        distinct: dict[str, Hypothesis] = {}
        for one in candidates:
            distinct.setdefault(decode(one.tokens), one)
        utility = UTILITIES[self.utility](list(distinct), list(drawn))
        mean = utility @ np.array(list(drawn.values())) / len(samples)
        pairs = zip(distinct.values(), mean.tolist(), strict=True)
        scored = [replace(one, score=value) for one, value in pairs]
        return sorted(scored, key=lambda one: -one.score)[: self.best]
