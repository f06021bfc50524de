"""Two searches of one model that give different tokens: a near tie, or an error?

Captured steps pad rows and sources, so that libraries choose other kernels and sums are rounded
otherwise. Where two hypotheses are as good as equal, that decides between them. A difference counts
as a near tie if an eager search gives the same hypotheses once its log-probabilities are moved by
at most ``NEAR``; everything else is an error.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy

import pytest
import torch

from regard import generation
from regard.core.batch import pack
from regard.generation import EAGER, Prompts
from regard.generation.hypothesis import Hypothesis
from regard.generation.state import DecodingState, Engine

NEAR = 1e-5  # of a log-probability
ROUNDING = 1e-4  # of sums of them
TRIES = 32
NBest = list[Hypothesis]


class NudgedEngine(Engine):
    """Eager steps whose log-probabilities are moved at random."""

    def __init__(self, seed: int):
        self.seed = seed

    def open(self, model, source, prompts, capacity):
        state = NudgedState(model, source, prompts, capacity)
        state.draws = torch.Generator(state.device).manual_seed(self.seed)
        return state


class NudgedState(DecodingState):
    draws: torch.Generator

    def step(self, tokens_R):
        logprobs_RV = super().step(tokens_R)
        noise_RV = torch.rand(logprobs_RV.shape, generator=self.draws, device=self.device)
        return logprobs_RV + NEAR * (2 * noise_RV - 1)


def assert_same_search(
    run: Callable[[Engine], list[NBest]],
    engine: Engine,
    model,
    *,
    sources: Sequence[Sequence[int]] | None = None,
    prompts: Sequence[Sequence[int]] | None = None,
    bos: int = 1,
    eos: int = 2,
) -> None:
    """``run`` finds with ``engine`` what it finds by eager steps, but for near ties."""
    actual, expected = run(engine), run(EAGER)
    pairs = zip(actual, expected, strict=True)
    differing = {number for number, pair in enumerate(pairs) if not agree(*pair)}
    for seed in range(TRIES):
        if not differing:
            return
        nudged = run(NudgedEngine(seed))
        differing = {number for number in differing if not agree(actual[number], nudged[number])}
    for number in sorted(differing):
        source = None if sources is None else sources[number]
        prompt = [bos] if prompts is None else prompts[number]
        pytest.fail(
            f"sentence {number}: no near tie, as no change of log-probabilities by {NEAR} "
            f"explains it\n{report(actual[number], expected[number], model, source, prompt, eos)}"
        )


def agree(ours: NBest, theirs: NBest) -> bool:
    """The same tokens, with log-probabilities that differ by rounding."""
    return [(one.tokens, one.finished) for one in ours] == [
        (one.tokens, one.finished) for one in theirs
    ] and all(
        (one.logprob, one.score, *one.logprobs)
        == pytest.approx((other.logprob, other.score, *other.logprobs), abs=ROUNDING)
        for one, other in zip(ours, theirs, strict=True)
    )


def report(ours: NBest, theirs: NBest, model, source, prompt, eos: int) -> str:
    """All hypotheses, where they part, and their log-probabilities in float64."""
    exact, lines = deepcopy(model).double(), []
    for rank, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        pair = [(*h.tokens, *([eos] if h.finished else [])) for h in (one, other)]
        steps = zip(*pair, strict=False)
        parting = next((n for n, (a, b) in enumerate(steps) if a != b), min(map(len, pair)))
        lines.append(f"rank {rank}: they part at step {parting}")
        for name, hypothesis, tokens in zip(("engine", "eager"), (one, other), pair, strict=True):
            logprob = sum(forced_logprobs(exact, source, prompt, tokens))
            lines.append(
                f"  {name}: {list(tokens)} score {hypothesis.score:.7f}, "
                f"log p {hypothesis.logprob:.7f}, in float64 {logprob:.7f}"
            )
    return "\n".join(lines)


@torch.inference_mode()
def forced_logprobs(model, source, prompt: Sequence[int], tokens: Sequence[int]) -> list[float]:
    """The log-probability of each token after those before it, by eager steps."""
    device = next(model.parameters()).device
    packed = None if source is None else pack([source]).to(device)
    prompts = Prompts.of([prompt], device)
    state = generation.open_state(model, packed, prompts=prompts, capacity=64, engine=EAGER)
    logprobs = []
    for last, token in zip((prompt[-1], *tokens), tokens, strict=False):
        logprobs.append(state.step(torch.tensor([last], device=device))[0, token].item())
    return logprobs
