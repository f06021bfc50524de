"""Training AWD-LSTM: tokens a second of regard, beside a plain loop over cuDNN's LSTM.

    python bench/lstm_lm.py [--rows 80] [--length 70] [--steps 40]
    python bench/lstm_lm.py --tiny      (does it run?)

Random words, state carried from step to step, cross-entropy over all words with a tied output in
bf16 autocast, fused AdamW; systems take turns, the median of the rounds counts. regard's step is
captured on CUDA, as regard train has it, with all regularisation of the paper (weight drop, locked
and word dropout, penalties). The plain loops have none: torch's embedding, three nn.LSTM of the
same sizes, a linear layer. Their speed is the limit that cuDNN sets, also for states of 1,152
numbers, to which regard pads the 1,150 of the paper. "bf16" runs the LSTM itself in half precision,
which regard does not, because errors of a state accumulate over time.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from measure import half, print_speeds, round_of, setting, warm_up
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from regard.ground.batch import TokenRow
from regard.ground.pytree import map_tensors, move_tensor
from regard.models.facts import NextTokenHead, TrunkWithHeads, change
from regard.models.papers import awd_lstm
from regard.objectives.causal_lm import CausalLM
from regard.objectives.rows import AnnotatedRow
from regard.objectives.sum import Sum
from regard.training.loop.microbatch import EagerStep, GraphedStep
from regard.training.optim.optimiser import GraphedOptimiser, ModelOptimiser
from regard.training.recipe.tables import OptimiserConfig

Step = Callable[[np.ndarray], Tensor]
OPTIMISER = OptimiserConfig(kind="adamw", rate=1e-3)
TINY = {"vocab": 200, "width": 24, "embedding": 16, "last_width": 16}


def ours(facts: TrunkWithHeads, rows: int, device: torch.device) -> Step:
    """regard: the objective of the paper on its model."""
    model, objective = facts.build().to(device).train(), Sum(CausalLM("streams", ar=2.0, tar=1.0))
    run: EagerStep | GraphedStep = EagerStep(
        lambda batch: objective(model, batch), lambda: half(device)
    )
    captured = device.type == "cuda"
    optimiser = (GraphedOptimiser if captured else ModelOptimiser)(model, OPTIMISER)
    if captured:
        run = GraphedStep(run, model)
    annotate = objective.members[0].annotator(None)
    state = objective.initial_state(model, rows)

    def step(words_BL: np.ndarray) -> Tensor:
        nonlocal state
        examples = [
            AnnotatedRow(
                TokenRow(row[:-1], np.zeros(len(row) - 1, np.int32)), {}, {"next_token": row[-1]}
            )
            for row in words_BL
        ]
        batch = objective.collate(annotate(examples, np.arange(rows), (0,)))
        batch = replace(batch.to(device), state=state)
        result = run(batch, 1 / batch.weight)
        state = map_tensors(Tensor.detach, result.state)
        optimiser.step(1.0)
        optimiser.zero_grad()
        return result.nll / batch.weight

    return step


class PlainLM(nn.Module):
    """Three LSTMs between a tied embedding and output; ``dtype`` is that of the LSTMs."""

    def __init__(self, facts: TrunkWithHeads, dtype: torch.dtype):
        super().__init__()
        stack: Any = facts.trunk.stack
        widths = [stack.embedding, *[stack.width] * (stack.depth - 1), stack.output_width]
        self.embed = nn.Embedding(facts.trunk.embed.vocab, stack.embedding)
        nn.init.normal_(self.embed.weight, std=0.05)
        self.lstms = nn.ModuleList(nn.LSTM(*pair) for pair in pairwise(widths)).to(dtype)
        self.dtype, self.bias = dtype, nn.Parameter(torch.zeros(facts.trunk.embed.vocab))

    def forward(self, words_LB: Tensor, states: list[Any]) -> tuple[Tensor, list[Any]]:
        """Logits, and the states after the last word."""
        x_LBD, after = self.embed(words_LB), []
        with torch.autocast(x_LBD.device.type, enabled=False):
            x_LBD = x_LBD.to(self.dtype)
            for lstm, state in zip(self.lstms, states, strict=True):
                x_LBD, state = lstm(x_LBD, state)
                after.append(tuple(part.detach() for part in state))
        return linear(x_LBD.float(), self.embed.weight, self.bias), after


def plain(facts: TrunkWithHeads, dtype: torch.dtype, device: torch.device) -> Step:
    """A loop as in a tutorial."""
    model = PlainLM(facts, dtype).to(device).train()
    adam = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    states: list[Any] = [None] * len(model.lstms)

    def step(words_BL: np.ndarray) -> Tensor:
        nonlocal states
        words_LB = move_tensor(torch.from_numpy(words_BL.T.copy()), device)
        with half(device):
            logits_LBV, states = model(words_LB[:-1], states)
        loss = cross_entropy(logits_LBV.flatten(0, 1).float(), words_LB[1:].flatten())
        loss.backward()
        adam.step()
        adam.zero_grad()
        return loss.detach()

    return step


def main() -> None:
    """Print one JSON line for each system, with regard's ratio to it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=80)
    parser.add_argument("--length", type=int, default=70)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=100, help="begin no round after these")
    parser.add_argument("--steps", type=int, default=40, help="steps of a round")
    parser.add_argument("--tiny", action="store_true", help="a few steps of a very small model")
    asked = parser.parse_args()
    torch.manual_seed(1)
    facts = awd_lstm.WIKITEXT_2
    if asked.tiny:
        facts = change(facts, **TINY)
        asked.rows, asked.length, asked.rounds, asked.steps = 4, 12, 2, 2
    compare(awd_lstm.PAPER.fit_heads(facts.with_heads(NextTokenHead())), asked)


def compare(facts: TrunkWithHeads, asked: argparse.Namespace) -> None:
    """Let the systems take turns over the same words."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shape = asked.steps, asked.rows, asked.length + 1
    batches = list(np.random.default_rng(1).integers(0, facts.trunk.embed.vocab, shape))
    built: dict[str, Callable[[], Step]] = {
        "regard": lambda: ours(facts, asked.rows, device),
        "plain loop, LSTM in fp32": lambda: plain(facts, torch.float32, device),
    }
    if device.type == "cuda":
        wide = change(facts, width=-(-facts.trunk.stack.width // 8) * 8)
        built |= {
            "plain loop, LSTM in fp32, 1,152 wide": lambda: plain(wide, torch.float32, device),
            "plain loop, LSTM in bf16": lambda: plain(facts, torch.bfloat16, device),
        }
    systems = {
        name: warm_up(name, lambda build=build: round_of(build(), batches))
        for name, build in built.items()
    }
    lengths = [(asked.length,)] * asked.rows * asked.steps
    tokens = sum(length for (length,) in lengths)
    print_speeds(systems, tokens, facts.training_flops(lengths), asked.rounds, asked.seconds)
    print(json.dumps({"rows": asked.rows, "length": asked.length, **setting()}))


if __name__ == "__main__":
    main()
