"""Translation: text in, text out, by any model that can be stepped."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.data.packing import in_order
from regard.ground.batch import Budget
from regard.ground.errors import BadInput
from regard.objectives.translated import Translated
from regard.search.beam import Beam
from regard.search.hypothesis import Hypothesis
from regard.search.limits import Limits
from regard.search.step import Search
from regard.text.bilingual import Bilingual

TOKENS = 4_096  # source tokens translated at once
WINDOW = 4_096  # lines read ahead, so that like lengths can be put together
GROWTH, MARGIN = 2, 10  # a translation has at most 2n + 10 tokens


@dataclass(frozen=True)
class Translation:
    """One hypothesis as text."""

    text: str
    score: float
    hypothesis: Hypothesis


@dataclass(frozen=True, eq=False)
class Translator:
    """A model with its vocabularies, and how many sentences it takes at once."""

    model: nn.Module
    text: Bilingual
    rows: int = 64

    @property
    def objective(self) -> Translated:
        """How sentences are marked: the same at training and here."""
        return Translated(self.text.target.bos, self.text.target.eos)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def with_rows(self, rows: int) -> "Translator":
        """The same, taking ``rows`` sentences at once."""
        if rows < 1:
            raise BadInput(f"sentences at once must be at least 1, not {rows}")
        return replace(self, rows=rows)

    def stream(
        self,
        texts: Iterable[str],
        search: Search | None = None,
        prefixes: Iterable[str] | None = None,
    ) -> Iterator[list[Translation]]:
        """Translations as they come, window by window; an empty line stays an empty line."""
        lines = iter(texts)
        starts = None if prefixes is None else iter(prefixes)
        first = 0
        while window := list(islice(lines, WINDOW)):
            begun = None if starts is None else list(islice(starts, len(window)))
            yield from self.translate(window, search, begun, first=first)
            first += len(window)

    def translate(
        self,
        texts: Sequence[str],
        search: Search | None = None,
        prefixes: Sequence[str] | None = None,
        *,
        first: int = 0,
    ) -> list[list[Translation]]:
        """The best translations of each text, best first; ``prefixes`` are how they must begin.

        Sentences are put together by length; the result does not depend on how. Sampling draws by
        a sentence's number, counted from ``first``.
        """
        search = Beam() if search is None else search
        ids = self.text.source.encode_all(texts)
        begun = None if prefixes is None else self.text.target.encode_all(prefixes)
        results: list[list[Translation]] = [[Translation("", 0.0, EMPTY)] for _ in texts]
        lengths = np.array([len(one) + 1 for one in ids], dtype=np.int64)
        there = [i for i, one in enumerate(ids) if one]
        for batch in in_order(lengths[there], Budget(TOKENS, self.rows, TOKENS)):
            chosen = [there[i] for i in batch]
            found = self._search(
                [ids[i] for i in chosen],
                search,
                None if begun is None else [begun[i] for i in chosen],
                [first + i for i in chosen],
            )
            for i, hypotheses in zip(chosen, found, strict=True):
                results[i] = [self._as_text(hypothesis) for hypothesis in hypotheses]
        return results

    @torch.inference_mode()
    def _search(
        self,
        ids: list[list[int]],
        search: Search,
        prefixes: list[list[int]] | None,
        numbers: list[int],
    ) -> list[list[Hypothesis]]:
        source = self.objective.read(ids).to(self.device)
        begun = [0] * len(ids) if prefixes is None else [len(prefix) for prefix in prefixes]
        longest = [
            GROWTH * len(one) + MARGIN + start for one, start in zip(ids, begun, strict=True)
        ]
        target = self.text.target
        limits = Limits(target.bos, target.eos, longest, forbidden=(target.pad, target.bos))
        model: Any = self.model
        watch = isinstance(search, Beam) and search.coverage > 0
        state = model.open(source.tokens_T, source.layout, max(longest) + 1, watch=watch)
        return search(state, limits, prefixes, numbers)

    def _as_text(self, hypothesis: Hypothesis) -> Translation:
        return Translation(self.text.target.decode(hypothesis.tokens), hypothesis.score, hypothesis)

    @torch.inference_mode()
    def score(self, pairs: Sequence[tuple[str, str]]) -> list[list[float]]:
        """Log-probabilities of given translations, one for each target token and the end."""
        sources = self.text.source.encode_all([source for source, _ in pairs])
        targets = self.text.target.encode_all([target for _, target in pairs])
        examples = list(zip(sources, targets, strict=True))
        lengths = np.array([self.objective.length(one) for one in examples]).reshape(-1, 2)
        results: list[list[float]] = [[] for _ in pairs]
        for chosen in in_order(lengths, Budget(TOKENS, self.rows, TOKENS)):
            batch = self.objective.collate([examples[i] for i in chosen]).to(self.device)
            found = self.objective.score(self.model, batch)
            for i, row in zip(chosen, found, strict=True):
                results[i] = row.tolist()
        return results


EMPTY = Hypothesis(tokens=(), logprob=0.0, score=0.0, logprobs=(), finished=True)
