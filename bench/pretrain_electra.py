"""Pre-training ELECTRA: tokens a second, regard against transformers' pieces in turns.

    python bench/pretrain_electra.py [--size small] [--rows 128] [--length 128] [--rounds 5]
    python bench/pretrain_electra.py --size base                 (64 rows of 512)
    python bench/pretrain_electra.py --peers eager compiled
    python bench/pretrain_electra.py --tiny                      (does it run?)

Random tokens, 15% of them masked, the generator of the paper, dropout as in the paper, bf16
autocast, gradients clipped to a norm of 1, fused AdamW; every system has a process of its own, they
take turns, and the median of the rounds counts. transformers has the two models and not their
training, so that ElectraForMaskedLM and ElectraForPreTraining (sdpa) are joined as a careful user
would: one set of embeddings, words predicted at masked positions only, an attention mask, as every
collator makes one. The pair runs as it comes, compiled, and compiled and captured
(mode="reduce-overhead"); --peers names some of these. On a CPU it is traced only. MFU counts what
must be computed for both models, of 784 TFLOP/s measured and of 989 on the sheet.
"""

import argparse
from typing import Any, NamedTuple

import numpy as np
from corpus import batches_of, masked_rows, row_length
from measure import OURS, Spec, add_options, print_speeds, running
from ours import annotated, training_step
from peers.common import System, device, rounds_over

from regard.core.batch import BatchLimits
from regard.models.facts import change
from regard.models.papers import electra
from regard.models.papers.electra import Joint
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.replaced_tokens import ReplacedTokens
from regard.objectives.sum import Sum

ADAMW = {
    "kind": "adamw",
    "rate": 1e-4,
    "betas": (0.9, 0.999),
    "eps": 1e-6,
    "decay": 0.01,
    "clip": 1.0,
}
WEIGHT = 50.0
PEERS = ("eager", "compiled", "captured")


class Size(NamedTuple):
    """A discriminator, the share of it that its generator has, and a batch."""

    discriminator: TrunkWithHeads
    generator: float
    rows: int
    length: int


SMALLEST = {"vocab": 2_000, "depth": 2, "width": 32, "heads": 4, "inner": 64, "embedding_size": 16}
SIZES = {
    "small": Size(electra.SMALL, 1 / 4, 128, 128),
    "base": Size(electra.BASE, 1 / 3, 64, 512),
    "tiny": Size(change(electra.SMALL, **SMALLEST), 1 / 4, 4, 64),
}


def objective_of(size: Size) -> Sum:
    """Replaced tokens, with the generator of this size."""
    return Sum(ReplacedTokens(loss_weight=WEIGHT, generator_size=size.generator))


def joint(size: Size) -> Joint:
    """Both models."""
    objective = objective_of(size)
    return objective.extend(objective.fit(size.discriminator), electra.PAPER.fit_heads)


def configs_of(facts: Joint) -> dict[str, Any]:
    """Both models as transformers describes them."""
    both = {"generator": facts.generator, "discriminator": facts.discriminator}
    return {name: electra.HF.config_of(model) for name, model in both.items()}


def ours(size: str, corpus: dict[str, Any], rows: int) -> System:
    """regard: packed, the generator's logits at masked positions only."""
    objective, place = objective_of(SIZES[size]), device()
    limits = BatchLimits(rows * corpus["length"], rows, corpus["length"])
    fixed = limits if place.type == "cuda" else None
    step = training_step(
        joint(SIZES[size]).build(),
        objective,
        lambda batch: objective.collate(batch, fixed),
        ADAMW,
        place,
        weight=lambda batch, _: np.sum([objective.weight(row) for row in batch], axis=0),
    )
    corpus_rows = [annotated(row) for row in masked_rows(**corpus)]
    return rounds_over(step, batches_of(corpus_rows, rows))


def main() -> None:
    """Print one JSON line for each system, with regard's ratio to it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--rows", type=int, help="in a batch")
    parser.add_argument("--length", type=int, help="tokens in a row")
    parser.add_argument("--steps", type=int, default=24, help="batches in the corpus")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--tiny", action="store_true", help="a few steps of a very small model")
    add_options(parser, rounds=5, seconds=100, papers=["electra"])
    asked = parser.parse_args()
    if asked.tiny:
        asked.size, asked.rounds, asked.steps = "tiny", 2, 2
    compare(asked)


def compare(asked: argparse.Namespace) -> None:
    """Let the systems take turns over one corpus."""
    size = SIZES[asked.size]
    facts, batch, length = joint(size), asked.rows or size.rows, asked.length or size.length
    corpus = {"count": batch * asked.steps, "length": length, "vocab": facts.encoder.embed.vocab}
    shape = {"corpus": corpus, "rows": batch}
    specs = {OURS: Spec("pretrain_electra:ours", {"size": asked.size, **shape})}
    for form in asked.peers:
        settings = {"form": form, "configs": configs_of(facts), "weight": WEIGHT, **shape}
        settings["optimiser"] = ADAMW
        specs[f"transformers, {form}"] = Spec("peers.electra:replaced_tokens", settings)
    rows = masked_rows(**corpus)
    lengths, masked = list(map(row_length, rows)), sum(len(row.positions) for row in rows)
    needed = facts.training_flops([(each,) for each in lengths], {"mlm": masked})
    with running(specs, asked) as workers:
        print_speeds(
            workers,
            asked,
            units=sum(lengths),
            flops=needed,
            size=asked.size,
            rows=batch,
            length=length,
        )


if __name__ == "__main__":
    main()
