"""Pre-training GPT-2: tokens a second, regard against nanoGPT's manner and transformers in one run.

    python bench/pretrain_gpt2.py [--size small] [--rows 32] [--length 1024] [--rounds 7]
    python bench/pretrain_gpt2.py --peers plain compiled
    python bench/pretrain_gpt2.py --tiny                         (does it run?)

Random tokens in full rows, all of them predicted, no dropout, bf16 autocast, gradients clipped to a
norm of 1, fused AdamW that decays matrices; systems take turns, the median of the rounds counts.
All start with the same weights. The peers: "plain" is a GPT-2 in the manner of nanoGPT, compiled
(plain_gpt.py; its vocabulary is filled up to 50,304); "eager" and "compiled" are transformers'
GPT2LMHeadModel (sdpa). On a CPU peers are traced only. MFU counts what must be computed, of 784
TFLOP/s measured and of 989 on the sheet.
"""

import argparse
import copy
import json
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from measure import half, print_speeds, round_of, setting, training_step, warm_up
from plain_gpt import PlainGPT
from pretrain_encoder import Step
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.data.pretraining.row_plans import Passage
from regard.ground.batch import BatchLimits, TokenRow
from regard.ground.pytree import move_tensor
from regard.models.facts import TrunkWithHeads, change
from regard.models.papers import gpt2
from regard.objectives.causal_lm import CausalLM
from regard.objectives.rows import AnnotatedRow
from regard.objectives.sum import Sum
from regard.training.loop.microbatch import EagerStep, GraphedStep
from regard.training.optim.optimiser import GraphedOptimiser, ModelOptimiser
from regard.training.recipe.tables import OptimiserConfig
from regard.weights.files import weights_of
from regard.weights.weight_map import Extras

ADAMW = OptimiserConfig(kind="adamw", rate=6e-4, betas=(0.9, 0.95), eps=1e-8, decay=0.1, clip=1.0)
OBJECTIVE = Sum(CausalLM("blocks"))
TINY = {"vocab": 320, "width": 32, "depth": 2, "heads": 2, "inner": 128, "longest": 64}


def rows_of(count: int, length: int, vocab: int, draw: np.random.Generator) -> list[AnnotatedRow]:
    """Full rows of random tokens, each with the next one as its target."""
    segments, blocks = np.zeros(length, np.int32), draw.integers(vocab, size=(count, length + 1))
    passages = [Passage(TokenRow(block[:-1], segments), int(block[-1])) for block in blocks]
    return OBJECTIVE.annotator(None)(passages, np.arange(count), (1, 1))


def ours(model: nn.Module, limits: BatchLimits, device: torch.device) -> Step:
    """regard, as it trains: full rows; on CUDA, forward compiled, and all of a step captured."""
    model, cuda = model.to(device).train(), device.type == "cuda"
    forward = lambda batch: OBJECTIVE(model, batch)  # noqa: E731
    plain = EagerStep(torch.compile(forward) if cuda else forward, lambda: half(device))
    micro = GraphedStep(plain, model) if cuda else plain
    optimiser = (GraphedOptimiser if cuda else ModelOptimiser)(model, ADAMW)
    collate = lambda rows: OBJECTIVE.collate(rows, limits).to(device)  # noqa: E731
    return training_step(collate, micro, optimiser)


class TransformersLM(nn.Module):
    """transformers' GPT-2 and the mean loss of the next tokens."""

    def __init__(self, model: nn.Module, facts: TrunkWithHeads):
        from transformers import GPT2Config, GPT2LMHeadModel

        super().__init__()
        config = GPT2Config(**gpt2.HF.config_of(facts), attn_implementation="sdpa")
        self.model = GPT2LMHeadModel(config)
        weights = gpt2.HF.weights.write(weights_of(model), Extras())
        assert not self.model.load_state_dict(weights, strict=False).unexpected_keys
        self.model.tie_weights()

    def forward(self, tokens_BL: Tensor, targets_BL: Tensor) -> Tensor:
        logits_BLV = self.model(tokens_BL, use_cache=False).logits
        return cross_entropy(logits_BLV.flatten(0, 1), targets_BL.flatten())


