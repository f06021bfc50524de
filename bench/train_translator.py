"""Training a Transformer-base translator: real tokens a second, regard against its peers in turns.

    python bench/train_translator.py [--tokens 16384] [--steps 64] [--rounds 5] [--seconds 100]
    python bench/train_translator.py --peers compiled
    python bench/train_translator.py --curves 200
    python bench/train_translator.py --tiny                 (does it run?)

One corpus of as many pairs as fill --steps batches of regard, the same optimiser, dropout and
precision (bf16 autocast on CUDA, fp32 on a CPU); every system has a process of its own. regard
packs random batches. The peer is transformers' Marian, eager and compiled layer by layer for any
length, as a trainer feeds it: pairs are sorted by length over the whole corpus, cut into batches of
at most --tokens on either side, padding included, and taken in random order. A round is the whole
corpus, putting batches together and sending them included; systems take turns. MFU counts what must
be computed for real tokens, of 784 TFLOP/s measured and of 989 on the sheet. With --curves both
begin with the same weights and read the same batches, without dropout, and their losses are printed
side by side.
"""

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from corpus import sentence_pairs
from measure import OURS, Spec, add_options, print_speeds, running
from ours import training_step, write_marian
from peers.common import Step, System, device, rounds_over
from peers.decoding import Marks

from regard.core.batch import BatchLimits
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.facts import change
from regard.models.papers.transformer import BASE
from regard.objectives.seq2seq import Seq2Seq

MARKS = Marks()
ADAM = {"kind": "adam", "rate": 1e-4, "betas": (0.9, 0.98), "eps": 1e-9, "decay": 0.0, "clip": 1.0}
SIZES = {
    "base": {"vocab": 32_000},
    "small": {"vocab": 32_000, "width": 256, "inner": 1_024, "depth": 3, "heads": 4},
    "tiny": {"vocab": 500, "width": 32, "inner": 64, "depth": 1, "heads": 2},
}
PEERS = ("eager", "compiled")


def facts_of(size: str) -> EncoderDecoder:
    """A Transformer with Marian's order of sines and cosines."""
    return change(BASE, halves=True, **SIZES[size])


def our_step(facts: EncoderDecoder, corpus: dict[str, Any]) -> Step:
    """regard: packed."""
    torch.manual_seed(1)
    place, objective = device(), Seq2Seq(bos=MARKS.bos, eos=MARKS.eos)
    limits = BatchLimits(corpus["tokens"], corpus["rows"], corpus["longest"])
    fixed = limits if place.type == "cuda" else None
    return training_step(
        facts.build(), objective, lambda pairs: objective.collate(pairs, fixed), ADAM, place
    )


def ours(size: str, corpus: dict[str, Any]) -> System:
    """regard over random batches."""
    return rounds_over(our_step(facts_of(size), corpus), sentence_pairs(**corpus))


def write_initial(facts: EncoderDecoder, folder: Path) -> None:
    """Write the weights that all systems begin with; Marian's bias of logits stays zero."""
    torch.manual_seed(1)
    write_marian(facts.build(), change(facts, head_bias=True), MARKS, folder)


def curves(size: str, corpus: dict[str, Any], steps: int, folder: Path) -> None:
    """Print the losses of both, and how far they are apart."""
    from peers.marian import training_step_of

    facts = change(facts_of(size), dropout=0.0)
    write_initial(facts, folder)
    both = our_step(facts, corpus), training_step_of("eager", str(folder), ADAM)
    some = sentence_pairs(**corpus | {"steps": 8})  # few, so that there is something to learn
    apart = []
    for number in range(steps):
        own, other = (float(step(some[number % len(some)])) for step in both)
        apart.append(abs(own - other) / other)
        if number % max(1, steps // 20) == 0 or number == steps - 1:
            print(json.dumps({"step": number, "regard": own, "transformers": other}))
    print(json.dumps({"mean_relative_difference": float(np.mean(apart)), "largest": max(apart)}))


def main() -> None:
    """Print one JSON line for each system, with regard's ratio to it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--steps", type=int, default=64, help="batches of regard in the corpus")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--curves", type=int, help="print so many losses of both instead")
    parser.add_argument("--small", action="store_true", help="a laptop-size model")
    parser.add_argument("--tiny", action="store_true", help="a few steps of a very small model")
    add_options(parser, rounds=5, seconds=100, papers=["transformer"])
    asked = parser.parse_args()
    if asked.tiny:
        asked.tokens, asked.steps, asked.rounds = min(asked.tokens, 512), 4, 2
    size = "tiny" if asked.tiny else "small" if asked.small else "base"
    rows, longest = max(1, asked.tokens // 8), min(128, asked.tokens)
    corpus = {"steps": asked.steps, "tokens": asked.tokens, "rows": rows, "longest": longest}
    corpus["vocab"] = SIZES[size]["vocab"]
    with TemporaryDirectory() as folder:
        if asked.curves:
            curves(size, corpus, asked.curves, Path(folder))
        else:
            compare(size, corpus, asked, Path(folder))


def compare(size: str, corpus: dict[str, Any], asked: argparse.Namespace, folder: Path) -> None:
    """Let the systems take turns over one corpus."""
    facts = facts_of(size)
    specs = {OURS: Spec("train_translator:ours", {"size": size, "corpus": corpus})}
    if asked.peers:
        write_initial(facts, folder)
    for form in asked.peers:
        settings = {"form": form, "folder": str(folder), "corpus": corpus, "optimiser": ADAM}
        specs[f"transformers, {form}"] = Spec("peers.marian:training", settings)
    lengths = [
        (len(source) + 1, len(target) + 1)
        for batch in sentence_pairs(**corpus)
        for source, target in batch
    ]
    with running(specs, asked) as workers:
        print_speeds(
            workers,
            asked,
            units=sum(map(sum, lengths)),
            flops=facts.training_flops(lengths),
            size=size,
            tokens=asked.tokens,
            pairs=len(lengths),
        )


if __name__ == "__main__":
    main()
