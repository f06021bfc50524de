"""A model small enough to enumerate, and searches too simple to be wrong."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from regard.generation import Beam, Constraints, SearchState

EOS = 0
BOS = 99


def penalty(length: str, n: int, alpha: float) -> float:
    return {"none": 1.0, "mean": n, "gnmt": (5 + n) ** alpha / 6**alpha, "power": n**alpha}[length]


@dataclass
class Toy:
    """The next distribution is drawn from the sentence and the whole prefix: wrong rows show."""

    seed: int
    vocabulary: int = 4
    known: dict[tuple[int, ...], np.ndarray] = field(default_factory=dict)

    def logprobs(self, sentence: int, prefix: tuple[int, ...]) -> np.ndarray:
        key = (sentence, *prefix)
        if key not in self.known:
            logits = 2 * self._random(1, *key).normal(size=self.vocabulary)
            self.known[key] = torch.tensor(logits).float().log_softmax(0).numpy()
        return self.known[key]

    def attention(self, sentence: int, prefix: tuple[int, ...]) -> np.ndarray:
        source = 1 + sentence % 3
        return self._random(2, sentence, *prefix).dirichlet(np.full(source, 0.3)).astype(np.float32)

    def _random(self, *key: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, len(key), *key])

    def open(self, sentences: Sequence[int], device: str = "cpu") -> "ToyState":
        return ToyState(self, [(sentence, ()) for sentence in sentences], device)

    def logprob(self, sentence: int, written: tuple[int, ...]) -> float:
        """Of exactly these tokens, EOS among them or not."""
        steps = (self.logprobs(sentence, written[:at])[token] for at, token in enumerate(written))
        return math.fsum(float(step) for step in steps)


@dataclass
class Tree(Toy):
    """A toy whose distributions are given; after other prefixes it ends."""

    probabilities: Mapping[tuple[int, ...], Sequence[float]] = field(default_factory=dict)

    def logprobs(self, sentence: int, prefix: tuple[int, ...]) -> np.ndarray:
        ends = (1.0, *[1e-9] * (self.vocabulary - 1))
        return np.log(self.probabilities.get(prefix, ends)).astype(np.float32)


def small_tree() -> Toy:
    """Begins with 1 (0.5) or 2 (0.4); but after 1 it ends with 0.4 only, after 2 with 0.9."""
    return Tree(0, 3, {}, {(): (0.1, 0.5, 0.4), (1,): (0.4, 0.3, 0.3), (2,): (0.9, 0.05, 0.05)})


class ToyState(SearchState):
    """Rows are (sentence, prefix); ``entered`` counts the rows of each step."""

    def __init__(self, toy: Toy, pairs: list[tuple[int, tuple[int, ...]]], device: str):
        self.toy, self.pairs, self.place = toy, pairs, torch.device(device)
        self.fed = False
        self.entered: list[int] = []

    @property
    def rows(self) -> int:
        return len(self.pairs)

    @property
    def device(self) -> torch.device:
        return self.place

    @torch.inference_mode()
    def step(self, tokens_R: Tensor) -> Tensor:
        tokens = tokens_R.tolist()
        assert tokens_R.device.type == self.device.type and len(tokens) == self.rows > 0
        if self.fed:
            self.pairs = [(s, (*p, t)) for (s, p), t in zip(self.pairs, tokens, strict=True)]
        else:
            assert set(tokens) == {BOS}
        self.fed = True
        self.entered.append(self.rows)
        rows = [self.toy.logprobs(sentence, prefix) for sentence, prefix in self.pairs]
        return torch.tensor(np.stack(rows), device=self.device)

    def select_rows(self, index_R: Tensor) -> None:
        assert index_R.device.type == self.device.type
        self.pairs = [self.pairs[i] for i in index_R.tolist()]


class AttentionState(ToyState):
    """A state that also gives attention weights."""

    def attention(self) -> Tensor:
        rows = [self.toy.attention(sentence, prefix) for sentence, prefix in self.pairs]
        weights_RS = torch.full((len(rows), max(map(len, rows))), torch.nan)
        for weights_S, row in zip(weights_RS, rows, strict=True):
            weights_S[: len(row)] = torch.tensor(row)
        return weights_RS.to(self.device)


def in_batches(
    search: Callable, toy: Toy, count: int, constraints: Constraints, size: int, **each: Sequence
) -> list:
    """All sentences, ``size`` at a time; ``each`` holds one value per sentence."""
    found = []
    for start in range(0, count, size):
        part = slice(start, min(start + size, count))
        state = AttentionState(toy, [(s, ()) for s in range(count)[part]], "cpu")
        cut = {name: values[part] for name, values in each.items()}
        found += search(state, constraints, **cut)
    return found


def every(vocabulary: int, longest: int) -> Iterator[tuple[int, ...]]:
    """Every sequence that ends with its only EOS, of at most ``longest`` tokens."""
    for n in range(longest):
        for words in itertools.product(range(1, vocabulary), repeat=n):
            yield (*words, EOS)


def exhaustive(
    toy: Toy, sentence: int, longest: int, length: str, alpha: float
) -> list[tuple[float, tuple[int, ...]]]:
    """(score, tokens) of everything that finishes, best first."""
    scored = [
        (toy.logprob(sentence, all_) / penalty(length, len(all_), alpha), all_[:-1])
        for all_ in every(toy.vocabulary, longest)
    ]
    return sorted(scored, key=lambda pair: -pair[0])


def allowed(
    written: tuple[int, ...],
    token: int,
    constraints: Constraints,
    prefix: Sequence[int],
    no_repeat: int,
) -> bool:
    """May this token come next? One token at a time, straight from the words of the rules."""
    n = len(written) + 1
    if n <= len(prefix):
        return token == prefix[n - 1]
    runs = [written[i : i + no_repeat] for i in range(len(written) - no_repeat + 1)]
    repeated = bool(no_repeat) and (*written, token)[-no_repeat:] in runs
    return not (
        token in constraints.forbidden
        or (token == constraints.eos and n < constraints.shortest)
        or repeated
    )


def plain_beam(
    toy: Toy,
    sentence: int,
    beam: Beam,
    constraints: Constraints,
    longest: int,
    prefix: Sequence[int] = (),
) -> list[tuple[float, tuple[int, ...], bool]]:
    """Beam search for one sentence with lists and loops: (score, tokens, finished), best first."""

    def score(total: float, written: tuple[int, ...]) -> float:
        value = total / penalty(beam.length, max(len(written), 1), beam.alpha)
        if beam.coverage and written:
            looks = [toy.attention(sentence, written[:at]) for at in range(len(written))]
            covered = np.sum(looks, axis=0)
            value += beam.coverage * float(np.log(np.minimum(covered, 1)).sum())
        return value

    alive: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished: list[tuple[float, tuple[int, ...], bool]] = []
    unfinished: list[tuple[float, tuple[int, ...], bool]] = []
    for _ in range(longest):
        candidates = []
        for total, written in alive:
            logprobs = toy.logprobs(sentence, written)
            tokens = [
                token
                for token in range(toy.vocabulary)
                if allowed(written, token, constraints, prefix, beam.no_repeat)
            ]
            candidates += [(total + float(logprobs[t]), (*written, t)) for t in tokens]
            if not tokens:
                unfinished.append((score(total, written), written, False))
        candidates.sort(key=lambda pair: -pair[0])
        for total, written in candidates[: beam.size]:
            if written[-1] == EOS:
                finished.append((score(total, written), written[:-1], True))
        alive = [pair for pair in candidates if pair[1][-1] != EOS][: beam.size]
        if len(finished) >= beam.enough:
            alive = []
    unfinished += [(score(total, written), written, False) for total, written in alive]
    finished.sort(key=lambda found: -found[0])
    unfinished.sort(key=lambda found: -found[0])
    return (finished + unfinished)[: beam.best]
