"""Memory of a training step: the estimate of ``--dry-run --ranks``, and the measured peak.

    python bench/memory_estimate.py [--models bert-large gpt2-xl t5-3b]
    python bench/memory_estimate.py --models t5-3b --rows 4 --length 512
    python bench/memory_estimate.py --tiny                       (does it run?)

A few eager steps in bf16 autocast with fused AdamW, without dropout, each model in a process of its
own; the peak is ``torch.cuda.max_memory_allocated`` after the first step, when moments exist. With
``recomputed`` only the inputs of blocks are kept; ``shards`` are FSDP2 with one process. A line has
both figures in GiB and their ratio. On a CPU there is no peak.
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from corpus import blocks, masked_rows
from measure import Spec, add_options, emit, running, setting
from ours import annotated, training_step
from peers.common import System, device
from pretrain_gpt2 import OBJECTIVE as CAUSAL_LM
from pretrain_gpt2 import annotated as next_tokens
from sharded import built, sharded_step
from torch import nn

from regard.core.batch import Batch, BatchLimits
from regard.models.facts import change
from regard.models.heads import NextTokenHead
from regard.models.papers import bert, gpt2, t5
from regard.objectives.masked_lm import MaskedLM
from regard.objectives.seq2seq import Seq2Seq
from regard.objectives.sum import Sum
from regard.training.memory_estimate import GIB, StepShape, estimate_memory
from regard.training.recipe.tables import DistributedConfig

ADAMW = {"kind": "adamw", "rate": 1e-4, "clip": 1.0}
STEPS = 3
TINY = {"vocab": 1_200, "width": 32, "depth": 2, "heads": 2, "inner": 64}
ROWS = {"bert-large": (32, 512), "gpt2-xl": (8, 1024), "t5-3b": (8, 512)}
FORMS = ("plain", "recomputed", "shards")
Parts = tuple[nn.Module, Any, Any, Callable[[Any], Batch], StepShape]


def bert_large(rows: int, length: int, tiny: bool) -> Parts:
    """Masked LM: logits at 15% of the tokens."""
    facts = change(Sum(MaskedLM()).fit(bert.LARGE), dropout=0.0, attention_dropout=0.0)
    facts = change(facts, **TINY) if tiny else facts
    vocab, objective = facts.trunk.embed.vocab, MaskedLM()
    limits = BatchLimits(rows * length, rows, length)
    corpus = [*map(annotated, masked_rows(rows, length, vocab))]
    shape = StepShape(rows * length, objective.max_positions(limits), vocab, rows * length**2)
    return built(facts), objective, corpus, lambda batch: objective.collate(batch, limits), shape


def gpt2_xl(rows: int, length: int, tiny: bool) -> Parts:
    """Causal LM: logits at every token."""
    facts = change(gpt2.XL.with_heads(NextTokenHead()), dropout=0.0, attention_dropout=0.0)
    facts = change(facts, **TINY) if tiny else facts
    vocab, limits = facts.trunk.embed.vocab, BatchLimits(rows * length, rows, length)
    corpus = next_tokens(blocks(rows, length, vocab))
    shape = StepShape(rows * length, rows * length, vocab, rows * length**2)
    return built(facts), CAUSAL_LM, corpus, lambda batch: CAUSAL_LM.collate(batch, limits), shape


def t5_3b(rows: int, length: int, tiny: bool) -> Parts:
    """An encoder-decoder: as many tokens on each side, logits at those of the target."""
    facts = change(t5.SIZES["3b"], dropout=0.0)
    facts = change(facts, **TINY, key=16) if tiny else facts
    vocab, objective = facts.target.embed.vocab, Seq2Seq(0, 1)
    draw = np.random.default_rng(1)
    pairs = [tuple(draw.integers(3, vocab, (2, length - 1)).tolist()) for _ in range(rows)]
    limits = BatchLimits(rows * length, rows, length)
    shape = StepShape(rows * length, rows * length, vocab, rows * length**2)
    return built(facts), objective, pairs, lambda batch: objective.collate(batch, limits), shape


MODELS = {"bert-large": bert_large, "gpt2-xl": gpt2_xl, "t5-3b": t5_3b}


def measured(name: str, form: str, rows: int, length: int, tiny: bool) -> System:
    """Steps of a model, whose round returns the peak in GiB; the estimate is a remark."""
    place = device()
    model, objective, corpus, collate, shape = MODELS[name](rows, length, tiny)
    keys = {"kind": "fsdp" if form == "shards" else "ddp"}
    config = DistributedConfig(**keys, checkpoint_blocks=form == "recomputed")
    estimate = estimate_memory(model, shape, config, half=place.type == "cuda")
    if form == "plain":
        eager = {"compiles": False, "captures": False}
        step = training_step(model, objective, collate, ADAMW, place, **eager)
    else:
        options = {"divided": form == "shards", "recompute": form == "recomputed"}
        step, _ = sharded_step(model, objective, collate, ADAMW, place, compiles=False, **options)

    def work() -> list[float]:
        for number in range(STEPS):
            step(corpus)
            if not number and place.type == "cuda":
                torch.cuda.reset_peak_memory_stats()
        return [torch.cuda.max_memory_allocated() / GIB if place.type == "cuda" else 0.0]

    parts = {name: size.removesuffix(" GiB") for name, size in estimate.lines()}
    return System(work, {"estimate": estimate.total / GIB, "parts": parts})


def main() -> None:
    """Print one JSON line for each model and form."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--forms", nargs="*", choices=FORMS, default=list(FORMS))
    parser.add_argument("--rows", type=int, help="of a batch; those of each model")
    parser.add_argument("--length", type=int, help="of rows; that of each model")
    parser.add_argument("--tiny", action="store_true", help="very small models")
    add_options(parser, rounds=1, seconds=100)
    asked = parser.parse_args()
    for name in asked.models:
        rows, length = (2, 32) if asked.tiny else ROWS[name]
        rows, length = asked.rows or rows, asked.length or length
        for form in asked.forms:
            settings = {"rows": rows, "length": length, "tiny": asked.tiny}
            spec = Spec("memory_estimate:measured", {"name": name, "form": form, **settings})
            with running({name: spec}, asked) as workers:
                if name not in workers:
                    continue
                (peak,), remarks = workers[name].result, workers[name].remarks
                estimate = remarks["estimate"]
                figures = {"estimated_gib": round(estimate, 2), "measured_gib": round(peak, 2)}
                ratio = round(estimate / peak, 3) if peak else None
                parts = remarks["parts"]
                emit(asked, model=name, form=form, **figures, ratio=ratio, parts=parts, **settings)
                place = setting(workers)
    emit(asked, **place)


if __name__ == "__main__":
    main()
