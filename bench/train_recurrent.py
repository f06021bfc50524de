"""Training a Bahdanau translator: real tokens a second, regard against JoeyNMT in one run.

    python bench/train_recurrent.py [--joeynmt WHEEL] [--data MULTI30K] [--tokens 4096]
    python bench/train_recurrent.py --curves 100
    python bench/train_recurrent.py --tiny                  (does it run?)

The model is Bahdanau's of the recipe ladder-multi30k-en-de. "regard" pads batches to rectangles of
few shapes, whose steps are captured on CUDA; "regard, eager" has free shapes and the loop over time
without padding. JoeyNMT's recurrent model of the same widths takes part where it is installed, or
from its wheel: it reads the same pairs in buckets of like length, padded, each batch sorted by
source length, with torch's fused optimiser and cross-entropy, which are faster than its own. Its
decoder is a Python loop over as many steps as a batch is long, which torch.compile would unroll
anew for each length: it is not compiled. Dropout, smoothing, clipping and --precision are the same
for all: "tf32" allows TF32 in all fp32 products, "fp32" only where torch does (in cuDNN), "bf16" is
autocast with TF32 beside it, as in regard train on CUDA; regard's recurrent layers stay in fp32.

--data is a folder with Multi30k; without it tokens are random, in sentences of its lengths. A round
is the whole corpus; putting batches together and sending them counts. With --curves, both forms of
regard begin with the same weights and read the same batches, without dropout, and their losses are
printed side by side.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import torch
from measure import System, half, print_speeds, round_of, setting, training_step, warm_up
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from train_translator import Pair, bucketed, padded, padding

from regard.data.files.text_files import read_lines
from regard.data.packing import training_batches
from regard.ground.batch import BatchLimits, RectangleLimits
from regard.models.facts import EncoderDecoder, change
from regard.models.paper import count_parameters
from regard.models.papers import bahdanau
from regard.objectives.seq2seq import Seq2Seq
from regard.text.tokenizers.translation_tokenizer import train_translation_tokenizer
from regard.training.loop.microbatch import EagerStep, GraphedStep
from regard.training.loop.trainable import MOST_RECTANGLES
from regard.training.optim.optimiser import GraphedOptimiser, ModelOptimiser
from regard.training.recipe.tables import OptimiserConfig

VOCAB, ROWS, LONGEST = 8_000, 512, 96
PAD, BOS, EOS, IGNORED = 0, 1, 2, -100
FACTS = change(bahdanau.LAPTOP, vocab=VOCAB, width=512, embedding=256, maxout=256, dropout=0.4)
TINY = {"vocab": 1_000, "width": 32, "embedding": 16, "maxout": 16}
OPTIMISER = OptimiserConfig(rate=1e-3, clip=1.0)
FILES = ("train.lc.norm.tok.en.gz", "train.lc.norm.tok.de.gz")
UNUSED = (  # packages that JoeyNMT imports, and its layers do not need
    *("importlib_metadata", "packaging.version", "sentencepiece", "subword_nmt", "yaml"),
    *("matplotlib", "matplotlib.pyplot", "matplotlib.backends.backend_pdf", "matplotlib.figure"),
    "torch.utils.tensorboard",
)
Step = Callable[[Sequence[Pair]], Tensor]
Context = Callable[[], AbstractContextManager]


def random_pairs(count: int, vocab: int, draw: np.random.Generator) -> list[Pair]:
    """Pairs of random tokens, as long as those of Multi30k."""
    lengths = np.clip(draw.normal(13, 4, count), 4, LONGEST - 1).astype(int)
    others = np.clip(lengths + draw.normal(0, 2, count), 4, LONGEST - 1).astype(int)
    return [
        (draw.integers(4, vocab, source), draw.integers(4, vocab, target))
        for source, target in zip(lengths, others, strict=True)
    ]


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


def ours(
    facts: EncoderDecoder,
    limits: BatchLimits | None,
    device: torch.device,
    precision: Context = nullcontext,
) -> Step:
    """regard: in padded rectangles, on CUDA captured; or eagerly and without padding."""
    torch.manual_seed(1)
    model, objective = facts.build().to(device).train(), Seq2Seq(BOS, EOS)
    captured = limits is not None and device.type == "cuda"
    optimiser = (GraphedOptimiser if captured else ModelOptimiser)(model, OPTIMISER)
    eager = EagerStep(lambda batch: objective(model, batch), precision)
    micro = (
        GraphedStep(eager, model, capture_at=2, most_graphs=MOST_RECTANGLES) if captured else eager
    )
    collate = lambda pairs: objective.collate(pairs, limits).to(device)  # noqa: E731
    return training_step(collate, micro, optimiser)


class JoeyModel(nn.Module):
    """JoeyNMT's embeddings, bidirectional GRU, and GRU with Bahdanau's attention."""

    def __init__(self, facts: EncoderDecoder):
        from joeynmt.decoders import RecurrentDecoder
        from joeynmt.embeddings import Embeddings
        from joeynmt.encoders import RecurrentEncoder

        super().__init__()
        stack, vocab = facts.target.stack, facts.target.embed.vocab
        sizes = {"emb_size": stack.embedding, "hidden_size": stack.width, "rnn_type": "gru"}
        self.source, self.target = (
            Embeddings(stack.embedding, vocab_size=vocab, padding_idx=PAD) for _ in range(2)
        )
        self.encoder = RecurrentEncoder(**sizes, emb_dropout=stack.dropout)
        self.decoder = RecurrentDecoder(
            **sizes,
            encoder=self.encoder,
            attention="bahdanau",
            vocab_size=vocab,
            emb_dropout=stack.dropout,
            hidden_dropout=stack.dropout,
        )

    def forward(self, source_BL: Tensor, lengths_B: Tensor, written_BL: Tensor) -> Tensor:
        """Logits of the next token."""
        mask_B1L = (source_BL != PAD)[:, None]
        states, last = self.encoder(self.source(source_BL), lengths_B, mask_B1L)
        steps = written_BL.shape[1]
        return self.decoder(self.target(written_BL), states, last, mask_B1L, steps)[0]


def joey(facts: EncoderDecoder, device: torch.device, precision: Context = nullcontext) -> Step:
    """A step of JoeyNMT's trainer, its lengths staying on the host."""
    model = JoeyModel(facts).to(device).train()
    parameters = list(model.parameters())
    adam = torch.optim.Adam(
        parameters, lr=OPTIMISER.rate, betas=OPTIMISER.betas, eps=OPTIMISER.eps, fused=True
    )

    def step(pairs: Sequence[Pair]) -> Tensor:
        pairs = sorted(pairs, key=lambda pair: -len(pair[0]))
        lengths_B = torch.tensor([len(source) + 1 for source, _ in pairs])
        columns = (
            padded([np.append(source, EOS) for source, _ in pairs], PAD),
            padded([np.insert(target, 0, BOS) for _, target in pairs], PAD),
            padded([np.append(target, EOS) for _, target in pairs], IGNORED),
        )
        source, written, goals = (one.to(device, non_blocking=True) for one in columns)
        with precision():
            logits = model(source, lengths_B, written).flatten(0, 1)
        loss = cross_entropy(logits.float(), goals.flatten(), label_smoothing=0.1)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, OPTIMISER.clip)
        adam.step()
        adam.zero_grad()
        return loss.detach()

    return step


