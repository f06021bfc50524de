"""Pre-training BERT by masked LM: tokens a second, regard against transformers in one run.

    python bench/pretrain_encoder.py [--size base] [--rows 64] [--length 512] [--rounds 5]
    python bench/pretrain_encoder.py --ragged
    python bench/pretrain_encoder.py --tiny [--ragged]      (does it run?)

Random tokens, 15% of them masked, dropout as in the paper, bf16 autocast, fused AdamW; systems take
turns, the median of the rounds counts. transformers' BertForMaskedLM runs as it comes (sdpa) and
compiled, and is given an attention mask, as every collator makes one. With --ragged rows have a
quarter to all of the length; regard packs them; the peer sorts them by length over the whole corpus
and pads batches of --rows to a multiple of 64, compiled layer by layer for any length; nobody drops
attention weights, which packed attention cannot. MFU counts what must be computed for real tokens
(logits only at masked positions), of 784 TFLOP/s measured and of 989 on the sheet.
"""

import argparse
import json
from collections.abc import Callable, Sequence

import numpy as np
import torch
from measure import compile_layers, half, print_speeds, round_of, setting, warm_up
from torch import Tensor
from torch.nn.functional import cross_entropy

from regard.ground.batch import IGNORED, BatchLimits, TokenRow
from regard.ground.pytree import move_tensor
from regard.models.facts import TrunkWithHeads, change
from regard.models.papers import bert
from regard.objectives.masked_lm import MaskedLM
from regard.objectives.rows import AnnotatedRow
from regard.objectives.sum import Sum
from regard.training.loop.microbatch import EagerStep, GraphedStep

RATE, MULTIPLE = 0.15, 64
Step = Callable[[list[AnnotatedRow]], Tensor]


