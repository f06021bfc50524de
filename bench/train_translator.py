"""Training a Transformer-base translator: real tokens a second, regard against its peers.

    python bench/train_translator.py [--tokens 16384] [--steps 64] [--rounds 5] [--seconds 100]
    python bench/train_translator.py --only regard          (for its memory)
    python bench/train_translator.py --curves 200
    python bench/train_translator.py --tiny                 (does it run?)

One corpus of as many pairs as fill --steps batches of regard, the same optimiser, dropout and
precision (bf16 autocast on CUDA, fp32 on a CPU). regard packs random batches. The peer is
transformers' Marian, eager and compiled layer by layer for any length, as a trainer feeds it: pairs
are sorted by length over the whole corpus, cut into batches of at most --tokens on either side,
padding included, and taken in random order. A round is the whole corpus, putting batches together
and sending them included; systems take turns. MFU counts what must be computed for real tokens, of
784 TFLOP/s measured and of 989 on the sheet. With --curves both begin with the same weights and
read the same batches, without dropout, and their losses are printed side by side.
"""

import argparse
import json
from collections.abc import Sequence

import numpy as np
import torch
from measure import (
    compile_layers,
    graphs,
    half,
    interval,
    of_peak,
    ratio,
    rounded,
    setting,
    take_turns,
)
from torch import Tensor

from regard.ground.batch import BatchLimits
from regard.models.build.encoder_decoder import EncoderDecoderModule
from regard.models.facts import change
from regard.models.papers import marian
from regard.models.papers.transformer import BASE
from regard.objectives.seq2seq import Seq2Seq
from regard.training.loop.microbatch import EagerStep, GraphedStep
from regard.weights.files import weights_of
from regard.weights.weight_map import Extras

VOCAB = 32_000
Pair = tuple[np.ndarray, np.ndarray]


def pairs_within(limits: BatchLimits, draw: np.random.Generator) -> list[Pair]:
    """Pairs of sentence-like lengths, sorted, that fill a budget on either side."""
    pairs: list[Pair] = []
    totals = np.zeros(2, dtype=int)
    while len(pairs) < limits.rows:
        source = int(np.clip(draw.normal(27, 12), 3, limits.longest - 1))
        target = int(np.clip(source + draw.normal(1, 4), 3, limits.longest - 1))
        totals += (source + 1, target + 1)
        if totals.max() > limits.tokens:
            break
        pairs.append((draw.integers(4, VOCAB, source), draw.integers(4, VOCAB, target)))
    return sorted(pairs, key=lambda pair: (-len(pair[0]), -len(pair[1])))


def bucketed(pairs: Sequence[Pair], tokens: int, draw: np.random.Generator) -> list[list[Pair]]:
    """Batches of pairs of like length, padded to at most ``tokens`` on either side, shuffled.

    Sorted by the longer side: of the usual keys it leaves the least padding.
    """
    batches: list[list[Pair]] = [[]]
    for pair in sorted(pairs, key=lambda pair: (max(map(len, pair)), len(pair[0]))):
        if (len(batches[-1]) + 1) * (max(map(len, pair)) + 1) > tokens:
            batches.append([])
        batches[-1].append(pair)
    return [batches[at] for at in draw.permutation(len(batches))]


def padding(batches: Sequence[Sequence[Pair]]) -> float:
    """The share of padded batches that is no token."""
    sides = [[len(pair[side]) + 1 for pair in batch] for batch in batches for side in (0, 1)]
    return 1 - sum(map(sum, sides)) / sum(len(side) * max(side) for side in sides)


