"""Pre-training XLNet by permutation LM: tokens a second, regard against transformers in one run.

    python bench/pretrain_xlnet.py [--size base] [--rows 32] [--length 512] [--memory 384]
    python bench/pretrain_xlnet.py --peers layers
    python bench/pretrain_xlnet.py --tiny [--memory 8]      (does it run?)

Random tokens in full rows, a sixth of them predicted in random orders, two segments, dropout as in
the paper, bf16 autocast, fused AdamW; systems take turns, the median of the rounds counts.
transformers' XLNetLMHeadModel is given the same orders as perm_mask and target_mapping, made on the
device; it runs as it comes ("eager"), with every layer compiled ("layers"), or as a whole
("compiled"). With --memory both attend to so many states of the batch before. MFU counts what must
be computed, without the memory.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from measure import half, print_speeds, round_of, setting, warm_up
from pretrain_encoder import Step
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from regard.data.pretraining.factorization import CONTEXT, FactorizationSampler
from regard.ground.batch import BatchLimits, TokenRow
from regard.ground.pytree import map_tensors, move_tensor
from regard.models.facts import TrunkWithHeads, change
from regard.models.papers import xlnet
from regard.objectives.permutation_lm import PermutationLM
from regard.objectives.rows import AnnotatedRow
from regard.objectives.sum import Sum
from regard.training.loop.microbatch import EagerStep, GraphedStep

HEAD = PermutationLM.head
PEERS = {
    "eager": "transformers",
    "layers": "transformers, layers compiled",
    "compiled": "transformers, compiled",
}
TINY = {"vocab": 1_000, "width": 32, "depth": 2, "heads": 2, "inner": 64}


def rows_of(count: int, length: int, vocab: int, draw: np.random.Generator) -> list[AnnotatedRow]:
    """Rows with orders and predicted tokens; the second half is another segment."""
    nothing, everything = np.zeros(vocab, bool), np.ones(vocab, bool)
    segments = (np.arange(length) >= length // 2).astype(np.int32)
    rows = [TokenRow(draw.integers(9, vocab, length), segments) for _ in range(count)]
    drawn = FactorizationSampler(nothing, everything).draw(rows, np.arange(count), (1,))
    return [
        AnnotatedRow(row._replace(orders=orders), {HEAD: at}, {HEAD: np.asarray(row.tokens)[at]})
        for row, (orders, at) in zip(rows, drawn, strict=True)
    ]


def ours(facts: TrunkWithHeads, limits: BatchLimits, memory: int, device: torch.device) -> Step:
    """regard: compiled and captured, the query stream at predicted tokens alone."""
    model, objective = facts.build().to(device).train(), Sum(PermutationLM(memory=memory))
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    forward = lambda batch: objective(model, batch)  # noqa: E731
    cuda = device.type == "cuda"
    plain = EagerStep(torch.compile(forward) if cuda else forward, lambda: half(device))
    micro = GraphedStep(plain, model) if cuda else plain
    state: Any = objective.initial_state(model, limits.rows) if memory else None

    def step(rows: list[AnnotatedRow]) -> Tensor:
        nonlocal state
        batch = replace(objective.collate(rows, limits).to(device), state=state)
        result = micro(batch, 1 / batch.weight)
        state = map_tensors(Tensor.detach, result.state)
        adam.step()
        adam.zero_grad(set_to_none=isinstance(micro, EagerStep))
        return result.loss / batch.weight

    return step


def theirs(facts: TrunkWithHeads, memory: int, device: torch.device, peer: str) -> Step:
    """transformers: masks of all pairs, and both streams at all positions in attention."""
    from transformers import XLNetConfig, XLNetLMHeadModel

    settings = xlnet.HF.config_of(facts) | {"mem_len": memory or None}
    model = XLNetLMHeadModel(XLNetConfig(**settings)).to(device).train()
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    if peer == "layers":
        for layer in model.transformer.layer:
            layer.compile()

    def forward(
        tokens_BL: Tensor, segments_BL: Tensor, order_BL: Tensor, at_BN: Tensor, mems: Any
    ) -> tuple[Tensor, Any]:
        context_BL = order_BL == CONTEXT
        seen_BLL = order_BL[:, None] < order_BL[:, :, None]
        seen_BLL = seen_BLL | (context_BL[:, None] & context_BL[:, :, None])
        outputs = model(
            tokens_BL,
            token_type_ids=segments_BL,
            perm_mask=(~seen_BLL).float(),
            target_mapping=one_hot(at_BN, tokens_BL.shape[1]).float(),
            mems=mems,
            use_mems=bool(memory),
        )
        goals_BN = tokens_BL.gather(1, at_BN)
        return cross_entropy(outputs.logits.flatten(0, 1), goals_BN.flatten()), outputs.mems

    run = torch.compile(forward) if peer == "compiled" else forward
    mems: Any = None

    def step(rows: list[AnnotatedRow]) -> Tensor:
        nonlocal mems
        if memory and mems is None:
            shape = memory, len(rows), facts.trunk.width
            mems = [torch.zeros(shape, device=device) for _ in range(facts.trunk.stack.depth)]
        columns = [[row.row[part] for row in rows] for part in range(3)]
        columns.append([row.positions[HEAD] for row in rows])
        given = [
            move_tensor(torch.from_numpy(np.stack(one).astype(np.int64)), device) for one in columns
        ]
        with half(device):
            loss, after = run(*given, mems)
        mems = [one.detach().float() for one in after] if memory else None
        loss.backward()
        adam.step()
        adam.zero_grad()
        return loss.detach()

    return step


def main() -> None:
    """Print one JSON line for each system, with regard's ratio to it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(xlnet.PAPER.sizes), default="base")
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--memory", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=100, help="begin no round after these")
    parser.add_argument("--steps", type=int, default=12, help="batches of --rows in a round")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--tiny", action="store_true", help="a few steps of a very small model")
    asked = parser.parse_args()
    torch.manual_seed(1)
    facts = xlnet.PAPER.sizes[asked.size]
    if asked.tiny:
        facts = change(facts, **TINY)
        asked.rows, asked.length, asked.rounds, asked.steps = 4, 32, 2, 2
    compare(Sum(PermutationLM()).fit(facts), asked)


def compare(facts: TrunkWithHeads, asked: argparse.Namespace) -> None:
    """Let the systems take turns over the same rows."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    draw, memory = np.random.default_rng(1), asked.memory
    corpus = rows_of(asked.rows * asked.steps, asked.length, facts.trunk.embed.vocab, draw)
    batches = [corpus[at : at + asked.rows] for at in range(0, len(corpus), asked.rows)]
    limits = BatchLimits(asked.rows * asked.length, asked.rows, asked.length)
    built: dict[str, Callable[[], Step]] = {
        "regard": lambda: ours(facts, limits, memory, device),
    }
    for peer in asked.peers if device.type == "cuda" else ["eager"]:
        built[PEERS[peer]] = lambda peer=peer: theirs(facts, memory, device, peer)
    systems = {
        name: warm_up(name, lambda build=build: round_of(build(), batches))
        for name, build in built.items()
    }
    tokens = len(corpus) * asked.length
    predicted = sum(len(row.positions[HEAD]) for row in corpus)
    needed = facts.training_flops([(asked.length,)] * len(corpus), {HEAD: predicted})
    print_speeds(systems, tokens, needed, asked.rounds, asked.seconds)
    shape = {"rows": asked.rows, "length": asked.length, "memory": memory}
    print(json.dumps({**shape, "predicted": predicted // len(corpus), **setting()}))


if __name__ == "__main__":
    main()
