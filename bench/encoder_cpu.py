"""BERT on a CPU, regard against transformers in the same run: sentences read, or a step of tuning.

    python bench/encoder_cpu.py [--size base] [--sentences 32] [--rounds 5] [--tune]

Random weights, the same in both, sentences of mixed length (a mean of 21 tokens, as in SST-2 and
its like). transformers pads to the longest; its fp32 is the measure of all. With --tune a step of
fine-tuning instead: forward, backward and AdamW of 16 sentences, against transformers under bf16
autocast; it drops attention weights, which regard's recipes leave out. Systems take turns, the
median of the rounds counts.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from regard.ground.batch import Packed, Row, pack_rows
from regard.models import bert
from regard.models import folder as folders
from regard.models.facts import EncoderFacts, Head, change
from regard.objectives.labelled import Labelled
from regard.parts.linear.engine import engine
from regard.training.micro import Plain

Step = Callable[[], Tensor]


def sentences(count: int, vocab: int, draw: np.random.Generator) -> list[Row]:
    """Rows of ids, longest first; their lengths are those of sentences."""
    lengths = np.clip(draw.gamma(2.4, 8.5, count) + 3, 5, 64).astype(int)
    rows = [draw.integers(5, vocab, length) for length in sorted(lengths, reverse=True)]
    return [Row(row, np.zeros(len(row), dtype=np.int64)) for row in rows]


def padded(rows: list[Row]) -> dict[str, Tensor]:
    """What transformers reads."""
    longest = max(len(row.tokens) for row in rows)
    ids, mask = (torch.zeros(len(rows), longest, dtype=torch.int64) for _ in range(2))
    for number, row in enumerate(rows):
        ids[number, : len(row.tokens)] = torch.from_numpy(row.tokens)
        mask[number, : len(row.tokens)] = 1
    return {"input_ids": ids, "attention_mask": mask}


def reference(facts: EncoderFacts, module: nn.Module) -> nn.Module:
    """transformers' model with the same weights."""
    from transformers import AutoModel, AutoModelForSequenceClassification

    kind = AutoModel if facts.head is None else AutoModelForSequenceClassification
    with TemporaryDirectory() as folder:
        stored = folders.Stored(bert.PAPER, facts, module, None, {})
        folders.write(Path(folder), stored, "hf")
        return kind.from_pretrained(folder, local_files_only=True, attn_implementation="sdpa")


def reading(facts: EncoderFacts, rows: list[Row]) -> dict[str, Step]:
    """Each system's way to the pooled states of the rows."""
    module = bert.PAPER.build(facts).eval()
    theirs, inputs, read = reference(facts, module).eval(), padded(rows), pack_rows(rows)

    def ours(kind: str) -> Step:
        made = engine(module, kind)
        return lambda: _pooled(made, read)

    half = reference(facts, module).eval().bfloat16()
    return {
        "transformers fp32": lambda: theirs(**inputs).pooler_output,
        "transformers bf16": lambda: half(**inputs).pooler_output.float(),
        "regard fp32": ours("fp32"),
        "regard bf16": ours("bf16"),
        "regard int8": ours("int8"),
    }


def _pooled(module: nn.Module, read: Packed) -> Tensor:
    return module(read.tokens_T, read.layout).pooled_BD


def tuning(facts: EncoderFacts, rows: list[Row]) -> dict[str, Step]:
    """Each system's step, under bf16 autocast."""
    facts = change(facts, head=Head("classify", 2))
    module = bert.PAPER.build(change(facts, attention_dropout=0.0))
    theirs, inputs = reference(facts, module).train(), padded(rows)
    labels = torch.arange(len(rows)) % 2
    objective = Labelled()
    batch = objective.collate([(row, [int(one)]) for row, one in zip(rows, labels, strict=True)])
    micro = Plain(
        lambda batch: objective(module, batch), lambda: torch.autocast("cpu", torch.bfloat16)
    )
    optimisers = [torch.optim.AdamW(m.parameters(), lr=1e-6, fused=True) for m in (module, theirs)]
    module.train()

    def our_step() -> Tensor:
        loss, _ = micro(batch, 1 / len(rows))
        optimisers[0].step()
        optimisers[0].zero_grad()
        return loss / len(rows)

    def their_step() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            loss = theirs(**inputs, labels=labels).loss
        loss.backward()
        optimisers[1].step()
        optimisers[1].zero_grad()
        return loss.detach()

    return {"transformers bf16 autocast": their_step, "regard bf16 autocast": our_step}


def main() -> None:
    """Print one JSON line for each system."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(bert.PAPER.sizes), default="base")
    parser.add_argument("--sentences", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--tune", action="store_true", help="a step of fine-tuning instead")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    torch.manual_seed(1)
    facts = bert.PAPER.sizes[asked.size]
    count = asked.sentences or (16 if asked.tune else 32)
    rows = sentences(count, facts.embed.vocab, np.random.default_rng(1))
    systems = tuning(facts, rows) if asked.tune else reading(facts, rows)
    taken: dict[str, list[float]] = {name: [] for name in systems}
    said: dict[str, Tensor] = {}
    with torch.inference_mode(not asked.tune):
        for turn in range(asked.rounds + 1):  # the first warms up
            for name, step in systems.items():
                start = time.perf_counter()
                said[name] = step()
                if turn:
                    taken[name].append(time.perf_counter() - start)
    real = sum(len(row.tokens) for row in rows)
    first = next(iter(systems))
    for name, times in taken.items():
        line = {
            "system": name,
            "tokens_per_second": round(real / statistics.median(times)),
            "seconds": round(statistics.median(times), 4),
            "ratio": round(statistics.median(taken[first]) / statistics.median(times), 2),
        }
        if not asked.tune:
            alike = cosine_similarity(said[name], said[first]).min()
            line["lowest_cosine"] = round(float(alike), 6)
        print(json.dumps(line))


if __name__ == "__main__":
    main()
