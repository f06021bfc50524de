"""Training a Transformer-base translator: real tokens a second, regard against its peers.

    python bench/train_translator.py [--tokens 16384] [--rounds 5] [--only ours] [--small]
    python bench/train_translator.py --curves 200

Same pairs, same optimiser, bf16 autocast on CUDA (fp32 on a CPU), steps taken in turns; the median
of the rounds counts. The peer is transformers' Marian in its own way: rows sorted by length and
padded to the longest. With --curves both begin with the same weights and read the same batches,
without dropout, and their losses are printed side by side.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from regard.ground.batch import Budget
from regard.models import marian
from regard.models.facts import PairFacts, change
from regard.models.transformer import BASE, Transformer
from regard.objectives.translated import Translated
from regard.training.micro import Captured, Plain
from regard.weights.files import weights_of
from regard.weights.names import Beside

VOCAB = 32_000
Pair = tuple[np.ndarray, np.ndarray]


def pairs_within(budget: Budget, draw: np.random.Generator) -> list[Pair]:
    """Pairs of sentence-like lengths, sorted, that fill a budget on either side."""
    pairs: list[Pair] = []
    totals = np.zeros(2, dtype=int)
    while len(pairs) < budget.rows:
        source = int(np.clip(draw.normal(27, 12), 3, budget.longest - 1))
        target = int(np.clip(source + draw.normal(1, 4), 3, budget.longest - 1))
        totals += (source + 1, target + 1)
        if totals.max() > budget.tokens:
            break
        pairs.append((draw.integers(4, VOCAB, source), draw.integers(4, VOCAB, target)))
    return sorted(pairs, key=lambda pair: (-len(pair[0]), -len(pair[1])))


class Ours:
    """regard: packed, on CUDA compiled and captured."""

    name, which = "regard", "ours"

    def __init__(self, device: torch.device, budget: Budget, facts: dict):
        self.device, self.budget = device, budget if device.type == "cuda" else None
        self.model = Transformer(change(BASE, vocab=VOCAB, **facts)).to(device)
        self.objective = Translated(bos=1, eos=2)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=1e-4, fused=True)
        forward = lambda batch: self.objective(self.model, batch)  # noqa: E731
        cuda = device.type == "cuda"
        plain = Plain(torch.compile(forward) if cuda else forward, lambda: _precision(device))
        self.micro = Captured(plain, self.model) if cuda else plain

    def step(self, pairs: Sequence[Pair]) -> Tensor:
        """One update."""
        batch = self.objective.collate(pairs, self.budget).to(self.device)
        loss, _ = self.micro(batch, 1 / batch.weight)
        loss = loss / batch.weight  # a new tensor: the next replay overwrites the old one
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=isinstance(self.micro, Plain))
        return loss


class Marian:
    """transformers: sorted, padded, eager, fused attention and optimiser."""

    name, which = "transformers Marian", "theirs"

    def __init__(self, device: torch.device, budget: Budget, facts: dict):
        from transformers import MarianConfig, MarianMTModel

        stack = change(BASE, **facts).source.stack
        dropout = stack.dropout
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
            dropout=dropout,
            attn_implementation="sdpa",
        )
        self.model = MarianMTModel(config).to(device).train()
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=1e-4, fused=True)

    def begin_as(self, ours: Transformer, facts: PairFacts) -> None:
        """Take over these weights."""
        written = marian.names(facts).write(weights_of(ours), Beside())
        self.model.load_state_dict(written, strict=False)
        self.model.tie_weights()

    def step(self, pairs: Sequence[Pair]) -> Tensor:
        """One update."""
        source, mask = _padded([[*source, 2] for source, _ in pairs], 0, self.device)
        goals, _ = _padded([[*target, 2] for _, target in pairs], -100, self.device)
        written, _ = _padded([[1, *target] for _, target in pairs], 0, self.device)
        with _precision(self.device):
            logits = self.model(
                input_ids=source, attention_mask=mask, decoder_input_ids=written, use_cache=False
            ).logits
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1).float(), goals.flatten(), label_smoothing=0.1
            )
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad()
        return loss.detach()


def _padded(rows: list, fill: int, device: torch.device) -> tuple[Tensor, Tensor]:
    longest = max(map(len, rows))
    table = np.full((len(rows), longest), fill)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = row
    tokens = torch.from_numpy(table).to(device, non_blocking=True)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return tokens, (torch.arange(longest, device=device) < lengths[:, None]).long()


def _precision(device: torch.device):
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


def curves(device: torch.device, budget: Budget, facts: dict, steps: int) -> None:
    """Print the losses of both, and how far they are apart."""
    torch.manual_seed(1)
    facts = {**facts, "halves": True, "dropout": 0.0}
    ours, theirs = Ours(device, budget, facts), Marian(device, budget, facts)
    theirs.begin_as(ours.model, change(BASE, vocab=VOCAB, **facts))
    draw = np.random.default_rng(1)
    some = [
        pairs_within(budget, draw) for _ in range(8)
    ]  # few, so that there is something to learn
    apart = []
    for step in range(steps):
        losses = [float(system.step(some[step % len(some)])) for system in (ours, theirs)]
        apart.append(abs(losses[0] - losses[1]) / losses[1])
        if step % max(1, steps // 20) == 0 or step == steps - 1:
            print(json.dumps({"step": step, "regard": losses[0], "transformers": losses[1]}))
    print(json.dumps({"mean_relative_difference": float(np.mean(apart)), "largest": max(apart)}))


def measured(system: Ours | Marian, batches: list[list[Pair]]) -> float:
    """Seconds for all batches."""
    _settle()
    start = time.perf_counter()
    for batch in batches:
        system.step(batch)
    _settle()
    return time.perf_counter() - start


def _settle() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def main() -> None:
    """Print one JSON line for each system, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--only", choices=["ours", "theirs"], help="one system, for its memory")
    parser.add_argument("--curves", type=int, help="print so many losses of both instead")
    parser.add_argument("--small", action="store_true", help="a laptop-size model")
    asked = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    budget = Budget(asked.tokens, max(1, asked.tokens // 8), min(128, asked.tokens))
    facts = {"width": 256, "inner": 1_024, "depth": 3, "heads": 4} if asked.small else {}
    if asked.curves:
        curves(device, budget, facts, asked.curves)
        return
    draw = np.random.default_rng(1)
    batches = [pairs_within(budget, draw) for _ in range(asked.steps)]
    real = sum(len(s) + len(t) + 2 for batch in batches for s, t in batch)
    kinds = [kind for kind in (Ours, Marian) if asked.only in (None, kind.which)]
    systems = [kind(device, budget, facts) for kind in kinds]
    speeds: dict[str, list[float]] = {system.name: [] for system in systems}
    for system in systems:
        measured(system, batches)  # compile and warm up
    for _ in range(asked.rounds):
        for system in systems:
            speeds[system.name].append(real / measured(system, batches))
    for name, found in speeds.items():
        low, middle, high = (round(f(found)) for f in (min, statistics.median, max))
        print(json.dumps({"system": name, "tokens_per_second": middle, "low": low, "high": high}))
    medians = [statistics.median(found) for found in speeds.values()]
    cuda = device.type == "cuda"
    last = {
        "ratio": round(medians[0] / medians[-1], 2),
        "peak_gb": round(torch.cuda.max_memory_allocated() / 1e9, 1) if cuda else None,
        "torch": torch.__version__,
        "machine": torch.cuda.get_device_name() if cuda else platform.machine(),
    }
    print(json.dumps(last))


if __name__ == "__main__":
    main()
