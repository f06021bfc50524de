"""Pre-training BERT by masked LM: tokens a second, regard against transformers in turns.

    python bench/pretrain_encoder.py [--size base] [--rows 64] [--length 512] [--rounds 5]
    python bench/pretrain_encoder.py --peers eager compiled unmasked gathered captured
    python bench/pretrain_encoder.py --ragged
    python bench/pretrain_encoder.py --tiny [--ragged]      (does it run?)

Random tokens, 15% of them masked, dropout as in the paper, bf16 autocast, gradients clipped to a
norm of 1, fused AdamW; every system has a process of its own, they take turns, and the median of
the rounds counts. transformers' BertForMaskedLM runs as it comes (sdpa) and compiled as one
function, and is given an attention mask, as every collator makes one; other forms of it are in
peers/bert.py. With --ragged rows have a quarter to all of the length; regard packs them; the peer
sorts them by length over the whole corpus and pads batches of --rows to a multiple of 64, compiled
layer by layer for any length; nobody drops attention weights, which packed attention cannot. MFU
counts what must be computed for real tokens (logits only at masked positions), of 784 TFLOP/s
measured and of 989 on the sheet.
"""

import argparse
from typing import Any

import numpy as np
from corpus import masked_rows, row_length
from measure import OURS, Spec, add_options, print_speeds, running
from ours import annotated, packed, training_step
from peers.common import System, device, rounds_over

from regard.core.batch import BatchLimits
from regard.models.facts import change
from regard.models.papers import bert
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.masked_lm import MaskedLM
from regard.objectives.sum import Sum

ADAMW = {
    "kind": "adamw",
    "rate": 1e-4,
    "betas": (0.9, 0.999),
    "eps": 1e-6,
    "decay": 0.01,
    "clip": 1.0,
}
PEERS = ("eager", "compiled", "captured", "unmasked", "gathered")
USUAL = ["eager", "compiled"]
SMALLEST = "smallest"


def facts_of(size: str, ragged: bool) -> TrunkWithHeads:
    """BERT with the head of masked LM; "smallest" is none of the paper's sizes."""
    facts = change(bert.TINY, vocab=1_200) if size == SMALLEST else bert.PAPER.sizes[size]
    facts = Sum(MaskedLM()).fit(facts)
    return change(facts, attention_dropout=0.0) if ragged else facts


def ours(size: str, corpus: dict[str, Any], rows: int) -> System:
    """regard: packed, logits only at masked positions."""
    ragged, place, objective = corpus["ragged"], device(), MaskedLM()
    most = rows * (4 if ragged else 1)
    limits = BatchLimits(rows * corpus["length"], most, corpus["length"])
    fixed = limits if place.type == "cuda" else None
    step = training_step(
        facts_of(size, ragged).build(),
        objective,
        lambda batch: objective.collate(batch, fixed),
        ADAMW,
        place,
    )
    batches = packed(masked_rows(**corpus), limits, np.random.default_rng(1))
    return rounds_over(step, [list(map(annotated, batch)) for batch in batches])


def main() -> None:
    """Print one JSON line for each system, with regard's ratio to it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(bert.PAPER.sizes), default="base")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--steps", type=int, default=24, help="batches of --rows in the corpus")
    parser.add_argument("--ragged", action="store_true")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=USUAL)
    parser.add_argument("--tiny", action="store_true", help="a few steps of a very small model")
    add_options(parser, rounds=5, seconds=100, papers=["bert"])
    asked = parser.parse_args()
    if asked.tiny:
        asked.size, asked.rows, asked.length, asked.rounds, asked.steps = SMALLEST, 4, 64, 2, 2
    compare(asked)


def compare(asked: argparse.Namespace) -> None:
    """Let the systems take turns over one corpus."""
    facts = facts_of(asked.size, asked.ragged)
    count, vocab = asked.rows * asked.steps, facts.trunk.embed.vocab
    corpus = {"count": count, "length": asked.length, "vocab": vocab, "ragged": asked.ragged}
    shape = {"corpus": corpus, "rows": asked.rows}
    config = bert.HF.config_of(facts)
    specs = {OURS: Spec("pretrain_encoder:ours", {"size": asked.size, **shape})}
    for form in asked.peers:
        settings = {"form": form, "config": config, "optimiser": ADAMW, **shape}
        specs[f"transformers, {form}"] = Spec("peers.bert:masked_lm", settings)
    rows = masked_rows(**corpus)
    lengths, masked = list(map(row_length, rows)), sum(len(row.positions) for row in rows)
    needed = facts.training_flops([(length,) for length in lengths], {"mlm": masked})
    with running(specs, asked) as workers:
        print_speeds(
            workers,
            asked,
            units=sum(lengths),
            flops=needed,
            size=asked.size,
            rows=asked.rows,
            length=asked.length,
            ragged=asked.ragged,
        )


if __name__ == "__main__":
    main()
