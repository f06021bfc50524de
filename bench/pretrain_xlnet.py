"""Pre-training XLNet by permutation LM: tokens a second, regard against transformers in turns.

    python bench/pretrain_xlnet.py [--size base] [--rows 32] [--length 512] [--memory 384]
    python bench/pretrain_xlnet.py --peers layers
    python bench/pretrain_xlnet.py --tiny [--memory 8]      (does it run?)

Random tokens in full rows, a sixth of them predicted in random orders, two segments, dropout as in
the paper, bf16 autocast, gradients clipped to a norm of 1, fused AdamW; every system has a process
of its own, they take turns, and the median of the rounds counts. transformers' XLNetLMHeadModel is
given the same orders as perm_mask and target_mapping, made on the device; it runs as it comes
("eager"), with every layer compiled ("layers"), or as a whole ("compiled"). With --memory both
attend to so many states of the batch before. MFU counts what must be computed, without the memory.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from corpus import batches_of
from measure import OURS, Spec, add_options, print_speeds, running
from ours import training_step
from peers.common import Step, System, device, rounds_over

from regard.core.batch import BatchLimits, TokenRow
from regard.models.facts import change
from regard.models.papers import xlnet
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.permutation_lm import CONTEXT, FactorizationSampler, PermutationLM
from regard.objectives.rows import AnnotatedRow
from regard.objectives.sum import Sum

HEAD = PermutationLM.head
ADAMW = {"kind": "adamw", "rate": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8, "decay": 0.01}
ADAMW["clip"] = 1.0
PEERS = {
    "eager": "transformers",
    "layers": "transformers, layers compiled",
    "compiled": "transformers, compiled",
}
TINY = {"vocab": 1_000, "width": 32, "depth": 2, "heads": 2, "inner": 64}


def facts_of(size: str, tiny: bool) -> TrunkWithHeads:
    """XLNet with the head of permutation LM."""
    facts = xlnet.PAPER.sizes[size]
    return Sum(PermutationLM()).fit(change(facts, **TINY) if tiny else facts)


def rows_of(count: int, length: int, vocab: int) -> list[AnnotatedRow]:
    """Rows with orders and predicted tokens; the second half is another segment."""
    draw, nothing, everything = (
        np.random.default_rng(1),
        np.zeros(vocab, bool),
        np.ones(vocab, bool),
    )
    segments = (np.arange(length) >= length // 2).astype(np.int32)
    rows = [TokenRow(draw.integers(9, vocab, length), segments) for _ in range(count)]
    drawn = FactorizationSampler(nothing, everything).draw(rows, np.arange(count), (1,))
    return [
        AnnotatedRow(row._replace(orders=orders), {HEAD: at}, {HEAD: np.asarray(row.tokens)[at]})
        for row, (orders, at) in zip(rows, drawn, strict=True)
    ]


def as_arrays(rows: list[AnnotatedRow]) -> dict[str, np.ndarray]:
    """Rows as the peer reads them; all have as many predicted tokens."""
    columns = {
        "tokens": [row.row.tokens for row in rows],
        "segments": [row.row.segments for row in rows],
        "orders": [row.row.orders for row in rows],
        "positions": [row.positions[HEAD] for row in rows],
    }
    return {name: np.stack(column).astype(np.int64) for name, column in columns.items()}


def our_step(facts: TrunkWithHeads, limits: BatchLimits, memory: int) -> Step:
    """regard: the query stream at predicted tokens alone."""
    model, objective, place = facts.build(), Sum(PermutationLM(memory=memory)), device()
    state: Any = objective.initial_state(model.to(place), limits.rows) if memory else None
    collate = lambda rows: objective.collate(rows, limits)  # noqa: E731
    return training_step(model, objective, collate, ADAMW, place, state=state)


def ours(size: str, tiny: bool, corpus: dict[str, int], rows: int, memory: int) -> System:
    """regard over full rows."""
    torch.manual_seed(1)
    limits = BatchLimits(rows * corpus["length"], rows, corpus["length"])
    step = our_step(facts_of(size, tiny), limits, memory)
    return rounds_over(step, batches_of(rows_of(**corpus), rows))


def main() -> None:
    """Print one JSON line for each system, with regard's ratio to it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(xlnet.PAPER.sizes), default="base")
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--memory", type=int, default=0)
    parser.add_argument("--steps", type=int, default=12, help="batches of --rows in a round")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=["eager", "layers"])
    parser.add_argument("--tiny", action="store_true", help="a few steps of a very small model")
    add_options(parser, rounds=5, seconds=100, papers=["xlnet"])
    asked = parser.parse_args()
    if asked.tiny:
        asked.rows, asked.length, asked.rounds, asked.steps = 4, 32, 2, 2
        asked.peers = ["eager"]
    with TemporaryDirectory() as folder:
        compare(asked, Path(folder) / "rows.npz")


def compare(asked: argparse.Namespace, file: Path) -> None:
    """Let the systems take turns over the same rows."""
    facts, memory = facts_of(asked.size, asked.tiny), asked.memory
    count = asked.rows * asked.steps
    corpus = {"count": count, "length": asked.length, "vocab": facts.trunk.embed.vocab}
    rows, shared = rows_of(**corpus), {"rows": asked.rows, "memory": memory}
    np.savez(file, **as_arrays(rows))
    own = {"size": asked.size, "tiny": asked.tiny, "corpus": corpus, **shared}
    specs = {OURS: Spec("pretrain_xlnet:ours", own)}
    for form in asked.peers:
        settings = {"form": form, "config": xlnet.HF.config_of(facts), "corpus": str(file)}
        settings |= {"context": CONTEXT, "optimiser": ADAMW, **shared}
        specs[PEERS[form]] = Spec("peers.xlnet:permutation_lm", settings)
    predicted = sum(len(row.positions[HEAD]) for row in rows)
    with running(specs, asked) as workers:
        print_speeds(
            workers,
            asked,
            units=count * asked.length,
            flops=facts.training_flops([(asked.length,)] * count, {HEAD: predicted}),
            rows=asked.rows,
            length=asked.length,
            memory=memory,
            predicted=predicted // count,
        )


if __name__ == "__main__":
    main()
