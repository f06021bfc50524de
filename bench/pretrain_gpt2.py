"""Pre-training GPT-2: tokens a second, regard against nanoGPT's manner and transformers in turns.

    python bench/pretrain_gpt2.py [--size small] [--rows 32] [--length 1024] [--rounds 7]
    python bench/pretrain_gpt2.py --peers plain plain-graphs compiled graphs eager
    python bench/pretrain_gpt2.py --tiny                         (does it run?)

Random tokens in full rows, all of them predicted, no dropout, bf16 autocast, gradients clipped to a
norm of 1, fused AdamW that decays matrices; every system has a process of its own, they take turns,
and the median of the rounds counts. All start with the same weights. The peers: "plain" is a GPT-2
in the manner of nanoGPT, compiled (peers/plain_gpt.py; its vocabulary is filled up to 50,304);
"eager" and "compiled" are transformers' model (sdpa); "graphs" and "plain-graphs" are compiled with
CUDA graphs. Of the size llama-124m there is no plain peer. On a CPU peers are traced only. MFU
counts what must be computed, of 784 TFLOP/s measured and of 989 on the sheet.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from corpus import batches_of, blocks
from measure import OURS, Spec, add_options, print_speeds, running
from ours import CAUSAL, training_step
from peers.common import System, device, rounds_over
from torch import nn

from regard.core.batch import BatchLimits, TokenRow
from regard.data.rows.row_plans import Passage
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import NextTokenHead
from regard.models.paper import Paper
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.causal_lm import CausalLM
from regard.objectives.rows import AnnotatedRow
from regard.objectives.sum import Sum

ADAMW = {
    "kind": "adamw",
    "rate": 6e-4,
    "betas": (0.9, 0.95),
    "eps": 1e-8,
    "decay": 0.1,
    "clip": 1.0,
}
OBJECTIVE = Sum(CausalLM("blocks"))
TINY = {"vocab": 320, "width": 32, "depth": 2, "heads": 2, "inner": 128, "longest": 64}
PEERS = {
    "plain": "plain GPT-2, compiled",
    "plain-eager": "plain GPT-2",
    "plain-graphs": "plain GPT-2, compiled, graphs",
    "eager": "transformers",
    "compiled": "transformers, compiled",
    "graphs": "transformers, compiled, graphs",
}
USUAL = ["plain", "eager", "compiled"]


def facts_of(size: str, tiny: bool) -> TrunkWithHeads:
    """The model of that size without dropout, with tied embeddings."""
    facts = change(CAUSAL[size][1].with_heads(NextTokenHead()), dropout=0.0, attention_dropout=0.0)
    if tiny and size.startswith("llama"):
        facts = change(facts, kv_heads=1)
    return change(facts, **TINY) if tiny else facts


def initial_model(facts: TrunkWithHeads) -> nn.Module:
    """The model that all systems begin with."""
    torch.manual_seed(1)
    return facts.build()


def annotated(batch: np.ndarray) -> list[AnnotatedRow]:
    """Rows with their next tokens as targets."""
    segments = np.zeros(batch.shape[1] - 1, np.int32)
    passages = [Passage(TokenRow(row[:-1], segments), int(row[-1])) for row in batch]
    return OBJECTIVE.annotator(None)(passages, np.arange(len(batch)), (1, 1))


def ours(size: str, tiny: bool, corpus: dict[str, Any], rows: int) -> System:
    """regard: full rows."""
    limits = BatchLimits(rows * corpus["length"], rows, corpus["length"])
    step = training_step(
        initial_model(facts_of(size, tiny)),
        OBJECTIVE,
        lambda batch: OBJECTIVE.collate(batch, limits),
        ADAMW,
        device(),
    )
    return rounds_over(step, [annotated(batch) for batch in batches_of(blocks(**corpus), rows)])


def main() -> None:
    """Print one JSON line for each system, with regard's ratio to it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(CAUSAL), default="small")
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=12, help="batches of --rows in a round")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=USUAL)
    parser.add_argument("--tiny", action="store_true", help="a few steps of a very small model")
    add_options(parser, rounds=7, seconds=100, papers=["gpt-2", "llama"])
    asked = parser.parse_args()
    if asked.tiny:
        asked.rows, asked.length, asked.rounds, asked.steps = 4, 64, 2, 2
    with TemporaryDirectory() as folder:
        compare(asked, Path(folder))


def write_initial(paper: Paper, facts: TrunkWithHeads, folder: Path) -> None:
    """Write the model that all systems begin with, as peers read it."""
    folders.write(folder, LoadedModel(paper, facts, initial_model(facts)), "hf")


def compare(asked: argparse.Namespace, folder: Path) -> None:
    """Let the systems take turns over the same rows."""
    facts = facts_of(asked.size, asked.tiny)
    count, vocab = asked.rows * asked.steps, facts.trunk.embed.vocab
    corpus = {"count": count, "length": asked.length, "vocab": vocab}
    shape = {"corpus": corpus, "rows": asked.rows}
    specs = {OURS: Spec("pretrain_gpt2:ours", {"size": asked.size, "tiny": asked.tiny, **shape})}
    if asked.peers:
        write_initial(CAUSAL[asked.size][0], facts, folder)
    for form in asked.peers:
        settings = {"form": form, "folder": str(folder), "optimiser": ADAMW, **shape}
        specs[PEERS[form]] = Spec("peers.gpt2:causal_lm", settings)
    with running(specs, asked) as workers:
        print_speeds(
            workers,
            asked,
            units=count * asked.length,
            flops=facts.training_flops([(asked.length,)] * count),
            size=asked.size,
            rows=asked.rows,
            length=asked.length,
        )


if __name__ == "__main__":
    main()