def theirs(peer: nn.Module, device: torch.device, *, compiled: bool) -> Step:
    """A peer; compiled as a whole, or only traced where there is no GPU."""
    peer = peer.to(device).train()
    parameters = list(peer.parameters())  # each once
    matrices, vectors = ([p for p in parameters if (p.ndim >= 2) == two] for two in (True, False))
    groups = [
        {"params": matrices, "weight_decay": ADAMW.decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    adam = torch.optim.AdamW(groups, lr=ADAMW.rate, betas=ADAMW.betas, eps=ADAMW.eps, fused=True)
    backend = "inductor" if device.type == "cuda" else "aot_eager"
    forward = torch.compile(peer, backend=backend) if compiled else peer

    def step(rows: list[AnnotatedRow]) -> Tensor:
        columns = [one.row.tokens for one in rows], [one.targets[CausalLM.head] for one in rows]
        given = [move_tensor(torch.from_numpy(np.stack(one)), device) for one in columns]
        with half(device):
            loss = forward(*given)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, ADAMW.clip)
        adam.step()
        adam.zero_grad()
        return loss.detach()

    return step


class Peer(NamedTuple):
    """How it is called, how it is built from regard's model, and whether it is compiled."""

    name: str
    like: Callable[[nn.Module, TrunkWithHeads], nn.Module]
    compiled: bool


PEERS = {
    "plain": Peer("plain GPT-2, compiled", PlainGPT.like, compiled=True),
    "eager": Peer("transformers", TransformersLM, compiled=False),
    "compiled": Peer("transformers, compiled", TransformersLM, compiled=True),
}


def main() -> None:
    """Print one JSON line for each system, with regard's ratio to it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(gpt2.PAPER.sizes), default="small")
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=100, help="begin no round after these")
    parser.add_argument("--steps", type=int, default=12, help="batches of --rows in a round")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--tiny", action="store_true", help="a few steps of a very small model")
    asked = parser.parse_args()
    torch.manual_seed(1)
    facts = OBJECTIVE.fit(gpt2.PAPER.sizes[asked.size])
    if asked.tiny:
        facts = change(facts, **TINY)
        asked.rows, asked.length, asked.rounds, asked.steps = 4, 64, 2, 2
    compare(change(facts, dropout=0.0, attention_dropout=0.0), asked)


def compare(facts: TrunkWithHeads, asked: argparse.Namespace) -> None:
    """Let the systems take turns over the same rows."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    draw, vocab = np.random.default_rng(1), facts.trunk.embed.vocab
    corpus = rows_of(asked.rows * asked.steps, asked.length, vocab, draw)
    batches = [corpus[at : at + asked.rows] for at in range(0, len(corpus), asked.rows)]
    limits = BatchLimits(asked.rows * asked.length, asked.rows, asked.length)
    model = facts.build()
    built: dict[str, Callable[[], Step]] = {
        "regard": lambda: ours(copy.deepcopy(model), limits, device)
    }
    for name, like, compiled in (PEERS[one] for one in asked.peers):
        built[name] = lambda like=like, compiled=compiled: theirs(
            like(model, facts), device, compiled=compiled
        )
    systems = {
        name: warm_up(name, lambda build=build: round_of(build(), batches))
        for name, build in built.items()
    }
    tokens = len(corpus) * asked.length
    needed = facts.training_flops([(asked.length,)] * len(corpus))
    print_speeds(systems, tokens, needed, asked.rounds, asked.seconds)
    shape = {"size": asked.size, "rows": asked.rows, "length": asked.length}
    print(json.dumps({**shape, **setting()}))


if __name__ == "__main__":
    main()
