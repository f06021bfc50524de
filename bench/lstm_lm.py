"""Training AWD-LSTM: tokens a second of regard, beside a plain loop over cuDNN's LSTM, in turns.

    python bench/lstm_lm.py [--rows 80] [--length 70] [--steps 40]
    python bench/lstm_lm.py --tiny      (does it run?)

Random words, state carried from step to step, cross-entropy over all words with a tied output in
bf16 autocast, gradients clipped, fused AdamW; every system has a process of its own, they take
turns, and the median of the rounds counts. regard's step is captured on CUDA, as regard train has
it, with all regularisation of the paper (weight drop, locked and word dropout, penalties). The
plain loops have none: torch's embedding, three nn.LSTM of the same sizes, a linear layer. Their
speed is the limit that cuDNN sets, also for states of 1,152 numbers, to which regard pads the 1,150
of the paper. "bf16" runs the LSTM itself in half precision, which regard does not, because errors
of a state accumulate over time.
"""

import argparse
from typing import Any

import numpy as np
import torch
from corpus import streams
from measure import OURS, Spec, add_options, print_speeds, running
from ours import training_step
from peers.common import Step, System, device, rounds_over

from regard.core.batch import Batch, TokenRow
from regard.models.facts import change
from regard.models.heads import NextTokenHead
from regard.models.papers import awd_lstm
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.causal_lm import CausalLM
from regard.objectives.rows import AnnotatedRow
from regard.objectives.sum import Sum

ADAMW = {
    "kind": "adamw",
    "rate": 1e-3,
    "betas": (0.9, 0.98),
    "eps": 1e-9,
    "decay": 0.0,
    "clip": 0.25,
}
TINY = {"vocab": 200, "width": 24, "embedding": 16, "last_width": 16}
PENALTIES = {"ar": 2.0, "tar": 1.0}


def facts_of(tiny: bool) -> TrunkWithHeads:
    """AWD-LSTM of WikiText-2."""
    facts = change(awd_lstm.WIKITEXT_2, **TINY) if tiny else awd_lstm.WIKITEXT_2
    return awd_lstm.PAPER.fit_heads(facts.with_heads(NextTokenHead()))


def our_step(facts: TrunkWithHeads, rows: int, penalties: dict[str, float]) -> Step:
    """regard: the objective of the paper on its model."""
    model, objective, place = facts.build(), Sum(CausalLM("streams", **penalties)), device()
    annotate = objective.members[0].annotator(None)

    def collate(words_BL: np.ndarray) -> Batch:
        segments = np.zeros(words_BL.shape[1] - 1, np.int32)
        examples = [
            AnnotatedRow(TokenRow(row[:-1], segments), {}, {"next_token": row[-1]})
            for row in words_BL
        ]
        return objective.collate(annotate(examples, np.arange(rows), (0,)))

    state = objective.initial_state(model.to(place), rows)
    return training_step(model, objective, collate, ADAMW, place, compiles=False, state=state)


def ours(tiny: bool, corpus: dict[str, Any]) -> System:
    """regard, with all regularisation."""
    torch.manual_seed(1)
    step = our_step(facts_of(tiny), corpus["rows"], PENALTIES)
    return rounds_over(step, list(streams(**corpus)))


def widths_of(facts: TrunkWithHeads, width: int) -> list[int]:
    """The widths of a plain model, from its word vectors to its last states."""
    stack: Any = facts.trunk.stack
    return [stack.embedding, *[width] * (stack.depth - 1), stack.output_width]


def main() -> None:
    """Print one JSON line for each system, with regard's ratio to it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=80)
    parser.add_argument("--length", type=int, default=70)
    parser.add_argument("--steps", type=int, default=40, help="steps of a round")
    parser.add_argument("--tiny", action="store_true", help="a few steps of a very small model")
    add_options(parser, rounds=5, seconds=100, papers=["awd-lstm"])
    asked = parser.parse_args()
    if asked.tiny:
        asked.rows, asked.length, asked.rounds, asked.steps = 4, 12, 2, 2
    compare(asked)


def compare(asked: argparse.Namespace) -> None:
    """Let the systems take turns over the same words."""
    facts = facts_of(asked.tiny)
    corpus = {"steps": asked.steps, "rows": asked.rows, "length": asked.length}
    corpus["vocab"] = facts.trunk.embed.vocab

    def plain(width: int, dtype: str) -> Spec:
        settings = {"widths": widths_of(facts, width), "dtype": dtype, "optimiser": ADAMW}
        return Spec("peers.plain_lstm:training", {"corpus": corpus, **settings})

    width = facts.trunk.stack.width
    specs = {
        OURS: Spec("lstm_lm:ours", {"tiny": asked.tiny, "corpus": corpus}),
        "plain loop, LSTM in fp32": plain(width, "float32"),
    }
    if torch.cuda.is_available():
        wide = -(-width // 8) * 8
        specs[f"plain loop, LSTM in fp32, {wide:,} wide"] = plain(wide, "float32")
        specs["plain loop, LSTM in bf16"] = plain(width, "bfloat16")
    lengths = [(asked.length,)] * asked.rows * asked.steps
    with running(specs, asked) as workers:
        print_speeds(
            workers,
            asked,
            units=sum(length for (length,) in lengths),
            flops=facts.training_flops(lengths),
            rows=asked.rows,
            length=asked.length,
        )


if __name__ == "__main__":
    main()
