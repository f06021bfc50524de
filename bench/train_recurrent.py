"""Training a Bahdanau translator: real tokens a second, regard against JoeyNMT in turns.

    python bench/train_recurrent.py [--joeynmt WHEEL] [--data MULTI30K] [--tokens 4096]
    python bench/train_recurrent.py --curves 100
    python bench/train_recurrent.py --tiny                  (does it run?)

The model is Bahdanau's of the recipe ladder-multi30k-en-de. "regard" pads batches to rectangles of
few shapes, whose steps are captured on CUDA; "regard, eager" has free shapes and the loop over time
without padding. Every system has a process of its own. JoeyNMT's recurrent model of the same widths
takes part where it is installed, or from its wheel: it reads the same pairs in buckets of like
length, padded, each batch sorted by source length, with torch's fused optimiser and cross-entropy,
which are faster than its own. Its decoder is a Python loop over as many steps as a batch is long,
which torch.compile would unroll anew for each length: it is not compiled. Dropout, smoothing,
clipping and --precision are the same for all: "tf32" allows TF32 in all fp32 products, "fp32" only
where torch does (in cuDNN), "bf16" is autocast with TF32 beside it, as in regard train on CUDA;
regard's recurrent layers stay in fp32.

--data is a folder with Multi30k; without it tokens are random, in sentences of its lengths. A round
is the whole corpus; putting batches together and sending them counts. With --curves, both forms of
regard begin with the same weights and read the same batches, without dropout, and their losses are
printed side by side.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from corpus import Pair, short_pairs
from measure import OURS, Spec, add_options, print_speeds, running
from ours import BAHDANAU, BAHDANAU_TINY, training_step
from peers.common import Step, System, device, half, rounds_over
from peers.joeynmt import BOS, EOS, read_pairs

from regard.core.batch import BatchLimits, RectangleLimits
from regard.data.batches.packing import training_batches
from regard.data.readers.text_files import read_lines
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.facts import change
from regard.models.paper import count_parameters
from regard.objectives.seq2seq import Seq2Seq
from regard.text.tokenizers.translation_tokenizer import train_translation_tokenizer
from regard.training.loop.trainable import MOST_RECTANGLES

VOCAB, ROWS, LONGEST = 8_000, 512, 96
ADAM = {"kind": "adam", "rate": 1e-3, "betas": (0.9, 0.98), "eps": 1e-9, "decay": 0.0, "clip": 1.0}
FILES = ("train.lc.norm.tok.en.gz", "train.lc.norm.tok.de.gz")
JOEYNMT = "JoeyNMT"
Context = Callable[[], AbstractContextManager]


def multi30k(folder: Path, count: int) -> list[Pair]:
    """The first pairs, in the subwords of the recipe."""
    texts = [list(read_lines(folder / name)) for name in FILES]
    tokenizer = train_translation_tokenizer(*texts, "bpe", VOCAB, joint=True)
    ids = map(tokenizer.source.encode_all, texts)
    fitting = [
        (np.array(source), np.array(target))
        for source, target in zip(*ids, strict=True)
        if max(len(source), len(target)) < LONGEST
    ]
    return fitting[:count]


def facts_of(tiny: bool) -> EncoderDecoder:
    """Bahdanau's translator."""
    return change(BAHDANAU, **BAHDANAU_TINY) if tiny else BAHDANAU


def our_step(
    facts: EncoderDecoder, limits: BatchLimits | None, precision: Context = nullcontext
) -> Step:
    """regard: in padded rectangles, on CUDA captured; or eagerly and without padding."""
    torch.manual_seed(1)
    objective, graphs = Seq2Seq(BOS, EOS), {"capture_at": 2, "most_graphs": MOST_RECTANGLES}
    return training_step(
        facts.build(),
        objective,
        lambda pairs: objective.collate(pairs, limits),
        ADAM,
        device(),
        compiles=False,
        captures=limits is not None,
        precision=precision,
        **graphs,
    )


def precision_of(name: str) -> Context:
    """The context of forward passes; whether products may be in TF32 is set for the process."""
    torch.backends.cuda.matmul.allow_tf32 = name != "fp32"
    return (lambda: half(device())) if name == "bf16" else nullcontext