def rows_of(
    count: int, length: int, vocab: int, ragged: bool, draw: np.random.Generator
) -> list[AnnotatedRow]:
    """Masked rows, longest first."""
    lengths = draw.integers(length // 4, length + 1, count) if ragged else [length] * count
    found = []
    for size in sorted(map(int, lengths), reverse=True):
        tokens = draw.integers(1_000, vocab, size).astype(np.int32)
        positions = np.sort(draw.choice(size, max(1, int(RATE * size)), replace=False))
        originals = tokens[positions].copy()
        tokens[positions] = 103
        row = TokenRow(tokens, np.zeros(size, dtype=np.int32))
        found.append(AnnotatedRow(row, {"mlm": positions}, {"mlm": originals}))
    return found


def packed(
    rows: Sequence[AnnotatedRow], limits: BatchLimits, draw: np.random.Generator
) -> list[list[AnnotatedRow]]:
    """Rows in random order, as many as fit a budget together, longest first."""
    batches: list[list[AnnotatedRow]] = [[]]
    for at in draw.permutation(len(rows)):
        together = [*batches[-1], rows[at]]
        if len(together) > limits.rows or sum(map(length, together)) > limits.tokens:
            batches.append([])
        batches[-1].append(rows[at])
    return [sorted(batch, key=length, reverse=True) for batch in batches]


def bucketed(
    rows: Sequence[AnnotatedRow], count: int, draw: np.random.Generator
) -> list[list[AnnotatedRow]]:
    """Batches of ``count`` rows of like length, in random order."""
    ordered = sorted(rows, key=length)
    starts = draw.permutation(range(0, len(rows), count))
    return [ordered[start : start + count] for start in starts]


def length(row: AnnotatedRow) -> int:
    """Its tokens."""
    return len(row.row.tokens)


def ours(facts: TrunkWithHeads, limits: BatchLimits, device: torch.device) -> Step:
    """regard: packed, compiled and captured, logits only at masked positions."""
    model, objective = facts.build().to(device).train(), MaskedLM()
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    forward = lambda batch: objective(model, batch)  # noqa: E731
    cuda = device.type == "cuda"
    plain = EagerStep(torch.compile(forward) if cuda else forward, lambda: half(device))
    micro = GraphedStep(plain, model) if cuda else plain

    def step(rows: list[AnnotatedRow]) -> Tensor:
        batch = objective.collate(rows, limits if cuda else None).to(device)
        loss = micro(batch, 1 / batch.weight).loss
        adam.step()
        adam.zero_grad(set_to_none=isinstance(micro, EagerStep))
        return loss / batch.weight

    return step


def theirs(facts: TrunkWithHeads, device: torch.device, *, compiled: bool, ragged: bool) -> Step:
    """transformers: padded, with a mask, logits everywhere."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(**bert.HF.config_of(facts), attn_implementation="sdpa")
    model = BertForMaskedLM(config).to(device).train()
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def loss_of(states: Tensor, goals: Tensor) -> Tensor:
        return cross_entropy(model.cls(states).flatten(0, 1), goals.flatten())

    def forward(goals: Tensor, **given: Tensor) -> Tensor:
        return loss_of(model.bert(**given).last_hidden_state, goals)

    if compiled and ragged:
        compile_layers(model.bert.encoder.layer)
        loss_of = torch.compile(loss_of, dynamic=True)
    elif compiled:
        forward = torch.compile(forward)

    def step(rows: list[AnnotatedRow]) -> Tensor:
        longest = max(map(length, rows))
        longest = -(-longest // MULTIPLE) * MULTIPLE if ragged else longest
        ids = np.zeros((len(rows), longest), dtype=np.int64)
        goals = np.full((len(rows), longest), IGNORED)
        mask = np.zeros((len(rows), longest), dtype=np.int64)
        for number, one in enumerate(rows):
            size = length(one)
            ids[number, :size], mask[number, :size] = one.row.tokens, 1
            goals[number, one.positions["mlm"]] = one.targets["mlm"]
        given = {"input_ids": ids, "goals": goals, "attention_mask": mask}
        batch = {name: move_tensor(torch.from_numpy(one), device) for name, one in given.items()}
        with half(device):
            loss = forward(**batch)
        loss.backward()
        adam.step()
        adam.zero_grad()
        return loss.detach()

    return step


def main() -> None:
    """Print one JSON line for each system, with regard's ratio to it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(bert.PAPER.sizes), default="base")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=100, help="begin no round after these")
    parser.add_argument("--steps", type=int, default=24, help="batches of --rows in the corpus")
    parser.add_argument("--ragged", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="a few steps of a very small model")
    asked = parser.parse_args()
    if asked.tiny:
        asked.size, asked.rows, asked.length, asked.rounds, asked.steps = "tiny", 4, 64, 2, 2
    torch.manual_seed(1)
    facts = Sum(MaskedLM()).fit(bert.PAPER.sizes[asked.size])
    compare(change(facts, attention_dropout=0.0) if asked.ragged else facts, asked)


def compare(facts: TrunkWithHeads, asked: argparse.Namespace) -> None:
    """Let the systems take turns over one corpus."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    draw, ragged = np.random.default_rng(1), asked.ragged
    corpus = rows_of(asked.rows * asked.steps, asked.length, facts.trunk.embed.vocab, ragged, draw)
    limits = BatchLimits(asked.rows * asked.length, asked.rows * (4 if ragged else 1), asked.length)
    own, others = packed(corpus, limits, draw), bucketed(corpus, asked.rows, draw)
    built: dict[str, tuple[Callable[[], Step], list[list[AnnotatedRow]]]] = {
        "regard": (lambda: ours(facts, limits, device), own),
        "transformers": (lambda: theirs(facts, device, compiled=False, ragged=ragged), others),
        "transformers, compiled": (
            lambda: theirs(facts, device, compiled=True, ragged=ragged),
            others,
        ),
    }
    systems = {}
    for name, (build, batches) in built.items():
        systems[name] = warm_up(name, lambda build=build, of=batches: round_of(build(), of))
        systems[name].remarks["batches"] = len(batches)
    lengths = list(map(length, corpus))
    masked = sum(len(row.positions["mlm"]) for row in corpus)
    needed = facts.training_flops([(one,) for one in lengths], {"mlm": masked})
    print_speeds(systems, sum(lengths), needed, asked.rounds, asked.seconds)
    print(json.dumps({"ragged": ragged, "padding": round(padding(others, ragged), 3), **setting()}))


def padding(batches: Sequence[Sequence[AnnotatedRow]], ragged: bool) -> float:
    """The share of the peer's batches that is no token."""
    multiple = MULTIPLE if ragged else 1
    lengths = [list(map(length, batch)) for batch in batches]
    area = sum(len(one) * -(-max(one) // multiple) * multiple for one in lengths)
    return 1 - sum(map(sum, lengths)) / area


if __name__ == "__main__":
    main()