class Ours:
    """regard: packed, on CUDA compiled and captured."""

    name = "regard"

    def __init__(self, device: torch.device, limits: BatchLimits, facts: dict):
        self.device, self.limits = device, limits if device.type == "cuda" else None
        self.model = change(BASE, vocab=VOCAB, **facts).build().to(device)
        self.objective = Seq2Seq(bos=1, eos=2)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=1e-4, fused=True)
        forward = lambda batch: self.objective(self.model, batch)  # noqa: E731
        cuda = device.type == "cuda"
        plain = EagerStep(torch.compile(forward) if cuda else forward, lambda: precision(device))
        self.micro = GraphedStep(plain, self.model) if cuda else plain

    def step(self, pairs: Sequence[Pair]) -> Tensor:
        """One update."""
        batch = self.objective.collate(pairs, self.limits).to(self.device)
        loss = self.micro(batch, 1 / batch.weight).loss
        loss = loss / batch.weight  # a new tensor: the next replay overwrites the old one
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=isinstance(self.micro, EagerStep))
        return loss


class Marian:
    """transformers: padded, eager or compiled for any length, fused attention and optimiser."""

    name = "transformers Marian"

    def __init__(self, device: torch.device, facts: dict, *, compiled: bool = False):
        from transformers import MarianConfig, MarianMTModel

        stack = change(BASE, **facts).source.stack
        self.device = device
        config = MarianConfig(
            vocab_size=VOCAB,
            d_model=stack.width,
            encoder_layers=stack.depth,
            decoder_layers=stack.depth,
            encoder_attention_heads=stack.heads,
            decoder_attention_heads=stack.heads,
            encoder_ffn_dim=stack.inner,
            decoder_ffn_dim=stack.inner,
            max_position_embeddings=512,
            pad_token_id=0,
            eos_token_id=2,
            decoder_start_token_id=1,
            scale_embedding=True,
            activation_function="relu",
            dropout=stack.dropout,
            attention_dropout=stack.attention_dropout,
            activation_dropout=stack.inner_dropout,
            attn_implementation="sdpa",
        )
        self.model = MarianMTModel(config).to(device).train()
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=1e-4, fused=True)
        if compiled:
            compile_layers(self.model.model.encoder.layers, self.model.model.decoder.layers)
            self._loss = torch.compile(self._loss, dynamic=True)

    def begin_as(self, ours: EncoderDecoderModule) -> None:
        """Take over these weights."""
        written = marian.HF.weights.write(weights_of(ours), Extras())
        self.model.load_state_dict(written, strict=False)
        self.model.tie_weights()

    def step(self, pairs: Sequence[Pair]) -> Tensor:
        """One update."""
        source = padded([np.append(source, 2) for source, _ in pairs], 0)
        mask = padded([np.ones(len(source) + 1, dtype=int) for source, _ in pairs], 0)
        goals = padded([np.append(target, 2) for _, target in pairs], -100)
        written = padded([np.insert(target, 0, 1) for _, target in pairs], 0)
        with precision(self.device):
            source, mask, written, goals = (
                one.to(self.device, non_blocking=True) for one in (source, mask, written, goals)
            )
            states = self.model.model(
                input_ids=source, attention_mask=mask, decoder_input_ids=written, use_cache=False
            ).last_hidden_state
            loss = self._loss(states, goals)
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad()
        return loss.detach()

    def _loss(self, states: Tensor, goals: Tensor) -> Tensor:
        logits = self.model.lm_head(states) + self.model.final_logits_bias
        return torch.nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), goals.flatten(), label_smoothing=0.1
        )


def padded(rows: Sequence[np.ndarray], fill: int) -> Tensor:
    """Rows as long as the longest, in memory that is sent without waiting."""
    table = np.full((len(rows), max(map(len, rows))), fill)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = row
    tokens = torch.from_numpy(table)
    return tokens.pin_memory() if torch.cuda.is_available() else tokens


def precision(device: torch.device) -> torch.autocast:
    """bf16 on CUDA; on a CPU fp32, in which curves can be compared."""
    return half(device) if device.type == "cuda" else torch.autocast("cpu", enabled=False)