def packed(pairs: Sequence[Pair], limits: BatchLimits) -> list[list[Pair]]:
    """regard's batches, shuffled."""
    lengths = np.array([[len(source) + 1, len(target) + 1] for source, target in pairs])
    batches, order = training_batches(lengths, limits), np.random.default_rng(1)
    return [[pairs[at] for at in batches[number]] for number in order.permutation(len(batches))]


def ours(tiny: bool, pairs: str, tokens: int, precision: str, eager: bool) -> System:
    """regard on pairs of a file."""
    limits, facts = RectangleLimits(tokens, ROWS, LONGEST), facts_of(tiny)
    step = our_step(facts, None if eager else limits, precision_of(precision))
    count = count_parameters(facts.build())
    return rounds_over(step, packed(read_pairs(pairs), limits), parameters=count)


def curves(facts: EncoderDecoder, pairs: list[Pair], tokens: int, steps: int) -> None:
    """Print the losses of rectangles and of free shapes, and how far they are apart."""
    limits, apart = RectangleLimits(tokens, ROWS, LONGEST), []
    facts, batches = change(facts, dropout=0.0), packed(pairs, limits)
    precision_of("tf32")
    both = our_step(facts, limits), our_step(facts, None)
    for number in range(steps):
        padded_loss, free_loss = (float(step(batches[number % len(batches)])) for step in both)
        apart.append(abs(padded_loss - free_loss) / free_loss)
        if number % max(1, steps // 20) == 0 or number == steps - 1:
            line = {"step": number, "regard": padded_loss, "regard, eager": free_loss}
            print(json.dumps(line))
    print(json.dumps({"mean_relative_difference": float(np.mean(apart)), "largest": max(apart)}))


def main() -> None:
    """Print one JSON line for each system, with regard's ratio to it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder with Multi30k; else random tokens")
    parser.add_argument("--joeynmt", help="its wheel, or the folder of the package")
    parser.add_argument("--pairs", type=int, default=29_000)
    parser.add_argument("--tokens", type=int, default=4_096, help="of a batch, on either side")
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"], default="tf32")
    parser.add_argument("--curves", type=int, help="print so many losses of both forms instead")
    parser.add_argument("--tiny", action="store_true", help="a few steps of a very small model")
    add_options(parser, rounds=5, seconds=100, papers=["bahdanau"])
    asked = parser.parse_args()
    facts = facts_of(asked.tiny)
    if asked.tiny:
        asked.data, asked.pairs, asked.tokens, asked.rounds = None, 64, 256, 2
    vocab = facts.target.embed.vocab
    pairs = (
        multi30k(asked.data, asked.pairs)
        if asked.data
        else short_pairs(asked.pairs, vocab, LONGEST)
    )
    if asked.curves:
        curves(facts, pairs, asked.tokens, asked.curves)
        return
    with TemporaryDirectory() as folder:
        compare(facts, pairs, asked, Path(folder) / "pairs.json")


def compare(
    facts: EncoderDecoder, pairs: list[Pair], asked: argparse.Namespace, file: Path
) -> None:
    """Let the systems take turns over one corpus."""
    file.write_text(json.dumps([[side.tolist() for side in pair] for pair in pairs]))
    shared = {"pairs": str(file), "tokens": asked.tokens, "precision": asked.precision}
    own: dict[str, Any] = {**shared, "tiny": asked.tiny}
    specs = {
        OURS: Spec("train_recurrent:ours", {**own, "eager": False}),
        "regard, eager": Spec("train_recurrent:ours", {**own, "eager": True}),
    }
    if asked.joeynmt or find_spec("joeynmt"):
        stack = facts.target.stack
        sizes = {"width": stack.width, "embedding": stack.embedding, "dropout": stack.dropout}
        settings = {"sizes": {**sizes, "vocab": facts.target.embed.vocab}, "optimiser": ADAM}
        settings |= {"wheel": asked.joeynmt, **shared}
        specs[JOEYNMT] = Spec("peers.joeynmt:training", settings)
    lengths = [(len(source) + 1, len(target) + 1) for source, target in pairs]
    with running(specs, asked, [{}, {}]) as workers:  # a shape is captured at its second batch
        print_speeds(
            workers,
            asked,
            units=sum(map(sum, lengths)),
            flops=facts.training_flops(lengths),
            pairs=len(pairs),
            precision=asked.precision,
        )


if __name__ == "__main__":
    main()