def find_joeynmt(wheel: str | None) -> bool:
    """Whether JoeyNMT can be imported, from a wheel if one is given.

    Of the packages that its layers do not need, those that are missing are replaced by mocks.
    """
    if wheel:
        sys.path.insert(0, wheel)
    if find_spec("joeynmt") is None:
        return False
    for name in UNUSED:
        try:
            import_module(name)
        except ImportError:
            sys.modules[name] = MagicMock()
    return True


def precision_of(name: str, device: torch.device) -> Context:
    """The context of forward passes; whether products may be in TF32 is set for the process."""
    torch.backends.cuda.matmul.allow_tf32 = name != "fp32"
    return (lambda: half(device)) if name == "bf16" else nullcontext


def packed(pairs: Sequence[Pair], limits: BatchLimits, draw: np.random.Generator) -> list:
    """regard's batches, shuffled."""
    lengths = np.array([[len(source) + 1, len(target) + 1] for source, target in pairs])
    batches = training_batches(lengths, limits)
    return [[pairs[at] for at in batches[number]] for number in draw.permutation(len(batches))]


def curves(facts: EncoderDecoder, batches: list, limits: BatchLimits, steps: int) -> None:
    """Print the losses of rectangles and of free shapes, and how far they are apart."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    facts, apart = change(facts, dropout=0.0), []
    both = ours(facts, limits, device), ours(facts, None, device)
    for number in range(steps):
        padded_loss, free_loss = (float(one(batches[number % len(batches)])) for one in both)
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
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=100, help="begin no round after these")
    parser.add_argument("--curves", type=int, help="print so many losses of both forms instead")
    parser.add_argument("--tiny", action="store_true", help="a few steps of a very small model")
    asked = parser.parse_args()
    facts = change(FACTS, **TINY) if asked.tiny else FACTS
    if asked.tiny:
        asked.data, asked.pairs, asked.tokens, asked.rounds = None, 64, 256, 2
    draw, vocab = np.random.default_rng(1), facts.target.embed.vocab
    pairs = multi30k(asked.data, asked.pairs) if asked.data else None
    compare(facts, pairs or random_pairs(asked.pairs, vocab, draw), asked)


def compare(facts: EncoderDecoder, pairs: list[Pair], asked: argparse.Namespace) -> None:
    """Let the systems take turns over one corpus."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    draw, limits = np.random.default_rng(1), RectangleLimits(asked.tokens, ROWS, LONGEST)
    precision = precision_of(asked.precision, device)
    batches = packed(pairs, limits, draw)
    if asked.curves:
        curves(facts, batches, limits, asked.curves)
        return
    buckets = bucketed(pairs, asked.tokens, draw)
    built: dict[str, Callable[[], tuple[Step, list]]] = {
        "regard": lambda: (ours(facts, limits, device, precision), batches),
        "regard, eager": lambda: (ours(facts, None, device, precision), batches),
    }
    remarks = {"regard": {"parameters": count_parameters(facts.build())}}
    if find_joeynmt(asked.joeynmt):
        built["JoeyNMT"] = lambda: (joey(facts, device, precision), buckets)
        remarks["JoeyNMT"] = {
            "parameters": count_parameters(JoeyModel(facts)),
            "padding": round(padding(buckets), 3),
            "batches": len(buckets),
        }
    systems = {name: twice_warm(name, build) for name, build in built.items()}
    for name, more in remarks.items():
        systems[name].remarks.update(more)
    lengths = [(len(source) + 1, len(target) + 1) for source, target in pairs]
    tokens, flops = sum(map(sum, lengths)), facts.training_flops(lengths)
    print_speeds(systems, tokens, flops, asked.rounds, asked.seconds)
    shape = {"pairs": len(pairs), "tokens": tokens, "batches": len(batches)}
    print(json.dumps({**shape, "precision": asked.precision, **setting()}))


def twice_warm(name: str, build: Callable[[], tuple[Step, list]]) -> System:
    """A system after two rounds: steps are captured when their shape comes a second time."""
    system = warm_up(name, lambda: round_of(*build()))
    system.work()
    return system


if __name__ == "__main__":
    main()