def curves(device: torch.device, limits: BatchLimits, facts: dict, steps: int) -> None:
    """Print the losses of both, and how far they are apart."""
    torch.manual_seed(1)
    facts = {**facts, "halves": True, "dropout": 0.0}
    ours, theirs = Ours(device, limits, facts), Marian(device, facts)
    theirs.begin_as(ours.model)
    draw = np.random.default_rng(1)
    some = [
        pairs_within(limits, draw) for _ in range(8)
    ]  # few, so that there is something to learn
    apart = []
    for step in range(steps):
        losses = [float(system.step(some[step % len(some)])) for system in (ours, theirs)]
        apart.append(abs(losses[0] - losses[1]) / losses[1])
        if step % max(1, steps // 20) == 0 or step == steps - 1:
            print(json.dumps({"step": step, "regard": losses[0], "transformers": losses[1]}))
    print(json.dumps({"mean_relative_difference": float(np.mean(apart)), "largest": max(apart)}))


def main() -> None:
    """Print one JSON line for each system, with regard's ratio to it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=64, help="batches of regard in the corpus")
    parser.add_argument("--seconds", type=float, default=100, help="begin no round after these")
    parser.add_argument("--only", choices=["regard", "eager", "compiled"], help="one system")
    parser.add_argument("--curves", type=int, help="print so many losses of both instead")
    parser.add_argument("--small", action="store_true", help="a laptop-size model")
    parser.add_argument("--tiny", action="store_true", help="a few steps of a very small model")
    asked = parser.parse_args()
    facts = {"width": 256, "inner": 1_024, "depth": 3, "heads": 4} if asked.small else {}
    if asked.tiny:
        facts = {"width": 32, "inner": 64, "depth": 1, "heads": 2}
        asked.tokens, asked.steps, asked.rounds = min(asked.tokens, 512), 4, 2
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    limits = BatchLimits(asked.tokens, max(1, asked.tokens // 8), min(128, asked.tokens))
    if asked.curves:
        curves(device, limits, facts, asked.curves)
        return
    compare(device, limits, facts, asked)


def compare(
    device: torch.device, limits: BatchLimits, facts: dict, asked: argparse.Namespace
) -> None:
    """Let the systems take turns over one corpus."""
    draw = np.random.default_rng(1)
    ours = [pairs_within(limits, draw) for _ in range(asked.steps)]
    pairs = [pair for batch in ours for pair in batch]
    theirs = bucketed(pairs, limits.tokens, draw)
    lengths = [(len(source) + 1, len(target) + 1) for source, target in pairs]
    built = {
        "regard": lambda: (Ours(device, limits, facts), ours),
        "eager": lambda: (Marian(device, facts), theirs),
        "compiled": lambda: (Marian(device, facts, compiled=True), theirs),
    }
    working, compiled = {}, {}
    for name in [asked.only] if asked.only else built:
        before = graphs()
        system, batches = built[name]()
        working[name] = lambda step=system.step, batches=batches: [step(one) for one in batches]
        working[name]()  # compile and warm up
        compiled[name] = graphs() - before
    taken = take_turns(working, asked.rounds, limit=asked.seconds)
    real, needed = (
        sum(map(sum, lengths)),
        change(BASE, vocab=VOCAB, **facts).training_flops(lengths),
    )
    for name, seconds in taken.items():
        speed = interval([real / one for one in seconds])
        line = {"system": name if name == "regard" else f"{Marian.name}, {name}"}
        line |= {"tokens_per_second": rounded(speed, 0), "rounds": len(seconds)}
        line |= {"graphs": compiled[name]}
        line |= of_peak(needed / real * speed.median)
        if name != "regard":
            line |= {"padding": round(padding(theirs), 3), "batches": len(theirs)}
            if "regard" in taken:
                line["regard_over_it"] = rounded(ratio(seconds, taken["regard"]))
        print(json.dumps(line), flush=True)
    print(json.dumps({"peak_gb": peak(), "batches": len(ours), "pairs": len(pairs), **setting()}))


def peak() -> float | None:
    """Gigabytes of the GPU that were in use at most, by all systems together."""
    cuda = torch.cuda.is_available()
    return round(torch.cuda.max_memory_allocated() / 1e9, 1) if cuda else None


if __name__ == "__main__":
    main()
