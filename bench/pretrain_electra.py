"""Pre-training ELECTRA: tokens a second, regard against transformers' pieces in one run.

    python bench/pretrain_electra.py [--size small] [--rows 128] [--length 128] [--rounds 5]
    python bench/pretrain_electra.py --size base                 (64 rows of 512)
    python bench/pretrain_electra.py --peers eager compiled
    python bench/pretrain_electra.py --tiny                      (does it run?)

Random tokens, 15% of them masked, the generator of the paper, dropout as in the paper, bf16
autocast, gradients clipped to a norm of 1, fused AdamW; systems take turns, the median of the
rounds counts. transformers has the two models and not their training, so that ElectraForMaskedLM
and ElectraForPreTraining (sdpa) are joined as a careful user would: one set of embeddings, words
predicted at masked positions only, an attention mask, as every collator makes one. The pair runs as
it comes, compiled, and compiled and captured (mode="reduce-overhead"); --peers names some of these.
On a CPU it is traced only. MFU counts what must be computed for both models, of 784 TFLOP/s
measured and of 989 on the sheet.
"""

import argparse
import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from measure import half, print_speeds, round_of, setting, warm_up
from pretrain_encoder import Step, length, rows_of
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from regard.ground.batch import BatchLimits
from regard.ground.pytree import move_tensor
from regard.models.facts import Joint, TrunkWithHeads, change
from regard.models.papers import electra
from regard.objectives.replaced_tokens import ReplacedTokens
from regard.objectives.rows import AnnotatedRow
from regard.objectives.sum import Sum
from regard.training.loop.microbatch import EagerStep, GraphedStep
from regard.training.optim.optimiser import GraphedOptimiser, ModelOptimiser
from regard.training.recipe.tables import OptimiserConfig

ADAMW = OptimiserConfig(kind="adamw", rate=1e-4, betas=(0.9, 0.999), eps=1e-6, decay=0.01, clip=1.0)
WEIGHT = 50.0
PEERS = {"eager": None, "compiled": "default", "captured": "reduce-overhead"}  # modes of compiling


class Size(NamedTuple):
    """A discriminator, the share of it that its generator has, and a batch."""

    discriminator: TrunkWithHeads
    generator: float
    rows: int
    length: int


SMALLEST = {"vocab": 2_000, "depth": 2, "width": 32, "heads": 4, "inner": 64, "embedding_size": 16}
SIZES = {
    "small": Size(electra.SMALL, 1 / 4, 128, 128),
    "base": Size(electra.BASE, 1 / 3, 64, 512),
    "tiny": Size(change(electra.SMALL, **SMALLEST), 1 / 4, 4, 64),
}


def objective_of(size: Size) -> Sum:
    """Replaced tokens, with the generator of this size."""
    return Sum(ReplacedTokens(loss_weight=WEIGHT, generator_size=size.generator))


def joint(size: Size) -> Joint:
    """Both models."""
    objective = objective_of(size)
    return objective.extend(objective.fit(size.discriminator), electra.PAPER.fit_heads)


def ours(facts: Joint, objective: Sum, limits: BatchLimits, device: torch.device) -> Step:
    """regard, as it trains: packed; on CUDA, forward compiled, and all of a step captured."""
    model, cuda = facts.build().to(device).train(), device.type == "cuda"
    forward = lambda batch: objective(model, batch)  # noqa: E731
    plain = EagerStep(torch.compile(forward) if cuda else forward, lambda: half(device))
    micro = GraphedStep(plain, model) if cuda else plain
    optimiser = (GraphedOptimiser if cuda else ModelOptimiser)(model, ADAMW)

    def step(rows: list[AnnotatedRow]) -> Tensor:
        weights = sum(map(objective.weight, rows))
        batch = objective.collate(rows, limits if cuda else None).to(device)
        losses = micro(batch, 1 / weights).loss
        total = sum(loss / weight for loss, weight in zip(losses, weights.tolist(), strict=True))
        optimiser.step(1.0)
        optimiser.zero_grad()
        return total

    return step


