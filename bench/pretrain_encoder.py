"""Pre-training BERT by filling blanks: tokens a second, regard against transformers in one run.

    python bench/pretrain_encoder.py [--size base] [--rows 64] [--length 512] [--rounds 5]
    python bench/pretrain_encoder.py --ragged

Random tokens, 15% of them blanks, dropout as in the paper, bf16 autocast, fused AdamW; systems take
turns, the median of the rounds counts. transformers' BertForMaskedLM runs as it comes (sdpa) and
compiled. With --ragged rows have a quarter to all of the length, transformers pads them, and regard
goes without dropout on attention weights, which packed attention does not have. The share of the
machine (MFU) counts 6 operations for each weight and token and 12 × depth × width × length for
attention, of 784 TFLOP/s.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from regard.ground.batch import IGNORED, Budget, Row
from regard.models import bert
from regard.models.facts import EncoderFacts, change
from regard.objectives.masked import Blanked, Masked
from regard.training.micro import Captured, Plain

RATE, PEAK = 0.15, 784e12
Step = Callable[[list[Blanked]], Tensor]


def rows_of(
    count: int, length: int, vocab: int, ragged: bool, draw: np.random.Generator
) -> list[Blanked]:
    """Rows with blanks, longest first."""
    lengths = draw.integers(length // 4, length + 1, count) if ragged else [length] * count
    found = []
    for size in sorted(map(int, lengths), reverse=True):
        tokens = draw.integers(1_000, vocab, size).astype(np.int32)
        places = np.sort(draw.choice(size, max(1, int(RATE * size)), replace=False))
        words = tokens[places].copy()
        tokens[places] = 103
        found.append(Blanked(Row(tokens, np.zeros(size, dtype=np.int32)), places, words))
    return found


def ours(facts: EncoderFacts, budget: Budget, device: torch.device) -> Step:
    """regard: packed, compiled and captured, words only at blanks."""
    model, objective = bert.PAPER.build(facts).to(device).train(), Masked()
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    forward = lambda batch: objective(model, batch)  # noqa: E731
    cuda = device.type == "cuda"
    plain = Plain(torch.compile(forward) if cuda else forward, lambda: _half(device))
    micro = Captured(plain, model) if cuda else plain

    def step(rows: list[Blanked]) -> Tensor:
        batch = objective.collate(rows, budget if cuda else None).to(device)
        loss, _ = micro(batch, 1 / batch.weight)
        adam.step()
        adam.zero_grad(set_to_none=isinstance(micro, Plain))
        return loss / batch.weight

    return step


def theirs(facts: EncoderFacts, device: torch.device, *, compiled: bool) -> Step:
    """transformers: padded, words everywhere."""
    from transformers import BertConfig, BertForMaskedLM

    from regard.models.bert_folder import config_of

    config = BertConfig(**config_of(facts), attn_implementation="sdpa")
    model = BertForMaskedLM(config).to(device).train()
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    forward = torch.compile(model) if compiled else model

    def step(rows: list[Blanked]) -> Tensor:
        longest = max(len(one.row.tokens) for one in rows)
        ids = np.zeros((len(rows), longest), dtype=np.int64)
        goals = np.full((len(rows), longest), IGNORED)
        mask = np.zeros((len(rows), longest), dtype=np.int64)
        for number, one in enumerate(rows):
            size = len(one.row.tokens)
            ids[number, :size], mask[number, :size] = one.row.tokens, 1
            goals[number, one.places] = one.words
        given = {"input_ids": ids, "labels": goals}
        if mask.min() == 0:
            given["attention_mask"] = mask
        batch = {name: torch.from_numpy(one).to(device) for name, one in given.items()}
        with _half(device):
            loss = forward(**batch).loss
        loss.backward()
        adam.step()
        adam.zero_grad()
        return loss.detach()

    return step


def _half(device: torch.device) -> torch.autocast:
    return torch.autocast(device.type, torch.bfloat16)


def _settle() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def main() -> None:
    """Print one JSON line for each system."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(bert.PAPER.sizes), default="base")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="in a round")
    parser.add_argument("--ragged", action="store_true")
    asked = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(1)
    facts = change(bert.PAPER.sizes[asked.size], fills=True, pooled=False)
    draw = np.random.default_rng(1)
    shape = (asked.rows, asked.length, facts.embed.vocab, asked.ragged)
    batches = [rows_of(*shape, draw) for _ in range(asked.steps)]
    budget = Budget(asked.rows * asked.length, asked.rows, asked.length)
    own = change(facts, attention_dropout=0.0) if asked.ragged else facts
    systems: dict[str, Step] = {
        "transformers": theirs(facts, device, compiled=False),
        "transformers, compiled": theirs(facts, device, compiled=True),
        "regard": ours(own, budget, device),
    }
    taken: dict[str, list[float]] = {name: [] for name in systems}
    for turn in range(asked.rounds + 1):  # the first compiles and warms up
        for name, step in systems.items():
            _settle()
            start = time.perf_counter()
            for rows in batches:
                loss = step(rows)
            _settle()
            if turn:
                taken[name].append(time.perf_counter() - start)
            elif not torch.isfinite(loss):
                raise SystemExit(f"{name}: the loss is {float(loss)}")
    real = sum(len(one.row.tokens) for rows in batches for one in rows)
    weights, stack = bert.PAPER.parameters(facts), facts.stack
    each = 6 * weights + 12 * stack.depth * stack.width * asked.length
    speeds = {name: real / statistics.median(times) for name, times in taken.items()}
    for name, speed in speeds.items():
        line = {"system": name, "tokens_per_second": round(speed), "mfu": speed * each / PEAK}
        others = {f"over {one}": speeds["regard"] / s for one, s in speeds.items() if one != name}
        print(json.dumps({**line, **(others if name == "regard" else {})}))


if __name__ == "__main__":
    main()