class Pair(nn.Module):
    """transformers' generator and discriminator, joined by hand."""

    def __init__(self, facts: Joint):
        from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

        super().__init__()
        of_generator, of_discriminator = (
            ElectraConfig(**electra.HF.config_of(one), attn_implementation="sdpa")
            for one in (facts.generator, facts.discriminator)
        )
        self.generator = ElectraForMaskedLM(of_generator)
        self.discriminator = ElectraForPreTraining(of_discriminator)
        embeddings = self.discriminator.electra.embeddings
        self.generator.electra.embeddings = embeddings
        self.generator.generator_lm_head.weight = embeddings.word_embeddings.weight

    def forward(self, ids: Tensor, mask: Tensor, positions: Tensor, originals: Tensor) -> Tensor:
        """The loss: as many ``positions`` are masked in every row, so that shapes are fixed."""
        states = self.generator.electra(input_ids=ids, attention_mask=mask).last_hidden_state
        masked = states.gather(1, positions[..., None].expand(-1, -1, states.shape[-1]))
        predictions = self.generator.generator_predictions(masked)
        logits = self.generator.generator_lm_head(predictions).float()
        of_generator = cross_entropy(logits.flatten(0, 1), originals.flatten())
        read = ids.scatter(1, positions, drawn(logits))
        replaced = read != ids.scatter(1, positions, originals)
        states = self.discriminator.electra(input_ids=read, attention_mask=mask).last_hidden_state
        scores = self.discriminator.discriminator_predictions(states).float()
        of_tokens = binary_cross_entropy_with_logits(
            scores, replaced.float(), weight=mask.float(), reduction="sum"
        )
        return of_generator + WEIGHT * of_tokens / mask.sum()


@torch.no_grad()
def drawn(logits: Tensor) -> Tensor:
    """A token from each softmax: the first of exponential clocks with these rates to ring."""
    return (logits.softmax(-1) / torch.empty_like(logits).exponential_()).argmax(-1)


def theirs(facts: Joint, device: torch.device, mode: str | None) -> Step:
    """transformers: with a mask; compiled if there is a ``mode`` to compile in."""
    pair = Pair(facts).to(device).train()
    parameters = list(pair.parameters())  # each once
    adam = torch.optim.AdamW(
        parameters,
        lr=ADAMW.rate,
        betas=ADAMW.betas,
        eps=ADAMW.eps,
        weight_decay=ADAMW.decay,
        fused=True,
    )
    forward = pair if mode is None else compiled(pair, device, mode)

    def step(rows: list[AnnotatedRow]) -> Tensor:
        batch = {name: move_tensor(one, device) for name, one in collated(rows).items()}
        with half(device):
            loss = forward(**batch)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, ADAMW.clip)
        adam.step()
        adam.zero_grad()
        return loss.detach().clone()  # CUDA graphs overwrite it

    return step


def compiled(pair: Pair, device: torch.device, mode: str) -> nn.Module:
    """The pair compiled as a whole; only traced where there is no GPU."""
    if device.type == "cuda":
        return torch.compile(pair, mode=mode)
    return torch.compile(pair, backend="aot_eager")


def collated(rows: Sequence[AnnotatedRow]) -> dict[str, Tensor]:
    """Rows of one length with as many masked positions each."""
    ids = np.stack([one.row.tokens for one in rows])
    given = {"ids": ids, "mask": np.ones_like(ids)}
    given["positions"] = np.stack([one.positions["mlm"] for one in rows])
    given["originals"] = np.stack([one.targets["mlm"] for one in rows])
    return {name: torch.from_numpy(one.astype(np.int64)) for name, one in given.items()}


def main() -> None:
    """Print one JSON line for each system, with regard's ratio to it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--rows", type=int, help="in a batch")
    parser.add_argument("--length", type=int, help="tokens in a row")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=100, help="begin no round after these")
    parser.add_argument("--steps", type=int, default=24, help="batches in the corpus")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--tiny", action="store_true", help="a few steps of a very small model")
    asked = parser.parse_args()
    if asked.tiny:
        asked.size, asked.rounds, asked.steps = "tiny", 2, 2
    size = SIZES[asked.size]
    size = size._replace(rows=asked.rows or size.rows, length=asked.length or size.length)
    torch.manual_seed(1)
    compare(size, asked)


def compare(size: Size, asked: argparse.Namespace) -> None:
    """Let the systems take turns over one corpus."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    facts, objective = joint(size), objective_of(size)
    vocab = facts.trunk.embed.vocab
    corpus = rows_of(size.rows * asked.steps, size.length, vocab, False, np.random.default_rng(1))
    batches = [corpus[at : at + size.rows] for at in range(0, len(corpus), size.rows)]
    limits = BatchLimits(size.rows * size.length, size.rows, size.length)
    built = {"regard": lambda: ours(facts, objective, limits, device)}
    for name in asked.peers:
        built[f"transformers, {name}"] = lambda mode=PEERS[name]: theirs(facts, device, mode)
    systems = {
        name: warm_up(name, lambda build=build: round_of(build(), batches))
        for name, build in built.items()
    }
    lengths = list(map(length, corpus))
    masked = sum(len(row.positions["mlm"]) for row in corpus)
    needed = facts.training_flops([(one,) for one in lengths], {"mlm": masked})
    print_speeds(systems, sum(lengths), needed, asked.rounds, asked.seconds)
    print(json.dumps({"size": asked.size, "rows": size.rows, "length": size.length, **setting()}))


if __name__ == "__main__":
    main()
